// `basalt controllers` as a process on a real kube-apiserver, with a scheduler and a kubelet that this program plays:
//
//   100 jobs x 10 pods                           Volcano's controller manager: 2.7 s of CPU
//   500 jobs x 2 pods with env, svc and ssh      Volcano's controller manager: 82 s of CPU, 11 writes of status a job
//
// CPU and memory are those of the controllers' process over its whole life, as the kernel counts them. Writes are read
// from the API server's audit log. Volcano's figures were taken on two cores with the same API server; it needed 121
// MiB. Bars: a quarter of the CPU, a third of the memory, 8 writes a job beside its pods and 14 with the plugins, no
// conflict. Exits with 1 if one is missed or the program did not do the work, with 77 if there is no API server.
//
//   controllers_kube_bench [share of the jobs in percent = 100] [program = the one built beside this]
//
// With a program, that one is measured, and the first workload only: to compare two of them in turn.

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/gen/batch_job.h"
#include "json/value.h"
#include "kube/informer.h"
#include "kube/kubeconfig.h"
#include "kube/rest_client.h"
#include "rt/real_runtime.h"
#include "sim/actors.h"
#include "sim/driver.h"
#include "test/kube/kube_fixture.h"

extern char** environ;

namespace basalt {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
namespace fs = std::filesystem;
namespace resources = sim::resources;

constexpr double kVolcanoMib = 121;

struct Workload {
  const char* name;
  int jobs;
  int pods;
  const char* plugins;  // JSON
  double volcano_cpu_seconds;
  double volcano_status_writes;  // 0: not known
  double writes_max;             // a job, beside its pods
};
constexpr Workload kWorkloads[] = {
    {"jobs x 10 pods", 100, 10, "{}", 2.7, 0, 8},
    {"jobs x 2 pods with env, svc, ssh", 500, 2, R"({"env":[],"svc":[],"ssh":[]})", 82, 11, 14},
};

// The program, from its start to its end.
class Controllers {
 public:
  Controllers(const test::RealKube& kube, std::string program) {
    std::vector<std::string> texts = {
        std::move(program),     "controllers",         "--kubeconfig=" + kube.kubeconfig().string(),
        "--leader-elect=false", "--kube-api-qps=5000", "--kube-api-burst=5000"};
    std::vector<char*> argv;
    for (std::string& text : texts) argv.push_back(text.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    log_ = kube.folder() / "controllers.log";
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, log_.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
    if (::posix_spawn(&pid_, argv.front(), &actions, nullptr, argv.data(), environ) != 0) pid_ = -1;
    posix_spawn_file_actions_destroy(&actions);
  }
  ~Controllers() { end(); }
  Controllers(const Controllers&) = delete;
  Controllers& operator=(const Controllers&) = delete;

  // What it used, once it has ended; nothing if it did not run until it was told to end.
  std::optional<rusage> end() {
    if (pid_ <= 0) return std::nullopt;
    siginfo_t ended{};  // without waiting and without taking its figures away
    const bool is_running =
        ::waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid == 0;
    ::kill(pid_, SIGTERM);
    int status = 0;
    rusage used{};
    ::wait4(pid_, &status, 0, &used);
    pid_ = -1;
    return is_running ? std::optional(used) : std::nullopt;
  }
  void print_log() const {
    std::ifstream file(log_);
    int lines = 0;
    for (std::string line; lines < 20 && std::getline(file, line); ++lines) std::printf("  | %s\n", line.c_str());
  }

 private:
  pid_t pid_ = -1;
  fs::path log_;
};

// What the controllers asked for, by the audit log.
struct Writes {
  int beside_pods = 0;
  int status = 0;  // of jobs
  int pods = 0;
  int events = 0;
  int conflicts = 0;
};

Writes read_audit(const fs::path& path) {
  Writes writes;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto entry = json::Value::parse(line);
    if (!entry.ok() || !entry->string_at({"userAgent"}).starts_with("vc-controller-manager/")) continue;
    const std::string_view verb = entry->string_at({"verb"});
    if (verb == "get" || verb == "list" || verb == "watch") continue;
    const std::string_view resource = entry->string_at({"objectRef", "resource"});
    const json::Value* code = entry->find_path({"responseStatus", "code"});
    if (code != nullptr && code->is_int() && code->as_int() == 409) ++writes.conflicts;
    if (resource == "pods") {
      ++writes.pods;
    } else if (resource == "events") {
      ++writes.events;
    } else if (resource != "queues") {  // root and default are made once, whatever the jobs
      ++writes.beside_pods;
      if (resource == "jobs" && entry->string_at({"objectRef", "subresource"}) == "status") ++writes.status;
    }
  }
  return writes;
}

std::string job_body(const Workload& work, int number) {
  return R"({"apiVersion":"batch.volcano.sh/v1alpha1","kind":"Job","metadata":{"name":"job-)" + std::to_string(number) +
         R"("},"spec":{"schedulerName":"volcano","queue":"default","minAvailable":)" + std::to_string(work.pods) +
         R"(,"plugins":)" + work.plugins + R"(,"tasks":[{"name":"main","replicas":)" + std::to_string(work.pods) +
         R"(,"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"main","image":"busybox",)"
         R"("command":["sh","-c","true"],"resources":{"requests":{"cpu":"100m","memory":"16Mi"}}}]}}}]}})";
}

