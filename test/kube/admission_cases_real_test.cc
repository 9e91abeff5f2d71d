#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "base/strings.h"
#include "kube/kubeconfig.h"
#include "kube/rest_client.h"
#include "net/http_client.h"
#include "rt/real_runtime.h"
#include "test/kube/admission_process.h"
#include "test/kube/kube_fixture.h"
#include "test/kube/rest_proxy.h"
#include "webhooks/testing/case_driver.h"

// Every case of webhooks/testdata as a write to a real API server, which asks `basalt webhooks` through the webhook
// configurations of deploy/; each is asked of the process itself, too.

namespace basalt::test {
namespace {

using webhooks::testing::CaseDriver;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

const fs::path kSource = BASALT_SOURCE_DIR;
const fs::path kData = kSource / "src/webhooks/testdata";

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The flags of the process for these options; nothing if there are none for them.
std::optional<std::vector<std::string>> flags_of(const CaseDriver::Setting& setting, const fs::path& groups_file) {
  std::vector<std::string> flags = {"--warn-priority-classes"};
  for (const auto& [name, value] : setting.options.as_object()) {
    if (name == "queueDepthMax") {
      flags.push_back("--max-queue-depth=" + value.to_text());
    } else if (name == "rootIsProtected") {
      flags.push_back("--enable-root-queue-protection=" + value.to_text());
    } else if (name == "queueWithPodsIsKept") {
      flags.push_back("--enable-queue-allocated-pods-check=" + value.to_text());
    } else if (name == "schedulingGates") {
      flags.push_back("--feature-gates=SchedulingGatesQueueAdmission=" + value.to_text());
    } else {
      return std::nullopt;
    }
  }
  if (!setting.resource_groups.empty()) {
    std::ofstream(groups_file) << setting.resource_groups;
    flags.push_back("--admission-conf=" + groups_file.string());
  }
  return flags;
}

class AdmissionCasesReal : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = RealKube::why_skip(); !why.empty()) GTEST_SKIP() << why;
    auto started = RealKube::start();
    ASSERT_TRUE(started.kube) << started.error;
    kube_ = std::move(started.kube);
    for (const char* what : {"deploy/namespace.yaml", "deploy/crds", "deploy/karmada/stand-in"}) {
      const CommandResult done = kube_->kubectl({"apply", "--server-side", "--filename=" + (kSource / what).string()});
      ASSERT_EQ(0, done.exit) << done.err;
    }
    const CommandResult ready =
        kube_->kubectl({"wait", "--for=condition=Established", "--timeout=60s", "crds", "--all"});
    ASSERT_EQ(0, ready.exit) << ready.err;
    const auto config =
        kube::load_client_config({.kubeconfig = kube_->kubeconfig().string()}, kube::ConfigEnvironment::of_process());
    kube::RestClientOptions options;
    options.calls_per_second = 10'000;
    options.burst = 10'000;
    client_ = kube::make_rest_client(*runtime_, Logger(), *config, options).value();
    process_ =
        std::make_unique<AdmissionProcess>(BASALT_PROGRAM, kube_->folder() / "admission", kube_->kubeconfig().string());
    service_ = std::make_unique<TcpProxy>(process_->port());
  }

  void start_process(const std::vector<std::string>& flags) {
    std::vector<std::string> paths = AdmissionProcess::paths_of_clusters();
    paths.emplace_back("/resourcebindings/mutate");
    EXPECT_TRUE(process_->stop(SIGTERM) <= 0) << text_of(process_->log());
    process_->start(flags, paths);
    for (int i = 0; i < 600 && !process_->listens(); ++i) runtime_->sleep_for(50ms);
    ASSERT_TRUE(process_->listens()) << text_of(process_->log());
  }

  // Those of deploy/, with the port of the proxy that stands where a Service does.
  void add_configurations() {
    const std::string port = std::to_string(service_->port());
    std::string text =
        "{apiVersion: v1, kind: Service, metadata: {name: volcano-admission-service, namespace: volcano-system}, "
        "spec: {type: ExternalName, externalName: localhost}}\n" +
        base::replace_all(text_of(kSource / "deploy/webhook-configurations.yaml"), "port: 443", "port: " + port) +
        "\n---\n" +
        base::replace_all(text_of(kSource / "deploy/karmada/data-webhook-configuration.yaml"),
                          "url: https://volcano-data-admission.karmada-system.svc:443/resourcebindings/mutate",
                          "service: {name: volcano-admission-service, namespace: volcano-system, path: "
                          "/resourcebindings/mutate, port: " +
                              port + "}");
    const CommandResult done = kube_->kubectl({"apply", "--server-side", "--filename=-"}, text);
    ASSERT_EQ(0, done.exit) << done.err;
  }

  const std::unique_ptr<rt::Runtime> runtime_ = rt::make_real_runtime();
  std::unique_ptr<RealKube> kube_;
  std::unique_ptr<kube::RestClient> client_;
  std::unique_ptr<AdmissionProcess> process_;
  std::unique_ptr<TcpProxy> service_;
};

TEST_F(AdmissionCasesReal, EveryCaseIsJudgedAsByTheRulesThemselves) {
  const auto files = webhooks::testing::read_rule_cases(kData);
  ASSERT_TRUE(files.ok()) << files.error().message;
  CaseDriver driver(*client_, *files);
  ASSERT_EQ("", driver.prepare());
  bool has_configurations = false;
  std::vector<std::string> without_flag;
  for (const CaseDriver::Setting& setting : driver.settings()) {
    const auto flags = flags_of(setting, kube_->folder() / "groups.yaml");
    if (!flags) {
      without_flag.push_back(setting.options.to_text());
      continue;
    }
    start_process(*flags);
    // A client of each process: connections to the last one are of no use.
    net::HttpClientOptions options;
    options.tls.ca_pem = text_of(process_->ca_file());
    options.tls.server_name = "volcano-admission-service.volcano-system.svc";
    const auto http = net::make_http_client(*runtime_, options).value();
    if (!has_configurations) add_configurations();
    has_configurations = true;
    for (int i = 0; i < 300 && !driver.are_hooks_called(setting); ++i) runtime_->sleep_for(100ms);
    driver.run(setting,
               webhooks::testing::ask_over_https(*http, "https://127.0.0.1:" + std::to_string(process_->port())));
  }
  auto report = driver.report();
  for (const std::string& problem : report.problems) ADD_FAILURE() << problem;
  std::printf("%s\n", report.summary().c_str());
  for (const std::string& options : without_flag) std::printf("the program has no flag for %s\n", options.c_str());
  // Everything that the embedded server's schema refuses, and nothing else, is refused here, too, apart from settings
  // without a flag.
  std::string known = text_of(kData / "refused_by_schema.golden");
  for (const std::string& label : report.refused_before) {
    EXPECT_NE(std::string::npos, known.find(label + "\n")) << label << " is refused by a real server only";
  }
  EXPECT_EQ(0, process_->stop(SIGTERM)) << text_of(process_->log());
}

}  // namespace
}  // namespace basalt::test
