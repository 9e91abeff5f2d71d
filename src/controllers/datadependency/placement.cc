#include "controllers/datadependency/placement.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "base/strings.h"
#include "json/merge_patch.h"

namespace basalt::controllers::datadependency {
namespace {

constexpr int kRecordSchema = 1;

using Names = std::vector<std::string>;

std::vector<std::string> names_at(const json::Value& object, std::string_view key) {
  Names names;
  const json::Value* list = object.find(key);
  if (list == nullptr || !list->is_array()) return names;
  for (const json::Value& one : list->as_array()) {
    if (one.is_string()) names.push_back(one.as_string());
  }
  return names;
}

json::Array to_list(const Names& names) { return json::Array(names.begin(), names.end()); }

bool has(const Names& names, const std::string& name) { return std::ranges::find(names, name) != names.end(); }

std::string_view annotation(const json::Value& binding, std::string_view key) {
  return binding.string_at({"metadata", "annotations", key});
}

// Which names we put into which term, and for whom.
struct Record {
  Names allowed;
  Names claims;
  std::map<std::string, Names> terms;  // "affinity", "affinities/0", "affinities/0/overflow/1"

  [[nodiscard]] static Record of(const json::Value& binding) {
    Record record;
    const auto value = json::Value::parse(annotation(binding, kRecordAnnotation));
    if (!value.ok() || !value->is_object()) {
      // Written by a controller that keeps only the names.
      for (const std::string_view name : base::split(annotation(binding, kExcludedAnnotation), ',')) {
        if (!name.empty()) record.terms["affinity"].emplace_back(name);
      }
      return record;
    }
    record.allowed = names_at(*value, "allowed");
    record.claims = names_at(*value, "claims");
    if (const json::Value* terms = value->find("terms"); terms != nullptr && terms->is_object()) {
      for (const json::Member& term : terms->as_object()) record.terms[term.key] = names_at(*terms, term.key);
    }
    return record;
  }
  [[nodiscard]] std::string to_text() const {
    json::Object of_terms;
    for (const auto& [term, names] : terms) of_terms.set(term, to_list(names));
    return json::Value(json::Object{{"schema", kRecordSchema},
                                    {"allowed", to_list(allowed)},
                                    {"claims", to_list(claims)},
                                    {"terms", std::move(of_terms)}})
        .to_text();
  }
};

// Calls `visit(term name, affinity)` for every affinity that the placement has.
void for_each_term(json::Value& placement, const std::function<void(const std::string&, json::Value&)>& visit) {
  if (!placement.is_object()) return;
  if (json::Value* affinity = placement.find("clusterAffinity"); affinity != nullptr && affinity->is_object())
    visit("affinity", *affinity);
  json::Value* terms = placement.find("clusterAffinities");
  if (terms == nullptr || !terms->is_array()) return;
  for (std::size_t i = 0; i < terms->as_array().size(); ++i) {
    json::Value& term = terms->as_array()[i];
    if (!term.is_object()) continue;
    const std::string name = "affinities/" + std::to_string(i);
    visit(name, term);
    json::Value* overflow = term.find("overflowAffinities");
    if (overflow == nullptr || !overflow->is_array()) continue;
    for (std::size_t j = 0; j < overflow->as_array().size(); ++j) {
      if (overflow->as_array()[j].is_object()) visit(name + "/overflow/" + std::to_string(j), overflow->as_array()[j]);
    }
  }
}

Names common_clusters(const std::vector<ClaimOnWorkload>& claims) {
  bool is_first = true;
  std::set<std::string> common;
  for (const ClaimOnWorkload& claim : claims) {
    if (!claim.is_bound) continue;
    const std::set<std::string> own(claim.clusters.begin(), claim.clusters.end());
    if (is_first) {
      common = own;
    } else {
      std::erase_if(common, [&](const std::string& name) { return !own.contains(name); });
    }
    is_first = false;
  }
  return Names(common.begin(), common.end());
}

Names bound_uids(const std::vector<ClaimOnWorkload>& claims) {
  Names uids;
  for (const ClaimOnWorkload& claim : claims) {
    if (claim.is_bound) uids.push_back(claim.uid);
  }
  std::ranges::sort(uids);
  return uids;
}

// Of a Volcano job or a Kubernetes one; other workloads do not end.
bool has_ended(const json::Value& status) {
  const std::string_view phase = status.string_at({"state", "phase"});
  if (phase == "Completed" || phase == "Failed" || phase == "Aborted" || phase == "Terminated") return true;
  const json::Value* conditions = status.find("conditions");
  if (conditions == nullptr || !conditions->is_array()) return false;
  return std::ranges::any_of(conditions->as_array(), [](const json::Value& one) {
    const std::string_view type = one.string_at({"type"});
    return (type == "Complete" || type == "Failed") && one.string_at({"status"}) == "True";
  });
}

bool is_suspended(const json::Value& binding) {
  const json::Value* value = binding.find_path({"spec", "suspension", "scheduling"});
  return value != nullptr && value->is_bool() && value->as_bool();
}

void set_exclude(json::Value& term, const Names& names) {
  if (names.empty()) {
    term.as_object().erase("exclude");  // an empty list is not the same as none to Karmada's scheduler
  } else {
    term.as_object().set("exclude", to_list(names));
  }
}

// The annotations of the patch, compared with what is there.
void put_annotation(const json::Value& binding, json::Object& patch, std::string_view key,
                    const std::optional<std::string>& value) {
  const json::Value* there = binding.find_path({"metadata", "annotations", key});
  if (!value) {
    if (there != nullptr) patch.set(key, json::Value());
  } else if (there == nullptr || *there != json::Value(*value)) {
    patch.set(key, *value);
  }
}

// The placement with our names in every term (none if `ours` is empty), and what was put where.
json::Value with_excluded(json::Value placement, const Record& before, const Names& ours, Record& after) {
  bool has_terms = false;
  for_each_term(placement, [&](const std::string&, json::Value&) { has_terms = true; });
  if (!has_terms && !ours.empty()) {
    if (!placement.is_object()) placement = json::Object();
    placement.as_object().set("clusterAffinity", json::Object());
  }
  for_each_term(placement, [&](const std::string& name, json::Value& term) {
    const Names there = names_at(term, "exclude");
    const auto recorded = before.terms.find(name);
    // A term that lacks a name of ours was replaced: what it has is its author's, also where it coincides with ours.
    const bool is_ours = recorded != before.terms.end() &&
                         std::ranges::all_of(recorded->second, [&](const std::string& one) { return has(there, one); });
    Names kept;
    for (const std::string& one : there) {
      if (!is_ours || !has(recorded->second, one)) kept.push_back(one);
    }
    Names added;
    for (const std::string& one : ours) {
      if (!has(kept, one)) added.push_back(one);
    }
    if (!added.empty()) after.terms[name] = added;
    kept.insert(kept.end(), added.begin(), added.end());
    set_exclude(term, kept);
  });
  return placement;
}

// The merge patch from one object to another, member by member, lists as a whole.
std::optional<json::Value> difference(const json::Value& from, const json::Value& to) {
  if (from == to) return std::nullopt;
  if (!from.is_object() || !to.is_object()) return to;
  json::Object patch;
  for (const json::Member& member : to.as_object()) {
    const json::Value* there = from.find(member.key);
    if (there == nullptr) {
      patch.set(member.key, member.value);
    } else if (auto below = difference(*there, member.value)) {
      patch.set(member.key, std::move(*below));
    }
  }
  for (const json::Member& member : from.as_object()) {
    if (to.find(member.key) == nullptr) patch.set(member.key, json::Value());
  }
  return json::Value(std::move(patch));
}

bool is_missing_any(const json::Value& binding, const Record& record) {
  const json::Value* found = binding.find_path({"spec", "placement"});
  json::Value placement = found == nullptr ? json::Value(json::Object()) : *found;
  std::size_t seen = 0;
  bool is_missing = false;
  for_each_term(placement, [&](const std::string& name, json::Value& term) {
    const auto recorded = record.terms.find(name);
    if (recorded == record.terms.end()) return;
    ++seen;
    const Names excluded = names_at(term, "exclude");
    for (const std::string& one : recorded->second) is_missing = is_missing || !has(excluded, one);
  });
  return is_missing || seen < record.terms.size();
}

// Whether some cluster is registered, allowed and not excluded by the user in at least one term.
bool is_feasible(const json::Value& placement, const Names& allowed, const Names& clusters) {
  bool found = false;
  json::Value copy = placement;
  for_each_term(copy, [&](const std::string&, json::Value& term) {
    const Names excluded = names_at(term, "exclude");
    const Names named = names_at(term, "clusterNames");
    for (const std::string& one : allowed) {
      found = found || (has(clusters, one) && !has(excluded, one) && (named.empty() || has(named, one)));
    }
  });
  return found;
}

}  // namespace

PlacementPlan plan_placement(const json::Value& binding, const std::vector<ClaimOnWorkload>& claims,
                             const std::vector<std::string>& clusters) {
  PlacementPlan plan;
  const Record before = Record::of(binding);
  plan.was_overwritten = !before.terms.empty() && is_missing_any(binding, before);
  const json::Value* found = binding.find_path({"spec", "placement"});
  const json::Value placement = found == nullptr ? json::Value() : *found;
  const bool scheduled = was_scheduled(binding);
  const bool all_bound = std::ranges::all_of(claims, [](const ClaimOnWorkload& one) { return one.is_bound; });
  const bool any_bound = std::ranges::any_of(claims, [](const ClaimOnWorkload& one) { return one.is_bound; });

  json::Object annotations;
  const auto finish = [&](const json::Value& wanted) {
    json::Object patch;
    if (!annotations.empty()) patch.set("metadata", json::Object{{"annotations", annotations}});
    if (auto change = difference(placement, wanted)) patch.set("spec", json::Object{{"placement", std::move(*change)}});
    if (!patch.empty()) plan.patch = json::Value(std::move(patch));
    return plan;
  };

  if (is_over(binding)) {
    plan.verdict = PlacementVerdict::Over;
    plan.allowed = before.allowed;
    if (claims.empty()) {
      for (const std::string_view key : {kInjectedAnnotation, kExcludedAnnotation, kRecordAnnotation})
        put_annotation(binding, annotations, key, std::nullopt);
    } else if (!annotation(binding, kRecordAnnotation).empty()) {
      Record kept = before;
      kept.claims = bound_uids(claims);
      put_annotation(binding, annotations, kRecordAnnotation, kept.to_text());
    }
    return finish(placement);
  }
  Record after;
  if (claims.empty()) {
    if (annotation(binding, kInjectedAnnotation).empty() && annotation(binding, kRecordAnnotation).empty() &&
        annotation(binding, kExcludedAnnotation).empty())
      return plan;
    for (const std::string_view key : {kInjectedAnnotation, kExcludedAnnotation, kRecordAnnotation})
      put_annotation(binding, annotations, key, std::nullopt);
    return finish(with_excluded(placement, before, {}, after));
  }
  plan.allowed = common_clusters(claims);
  if (!all_bound && (!scheduled || !any_bound)) {
    plan.verdict = PlacementVerdict::Waiting;
    if (!scheduled) put_annotation(binding, annotations, kInjectedAnnotation, std::nullopt);
    return finish(placement);
  }
  if (plan.allowed.empty()) {
    plan.verdict = PlacementVerdict::Contradiction;
    if (!scheduled) put_annotation(binding, annotations, kInjectedAnnotation, std::nullopt);
    return finish(placement);
  }
  Names ours;
  for (const std::string& cluster : clusters) {
    if (!has(plan.allowed, cluster)) ours.push_back(cluster);
  }
  std::ranges::sort(ours);
  const json::Value wanted = with_excluded(placement, before, ours, after);
  after.allowed = plan.allowed;
  after.claims = bound_uids(claims);
  put_annotation(binding, annotations, kInjectedAnnotation, "true");
  put_annotation(binding, annotations, kExcludedAnnotation, base::join(ours, ","));
  put_annotation(binding, annotations, kRecordAnnotation, after.to_text());
  const bool has_room = ours.empty()
                            ? std::ranges::any_of(plan.allowed, [&](const auto& one) { return has(clusters, one); })
                            : is_feasible(wanted, plan.allowed, clusters);
  plan.verdict = has_room ? PlacementVerdict::Injected : PlacementVerdict::NoFeasibleCluster;
  return finish(wanted);
}

bool may_be_scheduled(const json::Value& binding, const std::vector<ClaimOnWorkload>& claims) {
  if (claims.empty()) return true;
  if (annotation(binding, kInjectedAnnotation) != "true") return false;
  const Record record = Record::of(binding);
  Names current;
  for (const ClaimOnWorkload& claim : claims) {
    if (!claim.is_bound) return false;
    current.push_back(claim.uid);
  }
  std::ranges::sort(current);
  return record.claims == current && !is_missing_any(binding, record);
}

std::vector<std::string> current_clusters(const json::Value& binding) {
  Names names;
  const json::Value* clusters = binding.find_path({"spec", "clusters"});
  if (clusters == nullptr || !clusters->is_array()) return names;
  for (const json::Value& one : clusters->as_array()) names.emplace_back(one.string_at({"name"}));
  return names;
}

bool is_over(const json::Value& binding) {
  const Names clusters = current_clusters(binding);
  const json::Value* items = binding.find_path({"status", "aggregatedStatus"});
  if (clusters.empty() || items == nullptr || !items->is_array()) return false;
  return std::ranges::all_of(clusters, [&](const std::string& cluster) {
    return std::ranges::any_of(items->as_array(), [&](const json::Value& item) {
      const json::Value* status = item.find("status");
      return item.string_at({"clusterName"}) == cluster && status != nullptr && has_ended(*status);
    });
  });
}

bool was_scheduled(const json::Value& binding) {
  return !binding.string_at({"status", "lastScheduledTime"}).empty() || !current_clusters(binding).empty();
}

PlacementPlan plan_binding(const json::Value& binding, const std::vector<ClaimOnWorkload>& claims,
                           const std::vector<std::string>& clusters) {
  PlacementPlan plan = plan_placement(binding, claims, clusters);
  json::Value patch = plan.patch.value_or(json::Value(json::Object()));
  const bool may = may_be_scheduled(json::apply_merge_patch(binding, patch), claims);
  const bool is_ours = annotation(binding, kGatedAnnotation) == "true";
  const auto annotate = [&](json::Value value) {
    json::Value& annotations = patch.ensure_path({"metadata", "annotations"});
    if (!annotations.is_object()) annotations = json::Object();
    annotations.as_object().set(kGatedAnnotation, std::move(value));
  };
  if (may && is_ours) {
    if (is_suspended(binding)) patch.ensure_path({"spec", "suspension", "scheduling"}) = false;
    annotate(json::Value());
  } else if (!may && !was_scheduled(binding) && !is_suspended(binding)) {
    patch.ensure_path({"spec", "suspension", "scheduling"}) = true;
    annotate("true");
  }
  if (!patch.as_object().empty()) plan.patch = std::move(patch);
  return plan;
}

std::optional<json::Value> admission_patch(const json::Value& binding, const json::Value* before,
                                           const std::vector<ClaimOnWorkload>& claims,
                                           const std::vector<std::string>& clusters) {
  if (before == nullptr) {
    if (claims.empty()) return std::nullopt;
    json::Value fresh = binding;
    if (json::Value* spec = fresh.find("spec"); spec != nullptr && spec->is_object())
      spec->as_object().erase("clusters");
    PlacementPlan plan = plan_binding(fresh, claims, clusters);
    const Names chosen = current_clusters(binding);
    const bool fits =
        may_be_scheduled(json::apply_merge_patch(fresh, plan.patch.value_or(json::Value(json::Object()))), claims) &&
        std::ranges::all_of(chosen, [&](const std::string& one) { return has(plan.allowed, one); });
    if (!chosen.empty() && !fits) {
      if (!plan.patch) plan.patch = json::Value(json::Object());
      plan.patch->ensure_path({"spec"}).as_object().set("clusters", json::Value());
    }
    return plan.patch;
  }
  for (const std::string_view key : {kInjectedAnnotation, kExcludedAnnotation, kRecordAnnotation, kGatedAnnotation}) {
    if (annotation(binding, key) != annotation(*before, key)) return std::nullopt;
  }
  const auto same = [&](std::initializer_list<std::string_view> path) {
    const json::Value* now = binding.find_path(path);
    const json::Value* then = before->find_path(path);
    return now == nullptr || then == nullptr ? now == then : *now == *then;
  };
  if (same({"spec", "placement"}) && same({"spec", "suspension"})) return std::nullopt;
  return plan_binding(binding, claims, clusters).patch;
}

}  // namespace basalt::controllers::datadependency
