// The admission server over TLS, in a process of its own on one core; 16 keep-alive connections send reviews of a job
// with four tasks on a fixed schedule, as API servers do. Latency counts from the moment at which a review was due, so
// a late answer is not hidden by the requests that wait behind it. Prints the percentiles at 5,000 reviews/s (bars: p99
// <= 1 ms, p99.9 <= 5 ms), the processor time of a review, the resident memory (bar: 30 MiB), and then, with reviews
// that take 10 ms each and ten times as many as can be done, how soon the refused ones are answered (bar: 50 ms).
// Usage: webhooks_bench [seconds]

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
#include <unistd.h>

#include "base/check.h"
#include "net/certificates.h"
#include "rt/real_runtime.h"
#include "webhooks/cluster_view.h"
#include "webhooks/server.h"

namespace basalt::webhooks {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr int kConnections = 16;

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
         R"("schedulerName":"volcano","minAvailable":32,"maxRetry":3,"plugins":{"env":[],"svc":[]},"policies":[{"event":)"
         R"("TaskCompleted","action":"CompleteJob"}],"tasks":[)" +
         tasks + "]}}}}";
}

class SlowProbe final : public TemplateProbe {
 public:
  explicit SlowProbe(rt::Runtime& runtime) : runtime_(runtime) {}
  Done check(const ReviewUser&, const std::string&, const json::Value&) override {
    runtime_.sleep_for(2500us);  // four tasks ask one after another
    return Ok{};
  }

 private:
  rt::Runtime& runtime_;
};

void pin_to(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  (void)::sched_setaffinity(0, sizeof set, &set);
}

// The server's process: writes its port, then serves until it is killed.
void serve(const net::KeyPair& pair, bool is_slow, int answers) {
  pin_to(0);
  const auto runtime = rt::make_real_runtime();
  StoredClusterView cluster;
  BASALT_CHECK(
      cluster.put_queue(json::Value::parse(R"({"metadata":{"name":"default"},"status":{"state":"Open"}})").value())
          .ok());
  const RuleOptions rules;
  SlowProbe probe(*runtime);
  RuleContext context{rules, cluster, nullptr, {}};
  if (is_slow) context.template_probes.push_back(&probe);
  kube::Metrics metrics;
  WebhookServerOptions options;
  options.address = "127.0.0.1";
  options.port = 0;
  options.tls = net::TlsServerOptions{.certificate_pem = pair.certificate_pem, .key_pem = pair.key_pem};
  options.hooks = select_hooks("/jobs/mutate,/jobs/validate").value();
  options.metrics = &metrics;
  if (is_slow) {
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
  std::vector<double> served_ms;
  std::vector<double> refused_ms;
};

// `rate` reviews a second for `seconds`, evenly over the connections.
Outcome load(std::uint16_t port, int connections, double rate, double seconds) {
  SSL_CTX* const context = SSL_CTX_new(TLS_client_method());
  std::vector<std::unique_ptr<Caller>> callers;
  for (int i = 0; i < connections; ++i) callers.push_back(std::make_unique<Caller>(context, port));
  const std::string body = review_text();
  const std::string request =
      "POST /jobs/validate?timeout=5s HTTP/1.1\r\nHost: admission\r\nContent-Type: "
      "application/json\r\nAccept: application/json\r\nContent-Length: " +
      std::to_string(body.size()) + "\r\n\r\n" + body;
  std::vector<Outcome> outcomes(static_cast<std::size_t>(connections));
  std::vector<std::thread> threads;
  const auto begin = Clock::now() + 100ms;
  for (int i = 0; i < connections; ++i) {
    threads.emplace_back([&, i] {
      const double period = connections / rate;
      Outcome& outcome = outcomes[static_cast<std::size_t>(i)];
      for (int n = 0; n * period < seconds; ++n) {
        const auto due =
            begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(n * period + i / rate));
        std::this_thread::sleep_until(due);
        const int status = callers[static_cast<std::size_t>(i)]->call(request);
        const double ms = std::chrono::duration<double, std::milli>(Clock::now() - due).count();
        BASALT_CHECK(status == 200 || status == 429);
        (status == 200 ? outcome.served_ms : outcome.refused_ms).push_back(ms);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  callers.clear();
  SSL_CTX_free(context);
  Outcome all;
  for (const Outcome& one : outcomes) {
    all.served_ms.insert(all.served_ms.end(), one.served_ms.begin(), one.served_ms.end());
    all.refused_ms.insert(all.refused_ms.end(), one.refused_ms.begin(), one.refused_ms.end());
  }
  std::sort(all.served_ms.begin(), all.served_ms.end());
  std::sort(all.refused_ms.begin(), all.refused_ms.end());
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
  ServerProcess(const net::KeyPair& pair, bool is_slow) {
    int pipe_ends[2];
    BASALT_CHECK(::pipe(pipe_ends) == 0);
    process_ = ::fork();
    BASALT_CHECK(process_ >= 0);
    if (process_ == 0) serve(pair, is_slow, pipe_ends[1]);
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

  {
    const ServerProcess server(pair, false);
    (void)load(server.port(), kConnections, 1'000, 0.5);
    const Usage before = usage_of(server.process());
    const Outcome outcome = load(server.port(), kConnections, 5'000, seconds);
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
  {
    const ServerProcess server(pair, true);
    const Outcome outcome = load(server.port(), 200, 4'000, seconds);
    std::printf("overload, 400/s possible and 4,000/s sent: %zu served, %zu refused\n", outcome.served_ms.size(),
                outcome.refused_ms.size());
    std::printf("  refused: p50 %.3f ms, p99 %.3f ms, worst %.3f ms (bar 50); served: p99 %.3f ms\n",
                share(outcome.refused_ms, 0.5), share(outcome.refused_ms, 0.99), share(outcome.refused_ms, 1),
                share(outcome.served_ms, 0.99));
    std::printf("  %.1f MiB resident\n", usage_of(server.process()).resident_mib);
  }
}

}  // namespace
}  // namespace basalt::webhooks

int main(int argc, char** argv) {
  ::signal(SIGPIPE, SIG_IGN);
  const double seconds = argc > 1 ? std::atof(argv[1]) : 0;
  basalt::webhooks::run(seconds > 0 ? seconds : 5);
  return 0;
}
