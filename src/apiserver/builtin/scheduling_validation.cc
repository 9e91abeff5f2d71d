// Where a pod may run: affinity, tolerations, spreading; and what nodes keep away with: taints.

#include <algorithm>

#include "api/names.h"
#include "apiserver/builtin/pod_validation.h"
#include "base/strings.h"

namespace basalt::apiserver {
namespace {

constexpr std::string_view kEffects[] = {"NoSchedule", "PreferNoSchedule", "NoExecute"};
constexpr std::string_view kRequired = "requiredDuringSchedulingIgnoredDuringExecution";
constexpr std::string_view kPreferred = "preferredDuringSchedulingIgnoredDuringExecution";

void check_weight(const json::Value& term, const FieldPath& path, Causes& causes) {
  const std::int64_t weight = int_at(term, "weight").value_or(0);
  if (weight >= 1 && weight <= 100) return;
  causes.push_back(invalid_value(path.text("weight"), std::to_string(weight), "must be in the range 1-100"));
}

void check_node_expression(const json::Value& expression, bool check_values, const FieldPath& path, Causes& causes) {
  const std::string_view op = text_at(expression, "operator");
  const json::Array& values = list_at(expression, "values");
  if (op == "In" || op == "NotIn") {
    if (values.empty()) {
      causes.push_back(required(path.text("values"), "must be specified when `operator` is 'In' or 'NotIn'"));
    }
  } else if (op == "Exists" || op == "DoesNotExist") {
    if (!values.empty()) {
      causes.push_back(
          forbidden_field(path.text("values"), "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"));
    }
  } else if (op == "Gt" || op == "Lt") {
    if (values.size() != 1) {
      causes.push_back(required(path.text("values"), "must be specified single value when `operator` is 'Lt' or 'Gt'"));
    }
  } else {
    causes.push_back(invalid_value(path.text("operator"), base::quote(op), "not a valid selector operator"));
  }
  check_qualified_name(text_at(expression, "key"), path.child("key"), causes);
  if (!check_values) return;
  const FieldPath values_path = path.child("values");
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i].is_string()) check_label_value(values[i].as_string(), values_path.index(i), causes);
  }
}

void check_node_field(const json::Value& expression, const FieldPath& path, Causes& causes) {
  const std::string_view op = text_at(expression, "operator");
  const json::Array& values = list_at(expression, "values");
  if (op == "In" || op == "NotIn") {
    if (values.size() != 1) {
      causes.push_back(required(path.text("values"),
                                "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"));
    }
  } else {
    causes.push_back(invalid_value(path.text("operator"), base::quote(op), "not a valid selector operator"));
  }
  const std::string_view key = text_at(expression, "key");
  if (key != "metadata.name") {
    causes.push_back(invalid_value(path.text("key"), base::quote(key), "not a valid field selector key"));
    return;
  }
  const FieldPath values_path = path.child("values");
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i].is_string()) check_dns_subdomain(values[i].as_string(), values_path.index(i), causes);
  }
}

// A preferred term may name values that no label can have: it just never matches.
void check_node_term(const json::Value& term, bool check_values, const FieldPath& path, Causes& causes) {
  const FieldPath expressions_path = path.child("matchExpressions");
  const json::Array& expressions = list_at(term, "matchExpressions");
  for (std::size_t i = 0; i < expressions.size(); ++i) {
    check_node_expression(expressions[i], check_values, expressions_path.index(i), causes);
  }
  const FieldPath fields_path = path.child("matchFields");
  const json::Array& fields = list_at(term, "matchFields");
  for (std::size_t i = 0; i < fields.size(); ++i) check_node_field(fields[i], fields_path.index(i), causes);
}

void check_node_affinity(const json::Value& affinity, const FieldPath& path, Causes& causes) {
  if (const json::Value* selector = member(affinity, kRequired)) {
    validate_node_selector(*selector, path.child(kRequired), causes);
  }
  const FieldPath preferred_path = path.child(kPreferred);
  const json::Array& preferred = list_at(affinity, kPreferred);
  static const json::Value kNothing{json::Object()};
  for (std::size_t i = 0; i < preferred.size(); ++i) {
    const FieldPath at = preferred_path.index(i);
    check_weight(preferred[i], at, causes);
    const json::Value* term = member(preferred[i], "preference");
    check_node_term(term != nullptr ? *term : kNothing, false, at.child("preference"), causes);
  }
}

