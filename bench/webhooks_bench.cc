// The admission server over TLS, in a process of its own on one core; the callers have the others. Reviews come on a
// fixed schedule, each over whichever keep-alive connection is free, as an API server sends them: nobody waits for the
// answer to somebody else's. Latency counts from the moment at which a review was due, so a late answer is not hidden
// by the requests that wait behind it.
//
// Prints the percentiles at 5,000 reviews/s of a job with four tasks (bars: p99 <= 1 ms, p99.9 <= 5 ms), the processor
// time of a review and the resident memory (bar: 30 MiB); then, with ten times as many as can be done, how soon the
// refused ones are answered (bar: every one within 50 ms): once with reviews that wait for something 10 ms each, and
// once with reviews of 64 tasks that keep the core itself busy. Beside it stands the same counted from the moment at
// which the caller had its turn to send: what is longer from the due time is the callers' own delay. Usage:
// webhooks_bench [seconds]

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "net/certificates.h"
#include "rt/real_runtime.h"
#include "webhooks/cluster_view.h"
#include "webhooks/server.h"

// Of tcmalloc, where it is linked (docs/adr/0007-allocator.md).
extern "C" __attribute__((weak)) void MallocExtension_ReleaseFreeMemory();

namespace basalt::webhooks {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr int kConnections = 16;
constexpr int kOverloadConnections = 200;
constexpr double kPossibleRate = 400;  // of slow reviews

enum class Work : unsigned char { Plain, Waiting, Computing };

std::string review_text() {
  std::string tasks;
  for (int i = 0; i < 4; ++i) {
    tasks +=
        std::string(i == 0 ? "" : ",") + R"({"name":"worker)" + std::to_string(i) +
        R"(","replicas":8,"minAvailable":8,"policies":[{"event":"PodEvicted","action":"RestartJob"}],)"
        R"("template":{"metadata":{"labels":{"app":"train","tier":"worker"}},"spec":{"restartPolicy":"Never",)"
        R"("volumes":[{"name":"data","emptyDir":{}}],"containers":[{"name":"main","image":"repo/train:v1.2.3",)"
        R"("command":["python","train.py","--epochs=10"],"ports":[{"name":"http","containerPort":8080}],)"
        R"("env":[{"name":"A","value":"1"},{"name":"B","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}],)"
        R"("volumeMounts":[{"name":"data","mountPath":"/data"}],"resources":{"requests":{"cpu":"2","memory":"4Gi"},)"
        R"("limits":{"cpu":"4","memory":"8Gi","nvidia.com/gpu":"1"}}}],"tolerations":[{"key":"gpu","operator":)"
        R"("Exists","effect":"NoSchedule"}],"nodeSelector":{"pool":"gpu"}}}})";
  }
  return R"({"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"705ab4f5-6393-11e8-b7cc-42010a",)"
         R"("operation":"CREATE","kind":{"group":"batch.volcano.sh","version":"v1alpha1","kind":"Job"},"resource":)"
         R"({"group":"batch.volcano.sh","version":"v1alpha1","resource":"jobs"},"namespace":"team","name":"train",)"
         R"("userInfo":{"username":"jane","groups":["dev","system:authenticated"]},"object":{"apiVersion":)"
         R"("batch.volcano.sh/v1alpha1","kind":"Job","metadata":{"name":"train","namespace":"team"},"spec":{"queue":"default",)"
         R"("schedulerName":"volcano","maxRetry":3,"plugins":{"env":[],"svc":[]},"policies":[{"event":)"
         R"("TaskCompleted","action":"CompleteJob"}],"tasks":[)" +
         tasks + "]}}}}";
}

