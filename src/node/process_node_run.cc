// The part of ProcessNode that starts and ends containers.
#include <algorithm>
#include <csignal>
#include <filesystem>

#include "kube/typed.h"
#include "node/process_node.h"
#include "node/process_node_impl.h"

namespace basalt::node {
namespace {

namespace fs = std::filesystem;

constexpr rt::Duration kBlockedMin = std::chrono::milliseconds(200);  // a new namespace is furnished within that
constexpr rt::Duration kBlockedMax = std::chrono::seconds(30);

Done make_folder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return Error::make(Reason::InternalError, "cannot make folder " + path + ": " + error.message());
  return Ok{};
}

std::string no_command(const api::core::Container& container) {
  return "image " + container.image + " has no command here: process nodes do not pull images; give command:";
}

// "registry.example/group/name:tag@digest" is asked for as it is, then without digest and tag, then as "name".
const std::vector<std::string>* program_of(const ProcessNodeOptions& options, std::string_view image) {
  if (const auto found = options.images.find(std::string(image)); found != options.images.end()) return &found->second;
  image = image.substr(0, image.find('@'));
  const std::size_t slash = image.rfind('/');
  const std::size_t colon = image.rfind(':');
  if (colon != std::string_view::npos && (slash == std::string_view::npos || colon > slash))
    image = image.substr(0, colon);
  for (const std::string_view name : {image, slash == std::string_view::npos ? image : image.substr(slash + 1)}) {
    if (const auto found = options.images.find(std::string(name)); found != options.images.end()) return &found->second;
  }
  return nullptr;
}

// Whoever makes another pod in place of one that has failed at once would do so without end.
bool has_tireless_owner(const api::core::Pod& pod) {
  if (pod.spec.restart_policy != "Always") return false;
  for (const auto& owner : pod.metadata.owner_references) {
    const std::string_view kind = owner.kind;
    if (kind == "ReplicaSet" || kind == "StatefulSet" || kind == "DaemonSet" || kind == "ReplicationController")
      return true;
  }
  return false;
}

bool is_below(std::string_view path, std::string_view folder) {
  return path == folder || (path.starts_with(folder) && path.substr(folder.size()).starts_with('/'));
}

}  // namespace

Result<api::core::ConfigMap> ProcessNode::Objects::config_map(const std::string& ns, const std::string& name) {
  return kube::get_object<api::core::ConfigMap>(client_, {ns, name}, stop_);
}

Result<api::core::Secret> ProcessNode::Objects::secret(const std::string& ns, const std::string& name) {
  return kube::get_object<api::core::Secret>(client_, {ns, name}, stop_);
}

Done ProcessNode::Objects::claim(const std::string& ns, const std::string& name) {
  BASALT_TRY_DONE(client_.call({.verb = kube::Verb::Get,
                                .resource = kube::resource_of<api::core::PersistentVolumeClaim>(),
                                .ns = ns,
                                .name = name},
                               stop_));
  return Ok{};
}

Result<std::string> ProcessNode::Objects::token(const api::core::Pod& pod, const TokenWish& wish) {
  return tokens_.get(runtime_, client_, pod, wish, stop_);
}

// What only a change elsewhere can mend: shown on the pod, looked at again later.
void ProcessNode::block(PodWork& work, const Error& error) {
  const std::string_view reason = work.is_prepared ? "CreateContainerConfigError" : "FailedMount";
  if (work.note.message != error.message) tell(work, kube::EventType::Warning, reason, error.message);
  work.note = {std::string(reason), error.message};
  rt::Duration delay = kBlockedMin;
  for (std::uint32_t i = 0; i < work.blocked_times && delay < kBlockedMax; ++i) delay *= 2;
  ++work.blocked_times;
  work.blocked_until = runtime_.now() + std::min(delay, kBlockedMax);
}

void ProcessNode::set_refresh(PodWork& work) {
  const rt::Instant now = runtime_.now();
  work.refresh_at = now + options_.volume_refresh;
  // One that is due already was refused; it is tried again with the rest.
  if (const rt::Instant due = work.tokens.renew_at(); due > now) work.refresh_at = std::min(work.refresh_at, due);
}

