// MutatingAdmissionPolicies: configurations that are applied to the object, and JSON patches, made by expressions.

#include <algorithm>
#include <utility>

#include "apiserver/apply/field_walk.h"
#include "apiserver/policy/policy_admission.h"
#include "apiserver/policy/policy_evaluation.h"
#include "apiserver/registry/errors.h"
#include "apiserver/registry/server_impl.h"
#include "json/patch.h"

namespace basalt::apiserver {
namespace {

Error unusable(std::string_view what) { return Error::invalid_input(std::string(what)); }

Result<json::Value> apply_result(const Policy::Mutation& mutation, const ResourceType& type, const cel::Value& result,
                                 const json::Value& object) {
  auto change = result.to_json();
  if (!change) return unusable("the expression gives what cannot be written as JSON");
  if (!mutation.is_configuration) {
    if (!change->is_array()) return unusable("the expression does not give a list of JSONPatch");
    BASALT_TRY(json::Value patched, json::apply_json_patch(object, *change));
    if (!patched.is_object()) return unusable("the patch leaves no object");
    return patched;
  }
  if (!change->is_object()) return unusable("the expression does not give an Object");
  for (const std::string_view key : {"apiVersion", "kind"}) {
    if (change->find(key) != nullptr && change->string_at({key}) != object.string_at({key})) {
      return unusable("the expression may not change " + std::string(key));
    }
  }
  MergeShape shape(type);
  return merge_configuration(object, *change, shape);
}

}  // namespace

Result<json::Value> PolicyAdmission::mutated(const Bound& bound, const AdmissionRequest& request,
                                             const json::Value& object, const json::Value* param) {
  const Policy& policy = *bound.policy;
  std::uint64_t left = kBindingCostMax;
  json::Value current = object;
  for (const Policy::Mutation& mutation : policy.mutations) {
    // Each sees what the one before it made.
    AdmissionValues values(server_, request, &current);
    values.set_params(param);
    cel::Cost conditions_cost;
    BASALT_TRY(const bool holds, policy.conditions.hold(values, conditions_cost));
    if (!holds) return current;
    const auto variables = PolicyVariables::set_in(values, policy, left);
    const auto result = evaluate(mutation.expression, values, left);
    auto next =
        result.ok() ? apply_result(mutation, request.type, *result, current) : Result<json::Value>(result.error());
    variables->clear();
    if (!next.ok()) return std::move(next).error();
    current = std::move(*next);
  }
  return current;
}

Done PolicyAdmission::mutate_by(const Bound& bound, AdmissionRequest& request, json::Value& object, bool& changed) {
  if (!matches(bound, request, &object)) return Ok{};
  const auto failed = [&](const Error& error) -> Done {
    if (bound.policy->ignores_failure) return Ok{};
    Error denial = forbidden(request.type, request.name,
                             "MutatingAdmissionPolicy '" + bound.policy->name + "' with binding '" +
                                 bound.binding.name + "' denied request: " + error.message);
    denial.reason = Reason::Invalid;
    denial.code = http_code_of(denial.reason);
    return denial;
  };
  std::vector<json::Value> params;
  const bool takes_params = !bound.policy->param_kind.empty() && bound.binding.has_param;
  if (takes_params) {
    auto found = params_of(bound, request);
    if (!found.ok()) return failed(found.error());
    params = std::move(*found);
  }
  for (std::size_t i = 0; i < (takes_params ? params.size() : 1); ++i) {
    auto made = mutated(bound, request, object, takes_params ? &params[i] : nullptr);
    if (!made.ok()) {
      BASALT_TRY_DONE(failed(made.error()));
      continue;
    }
    if (*made == object) continue;
    // What it brought in is completed before anybody else sees it.
    if (Done fits = prune_unknown(request.type, *made, nullptr); !fits.ok()) {
      BASALT_TRY_DONE(failed(fits.error()));
      continue;
    }
    request.type.strategy->apply_defaults(*made);
    object = std::move(*made);
    changed = true;
  }
  return Ok{};
}

Done PolicyAdmission::mutate(AdmissionRequest& request, json::Value& object) {
  const auto table = this->table();
  std::size_t last_change = 0;
  for (std::size_t i = 0; i < table->mutating.size(); ++i) {
    bool changed = false;
    BASALT_TRY_DONE(mutate_by(table->mutating[i], request, object, changed));
    if (changed) last_change = i;
  }
  for (std::size_t i = 0; i < last_change; ++i) {
    bool changed = false;
    if (table->mutating[i].policy->is_reinvoked) {
      BASALT_TRY_DONE(mutate_by(table->mutating[i], request, object, changed));
    }
  }
  return Ok{};
}

}  // namespace basalt::apiserver