// Four tasks ask one after another, so a review takes four times as long.
class SlowProbe final : public TemplateProbe {
 public:
  SlowProbe(rt::Runtime& runtime, Work work) : runtime_(runtime), work_(work) {}
  Done check(const ReviewUser&, const std::string&, const json::Value&) override {
    if (work_ == Work::Waiting) {
      runtime_.sleep_for(2500us);
    } else {
      for (const auto end = computing_ns() + 625'000; computing_ns() < end;) continue;
    }
    return Ok{};
  }

 private:
  // Processor time of this thread: what others take away is not counted.
  static long long computing_ns() {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
  }

  rt::Runtime& runtime_;
  const Work work_;
};

// The server has the first core, callers the others. On a machine with one core they share it.
void pin(bool is_server) {
  const long cores = ::sysconf(_SC_NPROCESSORS_ONLN);
  cpu_set_t set;
  CPU_ZERO(&set);
  if (is_server || cores < 2) CPU_SET(0, &set);
  for (long core = 1; core < cores && !is_server; ++core) CPU_SET(core, &set);
  (void)::sched_setaffinity(0, sizeof set, &set);
}

// The server's process: writes its port, then serves until it is killed.
void serve(const net::KeyPair& pair, Work work, int answers) {
  pin(true);
  const auto runtime = rt::make_real_runtime();
  StoredClusterView cluster;
  BASALT_CHECK(
      cluster.put_queue(json::Value::parse(R"({"metadata":{"name":"default"},"status":{"state":"Open"}})").value())
          .ok());
  const RuleOptions rules;
  SlowProbe probe(*runtime, work);
  RuleContext context{rules, cluster, nullptr, {}};
  if (work != Work::Plain) context.template_probes.push_back(&probe);
  kube::Metrics metrics;
  WebhookServerOptions options;
  options.address = "127.0.0.1";
  options.port = 0;
  options.tls = net::TlsServerOptions{.certificate_pem = pair.certificate_pem, .key_pem = pair.key_pem};
  options.hooks = select_hooks("/jobs/mutate,/jobs/validate").value();
  options.metrics = &metrics;
  if (work != Work::Plain) {
    options.handler_threads = 4;
    options.waiting_max = 32;
  }
  const auto server = WebhookServer::start(*runtime, Logger(), options, context).value();
  const std::uint16_t port = server->port();
  if (::write(answers, &port, sizeof port) != sizeof port) std::abort();
  while (true) ::pause();
}

// One connection that speaks HTTP/1.1 in TLS, blocking.
class Caller {
 public:
  Caller(SSL_CTX* context, std::uint16_t port) {
    socket_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    BASALT_CHECK(::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    const int on = 1;
    ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ssl_ = SSL_new(context);
    SSL_set_fd(ssl_, socket_);
    BASALT_CHECK(SSL_connect(ssl_) == 1);
  }
  ~Caller() {
    SSL_free(ssl_);
    ::close(socket_);
  }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  // The status of the answer.
  int call(const std::string& request) {
    BASALT_CHECK(SSL_write(ssl_, request.data(), static_cast<int>(request.size())) == static_cast<int>(request.size()));
    std::string answer;
    while (true) {
      char buffer[16384];
      const int count = SSL_read(ssl_, buffer, sizeof buffer);
      BASALT_CHECK(count > 0);
      answer.append(buffer, static_cast<std::size_t>(count));
      const std::size_t end = answer.find("\r\n\r\n");
      if (end == std::string::npos) continue;
      const std::size_t at = answer.find("Content-Length: ");
      BASALT_CHECK(at != std::string::npos && at < end);
      if (answer.size() >= end + 4 + std::strtoul(answer.c_str() + at + 16, nullptr, 10)) break;
    }
    return std::atoi(answer.c_str() + 9);
  }

 private:
  int socket_ = -1;
  SSL* ssl_ = nullptr;
};

struct Outcome {
  std::vector<double> served_ms;   // since it was due
  std::vector<double> refused_ms;  // likewise
  std::vector<double> refused_since_sent_ms;

