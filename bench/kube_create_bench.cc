// Pod creation through Client::call_all on a real API server, beside a bare load generator: libcurl's multi interface
// with the same number of HTTP/1.1 connections and the same bodies, and nothing else. Rounds alternate, so that a
// server that grows slower slows both. Bar: >= 90 % of the bare rate. Exits with 1 if it is missed, with 77 if there is
// no API server.
//
//   kube_create_bench [pods a round = 1000] [rounds = 4] [connections = 64]

#include <curl/curl.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "kube/kubeconfig.h"
#include "kube/rest_client.h"
#include "rt/real_runtime.h"
#include "test/kube/kube_fixture.h"

namespace {

using namespace basalt;

std::string pod_body(const std::string& name) {
  return R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":")" + name +
         R"(","namespace":"default","labels":{"volcano.sh/job-name":"bench","volcano.sh/task-spec":"worker"},)"
         R"("annotations":{"scheduling.k8s.io/group-name":"bench","volcano.sh/job-version":"0"}},)"
         R"("spec":{"schedulerName":"volcano","restartPolicy":"OnFailure","containers":[{"name":"main",)"
         R"("image":"busybox","command":["sleep","60"],"resources":{"requests":{"cpu":"1","memory":"1Gi"},)"
         R"("limits":{"cpu":"1","memory":"1Gi"}}}]}})";
}

std::size_t discard(char*, std::size_t size, std::size_t count, void*) { return size * count; }

// The bare generator.
class Bare {
 public:
  Bare(const test::RealKube& kube, int connections) : url_(kube.server_url() + "/api/v1/namespaces/default/pods") {
    multi_ = ::curl_multi_init();
    headers_ = ::curl_slist_append(headers_, "Content-Type: application/json");
    headers_ = ::curl_slist_append(headers_, "Accept: application/json");
    headers_ = ::curl_slist_append(headers_, "Expect:");
    for (int i = 0; i < connections; ++i) {
      CURL* easy = ::curl_easy_init();
      ::curl_easy_setopt(easy, CURLOPT_URL, url_.c_str());
      ::curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers_);
      ::curl_easy_setopt(easy, CURLOPT_CAINFO, kube.ca_file().c_str());
      ::curl_easy_setopt(easy, CURLOPT_SSLCERT, kube.client_certificate_file().c_str());
      ::curl_easy_setopt(easy, CURLOPT_SSLKEY, kube.client_key_file().c_str());
      ::curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
      ::curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &discard);
      free_.push_back(easy);
    }
    all_ = free_;
    ::curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, static_cast<long>(connections));
  }
  ~Bare() {
    for (CURL* easy : all_) ::curl_easy_cleanup(easy);
    ::curl_multi_cleanup(multi_);
    ::curl_slist_free_all(headers_);
  }
  Bare(const Bare&) = delete;
  Bare& operator=(const Bare&) = delete;

  // How many were created.
  int create(const std::vector<std::string>& bodies) {
    std::size_t next = 0;
    int created = 0;
    int running = 0;
    do {
      while (next < bodies.size() && !free_.empty()) {
        CURL* easy = free_.back();
        free_.pop_back();
        ::curl_easy_setopt(easy, CURLOPT_POSTFIELDS, bodies[next].c_str());
        ::curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, static_cast<long>(bodies[next].size()));
        ::curl_multi_add_handle(multi_, easy);
        ++next;
      }
      ::curl_multi_perform(multi_, &running);
      int left = 0;
      while (const CURLMsg* message = ::curl_multi_info_read(multi_, &left)) {
        long code = 0;
        ::curl_easy_getinfo(message->easy_handle, CURLINFO_RESPONSE_CODE, &code);
        created += code == 201 ? 1 : 0;
        CURL* easy = message->easy_handle;
        ::curl_multi_remove_handle(multi_, easy);
        free_.push_back(easy);
      }
      if (running > 0 && (free_.empty() || next >= bodies.size())) {
        ::curl_multi_poll(multi_, nullptr, 0, 1000, nullptr);
      }
    } while (running > 0 || next < bodies.size());
    return created;
  }

 private:
  const std::string url_;
  CURLM* multi_ = nullptr;
  curl_slist* headers_ = nullptr;
  std::vector<CURL*> free_;
  std::vector<CURL*> all_;
};

int create(kube::Client& client, const std::vector<std::string>& bodies, int connections) {
  std::vector<kube::Request> requests;
  requests.reserve(bodies.size());
  for (const std::string& body : bodies) {
    requests.push_back({.verb = kube::Verb::Create, .resource = {"", "v1", "pods"}, .ns = "default", .body = body});
  }
  int created = 0;
  for (const auto& result : client.call_all(requests, {.in_flight_max = connections}, {})) {
    created += result.ok() ? 1 : 0;
    if (!result.ok()) std::fprintf(stderr, "%s\n", result.error().to_string().c_str());
  }
  return created;
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

int main(int argc, char** argv) {
  const int pods = argc > 1 ? std::atoi(argv[1]) : 1000;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 4;
  const int connections = argc > 3 ? std::atoi(argv[3]) : 64;
  if (const std::string why = test::RealKube::why_skip(); !why.empty()) {
    std::printf("skipped: %s\n", why.c_str());
    return 77;
  }
  auto started = test::RealKube::start();
  if (!started.kube) {
    std::printf("skipped: %s\n", started.error.c_str());
    return 77;
  }
  const auto runtime = rt::make_real_runtime();
  const auto config = kube::load_client_config({.kubeconfig = started.kube->kubeconfig().string()},
                                               kube::ConfigEnvironment::of_process());
  auto client = kube::make_rest_client(*runtime, Logger(), *config, {.connections_max = connections});
  (void)(*client)->call({.verb = kube::Verb::Create,
                         .resource = {"", "v1", "serviceaccounts"},
                         .ns = "default",
                         .body = R"({"metadata":{"name":"default"}})"},
                        {});
  Bare bare(*started.kube, connections);
  double bare_seconds = 0;
  double our_seconds = 0;
  int serial = 0;
  const auto bodies = [&](int count) {
    std::vector<std::string> made;
    for (int i = 0; i < count; ++i) made.push_back(pod_body("bench-" + std::to_string(serial++)));
    return made;
  };
  // Connections and caches warm up first.
  if (bare.create(bodies(connections * 2)) == 0 || create(**client, bodies(connections * 2), connections) == 0) {
    std::printf("pods cannot be created\n");
    return 1;
  }
  for (int round = 0; round < rounds; ++round) {
    for (const bool ours : {round % 2 == 0, round % 2 != 0}) {
      const std::vector<std::string> work = bodies(pods);
      const auto begin = std::chrono::steady_clock::now();
      const int created = ours ? create(**client, work, connections) : bare.create(work);
      (ours ? our_seconds : bare_seconds) += seconds_since(begin);
      if (created != pods) {
        std::printf("only %d of %d were created\n", created, pods);
        return 1;
      }
    }
  }
  const double total = static_cast<double>(pods) * rounds;
  const double ratio = bare_seconds / our_seconds;
  std::printf("create: call_all %.0f pods/s, bare libcurl %.0f pods/s, ratio %.2f (bar 0.90), %d connections\n",
              total / our_seconds, total / bare_seconds, ratio, connections);
  return ratio >= 0.9 ? 0 : 1;
}
