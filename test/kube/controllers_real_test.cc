#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "controllers/manager/run.h"
#include "kube/kubeconfig.h"
#include "kube/rest_client.h"
#include "rt/real_runtime.h"
#include "sim/actors.h"
#include "sim/driver.h"
#include "test/kube/kube_fixture.h"
#include "test/scenario/controller_scenarios.h"
#include "test/scenario/manifest_rights.h"
#include "test/scenario/recording_client.h"
#include "yaml/reader.h"

// The controllers on a real API server, with exactly the rights of deploy/controllers.yaml. Owner references that block
// a deletion are checked as on clusters that enforce it.

namespace basalt::test {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

const fs::path kSource = BASALT_SOURCE_DIR;

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class ControllersReal : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!RealKube::why_skip().empty()) return;
    auto started =
        RealKube::start({.apiserver_args = {"--enable-admission-plugins=OwnerReferencesPermissionEnforcement"}});
    error() = started.error;
    cluster() = std::move(started.kube);
    if (!cluster()) return;
    for (const char* what : {"deploy/namespace.yaml", "deploy/crds", "deploy/controllers.yaml"}) {
      const CommandResult done =
          cluster()->kubectl({"apply", "--server-side", "--filename=" + (kSource / what).string()});
      if (done.exit != 0) error() = done.err;
    }
    const CommandResult ready =
        cluster()->kubectl({"wait", "--for=condition=Established", "--timeout=30s", "crds", "--all"});
    if (ready.exit != 0) error() = ready.err;
  }
  static void TearDownTestSuite() { cluster().reset(); }
  void SetUp() override {
    if (const std::string why = RealKube::why_skip(); !why.empty()) GTEST_SKIP() << why;
    ASSERT_TRUE(cluster() && error().empty()) << error();
    admin_ = connect("");
    driver_ = std::make_unique<sim::Driver>(*runtime_, *admin_);
    scheduler_ = std::make_unique<sim::PlayedScheduler>(*runtime_, *admin_);
    kubelet_ = std::make_unique<sim::PlayedKubelet>(*runtime_, *admin_, &scenario_fate);
    scheduler_->start();
    kubelet_->start();
  }
  void TearDown() override {
    if (kubelet_) kubelet_->stop();
    if (scheduler_) scheduler_->stop();
  }
  static std::unique_ptr<RealKube>& cluster() {
    static std::unique_ptr<RealKube> instance;
    return instance;
  }
  static std::string& error() {
    static std::string text;
    return text;
  }
  // As the administrator, or by his right to act for others as the service account of the controllers.
  std::unique_ptr<kube::RestClient> connect(const std::string& service_account) {
    auto config = kube::load_client_config({.kubeconfig = cluster()->kubeconfig().string()},
                                           kube::ConfigEnvironment::of_process());
    EXPECT_TRUE(config.ok());
    if (!service_account.empty()) {
      config->impersonation.user = "system:serviceaccount:volcano-system:" + service_account;
      config->impersonation.groups = {"system:serviceaccounts", "system:serviceaccounts:volcano-system",
                                      "system:authenticated"};
    }
    auto client = kube::make_rest_client(*runtime_, Logger(), *config);
    EXPECT_TRUE(client.ok());
    return std::move(*client);
  }

  std::unique_ptr<rt::Runtime> runtime_ = rt::make_real_runtime();
  std::unique_ptr<kube::RestClient> admin_;
  std::unique_ptr<sim::Driver> driver_;
  std::unique_ptr<sim::PlayedScheduler> scheduler_;
  std::unique_ptr<sim::PlayedKubelet> kubelet_;
};

