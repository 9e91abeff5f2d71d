// The scheduler's calls: what the plan says, in one batch, and what becomes of each.
#include <algorithm>
#include <functional>
#include <iterator>

#include "api/gen/names.h"
#include "json/writer.h"
#include "kube/identity.h"
#include "kube/typed.h"
#include "scheduler/explain.h"
#include "scheduler/scheduler.h"

namespace basalt::scheduler {

namespace {

const kube::Resource& pods_resource() {
  static const kube::Resource resource{"", "v1", "pods"};
  return resource;
}
const kube::Resource& groups_resource() {
  static const kube::Resource resource = kube::resource_of<api::scheduling::PodGroup>();
  return resource;
}
const kube::Resource& queues_resource() {
  static const kube::Resource resource = kube::resource_of<api::scheduling::Queue>();
  return resource;
}

kube::Request request_for(kube::Verb verb, const kube::Resource& resource, const api::ObjectKey& key) {
  kube::Request request;
  request.verb = verb;
  request.resource = resource;
  request.ns = key.ns;
  request.name = key.name;
  return request;
}

api::ObjectKey key_of(const SchedulablePod& pod) { return {pod.metadata.namespace_.str(), pod.metadata.name.str()}; }

kube::ObjectReference reference_to(std::string_view api_version, std::string_view kind, const api::ObjectKey& key,
                                   std::string_view uid) {
  kube::ObjectReference reference;
  reference.api_version = api_version;
  reference.kind = kind;
  reference.ns = key.ns;
  reference.name = key.name;
  reference.uid = uid;
  return reference;
}

std::string binding_body(const api::ObjectKey& pod, std::string_view uid, std::string_view node) {
  std::string body = R"({"apiVersion":"v1","kind":"Binding","metadata":{"namespace":)";
  json::append_quoted(body, pod.ns);
  body += R"(,"name":)";
  json::append_quoted(body, pod.name);
  body += R"(,"uid":)";
  json::append_quoted(body, uid);
  body += R"(},"target":{"apiVersion":"v1","kind":"Node","name":)";
  json::append_quoted(body, node);
  return body + "}}";
}

// `{"metadata":{"uid":...},"status":` of a patch that must not hit a later object of the same name.
void begin_status_patch(json::Writer& writer, std::string_view uid) {
  writer.begin_object();
  writer.key("metadata");
  writer.begin_object();
  writer.key("uid");
  writer.string(uid);
  writer.end_object();
  writer.key("status");
  writer.begin_object();
}

void end_status_patch(json::Writer& writer) {
  writer.end_object();
  writer.end_object();
}

// A strategic merge patch of the status of a pod.
struct PodCondition {
  std::string_view type;
  std::string_view status;
  std::string_view reason;
  std::string_view message;
};
std::string pod_condition_body(std::string_view uid, const PodCondition& condition, api::Time now) {
  std::string body;
  json::Writer writer(body);
  begin_status_patch(writer, uid);
  writer.key("conditions");
  writer.begin_array();
  writer.begin_object();
  const auto text = [&](std::string_view key, std::string_view value) {
    writer.key(key);
    writer.string(value);
  };
  text("type", condition.type);
  text("status", condition.status);
  text("reason", condition.reason);
  text("message", condition.message);
  text("lastTransitionTime", now.to_string());
  writer.end_object();
  writer.end_array();
  end_status_patch(writer);
  return body;
}

// A pod group has no status subresource: status and annotation go in one patch.
std::string group_status_body(const StatusDecision& decision) {
  const GroupStatus& status = decision.status;
  std::string body;
  json::Writer writer(body);
  writer.begin_object();
  writer.key("metadata");
  writer.begin_object();
  writer.key("uid");
  writer.string(decision.uid);
  if (decision.has_pending) {
    writer.key("annotations");
    writer.begin_object();
    writer.key(kPendingAnnotation);
    if (status.pending.empty()) {
      writer.null();
    } else {
      writer.string(status.pending);
    }
    writer.end_object();
  }
  writer.end_object();
  writer.key("status");
  writer.begin_object();
  writer.key("phase");
  writer.string(to_string(status.phase));
  const auto count = [&](std::string_view key, std::int32_t value) {
    writer.key(key);
    writer.integer(value);
  };
  count("running", status.running);
  count("succeeded", status.succeeded);
  count("failed", status.failed);
  if (!status.conditions.empty()) {
    writer.key("conditions");
    writer.begin_array();
    for (const auto& condition : status.conditions) encode(writer, condition);
    writer.end_array();
  }
  end_status_patch(writer);
  return body;
}

}  // namespace

// Requests with what is to be done with each answer.
struct Scheduler::Batch {
  std::vector<kube::Request> requests;
  std::vector<std::function<void(const Result<kube::Response>&)>> answers;
  void add(kube::Request request, std::function<void(const Result<kube::Response>&)> answer) {
    requests.push_back(std::move(request));
    answers.push_back(std::move(answer));
  }
};

rt::Duration Scheduler::backoff(int failures) {
  rt::Duration delay = options_.retry_min;
  for (int i = 1; i < failures && delay < options_.retry_max; ++i) delay *= 2;
  return runtime_.jitter(std::min(delay, options_.retry_max), 0.5);
}

void Scheduler::carry_out(const Plan& plan) {
  Batch batch;
  add_missing_queues(batch);
  add_evictions(plan, batch);
  add_binds(plan, batch);
  add_statuses(plan, batch);  // after the binds: a group that is said to run has its pods bound
  add_pod_conditions(plan, batch);
  add_queues(plan, batch);
  add_shard_status(batch);
  if (!batch.requests.empty()) {
    const auto results =
        client_.call_all(batch.requests, {.in_flight_max = options_.in_flight_max, .failures_max = 0}, stop_.token());
    for (std::size_t i = 0; i < results.size(); ++i) batch.answers[i](results[i]);
  }
  for (const PendingBind& bind : failed_binds_) retry_later(bind.due);
}

// Binding.

void Scheduler::add_binds(const Plan& plan, Batch& batch) {
  const auto add = [&](PendingBind bind) {
    kube::Request request = request_for(kube::Verb::Create, pods_resource(), bind.pod);
    request.subresource = "binding";
    request.body = binding_body(bind.pod, bind.uid, bind.node);
    batch.add(std::move(request),
              [this, bind = std::move(bind)](const Result<kube::Response>& result) { bind_done(bind, result); });
  };
  const rt::Instant now = runtime_.now();
  std::vector<PendingBind> again;
  for (PendingBind& bind : std::exchange(failed_binds_, {})) {
    const PodId id = snapshot_.find_pod(bind.pod);
    if (id == kNone || snapshot_.object(id).metadata.uid != bind.uid || !snapshot_.pods()[id].is_assumed) continue;
    const Node& node = snapshot_.nodes()[snapshot_.pods()[id].node];
    if (node.name != bind.node) continue;
    if (!node.object) {
      // The node has gone meanwhile: the pod looks for another.
      snapshot_.forget(id);
      snapshot_.note_freed();
      snapshot_.refresh_waiting(snapshot_.pods()[id].group);
      retry_later(now);
    } else if (bind.due > now) {
      again.push_back(std::move(bind));
    } else {
      add(std::move(bind));
    }
  }
  failed_binds_ = std::move(again);
  for (const BindDecision& decision : plan.binds) {
    const Pod& pod = snapshot_.pods()[decision.pod];
    add({key_of(*pod.object), decision.uid, snapshot_.nodes()[pod.node].name, 0, {}});
  }
}

void Scheduler::bind_done(PendingBind bind, const Result<kube::Response>& result) {
  if (result.ok()) {
    ++binds_;
    binds_counter_.add();
    return;
  }
  ++bind_failures_;
  bind_failures_counter_.add();
  const Error& error = result.error();
  if (error.is_transient() || error.outcome_is_unknown() || error.is(Reason::Cancelled)) {
    ++bind.failures;
    bind.due = runtime_.now() + backoff(bind.failures);
    failed_binds_.push_back(std::move(bind));
  } else if (error.is(Reason::Conflict) || error.is(Reason::NotFound)) {
    // Bound by an earlier call whose answer was lost, bound by somebody else, or deleted: the object tells.
    reread(bind.pod);
  } else {
    refuse(bind, error);
  }
}

void Scheduler::reread(const api::ObjectKey& key) {
  const auto object = kube::get_object<SchedulablePod>(client_, key, stop_.token());
  const PodId id = snapshot_.find_pod(key);
  if (id == kNone) return;
  if (object.ok()) {
    const bool is_same = object->metadata.uid == snapshot_.object(id).metadata.uid;
    const bool is_free = is_same && object->node_name.empty() && object->metadata.deletion_timestamp.is_zero();
    if (is_free) {
      snapshot_.forget(id);  // refused, yet it is neither bound nor deleted: it is placed anew
      snapshot_.note_freed();
      snapshot_.refresh_waiting(snapshot_.pods()[id].group);
      retry_later(runtime_.now() + options_.retry_min);
    }
    if (is_same) snapshot_.set_pod(key, std::make_shared<const SchedulablePod>(*object), runtime_.now());
    if (!is_same) snapshot_.set_pod(key, nullptr, runtime_.now());
  } else if (object.error().is(Reason::NotFound)) {
    snapshot_.set_pod(key, nullptr, runtime_.now());
  } else if (snapshot_.pods()[id].is_assumed) {
    failed_binds_.push_back({key, snapshot_.object(id).metadata.uid.str(),
                             snapshot_.nodes()[snapshot_.pods()[id].node].name, 1,
                             runtime_.now() + options_.retry_min});
  }
}

void Scheduler::refuse(const PendingBind& bind, const Error& error) {
  log_.warn("the API server refused to bind a pod; it is placed again later",
            {{"pod", bind.pod.to_string()}, {"node", bind.node}, {"error", error}});
  const PodId id = snapshot_.find_pod(bind.pod);
  if (id == kNone || !snapshot_.pods()[id].is_assumed) return;
  const GroupId group_id = snapshot_.pods()[id].group;
  snapshot_.forget(id);
  snapshot_.note_freed();
  snapshot_.refresh_waiting(group_id);
  Group& group = snapshot_.groups()[group_id];
  group.retry_at = runtime_.now() + std::chrono::seconds(5);
  if (group.reason.kind == PendingKind::None) group.waiting_since = runtime_.now();
  group.reason = {};
  group.reason.kind = PendingKind::Refused;
  group.reason.text =
      "the API server refused to bind pod " + bind.pod.name + " to node " + bind.node + ": " + error.message;
  snapshot_.mark_dirty(group_id);
  retry_later(group.retry_at);
}

// Evictions and statements.

// Whoever made the pods can tell then that they did not fail by themselves. Before the deletions, which come in no
// order with other calls. Whether each may go now: without the mark it stays for another try.
std::vector<bool> Scheduler::mark_evictions(const Plan& plan) {
  std::vector<kube::Request> requests;
  requests.reserve(plan.evictions.size());
  for (const EvictDecision& decision : plan.evictions) {
    kube::Request request = request_for(kube::Verb::Patch, pods_resource(), key_of(snapshot_.object(decision.pod)));
    request.subresource = "status";
    request.patch_type = kube::PatchType::StrategicMerge;
    request.body = pod_condition_body(
        decision.uid, {"DisruptionTarget", "True", "PreemptionByScheduler", decision.message}, wall_time());
    requests.push_back(std::move(request));
  }
  std::vector<bool> may_go(requests.size(), true);
  if (requests.empty()) return may_go;
  const auto results =
      client_.call_all(requests, {.in_flight_max = options_.in_flight_max, .failures_max = 0}, stop_.token());
  for (std::size_t i = 0; i < results.size(); ++i)
    may_go[i] = results[i].ok() || results[i].error().is(Reason::NotFound);
  return may_go;
}

void Scheduler::take_back_eviction(PodId pod) {
  snapshot_.clear_evicting(pod);
  snapshot_.note_freed();  // whoever needs the room asks again
  retry_later(runtime_.now() + options_.retry_min);
}

void Scheduler::add_evictions(const Plan& plan, Batch& batch) {
  const std::vector<bool> may_go = mark_evictions(plan);
  for (std::size_t i = 0; i < plan.evictions.size(); ++i) {
    const EvictDecision& decision = plan.evictions[i];
    if (!may_go[i]) {
      take_back_eviction(decision.pod);
      continue;
    }
    const api::ObjectKey key = key_of(snapshot_.object(decision.pod));
    kube::Request request = request_for(kube::Verb::Delete, pods_resource(), key);
    request.precondition_uid = decision.uid;
    batch.add(std::move(request), [this, key, &decision](const Result<kube::Response>& result) {
      const PodId id = snapshot_.find_pod(key);
      if (result.ok()) {
        ++evictions_;
        evictions_counter_.add();
        events_.event(reference_to("v1", "Pod", key, decision.uid), kube::EventType::Normal,
                      std::string(decision.reason), decision.message);
      } else if (!result.error().is(Reason::NotFound) && id != kNone) {
        take_back_eviction(id);
      }
    });
  }
}

void Scheduler::add_statuses(const Plan& plan, Batch& batch) {
  for (const StatusDecision& decision : plan.statuses) {
    const Group& group = snapshot_.groups()[decision.group];
    kube::Request request = request_for(kube::Verb::Patch, groups_resource(), group.key);
    request.body = group_status_body(decision);
    {
      const rt::MutexLock lock(mutex_);
      if (group.reason.kind == PendingKind::None) {
        reasons_.erase(group.key);
      } else {
        reasons_[group.key] = group.reason;
      }
    }
    batch.add(std::move(request), [this, &decision, key = group.key](const Result<kube::Response>& result) {
      const GroupId id = snapshot_.find_group(key);
      if (result.ok()) {
        write_failures_ = 0;
        ++status_writes_;
        if (id == kNone) return;
        snapshot_.wrote_status(id, decision.status, kube::parse_revision(kube::resource_version_of(*result)));
        if (!decision.is_new_condition || decision.status.conditions.empty()) return;
        const auto& condition = decision.status.conditions.back();
        events_.event(reference_to(api::scheduling::PodGroup::kind_info().api_version(), "PodGroup", key, decision.uid),
                      kube::EventType::Warning, condition.type, condition.message);
        return;
      }
      if (result.error().is(Reason::NotFound) || id == kNone) return;  // the cache will show it
      // A conflict means another object of this name, which the cache will show, or somebody who wrote just now.
      if (!result.error().is_transient() && !result.error().is(Reason::Conflict)) {
        log_.warn("the status of a pod group was refused", {{"group", key.to_string()}, {"error", result.error()}});
      }
      snapshot_.mark_dirty(id);
      retry_later(runtime_.now() + backoff(++write_failures_));
    });
  }
  // Groups that went take their reasons with them.
  const rt::MutexLock lock(mutex_);
  if (reasons_.size() > 2 * groups_.size() + 1000)
    std::erase_if(reasons_, [&](const auto& entry) { return snapshot_.find_group(entry.first) == kNone; });
}

void Scheduler::add_pod_conditions(const Plan& plan, Batch& batch) {
  for (const PodConditionDecision& decision : plan.pod_conditions) {
    const SchedulablePod& pod = snapshot_.object(decision.pod);
    kube::Request request = request_for(kube::Verb::Patch, pods_resource(), key_of(pod));
    request.subresource = "status";
    request.patch_type = kube::PatchType::StrategicMerge;
    request.body = pod_condition_body(
        decision.uid, {api::condition_types::kPodScheduled, "False", "Unschedulable", decision.message}, wall_time());
    batch.add(std::move(request), [this, &decision, key = key_of(pod)](const Result<kube::Response>& result) {
      if (result.ok()) {
        ++pod_condition_writes_;
        // For the pods of a gang the pod group's event speaks.
        if (decision.is_alone) {
          events_.event(reference_to("v1", "Pod", key, decision.uid), kube::EventType::Warning, "FailedScheduling",
                        decision.message);
        }
        return;
      }
      const PodId id = snapshot_.find_pod(key);
      if (id == kNone || !result.error().is_transient()) return;
      snapshot_.set_told(id, PendingKind::None);
      if (snapshot_.pods()[id].group != kNone) snapshot_.mark_dirty(snapshot_.pods()[id].group);
      retry_later(runtime_.now() + backoff(++write_failures_));
    });
  }
}

void Scheduler::add_queues(const Plan& plan, Batch& batch) {
  for (const QueueDecision& decision : plan.queues) {
    const Queue& queue = snapshot_.queues()[decision.queue];
    kube::Request request = request_for(kube::Verb::Patch, queues_resource(), {"", queue.name});
    request.subresource = "status";
    json::Writer writer(request.body);
    begin_status_patch(writer, queue.object->metadata.uid);
    writer.key("allocated");
    writer.begin_object();
    for (const auto& [name, amount] : decision.allocated) {
      writer.key(name);
      encode(writer, amount);
    }
    for (const auto& [name, amount] : queue.object->status.allocated) {
      if (decision.allocated.contains(name)) continue;
      writer.key(name);
      writer.null();
    }
    writer.end_object();
    end_status_patch(writer);
    // A failure is made good by the next cycle, which still sees the difference.
    batch.add(std::move(request), [](const Result<kube::Response>&) {});
  }
}

void Scheduler::add_missing_queues(Batch& batch) {
  if (!options_.create_queues || runtime_.now() < queues_due_) return;
  const auto is_missing = [&](std::string_view name) {
    const QueueId id = snapshot_.find_queue(name);
    return id == kNone || !snapshot_.queues()[id].object;
  };
  for (const std::string_view name : {api::queues::kRoot, api::queues::kDefault}) {
    if (!is_missing(name)) continue;
    queues_due_ = runtime_.now() + std::chrono::seconds(1);
    retry_later(queues_due_);
    kube::Request request = request_for(kube::Verb::Create, queues_resource(), {});
    const bool is_root = name == api::queues::kRoot;
    request.body = R"({"apiVersion":"scheduling.volcano.sh/v1beta1","kind":"Queue","metadata":{"name":")" +
                   std::string(name) + R"("},"spec":{"weight":1,"reclaimable":)" + (is_root ? "false" : "true") + "}}";
    batch.add(std::move(request), [this, name](const Result<kube::Response>& result) {
      if (!result.ok() && !result.error().is(Reason::AlreadyExists))
        log_.warn("a queue that must exist could not be created; tried again in a second",
                  {{"queue", name}, {"error", result.error()}});
    });
  }
}

