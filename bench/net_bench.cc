// HTTPS over loopback: a server in one process, a client in another, 64 POSTs of 1.5 KB in flight. Prints calls per
// second and the processor time of each side per call; then what 1,000 idle streams cost, and one event to all of them.
// Usage: net_bench [calls]

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/heap_bytes.h"
#include "net/certificates.h"
#include "net/http_client.h"
#include "net/http_server.h"
#include "rt/mutex.h"
#include "rt/real_runtime.h"

namespace basalt::net {
namespace {

using namespace std::chrono_literals;

constexpr int kStreams = 1000;

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
}

// What malloc has handed out; the kernel's socket buffers are not in it.
double heap_megabytes() { return static_cast<double>(base::heap_bytes()) / 1e6; }

struct Report {
  double cpu = 0;
  double megabytes = 0;
};

// Answers POST with 1.5 KB; keeps GETs as streams and sends one event to all of them on POST /event. A byte on
// `commands` asks for a report on `answers`, the end of `commands` ends it.
void serve(const KeyPair& pair, int handler_threads, int commands, int answers) {
  const auto runtime = rt::make_real_runtime();
  rt::Mutex mutex;
  std::vector<std::shared_ptr<Responder>> streams;
  const auto body = std::make_shared<const std::string>(1500, 'x');
  const auto event = std::make_shared<const std::string>(std::string(300, 'e') + "\n");
  HttpServerOptions options;
  options.handler_threads = handler_threads;
  options.tls = TlsServerOptions{.certificate_pem = pair.certificate_pem, .key_pem = pair.key_pem};
  const auto handler = [&](const std::shared_ptr<const ServerRequest>& request,
                           const std::shared_ptr<Responder>& responder) {
    if (request->method == "GET") {
      responder->start(200, {{"Content-Type", "application/json"}});
      rt::MutexLock lock(mutex);
      streams.push_back(responder);
      return;
    }
    if (request->path == "/event") {
      rt::MutexLock lock(mutex);
      for (const auto& stream : streams) stream->write(event);
    }
    responder->respond(201, {{"Content-Type", "application/json"}}, body);
  };
  const auto server = start_http_server(*runtime, Logger(), options, handler).value();
  const std::uint16_t port = server->port();
  if (::write(answers, &port, sizeof port) != sizeof port) std::abort();
  char command = 0;
  while (::read(commands, &command, 1) == 1) {
    const Report report{.cpu = cpu_seconds(), .megabytes = heap_megabytes()};
    if (::write(answers, &report, sizeof report) != sizeof report) std::abort();
  }
  streams.clear();
  server->stop(0s);
}

class ServerProcess {
 public:
  ServerProcess(const KeyPair& pair, int handler_threads) {
    int commands[2];
    int answers[2];
    if (::pipe(commands) != 0 || ::pipe(answers) != 0) std::abort();
    child_ = ::fork();
    if (child_ == 0) {
      ::close(commands[1]);
      ::close(answers[0]);
      serve(pair, handler_threads, commands[0], answers[1]);
      ::_exit(0);
    }
    ::close(commands[0]);
    ::close(answers[1]);
    commands_ = commands[1];
    answers_ = answers[0];
    std::uint16_t port = 0;
    if (::read(answers_, &port, sizeof port) != sizeof port) std::abort();
    url_ = "https://127.0.0.1:" + std::to_string(port);
  }
  ~ServerProcess() {
    ::close(commands_);
    ::waitpid(child_, nullptr, 0);
    ::close(answers_);
  }
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  [[nodiscard]] const std::string& url() const { return url_; }
  [[nodiscard]] Report report() const {
    Report report;
    if (::write(commands_, "r", 1) != 1 || ::read(answers_, &report, sizeof report) != sizeof report) std::abort();
    return report;
  }

