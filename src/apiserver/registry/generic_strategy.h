#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apiserver/registry/resource_type.h"

namespace basalt::apiserver {

// What most kinds have in common; a kind overrides what it does differently. Kinds with a status subresource keep their
// status through writes of the main part, and everything else through writes of the status.
class GenericStrategy : public Strategy {
 public:
  explicit GenericStrategy(bool has_status) : has_status_(has_status) {}

  void prune(json::Value& object, std::vector<std::string>* unknown) const override;
  void apply_defaults(json::Value& object) const override;
  void prepare_for_create(json::Value& object) const override;
  void prepare_for_update(json::Value& object, const json::Value& old, WritePart part) const override;
  void validate_create(const json::Value& object, Causes& causes) const override;
  void validate_update(const json::Value& object, const json::Value& old, WritePart part,
                       Causes& causes) const override;
  [[nodiscard]] bool raises_generation(const json::Value& object, const json::Value& old) const override;
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> selectable_fields(
      const json::Value& object) const override;
  [[nodiscard]] bool is_selectable(std::string_view field) const override;
  [[nodiscard]] json::Array table_cells(const json::Value& object, std::span<const PrinterColumn> columns,
                                        api::Time now) const override;
  [[nodiscard]] std::int64_t default_grace_seconds(const json::Value& object) const override;
  void mark_deleting(json::Value& object) const override;
  [[nodiscard]] bool holds_deletion(const json::Value& object) const override;

 protected:
  [[nodiscard]] bool has_status() const { return has_status_; }

 private:
  bool has_status_;
};

// A time as `kubectl get` shows it: how long ago it was ("5m30s"), "<unknown>" if there is none.
[[nodiscard]] json::Value age_cell(std::string_view timestamp, api::Time now);

}  // namespace basalt::apiserver