// What of our shard we work on. Schedulers may only PUT there.
void Scheduler::add_shard_status(Batch& batch) {
  const auto own = all_shards_.find(options_.shard_name);
  if (!std::exchange(shard_is_stale_, false) || own == all_shards_.end()) return;
  api::shard::NodeShard shard = *own->second;
  std::vector<std::string> in_use, to_add;
  for (const std::string& name : usable_nodes_) {
    const NodeId id = snapshot_.find_node(name);
    if (id != kNone && snapshot_.nodes()[id].object) in_use.push_back(name);
  }
  std::vector<std::string> desired = shard.spec.nodes_desired;
  std::sort(desired.begin(), desired.end());
  std::set_difference(desired.begin(), desired.end(), in_use.begin(), in_use.end(), std::back_inserter(to_add));
  // A node that is no longer desired leaves the set with the cycle that ends here, so nothing is left to remove.
  if (in_use == shard.status.nodes_in_use && to_add == shard.status.nodes_to_add &&
      shard.status.nodes_to_remove.empty())
    return;
  shard.status.nodes_in_use = std::move(in_use);
  shard.status.nodes_to_add = std::move(to_add);
  shard.status.nodes_to_remove.clear();
  shard.status.last_update_time = wall_time();
  kube::Request request =
      request_for(kube::Verb::Update, kube::resource_of<api::shard::NodeShard>(), {"", shard.metadata.name});
  request.subresource = "status";
  request.body = json::to_text(shard);
  batch.add(std::move(request), [this](const Result<kube::Response>& result) {
    if (result.ok() || result.error().is(Reason::NotFound)) return;
    shard_is_stale_ = true;
    retry_later(runtime_.now() + backoff(++write_failures_));
  });
}

}  // namespace basalt::scheduler
