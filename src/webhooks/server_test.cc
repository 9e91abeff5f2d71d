#include "webhooks/server.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>

#include "base/encoding.h"
#include "base/sanitizers.h"
#include "net/test_support.h"
#include "rt/mutex.h"
#include "webhooks/webhooks_test_support.h"

// The server over real loopback sockets: what an API server sends, and what nobody should send.

namespace basalt::webhooks {
namespace {

using net::testing::kPatience;
using net::testing::RawConnection;
using net::testing::TemporaryFolder;
using net::testing::TestCertificates;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using namespace testing;
using namespace std::chrono_literals;

std::string review_text(std::string_view object, std::string_view operation = "CREATE") {
  const json::Value value = from_yaml(object);
  return R"({"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u-1","operation":")" +
         std::string(operation) +
         R"(","kind":{"group":"batch.volcano.sh","version":"v1alpha1","kind":"Job"},)"
         R"("resource":{"group":"batch.volcano.sh","version":"v1alpha1","resource":"jobs"},)"
         R"("namespace":"team","name":"j","userInfo":{"username":"jane","groups":["dev"]},"object":)" +
         value.to_text() + "}}";
}

// Holds every review until it is released.
class HoldingProbe final : public TemplateProbe {
 public:
  explicit HoldingProbe(rt::Runtime& runtime) : runtime_(runtime), changed_(runtime) {}
  Done check(const ReviewUser&, const std::string&, const json::Value&) override {
    const rt::MutexLock lock(mutex_);
    ++held_;
    changed_.notify_all();
    while (!is_released_) changed_.wait(mutex_);
    return Ok{};
  }
  void wait_for(int count) {
    const rt::Instant deadline = runtime_.now() + kPatience;
    const rt::MutexLock lock(mutex_);
    while (held_ < count && changed_.wait_until(mutex_, deadline)) continue;
    EXPECT_GE(held_, count);
  }
  int held() {
    const rt::MutexLock lock(mutex_);
    return held_;
  }
  void release() {
    const rt::MutexLock lock(mutex_);
    is_released_ = true;
    changed_.notify_all();
  }

 private:
  rt::Runtime& runtime_;
  rt::Mutex mutex_;
  rt::Condition changed_;
  int held_ BASALT_GUARDED_BY(mutex_) = 0;
  bool is_released_ BASALT_GUARDED_BY(mutex_) = false;
};

class ServerTest : public ::testing::Test {
 protected:
  ServerTest() {
    put_queue(cluster_, "{metadata: {name: default}, status: {state: Open}}");
    options_.address = "127.0.0.1";
    options_.port = 0;
    options_.hooks = select_hooks("/jobs/mutate, /jobs/validate,/jobs/validate, ").value();
    options_.tls = net::TlsServerOptions{.certificate_pem = certificates_.server.certificate_pem,
                                         .key_pem = certificates_.server.key_pem};
  }
  void start() {
    auto server = WebhookServer::start(*runtime_, Logger(), options_, context_);
    ASSERT_TRUE(server.ok()) << server.error().message;
    server_ = std::move(*server);
    client_ = make_client(certificates_.authority.certificate_pem);
  }
  std::unique_ptr<net::HttpClient> make_client(const std::string& authority) {
    net::HttpClientOptions options;
    options.tls.ca_pem = authority;
    options.http2_for_streams = true;
    return net::make_http_client(*runtime_, options).value();
  }
  [[nodiscard]] std::string url(std::string_view path) const {
    return std::string(options_.tls ? "https" : "http") + "://127.0.0.1:" + std::to_string(server_->port()) +
           std::string(path);
  }
  Result<net::HttpResponse> post(net::HttpClient& client, std::string_view path, std::string_view body,
                                 std::string content_type = "application/json") {
    net::HttpRequest request;
    request.method = "POST";
    request.url = url(path);
    request.headers = {{"Content-Type", std::move(content_type)}};
    request.body = body;
    request.timeout = kPatience;
    return client.call(request, {});
  }
  net::HttpResponse post(std::string_view path, std::string_view body, std::string content_type = "application/json") {
    const auto response = post(*client_, path, body, std::move(content_type));
    EXPECT_TRUE(response.ok()) << response.error().message;
    return response.ok() ? *response : net::HttpResponse();
  }
  void expect_served() { EXPECT_EQ(200, post("/jobs/validate", good_).status); }