// A program that looks for a kubeconfig before it looks for its account finds one that says the same.
Done ProcessNode::add_kubeconfig(const PodWork& work, const api::core::Container& container, Environment& env) {
  for (const auto& mount : container.volume_mounts) {
    if (fs::path("/" + mount.mount_path).lexically_normal() != fs::path(kAccountMountPath)) continue;
    for (const auto& volume : work.pod->spec.volumes) {
      if (volume.name != mount.name || !volume.projected) continue;
      const std::string& uid = work.pod->metadata.uid;
      const std::string folder = host_.runner().isolates() ? std::string(kAccountMountPath)
                                                           : volume_path(*work.pod, volume, volume_folders(uid));
      const std::string text = account_kubeconfig(env, folder, work.pod->metadata.namespace_);
      if (text.empty()) return Ok{};
      const std::string path = pod_folder(uid) + "/containers/" + container.name + "/kubeconfig";
      BASALT_TRY_DONE(write_file(path, text, 0644));
      set_variable(env, "KUBECONFIG", path);
    }
  }
  return Ok{};
}

Done ProcessNode::prepare(PodWork& work, const rt::StopToken& stop) {
  if (work.is_prepared) return Ok{};
  if (work.place.pod_ip.empty())
    return Error::make(Reason::InvalidInput, "all addresses of the node's range are taken");
  Objects objects(runtime_, client_, work.tokens, stop);
  const std::string& uid = work.pod->metadata.uid;
  BASALT_TRY_DONE(make_folder(pod_folder(uid)));
  BASALT_TRY_DONE(make_volumes(*work.pod, work.place, volume_folders(uid), objects));
  BASALT_TRY(work.hosts_path, host_.names().hosts_file(*work.pod, work.place.hostname, work.place.pod_ip));
  work.is_prepared = true;
  if (has_changing_volumes(*work.pod)) set_refresh(work);
  return Ok{};
}

Result<rt::Instant> ProcessNode::advance(PodWork& work, const rt::StopToken& stop) {
  PodMachine& machine = work.machine;
  rt::Instant wake_at = rt::kNever;
  while (!stop.stop_requested()) {
    const rt::Instant now = runtime_.now();
    const PodStep step = machine.step(now);
    for (const std::size_t i : step.ask) host_.runner().signal(machine.containers()[i].process, SIGTERM);
    for (const std::size_t i : step.kill) host_.runner().signal(machine.containers()[i].process, SIGKILL);
    wake_at = step.wake_at;
    if (step.start.empty()) break;
    if (now < work.blocked_until) {
      wake_at = std::min(wake_at, work.blocked_until);
      break;
    }
    Done done = prepare(work, stop);
    for (std::size_t i = 0; done.ok() && i < step.start.size(); ++i) done = start_container(work, step.start[i], stop);
    if (done.ok()) {
      work.note = {};
      work.blocked_times = 0;
      continue;
    }
    // InternalError: this machine's own, such as a full disk.
    if (!done.error().is(Reason::NotFound) && !done.error().is(Reason::InvalidInput) &&
        !done.error().is(Reason::InternalError))
      return done.error();
    block(work, done.error());
    wake_at = std::min(wake_at, work.blocked_until);
    break;
  }
  run_probes(work, wake_at);
  if (machine.has_running() && work.refresh_at <= runtime_.now()) {
    // A failure leaves the files as they were; the next time will do.
    Objects objects(runtime_, client_, work.tokens, stop);
    (void)make_volumes(*work.pod, work.place, volume_folders(work.pod->metadata.uid), objects);
    set_refresh(work);
  }
  if (machine.has_running()) wake_at = std::min(wake_at, work.refresh_at);
  if (const auto& deadline = work.pod->spec.active_deadline_seconds;
      deadline && machine.outcome() == PodOutcome::None && machine.stop_cause() == StopCause::None) {
    const auto left = std::chrono::seconds(*deadline) - (wall() - work.start_time);
    wake_at = std::min(wake_at, rt::saturating_add(runtime_.now(), std::max(left, std::chrono::seconds(1))));
  }
  return wake_at;
}

