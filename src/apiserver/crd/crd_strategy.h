#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apiserver/crd/json_path.h"
#include "apiserver/crd/schema.h"
#include "apiserver/registry/generic_strategy.h"

namespace basalt::apiserver {

// Objects of one version of a CRD: everything by its compiled schema.
class CrdStrategy final : public GenericStrategy {
 public:
  struct Field {
    std::string name;  // as a field selector names it: "spec.queue"
    JsonPath path;
  };
  CrdStrategy(std::unique_ptr<const Schema> schema, bool has_status, std::vector<Field> selectable,
              std::vector<JsonPath> columns);

  [[nodiscard]] const Schema* schema() const override { return schema_.get(); }
  void prune(json::Value& object, std::vector<std::string>* unknown) const override;
  void apply_defaults(json::Value& object) const override;
  void validate_create(const json::Value& object, Causes& causes) const override;
  void validate_update(const json::Value& object, const json::Value& old, WritePart part,
                       Causes& causes) const override;
  [[nodiscard]] bool raises_generation(const json::Value& object, const json::Value& old) const override;
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> selectable_fields(
      const json::Value& object) const override;
  [[nodiscard]] bool is_selectable(std::string_view field) const override;
  [[nodiscard]] json::Array table_cells(const json::Value& object, std::span<const PrinterColumn> columns,
                                        api::Time now) const override;

 private:
  std::unique_ptr<const Schema> schema_;
  std::vector<Field> selectable_;
  std::vector<JsonPath> columns_;  // of all columns but the first, which is the name
};

}  // namespace basalt::apiserver