bool submit(kube::Client& client, const Workload& work, int jobs) {
  std::vector<kube::Request> requests;
  for (int i = 0; i < jobs; ++i) {
    kube::Request request;
    request.verb = kube::Verb::Create;
    request.resource = resources::kJobs;
    request.ns = "default";
    request.body = job_body(work, i);
    requests.push_back(std::move(request));
  }
  for (const auto& result : client.call_all(requests, {.in_flight_max = 16}, {})) {
    if (result.ok()) continue;
    std::printf("a job was refused: %s\n", result.error().to_string().c_str());
    return false;
  }
  return true;
}

bool bar(bool holds, const char* text) {
  std::printf("  %s %s\n", holds ? "holds: " : "MISSED:", text);
  return holds;
}

std::unique_ptr<test::RealKube> start_kube(const fs::path& folder) {
  std::ofstream(folder / "policy.yaml") << "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\n"
                                           "rules: [{level: Metadata}]\n";
  auto started = test::RealKube::start(
      {.apiserver_args = {"--audit-policy-file=" + (folder / "policy.yaml").string(),
                          "--audit-log-path=" + (folder / "audit.log").string(), "--audit-log-mode=blocking"}});
  if (!started.kube) {
    std::printf("no API server: %s\n", started.error.c_str());
    return nullptr;
  }
  for (const char* what : {"deploy/namespace.yaml", "deploy/crds"}) {
    const auto done = started.kube->kubectl(
        {"apply", "--server-side", "--filename=" + (fs::path(BASALT_SOURCE_DIR) / what).string()});
    if (done.exit != 0) std::printf("%s\n", done.err.c_str());
  }
  const auto ready = started.kube->kubectl({"wait", "--for=condition=Established", "--timeout=60s", "crds", "--all"});
  return ready.exit == 0 ? std::move(started.kube) : nullptr;
}

// Runs the jobs to their end; false if that took too long.
bool play(rt::Runtime& runtime, kube::Client& client, const Workload& work, int jobs) {
  sim::Driver driver(runtime, client);
  const auto open = [&] {
    const auto queue = driver.get(resources::kQueues, "", "default");
    return queue && queue->string_at({"status", "state"}) == "Open";
  };
  if (!driver.wait_until(open, 30s)) {
    std::printf("the controllers made no queue\n");
    return false;
  }
  sim::PlayedScheduler scheduler(runtime, client);
  sim::PlayedKubelet kubelet(runtime, client,
                             [](const auto&) { return sim::PodFate{.start_after = 0ms, .run_for = 0ms}; });
  kube::Informer<api::batch::Job> informer(runtime, client, Logger(),
                                           {.reflector = {.resource = resources::kJobs}, .indexes = {}});
  std::atomic<int> completed = 0;
  informer.add_handler([&](const kube::Change<api::batch::Job>& change) {
    if (change.is_deleted() || change.after->status.state.phase != "Completed") return;
    if (!change.before || change.before->status.state.phase != "Completed") ++completed;
  });
  informer.start();
  scheduler.start();
  kubelet.start();
  const auto begin = Clock::now();
  const auto passed = [begin] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  bool done = submit(client, work, jobs);
  while (done && completed < jobs && passed() < 300) runtime.sleep_for(10ms);
  done = completed >= jobs;
  std::printf("%d %s: %d completed in %.1f s\n", jobs, work.name, completed.load(), passed());
  runtime.sleep_for(1s);  // what is written after the end counts, too
  kubelet.stop();
  scheduler.stop();
  informer.stop();
  return done;
}

