#pragma once

#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "cli/client/command.h"
#include "cli/client/host.h"
#include "rt/sim_test_support.h"
#include "sim/cluster.h"

// For tests only: commands on a simulated cluster.

namespace basalt::cli {

class TestHost final : public Host, public RawApi {
 public:
  explicit TestHost(sim::Cluster& cluster) : cluster_(cluster), interrupts_(cluster.runtime()) {}

  rt::Runtime& runtime() override { return cluster_.runtime(); }
  Interrupts& interrupts() override { return interrupts_; }
  Result<Connection> connect(const ConnectionFlags& flags) override {
    connections.push_back(flags);
    if (connect_error) return *connect_error;
    return Connection{client != nullptr ? client : &cluster_.client(), this, ns, "https://sim", "sim"};
  }
  bool is_configured(const ConnectionFlags&) const override { return configured; }
  Result<Connection> start_local(std::ostream&) override {
    ++local_starts;
    return connect({});
  }
  Terminal terminal() const override { return terminal_; }
  std::optional<std::string> variable(std::string_view name) const override {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  }
  Result<std::string> read_file(const std::string& path) override {
    const auto found = files.find(path);
    if (found == files.end()) return Error::make(Reason::NotFound, path + ": no such file");
    return found->second;
  }
  std::optional<std::string> read_answer() override {
    if (answers.empty()) return std::nullopt;
    std::string answer = answers.front();
    answers.erase(answers.begin());
    return answer;
  }
  Result<std::string> get(const std::string& path, const rt::StopToken& stop) override {
    if (stop.stop_requested()) return Error::make(Reason::Cancelled, "stopped");
    asked.push_back(path);
    if (on_get) return on_get(path);
    const auto found = raw.find(path.substr(0, path.find('?')));
    if (found == raw.end()) return Error::make(Reason::NotFound, "there is nothing at " + path);
    return found->second;
  }

  std::vector<ConnectionFlags> connections;
  std::optional<Error> connect_error;
  bool configured = true;
  int local_starts = 0;
  kube::Client* client = nullptr;  // instead of the cluster's
  std::string ns = "default";
  std::map<std::string, std::string, std::less<>> variables;
  std::map<std::string, std::string, std::less<>> files;
  std::map<std::string, std::string, std::less<>> raw;  // bodies by path without query
  std::function<Result<std::string>(const std::string& path)> on_get;
  std::vector<std::string> asked;
  std::vector<std::string> answers;
  Terminal terminal_;

 private:
  sim::Cluster& cluster_;
  Interrupts interrupts_;
};

struct Ran {
  int exit = 0;
  std::string out;
  std::string err;
};

// Runs "vcctl job list -n a" split at blanks; the first words that name the program and group are given apart.
inline Ran run_line(TestHost& host, const CommandGroup& group, std::string program,
                    std::vector<std::string> arguments) {
  std::ostringstream out;
  std::ostringstream err;
  const Invocation invocation{std::move(program), std::move(arguments), out, err};
  Ran ran;
  ran.exit = run_group(invocation, host, group);
  ran.out = out.str();
  ran.err = err.str();
  return ran;
}

inline Ran run_line(TestHost& host, const ClientCommand& command, std::string program,
                    std::vector<std::string> arguments) {
  std::ostringstream out;
  std::ostringstream err;
  const Invocation invocation{std::move(program), std::move(arguments), out, err};
  Ran ran;
  ran.exit = run_single(invocation, host, command);
  ran.out = out.str();
  ran.err = err.str();
  return ran;
}

// Runs the body on a cluster of its own, once for each seed.
inline void on_cluster(const std::function<void(sim::Cluster&, TestHost&)>& body, std::uint64_t seeds = 1) {
  rt::run_seeds(1, seeds, [&](rt::SimRuntime& runtime) {
    sim::Cluster cluster(runtime);
    TestHost host(cluster);
    body(cluster, host);
    cluster.stop();
  });
}

}  // namespace basalt::cli
