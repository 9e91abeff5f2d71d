#include "apiserver/policy/admission_values.h"

#include <algorithm>
#include <utility>

#include "apiserver/registry/errors.h"
#include "apiserver/webhook/webhook_caller.h"
#include "base/strings.h"

namespace basalt::apiserver {
namespace {

constexpr std::string_view kNames[] = {"object",          "oldObject", "request",  "authorizer",
                                       "namespaceObject", "params",    "variables"};
constexpr std::string_view kMessageNames[] = {"Object", "JSONPatch"};  // types; their values are never asked for
constexpr std::size_t kWebhookNames = 4;
constexpr std::size_t kParams = 5;
constexpr std::size_t kVariables = 6;

class AnyShape final : public cel::Shape {
 public:
  [[nodiscard]] const Shape* member(std::string_view) const override { return nullptr; }
  [[nodiscard]] const Shape* element() const override { return nullptr; }
};

// "variables": has the members that stand before, and no others.
class VariablesShape final : public cel::Shape {
 public:
  explicit VariablesShape(std::span<const std::string> names) : names_(names) {}
  [[nodiscard]] Type type() const override { return Type::Object; }
  [[nodiscard]] bool is_open() const override { return false; }
  [[nodiscard]] const Shape* element() const override { return nullptr; }
  [[nodiscard]] const Shape* member(std::string_view name) const override {
    return std::ranges::find(names_, name) == names_.end() ? nullptr : &any_;
  }

 private:
  const std::span<const std::string> names_;
  AnyShape any_;
};

cel::Value value_or_null(const json::Value* value) { return value == nullptr ? cel::Value() : cel::Value::of(*value); }

}  // namespace

Result<cel::Expression> compile_admission(std::string_view text, AdmissionNames names,
                                          std::span<const std::string> variables) {
  const VariablesShape shape(variables);
  std::vector<cel::Variable> known;
  for (const std::string_view name : kNames) known.push_back({name, name == "variables" ? &shape : nullptr});
  if (names == AdmissionNames::Webhook) known.resize(kWebhookNames);
  if (names == AdmissionNames::Mutation) {
    for (const std::string_view name : kMessageNames) known.push_back({name, nullptr});
  }
  return cel::Expression::compile(text, known);
}

AdmissionValues::AdmissionValues(ApiServer& server, const AdmissionRequest& request, const json::Value* object)
    : request_(review_request(request)) {
  if (!request.ns.empty()) {
    Store& store = server.store();
    if (const EntryRef entry = store.get(store.resource("/namespaces"), "", request.ns)) {
      if (auto parsed = json::Value::parse(*entry->object()); parsed.ok()) namespace_ = std::move(*parsed);
    }
  }
  values_ = {value_or_null(object),
             value_or_null(request.old_object),
             cel::Value::of(request_),
             authorizer_value(server, request),
             value_or_null(namespace_ ? &*namespace_ : nullptr),
             cel::Value(),
             cel::Value(),
             cel::Value(),
             cel::Value()};
}

void AdmissionValues::set_params(const json::Value* params) { values_[kParams] = value_or_null(params); }

void AdmissionValues::set_variables(cel::Value variables) { values_[kVariables] = std::move(variables); }

Done MatchConditions::add(std::string name, std::string_view expression, AdmissionNames names) {
  if (conditions_.size() >= kConditionsMax) {
    return Error::invalid_input("more than " + std::to_string(kConditionsMax) + " match conditions");
  }
  BASALT_TRY(cel::Expression compiled, compile_admission(expression, names));
  conditions_.push_back({std::move(name), std::move(compiled)});
  return Ok{};
}

Result<bool> MatchConditions::hold(const AdmissionValues& values, cel::Cost& cost) const {
  std::optional<Error> failure;
  for (const Condition& condition : conditions_) {
    const auto result = condition.expression.evaluate(values.values(), cost);
    const bool* holds = result.ok() ? result->get<bool>() : nullptr;
    if (holds != nullptr) {
      if (!*holds) return false;
      continue;
    }
    if (failure) continue;
    const std::string why = result.ok() ? "it does not evaluate to a bool" : result.error().message;
    failure = Error::invalid_input("match condition " + base::quote(condition.name) + ": expression '" +
                                   condition.expression.text() + "' resulted in error: " + why);
  }
  if (failure) return std::move(*failure);
  return true;
}

void check_match_conditions(const json::Value& owner, const std::string& path, AdmissionNames names, Causes& causes) {
  const json::Value* list = owner.find("matchConditions");
  if (list == nullptr || !list->is_array()) return;
  const json::Array& conditions = list->as_array();
  if (conditions.size() > MatchConditions::kConditionsMax) {
    causes.push_back(too_many(path, conditions.size(), MatchConditions::kConditionsMax));
    return;
  }
  std::vector<std::string_view> seen;
  for (std::size_t i = 0; i < conditions.size(); ++i) {
    const std::string at = path + "[" + std::to_string(i) + "]";
    const std::string_view name = conditions[i].string_at({"name"});
    if (name.empty()) causes.push_back(required(at + ".name"));
    if (!name.empty() && std::ranges::find(seen, name) != seen.end()) {
      causes.push_back(duplicate_value(at + ".name", base::quote(name)));
    }
    seen.push_back(name);
    const std::string_view text = conditions[i].string_at({"expression"});
    if (base::trim(text).empty()) {
      causes.push_back(required(at + ".expression"));
      continue;
    }
    const auto compiled = compile_admission(text, names);
    const bool gives_bool = compiled.ok() && (compiled->result_type() == "bool" || compiled->result_type() == "dyn");
    if (gives_bool) continue;
    causes.push_back(
        invalid_value(at + ".expression", base::quote(base::ellipsize(text, 500)),
                      compiled.ok() ? "must evaluate to bool" : "compilation failed: " + compiled.error().message));
  }
}

}  // namespace basalt::apiserver
