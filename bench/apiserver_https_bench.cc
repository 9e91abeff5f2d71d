// Prints the figures of the embedded API server over loopback HTTPS and, beside them, those of a real kube-apiserver
// with etcd under the same load (if build/kube is there): creates a second over 64 connections, one write on its way to
// 100 watches, a list of many pods, 1,000 idle watches. Load generator and servers share the machine.
//
//   apiserver_https_bench [ours|real]...

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>
#include <csignal>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "apiserver/http/cluster_files.h"
#include "apiserver/http/front.h"
#include "apiserver/registry/api_server.h"
#include "base/heap_bytes.h"
#include "bench/https_load.h"
#include "json/value.h"
#include "kube/kubeconfig.h"
#include "net/certificates.h"
#include "net/url.h"
#include "rt/real_runtime.h"

namespace basalt::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kConnections = 64;
constexpr int kManyConnections = 256;
constexpr int kWatches = 100;
constexpr int kIdleWatches = 1000;
constexpr std::string_view kPodsPath = "/api/v1/namespaces/default/pods";

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

std::string pod_body(std::size_t number) {
  std::string body =
      R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"pod-)" + std::to_string(number) +
      R"(","labels":{"volcano.sh/job-name":"bench","volcano.sh/task-spec":"worker"},"annotations":{"note":")";
  body += std::string(700, 'x');
  return body +
         R"("}},"spec":{"restartPolicy":"Never","schedulerName":"volcano","containers":[{"name":"main","image":"busybox",
    "command":["sh","-c","true"],"resources":{"requests":{"cpu":"100m","memory":"16Mi"}}}]}})";
}

std::vector<std::string> pod_creates(std::size_t first, std::size_t count) {
  std::vector<std::string> requests;
  requests.reserve(count);
  for (std::size_t i = 0; i < count; ++i) requests.push_back(http_request("POST", kPodsPath, pod_body(first + i)));
  return requests;
}

// A server under load, as far as the load needs to know it.
struct Subject {
  std::string name;
  LoadTarget target;
  std::vector<long> processes;  // whose CPU time counts; none: this process
  std::size_t creates = 0;      // of a run
};

struct Figures {
  double ready_seconds = 0;  // from the start, when empty
  double pod_bytes = 0;      // of memory a stored pod: of the heap for ours, resident (which counts more) for the other
  double creates = 0;        // a second
  double creates_many = 0;   // a second, by more connections
  double create_p99_us = 0;
  double watch_p50_us = 0;
  double watch_p99_us = 0;
  std::size_t listed = 0;
  double list_seconds = 0;
  double idle_cpu = 0;           // of one core, with the idle watches
  double idle_bytes = 0;         // a watch; ours only
  double creates_with_idle = 0;  // a second
};

