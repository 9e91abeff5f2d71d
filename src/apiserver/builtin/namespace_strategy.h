#pragma once

#include "apiserver/registry/generic_strategy.h"

namespace basalt::apiserver {

// Namespaces: Active until deleted, then Terminating while spec.finalizers holds "kubernetes", which the controller of
// namespaces removes when nothing is left inside.
class NamespaceStrategy final : public GenericStrategy {
 public:
  NamespaceStrategy() : GenericStrategy(true) {}
  void apply_defaults(json::Value& object) const override;
  void prepare_for_create(json::Value& object) const override;
  void prepare_for_update(json::Value& object, const json::Value& old, WritePart part) const override;
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> selectable_fields(
      const json::Value& object) const override;
  [[nodiscard]] bool is_selectable(std::string_view field) const override { return field == "status.phase"; }
  [[nodiscard]] json::Array table_cells(const json::Value& object, std::span<const PrinterColumn> columns,
                                        api::Time now) const override;
  void mark_deleting(json::Value& object) const override;
  [[nodiscard]] bool holds_deletion(const json::Value& object) const override;
};

}  // namespace basalt::apiserver