TEST_F(ControllersReal, EveryScenarioTakesTheRightsOfTheManifestAndNoMore) {
  const auto own = connect("volcano-controllers");
  RecordingClient recorder(*own);
  auto sink = std::make_shared<CollectingLogSink>();
  const Logger log(sink, LogLevel::Warn);
  kube::Metrics metrics;
  controllers::RunHealth health;
  controllers::RunOptions options;
  options.host = "test";
  options.health = &health;
  rt::StopSource stop(*runtime_);
  rt::Thread manager(*runtime_, "manager", [&] {
    const Done ended = controllers::run_controllers(*runtime_, recorder, recorder, log, metrics, options, stop.token());
    EXPECT_TRUE(ended.ok()) << ended.error().to_string();
  });
  World world{*driver_, false};
  for (const Scenario& scenario : controller_scenarios()) {
    SCOPED_TRACE(scenario.name);
    scenario.run(world);
  }
  EXPECT_TRUE(health.ready().ok());
  stop.request_stop();
  manager.join();

  EXPECT_EQ(sink->first_error(), "");
  EXPECT_EQ(lines_of(recorder.refused()), "") << "were refused: deploy/controllers.yaml lacks them";
  const std::set<Right> granted = granted_rights(kSource / "deploy/controllers.yaml", "volcano-controllers");
  const std::set<Right> used = recorder.used();
  ASSERT_FALSE(granted.empty());
  EXPECT_EQ(lines_of(used, granted), "") << "are used, but not in deploy/controllers.yaml";
  EXPECT_EQ(lines_of(granted, used), "") << "are in deploy/controllers.yaml, but no scenario uses them";
}

// The program as a process, on the examples that users begin with.
TEST_F(ControllersReal, UsersC_3872_TheProgramRunsTheExamples) {
  const CommandResult token =
      cluster()->kubectl({"create", "token", "volcano-controllers", "--namespace=volcano-system"});
  ASSERT_EQ(token.exit, 0) << token.err;
  const fs::path kubeconfig = cluster()->folder() / "controllers.kubeconfig";
  std::ofstream(kubeconfig) << "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters:\n- name: c\n  cluster: "
                            << "{server: \"" << cluster()->server_url()
                            << "\", certificate-authority: " << cluster()->ca_file().string()
                            << "}\nusers:\n- name: c\n  user: {token: \"" << token.out.substr(0, token.out.find('\n'))
                            << "\"}\ncontexts:\n- name: c\n  context: {cluster: c, user: c}\n";
  const fs::path log = cluster()->folder() / "controllers.log";
  std::vector<std::string> texts = {BASALT_PROGRAM, "controllers", "--kubeconfig=" + kubeconfig.string(),
                                    "--leader-elect=true", "2>&1"};
  std::vector<char*> argv;
  for (std::string& text : texts) argv.push_back(text.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, log.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
  pid_t pid = -1;
  ASSERT_EQ(::posix_spawn(&pid, BASALT_PROGRAM, &actions, nullptr, argv.data(), environ), 0) << BASALT_PROGRAM;
  posix_spawn_file_actions_destroy(&actions);

  int jobs = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(kSource / "examples")) {
    if (entry.path().extension() != ".yaml") continue;
    if (entry.path().filename().string().starts_with("data-")) continue;  // for a control plane with Karmada's kinds
    const auto documents = yaml::read_all(text_of(entry.path()));
    ASSERT_TRUE(documents.ok()) << entry.path();
    for (const yaml::Document& document : *documents) {
      const CommandResult applied = cluster()->kubectl({"apply", "--filename=-"}, document.value.to_text());
      EXPECT_EQ(applied.exit, 0) << applied.err;
      if (document.value.string_at({"apiVersion"}) != "batch.volcano.sh/v1alpha1" ||
          document.value.string_at({"kind"}) != "Job")
        continue;
      ++jobs;
      const std::string name(document.value.string_at({"metadata", "name"}));
      EXPECT_TRUE(driver_->wait_job_phase(name, "Completed", 60s))
          << name << " of " << entry.path().filename() << " is " << driver_->job_phase(name) << "\n"
          << text_of(log);
    }
  }
  EXPECT_GT(jobs, 0);
  ::kill(pid, SIGTERM);
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status << "\n" << text_of(log);
  EXPECT_EQ(text_of(log).find("orbidden"), std::string::npos) << text_of(log);
}

}  // namespace
}  // namespace basalt::test
