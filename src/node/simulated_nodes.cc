#include "node/simulated_nodes.h"

#include <algorithm>

#include "api/gen/core_node.h"
#include "api/gen/core_pod.h"
#include "base/strings.h"
#include "kube/typed.h"
#include "rt/backoff.h"

namespace basalt::node {
namespace {

SimulatedNodesOptions completed(SimulatedNodesOptions options) {
  NodeDescription& node = options.node;
  const auto fill = [&](std::string_view name, const api::Quantity& amount) {
    if (node.capacity.find(name) == nullptr) node.capacity.set(name, amount);
  };
  fill("cpu", api::Quantity::of(32));
  fill("memory", api::Quantity::of(128LL << 30, api::Quantity::Format::BinarySI));
  fill("pods", api::Quantity::of(options.pods_max));
  node.runtime = "simulated";
  return options;
}

// The length of time since `started`, to the second, as the status has it; never negative.
rt::Duration since(api::Time started, api::Time now) {
  return std::max<rt::Duration>(now - started, rt::Duration::zero());
}

}  // namespace

SimulatedNodes::SimulatedNodes(rt::Runtime& runtime, kube::Client& client, const Logger& log,
                               SimulatedNodesOptions options)
    : runtime_(runtime),
      client_(client),
      log_(log.with({{"nodes", options.prefix}})),
      options_(completed(std::move(options))),
      stop_(runtime),
      pods_(runtime, client, log_, {.reflector = {.resource = kube::resource_of<api::core::Pod>()}, .indexes = {}}),
      queue_(runtime, {.name = "simulated", .capacity = 10'000'000}),
      registered_changed_(runtime) {
  pods_.add_handler([this](const kube::Change<SimulatedPod>& change) { see(change); });
}

SimulatedNodes::~SimulatedNodes() { stop(); }

api::Time SimulatedNodes::wall() const {
  return api::Time::from(std::chrono::time_point_cast<std::chrono::system_clock::duration>(runtime_.wall_now()));
}

bool SimulatedNodes::is_mine(std::string_view node_name) const {
  const auto rest = base::strip_prefix(node_name, options_.prefix);
  if (!rest || rest->empty() || (rest->size() > 1 && rest->front() == '0')) return false;
  const auto index = base::parse_uint64(*rest);
  return index && *index < static_cast<std::uint64_t>(options_.count);
}

void SimulatedNodes::start() {
  if (started_) return;
  started_ = true;
  threads_.emplace_back(runtime_, "sim-nodes", [this] { register_and_renew(); });
  if (options_.count == 0) return;  // nothing but a removal of what was: no cache of pods
  pods_.start();
  for (int i = 0; i < options_.workers; ++i) threads_.emplace_back(runtime_, "sim-pods", [this] { work(); });
}

void SimulatedNodes::stop() {
  if (!started_) return;
  started_ = false;
  stop_.request_stop();
  queue_.close();
  for (rt::Thread& thread : threads_) thread.join();
  threads_.clear();
  if (options_.count > 0) pods_.stop();
}

bool SimulatedNodes::has_pod(const std::string& ns, const std::string& name) {
  const PodPtr pod = pods_.get({ns, name});
  return pod && is_mine(pod->node_name);
}

Result<ProcessExit> SimulatedNodes::run_command(const Command& command, ProcessRunner::OnOutput, const rt::StopToken&) {
  return Error::make(
      Reason::BadRequest,
      "pod " + command.pod + " is on a simulated node, where nothing runs: there is nothing to exec into");
}

Done SimulatedNodes::read_log(const std::string& ns, const std::string& name, const std::string& container,
                              const LogOptions& options, const LogSink& sink, const rt::StopToken&) {
  const PodPtr pod = pods_.get({ns, name});
  if (!pod) return Error::make(Reason::NotFound, "pods \"" + name + "\" not found");
  const bool known = container.empty() || std::any_of(pod->containers.begin(), pod->containers.end(),
                                                      [&](const auto& one) { return one.name == container; });
  if (!known) return Error::make(Reason::BadRequest, "container " + container + " is not valid for pod " + name);
  if (pod->phase.empty() || pod->phase == "Pending") {
    return Error::make(Reason::BadRequest, "container \"" + container + "\" in pod \"" + name +
                                               "\" is waiting to start: ContainerCreating");
  }
  if (!sink({}) || options.tail_lines.value_or(1) == 0) return Ok{};
  std::string line = "pod " + ns + "/" + name + " is simulated on node " + pod->node_name + ": nothing runs\n";
  if (options.timestamps) line = log_stamp(runtime_.wall_now()) + " " + line;
  if (options.limit_bytes) line.resize(std::min(line.size(), static_cast<std::size_t>(*options.limit_bytes)));
  (void)sink(line);
  return Ok{};
}

// Only what asks for a step is queued; that a pod runs, for one, we know from having written it.
void SimulatedNodes::see(const kube::Change<SimulatedPod>& change) {
  const SimulatedPod& pod = change.object();
  if (!is_mine(pod.node_name)) return;
  const bool is_over = pod.is_finished() && !pod.is_deleted;
  if (change.is_added() && is_over) return;
  const bool is_news = !change.is_updated() || change.before->node_name.empty() ||
                       change.before->is_deleted != pod.is_deleted || change.before->is_finished() != pod.is_finished();
  {
    const rt::MutexLock lock(mutex_);
    auto found = known_.find(pod.metadata.uid);
    if (found == known_.end()) {
      if (!is_news || is_over || !change.after) return;
      found = known_.try_emplace(pod.metadata.uid).first;
    }
    found->second.pod = change.after;
  }
  if (is_news) queue_.add(pod.metadata.uid);
}

void SimulatedNodes::work() {
  const rt::StopToken stop = stop_.token();
  while (auto first = queue_.get(stop)) {
    std::vector<std::string> keys{std::move(*first)};
    while (keys.size() < options_.batch_max) {
      auto next = queue_.try_get();
      if (!next) break;
      keys.push_back(std::move(*next));
    }
    std::vector<Step> steps;
    std::vector<kube::Request> requests;
    for (const std::string& uid : keys) {
      Plan planned = plan(uid);
      if (planned.wake_at != rt::kNever) queue_.add_after(uid, planned.wake_at - runtime_.now());
      if (!planned.step) continue;
      requests.push_back(std::move(planned.step->request));
      steps.push_back(std::move(*planned.step));
    }
    if (!requests.empty()) {
      const auto answers = client_.call_all(requests, {.in_flight_max = options_.in_flight_max}, stop);
      for (std::size_t i = 0; i < steps.size(); ++i) settle(steps[i], answers[i]);
    }
    for (const std::string& uid : keys) queue_.done(uid);
  }
}

SimulatedNodes::Life SimulatedNodes::begin_life(const SimulatedPod& pod, const SimulatedFate& fate) {
  Life life;
  const rt::Instant now = runtime_.now();
  life.restarts = pod.restarts;
  life.is_running = pod.phase == "Running";
  if (!life.is_running) {
    life.due = rt::saturating_add(now, fate.start_delay);
  } else {
    // Begun by an earlier agent: it ends when it would have.
    life.started = pod.running_since ? pod.running_since : wall();
    const rt::Duration left = std::max(fate.run_time - since(life.started, wall()), rt::Duration::zero());
    life.due = fate.run_time == SimulatedFate::kForever ? rt::kNever : rt::saturating_add(now, left);
  }
  remember(pod.metadata.uid, life);
  return life;
}

void SimulatedNodes::remember(const std::string& uid, const Life& life) {
  const rt::MutexLock lock(mutex_);
  if (const auto found = known_.find(uid); found != known_.end()) found->second.life = life;
}

SimulatedNodes::Plan SimulatedNodes::plan_removal(const PodPtr& pod, Life life, rt::Duration stop_delay) {
  const rt::Instant now = runtime_.now();
  if (!life.is_ending) {
    life.is_ending = true;
    life.is_over = false;
    life.due = rt::saturating_add(now, stop_delay);
    remember(pod->metadata.uid, life);
  }
  if (life.is_over) return {};
  if (now < life.due) return {.wake_at = life.due};
  life.is_over = true;
  return {.step = make_step(pod, life, Move::Remove, 0, "")};
}

SimulatedNodes::Plan SimulatedNodes::plan(const std::string& uid) {
  Known known;
  {
    const rt::MutexLock lock(mutex_);
    const auto found = known_.find(uid);
    if (found == known_.end()) return {};
    known = found->second;
    if (!known.pod || (known.pod->is_finished() && !known.pod->is_deleted)) {
      known_.erase(found);
      known.pod = nullptr;
    }
  }
  if (!known.pod) {
    queue_.forget(uid);
    return {};
  }
  const PodPtr& pod = known.pod;
  const auto fate = fate_of(*pod, options_.fate);
  const SimulatedFate& own = fate.ok() ? *fate : options_.fate;
  if (!known.life && (fate.ok() || pod->is_deleted)) known.life = begin_life(*pod, own);
  if (pod->is_deleted) return plan_removal(pod, *known.life, own.stop_delay);
  if (!fate.ok()) return {.step = make_step(pod, {.is_over = true}, Move::Refuse, 0, fate.error().message)};
  Life life = *known.life;
  if (life.is_over) return {};
  const rt::Instant now = runtime_.now();
  if (now < life.due) return {.wake_at = life.due};
  if (!life.is_running) {
    life.is_running = true;
    life.started = wall();
    life.due = fate->run_time == SimulatedFate::kForever ? rt::kNever : rt::saturating_add(now, fate->run_time);
    return {.step = make_step(pod, life, Move::Run, 0, "")};
  }
  const std::int32_t code = exit_code_of(*pod, *fate, life.restarts);
  if (!restarts_after(pod->restart_policy, code)) {
    life.is_over = true;
    return {.step = make_step(pod, life, Move::Finish, code, "")};
  }
  rt::Duration pause = options_.restart_base;
  for (std::uint32_t i = 0; i < life.restarts_in_row && pause < options_.restart_cap; ++i) pause *= 2;
  pause = std::min(pause, options_.restart_cap);
  ++life.restarts;
  ++life.restarts_in_row;
  life.due = rt::saturating_add(now, std::max(pause, fate->run_time));
  return {.step = make_step(pod, life, Move::Restart, code, "")};
}

SimulatedNodes::Step SimulatedNodes::make_step(const PodPtr& pod, Life life, Move move, std::int32_t exit_code,
                                               std::string_view why) {
  Step step{.uid = pod->metadata.uid, .pod = pod, .life = life, .move = move, .exit_code = exit_code};
  static const kube::Resource kPods = kube::resource_of<api::core::Pod>();
  step.request.resource = kPods;
  step.request.ns = pod->metadata.namespace_;
  step.request.name = pod->metadata.name;
  if (move == Move::Remove) {
    step.request.verb = kube::Verb::Delete;
    step.request.precondition_uid = pod->metadata.uid;
    step.request.grace_period_seconds = 0;
    return step;
  }
  step.request.verb = kube::Verb::Patch;
  step.request.subresource = "status";
  step.request.patch_type = kube::PatchType::StrategicMerge;
  switch (move) {
    case Move::Run:
      step.request.body = running_patch(*pod, life.restarts, 0, life.started, wall());
      break;
    case Move::Restart:
      step.request.body = running_patch(*pod, life.restarts, exit_code, life.started, wall());
      step.life.started = wall();
      break;
    case Move::Finish:
      step.request.body = finished_patch(*pod, life.restarts, exit_code, life.started, wall());
      break;
    case Move::Refuse:
    case Move::Remove:
      step.request.body = refused_patch(*pod, why);
      break;
  }
  return step;
}

void SimulatedNodes::settle(const Step& step, const Result<kube::Response>& answer) {
  if (answer.ok()) {
    queue_.forget(step.uid);
    remember(step.uid, step.life);
    if (!step.life.is_over && step.life.due != rt::kNever) queue_.add_after(step.uid, step.life.due - runtime_.now());
    return;
  }
  const Error& error = answer.error();
  if (error.is(Reason::Cancelled)) return;
  // Not there, or another pod of this name: the watch says so, too.
  if (error.is(Reason::NotFound) || error.is(Reason::Conflict)) {
    queue_.add_rate_limited(step.uid);
    return;
  }
  if (queue_.retries(step.uid) == 0) {
    log_.warn("a simulated pod's status was not written, trying again",
              {{"pod", step.request.ns + "/" + step.request.name}, {"error", error}});
  }
  queue_.add_rate_limited(step.uid, error.retry_after.value_or(std::chrono::milliseconds(0)));
}

}  // namespace basalt::node
