#include "admission/https_admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apiserver/registry/api_server.h"
#include "crds/crds.h"
#include "json/value.h"
#include "net/test_support.h"
#include "rt/real_runtime.h"
#include "webhooks/live_view.h"
#include "webhooks/server.h"
#include "yaml/reader.h"

// The embedded API server and the admission server with HTTPS between them, as in a cluster.

namespace basalt::admission {
namespace {

using net::testing::TestCertificates;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using namespace std::chrono_literals;

const kube::Resource kJobs{"batch.volcano.sh", "v1alpha1", "jobs"};
const kube::Resource kQueues{"scheduling.volcano.sh", "v1beta1", "queues"};

class HttpsAdmissionTest : public ::testing::Test {
 protected:
  HttpsAdmissionTest() {
    server_ = apiserver::ApiServer::open(*runtime_, Logger(), {}).value();
    client_ = apiserver::make_direct_client(*runtime_, *server_, {{"jane", "", {"dev"}}, "test"});
    view_ = std::make_unique<webhooks::ClientClusterView>(*client_);
    context_ = std::make_unique<webhooks::RuleContext>(webhooks::RuleContext{rules_, *view_, nullptr, {}});
    for (const webhooks::Hook& hook : webhooks::all_hooks()) hooks_.push_back(&hook);
    webhooks::WebhookServerOptions options;
    options.address = "127.0.0.1";
    options.port = 0;
    options.hooks = hooks_;
    options.tls = net::TlsServerOptions{.certificate_pem = certificates_.server.certificate_pem,
                                        .key_pem = certificates_.server.key_pem};
    webhooks_ = webhooks::WebhookServer::start(*runtime_, Logger(), options, *context_).value();
    HttpsAdmissionOptions caller;
    caller.url = "https://127.0.0.1:" + std::to_string(webhooks_->port());
    caller.ca_pem = certificates_.authority.certificate_pem;
    caller.hooks = hooks_;
    server_->add_admission_hook(make_https_admission(*runtime_, caller).value());
    EXPECT_TRUE(server_->start().ok());
    EXPECT_TRUE(crds::install(*runtime_, *client_, {}).ok());
  }
  ~HttpsAdmissionTest() override {
    if (webhooks_) webhooks_->stop(1s);
    client_.reset();
    server_->stop();
  }

  Result<kube::Response> create(const kube::Resource& resource, std::string_view yaml, std::string_view ns = "") {
    kube::Request request;
    request.verb = kube::Verb::Create;
    request.resource = resource;
    request.ns = ns;
    request.body = yaml::read(yaml).value().to_text();
    return client_->call(request, {});
  }
  Result<kube::Response> create_job(std::string_view spec) {
    return create(kJobs,
                  "{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, metadata: {name: j}, spec: {" +
                      std::string(spec) +
                      "tasks: [{name: t, replicas: 2, template: {spec: {containers: [{name: c, image: b}]}}}]}}",
                  "default");
  }
  void add_default_queue() {
    const auto made =
        create(kQueues, "{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: default}}");
    ASSERT_TRUE(made.ok()) << made.error().message;
    const json::Value queue = json::Value::parse(*made->body).value();
    EXPECT_EQ(json::Value(true), *queue.find_path({"spec", "reclaimable"}));
    kube::Request open;
    open.verb = kube::Verb::Patch;
    open.resource = kQueues;
    open.name = "default";
    open.subresource = "status";
    open.body = R"({"status":{"state":"Open"}})";
    ASSERT_TRUE(client_->call(open, {}).ok());
  }

  std::unique_ptr<rt::Runtime> runtime_ = rt::make_real_runtime();
  const TestCertificates certificates_{*runtime_};
  const webhooks::RuleOptions rules_;
  std::vector<const webhooks::Hook*> hooks_;
  std::unique_ptr<apiserver::ApiServer> server_;
  std::unique_ptr<kube::Client> client_;
  std::unique_ptr<webhooks::ClientClusterView> view_;
  std::unique_ptr<webhooks::RuleContext> context_;
  std::unique_ptr<webhooks::WebhookServer> webhooks_;
};

TEST_F(HttpsAdmissionTest, DefaultsAndRefusalsComeOverTheWire) {
  const auto no_queue = create_job("");
  ASSERT_FALSE(no_queue.ok());
  EXPECT_EQ(400, no_queue.error().code);
  EXPECT_THAT(
      no_queue.error().message,
      StartsWith("admission webhook \"validatejob.volcano.sh\" denied the request: spec.queue: unable to find"));
  add_default_queue();
  const auto too_many = create_job("minAvailable: 3, ");
  ASSERT_FALSE(too_many.ok());
  EXPECT_THAT(too_many.error().message, HasSubstr("should not be greater than total replicas"));
  const auto made = create_job("");
  ASSERT_TRUE(made.ok()) << made.error().message;
  const json::Value job = json::Value::parse(*made->body).value();
  EXPECT_EQ("volcano", job.string_at({"spec", "schedulerName"}));
  EXPECT_EQ(json::Value(2), *job.find_path({"spec", "minAvailable"}));
}

TEST_F(HttpsAdmissionTest, AServerThatIsAwayRefusesForNow) {
  add_default_queue();
  webhooks_->stop(1s);
  webhooks_.reset();
  const auto refused = create_job("");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(500, refused.error().code);
  EXPECT_THAT(refused.error().message, StartsWith("failed calling webhook \"mutatejob.volcano.sh\""));
}

}  // namespace
}  // namespace basalt::admission
