#include "cli/hyperjob/hyperjob_actions.h"

#include <algorithm>
#include <map>
#include <optional>
#include <ostream>
#include <utility>

#include "api/conditions.h"
#include "api/gen/batch_job.h"
#include "api/gen/core_objects.h"
#include "api/gen/karmada_binding.h"
#include "api/gen/karmada_cluster.h"
#include "api/gen/names.h"
#include "api/gen/training.h"
#include "api/owner.h"
#include "base/strings.h"
#include "cli/cli.h"
#include "cli/client/events.h"
#include "cli/client/objects.h"
#include "cli/client/output.h"
#include "cli/client/table.h"

namespace basalt::cli {
namespace {

using api::batch::Job;
using api::karmada::Cluster;
using api::karmada::ResourceBinding;
using api::training::HyperJob;
namespace phases = api::batch::job_phase;

constexpr std::string_view kStalled = "Stalled";

struct Counts {
  std::int64_t completed = 0, running = 0, failed = 0, waiting = 0;
};

Counts count_states(const HyperJob& hyper_job) {
  Counts counts;
  for (const auto& group : hyper_job.status.replicated_jobs_status) {
    for (const auto& [job, state] : group.job_states) {
      if (state.phase == phases::kCompleted) {
        ++counts.completed;
      } else if (state.phase == phases::kFailed || state.phase == phases::kAborted ||
                 state.phase == phases::kTerminated) {
        ++counts.failed;
      } else if (state.phase == phases::kRunning) {
        ++counts.running;
      } else {
        ++counts.waiting;
      }
    }
  }
  return counts;
}

// One word for the whole.
std::string state_of(const HyperJob& hyper_job) {
  const auto& conditions = hyper_job.status.conditions;
  if (!hyper_job.metadata.deletion_timestamp.is_zero()) return "Deleting";
  for (const std::string_view type : {api::condition_types::kCompleted, api::condition_types::kFailed, kStalled}) {
    if (api::is_condition_true(conditions, type)) return std::string(type);
  }
  return count_states(hyper_job).running > 0 ? "Running" : "Pending";
}

std::string jobs_text(const HyperJob& hyper_job) {
  return hyper_job.status.split_count ? std::to_string(*hyper_job.status.split_count) : "-";
}

// The children of one hyper job, as the control plane shows them.
struct Children {
  std::map<std::string, Job> jobs;
  std::map<std::string, ResourceBinding> bindings;   // by job
  std::optional<std::vector<std::string>> clusters;  // names; nothing if they cannot be read
};

Result<Children> read_children(Session& session, const HyperJob& hyper_job) {
  Children children;
  const std::string& ns = hyper_job.metadata.namespace_;
  BASALT_TRY(auto jobs, list_objects<Job>(session, {.ns = ns,
                                                    .label_selector = std::string(api::keys::kHyperJobName) + "=" +
                                                                      hyper_job.metadata.name}));
  for (auto& [job, bytes] : jobs) {
    if (api::is_controlled_by(job.metadata, hyper_job.metadata.uid)) {
      std::string name = job.metadata.name;
      children.jobs.emplace(std::move(name), std::move(job));
    }
  }
  // Without Karmada's kinds, or the right to read them, the rest is still worth showing.
  if (auto bindings = list_objects<ResourceBinding>(session, {.ns = ns}); bindings.ok()) {
    for (auto& [binding, bytes] : *bindings) {
      const auto job = children.jobs.find(binding.spec.resource.name);
      if (job != children.jobs.end() && job->second.metadata.uid == binding.spec.resource.uid)
        children.bindings.emplace(job->first, std::move(binding));
    }
  }
  if (auto clusters = list_objects<Cluster>(session, {}); clusters.ok()) {
    children.clusters.emplace();
    for (const auto& [cluster, bytes] : *clusters) children.clusters->push_back(cluster.metadata.name);
  }
  return children;
}

std::string clusters_text(const Children& children, const std::string& job) {
  const auto found = children.bindings.find(job);
  if (found == children.bindings.end() || found->second.spec.clusters.empty()) return "<none>";
  std::vector<std::string> names;
  for (const auto& target : found->second.spec.clusters) names.push_back(target.name);
  return base::join(names, ",");
}

bool is_over(std::string_view phase) {
  return phase == phases::kCompleted || phase == phases::kFailed || phase == phases::kAborted ||
         phase == phases::kTerminated;
}

struct Waiting {
  std::string what;
  std::string help;
};

// What a job that is not over waits for.
Waiting waiting_for(const Children& children, const std::string& name) {
  const auto job = children.jobs.find(name);
  if (job == children.jobs.end())
    return {"it has not been made yet", "see the condition Stalled and the events of the hyper job"};
  const auto binding = children.bindings.find(name);
  if (binding == children.bindings.end())
    return {"Karmada has not made a binding for it",
            "check that Karmada runs, that a PropagationPolicy " + name + " exists, and the events of the job"};
  const ResourceBinding& bound = binding->second;
  if (bound.spec.suspension && bound.spec.suspension->scheduling.value_or(false))
    return {"its binding is suspended",
            "whoever set spec.suspension.scheduling has to release it (volcano-global: the "
            "dispatcher, when the queue has room)"};
  const auto* scheduled = api::find_condition(bound.status.conditions, api::condition_types::kScheduled);
  if (bound.spec.clusters.empty()) {
    if (scheduled == nullptr) return {"no cluster has been chosen yet", "check that Karmada's scheduler runs"};
    return {"no cluster takes it: " + scheduled->reason + ": " + scheduled->message,
            scheduled->reason == api::condition_reasons::kNoClusterFit
                ? "check clusterNames and that those clusters are ready"
                : "make room, or ask for less"};
  }
  for (const auto& item : bound.status.aggregated_status) {
    if (!item.applied && !item.applied_message.empty())
      return {"cluster " + item.cluster_name + " does not take it: " + item.applied_message, "put it right there"};
  }
  const std::string where = clusters_text(children, name);
  const auto& state = job->second.status.state;
  if (state.phase.empty())
    return {"cluster " + where + " has not said anything about it yet", "check that Volcano runs there"};
  if (state.phase == phases::kPending)
    return {"it is pending in cluster " + where + (state.message.empty() ? "" : ": " + state.message),
            "run 'basalt explain " + name + "' on that cluster"};
  return {"it is " + state.phase + " in cluster " + where, ""};
}

Result<HyperJob> read(Session& session, const HyperJobName& which) {
  BASALT_TRY(auto found, get_object<HyperJob>(session, {which.ns.empty() ? session.ns : which.ns, which.name}));
  return std::move(found.object);
}

void print_conditions(Session& session, const HyperJob& hyper_job) {
  for (const auto& condition : hyper_job.status.conditions) {
    session.out << "  " << condition.type << "=" << condition.status << " " << condition.reason;
    if (!condition.message.empty()) session.out << ": " << condition.message;
    session.out << "\n";
  }
}

Table children_table(const HyperJob& hyper_job, const Children& children) {
  Table table({"ENTRY", "JOB", "CLUSTER", "PHASE", "PENDING", "RUNNING", "SUCCEEDED", "FAILED"});
  for (const auto& entry : hyper_job.spec.replicated_jobs) {
    const auto* status = [&]() -> const api::training::ReplicatedJobStatus* {
      for (const auto& group : hyper_job.status.replicated_jobs_status) {
        if (group.name == entry.name) return &group;
      }
      return nullptr;
    }();
    if (status == nullptr) continue;
    for (const auto& [name, state] : status->job_states) {
      const auto job = children.jobs.find(name);
      const auto count = [&](std::int32_t api::batch::JobStatus::* member) {
        return job == children.jobs.end() ? std::string("-") : std::to_string(job->second.status.*member);
      };
      using Status = api::batch::JobStatus;
      table.row({entry.name, name, clusters_text(children, name), state.phase.empty() ? "<none>" : state.phase,
                 count(&Status::pending), count(&Status::running), count(&Status::succeeded), count(&Status::failed)});
    }
  }
  return table;
}

}  // namespace

Result<int> list_hyper_jobs(Session& session, const HyperJobList& list) {
  ListOptions options{.label_selector = list.selector};
  if (!list.all_namespaces) options.ns = list.ns.empty() ? session.ns : list.ns;
  BASALT_TRY(const auto found, list_objects<HyperJob>(session, options));
  if (prints_objects(list.output)) {
    std::vector<kube::Bytes> bytes;
    for (const auto& one : found) bytes.push_back(one.bytes);
    BASALT_TRY_DONE(print_objects(session.out, list.output, HyperJob::kKindInfo, bytes, true));
    return kExitOk;
  }
  if (found.empty()) {
    session.out << "No resources found\n";
    return kExitOk;
  }
  std::vector<std::string> headings{"NAME", "STATE", "JOBS", "WAITING", "RUNNING", "COMPLETED", "FAILED", "AGE"};
  if (list.all_namespaces) headings.insert(headings.begin(), "NAMESPACE");
  Table table(std::move(headings));
  for (const auto& [hyper_job, bytes] : found) {
    const Counts counts = count_states(hyper_job);
    std::vector<std::string> cells{
        hyper_job.metadata.name,        state_of(hyper_job),
        jobs_text(hyper_job),           std::to_string(counts.waiting),
        std::to_string(counts.running), std::to_string(counts.completed),
        std::to_string(counts.failed),  age_of(hyper_job.metadata.creation_timestamp, session.runtime.wall_now())};
    if (list.all_namespaces) cells.insert(cells.begin(), hyper_job.metadata.namespace_);
    table.row(std::move(cells));
  }
  table.print(session.out, session.host.terminal());
  return kExitOk;
}

Result<int> view_hyper_job(Session& session, const HyperJobName& which) {
  if (prints_objects(which.output)) {
    BASALT_TRY(const auto found, get_object<HyperJob>(session, {which.ns.empty() ? session.ns : which.ns, which.name}));
    BASALT_TRY_DONE(print_objects(session.out, which.output, HyperJob::kKindInfo, {found.bytes}, false));
    return kExitOk;
  }
  BASALT_TRY(const HyperJob hyper_job, read(session, which));
  BASALT_TRY(const Children children, read_children(session, hyper_job));
  session.out << "Name:       " << hyper_job.metadata.name << "\nNamespace:  " << hyper_job.metadata.namespace_
              << "\nState:      " << state_of(hyper_job) << "\nJobs:       " << jobs_text(hyper_job)
              << "\nAge:        " << age_of(hyper_job.metadata.creation_timestamp, session.runtime.wall_now()) << "\n";
  if (hyper_job.status.observed_generation != hyper_job.metadata.generation)
    session.out << "Note:       the last change has not been taken up yet\n";
  if (!hyper_job.status.conditions.empty()) session.out << "Conditions:\n";
  print_conditions(session, hyper_job);
  const Table table = children_table(hyper_job, children);
  if (!table.empty()) {
    session.out << "Children:\n";
    table.print(session.out, session.host.terminal(), "  ");
  }
  print_events_of(session, "HyperJob", hyper_job.metadata.namespace_, hyper_job.metadata.name, hyper_job.metadata.uid);
  return kExitOk;
}

Result<int> explain_hyper_job(Session& session, const HyperJobName& which) {
  BASALT_TRY(const HyperJob hyper_job, read(session, which));
  BASALT_TRY(const Children children, read_children(session, hyper_job));
  const std::string state = state_of(hyper_job);
  session.out << "Hyper job " << hyper_job.metadata.namespace_ << "/" << hyper_job.metadata.name << " is " << state
              << ".\n";
  print_conditions(session, hyper_job);
  if (state == "Completed" || state == "Failed") return kExitOk;
  if (hyper_job.status.observed_generation == 0)
    session.out
        << "No controller has looked at it: run 'basalt controllers --controllers=+hyperjob-controller' against this "
           "API server.\n";
  for (const auto& entry : hyper_job.spec.replicated_jobs) {
    for (const std::string& cluster : entry.cluster_names) {
      if (children.clusters &&
          std::find(children.clusters->begin(), children.clusters->end(), cluster) == children.clusters->end())
        session.out << "Entry " << entry.name << " names cluster " << cluster << ", which does not exist"
                    << base::did_you_mean(
                           cluster, std::vector<std::string_view>(children.clusters->begin(), children.clusters->end()))
                    << ".\n";
    }
  }
  for (const auto& group : hyper_job.status.replicated_jobs_status) {
    for (const auto& [name, job_state] : group.job_states) {
      if (is_over(job_state.phase)) continue;
      const Waiting reason = waiting_for(children, name);
      session.out << name << ": " << reason.what << ".\n";
      if (!reason.help.empty()) session.out << "  What helps: " << reason.help << ".\n";
    }
  }
  return kExitOk;
}

Result<int> delete_hyper_job(Session& session, const HyperJobName& which) {
  const api::ObjectKey key{which.ns.empty() ? session.ns : which.ns, which.name};
  auto deleted = session.client.call({.verb = kube::Verb::Delete,
                                      .resource = kube::resource_of<HyperJob>(),
                                      .ns = key.ns,
                                      .name = key.name,
                                      .propagation = kube::Propagation::Background},
                                     session.stop);
  if (!deleted.ok()) return with_suggestion(session, kube::resource_of<HyperJob>(), key, std::move(deleted).error());
  session.out << "delete hyperjob " << key.name << " successfully\n";
  return kExitOk;
}

}  // namespace basalt::cli
