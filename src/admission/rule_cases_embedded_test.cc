#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "admission/embedded_admission.h"
#include "apiserver/registry/api_server.h"
#include "base/encoding.h"
#include "crds/crds.h"
#include "net/http_client.h"
#include "net/test_support.h"
#include "rt/real_runtime.h"
#include "webhooks/live_view.h"
#include "webhooks/resource_groups.h"
#include "webhooks/server.h"
#include "webhooks/testing/case_driver.h"
#include "yaml/reader.h"

// Every case of webhooks/testdata as a write to the embedded API server: with the rules in its process, and behind the
// webhook configurations of deploy/ over HTTPS. Verdicts, words, warnings and defaults are those of the rules.

namespace basalt::admission {
namespace {

using net::testing::TestCertificates;
using webhooks::testing::AskReview;
using webhooks::testing::CaseDriver;
using webhooks::testing::CaseReport;
using webhooks::testing::RuleCaseFile;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

const fs::path kSource = BASALT_SOURCE_DIR;
const fs::path kData = kSource / "src/webhooks/testdata";

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<RuleCaseFile> files() {
  auto read = webhooks::testing::read_rule_cases(kData);
  EXPECT_TRUE(read.ok()) << read.error().message;
  return read.ok() ? std::move(*read) : std::vector<RuleCaseFile>();
}

// The rules, called only once they are switched on: what is stored before is what the cases start from.
class SwitchedHook final : public apiserver::AdmissionHook {
 public:
  explicit SwitchedHook(std::shared_ptr<apiserver::AdmissionHook> hook) : hook_(std::move(hook)) {}
  void switch_on() { is_on_ = true; }

  [[nodiscard]] bool handles(const apiserver::AdmissionRequest& request) const override {
    return is_on_ && hook_->handles(request);
  }
  Done mutate(apiserver::AdmissionRequest& request, json::Value& object) override {
    return hook_->mutate(request, object);
  }
  Done validate(apiserver::AdmissionRequest& request, const json::Value* object) override {
    return hook_->validate(request, object);
  }

 private:
  const std::shared_ptr<apiserver::AdmissionHook> hook_;
  std::atomic<bool> is_on_{false};
};

// An API server with all kinds, also Karmada's.
class World {
 public:
  explicit World(rt::Runtime& runtime) : runtime_(runtime) {
    server_ = apiserver::ApiServer::open(runtime, Logger(), {}).value();
    client_ = apiserver::make_direct_client(runtime, *server_, {{"jane", "", {"system:masters"}}, "test"});
  }
  ~World() {
    client_.reset();
    server_->stop();
  }
  void start() {
    EXPECT_TRUE(server_->start().ok());
    EXPECT_TRUE(crds::install(runtime_, *client_, {}).ok());
    EXPECT_TRUE(crds::install_karmada(runtime_, *client_, {}).ok());
  }
  apiserver::ApiServer& server() { return *server_; }
  kube::Client& client() { return *client_; }

