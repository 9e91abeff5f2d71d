#include "api/node_fit.h"

#include <algorithm>
#include <optional>

#include "base/strings.h"

namespace basalt::api {
namespace {

bool fulfils(const core::NodeSelectorRequirement& requirement, std::optional<std::string_view> value) {
  const auto is_listed = [&] {
    return value && std::find(requirement.values.begin(), requirement.values.end(), *value) != requirement.values.end();
  };
  if (requirement.operator_ == "In") return is_listed();
  if (requirement.operator_ == "NotIn") return !is_listed();
  if (requirement.operator_ == "Exists") return value.has_value();
  if (requirement.operator_ == "DoesNotExist") return !value;
  if (requirement.operator_ != "Gt" && requirement.operator_ != "Lt") return false;
  if (!value || requirement.values.size() != 1) return false;
  const auto actual = base::parse_int64(*value);
  const auto bound = base::parse_int64(requirement.values[0]);
  return actual && bound && (requirement.operator_ == "Gt" ? *actual > *bound : *actual < *bound);
}

}  // namespace

bool tolerates(const std::vector<core::Toleration>& tolerations, std::string_view key, std::string_view value,
               std::string_view effect) {
  return std::any_of(tolerations.begin(), tolerations.end(), [&](const core::Toleration& toleration) {
    if (!toleration.effect.empty() && toleration.effect != effect) return false;
    if (!toleration.key.empty() && toleration.key != key) return false;
    if (toleration.operator_ == "Exists") return true;
    if (toleration.key.empty()) return false;
    if (toleration.operator_ == "Lt" || toleration.operator_ == "Gt") {
      const auto bound = base::parse_int64(toleration.value);
      const auto actual = base::parse_int64(value);
      return bound && actual && (toleration.operator_ == "Lt" ? *actual < *bound : *actual > *bound);
    }
    return toleration.value == value;
  });
}

bool holds(const core::NodeSelectorTerm& term, const core::NodeProjection& node) {
  if (term.match_expressions.empty() && term.match_fields.empty()) return false;
  for (const auto& requirement : term.match_expressions) {
    if (!fulfils(requirement, node.metadata.labels.find(requirement.key))) return false;
  }
  for (const auto& requirement : term.match_fields) {
    if (requirement.key != "metadata.name" || !fulfils(requirement, node.metadata.name.view())) return false;
  }
  return true;
}

}  // namespace basalt::api
