#pragma once

#include <memory>
#include <string>

#include "base/log.h"
#include "base/result.h"
#include "kube/client.h"
#include "node/pod_names.h"
#include "node/prober.h"
#include "node/process_runner.h"
#include "rt/runtime.h"

namespace basalt::node {

struct ProcessHostOptions {
  std::string root;                             // folder for everything; made if absent, mode 0700
  std::string address_range = "127.64.0.0/10";  // pods' addresses
  Isolation isolation = Isolation::Auto;
};

// What all process nodes of one program share: the processes, the pods' addresses and names. Outlives the nodes.
class ProcessHost {
 public:
  // With real processes and connections, or with the given ones (simulations).
  static Result<std::unique_ptr<ProcessHost>> open(rt::Runtime& runtime, kube::Client& client, const Logger& log,
                                                   ProcessHostOptions options,
                                                   std::unique_ptr<ProcessRunner> runner = nullptr,
                                                   std::unique_ptr<Prober> prober = nullptr);
  ~ProcessHost();

  // Kills what an earlier program left behind on this folder. Before the nodes' start().
  void start();
  // After the nodes' stop(): kills whatever is left. Before destruction; idempotent.
  void stop();

  [[nodiscard]] const std::string& root() const { return root_; }  // absolute
  [[nodiscard]] ProcessRunner& runner() { return *runner_; }
  [[nodiscard]] Prober& prober() { return *prober_; }
  [[nodiscard]] AddressPool& addresses() { return *addresses_; }
  [[nodiscard]] PodNames& names() { return names_; }
  // Entries for the environment of every process, by which leftovers are found: of this folder, and of this program,
  // which dies with it. Two, because a guard that is late must not kill what the next program has started.
  [[nodiscard]] const std::string& mark() const { return mark_; }
  [[nodiscard]] const std::string& program_mark() const { return program_mark_; }
  static constexpr std::string_view kMarkVariable = "BASALT_HOST_ID";
  static constexpr std::string_view kProgramMarkVariable = "BASALT_PROGRAM_ID";

 private:
  ProcessHost(rt::Runtime& runtime, kube::Client& client, const Logger& log, std::string root, std::string mark,
              std::unique_ptr<ProcessRunner> runner, std::unique_ptr<Prober> prober,
              std::unique_ptr<AddressPool> addresses);

  // Fixed after construction.
  const Logger log_;
  const std::string root_;
  const std::string mark_;
  const std::string program_mark_;
  const std::unique_ptr<ProcessRunner> runner_;
  const std::unique_ptr<Prober> prober_;
  const std::unique_ptr<AddressPool> addresses_;

  PodNames names_;        // self-locking
  bool started_ = false;  // used only by the owner
  bool stopped_ = false;
};

}  // namespace basalt::node
