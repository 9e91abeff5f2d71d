#include "webhooks/manager.h"

#include <atomic>

#include "base/encoding.h"
#include "kube/testing/fake_cluster.h"
#include "net/http_client.h"
#include "net/test_support.h"
#include "rt/mutex.h"
#include "webhooks/server.h"
#include "webhooks/webhooks_test_support.h"

// The running server: from an empty Secret to a review over HTTPS, on real sockets.

namespace basalt::webhooks {
namespace {

using net::testing::kPatience;
using net::testing::TemporaryFolder;
using net::testing::TestCertificates;
using ::testing::AllOf;
using ::testing::HasSubstr;
using namespace testing;
using namespace std::chrono_literals;

const kube::Resource kSecrets{"", "v1", "secrets"};
const kube::Resource kQueues{"scheduling.volcano.sh", "v1beta1", "queues"};
const kube::Resource kMutating{"admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations"};
const kube::Resource kValidating{"admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations"};

class ManagerTest : public ::testing::Test {
 protected:
  ManagerTest() {
    options_.listen_address = "127.0.0.1";
    options_.port = 0;
    options_.webhook_namespace = "volcano-system";
    options_.webhook_service_name = "volcano-admission-service";
    options_.enabled_admission = "/jobs/mutate,/jobs/validate,/pods/mutate";
    options_.graceful_shutdown_time = 5s;
    options_.self_signed = true;
    options_.certificate_folder = folder_.file("made");
    cluster_.put(kQueues,
                 R"({"apiVersion":"scheduling.volcano.sh/v1beta1","kind":"Queue","metadata":{"name":"default"},)"
                 R"("status":{"state":"Open"}})");
  }
  ~ManagerTest() override { stop(); }

  void put_configurations() {
    for (const std::string_view path : {"/jobs/mutate", "/jobs/validate", "/pods/mutate"}) {
      const Hook& hook = *find_hook(path);
      const json::Value configuration = json::Object{
          {"apiVersion", "admissionregistration.k8s.io/v1"},
          {"metadata", json::Object{{"name", hook.configuration_name()}}},
          {"webhooks", json::Array{json::Object{{"name", std::string(hook.webhook_name)},
                                                {"clientConfig", json::Object{{"service", json::Object()}}}}}}};
      cluster_.put(hook.is_mutating ? kMutating : kValidating, configuration.to_text());
    }
  }

  void start() {
    options_.on_listening = [this](std::uint16_t port) {
      const rt::MutexLock lock(mutex_);
      port_ = port;
      listening_.notify_all();
    };
    thread_ = std::make_unique<rt::Thread>(*runtime_, "manager", [this] {
      const Done done = run_webhook_manager(*runtime_, cluster_, Logger(), options_, stop_.token());
      EXPECT_TRUE(done.ok()) << done.error().message;
      has_ended_ = true;
    });
    const rt::Instant deadline = runtime_->now() + kPatience;
    const rt::MutexLock lock(mutex_);
    while (port_ == 0 && listening_.wait_until(mutex_, deadline)) continue;
    ASSERT_NE(0, port_);
  }
  void stop() {
    stop_.request_stop();
    if (thread_) thread_->join();
    thread_.reset();
  }

  std::string bundle_of(std::string_view path) {
    const Hook& hook = *find_hook(path);
    const auto objects = cluster_.objects(hook.is_mutating ? kMutating : kValidating);
    const auto found = objects.find(hook.configuration_name());
    if (found == objects.end()) return "";
    const json::Value stored = json::Value::parse(*found->second).value();
    const json::Array& entries = list_at(stored, "webhooks");
    if (entries.empty()) return "";
    return base::base64_decode(entries[0].string_at({"clientConfig", "caBundle"})).value_or("");
  }
  // Until the authority is there, and differs from `before`.
  std::string wait_for_bundle(std::string_view path, const std::string& before = "") {
    const rt::Instant deadline = runtime_->now() + kPatience;
    while (runtime_->now() < deadline) {
      if (std::string pem = bundle_of(path); pem != before) return pem;
      runtime_->sleep_for(10ms);
    }
    ADD_FAILURE() << "the authority was not registered for " << path;
    return "";
  }