  std::unique_ptr<rt::Runtime> runtime_ = rt::make_real_runtime();
  const TestCertificates certificates_{*runtime_};
  RuleOptions rules_;
  StoredClusterView cluster_;
  RuleContext context_{rules_, cluster_, nullptr, {}};
  WebhookServerOptions options_;
  std::unique_ptr<WebhookServer> server_;
  std::unique_ptr<net::HttpClient> client_;
  const std::string good_ = review_text(job_yaml(kOneTask));
};

TEST_F(ServerTest, MutatesAndValidates) {
  start();
  const net::HttpResponse mutated = post("/jobs/mutate", good_);
  EXPECT_EQ(200, mutated.status);
  EXPECT_EQ("application/json", net::find_header(mutated.headers, "content-type"));
  const json::Value answer = json::Value::parse(mutated.body).value();
  EXPECT_EQ("AdmissionReview", answer.string_at({"kind"}));
  EXPECT_EQ("admission.k8s.io/v1", answer.string_at({"apiVersion"}));
  EXPECT_EQ("u-1", answer.string_at({"response", "uid"}));
  EXPECT_EQ("JSONPatch", answer.string_at({"response", "patchType"}));
  const auto patch = base::base64_decode(answer.string_at({"response", "patch"}));
  ASSERT_TRUE(patch);
  EXPECT_THAT(*patch, HasSubstr(R"({"op":"add","path":"/spec/queue","value":"default"})"));

  EXPECT_EQ(R"({"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"u-1","allowed":true}})",
            post("/jobs/validate", good_).body);
  EXPECT_EQ(
      R"({"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"u-1","allowed":false,)"
      R"("status":{"status":"Failure","message":"spec.tasks: Required value: No task specified in job spec",)"
      R"("details":{"causes":[{"reason":"FieldValueRequired","message":"Required value: No task specified in job )"
      R"(spec","field":"spec.tasks"}]},"code":400}}})",
      post("/jobs/validate", review_text("{spec: {}}")).body);
}

TEST_F(ServerTest, SpeaksHttp2) {
  start();
  net::HttpRequest request;
  request.method = "POST";
  request.url = url("/jobs/validate");
  request.headers = {{"Content-Type", "application/json; charset=utf-8"}};
  request.body = good_;
  const auto stream = client_->open_stream(request, {});
  ASSERT_TRUE(stream.ok()) << stream.error().message;
  EXPECT_EQ(200, (*stream)->status());
  const auto body = (*stream)->read(runtime_->now() + kPatience);
  ASSERT_TRUE(body.ok());
  EXPECT_THAT(*body, HasSubstr(R"("allowed":true)"));
}

TEST_F(ServerTest, WhatIsNoReviewGetsAClearAnswer) {
  start();
  EXPECT_EQ(404, post("/nothing", good_).status);
  EXPECT_EQ(404, post("/queues/validate", good_).status);
  EXPECT_THAT(post("/queues/validate", good_).body, HasSubstr("--enabled-admission"));
  EXPECT_EQ(415, post("/jobs/validate", good_, "text/plain").status);
  net::HttpRequest get;
  get.url = url("/jobs/validate");
  EXPECT_EQ(405, client_->call(get, {}).value().status);
  get.url = url("/healthz");
  EXPECT_EQ("ok", client_->call(get, {}).value().body);
  const struct {
    std::string body;
    std::string_view words;
  } kCases[] = {
      {"", "is not an AdmissionReview"},
      {"\x16\x03\x01garbage", "is not an AdmissionReview"},
      {good_.substr(0, good_.size() / 2), "is not an AdmissionReview"},
      {"[]", "it is not an object"},
      {"{}", "expected kind AdmissionReview"},
      {R"({"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1"})", "admissionReviewVersions: [v1]"},
      {R"({"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"})", "has no request"},
      {R"({"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{}})", "request.uid"},
      {R"({"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"x","operation":"EAT"}})",
       "request.operation"},
      {R"({"a":)" + std::string(100'000, '[') + std::string(100'000, ']') + "}", "is not an AdmissionReview"},
  };
  for (const auto& test : kCases) {
    const net::HttpResponse response = post("/jobs/validate", test.body);
    EXPECT_EQ(400, response.status) << test.body.substr(0, 80);
    EXPECT_THAT(response.body, HasSubstr(test.words));
  }
  expect_served();
}

