#include "apiserver/quota/limit_ranges.h"

#include <string>
#include <utility>
#include <vector>

#include "apiserver/builtin/fields.h"
#include "apiserver/quota/usage.h"
#include "apiserver/registry/errors.h"
#include "base/strings.h"

namespace basalt::apiserver {
namespace {

using api::Quantity;
using api::ResourceList;

bool is_pods(const AdmissionRequest& request) { return request.type.plural == "pods" && request.type.group.empty(); }

bool is_claims(const AdmissionRequest& request) {
  return request.type.plural == "persistentvolumeclaims" && request.type.group.empty();
}

// Containers of a pod, the initial ones too.
template <class Visit>
void for_each_container(const json::Value& pod, Visit visit) {
  for (const std::string_view list : {"initContainers", "containers"}) {
    for (const json::Value& container : list_at(pod, {"spec", list})) visit(container);
  }
}

void default_container(json::Value& container, const ResourceList& limits, const ResourceList& requests) {
  if (!container.is_object()) return;
  json::Object* resources = ensure_map(container.as_object(), "resources");
  if (resources == nullptr) return;
  const ResourceList own_limits = quantities_at(container, {"resources", "limits"});
  const auto fill = [&](std::string_view kind, const ResourceList& defaults, bool unless_limited) {
    for (const auto& [name, amount] : defaults) {
      // A request that is not given follows the limit that is.
      if (unless_limited && own_limits.contains(name)) continue;
      json::Object* list = ensure_map(*resources, kind);
      if (list != nullptr) set_default(*list, name, amount.canonical());
    }
  };
  fill("requests", requests, true);
  fill("limits", limits, false);
  if (resources->empty()) container.as_object().erase("resources");
}

// One thing that is measured: a container, a whole pod, a claim.
struct Measured {
  std::string what;  // `container "main"`, "the pod"
  ResourceList requests;
  ResourceList limits;
  bool has_limits = true;  // a claim has only requests
};

class Complaints {
 public:
  Complaints(const json::Value& item, const Measured& measured, std::string& text)
      : item_(item), measured_(measured), text_(text) {}

  void check() {
    for (const auto& [name, least] : quantities_at(item_, {"min"})) {
      below("request", measured_.requests, name, least);
      if (measured_.has_limits && measured_.limits.contains(name)) below("limit", measured_.limits, name, least);
    }
    for (const auto& [name, most] : quantities_at(item_, {"max"})) {
      if (measured_.requests.contains(name)) above("request", measured_.requests, name, most);
      if (measured_.has_limits) above("limit", measured_.limits, name, most);
    }
    if (!measured_.has_limits) return;
    for (const auto& [name, ratio] : quantities_at(item_, {"maxLimitRequestRatio"})) check_ratio(name, ratio);
  }

 private:
  void below(std::string_view kind, const ResourceList& amounts, std::string_view name, const Quantity& least) {
    const Quantity* amount = amounts.find(name);
    if (amount == nullptr) {
      add("states no " + std::string(kind) + " of " + std::string(name) + ", the minimum is " + least.canonical());
    } else if (*amount < least) {
      add(std::string(kind) + " of " + std::string(name) + " is " + amount->canonical() + ", the minimum is " +
          least.canonical());
    }
  }

  void above(std::string_view kind, const ResourceList& amounts, std::string_view name, const Quantity& most) {
    const Quantity* amount = amounts.find(name);
    if (amount == nullptr) {
      add("states no " + std::string(kind) + " of " + std::string(name) + ", the maximum is " + most.canonical());
    } else if (*amount > most) {
      add(std::string(kind) + " of " + std::string(name) + " is " + amount->canonical() + ", the maximum is " +
          most.canonical());
    }
  }