  // As an API server calls: trusting the registered authority, by the service's name.
  Result<net::HttpResponse> review(const std::string& authority, std::string_view path, std::string_view object,
                                   std::string_view server_name = "volcano-admission-service.volcano-system.svc") {
    net::HttpClientOptions options;
    options.tls.ca_pem = authority;
    options.tls.server_name = server_name;
    const auto client = net::make_http_client(*runtime_, options).value();
    const Hook& hook = *find_hook(path);
    net::HttpRequest request;
    request.method = "POST";
    request.url = "https://127.0.0.1:" + std::to_string(port_) + std::string(path);
    request.headers = {{"Content-Type", "application/json"}};
    request.timeout = kPatience;
    const std::string body =
        json::Value(
            json::Object{{"apiVersion", "admission.k8s.io/v1"},
                         {"kind", "AdmissionReview"},
                         {"request", json::Object{{"uid", "u"},
                                                  {"operation", "CREATE"},
                                                  {"namespace", "team"},
                                                  {"resource", json::Object{{"group", std::string(hook.group)},
                                                                            {"version", std::string(hook.version)},
                                                                            {"resource", std::string(hook.resource)}}},
                                                  {"object", from_yaml(object)}}}})
            .to_text();
    request.body = body;
    return client->call(request, {});
  }

  std::string answer(const std::string& authority, std::string_view path, std::string_view object) {
    const auto response = review(authority, path, object);
    return response.ok() ? response->body : response.error().message;
  }