TEST_F(ServerTest, B12OversizedBodies) {
  start();
  EXPECT_EQ(413, post("/jobs/validate", std::string(4u << 20, ' ')).status);
  expect_served();
}

TEST_F(ServerTest, HugeAndSlowAndBrokenClientsDisturbNobody) {
  options_.tls.reset();
  start();
  // Thirty times the limit is refused by its announcement alone.
  RawConnection huge = RawConnection::connect(server_->port());
  ASSERT_TRUE(
      huge.send("POST /jobs/validate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                "Content-Length: 94371840\r\n\r\n"));
  EXPECT_THAT(huge.read_until("\r\n"), HasSubstr("413"));
  // Half a header, half a body: they wait for their deadlines while others are served.
  std::vector<RawConnection> slow;
  for (int i = 0; i < 50; ++i) {
    slow.push_back(RawConnection::connect(server_->port()));
    ASSERT_TRUE(slow.back().send(i % 2 == 0
                                     ? "POST /jobs/validate HTTP/1.1\r\nHos"
                                     : "POST /jobs/validate HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{"));
  }
  for (int i = 0; i < 20; ++i) expect_served();
  // A client that goes away in the middle.
  RawConnection gone = RawConnection::connect(server_->port());
  ASSERT_TRUE(gone.send("POST /jobs/validate HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{\"kind\""));
  gone.reset();
  expect_served();
}

long resident_kilobytes() {
  std::ifstream file("/proc/self/statm");
  long total = 0;
  long resident = 0;
  file >> total >> resident;
  return resident * (::sysconf(_SC_PAGESIZE) / 1024);
}

TEST_F(ServerTest, HostileBodiesLeaveMemoryFlat) {
  start();
  const std::string deep = R"({"a":)" + std::string(200'000, '[') + std::string(200'000, ']') + "}";
  std::string wide =
      R"({"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"x","operation":"CREATE",)"
      R"("resource":{"group":"batch.volcano.sh","version":"v1alpha1","resource":"jobs"},"object":{"spec":{"tasks":[)";
  for (int i = 0; i < 20'000; ++i) wide += i == 0 ? "{}" : ",{}";
  wide += "]}}}}";
  const std::string truncated = wide.substr(0, wide.size() - 2);
  const std::string garbage(1u << 20, '\x7f');
  const std::string oversized(30u << 20, '{');
  const auto round = [&] {
    EXPECT_EQ(400, post("/jobs/validate", deep).status);
    EXPECT_EQ(400, post("/jobs/validate", truncated).status);
    EXPECT_EQ(400, post("/jobs/validate", garbage).status);
    EXPECT_THAT(post("/jobs/validate", wide).body, HasSubstr("Too many: 20000"));
    EXPECT_EQ(200, post("/jobs/mutate", wide).status);
    // Ten times the limit: the answer comes, or the connection ends while the client still sends.
    const auto answer = post(*client_, "/jobs/validate", oversized);
    EXPECT_TRUE(!answer.ok() || answer->status == 413);
    expect_served();
  };
  for (int i = 0; i < 2; ++i) round();
  const long before = resident_kilobytes();
  for (int i = 0; i < 8; ++i) round();
#if !BASALT_ASAN && !BASALT_TSAN
  EXPECT_LT(resident_kilobytes() - before, 32 * 1024);
#else
  (void)before;
#endif
}

TEST_F(ServerTest, HalfOpenHandshakesDisturbNobody) {
  start();
  std::vector<RawConnection> silent;
  for (int i = 0; i < 50; ++i) {
    silent.push_back(RawConnection::connect(server_->port()));
    if (i % 2 == 0) {
      ASSERT_TRUE(silent.back().send("\x16\x03\x01"));
    }
  }
  RawConnection plain = RawConnection::connect(server_->port());
  ASSERT_TRUE(plain.send("GET /healthz HTTP/1.1\r\n\r\n"));
  EXPECT_TRUE(plain.is_closed_by_peer());
  for (int i = 0; i < 20; ++i) expect_served();
}

TEST_F(ServerTest, OverloadIsShedAtOnce) {
  HoldingProbe probe(*runtime_);
  context_.template_probes = {&probe};
  options_.handler_threads = 1;
  options_.waiting_max = 2;
  start();
  std::vector<rt::Thread> threads;
  std::vector<int> statuses(12, 0);
  std::atomic<int> answered = 0;
  for (std::size_t i = 0; i < statuses.size(); ++i) {
    threads.emplace_back(*runtime_, "caller", [this, &statuses, &answered, i] {
      const auto client = make_client(certificates_.authority.certificate_pem);
      const auto response = post(*client, "/jobs/validate", good_);
      statuses[i] = response.ok() ? response->status : -1;
      ++answered;
    });
    if (i == 0) probe.wait_for(1);
  }
  // One is served and two wait; nine are sent away without waiting.
  const rt::Instant all_here = runtime_->now() + kPatience;
  while (answered < 9 && runtime_->now() < all_here) runtime_->sleep_for(1ms);
  EXPECT_EQ(9, answered);
  int shed = 0;
  const auto client = make_client(certificates_.authority.certificate_pem);
  const rt::Instant deadline = runtime_->now() + kPatience;
  while (shed == 0 && runtime_->now() < deadline) {
    net::HttpRequest request;
    request.method = "POST";
    request.url = url("/jobs/validate");
    request.headers = {{"Content-Type", "application/json"}};
    request.body = good_;
    request.timeout = 300ms;
    const auto response = client->call(request, {});
    if (response.ok() && response->status == 429) {
      ++shed;
      EXPECT_NE("", net::find_header(response->headers, "retry-after"));
    }
  }
  EXPECT_EQ(1, shed);
  probe.release();
  for (rt::Thread& thread : threads) thread.join();
  EXPECT_EQ(9, std::count(statuses.begin(), statuses.end(), 429));
  EXPECT_EQ(3, std::count(statuses.begin(), statuses.end(), 200));
}

TEST_F(ServerTest, NobodyWorksForACallerThatLeft) {
  HoldingProbe probe(*runtime_);
  context_.template_probes = {&probe};
  options_.tls = std::nullopt;
  options_.handler_threads = 1;
  options_.waiting_max = 1;
  start();
  const std::string request =
      "POST /jobs/validate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: " +
      std::to_string(good_.size()) + "\r\n\r\n" + good_;
  RawConnection patient = RawConnection::connect(server_->port());
  RawConnection leaving = RawConnection::connect(server_->port());
  RawConnection other = RawConnection::connect(server_->port());
  for (RawConnection* connection :
       {&leaving, &other}) {  // both are known to the event loop, which then keeps the order
    ASSERT_TRUE(connection->send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"));
    ASSERT_THAT(connection->read_response(), StartsWith("HTTP/1.1 200 "));
  }
  ASSERT_TRUE(patient.send(request));
  probe.wait_for(1);
  ASSERT_TRUE(leaving.send(request));
  const auto is_refused = [&] {
    EXPECT_TRUE(other.send(request));
    return other.read_response().starts_with("HTTP/1.1 429 ");
  };
  ASSERT_TRUE(is_refused());  // so the other one waits
  leaving.reset();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(is_refused());  // so the loop has seen that it left
  probe.release();
  EXPECT_THAT(patient.read_response(), StartsWith("HTTP/1.1 200 "));
  expect_served();
  EXPECT_EQ(2, probe.held());
}

TEST_F(ServerTest, B14RunningReviewsEndBeforeTheServer) {
  HoldingProbe probe(*runtime_);
  context_.template_probes = {&probe};
  start();
  std::atomic<int> status = 0;
  rt::Thread caller(*runtime_, "caller", [&] { status = post("/jobs/validate", good_).status; });
  probe.wait_for(1);
  net::HttpRequest health;
  health.url = url("/healthz");
  health.timeout = 1s;
  rt::Thread stopper(*runtime_, "stopper", [&] { server_->stop(kPatience); });
  // Newcomers are turned away before the running one ends.
  const rt::Instant deadline = runtime_->now() + kPatience;
  while (runtime_->now() < deadline) {
    if (!make_client(certificates_.authority.certificate_pem)->call(health, {}).ok()) break;
  }
  EXPECT_EQ(0, status);
  probe.release();
  stopper.join();
  caller.join();
  EXPECT_EQ(200, status);
}

TEST_F(ServerTest, CertificatesAreReadAgain) {
  TemporaryFolder folder;
  const TestCertificates others(*runtime_);
  const auto write = [&](const net::KeyPair& pair) {
    ASSERT_TRUE(net::write_file_atomically(folder.file("tls.key"), pair.key_pem, 0600).ok());
    ASSERT_TRUE(net::write_file_atomically(folder.file("tls.crt"), pair.certificate_pem, 0600).ok());
  };
  write(certificates_.server);
  options_.tls = net::TlsServerOptions{.certificate_file = folder.file("tls.crt"), .key_file = folder.file("tls.key")};
  start();
  expect_served();
  write(others.server);
  const auto newcomer = make_client(others.authority.certificate_pem);
  const rt::Instant deadline = runtime_->now() + kPatience;
  Result<net::HttpResponse> response = post(*newcomer, "/jobs/validate", good_);
  while (!response.ok() && runtime_->now() < deadline) response = post(*newcomer, "/jobs/validate", good_);
  ASSERT_TRUE(response.ok()) << response.error().message;
  EXPECT_EQ(200, response->status);
}

TEST_F(ServerTest, MetricsCount) {
  kube::Metrics metrics;
  options_.metrics = &metrics;
  start();
  (void)post("/jobs/validate", good_);
  (void)post("/jobs/validate", review_text("{spec: {}}"));
  (void)post("/jobs/validate", "x");
  EXPECT_THAT(metrics.to_text(),
              AllOf(HasSubstr(R"(volcano_admission_reviews_total{answer="allowed",path="/jobs/validate"} 1)"),
                    HasSubstr(R"(volcano_admission_reviews_total{answer="denied",path="/jobs/validate"} 1)"),
                    HasSubstr(R"(volcano_admission_reviews_total{answer="error",path="/jobs/validate"} 1)")));
}

TEST(SelectHooks, NamesWhatIsUnknown) {
  EXPECT_EQ(2u, select_hooks("/jobs/mutate, ,/queues/validate,/jobs/mutate").value().size());
  EXPECT_TRUE(select_hooks("").value().empty());
  const auto unknown = select_hooks("/job/mutate");
  ASSERT_FALSE(unknown.ok());
  EXPECT_THAT(unknown.error().message, HasSubstr("did you mean \"/jobs/mutate\"?"));
}

TEST(Hooks, NamesOfConfigurations) {
  EXPECT_EQ("volcano-admission-service-queues-validate", find_hook("/queues/validate")->configuration_name());
  for (const Hook& hook : all_hooks()) {
    EXPECT_NE(nullptr, hook.rule) << hook.path;
    EXPECT_EQ(&hook, find_hook(hook.path));
    EXPECT_EQ(&hook, find_hook(hook.group, hook.resource, hook.is_mutating));
  }
}

}  // namespace
}  // namespace basalt::webhooks