 private:
  pid_t child_ = 0;
  int commands_ = -1;
  int answers_ = -1;
  std::string url_;
};

void run_calls(rt::Runtime& runtime, const ServerProcess& server, HttpClient& client, std::size_t calls,
               bool is_batch) {
  const std::string body(1500, 'y');
  const Headers headers = {{"Content-Type", "application/json"}, {"Accept", "application/json"}};
  const std::vector<HttpRequest> requests(
      calls,
      {.method = "POST", .url = server.url() + "/api/v1/namespaces/default/pods", .headers = headers, .body = body});
  (void)client.call_all({requests.data(), std::min<std::size_t>(calls, 500)}, 64, {});  // opens the connections
  const double client_before = cpu_seconds();
  const double server_before = server.report().cpu;
  const rt::Instant start = runtime.now();
  std::atomic<std::size_t> failed = 0;
  if (is_batch) {
    for (const auto& result : client.call_all(requests, 64, {})) failed += !result.ok();
  } else {
    std::vector<rt::Thread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back(runtime, "caller", [&] {
        for (std::size_t i = 0; i < calls / 8; ++i) failed += !client.call(requests[i], {}).ok();
      });
    }
    for (rt::Thread& thread : threads) thread.join();
  }
  const double elapsed = std::chrono::duration<double>(runtime.now() - start).count();
  const double count = static_cast<double>(calls);
  std::printf("%-32s %8.0f calls/s   client %5.1f us/call   server %5.1f us/call   failed %zu\n",
              is_batch ? "call_all, 64 in flight" : "call, 8 threads", count / elapsed,
              1e6 * (cpu_seconds() - client_before) / count, 1e6 * (server.report().cpu - server_before) / count,
              failed.load());
}

void run_streams(rt::Runtime& runtime, const ServerProcess& server, HttpClient& client, const char* name) {
  const Report before = server.report();
  const double client_megabytes = heap_megabytes();
  std::vector<std::unique_ptr<HttpStream>> streams;
  for (int i = 0; i < kStreams; ++i) {
    auto stream = client.open_stream({.url = server.url() + "/watch"}, {});
    if (!stream) {
      std::printf("stream %d: %s\n", i, stream.error().message.c_str());
      return;
    }
    streams.push_back(std::move(stream).value());
  }
  const Report open = server.report();
  const double client_open_megabytes = heap_megabytes();
  const double client_cpu = cpu_seconds();
  runtime.sleep_for(5s);
  const Report idle = server.report();
  const double client_idle_cpu = cpu_seconds();
  const rt::Instant start = runtime.now();
  (void)client.call({.method = "POST", .url = server.url() + "/event", .body = "x"}, {});
  for (const auto& stream : streams) {
    if (!stream->read(runtime.now() + 30s).ok()) std::printf("an event did not come\n");
  }
  const double elapsed_ms = 1e3 * std::chrono::duration<double>(runtime.now() - start).count();
  const Report event = server.report();
  std::printf("%-32s server %5.1f KB each, client %5.1f KB each; idle: server %.2f %%, client %.2f %% of a core\n",
              name, 1e3 * (open.megabytes - before.megabytes) / kStreams,
              1e3 * (client_open_megabytes - client_megabytes) / kStreams, 100 * (idle.cpu - open.cpu) / 5,
              100 * (client_idle_cpu - client_cpu) / 5);
  std::printf("%-32s %.1f ms for all, server %.1f ms, client %.1f ms of processor time\n", "  one event to each",
              elapsed_ms, 1e3 * (event.cpu - idle.cpu), 1e3 * (cpu_seconds() - client_idle_cpu));
}

int run(std::size_t calls) {
  const auto runtime = rt::make_real_runtime();
  CertificateOptions options;
  options.subject.common_name = "localhost";
  options.ip_addresses = {"127.0.0.1"};
  options.is_for_servers = true;
  options.not_before = runtime->wall_now() - 1h;
  options.not_after = runtime->wall_now() + 24h;
  const KeyPair pair = make_self_signed(options).value();
  HttpClientOptions client_options;
  client_options.tls.ca_pem = pair.certificate_pem;
  for (const int handler_threads : {0, 4}) {
    std::printf("handlers on %s\n", handler_threads == 0 ? "the event loop" : "4 threads");
    const ServerProcess server(pair, handler_threads);
    const auto client = make_http_client(*runtime, client_options).value();
    run_calls(*runtime, server, *client, calls, /*is_batch=*/true);
    run_calls(*runtime, server, *client, calls, /*is_batch=*/false);
  }
  for (const bool is_http2 : {false, true}) {
    const ServerProcess server(pair, 4);
    client_options.http2_for_streams = is_http2;
    const auto client = make_http_client(*runtime, client_options).value();
    run_streams(*runtime, server, *client, is_http2 ? "1,000 streams over HTTP/2" : "1,000 streams over HTTP/1.1");
  }
  return 0;
}

}  // namespace
}  // namespace basalt::net

int main(int argc, char** argv) {
  return basalt::net::run(argc > 1 ? static_cast<std::size_t>(std::atoll(argv[1])) : 20'000);
}
