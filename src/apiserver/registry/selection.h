#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "api/fields.h"
#include "api/labels.h"
#include "apiserver/registry/resource_type.h"
#include "apiserver/store/entry.h"
#include "base/result.h"

namespace basalt::apiserver {

// A label selector and a field selector together, matched against the attributes that writers packed beside objects.
class Selection {
 public:
  Selection() = default;
  static Result<Selection> parse(const ResourceType& type, std::string_view labels, std::string_view fields);
  [[nodiscard]] bool matches_all() const { return matches_all_; }
  // By what is known of the stored object: everything, unless needs_object().
  [[nodiscard]] bool matches(const Entry& entry) const;
  // Fields of a CRD with a converter are those of the version that is asked for, which the stored object need not have.
  [[nodiscard]] bool needs_object() const { return !object_fields_.is_everything(); }
  [[nodiscard]] bool matches_object(const json::Value& object) const;

 private:
  api::Selector labels_;
  api::FieldSelector fields_;
  api::FieldSelector object_fields_;
  std::shared_ptr<const Strategy> custom_;  // of a custom kind: reads fields that nobody packed
  bool matches_all_ = true;
};

// Packs what selectors look at: uid, labels, and the selectable fields of the kind.
void index_object(const ResourceType& type, const json::Value& object, AttributesWriter& attributes);
// group/version in which objects of the type are stored.
[[nodiscard]] std::string storage_api_version(const ResourceType& type);

}  // namespace basalt::apiserver
