#include "node/process_node.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "api/owner.h"
#include "kube/typed.h"
#include "node/process_node_impl.h"
#include "rt/backoff.h"

namespace basalt::node {
namespace {

namespace fs = std::filesystem;

// The whole status is written so often, beside the lease: kubelet's nodeStatusReportFrequency.
constexpr rt::Duration kShowPeriod = std::chrono::minutes(5);

bool is_finished(std::string_view phase) {
  return phase == api::core::pod_phase::kSucceeded || phase == api::core::pod_phase::kFailed;
}

ProcessNodeOptions completed(ProcessNodeOptions options, const ProcessHost& host) {
  if (options.node.capacity.empty()) options.node.capacity = machine_capacity(options.pods_max);
  options.node.runtime = "process";
  if (options.host_path_root.empty()) options.host_path_root = host.root() + "/hostpath";
  return options;
}

}  // namespace

ProcessNode::ProcessNode(rt::Runtime& runtime, kube::Client& client, const Logger& log, ProcessHost& host,
                         ProcessNodeOptions options)
    : runtime_(runtime),
      client_(client),
      log_(log.with({{"node", options.node.name}})),
      host_(host),
      options_(completed(std::move(options), host)),
      folder_(host.root() + "/nodes/" + options_.node.name),
      stop_(runtime),
      pods_(runtime, client, log_,
            {.reflector = {.resource = kube::resource_of<api::core::Pod>(),
                           .field_selector = "spec.nodeName=" + options_.node.name},
             .indexes = {{"uid", [](const api::core::Pod& pod,
                                    std::vector<std::string>& values) { values.push_back(pod.metadata.uid); }}}}),
      queue_(runtime, {.name = "pods"}),
      exited_(runtime) {
  for (const std::string& name : options_.inherited) {
    if (const char* value = std::getenv(name.c_str()); value != nullptr) base_environment_.emplace_back(name, value);
  }
  for (const auto& [name, value] : options_.environment) set_variable(base_environment_, name, value);
  set_variable(base_environment_, ProcessHost::kMarkVariable, host_.mark());
  set_variable(base_environment_, ProcessHost::kProgramMarkVariable, host_.program_mark());
  pods_.add_handler([this](const kube::Change<api::core::Pod>& change) {
    if (change.before) queue_.add(change.before->metadata.uid);
    if (change.after) queue_.add(change.after->metadata.uid);
  });
}

ProcessNode::~ProcessNode() { stop(); }

api::Time ProcessNode::wall() const {
  return api::Time::from(std::chrono::time_point_cast<std::chrono::system_clock::duration>(runtime_.wall_now()));
}

VolumeFolders ProcessNode::volume_folders(const std::string& uid) const {
  return {pod_folder(uid), options_.host_path_root, host_.root() + "/claims"};
}

void ProcessNode::start() {
  if (started_) return;
  started_ = true;
  if (options_.cluster_environment) {
    for (const auto& [name, value] : options_.cluster_environment()) set_variable(base_environment_, name, value);
  }
  pods_.start();
  registrar_ = rt::Thread(runtime_, "node", [this] { register_and_renew(); });
}

void ProcessNode::register_and_renew() {
  const rt::StopToken stop = stop_.token();
  // Before any pod is looked at: folders of pods that are no longer there.
  ready_since_ = wall();
  if (!pods_.wait_synced(stop)) return;
  remove_stale_folders();
  workers_ = std::make_unique<rt::Workers<std::string>>(
      runtime_, queue_, rt::WorkersOptions{.name = "pods", .count = options_.workers},
      [this](const std::string& uid, const rt::StopToken& token) { return sync(uid, token); },
      [this](const std::string& uid, const rt::Outcome& outcome, rt::Duration) {
        if (outcome.error && !outcome.error->is(Reason::Cancelled))
          log_.warn("pod not synced, trying again", {{"uid", uid}, {"error", *outcome.error}});
      });
  if (!register_self(stop) || options_.lease_period <= rt::Duration::zero()) return;
  bool was_silent = false;
  rt::Instant shown_at = runtime_.now();
  do {
    const Done renewed = renew_lease(stop);
    if (!renewed.ok() && !was_silent && !renewed.error().is(Reason::Cancelled))
      log_.warn("cannot renew the node's lease, trying again", {{"error", renewed.error()}});
    // A cluster takes a node for lost that was silent; only the node itself can say that it is ready again.
    if (renewed.ok() && (was_silent || runtime_.now() - shown_at >= kShowPeriod)) {
      if (!register_self(stop)) return;
      shown_at = runtime_.now();
    }
    was_silent = !renewed.ok();
  } while (!stop.wait_for(runtime_, options_.lease_period));
}

bool ProcessNode::register_self(const rt::StopToken& stop) {
  rt::Backoff backoff(runtime_, {.base = std::chrono::milliseconds(100), .cap = std::chrono::seconds(10)});
  while (!stop.stop_requested()) {
    const Done done = register_node(client_, node_object(options_.node, wall(), ready_since_), stop);
    if (done.ok()) return true;
    if (backoff.failures() == 0 && !done.error().is(Reason::Cancelled))
      log_.warn("cannot register the node, trying again", {{"error", done.error()}});
    if (stop.wait_for(runtime_, backoff.next())) return false;
  }
  return false;
}

Done ProcessNode::renew_lease(const rt::StopToken& stop) {
  const kube::Resource leases{"coordination.k8s.io", "v1", "leases"};
  const std::string now =
      api::MicroTime::from(std::chrono::time_point_cast<std::chrono::system_clock::duration>(runtime_.wall_now()))
          .to_string();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(options_.lease_period * 4).count();
  json::Object spec{{"holderIdentity", options_.node.name},
                    {"leaseDurationSeconds", std::int64_t{std::max<std::int64_t>(seconds, 1)}},
                    {"renewTime", now}};
  const std::string patch = json::Value(json::Object{{"spec", spec}}).to_text();
  auto renewed = kube::patch_object(client_, leases, {"kube-node-lease", options_.node.name}, patch, stop);
  if (!renewed.ok() && renewed.error().is(Reason::NotFound)) {
    json::Object lease{{"apiVersion", "coordination.k8s.io/v1"},
                       {"kind", "Lease"},
                       {"metadata", json::Object{{"name", options_.node.name}, {"namespace", "kube-node-lease"}}},
                       {"spec", std::move(spec)}};
    renewed = client_.call({.verb = kube::Verb::Create,
                            .resource = leases,
                            .ns = "kube-node-lease",
                            .body = json::Value(std::move(lease)).to_text()},
                           stop);
  }
  if (!renewed.ok()) return renewed.error();
  return Ok{};
}

void ProcessNode::remove_stale_folders() {
  std::error_code error;
  std::vector<fs::path> stale;
  for (fs::directory_iterator entries(folder_ + "/pods", error), end; !error && entries != end;
       entries.increment(error)) {
    if (pods_.count_by_index("uid", entries->path().filename().native()) == 0) stale.push_back(entries->path());
  }
  for (const fs::path& path : stale) fs::remove_all(path, error);
}

void ProcessNode::stop() {
  if (!started_) return;
  started_ = false;
  stop_.request_stop();
  registrar_.join();
  pods_.stop();
  if (workers_) workers_->stop();
  end_processes();
  // Nobody waits for this node any more than for its pods.
  const rt::StopToken never;
  (void)client_.call({.verb = kube::Verb::Patch,
                      .resource = kube::Resource{"", "v1", "nodes"},
                      .name = options_.node.name,
                      .subresource = "status",
                      .body = node_ready_patch(false, "NodeStopped", "the node agent was stopped", wall()),
                      .timeout = std::chrono::seconds(1)},
                     never);
}

// What had ended before is recorded as it ended; what is ended by us stays recorded as running, which the next agent
// takes for interrupted.
void ProcessNode::end_processes() {
  std::vector<std::shared_ptr<PodWork>> works;
  {
    rt::MutexLock lock(mutex_);
    for (const auto& [uid, work] : works_) works.push_back(work);
  }
  std::size_t running = 0;
  for (const auto& work : works) {
    take_exits(*work);
    (void)work->machine.step(runtime_.now());  // an outcome that is due is recorded
    save(*work);
    for (const ContainerRun& run : work->machine.containers()) {
      if (run.state != RunState::Running) continue;
      ++running;
      host_.runner().signal(run.process, SIGTERM);
    }
  }
  const rt::Instant kill_at = runtime_.now() + options_.stop_grace;
  bool killed = false;
  const auto exits = [&]() BASALT_REQUIRES(mutex_) {
    std::size_t count = 0;
    for (const auto& work : works) count += work->exits.size();
    return count;
  };
  while (true) {
    {
      rt::MutexLock lock(mutex_);
      while (exits() < running && (killed || runtime_.now() < kill_at))
        exited_.wait_until(mutex_, killed ? rt::kNever : kill_at);
      if (exits() >= running) break;
    }
    killed = true;
    for (const auto& work : works) {
      for (const ContainerRun& run : work->machine.containers()) {
        if (run.state == RunState::Running) host_.runner().signal(run.process, SIGKILL);
      }
    }
  }
  for (const auto& work : works) {
    for (const auto& list : work->probes) {
      for (const auto& probe : list) {
        if (probe->is_running) cancel_probe(*probe);
      }
    }
  }
  rt::MutexLock lock(mutex_);
  while (probes_running_ > 0) exited_.wait(mutex_);
}

bool ProcessNode::has_pod(const std::string& ns, const std::string& name) { return pods_.get({ns, name}) != nullptr; }

std::shared_ptr<ProcessNode::PodWork> ProcessNode::work_of(const std::string& uid, const PodPtr& pod) {
  {
    rt::MutexLock lock(mutex_);
    if (const auto found = works_.find(uid); found != works_.end()) return found->second;
  }
  if (!pod) return nullptr;
  auto work = adopt(pod);
  rt::MutexLock lock(mutex_);
  works_[uid] = work;
  auto& places = log_places_[uid];
  for (const ContainerRun& run : work->machine.containers()) places[run.name].run = run.runs - 1;
  return work;
}

std::shared_ptr<ProcessNode::PodWork> ProcessNode::adopt(const PodPtr& pod) {
  const std::string& uid = pod->metadata.uid;
  auto work = std::make_shared<PodWork>(pod, options_.restart);
  work->probes.resize(work->machine.containers().size());
  work->probed_runs.resize(work->machine.containers().size());
  work->specs.resize(work->machine.containers().size());
  work->condition_times = condition_times(*pod);
  std::string address = pod->status.pod_ip;
  const auto text = read_file(pod_folder(uid) + "/state.json");
  const auto record = text ? json::Value::parse(*text) : Result<json::Value>(Error::invalid_input("no record"));
  if (record.ok()) {
    work->machine.restore(*record, wall());
    if (const std::string_view wanted = record->string_at({"address"}); !wanted.empty()) address = wanted;
  } else {
    work->machine.restore_from_status(wall());
  }
  work->start_time = pod->status.start_time ? pod->status.start_time : wall();
  if (is_finished(pod->status.phase)) {
    work->machine.set_outcome(pod->status.phase == api::core::pod_phase::kSucceeded ? PodOutcome::Succeeded
                                                                                    : PodOutcome::Failed);
    return work;
  }
  work->place = {.node_name = options_.node.name,
                 .host_ip = options_.node.address,
                 .pod_ip = pod->spec.host_network ? options_.node.address : host_.addresses().take(uid, address),
                 .hostname = hostname_of(*pod),
                 .allocatable = options_.node.allocatable.empty() ? options_.node.capacity : options_.node.allocatable};
  return work;
}

void ProcessNode::take_exits(PodWork& work) {
  std::vector<Exit> exits;
  {
    rt::MutexLock lock(mutex_);
    exits.swap(work.exits);
  }
  const rt::Instant now = runtime_.now();
  for (const Exit& one : exits) {
    work.machine.on_exit(one.container, one.exit, one.wall, now);
    for (const auto& probe : work.probes[one.container]) {
      if (probe->is_running) cancel_probe(*probe);
    }
    work.probes[one.container].clear();
    const ContainerRun& run = work.machine.containers()[one.container];
    const bool failed = run.ended && run.ended->exit_code != 0;
    if (failed && run.ended->message.empty() && run.spec->termination_message_policy == "FallbackToLogsOnError") {
      work.machine.container(one.container).ended->message =
          log_end(pod_folder(work.pod->metadata.uid) + "/logs/" + run.name, run.runs - 1, 2048, 80);
    }
  }
}

void ProcessNode::observe(PodWork& work, const PodPtr& pod) {
  const rt::Instant now = runtime_.now();
  PodMachine& machine = work.machine;
  if (!pod) {
    work.is_gone = true;
    machine.request_stop(StopCause::Gone, rt::Duration::zero(), now);
    return;
  }
  if (is_finished(pod->status.phase) && machine.outcome() == PodOutcome::None) {
    // Somebody else has ended it: what still runs goes.
    machine.request_stop(StopCause::Gone, std::chrono::seconds(1), now);
    machine.set_outcome(pod->status.phase == api::core::pod_phase::kSucceeded ? PodOutcome::Succeeded
                                                                              : PodOutcome::Failed);
  }
  if (pod->metadata.deletion_timestamp) {
    const std::int64_t grace = pod->metadata.deletion_grace_period_seconds.value_or(0);
    // Counted from when it was asked for, as the API server does.
    const auto passed = wall() - (pod->metadata.deletion_timestamp - std::chrono::seconds(grace));
    machine.request_stop(StopCause::Deleted,
                         std::max<rt::Duration>(std::chrono::seconds(grace) - passed, rt::Duration::zero()), now);
  }
  if (const auto& deadline = pod->spec.active_deadline_seconds; deadline && machine.outcome() == PodOutcome::None) {
    if (wall() - work.start_time >= std::chrono::seconds(*deadline)) {
      machine.request_stop(StopCause::DeadlineExceeded,
                           std::chrono::seconds(pod->spec.termination_grace_period_seconds.value_or(30)), now);
    }
  }
}

rt::Outcome ProcessNode::sync(const std::string& uid, const rt::StopToken& stop) {
  const auto found = pods_.by_index("uid", uid);
  const PodPtr pod = found.empty() ? nullptr : found.front();
  const std::shared_ptr<PodWork> work = work_of(uid, pod);
  if (!work) return rt::Outcome::done();
  take_exits(*work);
  observe(*work, pod);
  const Result<rt::Instant> wake_at = advance(*work, stop);
  save(*work);
  if (stop.stop_requested()) return rt::Outcome::done();
  if (work->is_gone) {
    if (!work->machine.has_running()) forget(uid);
    return wake_at.ok() && *wake_at != rt::kNever ? rt::Outcome::retry_after(*wake_at - runtime_.now())
                                                  : rt::Outcome::done();
  }
  // The agent's end is not the program's failure: whoever owns the pod makes another one.
  const bool is_our_fault = work->machine.was_interrupted() && work->machine.outcome() == PodOutcome::Failed &&
                            !is_finished(pod->status.phase) && api::controller_of(pod->metadata) != nullptr;
  if (is_our_fault) {
    tell(*work, kube::EventType::Warning, "Interrupted", "the node agent was stopped while the pod ran; it is removed");
    Done done = delete_pod(*work, stop);
    return done.ok() ? rt::Outcome::done() : rt::Outcome::failed(std::move(done).error());
  }
  if (Done done = write_status(*work, pod, stop); !done.ok()) return rt::Outcome::failed(std::move(done).error());
  if (pod->metadata.deletion_timestamp && !work->machine.has_running()) {
    if (Done done = delete_pod(*work, stop); !done.ok()) return rt::Outcome::failed(std::move(done).error());
  }
  if (!wake_at.ok()) return rt::Outcome::failed(wake_at.error());
  if (*wake_at == rt::kNever) return rt::Outcome::done();
  return rt::Outcome::retry_after(std::max(*wake_at - runtime_.now(), rt::Duration::zero()));
}

void ProcessNode::save(PodWork& work) {
  json::Value record = work.machine.record();
  record.as_object().set("address", work.place.pod_ip);
  std::string text = record.to_text();
  if (text == work.written_record || (!work.machine.has_begun() && !work.is_prepared)) return;
  const Done done = write_file(pod_folder(work.pod->metadata.uid) + "/state.json", text, 0600);
  if (!done.ok()) {
    log_.error("cannot record a pod's state", {{"pod", work.pod->metadata.name}, {"error", done.error()}});
    return;
  }
  work.written_record = std::move(text);
}

Done ProcessNode::write_status(PodWork& work, const PodPtr& pod, const rt::StopToken& stop) {
  if (is_finished(pod->status.phase)) return Ok{};
  // A pod that is going away is told about only if it succeeded first.
  if (pod->metadata.deletion_timestamp && work.machine.outcome() != PodOutcome::Succeeded) return Ok{};
  json::Value status = pod_status(work.machine, work.place, work.start_time, work.note, work.condition_times, wall());
  std::string text = status.to_text();
  if (text == work.written_status) return Ok{};
  json::Object patch{{"metadata", json::Object{{"uid", work.pod->metadata.uid}}}, {"status", std::move(status)}};
  const auto answer = client_.call({.verb = kube::Verb::Patch,
                                    .resource = kube::resource_of<api::core::Pod>(),
                                    .ns = pod->metadata.namespace_,
                                    .name = pod->metadata.name,
                                    .subresource = "status",
                                    .body = json::Value(std::move(patch)).to_text(),
                                    .patch_type = kube::PatchType::StrategicMerge},
                                   stop);
  if (answer.ok()) {
    work.written_status = std::move(text);
    return Ok{};
  }
  if (answer.error().is(Reason::NotFound)) return Ok{};  // the watch will say so, too
  return answer.error().with_context("status of pod " + pod->metadata.namespace_ + "/" + pod->metadata.name);
}

Done ProcessNode::delete_pod(PodWork& work, const rt::StopToken& stop) {
  if (work.is_deleted) return Ok{};
  const auto answer = kube::delete_object(client_, kube::resource_of<api::core::Pod>(),
                                          {work.pod->metadata.namespace_, work.pod->metadata.name},
                                          {.uid = work.pod->metadata.uid, .grace_period_seconds = 0}, stop);
  // Conflict: the name belongs to another pod by now.
  if (!answer.ok() && !answer.error().is(Reason::Conflict)) return answer.error();
  work.is_deleted = true;
  return Ok{};
}

void ProcessNode::forget(const std::string& uid) {
  std::shared_ptr<PodWork> work;
  {
    rt::MutexLock lock(mutex_);
    const auto found = works_.find(uid);
    if (found == works_.end()) return;
    work = found->second;
    works_.erase(found);
    log_places_.erase(uid);
  }
  host_.addresses().release(uid);
  host_.names().forget(*work->pod);
  std::error_code error;
  fs::remove_all(pod_folder(uid), error);
}

void ProcessNode::tell(const PodWork& work, kube::EventType type, std::string_view reason, std::string_view message,
                       const ContainerRun* run) {
  if (options_.events == nullptr) return;
  const std::string_view list = run != nullptr && run->kind != ContainerKind::Main ? "initContainers" : "containers";
  const auto& metadata = work.pod->metadata;
  options_.events->event({.api_version = "v1",
                          .kind = "Pod",
                          .ns = metadata.namespace_,
                          .name = metadata.name,
                          .uid = metadata.uid,
                          .resource_version = "",
                          .field_path = run != nullptr ? "spec." + std::string(list) + "{" + run->name + "}" : ""},
                         type, reason, message);
}

}  // namespace basalt::node
