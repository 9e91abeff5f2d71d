// Prints what a user of the program itself waits for: `basalt up` until the API is ready, until the first gang job
// runs, the memory of an idle cluster, and `basalt explain` of waiting jobs among many. Every figure is of the real
// program as a process, its start and the connection included.
//
//   cli_bench [up|explain|all] [JOBS]

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "cli/roles.h"
#include "kube/client.h"
#include "rt/real_runtime.h"

namespace basalt {
namespace {

using Clock = std::chrono::steady_clock;
namespace fs = std::filesystem;

constexpr int kStarts = 10;
constexpr int kExplains = 300;
constexpr int kBatch = 2000;

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

double percentile(std::vector<double>& values, double part) {
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, static_cast<std::size_t>(part * static_cast<double>(values.size())))];
}

// The program that is measured: that of this build unless BASALT_BINARY names another.
std::string program() {
  const char* named = std::getenv("BASALT_BINARY");
  return named != nullptr && *named != '\0' ? named : BASALT_PROGRAM;
}

void give_up(const std::string& what) {
  std::printf("cli_bench: %s\n", what.c_str());
  std::exit(1);
}

// A folder of its own, and a cluster in it that ends with this object.
class Folder {
 public:
  Folder() {
    std::string path = (fs::temp_directory_path() / "basalt-bench-XXXXXX").string();
    if (::mkdtemp(path.data()) == nullptr) give_up("no folder can be made");
    path_ = path;
  }
  ~Folder() {
    (void)run("down --data-dir " + data());
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  [[nodiscard]] std::string data() const { return path_ / "cluster"; }
  [[nodiscard]] std::string file(std::string_view name) const { return path_ / name; }
  [[nodiscard]] std::string kubeconfig() const { return data() + "/kubeconfig"; }
  int run(const std::string& arguments) const {
    const std::string line =
        "KUBECONFIG=" + kubeconfig() + " " + program() + " " + arguments + " >" + file("out") + " 2>&1";
    return std::system(line.c_str());
  }
  void must(const std::string& arguments) const {
    if (run(arguments) == 0) return;
    std::ifstream out(file("out"));
    give_up("basalt " + arguments +
            " failed: " + std::string(std::istreambuf_iterator<char>(out), std::istreambuf_iterator<char>()));
  }
  void up(const std::string& flags = "") const { must("up --detach --data-dir " + data() + " " + flags); }

  [[nodiscard]] double resident_mib() const {
    std::ifstream lock(data() + "/up.lock");
    std::string process;
    lock >> process;
    std::ifstream status("/proc/" + process + "/status");
    for (std::string word; status >> word;) {
      if (word != "VmRSS:") continue;
      double kib = 0;
      status >> kib;
      return kib / 1024;
    }
    return 0;
  }

 private:
  fs::path path_;
};

constexpr std::string_view kGang = R"({"apiVersion":"batch.volcano.sh/v1alpha1","kind":"Job","metadata":{"name":"gang"},
"spec":{"minAvailable":3,"schedulerName":"volcano","tasks":[{"name":"t","replicas":3,"template":{"spec":{
"restartPolicy":"Never","containers":[{"name":"c","image":"none","command":["sleep","60"],
"resources":{"requests":{"cpu":"10m"}}}]}}}]}})";

void measure_up() {
  std::vector<double> ready;
  std::vector<double> running;
  double idle = 0;
  for (int i = 0; i < kStarts; ++i) {
    const Folder folder;
    std::ofstream(folder.file("gang.json")) << kGang;
    const auto begin = Clock::now();
    folder.up();
    ready.push_back(ms_since(begin));
    folder.must("run --detach -f " + folder.file("gang.json"));
    folder.must("wait gang --for Running --timeout 30s");
    running.push_back(ms_since(begin));
  }
  {
    const Folder folder;
    folder.up();
    // The controllers' caches are filled and the first events written by then.
    const auto runtime = rt::make_real_runtime();
    runtime->sleep_for(std::chrono::seconds(3));
    idle = folder.resident_mib();
  }
  std::printf("basalt up, %d starts: API ready p50 %.0f ms, max %.0f ms (bar 300)\n", kStarts, percentile(ready, 0.5),
              percentile(ready, 1));
  std::printf("  first gang job Running, from the start of up: p50 %.0f ms, max %.0f ms (bar 1000)\n",
              percentile(running, 0.5), percentile(running, 1));
  std::printf("  idle: %.1f MiB resident (bar 30)\n", idle);
}