  TemporaryFolder folder_;
  std::unique_ptr<rt::Runtime> runtime_ = rt::make_real_runtime();
  kube::testing::FakeCluster cluster_{*runtime_};
  WebhookManagerOptions options_;
  rt::StopSource stop_{*runtime_};
  rt::Mutex mutex_;
  rt::Condition listening_{*runtime_};
  std::uint16_t port_ = 0;
  std::atomic<bool> has_ended_ = false;
  std::unique_ptr<rt::Thread> thread_;
};

TEST_F(ManagerTest, FromAnEmptyClusterToAReview) {
  put_configurations();
  start();
  const std::string authority = wait_for_bundle("/jobs/validate");
  EXPECT_EQ(authority, wait_for_bundle("/jobs/mutate"));
  EXPECT_EQ(1u, cluster_.objects(kSecrets).size());
  const auto allowed = review(authority, "/jobs/validate", job_yaml(kOneTask));
  ASSERT_TRUE(allowed.ok()) << allowed.error().message;
  EXPECT_THAT(allowed->body, HasSubstr(R"("allowed":true)"));
  const auto refused = review(authority, "/jobs/validate", job_yaml(kOneTask + "  queue: nowhere\n"));
  ASSERT_TRUE(refused.ok());
  EXPECT_THAT(refused->body, AllOf(HasSubstr(R"("allowed":false)"), HasSubstr("unable to find job queue")));
  EXPECT_FALSE(review(authority, "/jobs/validate", job_yaml(kOneTask), "elsewhere").ok());
  stop();
  EXPECT_TRUE(has_ended_);
}

TEST_F(ManagerTest, QueuesAreWatched) {
  put_configurations();
  start();
  const std::string authority = wait_for_bundle("/jobs/validate");
  const std::string job = job_yaml(kOneTask + "  queue: fresh\n");
  EXPECT_THAT(answer(authority, "/jobs/validate", job), HasSubstr("unable to find job queue"));
  cluster_.put(kQueues, R"({"apiVersion":"scheduling.volcano.sh/v1beta1","kind":"Queue","metadata":{"name":"fresh"},)"
                        R"("status":{"state":"Open"}})");
  // At once: before a refusal the API server itself is asked.
  EXPECT_THAT(answer(authority, "/jobs/validate", job), HasSubstr(R"("allowed":true)"));
}

TEST_F(ManagerTest, B11MissingConfigurationsAreWaitedFor) {
  start();
  EXPECT_EQ("", bundle_of("/jobs/validate"));
  put_configurations();
  EXPECT_NE("", wait_for_bundle("/jobs/validate"));
}

TEST_F(ManagerTest, FilesAreReadAgain) {
  const TestCertificates first(*runtime_);
  const TestCertificates second(*runtime_);
  const auto write = [&](const TestCertificates& from) {
    ASSERT_TRUE(net::write_file_atomically(folder_.file("tls.key"), from.server.key_pem, 0600).ok());
    ASSERT_TRUE(net::write_file_atomically(folder_.file("tls.crt"), from.server.certificate_pem, 0644).ok());
    ASSERT_TRUE(net::write_file_atomically(folder_.file("ca.crt"), from.authority.certificate_pem, 0644).ok());
  };
  write(first);
  ASSERT_TRUE(net::write_file_atomically(folder_.file("groups.yaml"), "not: [valid", 0644).ok());
  options_.self_signed = false;
  options_.tls_cert_file = folder_.file("tls.crt");
  options_.tls_private_key_file = folder_.file("tls.key");
  options_.ca_cert_file = folder_.file("ca.crt");
  options_.admission_conf = folder_.file("groups.yaml");
  put_configurations();
  start();
  const std::string before = wait_for_bundle("/jobs/validate");
  EXPECT_EQ(first.authority.certificate_pem, before);
  constexpr std::string_view kPod = "{metadata: {name: p}, spec: {}}";
  EXPECT_TRUE(review(before, "/jobs/validate", job_yaml(kOneTask), "").ok());

  // Kubelet replaces files; a broken resource-group file is no end, and a later good one counts.
  write(second);
  ASSERT_TRUE(net::write_file_atomically(folder_.file("groups.yaml"),
                                         "resourceGroups: [{resourceGroup: g, object: {key: namespace, value: "
                                         "[team]}, schedulerName: volcano}]",
                                         0644)
                  .ok());
  EXPECT_EQ(second.authority.certificate_pem, wait_for_bundle("/jobs/validate", before));
  const rt::Instant deadline = runtime_->now() + kPatience;
  std::string body;
  while (runtime_->now() < deadline && body.find("patch") == std::string::npos) {
    const auto response = review(second.authority.certificate_pem, "/pods/mutate", kPod, "");
    if (response.ok()) body = response->body;
  }
  EXPECT_THAT(body, HasSubstr("JSONPatch"));
}

TEST_F(ManagerTest, HealthSaysWhatIsMissing) {
  kube::Metrics metrics;
  options_.metrics = &metrics;
  options_.enable_healthz = true;
  options_.healthz_address = "127.0.0.1:0";
  std::atomic<std::uint16_t> health_port = 0;
  options_.on_health_listening = [&](std::uint16_t port) { health_port = port; };
  start();
  ASSERT_NE(0, health_port);
  const auto secrets = cluster_.objects(kSecrets);
  ASSERT_EQ(1u, secrets.size());
  net::HttpClientOptions options;
  options.tls.ca_pem =
      base::base64_decode(json::Value::parse(*secrets.begin()->second).value().string_at({"data", "ca.crt"})).value();
  options.tls.server_name = "volcano-admission-service.volcano-system.svc";
  const auto client = net::make_http_client(*runtime_, options).value();
  const auto get = [&](std::string_view path) {
    net::HttpRequest request;
    request.url = "https://127.0.0.1:" + std::to_string(health_port) + std::string(path);
    return client->call(request, {}).value();
  };
  EXPECT_EQ(200, get("/healthz").status);
  EXPECT_EQ(200, get("/healthz/ping").status);
  const auto not_ready = get("/readyz");
  EXPECT_EQ(500, not_ready.status);
  EXPECT_THAT(not_ready.body, HasSubstr("ca-registered"));
  put_configurations();
  (void)wait_for_bundle("/pods/mutate");
  const rt::Instant deadline = runtime_->now() + kPatience;
  while (get("/readyz").status != 200 && runtime_->now() < deadline) runtime_->sleep_for(10ms);
  EXPECT_EQ(200, get("/readyz").status);
  EXPECT_THAT(get("/metrics").body, HasSubstr("volcano_admission_review_seconds"));
}

TEST_F(ManagerTest, TheSecretCanBeMadeAlone) {
  options_.certificate_folder.clear();
  ASSERT_TRUE(make_certificate_secret(*runtime_, cluster_, Logger(), options_, {}).ok());
  ASSERT_TRUE(make_certificate_secret(*runtime_, cluster_, Logger(), options_, {}).ok());
  EXPECT_EQ(1u, cluster_.objects(kSecrets).size());
}

TEST(ManagerOptions, EverythingThatIsWrongIsSaidAtOnce) {
  WebhookManagerOptions options;
  options.port = 70'000;
  options.max_queue_depth = 0;
  options.enabled_admission = "/jobs/validte";
  const Done done = check_options(options);
  ASSERT_FALSE(done.ok());
  EXPECT_THAT(done.error().message,
              AllOf(HasSubstr("--port 70000"), HasSubstr("--webhook-namespace"), HasSubstr("--tls-cert-file"),
                    HasSubstr("--max-queue-depth"), HasSubstr("did you mean \"/jobs/validate\"?")));
  options = {};
  options.webhook_url = "https://x";
  options.tls_cert_file = options.tls_private_key_file = options.ca_cert_file = "file";
  EXPECT_TRUE(check_options(options).ok());
  EXPECT_EQ(7u, select_hooks(options.enabled_admission)->size());
}

TEST(ManagerOptions, Addresses) {
  EXPECT_EQ(11251, parse_host_port(":11251")->port);
  EXPECT_EQ("::1", parse_host_port("[::1]:80")->host);
  EXPECT_FALSE(parse_host_port("nothing").ok());
  EXPECT_FALSE(parse_host_port(":65536").ok());
}

}  // namespace
}  // namespace basalt::webhooks
