// Data sources and claims on them.

#include <set>

#include "api/names.h"
#include "base/strings.h"
#include "webhooks/fields.h"
#include "webhooks/rules/rules.h"

namespace basalt::webhooks {
namespace {

void check_texts(const json::Value& holder, std::initializer_list<std::string_view> names, const Path& path,
                 Problems& problems) {
  for (const std::string_view name : names) {
    if (base::trim(text_at(holder, name)).empty()) problems.required(path.text(name), "must not be empty");
  }
}

// Amoro names a table by three words.
void check_amoro_name(std::string_view system, std::string_view name, std::string field, Problems& problems) {
  if (system != "amoro" || name.empty()) return;
  const auto parts = base::split(name, '.');
  if (parts.size() == 3 && !parts[0].empty() && !parts[1].empty() && !parts[2].empty()) return;
  problems.invalid(std::move(field), shown(name), "a name of system amoro is catalog.database.table");
}

bool is_unchanged(const ReviewRequest& request) {
  return request.operation == Operation::Update && request.old_object != nullptr &&
         spec_of(*request.object) == spec_of(*request.old_object);
}

bool is_write(const ReviewRequest& request, ReviewAnswer& answer) {
  if (request.operation == Operation::Create || request.operation == Operation::Update) return true;
  answer.deny("expect operation to be 'CREATE' or 'UPDATE'");
  return false;
}

}  // namespace

void validate_data_source(const RuleContext& context, const ReviewRequest& request, ReviewAnswer& answer) {
  if (!is_write(request, answer) || is_unchanged(request)) return;
  const json::Value& spec = spec_of(*request.object);
  const Path path("spec");
  Problems problems;
  check_texts(spec, {"system", "type", "name"}, path, problems);
  check_amoro_name(text_at(spec, "system"), text_at(spec, "name"), "spec.name", problems);
  constexpr std::string_view kPolicies[] = {"Retain", "Delete"};
  problems.one_of("spec.reclaimPolicy", text_at(spec, "reclaimPolicy"), kPolicies);
  if (const json::Value* locality = member(spec, "locality")) {
    const json::Array& names = list_at(*locality, "clusterNames");
    if (names.size() > context.options.members_max) {
      problems.too_many("spec.locality.clusterNames", names.size(), context.options.members_max);
    } else {
      std::set<std::string_view> seen;
      for (std::size_t i = 0; i < names.size() && !problems.is_full(); ++i) {
        if (!names[i].is_string()) continue;
        const std::string field = "spec.locality.clusterNames[" + std::to_string(i) + "]";
        const std::string& name = names[i].as_string();
        if (!api::is_dns1123_subdomain(name)) problems.invalid(field, name, api::dns1123_subdomain_complaints(name));
        if (!seen.insert(name).second) problems.duplicate(field, name);
      }
    }
  }
  problems.deny_if_any(answer);
}

void validate_data_source_claim(const RuleContext&, const ReviewRequest& request, ReviewAnswer& answer) {
  if (!is_write(request, answer) || is_unchanged(request)) return;
  const json::Value& spec = spec_of(*request.object);
  const Path path("spec");
  Problems problems;
  check_texts(spec, {"system", "dataSourceType", "dataSourceName"}, path, problems);
  check_amoro_name(text_at(spec, "system"), text_at(spec, "dataSourceName"), "spec.dataSourceName", problems);
  const json::Value* workload = member(spec, "workload");
  if (workload == nullptr) {
    problems.required("spec.workload");
  } else {
    const Path at = path.child("workload");
    check_texts(*workload, {"apiVersion", "kind", "name"}, at, problems);
    std::string_view ns = request.object->string_at({"metadata", "namespace"});
    if (ns.empty()) ns = request.ns;
    const std::string_view wanted = text_at(*workload, "namespace");
    if (!wanted.empty() && wanted != ns) {
      problems.forbidden("spec.workload.namespace", shown(wanted) +
                                                        ": a claim can only bind a workload of its own "
                                                        "namespace, which is " +
                                                        shown(ns));
    }
    const std::string_view version = text_at(*workload, "apiVersion");
    if (const auto parts = base::split(version, '/'); parts.size() > 2 || (parts.size() == 2 && parts[1].empty())) {
      problems.invalid("spec.workload.apiVersion", shown(version), "must be <group>/<version>, or v1");
    }
  }
  problems.deny_if_any(answer);
}

}  // namespace basalt::webhooks
