#include "apiserver/builtin/kind_rules.h"

#include <algorithm>

#include "apiserver/builtin/fields.h"
#include "base/strings.h"

namespace basalt::apiserver {
namespace {

bool is_of_the_main_part(const json::Member& one) {
  return one.key != "metadata" && one.key != "status" && one.key != "apiVersion" && one.key != "kind";
}

std::string selected_text(const json::Value& object, const KindRules::Selectable& field) {
  const json::Value* at = &object;
  for (const std::string_view step : base::split(field.path, '.')) {
    at = at->find(step);
    if (at == nullptr || at->is_null()) return std::string(field.fallback);
  }
  return at->is_string() ? at->as_string() : at->to_text();
}

class RulesStrategy final : public GenericStrategy {
 public:
  explicit RulesStrategy(KindRules rules) : GenericStrategy(rules.has_status), rules_(std::move(rules)) {}

  void prune(json::Value& object, std::vector<std::string>*) const override { drop_empty(object); }

  void apply_defaults(json::Value& object) const override {
    if (rules_.defaults != nullptr) rules_.defaults(object);
  }

  void prepare_for_create(json::Value& object) const override {
    if (rules_.has_status && !rules_.creates_with_status) object.as_object().set("status", json::Object());
    if (rules_.prepare_create != nullptr) rules_.prepare_create(object);
  }

  void validate_create(const json::Value& object, Causes& causes) const override {
    if (rules_.validate != nullptr) rules_.validate(object, causes);
  }

  void validate_update(const json::Value& object, const json::Value& old, WritePart part,
                       Causes& causes) const override {
    if (part == WritePart::Status) {
      if (rules_.validate_status != nullptr) rules_.validate_status(object, old, causes);
      return;
    }
    if (rules_.validate_update != nullptr) rules_.validate_update(object, old, causes);
    if (rules_.validate != nullptr) rules_.validate(object, causes);
  }

  [[nodiscard]] bool raises_generation(const json::Value& object, const json::Value& old) const override {
    if (!rules_.has_generation) return false;
    auto now = object.as_object().begin();
    auto before = old.as_object().begin();
    const auto now_end = object.as_object().end();
    const auto before_end = old.as_object().end();
    while (true) {
      now = std::find_if(now, now_end, is_of_the_main_part);
      before = std::find_if(before, before_end, is_of_the_main_part);
      if (now == now_end || before == before_end) return (now == now_end) != (before == before_end);
      if (now->key != before->key || now->value != before->value) return true;
      ++now;
      ++before;
    }
  }

  [[nodiscard]] std::vector<std::pair<std::string, std::string>> selectable_fields(
      const json::Value& object) const override {
    std::vector<std::pair<std::string, std::string>> fields;
    for (const KindRules::Selectable& field : rules_.selectable) {
      std::string value = selected_text(object, field);
      if (!value.empty()) fields.emplace_back(std::string(field.path), std::move(value));
    }
    return fields;
  }

  [[nodiscard]] bool is_selectable(std::string_view field) const override {
    return std::any_of(rules_.selectable.begin(), rules_.selectable.end(),
                       [&](const KindRules::Selectable& one) { return one.path == field; });
  }

  [[nodiscard]] json::Array table_cells(const json::Value& object, std::span<const PrinterColumn> columns,
                                        api::Time now) const override {
    if (rules_.cells != nullptr) return rules_.cells(object, now);
    return GenericStrategy::table_cells(object, columns, now);
  }

 private:
  KindRules rules_;
};

}  // namespace

std::shared_ptr<const Strategy> make_strategy(KindRules rules) {
  return std::make_shared<RulesStrategy>(std::move(rules));
}

}  // namespace basalt::apiserver
