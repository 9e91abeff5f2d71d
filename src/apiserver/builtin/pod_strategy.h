#pragma once

#include <memory>

#include "apiserver/registry/generic_strategy.h"

namespace basalt::apiserver {

// Pods: Pending from the start, deleted gracefully once they are on a node, of a specification that hardly changes.
class PodStrategy final : public GenericStrategy {
 public:
  PodStrategy() : GenericStrategy(true) {}
  void prune(json::Value& object, std::vector<std::string>* unknown) const override;
  void apply_defaults(json::Value& object) const override;
  void prepare_for_create(json::Value& object) const override;
  void prepare_for_update(json::Value& object, const json::Value& old, WritePart part) const override;
  void validate_create(const json::Value& object, Causes& causes) const override;
  void validate_update(const json::Value& object, const json::Value& old, WritePart part,
                       Causes& causes) const override;
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> selectable_fields(
      const json::Value& object) const override;
  [[nodiscard]] bool is_selectable(std::string_view field) const override;
  [[nodiscard]] json::Array table_cells(const json::Value& object, std::span<const PrinterColumn> columns,
                                        api::Time now) const override;
  [[nodiscard]] std::int64_t default_grace_seconds(const json::Value& object) const override;
  [[nodiscard]] bool holds_deletion(const json::Value& object) const override;
};

[[nodiscard]] std::shared_ptr<const ResourceType> pod_type();

// One line of `kubectl get pods -o wide` (pod_columns.cc).
[[nodiscard]] json::Array pod_cells(const json::Value& pod, api::Time now);
[[nodiscard]] std::vector<PrinterColumn> pod_columns();

}  // namespace basalt::apiserver