void check_pod_term(const json::Value& term, const FieldPath& path, Causes& causes) {
  for (const std::string_view name : {"labelSelector", "namespaceSelector"}) {
    if (const json::Value* selector = member(term, name)) check_label_selector(*selector, path.child(name), causes);
  }
  for (const json::Value& ns : list_at(term, "namespaces")) {
    if (ns.is_string()) check_dns_label(ns.as_string(), path.child("namespace"), causes);
  }
  const std::string_view key = text_at(term, "topologyKey");
  if (key.empty()) causes.push_back(required(path.text("topologyKey"), "can not be empty"));
  check_qualified_name(key, path.child("topologyKey"), causes);
}

void check_pod_affinity(const json::Value& affinity, const FieldPath& path, Causes& causes) {
  const FieldPath required_path = path.child(kRequired);
  const json::Array& terms = list_at(affinity, kRequired);
  for (std::size_t i = 0; i < terms.size(); ++i) check_pod_term(terms[i], required_path.index(i), causes);
  const FieldPath preferred_path = path.child(kPreferred);
  const json::Array& preferred = list_at(affinity, kPreferred);
  static const json::Value kNothing{json::Object()};
  for (std::size_t i = 0; i < preferred.size(); ++i) {
    const FieldPath at = preferred_path.index(i);
    check_weight(preferred[i], at, causes);
    const json::Value* term = member(preferred[i], "podAffinityTerm");
    check_pod_term(term != nullptr ? *term : kNothing, at.child("podAffinityTerm"), causes);
  }
}

void check_toleration_operator(const json::Value& toleration, const FieldPath& path, Causes& causes) {
  const std::string_view op = text_at(toleration, "operator");
  const std::string_view value = text_at(toleration, "value");
  if (op.empty() || op == "Equal") {
    const api::Complaints complaints = api::label_value_complaints(value);
    if (complaints.empty()) return;
    causes.push_back(invalid_value(path.text("operator"), base::quote(value), base::join(complaints, ";")));
  } else if (op == "Exists") {
    if (value.empty()) return;
    causes.push_back(
        invalid_value(path.text("operator"), base::quote(value), "value must be empty when `operator` is 'Exists'"));
  } else if (op == "Lt" || op == "Gt") {
    // Numeric comparison is behind a gate that is off by default.
    constexpr std::string_view kAll[] = {"Equal", "Exists", "Lt", "Gt"};
    causes.push_back(not_supported(path.text("operator"), base::quote(op), kAll));
  } else {
    constexpr std::string_view kOperators[] = {"Equal", "Exists"};
    causes.push_back(not_supported(path.text("operator"), base::quote(op), kOperators));
  }
}

}  // namespace

void validate_node_selector(const json::Value& selector, const FieldPath& path, Causes& causes) {
  const FieldPath terms_path = path.child("nodeSelectorTerms");
  const json::Array& terms = list_at(selector, "nodeSelectorTerms");
  if (terms.empty()) causes.push_back(required(terms_path.text(), "must have at least one node selector term"));
  for (std::size_t i = 0; i < terms.size(); ++i) check_node_term(terms[i], true, terms_path.index(i), causes);
}

void validate_affinity(const json::Value& affinity, const FieldPath& path, Causes& causes) {
  if (const json::Value* nodes = member(affinity, "nodeAffinity")) {
    check_node_affinity(*nodes, path.child("nodeAffinity"), causes);
  }
  for (const std::string_view name : {"podAffinity", "podAntiAffinity"}) {
    if (const json::Value* pods = member(affinity, name)) check_pod_affinity(*pods, path.child(name), causes);
  }
}