 private:
  rt::Runtime& runtime_;
  std::unique_ptr<apiserver::ApiServer> server_;
  std::unique_ptr<kube::Client> client_;
};

// Those of deploy/, with the address of this server in the place of its Service's.
void add_configurations(kube::Client& client, const std::string& url, const std::string& ca_pem) {
  for (const char* file : {"deploy/webhook-configurations.yaml", "deploy/karmada/data-webhook-configuration.yaml"}) {
    const auto documents = yaml::read_all(text_of(kSource / file));
    ASSERT_TRUE(documents.ok()) << documents.error().message;
    for (const auto& document : *documents) {
      if (!document.value.is_object()) continue;
      json::Value configuration = document.value;
      for (json::Value& hook : configuration.find("webhooks")->as_array()) {
        std::string path(hook.string_at({"clientConfig", "service", "path"}));
        if (path.empty()) path = "/resourcebindings/mutate";
        hook.as_object().set("clientConfig",
                             json::Object{{"url", url + path}, {"caBundle", base::base64_encode(ca_pem)}});
      }
      const bool is_mutating = configuration.string_at({"kind"}) == "MutatingWebhookConfiguration";
      kube::Request request;
      request.verb = kube::Verb::Create;
      request.resource = {"admissionregistration.k8s.io", "v1",
                          is_mutating ? "mutatingwebhookconfigurations" : "validatingwebhookconfigurations"};
      request.body = configuration.to_text();
      const auto made = client.call(request, {});
      ASSERT_TRUE(made.ok()) << made.error().message;
    }
  }
}

class RuleCasesEmbedded : public ::testing::Test {
 protected:
  void add(const CaseReport& report) {
    for (const std::string& problem : report.problems) ADD_FAILURE() << problem;
    total_.stored += report.stored;
    total_.denied += report.denied;
    total_.asked += report.asked;
    total_.not_sent += report.not_sent;
    total_.without_words += report.without_words;
    total_.refused_before.insert(total_.refused_before.end(), report.refused_before.begin(),
                                 report.refused_before.end());
  }
  // What the schema refuses first is listed in a file, which a real server must agree with.
  void finish() {
    std::printf("%s\n", total_.summary().c_str());
    std::sort(total_.refused_before.begin(), total_.refused_before.end());
    std::string listed = "# Cases that an API server refuses by its schema, before the rules are asked.\n";
    for (const std::string& label : total_.refused_before) listed += label + "\n";
    const fs::path golden = kData / "refused_by_schema.golden";
    if (std::getenv("BASALT_UPDATE_GOLDEN") != nullptr) {
      std::ofstream(golden, std::ios::binary) << listed;
      return;
    }
    EXPECT_EQ(text_of(golden), listed) << "written again with BASALT_UPDATE_GOLDEN=1";
  }

  const std::unique_ptr<rt::Runtime> runtime_ = rt::make_real_runtime();
  const std::vector<RuleCaseFile> files_ = files();
  CaseReport total_;
};

TEST_F(RuleCasesEmbedded, InTheServersProcess) {
  World none(*runtime_);
  for (const CaseDriver::Setting& setting : CaseDriver(none.client(), files_).settings()) {
    World world(*runtime_);
    auto rules = make_admission_hook(*runtime_, world.server(), webhooks::testing::rule_options(setting.options),
                                     setting.resource_groups);
    ASSERT_TRUE(rules.ok()) << rules.error().message;
    const auto hook = std::make_shared<SwitchedHook>(*rules);
    world.server().add_admission_hook(hook);
    world.start();
    CaseDriver driver(world.client(), files_);
    ASSERT_EQ("", driver.prepare());
    hook->switch_on();
    driver.run(setting, {});
    add(driver.report());
  }
  finish();
}

TEST_F(RuleCasesEmbedded, ThroughItsWebhookConfigurations) {
  const TestCertificates certificates(*runtime_);
  net::HttpClientOptions http_options;
  http_options.tls.ca_pem = certificates.authority.certificate_pem;
  const auto http = net::make_http_client(*runtime_, http_options).value();
  World none(*runtime_);
  for (const CaseDriver::Setting& setting : CaseDriver(none.client(), files_).settings()) {
    World world(*runtime_);
    world.start();
    CaseDriver driver(world.client(), files_);
    ASSERT_EQ("", driver.prepare());

    const webhooks::ClientClusterView view(world.client());
    const webhooks::RuleOptions rules = webhooks::testing::rule_options(setting.options);
    webhooks::ResourceGroups groups;
    const bool has_groups = !setting.resource_groups.empty();
    if (has_groups) {
      ASSERT_TRUE(groups.replace(setting.resource_groups).ok());
    }
    const webhooks::RuleContext context{rules, view, has_groups ? &groups : nullptr, {}};
    webhooks::WebhookServerOptions options;
    options.address = "127.0.0.1";
    options.port = 0;
    options.tls = net::TlsServerOptions{.certificate_pem = certificates.server.certificate_pem,
                                        .key_pem = certificates.server.key_pem};
    for (const webhooks::Hook& hook : webhooks::all_hooks()) options.hooks.push_back(&hook);
    const auto server = webhooks::WebhookServer::start(*runtime_, Logger(), options, context).value();
    const std::string url = "https://127.0.0.1:" + std::to_string(server->port());
    add_configurations(world.client(), url, certificates.authority.certificate_pem);

    driver.run(setting, webhooks::testing::ask_over_https(*http, url));
    add(driver.report());
    server->stop(1s);
  }
  finish();
}

}  // namespace
}  // namespace basalt::admission
