// A process for leader_real_test: takes part in an election and, while it is the leader, counts up a number in a
// ConfigMap through a fenced client, as fast as it can. Each success is one line of its log: "<number> <time before it
// was sent>".
//
//   leader_actor KUBECONFIG SERVER IDENTITY LOGFILE
//
// Ends with 0 on SIGTERM, with 3 when the leadership was lost.

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "base/strings.h"
#include "json/value.h"
#include "kube/kubeconfig.h"
#include "kube/leader_election.h"
#include "kube/rest_client.h"
#include "rt/real_runtime.h"

namespace {

using namespace basalt;
using namespace std::chrono_literals;

const kube::Resource kConfigMaps{"", "v1", "configmaps"};

// One compare-and-set of the counter; what it became, or 0.
std::int64_t count_up(kube::Client& client, const std::string& identity, const rt::StopToken& stop) {
  kube::Request request;
  request.resource = kConfigMaps;
  request.ns = "default";
  request.name = "counter";
  request.timeout = 2s;
  const auto read = client.call(request, stop);
  json::Value object = json::Object();
  if (read.ok()) {
    object = *json::Value::parse(*read->body);
    request.verb = kube::Verb::Update;
  } else if (read.error().is(Reason::NotFound)) {
    object.ensure_path({"metadata", "name"}) = "counter";
    request.verb = kube::Verb::Create;
    request.name = "";
  } else {
    return 0;
  }
  const std::int64_t next = base::parse_int64(object.string_at({"data", "n"})).value_or(0) + 1;
  object.ensure_path({"data", "n"}) = std::to_string(next);
  object.ensure_path({"data", "by"}) = identity;
  request.body = object.to_text();
  return client.call(request, stop).ok() ? next : 0;
}

void act(const kube::LeaderElector& elector, kube::Client& fenced, rt::Runtime& runtime, std::FILE* log,
         const rt::StopToken& stop) {
  while (!stop.stop_requested()) {
    const auto time = elector.clock().time_since_epoch().count();
    if (elector.still_leader()) {
      if (const std::int64_t n = count_up(fenced, elector.identity(), stop); n != 0) {
        std::fprintf(log, "%lld %lld\n", static_cast<long long>(n), static_cast<long long>(time));
        std::fflush(log);
      }
    }
    if (stop.wait_for(runtime, 5ms)) return;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  const auto runtime = rt::make_real_runtime();
  const auto config =
      kube::load_client_config({.kubeconfig = argv[1], .server = argv[2]}, kube::ConfigEnvironment::of_process());
  if (!config.ok()) return 2;
  const auto client = kube::make_rest_client(*runtime, Logger(), *config);
  if (!client.ok()) return 2;
  std::FILE* log = std::fopen(argv[4], "a");
  if (log == nullptr) return 2;
  kube::LeaderElectionOptions options;
  options.ns = "default";
  options.name = "actors";
  options.identity = argv[3];
  options.lease_duration = 6s;
  options.renew_deadline = 4s;
  options.retry_period = 1s;
  rt::StopSource stop(*runtime);
  rt::StopSource stop_acting(*runtime);
  rt::Thread actor;
  std::unique_ptr<kube::Client> fenced;
  kube::LeaderElector elector(
      *runtime, **client, Logger(make_stderr_sink(LogFormat::Text)), options,
      {.started =
           [&] {
             actor = rt::Thread(*runtime, "actor", [&] { act(elector, *fenced, *runtime, log, stop_acting.token()); });
           },
       .stopped =
           [&] {
             stop_acting.request_stop();
             actor.join();
           },
       .new_leader = {}});
  fenced = kube::fenced_client(**client, elector);
  rt::Thread waiter(*runtime, "signals", [&] {
    int signal = 0;
    sigwait(&signals, &signal);
    stop.request_stop();
  });
  const Done outcome = elector.run(stop.token());
  std::fclose(log);
  if (!outcome.ok()) ::kill(::getpid(), SIGTERM);  // ends the waiter
  waiter.join();
  return outcome.ok() ? 0 : 3;
}
