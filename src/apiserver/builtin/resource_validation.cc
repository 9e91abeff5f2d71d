#include "apiserver/builtin/resource_validation.h"

#include <algorithm>

#include "api/names.h"
#include "apiserver/builtin/pod_defaults.h"
#include "base/strings.h"

namespace basalt::apiserver {
namespace {

constexpr std::string_view kHugePages = "hugepages-";
constexpr std::string_view kNativeDomain = "kubernetes.io/";
constexpr std::string_view kQuantityPattern = "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

bool is_standard_for_containers(std::string_view name) {
  return name == "cpu" || name == "memory" || name == "ephemeral-storage" || name.starts_with(kHugePages);
}

// Those that only quotas, nodes and volumes know.
bool is_standard(std::string_view name) {
  constexpr std::string_view kOthers[] = {"storage",
                                          "requests.cpu",
                                          "requests.memory",
                                          "requests.storage",
                                          "limits.cpu",
                                          "limits.memory",
                                          "limits.ephemeral-storage",
                                          "requests.ephemeral-storage",
                                          "pods",
                                          "services",
                                          "replicationcontrollers",
                                          "resourcequotas",
                                          "secrets",
                                          "configmaps",
                                          "persistentvolumeclaims",
                                          "services.nodeports",
                                          "services.loadbalancers"};
  return is_standard_for_containers(name) || name.starts_with("requests.hugepages-") ||
         std::find(std::begin(kOthers), std::end(kOthers), name) != std::end(kOthers);
}

// Things that are counted, not measured.
bool is_whole(std::string_view name) {
  constexpr std::string_view kCounted[] = {"pods",
                                           "services",
                                           "replicationcontrollers",
                                           "resourcequotas",
                                           "secrets",
                                           "configmaps",
                                           "persistentvolumeclaims",
                                           "services.nodeports",
                                           "services.loadbalancers"};
  return is_extended_resource(name) || std::find(std::begin(kCounted), std::end(kCounted), name) != std::end(kCounted);
}

void check_huge_pages(std::string_view name, const api::Quantity& amount, const FieldPath& path, Causes& causes) {
  const auto page = api::Quantity::parse(name.substr(kHugePages.size()));
  if (page.ok() && page->value() > 0 && amount.value() % page->value() == 0) return;
  const std::string shown_amount = amount.canonical();
  causes.push_back(invalid_value(path.text(), base::quote(shown_amount),
                                 shown_amount + " is not positive integer multiple of " + std::string(name)));
}

struct Amounts {
  bool has_cpu_or_memory = false;
  bool has_huge_pages = false;
  void note(std::string_view name) {
    has_cpu_or_memory = has_cpu_or_memory || name == "cpu" || name == "memory";
    has_huge_pages = has_huge_pages || name.starts_with(kHugePages);
  }
};

void check_request_against_limit(std::string_view name, const api::Quantity& request, const json::Value* limit_value,
                                 const FieldPath& path, Causes& causes) {
  if (limit_value == nullptr) {
    if (!allows_overcommit(name)) {
      causes.push_back(required(path.text("limits"), "Limit must be set for non overcommitable resources"));
    }
    return;
  }
  const auto limit = api::Quantity::parse(limit_value->is_string() ? limit_value->as_string() : limit_value->to_text());
  if (!limit.ok() || request == *limit) return;
  const bool may_differ = allows_overcommit(name);
  if (may_differ && request < *limit) return;
  causes.push_back(invalid_value(path.text("requests"), base::quote(request.canonical()),
                                 std::string(may_differ ? "must be less than or equal to " : "must be equal to ") +
                                     std::string(name) + " limit of " + limit->canonical()));
}

void check_claims(const json::Array& used, std::span<const std::string_view> claims, const FieldPath& path,
                  Causes& causes) {
  for (std::size_t i = 0; i < used.size(); ++i) {
    const FieldPath at = path.index(i);
    const std::string_view name = text_at(used[i], "name");
    if (name.empty()) {
      causes.push_back(required(at.text()));
      continue;
    }
    const auto is_same = [&](const json::Value& other) { return other == used[i]; };
    if (std::find_if(used.begin(), used.begin() + static_cast<std::ptrdiff_t>(i), is_same) !=
        used.begin() + static_cast<std::ptrdiff_t>(i)) {
      causes.push_back(duplicate_value(at.text(), base::quote(name)));
    }
    if (std::find(claims.begin(), claims.end(), name) != claims.end()) continue;
    Cause cause = not_found_value(at.text(), name);
    cause.message += ": must be one of the names in pod.spec.resourceClaims";
    cause.message += claims.empty() ? " which is empty" : ": " + base::join(claims, ", ");
    causes.push_back(std::move(cause));
  }
}

bool is_positive(const json::Value& value) {
  if (value.is_string() && is_plain_quantity(value.as_string())) return !value.as_string().starts_with("0");
  const auto quantity = api::Quantity::parse(value.is_string() ? value.as_string() : value.to_text());
  return quantity.ok() && quantity->sign() > 0;
}

// Amounts that were canonicalised are equal if their texts are.
const json::Value* positive_at(const json::Value& container, std::string_view list, std::string_view name) {
  const json::Value* value = container.find_path({"resources", list, name});
  return value != nullptr && is_positive(*value) ? value : nullptr;
}

}  // namespace

bool is_native_resource(std::string_view name) {
  return name.find('/') == std::string_view::npos || name.find(kNativeDomain) != std::string_view::npos;
}

bool allows_overcommit(std::string_view name) { return is_native_resource(name) && !name.starts_with(kHugePages); }

bool is_extended_resource(std::string_view name) {
  if (is_native_resource(name) || name.starts_with("requests.")) return false;
  return api::is_qualified_name("requests." + std::string(name));
}

void check_container_resource_name(std::string_view name, const FieldPath& path, Causes& causes) {
  if (name == "cpu" || name == "memory") return;
  const std::size_t before = causes.size();
  check_qualified_name(name, path, causes);
  const bool is_qualified = causes.size() == before;
  if (name.find('/') == std::string_view::npos) {
    if (is_qualified && !is_standard(name)) {
      causes.push_back(
          invalid_value(path.text(), base::quote(name), "must be a standard resource type or fully qualified"));
    }
    if (!is_standard_for_containers(name)) {
      causes.push_back(invalid_value(path.text(), base::quote(name), "must be a standard resource for containers"));
    }
  } else if (!is_native_resource(name) && !is_extended_resource(name)) {
    causes.push_back(invalid_value(path.text(), base::quote(name), "doesn't follow extended resource name standard"));
  }
}

std::optional<api::Quantity> check_quantity(std::string_view resource, const json::Value& value, const FieldPath& path,
                                            Causes& causes) {
  const bool may_be_one = value.is_string() || value.is_number();
  auto quantity = may_be_one ? api::Quantity::parse(value.is_string() ? value.as_string() : value.to_text())
                             : Result<api::Quantity>(Error::make(Reason::InvalidInput, ""));
  if (!quantity.ok()) {
    causes.push_back(invalid_value(path.text(), shown(value),
                                   "quantities must match the regular expression " + std::string(kQuantityPattern)));
    return std::nullopt;
  }
  if (quantity->sign() < 0) {
    causes.push_back(
        invalid_value(path.text(), base::quote(quantity->canonical()), "must be greater than or equal to 0"));
  }
  if (resource != "cpu" && resource != "memory" && is_whole(resource) && quantity->milli_value() % 1000 != 0) {
    causes.push_back(invalid_value(path.text(), base::quote(quantity->canonical()), "must be an integer"));
  }
  return std::move(*quantity);
}

void check_resource_requirements(const json::Value& requirements, std::span<const std::string_view> claims,
                                 const FieldPath& path, Causes& causes) {
  const json::Object& limits = map_at(requirements, "limits");
  const json::Object& requests = map_at(requirements, "requests");
  const FieldPath limits_path = path.child("limits");
  const FieldPath requests_path = path.child("requests");
  Amounts amounts;
  for (const json::Member& limit : limits) {
    const FieldPath at = limits_path.key(limit.key);
    check_container_resource_name(limit.key, at, causes);
    const auto amount = check_quantity(limit.key, limit.value, at, causes);
    amounts.note(limit.key);
    if (amount && limit.key.starts_with(kHugePages)) check_huge_pages(limit.key, *amount, at, causes);
  }
  for (const json::Member& request : requests) {
    const FieldPath at = requests_path.key(request.key);
    check_container_resource_name(request.key, at, causes);
    const auto amount = check_quantity(request.key, request.value, at, causes);
    amounts.note(request.key);
    if (!amount) continue;
    const json::Value* limit = limits.find(request.key);
    // Most requests are spelled like their limits.
    if (limit == nullptr || *limit != request.value) {
      check_request_against_limit(request.key, *amount, limit, path, causes);
    }
    if (request.key.starts_with(kHugePages)) check_huge_pages(request.key, *amount, at, causes);
  }
  if (amounts.has_huge_pages && !amounts.has_cpu_or_memory) {
    causes.push_back(forbidden_field(path.text(), "HugePages require cpu or memory"));
  }
  check_claims(list_at(requirements, "claims"), claims, path.child("claims"), causes);
}

std::string_view qos_class(const json::Value& pod) {
  bool is_guaranteed = true;
  bool has_any = false;
  const json::Value* spec = pod.find("spec");
  if (spec == nullptr) return "BestEffort";
  const auto look_at = [&](const json::Value& holder) {
    for (const std::string_view name : {"cpu", "memory"}) {
      const json::Value* limit = positive_at(holder, "limits", name);
      const json::Value* request = positive_at(holder, "requests", name);
      has_any = has_any || limit != nullptr || request != nullptr;
      is_guaranteed = is_guaranteed && limit != nullptr && (request == nullptr || *request == *limit);
    }
  };
  if (member(*spec, "resources") != nullptr) {
    look_at(*spec);
  } else {
    for (const json::Value& container : list_at(*spec, "containers")) look_at(container);
    for (const json::Value& container : list_at(*spec, "initContainers")) look_at(container);
  }
  if (!has_any) return "BestEffort";
  return is_guaranteed ? "Guaranteed" : "Burstable";
}

}  // namespace basalt::apiserver
