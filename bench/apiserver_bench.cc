// Prints the embedded API server's figures: creates a second in process (in memory and durable), the way of one write
// to 100 watchers, memory per pod, start-up; and creates a second over HTTPS, of Basalt and of a real kube-apiserver
// with etcd side by side (if build/kube is there).

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "apiserver/http/cluster_files.h"
#include "apiserver/http/front.h"
#include "apiserver/registry/api_server.h"
#include "kube/kubeconfig.h"
#include "kube/rest_client.h"
#include "rt/real_runtime.h"

namespace basalt::apiserver {
namespace {

using Clock = std::chrono::steady_clock;
const kube::Resource kPods{"", "v1", "pods"};

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

std::string pod_body(std::size_t number) {
  std::string body =
      R"({"metadata":{"name":"pod-)" + std::to_string(number) +
      R"(","labels":{"volcano.sh/job-name":"bench","volcano.sh/task-spec":"worker"},"annotations":{"note":")";
  body += std::string(700, 'x');
  return body +
         R"("}},"spec":{"restartPolicy":"Never","schedulerName":"volcano","containers":[{"name":"main","image":"busybox",
    "command":["sh","-c","true"],"resources":{"requests":{"cpu":"100m","memory":"16Mi"}}}]}})";
}

kube::Request create_pod(std::size_t number) {
  kube::Request request;
  request.verb = kube::Verb::Create;
  request.resource = kPods;
  request.ns = "default";
  request.body = pod_body(number);
  return request;
}

std::unique_ptr<ApiServer> open_server(rt::Runtime& runtime, Durability durability, const std::string& folder) {
  ApiServer::Options options;
  options.store.durability = durability;
  options.store.directory = folder;
  auto server = ApiServer::open(runtime, Logger(), std::move(options));
  if (!server.ok()) {
    std::printf("the server did not open: %s\n", server.error().to_string().c_str());
    std::exit(1);
  }
  if (Done started = (*server)->start(); !started.ok()) {
    std::printf("the server did not start: %s\n", started.error().to_string().c_str());
    std::exit(1);
  }
  return std::move(*server);
}