double cpu_seconds(const Subject& subject) {
  if (subject.processes.empty()) {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
  }
  double total = 0;
  for (const long process : subject.processes) {
    std::ifstream file("/proc/" + std::to_string(process) + "/stat");
    std::string text((std::istreambuf_iterator<char>(file)), {});
    std::istringstream fields(text.substr(std::min(text.size(), text.rfind(')') + 2)));
    std::string skipped;
    double user = 0;
    double system = 0;
    for (int i = 0; i < 11; ++i) fields >> skipped;
    fields >> user >> system;
    total += (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
  }
  return total;
}

double memory_bytes(const Subject& subject) {
  if (subject.processes.empty()) return static_cast<double>(base::heap_bytes());
  double total = 0;
  for (const long process : subject.processes) {
    std::ifstream file("/proc/" + std::to_string(process) + "/statm");
    double whole = 0;
    double resident = 0;
    file >> whole >> resident;
    total += resident * static_cast<double>(sysconf(_SC_PAGESIZE));
  }
  return total;
}

// One run, long enough that a group commit more or less does not matter.
HttpsLoad::Outcome create_pods(const Subject& subject, std::size_t first, int connections = kConnections) {
  const auto requests = pod_creates(first, subject.creates);
  HttpsLoad load(subject.target, connections);
  if (!load.is_open()) return {};
  auto outcome = load.run(requests);
  if (outcome.failed > 0) std::printf("  %s: %zu creates failed\n", subject.name.c_str(), outcome.failed);
  return outcome;
}

// One create at a time; the time until the last of all watches has it, and of each of them.
void watch_latency(const Subject& subject, Figures& figures) {
  constexpr std::size_t kWrites = 300;
  HttpsLoad watches(subject.target, kWatches);
  HttpsLoad writer(subject.target, 1);
  const std::string path = "/api/v1/namespaces/default/configmaps";
  if (!watches.is_open() || !writer.is_open() || !watches.open_streams(http_request("GET", path + "?watch=true", ""))) {
    return;
  }
  // What the watches begin with is not waited for.
  std::vector<double> all;
  std::vector<int> seen(kWatches, 0);
  std::vector<Clock::time_point> sent(kWrites);
  std::atomic<std::size_t> written{0};
  std::thread reader([&] {
    std::size_t complete = 0;
    watches.read_streams([&](std::size_t index, std::string_view piece) {
      // Every event of a config map of ours names it once in this form.
      std::size_t at = 0;
      while ((at = piece.find("\"marker\":\"", at)) != std::string_view::npos) {
        at += 10;
        const std::size_t number = std::strtoul(std::string(piece.substr(at, 8)).c_str(), nullptr, 10);
        if (number < kWrites) {
          all.push_back(std::chrono::duration<double, std::micro>(Clock::now() - sent[number]).count());
          if (++seen[index] == static_cast<int>(kWrites)) ++complete;
        }
      }
      return complete == kWatches;
    });
  });
  for (std::size_t i = 0; i < kWrites; ++i) {
    std::string body = R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"latency-)" + std::to_string(i) +
                       R"("},"data":{"filler":")" + std::string(1300, 'x') + R"(","marker":")" + std::to_string(i) +
                       "\"}}";
    const std::string request = http_request("POST", path, body);
    sent[i] = Clock::now();
    writer.run({&request, 1});
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
  }
  reader.join();
  std::sort(all.begin(), all.end());
  if (all.empty()) return;
  figures.watch_p50_us = all[all.size() / 2];
  figures.watch_p99_us = all[all.size() * 99 / 100];
}

void list_pods(const Subject& subject, std::size_t count, Figures& figures) {
  HttpsLoad load(subject.target, 1);
  if (!load.is_open()) return;
  const std::string request = http_request("GET", kPodsPath, "");
  const auto outcome = load.run({&request, 1});
  if (outcome.failed > 0) std::printf("  %s: the list failed\n", subject.name.c_str());
  figures.listed = count;
  figures.list_seconds = outcome.seconds;
}

void idle_watches(const Subject& subject, Figures& figures) {
  malloc_trim(0);
  const std::size_t bytes_before = base::heap_bytes();
  auto load = std::make_unique<HttpsLoad>(subject.target, kIdleWatches);
  if (!load->is_open() ||
      !load->open_streams(http_request("GET", "/api/v1/namespaces/kube-system/secrets?watch=true", ""))) {
    std::printf("  %s: %d watches could not be opened\n", subject.name.c_str(), kIdleWatches);
    return;
  }
  figures.idle_bytes = static_cast<double>(base::heap_bytes() - bytes_before) / kIdleWatches;
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  const double cpu_before = cpu_seconds(subject);
  const auto begin = Clock::now();
  std::this_thread::sleep_for(std::chrono::seconds(3));
  figures.idle_cpu = (cpu_seconds(subject) - cpu_before) / seconds_since(begin);
  const auto outcome = create_pods(subject, 2 * subject.creates);
  if (outcome.seconds > 0) figures.creates_with_idle = static_cast<double>(subject.creates) / outcome.seconds;
}

Figures measure(const Subject& subject) {
  Figures figures;
  const double memory_before = memory_bytes(subject);
  // Warm: allocators, the history; the more connections, the more writes share a sync of the disk.
  const auto many = create_pods(subject, 0, kManyConnections);
  if (many.seconds > 0) figures.creates_many = static_cast<double>(subject.creates - many.failed) / many.seconds;
  const auto outcome = create_pods(subject, subject.creates);
  if (outcome.seconds > 0) figures.creates = static_cast<double>(subject.creates - outcome.failed) / outcome.seconds;
  figures.create_p99_us = outcome.percentile_us(0.99);
  figures.pod_bytes = (memory_bytes(subject) - memory_before) / static_cast<double>(2 * subject.creates);
  watch_latency(subject, figures);
  list_pods(subject, 2 * subject.creates, figures);
  idle_watches(subject, figures);
  return figures;
}

std::optional<LoadTarget> target_of(const std::string& kubeconfig) {
  kube::ConfigOverrides overrides;
  overrides.kubeconfig = kubeconfig;
  const auto config = kube::load_client_config(overrides, kube::ConfigEnvironment::of_process());
  if (!config.ok()) return std::nullopt;
  const auto url = net::parse_url(config->server);
  if (!url.ok()) return std::nullopt;
  LoadTarget target;
  target.host = url->host;
  target.port = std::to_string(url->port);
  const auto text = [](const std::string& pem, const std::string& file) {
    return pem.empty() && !file.empty() ? net::read_file(file, 1u << 20).value_or("") : pem;
  };
  target.certificate_pem = text(config->tls.certificate_pem, config->tls.certificate_file);
  target.key_pem = text(config->tls.key_pem, config->tls.key_file);
  return target;
}

std::optional<Figures> measure_ours(rt::Runtime& runtime, const std::string& folder, apiserver::Durability durability) {
  const auto begin = Clock::now();
  auto files = apiserver::open_cluster_files(runtime, folder, "127.0.0.1");
  if (!files.ok()) return std::nullopt;
  apiserver::ApiServer::Options options;
  options.store.durability = durability;
  options.store.directory = folder + "/store";
  options.rbac = true;
  options.token_key = files->service_token_key;  // so that pods get their token volumes, as in `basalt up`
  auto server = apiserver::ApiServer::open(runtime, Logger(), std::move(options));
  if (!server.ok() || !(*server)->start().ok()) return std::nullopt;
  apiserver::FrontOptions front_options;
  front_options.server.tls.emplace();
  front_options.server.tls->certificate_pem = files->server.certificate_pem;
  front_options.server.tls->key_pem = files->server.key_pem;
  front_options.server.tls->client_ca_pem = files->authority.certificate_pem;
  auto front = apiserver::Front::start(runtime, Logger(), **server, std::move(front_options));
  std::optional<Figures> figures;
  if (front.ok()) {
    const std::string url = "https://127.0.0.1:" + std::to_string((*front)->port());
    if (apiserver::write_kubeconfig(*files, url, (*front)->port()).ok()) {
      const double ready = seconds_since(begin);
      if (auto target = target_of(files->kubeconfig_path())) {
        figures = measure({"basalt", *target, {}, 50'000});
        figures->ready_seconds = ready;
      }
    }
    (*front)->stop();
  }
  (*server)->stop();
  return figures;
}

std::vector<long> processes_of(const std::filesystem::path& folder) {
  const auto state = json::Value::parse(net::read_file(folder / "state.json", 1u << 20).value_or(""));
  std::vector<long> processes;
  if (!state.ok()) return processes;
  for (const char* name : {"apiserver", "etcd"}) {
    const json::Value* id = state->find_path({name, "pid"});
    if (id != nullptr && id->is_int()) processes.push_back(static_cast<long>(id->as_int()));
  }
  return processes;
}

// The real thing, started by tools/kube/start; nothing if it is not there.
std::optional<Figures> measure_real() {
  if (!std::filesystem::exists("build/kube/kube-apiserver")) return std::nullopt;
  const auto begin = Clock::now();
  FILE* kube = popen("exec tools/kube/start --quiet 2>/dev/null </dev/zero", "r");
  if (kube == nullptr) return std::nullopt;
  std::array<char, 512> line{};
  std::optional<Figures> figures;
  if (std::fgets(line.data(), line.size(), kube) != nullptr) {
    const double ready = seconds_since(begin);
    std::string path(line.data());
    while (!path.empty() && path.back() == '\n') path.pop_back();
    const std::filesystem::path folder = std::filesystem::path(path).parent_path();
    if (auto target = target_of(path)) {
      figures = measure({"kube-apiserver", *target, processes_of(folder), 5'000});
      figures->ready_seconds = ready;
    }
    const std::string stop = "tools/kube/control " + folder.string() + " stop >/dev/null 2>&1";
    if (std::system(stop.c_str()) != 0) std::printf("  kube-apiserver did not stop\n");
  }
  pclose(kube);
  return figures;
}

void print_row(const char* what, const char* unit, double Figures::* figure, const std::optional<Figures>& ours,
               const std::optional<Figures>& real, const char* bar) {
  const auto cell = [&](const std::optional<Figures>& figures) {
    std::array<char, 32> text{};
    if (!figures) return std::string("-");
    const double value = (*figures).*figure;
    std::snprintf(text.data(), text.size(), value < 10 ? "%.3f" : "%.0f", value);
    return std::string(text.data());
  };
  std::printf("%-52s %12s %16s %-4s %s\n", what, cell(ours).c_str(), cell(real).c_str(), unit, bar);
}

void print(std::optional<Figures> ours, std::optional<Figures> real) {
  // Lists of different lengths compare by what a pod costs.
  for (auto* figures : {&ours, &real}) {
    if (*figures && (*figures)->listed > 0) {
      (*figures)->list_seconds *= 100'000.0 / static_cast<double>((*figures)->listed);
    }
  }
  std::printf("%-52s %12s %16s\n", "", "basalt", "kube-apiserver");
  print_row("ready when empty, certificates made", "s", &Figures::ready_seconds, ours, real, "(bar: 0.3)");
  print_row("memory a stored pod, history included", "B", &Figures::pod_bytes, ours, real, "");
  print_row("creates, 64 connections", "1/s", &Figures::creates, ours, real, "(bar: 15,000)");
  print_row("creates, 256 connections", "1/s", &Figures::creates_many, ours, real, "");
  print_row("  with 64, p99", "us", &Figures::create_p99_us, ours, real, "");
  print_row("one write on 100 watches p50", "us", &Figures::watch_p50_us, ours, real, "");
  print_row("one write on 100 watches p99", "us", &Figures::watch_p99_us, ours, real, "");
  print_row("list of 100,000 pods (kube-apiserver: 10 x 10,000)", "s", &Figures::list_seconds, ours, real, "(bar: 1)");
  print_row("CPU with 1,000 idle watches, of one core", "", &Figures::idle_cpu, ours, real, "");
  print_row("memory of an idle watch, client included", "B", &Figures::idle_bytes, ours, std::nullopt, "");
  print_row("creates, 64 connections, beside 1,000 idle watches", "1/s", &Figures::creates_with_idle, ours, real, "");
}

}  // namespace
}  // namespace basalt::bench

int main(int argc, char** argv) {
  using namespace basalt;
  using namespace basalt::bench;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  std::signal(SIGPIPE, SIG_IGN);
  bool with_ours = true;
  bool with_real = true;
  auto durability = apiserver::Durability::Full;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "ours") with_real = false;
    if (argument == "real") with_ours = false;
    if (argument == "memory") durability = apiserver::Durability::Memory;
  }
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  const auto runtime = rt::make_real_runtime();
  const std::string folder = std::filesystem::temp_directory_path() / ("basalt-https-" + std::to_string(getpid()));
  const auto ours = with_ours ? measure_ours(*runtime, folder, durability) : std::nullopt;
  std::filesystem::remove_all(folder);
  const auto real = with_real ? measure_real() : std::nullopt;
  print(ours, real);
  if (!real) std::printf("kube-apiserver with etcd: not measured (make kube builds it)\n");
  if (real) std::printf("etcd of kube-apiserver runs without fsync; basalt syncs every commit\n");
  return 0;
}