void validate_tolerations(const json::Array& tolerations, const FieldPath& path, Causes& causes) {
  for (std::size_t i = 0; i < tolerations.size(); ++i) {
    const json::Value& toleration = tolerations[i];
    const FieldPath at = path.index(i);
    const std::string_view key = text_at(toleration, "key");
    const std::string_view op = text_at(toleration, "operator");
    const std::string_view effect = text_at(toleration, "effect");
    if (!key.empty()) {
      check_qualified_name(key, at.child("key"), causes);
    } else if (op != "Exists") {
      causes.push_back(invalid_value(at.text("operator"), base::quote(op),
                                     "operator must be Exists when `key` is empty, which means \"match all values and "
                                     "all keys\""));
    }
    if (member(toleration, "tolerationSeconds") != nullptr && effect != "NoExecute") {
      causes.push_back(invalid_value(at.text("effect"), base::quote(effect),
                                     "effect must be 'NoExecute' when `tolerationSeconds` is set"));
    }
    check_toleration_operator(toleration, at, causes);
    if (!effect.empty()) check_one_of(effect, at.child("effect"), kEffects, causes);
  }
}

void validate_taints(const json::Array& taints, const FieldPath& path, Causes& causes) {
  for (std::size_t i = 0; i < taints.size(); ++i) {
    const FieldPath at = path.index(i);
    const std::string_view key = text_at(taints[i], "key");
    const std::string_view effect = text_at(taints[i], "effect");
    check_qualified_name(key, at.child("key"), causes);
    const std::string_view value = text_at(taints[i], "value");
    if (const api::Complaints complaints = api::label_value_complaints(value); !complaints.empty()) {
      causes.push_back(invalid_value(at.text("value"), base::quote(value), base::join(complaints, ";")));
    }
    check_one_of(effect, at.child("effect"), kEffects, causes);
    for (std::size_t j = 0; j < i; ++j) {
      if (text_at(taints[j], "key") != key || text_at(taints[j], "effect") != effect) continue;
      Cause cause = duplicate_value(at.text(), shown(taints[i]));
      cause.message += ": taints must be unique by key and effect pair";
      causes.push_back(std::move(cause));
      break;
    }
  }
}

void validate_topology_spread(const json::Array& constraints, const FieldPath& path, Causes& causes) {
  constexpr std::string_view kActions[] = {"DoNotSchedule", "ScheduleAnyway"};
  for (std::size_t i = 0; i < constraints.size(); ++i) {
    const json::Value& one = constraints[i];
    const FieldPath at = path.index(i);
    const std::string_view key = text_at(one, "topologyKey");
    const std::string_view action = text_at(one, "whenUnsatisfiable");
    if (const std::int64_t skew = int_at(one, "maxSkew").value_or(0); skew <= 0) {
      causes.push_back(invalid_value(at.text("maxSkew"), std::to_string(skew), "must be greater than zero"));
    }
    if (key.empty()) causes.push_back(required(at.text("topologyKey"), "can not be empty"));
    if (action != kActions[0] && action != kActions[1]) {
      causes.push_back(not_supported(at.text("whenUnsatisfiable"), base::quote(action), kActions));
    }
    for (std::size_t j = i + 1; j < constraints.size(); ++j) {
      if (text_at(constraints[j], "topologyKey") != key || text_at(constraints[j], "whenUnsatisfiable") != action) {
        continue;
      }
      causes.push_back(duplicate_value(at.text("{topologyKey, whenUnsatisfiable}"),
                                       base::quote("{" + std::string(key) + ", " + std::string(action) + "}")));
      break;
    }
    if (const auto domains = int_at(one, "minDomains")) {
      if (*domains <= 0) {
        causes.push_back(invalid_value(at.text("minDomains"), std::to_string(*domains), "must be greater than zero"));
      }
      if (action != "DoNotSchedule") {
        causes.push_back(
            invalid_value(at.text("minDomains"), std::to_string(*domains),
                          "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not " + std::string(action)));
      }
    }
    if (const json::Value* selector = member(one, "labelSelector")) {
      check_label_selector(*selector, at.child("labelSelector"), causes);
    }
  }
}

}  // namespace basalt::apiserver
