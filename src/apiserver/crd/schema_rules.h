#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apiserver/crd/schema.h"
#include "cel/expression.h"
#include "json/value.h"

namespace basalt::apiserver {

// One of x-kubernetes-validations, compiled.
struct SchemaRule {
  cel::Expression expression;
  std::string message;
  std::optional<cel::Expression> message_expression;
  std::string reason;      // "" is FieldValueInvalid
  std::string field_path;  // below the value, ".a.b"; "" is the value itself
  bool is_transition = false;
  bool optional_old_self = false;
};

struct SchemaRules {
  std::vector<SchemaRule> list;
};

// How CEL reads what a schema describes. The schema lives longer.
[[nodiscard]] std::shared_ptr<const cel::Shape> shape_of(const Schema& schema);

// Compiles the rules of one schema whose children are complete. What is wrong is added to `causes`. At most 200 rules.
void compile_rules(const json::Value& source, const std::string& path, Schema& schema, Causes& causes);

// Evaluates the rules of a valid object, and those about a change if there is an old one. A rule may cost 1,000,000
// units and all of them 10,000,000, as in Kubernetes; the rules behind are not run then, which is a complaint itself.
void validate_rules(const Schema& schema, const json::Value& object, const json::Value* old, Causes& causes);

}  // namespace basalt::apiserver
