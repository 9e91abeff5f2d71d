#include "apiserver/builtin/misc_types.h"

#include <algorithm>

#include "apiserver/builtin/fields.h"
#include "apiserver/builtin/kind_rules.h"
#include "apiserver/builtin/resource_validation.h"
#include "apiserver/registry/generic_strategy.h"
#include "apiserver/registry/metadata.h"
#include "base/strings.h"

namespace basalt::apiserver {
namespace {

constexpr std::size_t kEndpointsShownMax = 3;

void default_endpoints(json::Value& endpoints) {
  json::Array* subsets = mutable_list(endpoints, "subsets");
  if (subsets == nullptr) return;
  for (json::Value& subset : *subsets) {
    json::Array* ports = mutable_list(subset, "ports");
    if (ports == nullptr) continue;
    for (json::Value& port : *ports) {
      if (port.is_object()) set_default_text(port.as_object(), "protocol", "TCP");
    }
  }
}

void validate_endpoints(const json::Value& endpoints, Causes& causes) {
  const json::Array& subsets = list_at(endpoints, "subsets");
  const FieldPath path("subsets");
  for (std::size_t i = 0; i < subsets.size(); ++i) {
    const FieldPath at = path.index(i);
    if (list_at(subsets[i], "addresses").empty() && list_at(subsets[i], "notReadyAddresses").empty()) {
      causes.push_back(required(at.text(), "must specify `addresses` or `notReadyAddresses`"));
    }
    const json::Array& ports = list_at(subsets[i], "ports");
    const FieldPath ports_path = at.child("ports");
    for (std::size_t j = 0; j < ports.size(); ++j) {
      const FieldPath port_path = ports_path.index(j);
      if (ports.size() > 1 && text_at(ports[j], "name").empty()) causes.push_back(required(port_path.text("name")));
      check_port(int_at(ports[j], "port").value_or(0), port_path.child("port"), causes);
    }
  }
}

json::Array endpoints_cells(const json::Value& endpoints, api::Time now) {
  std::vector<std::string> all;
  for (const json::Value& subset : list_at(endpoints, "subsets")) {
    const json::Array& ports = list_at(subset, "ports");
    const auto add = [&](const std::string& port) {
      for (const json::Value& address : list_at(subset, "addresses")) {
        all.push_back(std::string(text_at(address, "ip")) + port);
      }
    };
    if (ports.empty()) add("");
    for (const json::Value& port : ports) add(":" + std::to_string(int_at(port, "port").value_or(0)));
  }
  std::string text;
  for (std::size_t i = 0; i < all.size() && i < kEndpointsShownMax; ++i) text += (i == 0 ? "" : ",") + all[i];
  if (all.size() > kEndpointsShownMax) text += " + " + std::to_string(all.size() - kEndpointsShownMax) + " more...";
  return {metadata_text(endpoints, "name"), or_none(text), age_of(endpoints, now)};
}

std::shared_ptr<const ResourceType> endpoints_type() {
  KindRules rules;
  rules.defaults = default_endpoints;
  rules.validate = validate_endpoints;
  rules.cells = endpoints_cells;
  ResourceType type = basic_type("", "v1", "endpoints", "Endpoints", true);
  type.short_names = {"ep"};
  type.strategy = make_strategy(std::move(rules));
  type.columns = {name_column(), column("Endpoints", "string", "Addresses and ports behind the service."),
                  age_column()};
  return std::make_shared<const ResourceType>(std::move(type));
}

void default_quota(json::Value& quota) {
  for (const std::string_view part : {"spec", "status"}) {
    json::Value* holder = quota.find(part);
    if (holder == nullptr) continue;
    for (const std::string_view name : {"hard", "used"}) {
      if (json::Object* list = mutable_map(*holder, name)) normalise_quantities(*list);
    }
  }
}

void validate_quota(const json::Value& quota, Causes& causes) {
  const FieldPath spec("spec");
  const FieldPath hard = spec.child("hard");
  for (const json::Member& one : map_at(quota, {"spec", "hard"})) {
    check_qualified_name(one.key, hard.key(one.key), causes);
    check_quantity(one.key, one.value, hard.key(one.key), causes);
  }
}

json::Array quota_cells(const json::Value& quota, api::Time now) {
  std::string requests;
  std::string limits;
  for (const json::Member& one : map_at(quota, {"status", "hard"})) {
    std::string& text = one.key.starts_with("limits.") ? limits : requests;
    const json::Value* used = quota.find_path({"status", "used", one.key});
    if (!text.empty()) text += ", ";
    text += one.key + ": " + (used != nullptr && used->is_string() ? used->as_string() : "0") + "/" +
            (one.value.is_string() ? one.value.as_string() : one.value.to_text());
  }
  return {metadata_text(quota, "name"), requests, limits, age_of(quota, now)};
}

std::shared_ptr<const ResourceType> quota_type() {
  KindRules rules;
  rules.has_status = true;
  rules.defaults = default_quota;
  rules.validate = validate_quota;
  rules.cells = quota_cells;
  ResourceType type = basic_type("", "v1", "resourcequotas", "ResourceQuota", true);
  type.short_names = {"quota"};
  type.has_status = true;
  type.strategy = make_strategy(std::move(rules));
  type.columns = {name_column(), column("Request", "string", "What is used, of what may be requested."),
                  column("Limit", "string", "What is used, of what limits may sum up to."), age_column()};
  return std::make_shared<const ResourceType>(std::move(type));
}

void default_limit_range(json::Value& object) {
  json::Value* spec = object.find("spec");
  json::Array* limits = spec != nullptr ? mutable_list(*spec, "limits") : nullptr;
  if (limits == nullptr) return;
  for (json::Value& item : *limits) {
    if (!item.is_object()) continue;
    for (json::Member& list : item.as_object()) {
      if (list.value.is_object()) normalise_quantities(list.value.as_object());
    }
    if (text_at(item, "type") != "Container") continue;
    // A limit defaults to the maximum; a request to the limit, else to the minimum.
    const auto fill = [&](std::string_view target, std::string_view source) {
      const json::Object values = map_at(item, source);
      if (values.empty()) return;
      json::Object* list = ensure_map(item.as_object(), target);
      if (list == nullptr) return;
      for (const json::Member& one : values) set_default(*list, one.key, one.value);
    };
    fill("default", "max");
    fill("defaultRequest", "default");
    fill("defaultRequest", "min");
  }
}

void validate_limit_range(const json::Value& object, Causes& causes) {
  const json::Array& limits = list_at(object, {"spec", "limits"});
  const FieldPath path("spec.limits");
  for (std::size_t i = 0; i < limits.size(); ++i) {
    const FieldPath at = path.index(i);
    const std::string_view type = text_at(limits[i], "type");
    if (type.empty()) causes.push_back(required(at.text("type")));
    for (std::size_t j = 0; j < i; ++j) {
      if (text_at(limits[j], "type") != type) continue;
      causes.push_back(duplicate_value(at.text("type"), base::quote(type)));
      break;
    }
    for (const std::string_view name : {"max", "min", "default", "defaultRequest", "maxLimitRequestRatio"}) {
      const FieldPath list = at.child(name);
      for (const json::Member& one : map_at(limits[i], name)) {
        check_quantity(one.key, one.value, list.key(one.key), causes);
      }
    }
  }
}

}  // namespace

TypeList misc_types() {
  ResourceType accounts = basic_type("", "v1", "serviceaccounts", "ServiceAccount", true);
  accounts.short_names = {"sa"};
  accounts.other_subresources = {"token"};
  accounts.strategy = make_strategy({});

  KindRules limit_rules;
  limit_rules.defaults = default_limit_range;
  limit_rules.validate = validate_limit_range;
  ResourceType limits = basic_type("", "v1", "limitranges", "LimitRange", true);
  limits.short_names = {"limits"};
  limits.columns[1] = column("Created At", "date", "When the object was created.");
  limit_rules.cells = [](const json::Value& object, api::Time) -> json::Array {
    return {metadata_text(object, "name"), metadata_text(object, "creationTimestamp")};
  };
  limits.strategy = make_strategy(std::move(limit_rules));
  return {std::make_shared<const ResourceType>(std::move(accounts)), endpoints_type(), quota_type(),
          std::make_shared<const ResourceType>(std::move(limits))};
}

}  // namespace basalt::apiserver