  void add(const Outcome& other) {
    served_ms.insert(served_ms.end(), other.served_ms.begin(), other.served_ms.end());
    refused_ms.insert(refused_ms.end(), other.refused_ms.begin(), other.refused_ms.end());
    refused_since_sent_ms.insert(refused_since_sent_ms.end(), other.refused_since_sent_ms.begin(),
                                 other.refused_since_sent_ms.end());
  }
  void sort() {
    for (auto* list : {&served_ms, &refused_ms, &refused_since_sent_ms}) std::sort(list->begin(), list->end());
  }
};

std::string request_text() {
  const std::string body = review_text();
  return "POST /jobs/validate?timeout=5s HTTP/1.1\r\nHost: admission\r\nContent-Type: "
         "application/json\r\nAccept: application/json\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body;
}

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

struct Load {
  int connections = kConnections;
  double rate = 0;
  double seconds = 0;
};

// `rate` reviews a second for `seconds`; the next one due goes to the first connection that is free.
Outcome run_load(std::uint16_t port, const Load& load) {
  SSL_CTX* const context = SSL_CTX_new(TLS_client_method());
  std::vector<std::unique_ptr<Caller>> callers;
  for (int i = 0; i < load.connections; ++i) callers.push_back(std::make_unique<Caller>(context, port));
  const std::string request = request_text();
  std::vector<Outcome> outcomes(static_cast<std::size_t>(load.connections));
  std::vector<std::thread> threads;
  std::atomic<int> next = 0;
  const auto begin = Clock::now() + 100ms;
  for (int i = 0; i < load.connections; ++i) {
    threads.emplace_back([&, i] {
      Outcome& outcome = outcomes[static_cast<std::size_t>(i)];
      for (int n = next++; n < load.rate * load.seconds; n = next++) {
        const auto due =
            begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(n / load.rate));
        std::this_thread::sleep_until(due);
        const auto sent = Clock::now();
        const int status = callers[static_cast<std::size_t>(i)]->call(request);
        BASALT_CHECK(status == 200 || status == 429);
        (status == 200 ? outcome.served_ms : outcome.refused_ms).push_back(ms_since(due));
        if (status == 429) outcome.refused_since_sent_ms.push_back(ms_since(sent));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  callers.clear();
  SSL_CTX_free(context);
  Outcome all;
  for (const Outcome& one : outcomes) all.add(one);
  all.sort();
  return all;
}

double share(const std::vector<double>& sorted, double part) {
  if (sorted.empty()) return 0;
  return sorted[std::min(sorted.size() - 1, static_cast<std::size_t>(part * static_cast<double>(sorted.size())))];
}

struct Usage {
  double cpu_seconds = 0;
  double resident_mib = 0;
};

Usage usage_of(pid_t process) {
  Usage usage;
  const std::string folder = "/proc/" + std::to_string(process);
  if (std::FILE* file = std::fopen((folder + "/stat").c_str(), "r"); file != nullptr) {
    unsigned long user = 0;
    unsigned long system = 0;
    if (std::fscanf(file, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) == 2) {
      usage.cpu_seconds = static_cast<double>(user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
    }
    std::fclose(file);
  }
  if (std::FILE* file = std::fopen((folder + "/statm").c_str(), "r"); file != nullptr) {
    unsigned long pages = 0;
    if (std::fscanf(file, "%*u %lu", &pages) == 1) {
      usage.resident_mib = static_cast<double>(pages) * static_cast<double>(::sysconf(_SC_PAGESIZE)) / (1 << 20);
    }
    std::fclose(file);
  }
  return usage;
}

// A server in a process of its own.
class ServerProcess {
 public:
  ServerProcess(const net::KeyPair& pair, Work work) {
    int pipe_ends[2];
    BASALT_CHECK(::pipe(pipe_ends) == 0);
    // What the load of a run before has freed would be counted as the server's.
    if (MallocExtension_ReleaseFreeMemory != nullptr) MallocExtension_ReleaseFreeMemory();
    process_ = ::fork();
    BASALT_CHECK(process_ >= 0);
    if (process_ == 0) serve(pair, work, pipe_ends[1]);
    BASALT_CHECK(::read(pipe_ends[0], &port_, sizeof port_) == sizeof port_);
    ::close(pipe_ends[0]);
    ::close(pipe_ends[1]);
  }
  ~ServerProcess() {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;
  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] pid_t process() const { return process_; }

 private:
  pid_t process_ = -1;
  std::uint16_t port_ = 0;
};

void measure_plain(const net::KeyPair& pair, double seconds) {
  const ServerProcess server(pair, Work::Plain);
  (void)run_load(server.port(), {.rate = 1'000, .seconds = 0.5});
  const Usage before = usage_of(server.process());
  const Outcome outcome = run_load(server.port(), {.rate = 5'000, .seconds = seconds});
  const Usage after = usage_of(server.process());
  const double count = static_cast<double>(outcome.served_ms.size());
  std::printf("review of %zu bytes over TLS, 5,000/s on one core, %d connections: %.0f served, %zu refused\n",
              review_text().size(), kConnections, count, outcome.refused_ms.size());
  std::printf("  p50 %.3f ms, p99 %.3f ms (bar 1), p99.9 %.3f ms (bar 5), worst %.3f ms\n",
              share(outcome.served_ms, 0.5), share(outcome.served_ms, 0.99), share(outcome.served_ms, 0.999),
              share(outcome.served_ms, 1));
  std::printf("  %.1f us of processor a review, %.1f MiB resident (bar 30)\n",
              1e6 * (after.cpu_seconds - before.cpu_seconds) / count, after.resident_mib);
}

void measure_overload(const net::KeyPair& pair, Work work, double seconds) {
  const ServerProcess server(pair, work);
  const Outcome outcome =
      run_load(server.port(), {.connections = kOverloadConnections, .rate = 10 * kPossibleRate, .seconds = seconds});
  std::printf("overload, reviews that %s, %.0f/s possible and %.0f/s sent: %zu served, %zu refused\n",
              work == Work::Computing ? "compute" : "wait", kPossibleRate, 10 * kPossibleRate, outcome.served_ms.size(),
              outcome.refused_ms.size());
  std::printf("  refused: p50 %.3f ms, p99 %.3f ms, worst %.3f ms (bar 50); served: p50 %.1f ms, p99 %.1f ms\n",
              share(outcome.refused_ms, 0.5), share(outcome.refused_ms, 0.99), share(outcome.refused_ms, 1),
              share(outcome.served_ms, 0.5), share(outcome.served_ms, 0.99));
  std::printf("  refused, since sent: p50 %.3f ms, p99 %.3f ms, worst %.3f ms; %.1f MiB resident (bar 30)\n",
              share(outcome.refused_since_sent_ms, 0.5), share(outcome.refused_since_sent_ms, 0.99),
              share(outcome.refused_since_sent_ms, 1), usage_of(server.process()).resident_mib);
}

void run(double seconds) {
  net::CertificateOptions options;
  const auto runtime = rt::make_real_runtime();
  options.subject.common_name = "admission";
  options.not_before = runtime->wall_now() - std::chrono::hours(1);
  options.not_after = runtime->wall_now() + std::chrono::hours(1);
  const net::KeyPair authority = net::make_authority(options).value();
  options.is_for_servers = true;
  options.dns_names = {"admission"};
  const net::KeyPair pair = net::issue_certificate(authority, options).value();

  pin(false);
  measure_plain(pair, seconds);
  measure_overload(pair, Work::Waiting, seconds);
  measure_overload(pair, Work::Computing, seconds);
}

}  // namespace
}  // namespace basalt::webhooks

int main(int argc, char** argv) {
  ::signal(SIGPIPE, SIG_IGN);
  const double seconds = argc > 1 ? std::atof(argv[1]) : 0;
  basalt::webhooks::run(seconds > 0 ? seconds : 5);
  return 0;
}