Result<ProcessSpec> ProcessNode::process_spec(PodWork& work, std::size_t index, Objects& objects) {
  const api::core::Container& container = *work.machine.containers()[index].spec;
  const std::string& uid = work.pod->metadata.uid;
  const VolumeFolders folders = volume_folders(uid);
  Environment base = base_environment_;
  set_variable(base, "HOSTNAME", work.place.hostname);
  set_variable(base, "BASALT_HOSTS_FILE", work.hosts_path);
  set_variable(base, "BASALT_POD_IP", work.place.pod_ip);
  for (const auto& mount : container.volume_mounts) {
    for (const auto& volume : work.pod->spec.volumes) {
      if (volume.name == mount.name)
        set_variable(base, volume_variable(volume.name), volume_path(*work.pod, volume, folders));
    }
  }
  BASALT_TRY_DONE(add_kubeconfig(work, container, base));
  ProcessSpec spec;
  spec.name = work.pod->metadata.namespace_ + "/" + work.pod->metadata.name + "/" + container.name;
  BASALT_TRY(spec.env, container_environment(*work.pod, container, work.place, std::move(base), objects));
  const std::vector<std::string>* program = container.command.empty() ? program_of(options_, container.image) : nullptr;
  for (const auto* list : {program != nullptr ? program : &container.command, &container.args}) {
    for (const std::string& word : *list) spec.argv.push_back(expand_variables(word, spec.env));
  }
  const std::string own = pod_folder(uid) + "/containers/" + container.name;
  const std::string rootfs = own + "/rootfs";
  spec.scratch = own + "/scratch";
  BASALT_TRY_DONE(make_folder(rootfs));
  BASALT_TRY_DONE(make_folder(spec.scratch));
  BASALT_TRY(spec.mounts, container_mounts(*work.pod, container, spec.env, folders, rootfs));
  set_variable(spec.env, "BASALT_ROOTFS", rootfs);
  spec.working_dir = rootfs;
  if (!container.working_dir.empty()) {
    const std::string wanted = fs::path("/" + container.working_dir).lexically_normal().native();
    bool mounted = false;
    for (const BindMount& mount : spec.mounts) mounted = mounted || is_below(wanted, mount.target);
    std::error_code error;
    if (host_.runner().isolates() ? mounted || fs::is_directory(wanted, error)
                                  : !mounted && fs::is_directory(wanted, error)) {
      spec.working_dir = wanted;
    } else {
      spec.working_dir = rootfs + wanted;
      if (!mounted) {
        BASALT_TRY_DONE(make_folder(spec.working_dir));
      }
      if (host_.runner().isolates()) {
        spec.mounts.push_back({spec.working_dir, wanted, false});
        spec.working_dir = wanted;
      }
    }
  }
  spec.mounts.push_back({work.hosts_path, "/etc/hosts", true});
  spec.hostname = work.place.hostname;
  const api::ResourceList& limits = container.resources.limits;
  if (const api::Quantity* memory = limits.find("memory"); memory != nullptr) {
    spec.limits.memory_bytes_max = static_cast<std::uint64_t>(std::max<std::int64_t>(memory->value(), 0));
    if (options_.limit_address_space) spec.address_space_bytes_max = spec.limits.memory_bytes_max;
  }
  if (const api::Quantity* cpu = limits.find("cpu"); cpu != nullptr) spec.limits.cpu_milli_max = cpu->milli_value();
  return spec;
}

Done ProcessNode::start_container(PodWork& work, std::size_t index, const rt::StopToken& stop) {
  ContainerRun& run = work.machine.container(index);
  if (run.spec->command.empty() && program_of(options_, run.spec->image) == nullptr) {
    work.machine.on_start_failed(index, !has_tireless_owner(*work.pod), no_command(*run.spec), wall(), runtime_.now());
    tell(work, kube::EventType::Warning, "Failed", "container " + run.name + ": " + no_command(*run.spec));
    return Ok{};
  }
  Objects objects(runtime_, client_, work.tokens, stop);
  auto spec = process_spec(work, index, objects);
  if (!spec.ok()) return spec.error().with_context("container " + run.name);
  if (stop.stop_requested()) return Error::make(Reason::Cancelled, "stopped");
  // Recorded first: whatever happens now, it is known that this run may have begun.
  run.is_starting = true;
  save(work);
  run_process(work, index, *spec);
  work.specs[index] = std::move(*spec);
  return Ok{};
}