  void check_ratio(std::string_view name, const Quantity& ratio) {
    const Quantity request = measured_.requests.get(name);
    const Quantity limit = measured_.limits.get(name);
    if (request.is_zero() || limit.is_zero()) {
      add("states no request or no limit of " + std::string(name) + ", and their ratio must be at most " +
          ratio.canonical());
      return;
    }
    if (limit.to_double() / request.to_double() > ratio.to_double() * (1 + 1e-9)) {
      add("limit of " + std::string(name) + " is " + limit.canonical() + " at a request of " + request.canonical() +
          ", the ratio must be at most " + ratio.canonical());
    }
  }

  void add(const std::string& complaint) {
    if (!text_.empty()) text_ += "; ";
    text_ += measured_.what + ": " + complaint;
  }

  const json::Value& item_;
  const Measured& measured_;
  std::string& text_;
};

class LimitRangeAdmission final : public AdmissionHook {
 public:
  explicit LimitRangeAdmission(Store& store) : store_(store), ranges_(store.resource("/limitranges")) {}

  [[nodiscard]] bool handles(const AdmissionRequest& request) const override {
    if (!request.subresource.empty() || request.ns.empty()) return false;
    const bool concerns =
        (is_pods(request) && request.operation == Operation::Create) ||
        (is_claims(request) && (request.operation == Operation::Create || request.operation == Operation::Update));
    return concerns && store_.count(ranges_, request.ns) > 0;
  }

  Done mutate(AdmissionRequest& request, json::Value& object) override {
    if (!is_pods(request)) return Ok{};
    json::Value* spec = object.find("spec");
    if (spec == nullptr) return Ok{};
    for_each_item(request.ns, [&](const json::Value& item) {
      if (text_at(item, "type") != "Container") return;
      const ResourceList limits = quantities_at(item, {"default"});
      const ResourceList requests = quantities_at(item, {"defaultRequest"});
      for (const std::string_view list : {"initContainers", "containers"}) {
        json::Array* containers = mutable_list(*spec, list);
        if (containers == nullptr) continue;
        for (json::Value& container : *containers) default_container(container, limits, requests);
      }
    });
    return Ok{};
  }

  Done validate(AdmissionRequest& request, const json::Value* object) override {
    if (object == nullptr) return Ok{};
    std::string complaints;
    for_each_item(request.ns, [&](const json::Value& item) {
      for (const Measured& measured : measure(request, text_at(item, "type"), *object)) {
        Complaints(item, measured, complaints).check();
      }
    });
    if (complaints.empty()) return Ok{};
    return forbidden(request.type, request.name, "a LimitRange of the namespace does not allow it: " + complaints);
  }

 private:
  template <class Visit>
  void for_each_item(const std::string& ns, Visit visit) {
    ListQuery query;
    query.resource = ranges_;
    query.ns = ns;
    const auto listing = store_.list(query);
    if (!listing.ok()) return;
    for (const EntryRef& entry : listing->entries) {
      const auto range = json::Value::parse(*entry->object());
      if (!range.ok()) continue;
      for (const json::Value& item : list_at(*range, {"spec", "limits"})) visit(item);
    }
  }

  static std::vector<Measured> measure(const AdmissionRequest& request, std::string_view type,
                                       const json::Value& object) {
    std::vector<Measured> result;
    if (is_claims(request)) {
      if (type != "PersistentVolumeClaim") return result;
      result.push_back({"the claim", quantities_at(object, {"spec", "resources", "requests"}), {}, false});
    } else if (type == "Pod") {
      result.push_back({"the pod", pod_resources(object, "requests"), pod_resources(object, "limits")});
    } else if (type == "Container") {
      for_each_container(object, [&](const json::Value& container) {
        result.push_back({"container " + base::quote(text_at(container, "name")),
                          quantities_at(container, {"resources", "requests"}),
                          quantities_at(container, {"resources", "limits"})});
      });
    }
    return result;
  }

  Store& store_;
  const ResourceId ranges_;
};

}  // namespace

std::shared_ptr<AdmissionHook> limit_range_admission(Store& store) {
  return std::make_shared<LimitRangeAdmission>(store);
}

}  // namespace basalt::apiserver
