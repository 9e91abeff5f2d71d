#pragma once

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
  [[nodiscard]] bool matches(const Entry& entry) const;

 private:
  api::Selector labels_;
  api::FieldSelector fields_;
  bool matches_all_ = true;
};

// Packs what selectors look at: uid, labels, and the selectable fields of the kind.
void index_object(const ResourceType& type, const json::Value& object, AttributesWriter& attributes);
// group/version in which objects of the type are stored.
[[nodiscard]] std::string storage_api_version(const ResourceType& type);

}  // namespace basalt::apiserver
