#include "apiserver/crd/schema_rules.h"

#include <algorithm>
#include <utility>

#include "apiserver/registry/errors.h"
#include "base/strings.h"

namespace basalt::apiserver {
namespace {

constexpr std::size_t kRulesMax = 200;
constexpr std::uint64_t kObjectCostMax = 10'000'000;
constexpr std::size_t kMessageBytesMax = 5120;
constexpr std::size_t kCausesMax = 100;

class AnyShape final : public cel::Shape {
 public:
  [[nodiscard]] const Shape* member(std::string_view) const override { return nullptr; }
  [[nodiscard]] const Shape* element() const override { return nullptr; }
};
const AnyShape kAnyShape{};

class SchemaShape final : public cel::Shape {
 public:
  explicit SchemaShape(const Schema& schema) : schema_(schema) {}

  [[nodiscard]] Reading reading() const override {
    if (schema_.type == Schema::Type::Number) return Reading::Double;
    if (schema_.type != Schema::Type::String) return Reading::Plain;
    if (schema_.format == "date-time") return Reading::Timestamp;
    if (schema_.format == "duration") return Reading::Duration;
    return schema_.format == "byte" ? Reading::Bytes : Reading::Plain;
  }

  [[nodiscard]] Type type() const override {
    if (schema_.int_or_string || schema_.preserve_unknown) return Type::Any;
    switch (schema_.type) {
      case Schema::Type::Object:
        if (schema_.additional_properties || schema_.any_additional_property) return Type::Map;
        return schema_.properties.empty() ? Type::Any : Type::Object;
      case Schema::Type::Array:
        return Type::List;
      case Schema::Type::String:
        return text_type();
      case Schema::Type::Integer:
        return Type::Int;
      case Schema::Type::Number:
        return Type::Double;
      case Schema::Type::Boolean:
        return Type::Bool;
      case Schema::Type::Any:
        break;
    }
    return Type::Any;
  }

  [[nodiscard]] const Shape* member(std::string_view name) const override {
    if (const Schema* child = schema_.property(name)) return child->shape.get();
    const bool is_common = name == "apiVersion" || name == "kind" || name == "metadata";
    return is_common && !schema_.additional_properties ? &kAnyShape : nullptr;
  }
  [[nodiscard]] const Shape* element() const override {
    if (schema_.items) return schema_.items->shape.get();
    return schema_.additional_properties ? schema_.additional_properties->shape.get() : nullptr;
  }
  [[nodiscard]] bool is_open() const override { return schema_.preserve_unknown; }

 private:
  [[nodiscard]] Type text_type() const {
    switch (reading()) {
      case Reading::Timestamp:
        return Type::Timestamp;
      case Reading::Duration:
        return Type::Duration;
      case Reading::Bytes:
        return Type::Bytes;
      case Reading::Plain:
      case Reading::Double:
        break;
    }
    return Type::String;
  }

  const Schema& schema_;
};

std::string_view type_word(const Schema& schema) {
  constexpr std::string_view kNames[] = {"", "object", "array", "string", "integer", "number", "boolean"};
  return kNames[static_cast<std::size_t>(schema.type)];
}

std::string said(const SchemaRule& rule) {
  return std::string(base::trim(rule.message.empty() ? rule.expression.text() : rule.message));
}

Cause complaint(const SchemaRule& rule, const std::string& path, const Schema& schema, std::string_view detail) {
  if (rule.reason == "FieldValueForbidden") return forbidden_field(path, detail);
  if (rule.reason == "FieldValueRequired") return required(path, detail);
  const std::string value = base::quote(type_word(schema));
  if (rule.reason == "FieldValueDuplicate") return duplicate_value(path, value);
  return invalid_value(path, value, detail);
}

// Why a rule could not be evaluated.
std::string failure_text(const SchemaRule& rule, const Error& error, bool out_of_cost) {
  if (out_of_cost) {
    return "'" + error.message +
           "': no further validation rules will be run due to call cost exceeds limit for rule: " + said(rule);
  }
  if (error.message.starts_with("no such overload")) {
    return "'" + error.message +
           "': call arguments did not match a supported operator, function or macro signature for " +
           "rule: " + said(rule);
  }
  return error.message + " evaluating rule: " + said(rule);
}

class RuleRun {
 public:
  explicit RuleRun(Causes& causes) : causes_(causes) {}