std::string waiting_job(int index) {
  return R"({"apiVersion":"batch.volcano.sh/v1alpha1","kind":"Job","metadata":{"name":"j)" + std::to_string(index) +
         R"("},"spec":{"minAvailable":2,"schedulerName":"volcano","queue":"default","tasks":[{"name":"t","replicas":2,)"
         R"("template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"none","command":["true"],)"
         R"("resources":{"requests":{"cpu":"500"}}}]}}}]}})";
}

std::int64_t count_of(kube::Client& client, const kube::Resource& resource) {
  kube::ListRequest request;
  request.resource = resource;
  request.limit = 1;
  const auto page = client.list(request, rt::StopToken());
  if (!page.ok()) return 0;
  return static_cast<std::int64_t>(page->items.size()) + page->remaining_item_count.value_or(0);
}

// Until the scheduler has said of every group why it waits: nothing is written for two seconds, or a minute has passed.
double settle(rt::Runtime& runtime, kube::Client& client, const kube::Resource& resource) {
  const auto begin = Clock::now();
  std::string last;
  auto still_since = begin;
  while (ms_since(begin) < 60'000 && ms_since(still_since) < 2000) {
    kube::ListRequest request;
    request.resource = resource;
    request.limit = 1;
    const auto page = client.list(request, rt::StopToken());
    if (page.ok() && page->resource_version != last) {
      last = page->resource_version;
      still_since = Clock::now();
    }
    runtime.sleep_for(std::chrono::milliseconds(200));
  }
  return ms_since(begin) / 1000;
}

void measure_explain(int jobs) {
  const Folder folder;
  folder.up("--durability memory --simulated-nodes 1k");
  const auto runtime = rt::make_real_runtime();
  cli::RoleFlags flags;
  flags.kubeconfig = folder.kubeconfig();
  flags.calls_per_second = 0;
  const Logger log(make_stderr_sink(LogFormat::Text), LogLevel::Error);
  auto client = cli::connect_role(*runtime, log, flags, "cli-bench", nullptr);
  if (!client.ok()) give_up(client.error().message);
  const kube::Resource resource{"batch.volcano.sh", "v1alpha1", "jobs"};
  const auto begin = Clock::now();
  for (int first = 0; first < jobs; first += kBatch) {
    std::vector<kube::Request> requests;
    for (int i = first; i < std::min(first + kBatch, jobs); ++i) {
      kube::Request request;
      request.verb = kube::Verb::Create;
      request.resource = resource;
      request.ns = "default";
      request.body = waiting_job(i);
      requests.push_back(std::move(request));
    }
    for (const auto& answer : (*client)->call_all(requests, {.in_flight_max = 32}, rt::StopToken())) {
      if (!answer.ok()) give_up("a job was not created: " + answer.error().message);
    }
  }
  const kube::Resource groups{"scheduling.volcano.sh", "v1beta1", "podgroups"};
  while (count_of(**client, groups) < jobs && ms_since(begin) < 90'000) runtime->sleep_for(std::chrono::seconds(1));
  std::printf("basalt explain, %d waiting jobs (%lld pod groups after %.0f s), 1,001 nodes:\n", jobs,
              static_cast<long long>(count_of(**client, groups)), ms_since(begin) / 1000);
  const double settled = settle(*runtime, **client, groups);
  std::printf("  nothing was written any more after %.0f s more\n", settled);
  std::vector<double> times;
  for (int i = 0; i < kExplains; ++i) {
    const std::string name = "j" + std::to_string(static_cast<long long>(i) * 7919 % jobs);
    const auto asked = Clock::now();
    folder.must("explain " + name);
    times.push_back(ms_since(asked));
  }
  std::printf("  the whole program: p50 %.1f ms, p99 %.1f ms, max %.1f ms of %d calls (bar: p99 50)\n",
              percentile(times, 0.5), percentile(times, 0.99), percentile(times, 1), kExplains);
}

}  // namespace
}  // namespace basalt

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 && argv[1][0] != '-' ? argv[1] : "all";
  const int jobs = argc > 2 ? std::atoi(argv[2]) : 100'000;
  if (what == "up" || what == "all") basalt::measure_up();
  if (what == "explain" || what == "all") basalt::measure_explain(std::max(jobs, 1));
  return 0;
}