void ProcessNode::run_process(PodWork& work, std::size_t index, const ProcessSpec& spec) {
  const ContainerRun& run = work.machine.containers()[index];
  const std::string& uid = work.pod->metadata.uid;
  const auto log =
      std::make_shared<ContainerLog>(runtime_, pod_folder(uid) + "/logs/" + run.name, run.runs, options_.logs);
  {
    rt::MutexLock lock(mutex_);
    log_places_[uid][run.name] = {run.runs, log, std::make_shared<const ProcessSpec>(spec), {}};
  }
  // The node outlives its processes: stop() waits for their exits. The pod's entry may be gone by then.
  std::weak_ptr<PodWork> weak;
  {
    rt::MutexLock lock(mutex_);
    weak = works_[uid];
  }
  const auto started = host_.runner().start(
      spec, [log](OutputStream stream, std::string_view bytes) { log->append(stream, bytes); },
      [this, log, weak, uid, index, name = run.name](const ProcessExit& exit) {
        log->close();
        end_commands(uid, name);
        {
          rt::MutexLock lock(mutex_);
          if (const auto owner = weak.lock()) owner->exits.push_back({index, exit, wall()});
          exited_.notify_all();
        }
        queue_.add(uid);
      });
  if (started.ok()) {
    work.machine.on_started(index, started->id, wall(), runtime_.now());
    return;
  }
  log->append(OutputStream::Err, started.error().message + "\n");
  log->close();
  end_commands(uid, run.name);
  const bool for_good = started.error().is(Reason::InvalidInput) && !has_tireless_owner(*work.pod);
  work.machine.on_start_failed(index, for_good, started.error().message, wall(), runtime_.now());
  tell(work, kube::EventType::Warning, "Failed", started.error().message);
}

Done ProcessNode::read_log(const std::string& ns, const std::string& name, const std::string& container,
                           const LogOptions& options, const LogSink& sink, const rt::StopToken& stop) {
  const PodPtr pod = pods_.get({ns, name});
  if (!pod) return Error::make(Reason::NotFound, "pods \"" + name + "\" not found");
  std::string wanted = container;
  std::string names;
  bool known = false;
  for (const auto* list : {&pod->spec.containers, &pod->spec.init_containers}) {
    for (const auto& one : *list) {
      names += (names.empty() ? "" : " ") + one.name;
      known = known || one.name == container;
    }
  }
  if (wanted.empty()) {
    if (pod->spec.containers.size() != 1) {
      return Error::make(Reason::BadRequest,
                         "a container name must be specified for pod " + name + ", choose one of: [" + names + "]");
    }
    wanted = pod->spec.containers.front().name;
  } else if (!known) {
    return Error::make(Reason::BadRequest, "container " + container + " is not valid for pod " + name);
  }
  LogPlace place;
  {
    rt::MutexLock lock(mutex_);
    const auto found = log_places_.find(pod->metadata.uid);
    if (found != log_places_.end()) place = found->second[wanted];
  }
  if (place.run < 0) {
    return Error::make(Reason::BadRequest,
                       "container \"" + wanted + "\" in pod \"" + name + "\" is waiting to start: ContainerCreating");
  }
  if (options.previous && place.run < 1) {
    return Error::make(Reason::BadRequest,
                       "previous terminated container \"" + wanted + "\" in pod \"" + name + "\" not found");
  }
  if (!sink({})) return Ok{};
  return read_container_log(pod_folder(pod->metadata.uid) + "/logs/" + wanted,
                            options.previous ? place.run - 1 : place.run, options.previous ? nullptr : place.live.get(),
                            options, sink, stop);
}

}  // namespace basalt::node