// Creates `count` pods from `writers` threads and returns how many a second.
double create_rate(rt::Runtime& runtime, ApiServer& server, std::size_t count, int writers) {
  std::atomic<std::size_t> next{0};
  std::atomic<std::size_t> failed{0};
  std::vector<kube::Request> requests;
  requests.reserve(count);
  for (std::size_t i = 0; i < count; ++i) requests.push_back(create_pod(i));
  const auto begin = Clock::now();
  std::vector<std::thread> threads;
  for (int t = 0; t < writers; ++t) {
    threads.emplace_back([&] {
      const auto client = make_direct_client(runtime, server, RequestContext{{"bench", "", {}}, "bench"});
      for (std::size_t i = next++; i < count; i = next++) {
        if (!client->call(requests[i], {}).ok()) ++failed;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const double rate = static_cast<double>(count) / seconds_since(begin);
  if (failed > 0) std::printf("  %zu creates failed\n", failed.load());
  return rate;
}

void watch_latency(rt::Runtime& runtime) {
  auto server = open_server(runtime, Durability::Memory, "");
  const auto client = make_direct_client(runtime, *server, RequestContext{{"bench", "", {}}, "bench"});
  constexpr int kWatchers = 100;
  constexpr std::size_t kWrites = 500;
  std::vector<std::unique_ptr<kube::WatchStream>> streams;
  for (int i = 0; i < kWatchers; ++i) {
    kube::WatchRequest request;
    request.resource = kPods;
    request.allow_bookmarks = false;
    auto stream = client->watch(request, {});
    if (stream.ok()) streams.push_back(std::move(*stream));
  }
  std::vector<std::atomic<std::int64_t>> sent(kWrites);
  std::vector<std::vector<double>> micros(streams.size());
  std::vector<std::thread> threads;
  for (std::size_t w = 0; w < streams.size(); ++w) {
    threads.emplace_back([&, w] {
      for (std::size_t i = 0; i < kWrites; ++i) {
        auto event = streams[w]->next(runtime.now() + std::chrono::seconds(20));
        if (!event.ok() || !*event) return;
        micros[w].push_back(static_cast<double>(Clock::now().time_since_epoch().count() - sent[i].load()) / 1e3);
      }
    });
  }
  for (std::size_t i = 0; i < kWrites; ++i) {
    const kube::Request request = create_pod(i);
    sent[i] = Clock::now().time_since_epoch().count();
    (void)client->call(request, {}).ok();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<double> all;
  for (const auto& part : micros) all.insert(all.end(), part.begin(), part.end());
  std::sort(all.begin(), all.end());
  if (all.empty()) return;
  std::printf("one write to %d watchers (a thread each): p50 %.0f us, p99 %.0f us   (bar: p99 <= 1000 us)\n", kWatchers,
              all[all.size() / 2], all[all.size() * 99 / 100]);
  streams.clear();
  server->stop();
}

void memory_and_start(rt::Runtime& runtime, const std::string& folder) {
  constexpr std::size_t kPodCount = 200'000;
  {
    auto server = open_server(runtime, Durability::Fast, folder);
    malloc_trim(0);
    const std::size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
    create_rate(runtime, *server, kPodCount, 2);
    malloc_trim(0);
    const std::size_t after = mallinfo2().uordblks + mallinfo2().hblkhd;
    const auto object = server->store().get(server->store().resource("/pods"), "default", "pod-1");
    std::printf("memory per stored pod of %zu bytes, history included: %zu bytes   (bar: 2560)\n",
                object ? object->object()->size() : 0, (after - before) / kPodCount);
    server->stop();
  }
  const auto begin = Clock::now();
  auto server = open_server(runtime, Durability::Fast, folder);
  std::printf("start with %zu objects: %.2f s   (bar: 3 s)\n", kPodCount, seconds_since(begin));
  server->stop();
}

// Creates over HTTPS by the same client, 64 in flight.
double rest_rate(rt::Runtime& runtime, const std::string& kubeconfig, std::size_t count) {
  kube::ConfigOverrides overrides;
  overrides.kubeconfig = kubeconfig;
  auto config = kube::load_client_config(overrides, kube::ConfigEnvironment::of_process());
  if (!config.ok()) return 0;
  auto client = kube::make_rest_client(runtime, Logger(), *config);
  if (!client.ok()) return 0;
  std::vector<kube::Request> requests;
  for (std::size_t i = 0; i < count; ++i) requests.push_back(create_pod(i));
  const auto begin = Clock::now();
  std::size_t failed = 0;
  for (const auto& result : (*client)->call_all(requests, {}, {})) failed += result.ok() ? 0 : 1;
  const double rate = static_cast<double>(count) / seconds_since(begin);
  if (failed > 0) std::printf("  %zu creates failed\n", failed);
  return rate;
}

double https_rate(rt::Runtime& runtime, const std::string& folder, std::size_t count) {
  auto files = open_cluster_files(runtime, folder, "127.0.0.1");
  if (!files.ok()) return 0;
  auto server = open_server(runtime, Durability::Full, folder + "/store");
  FrontOptions options;
  options.server.tls.emplace();
  options.server.tls->certificate_pem = files->server.certificate_pem;
  options.server.tls->key_pem = files->server.key_pem;
  options.server.tls->client_ca_pem = files->authority.certificate_pem;
  auto front = Front::start(runtime, Logger(), *server, std::move(options));
  double rate = 0;
  if (front.ok()) {
    const std::string url = "https://127.0.0.1:" + std::to_string((*front)->port());
    if (write_kubeconfig(*files, url, (*front)->port()).ok())
      rate = rest_rate(runtime, files->kubeconfig_path(), count);
    (*front)->stop();
  }
  server->stop();
  return rate;
}

// The real thing, started by tools/kube/start; 0 if it is not there.
double real_rate(rt::Runtime& runtime, std::size_t count) {
  if (!std::filesystem::exists("build/kube/kube-apiserver")) return 0;
  FILE* kube = popen("exec tools/kube/start --quiet 2>/dev/null </dev/zero", "r");
  if (kube == nullptr) return 0;
  std::array<char, 512> line{};
  double rate = 0;
  if (std::fgets(line.data(), line.size(), kube) != nullptr) {
    std::string path(line.data());
    while (!path.empty() && path.back() == '\n') path.pop_back();
    rate = rest_rate(runtime, path, count);
    const std::string stop =
        "tools/kube/control " + std::filesystem::path(path).parent_path().string() + " stop >/dev/null 2>&1";
    if (std::system(stop.c_str()) != 0) std::printf("  kube-apiserver did not stop\n");
  }
  pclose(kube);
  return rate;
}

}  // namespace
}  // namespace basalt::apiserver

int main() {
  using namespace basalt;
  using namespace basalt::apiserver;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const auto runtime = rt::make_real_runtime();
  const std::string folder = std::filesystem::temp_directory_path() / ("basalt-bench-" + std::to_string(getpid()));
  {
    const auto begin = Clock::now();
    auto server = open_server(*runtime, Durability::Memory, "");
    std::printf("ready when empty: %.3f s   (bar: 0.3 s)\n", seconds_since(begin));
    std::printf("creates in process, in memory, 2 writers: %.0f/s   (bar: 100,000/s)\n",
                create_rate(*runtime, *server, 200'000, 2));
    server->stop();
  }
  {
    auto server = open_server(*runtime, Durability::Full, folder + "/durable");
    std::printf("creates in process, durable, 64 writers: %.0f/s   (bar: 30,000/s)\n",
                create_rate(*runtime, *server, 50'000, 64));
    server->stop();
  }
  watch_latency(*runtime);
  memory_and_start(*runtime, folder + "/memory");
  const double ours = https_rate(*runtime, folder + "/https", 20'000);
  std::printf("creates over HTTPS, durable, 64 in flight, client and server on this machine: %.0f/s\n", ours);
  const double real = real_rate(*runtime, 5'000);
  if (real > 0) {
    std::printf("the same on kube-apiserver with etcd (etcd without fsync): %.0f/s; ours is %.1f times that\n", real,
                ours / real);
  } else {
    std::printf("kube-apiserver with etcd: not built (make kube)\n");
  }
  std::filesystem::remove_all(folder);
  return 0;
}