  void visit(const Schema& schema, const json::Value& value, const json::Value* old, const std::string& path) {
    if (!schema.has_rules || value.is_null()) return;
    if (schema.rules) run_all(schema, value, old, path);
    if (value.is_object()) {
      for (const json::Member& member : value.as_object()) {
        const Schema* child = schema.property(member.key);
        if (child == nullptr) child = schema.additional_properties.get();
        if (child == nullptr) continue;
        const json::Value* old_member = old == nullptr ? nullptr : old->find(member.key);
        visit(*child, member.value, old_member, path.empty() ? member.key : path + "." + member.key);
      }
    } else if (value.is_array() && schema.items) {
      const json::Array& items = value.as_array();
      for (std::size_t i = 0; i < items.size(); ++i) {
        visit(*schema.items, items[i], same_item(schema, items[i], old), path + "[" + std::to_string(i) + "]");
      }
    }
  }

 private:
  [[nodiscard]] bool is_over() const { return is_over_ || causes_.size() >= kCausesMax; }

  // The old element with the same keys. Elements of other lists cannot be told apart: rules about a change do not run.
  static const json::Value* same_item(const Schema& schema, const json::Value& item, const json::Value* old) {
    if (schema.list_type != Schema::ListType::Map || old == nullptr || !old->is_array()) return nullptr;
    for (const json::Value& candidate : old->as_array()) {
      const bool is_same = std::ranges::all_of(schema.list_map_keys, [&](const std::string& key) {
        const json::Value* a = item.find(key);
        const json::Value* b = candidate.find(key);
        return a != nullptr && b != nullptr && *a == *b;
      });
      if (is_same) return &candidate;
    }
    return nullptr;
  }

  void run_all(const Schema& schema, const json::Value& value, const json::Value* old, const std::string& path) {
    // What a write leaves as it was may break a rule that came later; rules about a change still see it.
    const bool is_unchanged = old != nullptr && value == *old;
    for (const SchemaRule& rule : schema.rules->list) {
      if (is_over()) return;
      if (is_unchanged && !rule.is_transition) continue;
      if (rule.is_transition && old == nullptr && !rule.optional_old_self) continue;
      run(schema, rule, value, old, path);
    }
  }

  void run(const Schema& schema, const SchemaRule& rule, const json::Value& value, const json::Value* old,
           const std::string& path) {
    cel::Value old_self = old == nullptr ? cel::Value() : cel::Value::of(*old, schema.shape.get());
    if (rule.optional_old_self) {
      auto inner = old == nullptr ? nullptr : std::make_shared<const cel::Value>(std::move(old_self));
      old_self = cel::Value(cel::Value::Data(cel::Optional{std::move(inner)}));
    }
    const cel::Value values[] = {cel::Value::of(value, schema.shape.get()), std::move(old_self)};
    cel::Cost cost(std::min(left_, cel::Cost::kExpressionMax));
    const auto result = rule.expression.evaluate(values, cost);
    left_ -= cost.spent();
    if (cost.is_exceeded() && left_ == 0) {
      is_over_ = true;
      causes_.push_back(
          invalid_value(path, base::quote(type_word(schema)),
                        "validation failed due to running out of cost budget, no further validation rules "
                        "will be run"));
      return;
    }
    if (!result.ok()) {
      is_over_ = cost.is_exceeded();
      causes_.push_back(
          invalid_value(path, base::quote(type_word(schema)), failure_text(rule, result.error(), cost.is_exceeded())));
      return;
    }
    const bool* holds = result->get<bool>();
    if (holds != nullptr && *holds) return;
    causes_.push_back(complaint(rule, path + rule.field_path, schema, message_of(rule, values)));
  }

  std::string message_of(const SchemaRule& rule, std::span<const cel::Value> values) {
    if (rule.message_expression) {
      cel::Cost cost(std::min(left_, cel::Cost::kExpressionMax));
      const auto result = rule.message_expression->evaluate(values, cost);
      left_ -= cost.spent();
      const auto* text = result.ok() ? result->get<cel::Text>() : nullptr;
      // A text that cannot be shown in one line is as good as none.
      const std::string_view trimmed = text == nullptr ? std::string_view() : base::trim(text->view);
      const bool is_usable =
          !trimmed.empty() && trimmed.size() <= kMessageBytesMax && trimmed.find('\n') == trimmed.npos;
      if (is_usable) return std::string(trimmed);
    }
    return rule.message.empty() ? "failed rule: " + said(rule) : said(rule);
  }