bool holds_all(const rusage& used, const Workload& work, int jobs, const Writes& writes) {
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  const double cpu = seconds(used.ru_utime) + seconds(used.ru_stime);
  const double mib = static_cast<double>(used.ru_maxrss) / 1024;
  const double volcano = work.volcano_cpu_seconds * jobs / work.jobs;
  const double n = jobs;
  std::printf("  CPU %.2f s (%.2f in the kernel), Volcano %.1f s: %.2f of it\n", cpu, seconds(used.ru_stime), volcano,
              cpu / volcano);
  std::printf("  resident %.1f MiB at most, Volcano %.0f MiB: %.2f of it\n", mib, kVolcanoMib, mib / kVolcanoMib);
  std::printf("  writes a job: %.2f beside pods (%.2f of status", writes.beside_pods / n, writes.status / n);
  if (work.volcano_status_writes > 0) std::printf(", Volcano %.0f", work.volcano_status_writes);
  std::printf("), %.2f of pods, %.2f events; %d conflicts\n", writes.pods / n, writes.events / n, writes.conflicts);
  bool all = bar(cpu <= volcano / 4, "<= 1/4 of Volcano's CPU");
  all &= bar(mib <= kVolcanoMib / 3, "<= 1/3 of Volcano's memory");
  all &=
      bar(writes.beside_pods <= work.writes_max * n, work.writes_max > 8 ? "<= 14 writes a job" : "<= 8 writes a job");
  all &= bar(writes.conflicts == 0, "no conflict");
  return all;
}

bool measure(rt::Runtime& runtime, const Workload& work, int jobs, const std::string& program) {
  char name[] = "/tmp/controllers-bench-XXXXXX";
  if (::mkdtemp(name) == nullptr) return false;
  const fs::path folder = name;
  const auto kube = start_kube(folder);
  bool all = kube != nullptr;
  if (all) {
    const auto config =
        kube::load_client_config({.kubeconfig = kube->kubeconfig().string()}, kube::ConfigEnvironment::of_process());
    if (!config.ok()) return false;
    const auto client = kube::make_rest_client(runtime, Logger(), *config);
    if (!client.ok()) return false;
    Controllers process(*kube, program);
    all = play(runtime, **client, work, jobs);
    const std::optional<rusage> used = process.end();
    if (used && all) {
      all = holds_all(*used, work, jobs, read_audit(folder / "audit.log"));
    } else {
      // Figures of a program that did not do the work would look like those of a good one.
      all = false;
      std::printf("MISSED: %s %s\n", program.c_str(), used ? "did not finish the jobs" : "did not run to the end");
      process.print_log();
    }
  }
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  return all;
}

}  // namespace
}  // namespace basalt

int main(int count, char** arguments) {
  const int given = count > 1 ? std::atoi(arguments[1]) : 0;
  const int percent = given > 0 ? given : 100;
  if (const std::string why = basalt::test::RealKube::why_skip(); !why.empty()) {
    std::printf("skipped: %s\n", why.c_str());
    return 77;
  }
  const auto runtime = basalt::rt::make_real_runtime();
  const bool is_given = count > 2;
  const std::string program = is_given ? arguments[2] : BASALT_PROGRAM;
  bool all = true;
  for (const basalt::Workload& work : basalt::kWorkloads) {
    all &= basalt::measure(*runtime, work, std::max(1, work.jobs * percent / 100), program);
    if (is_given) break;
  }
  return all ? 0 : 1;
}
