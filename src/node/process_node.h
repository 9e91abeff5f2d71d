#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "api/gen/core_pod.h"
#include "base/log.h"
#include "kube/client.h"
#include "kube/event_recorder.h"
#include "kube/informer.h"
#include "node/container_log.h"
#include "node/node.h"
#include "node/node_object.h"
#include "node/pod_environment.h"
#include "node/pod_machine.h"
#include "node/pod_volumes.h"
#include "node/process_host.h"
#include "rt/runtime.h"
#include "rt/stop.h"
#include "rt/workers.h"

namespace basalt::node {

struct ProcessNodeOptions {
  NodeDescription node;  // name; capacity is the machine's if empty
  std::int64_t pods_max = 110;
  int workers = 4;
  RestartOptions restart;
  LogLimits logs;
  // Renews a Lease so often, as node controllers of real clusters expect (10 s); zero: never, for embedded use.
  rt::Duration lease_period{};
  // At stop(): between SIGTERM and SIGKILL, if the pod's own grace is not shorter.
  rt::Duration stop_grace = std::chrono::seconds(2);
  bool limit_address_space = false;  // limits.memory as RLIMIT_AS; many programs reserve more than they use
  std::vector<std::string> inherited = {"PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ"};
  Environment environment;
  // Where the API server is, for the pods (service_environment() of pod_tokens.h); asked at start(), by which time it
  // listens.
  std::function<Environment()> cluster_environment;
  // What a container runs that names no command: by image, with or without its registry and tag, the words of a program
  // of this machine; the container's `args` follow.
  std::map<std::string, std::vector<std::string>> images;
  std::string host_path_root;                              // "" = <root>/hostpath
  rt::Duration volume_refresh = std::chrono::seconds(60);  // of ConfigMap, Secret and downward volumes
  kube::EventRecorder* events = nullptr;                   // not owned
};

// A node whose containers are processes of this machine; see README.md for what is mapped and what is not. Workers over
// the pods' UIDs: one pod is never worked on twice at once. What must survive the agent is in state.json of each pod,
// written before anybody is told.
class ProcessNode final : public Node {
 public:
  ProcessNode(rt::Runtime& runtime, kube::Client& client, const Logger& log, ProcessHost& host,
              ProcessNodeOptions options);
  ~ProcessNode() override;

  void start() override;
  void stop() override;
  [[nodiscard]] bool has_pod(const std::string& ns, const std::string& name) override;
  Done read_log(const std::string& ns, const std::string& name, const std::string& container, const LogOptions& options,
                const LogSink& sink, const rt::StopToken& stop) override;
  Result<ProcessExit> run_command(const Command& command, ProcessRunner::OnOutput on_output,
                                  const rt::StopToken& stop) override;

 private:
  struct Exit {
    std::size_t container = 0;
    ProcessExit exit;
    api::Time wall;
  };
  struct LogPlace {
    std::int32_t run = -1;  // newest; -1 if none has begun
    std::shared_ptr<ContainerLog> live;
    std::shared_ptr<const ProcessSpec> running;  // what it was started with; null when it has ended
    std::vector<ProcessId> commands;             // that run beside it
  };
  struct ProbeRun;
  // A pod on this node. Used by the worker that has its key, except for what says otherwise.
  struct PodWork;
  using PodPtr = std::shared_ptr<const api::core::Pod>;

  class Objects;

  rt::Outcome sync(const std::string& uid, const rt::StopToken& stop);
  std::shared_ptr<PodWork> work_of(const std::string& uid, const PodPtr& pod);
  std::shared_ptr<PodWork> adopt(const PodPtr& pod);
  void observe(PodWork& work, const PodPtr& pod);
  void take_exits(PodWork& work);
  // Starts and ends what is due; how long until something is, or an error of the API.
  Result<rt::Instant> advance(PodWork& work, const rt::StopToken& stop);
  Done prepare(PodWork& work, const rt::StopToken& stop);
  // When the files of the volumes are looked at again.
  void set_refresh(PodWork& work);
  Done add_kubeconfig(const PodWork& work, const api::core::Container& container, Environment& env);
  Done start_container(PodWork& work, std::size_t index, const rt::StopToken& stop);
  Result<ProcessSpec> process_spec(PodWork& work, std::size_t index, Objects& objects);
  void run_process(PodWork& work, std::size_t index, const ProcessSpec& spec);
  void block(PodWork& work, const Error& error);
  void save(PodWork& work);
  Done write_status(PodWork& work, const PodPtr& pod, const rt::StopToken& stop);
  Done delete_pod(PodWork& work, const rt::StopToken& stop);
  void forget(const std::string& uid);
  void remove_stale_folders();
  // Probes; `wake_at` becomes earlier where the next step is.
  void run_probes(PodWork& work, rt::Instant& wake_at);
  void begin_probes(PodWork& work, std::size_t index);
  void step_probe(PodWork& work, std::size_t index, const std::shared_ptr<ProbeRun>& probe, rt::Instant& wake_at);
  void start_probe(PodWork& work, std::size_t index, const std::shared_ptr<ProbeRun>& probe);
  Done start_command(PodWork& work, std::size_t index, const std::shared_ptr<ProbeRun>& probe);
  Done start_check(PodWork& work, std::size_t index, const std::shared_ptr<ProbeRun>& probe);
  // From whatever thread has it.
  void finish_probe(ProbeRun& probe, const std::string& uid, CheckResult result);
  void cancel_probe(const ProbeRun& probe);
  // The container has ended: nothing more runs beside it.
  void end_commands(const std::string& uid, const std::string& container);
  void judge(PodWork& work, std::size_t index, ProbeRun& probe, rt::Instant& wake_at);
  void tell_result(const PodWork& work, const ContainerRun& run, const ProbeRun& probe);
  // `run`: the container that it is about, if it is about one.
  void tell(const PodWork& work, kube::EventType type, std::string_view reason, std::string_view message,
            const ContainerRun* run = nullptr);
  void register_and_renew();
  // Until it is there; false if stopped first.
  [[nodiscard]] bool register_self(const rt::StopToken& stop);
  [[nodiscard]] Done renew_lease(const rt::StopToken& stop);
  void end_processes();

  [[nodiscard]] api::Time wall() const;
  [[nodiscard]] std::string pod_folder(const std::string& uid) const { return folder_ + "/pods/" + uid; }
  [[nodiscard]] VolumeFolders volume_folders(const std::string& uid) const;

  // Fixed after construction.
  rt::Runtime& runtime_;
  kube::Client& client_;
  const Logger log_;
  ProcessHost& host_;
  const ProcessNodeOptions options_;
  const std::string folder_;
  Environment base_environment_;

  // Self-locking.
  rt::StopSource stop_;
  kube::Informer<api::core::Pod> pods_;
  rt::WorkQueue<std::string> queue_;
  std::unique_ptr<rt::Workers<std::string>> workers_;

  rt::Mutex mutex_;
  rt::Condition exited_;
  std::map<std::string, std::shared_ptr<PodWork>> works_ BASALT_GUARDED_BY(mutex_);              // by UID
  std::map<std::string, std::map<std::string, LogPlace>> log_places_ BASALT_GUARDED_BY(mutex_);  // UID, container

  std::size_t probes_running_ BASALT_GUARDED_BY(mutex_) = 0;  // and commands

  api::Time ready_since_;  // used only by the registrar
  rt::Thread registrar_;   // used only by the owner
  bool started_ = false;
};

}  // namespace basalt::node