  Causes& causes_;
  std::uint64_t left_ = kObjectCostMax;
  bool is_over_ = false;
};

// Compiles one expression of a rule and complains about what it gives.
std::optional<cel::Expression> compile_one(const std::string& text, std::string_view wanted_type,
                                           std::span<const cel::Variable> variables, const std::string& path,
                                           Causes& causes) {
  auto compiled = cel::Expression::compile(text, variables);
  if (!compiled.ok()) {
    causes.push_back(invalid_value(path, base::quote(base::ellipsize(text, 500)),
                                   "compilation failed: " + compiled.error().message));
    return std::nullopt;
  }
  if (compiled->result_type() != "dyn" && compiled->result_type() != wanted_type) {
    causes.push_back(
        invalid_value(path, base::quote(base::ellipsize(text, 500)), "must evaluate to a " + std::string(wanted_type)));
    return std::nullopt;
  }
  return std::move(*compiled);
}

void compile_rule(const json::Value& source, const std::string& path, const Schema& schema, SchemaRules& rules,
                  Causes& causes) {
  const std::string text(source.string_at({"rule"}));
  if (base::trim(text).empty()) {
    causes.push_back(required(path + ".rule", "rule is not specified"));
    return;
  }
  const json::Value* optional = source.find("optionalOldSelf");
  const bool optional_old_self = optional != nullptr && *optional == json::Value(true);
  const cel::Variable variables[] = {{"self", schema.shape.get()},
                                     {"oldSelf", optional_old_self ? nullptr : schema.shape.get()}};
  auto expression = compile_one(text, "bool", variables, path + ".rule", causes);
  if (!expression) return;
  SchemaRule rule{.expression = std::move(*expression),
                  .message = std::string(source.string_at({"message"})),
                  .message_expression = std::nullopt,
                  .reason = std::string(source.string_at({"reason"})),
                  .field_path = std::string(source.string_at({"fieldPath"}))};
  rule.optional_old_self = optional_old_self;
  rule.is_transition = rule.expression.uses("oldSelf");
  if (const std::string message(source.string_at({"messageExpression"})); !message.empty()) {
    rule.message_expression = compile_one(message, "string", variables, path + ".messageExpression", causes);
  }
  constexpr std::string_view kReasons[] = {"FieldValueRequired", "FieldValueForbidden", "FieldValueInvalid",
                                           "FieldValueDuplicate"};
  if (!rule.reason.empty() && std::ranges::find(kReasons, rule.reason) == std::end(kReasons)) {
    causes.push_back(not_supported(path + ".reason", base::quote(rule.reason), kReasons));
  }
  if (!rule.field_path.empty() && !rule.field_path.starts_with(".") && !rule.field_path.starts_with("[")) {
    causes.push_back(invalid_value(path + ".fieldPath", base::quote(rule.field_path), "must begin with . or ["));
  }
  rules.list.push_back(std::move(rule));
}

bool has_rules_below(const Schema& schema) {
  const auto has = [](const std::unique_ptr<Schema>& child) { return child != nullptr && child->has_rules; };
  return has(schema.items) || has(schema.additional_properties) ||
         std::ranges::any_of(schema.properties, [&](const auto& entry) { return has(entry.second); });
}

}  // namespace

std::shared_ptr<const cel::Shape> shape_of(const Schema& schema) { return std::make_shared<const SchemaShape>(schema); }

void compile_rules(const json::Value& source, const std::string& path, Schema& schema, Causes& causes) {
  schema.has_rules = has_rules_below(schema);
  const json::Value* list = source.find("x-kubernetes-validations");
  if (list == nullptr || list->is_null()) return;
  const std::string at = path.empty() ? "x-kubernetes-validations" : path + ".x-kubernetes-validations";
  if (!list->is_array()) {
    causes.push_back(wrong_type(at, shown(*list), "must be an array"));
    return;
  }
  const json::Array& sources = list->as_array();
  if (sources.size() > kRulesMax) {
    causes.push_back(too_many(at, sources.size(), kRulesMax));
    return;
  }
  auto rules = std::make_shared<SchemaRules>();
  for (std::size_t i = 0; i < sources.size(); ++i) {
    compile_rule(sources[i], at + "[" + std::to_string(i) + "]", schema, *rules, causes);
  }
  schema.has_rules = schema.has_rules || !rules->list.empty();
  schema.rules = std::move(rules);
}

void validate_rules(const Schema& schema, const json::Value& object, const json::Value* old, Causes& causes) {
  if (schema.has_rules) RuleRun(causes).visit(schema, object, old, "");
}

}  // namespace basalt::apiserver
