#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "base/strings.h"
#include "kube/kubeconfig.h"
#include "kube/rest_client.h"
#include "rt/real_runtime.h"
#include "test/kube/admission_process.h"
#include "test/kube/kube_fixture.h"
#include "test/kube/rest_proxy.h"

// The admission server as two processes with the rights of deploy/webhooks.yaml, called by a real API server through
// deploy/webhook-configurations.yaml. A proxy on a loopback port stands where a cluster's Service does; the
// configurations differ from the deployed ones in that port alone. Certificates are those that the server makes itself.

namespace basalt::test {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

const fs::path kSource = BASALT_SOURCE_DIR;

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// What passes and what is refused, and by which words, one pair or more for each kind.
struct Case {
  std::string_view name;
  std::string good;
  std::string bad;
  std::string_view words;
  bool is_a_policy = true;  // CEL can say it, too
};

std::string job(std::string_view name, std::string_view spec) {
  return "{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, metadata: {name: " + std::string(name) +
         ", namespace: default}, spec: {" + std::string(spec) + "}}";
}

const std::string kTask =
    "{name: t, replicas: 2, template: {spec: {restartPolicy: Never, containers: [{name: c, image: b}]}}}";

std::vector<Case> cases() {
  const auto object = [](std::string_view version, std::string_view kind, std::string_view name, std::string_view spec,
                         std::string_view metadata = "") {
    return "{apiVersion: " + std::string(version) + ", kind: " + std::string(kind) +
           ", metadata: {name: " + std::string(name) + std::string(metadata) + "}, spec: {" + std::string(spec) + "}}";
  };
  constexpr std::string_view kScheduling = "scheduling.volcano.sh/v1beta1";
  constexpr std::string_view kBatch = "batch.volcano.sh/v1alpha1";
  const std::string cron_job = "jobTemplate: {spec: {tasks: [" + kTask + "]}}";
  const std::string hyper_job = "templateSpec: {minAvailable: 1, tasks: [" + kTask + "]}";
  constexpr std::string_view kData = "datadependency.volcano.sh/v1alpha1";
  constexpr std::string_view kWorkload = "workload: {apiVersion: v1, kind: Pod, name: p";
  return {
      {"job size", job("c1", "minAvailable: 2, tasks: [" + kTask + "]"),
       job("c1", "minAvailable: 3, tasks: [" + kTask + "]"),
       "job 'minAvailable' should not be greater than total replicas"},
      {"job policy", job("c2", "policies: [{event: PodFailed, action: RestartJob}], tasks: [" + kTask + "]"),
       job("c2", "policies: [{event: PodFailed, exitCode: 3, action: RestartJob}], tasks: [" + kTask + "]"),
       "must not specify event and exitCode simultaneously"},
      {"job plugin", job("c3", "plugins: {env: [], svc: []}, tasks: [" + kTask + "]"),
       job("c3", "plugins: {jax: []}, tasks: [" + kTask + "]"), "unable to find job plugin"},
      {"job template", job("c4", "tasks: [" + kTask + "]"),
       job("c4", "tasks: [{name: t, replicas: 1, template: {spec: {containers: [{name: c}]}}}]"),
       "spec.task[0].template.spec.containers[0].image: Required value", false},
      {"job queue", job("c5", "queue: default, tasks: [" + kTask + "]"),
       job("c5", "queue: defualt, tasks: [" + kTask + "]"), "did you mean \"default\"?", false},
      {"queue amounts", object(kScheduling, "Queue", "c6", "deserved: {cpu: 1}, capability: {cpu: 2}"),
       object(kScheduling, "Queue", "c6", "deserved: {cpu: 3}, capability: {cpu: 2}"), "must be <= capability"},
      {"queue parent", object(kScheduling, "Queue", "c7", "parent: root"),
       object(kScheduling, "Queue", "c7", "parent: c7"), "cannot use itself as parent"},
      {"pod group tier",
       object(kScheduling, "PodGroup", "c8", "queue: default, networkTopology: {highestTierAllowed: 1}"),
       object(kScheduling, "PodGroup", "c8",
              "queue: default, networkTopology: {highestTierAllowed: 1, highestTierName: rack}"),
       "must not specify 'highestTierAllowed' and 'highestTierName'"},
      {"pod budget",
       object("v1", "Pod", "c9", "schedulerName: volcano, containers: [{name: c, image: b}]",
              ", annotations: {volcano.sh/jdb-min-available: '50%'}"),
       object("v1", "Pod", "c9", "schedulerName: volcano, containers: [{name: c, image: b}]",
              ", annotations: {volcano.sh/jdb-min-available: '100%'}"),
       "it must be a"},
      {"cron job", object(kBatch, "CronJob", "c10", "schedule: '*/5 * * * *', " + cron_job),
       object(kBatch, "CronJob", "c10", "schedule: '* * *', " + cron_job), "schedule is not a valid cron expression"},
      {"job flow",
       object("flow.volcano.sh/v1alpha1", "JobFlow", "c11", "flows: [{name: a}, {name: b, dependsOn: {targets: [a]}}]"),
       object("flow.volcano.sh/v1alpha1", "JobFlow", "c11", "flows: [{name: a, dependsOn: {targets: [a]}}]"),
       "jobflow Flow is not DAG"},
      {"hyper node pattern",
       object("topology.volcano.sh/v1alpha1", "HyperNode", "c12",
              "tier: 1, members: [{type: Node, selector: {regexMatch: {pattern: 'n[0-9]'}}}]"),
       object("topology.volcano.sh/v1alpha1", "HyperNode", "c12",
              "tier: 1, members: [{type: Node, selector: {regexMatch: {pattern: 'a(b'}}}]"),
       "member regexMatch pattern is invalid", false},
      {"hyper job",
       object("training.volcano.sh/v1alpha1", "HyperJob", "c13",
              "minAvailable: 1, replicatedJobs: [{name: a, replicas: 1, " + hyper_job + "}]"),
       object("training.volcano.sh/v1alpha1", "HyperJob", "c13",
              "minAvailable: 2, replicatedJobs: [{name: a, replicas: 1, " + hyper_job + "}]"),
       "spec.minAvailable"},
      {"data source",
       object(kData, "DataSource", "c14", "system: amoro, type: table, name: a.b.c, locality: {clusterNames: [a]}"),
       object(kData, "DataSource", "c14", "system: amoro, type: table, name: a.b, locality: {clusterNames: [a]}"),
       "catalog.database.table"},
      {"data source claim",
       object(kData, "DataSourceClaim", "c15",
              "system: amoro, dataSourceType: table, dataSourceName: a.b.c, " + std::string(kWorkload) + "}"),
       object(kData, "DataSourceClaim", "c15",
              "system: amoro, dataSourceType: table, dataSourceName: a.b.c, " + std::string(kWorkload) +
                  ", namespace: other}"),
       "a claim can only bind a workload of its own namespace"},
  };
}

class WebhooksReal : public ::testing::Test {
 protected:
  struct World {
    std::unique_ptr<RealKube> kube;
    std::vector<std::unique_ptr<AdmissionProcess>> replicas;
    std::unique_ptr<TcpProxy> service;
    std::string error;
  };

  static void SetUpTestSuite() {
    if (!RealKube::why_skip().empty()) return;
    auto started = RealKube::start();
    world().error = started.error;
    world().kube = std::move(started.kube);
    if (world().kube) world().error = prepare();
  }
  static void TearDownTestSuite() { world() = World(); }
  void SetUp() override {
    if (const std::string why = RealKube::why_skip(); !why.empty()) GTEST_SKIP() << why;
    ASSERT_TRUE(world().kube && world().error.empty()) << world().error;
  }

  static World& world() {
    static World instance;
    return instance;
  }
  static CommandResult kubectl(std::vector<std::string> args, std::string_view input = {}) {
    return world().kube->kubectl(args, input);
  }
  // Why it did not work; "" if it did.
  static std::string apply(const std::string& text) {
    const CommandResult done = kubectl({"apply", "--server-side", "--force-conflicts", "--filename=-"}, text);
    return done.exit == 0 ? "" : done.err;
  }

  static std::string prepare() {
    RealKube& kube = *world().kube;
    for (const char* what : {"deploy/namespace.yaml", "deploy/crds", "deploy/webhooks.yaml"}) {
      const CommandResult done = kubectl({"apply", "--server-side", "--filename=" + (kSource / what).string()});
      if (done.exit != 0) return done.err;
    }
    const CommandResult ready = kubectl({"wait", "--for=condition=Established", "--timeout=60s", "crds", "--all"});
    if (ready.exit != 0) return ready.err;
    // Nobody gives addresses to Services here; a name outside leads to the proxy.
    (void)kubectl({"delete", "service", "volcano-admission-service", "--namespace=volcano-system"});
    std::string error = apply(
        "{apiVersion: v1, kind: Service, metadata: {name: volcano-admission-service, namespace: "
        "volcano-system}, spec: {type: ExternalName, externalName: localhost}}");
    if (!error.empty()) return error;
    const CommandResult token = kubectl({"create", "token", "volcano-admission", "--namespace=volcano-system"});
    if (token.exit != 0) return token.err;
    const fs::path kubeconfig = kube.folder() / "admission.kubeconfig";
    std::ofstream(kubeconfig) << "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters:\n- name: c\n  cluster: "
                              << "{server: \"" << kube.server_url()
                              << "\", certificate-authority: " << kube.ca_file().string()
                              << "}\nusers:\n- name: c\n  user: {token: \"" << token.out.substr(0, token.out.find('\n'))
                              << "\"}\ncontexts:\n- name: c\n  context: {cluster: c, user: c}\n";
    std::vector<std::uint16_t> ports;
    for (int i = 0; i < 2; ++i) {
      world().replicas.push_back(std::make_unique<AdmissionProcess>(
          BASALT_PROGRAM, kube.folder() / ("admission" + std::to_string(i)), kubeconfig.string()));
      ports.push_back(world().replicas.back()->port());
    }
    world().service = std::make_unique<TcpProxy>(ports);
    for (const auto& replica : world().replicas) replica->start();
    error = add_queues();
    if (error.empty()) error = add_configurations();
    return error;
  }

  static std::string add_queues() {
    for (const std::string name : {"root", "default"}) {
      std::string error = apply("{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: " + name +
                                "}, spec: {weight: 1, reclaimable: true}}");
      if (!error.empty()) return error;
      const CommandResult opened = kubectl({"patch", "queue.scheduling.volcano.sh", name, "--subresource=status",
                                            "--type=merge", "--patch={\"status\":{\"state\":\"Open\"}}"});
      if (opened.exit != 0) return opened.err;
    }
    return "";
  }

  // Returns when the API server calls us.
  static std::string add_configurations() {
    const std::string text = base::replace_all(text_of(kSource / "deploy/webhook-configurations.yaml"), "port: 443",
                                               "port: " + std::to_string(world().service->port()));
    std::string error = apply(text);
    if (!error.empty()) return error;
    // One after another: each configuration comes to the API server on its own way. What is never called is the tests'
    // to tell.
    std::string last;
    int called = 0;
    for (const Case& one : cases()) {
      for (int i = 0; i < 30; ++i) {
        const CommandResult result = kubectl({"create", "--dry-run=server", "--filename=-"}, one.bad);
        last = std::string(one.name) + ": " + result.err;
        if (result.exit != 0 && result.err.find("denied the request") != std::string::npos) {
          ++called;
          break;
        }
        rt::make_real_runtime()->sleep_for(100ms);
      }
    }
    if (called > 0) return "";
    return "the hooks are not called: " + last + "\n" + text_of(world().replicas[0]->log());
  }

  static std::unique_ptr<kube::RestClient> connect(rt::Runtime& runtime) {
    auto config = kube::load_client_config({.kubeconfig = world().kube->kubeconfig().string()},
                                           kube::ConfigEnvironment::of_process());
    kube::RestClientOptions options;
    options.calls_per_second = 10'000;
    options.burst = 10'000;
    return kube::make_rest_client(runtime, Logger(), *config, options).value();
  }
};

TEST_F(WebhooksReal, EveryKindPassesAndIsRefusedThroughItsConfiguration) {
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.name);
    const CommandResult refused = kubectl({"create", "--filename=-"}, one.bad);
    EXPECT_NE(refused.exit, 0);
    EXPECT_THAT(refused.err, HasSubstr("denied the request: "));
    EXPECT_THAT(refused.err, HasSubstr(one.words));
    const CommandResult created = kubectl({"create", "--filename=-"}, one.good);
    EXPECT_EQ(created.exit, 0) << created.err;
  }
  const CommandResult defaults = kubectl({"get", "jobs.batch.volcano.sh", "c4",
                                          "--output=jsonpath={.spec.queue} {.spec.minAvailable} "
                                          "{.spec.schedulerName} {.spec.tasks[0].minAvailable}"});
  EXPECT_EQ("default 2 volcano 2", defaults.out);
  EXPECT_EQ("true",
            kubectl({"get", "queues.scheduling.volcano.sh", "c7", "--output=jsonpath={.spec.reclaimable}"}).out);
}

TEST_F(WebhooksReal, UpdatesAndDeletionsAreReviewed) {
  ASSERT_EQ("", apply(job("u1", "minAvailable: 1, tasks: [" + kTask + "]")));
  const auto patch = [&](std::string_view body) {
    return kubectl({"patch", "jobs.batch.volcano.sh", "u1", "--type=merge", "--patch=" + std::string(body)});
  };
  EXPECT_THAT(patch(R"({"spec":{"queue":"other"}})").err, HasSubstr("job updates may not change fields other than"));
  EXPECT_EQ(0, patch(R"({"spec":{"minAvailable":2}})").exit);
  EXPECT_EQ(0, patch(R"({"metadata":{"labels":{"a":"b"}}})").exit);
  EXPECT_THAT(kubectl({"delete", "queues.scheduling.volcano.sh", "default"}).err,
              HasSubstr("`default` queue can not be deleted"));
  ASSERT_EQ("", apply("{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: u2}}"));
  EXPECT_EQ(0, kubectl({"delete", "queues.scheduling.volcano.sh", "u2"}).exit);
}

// Nothing of others, and nothing that keeps a cluster alive, waits for a server that is away.
TEST_F(WebhooksReal, UsersB_WhileNoServerRunsOnlyWrongThingsStandStill) {
  ASSERT_EQ("", apply(job("w1", "tasks: [" + kTask + "]")));
  for (const auto& replica : world().replicas) EXPECT_EQ(0, replica->stop(SIGTERM)) << text_of(replica->log());
  EXPECT_EQ("", apply("{apiVersion: v1, kind: Pod, metadata: {name: w1, namespace: default}, spec: {containers: "
                      "[{name: c, image: b}]}}"));
  EXPECT_EQ("", apply("{apiVersion: v1, kind: Pod, metadata: {name: w2, namespace: default}, spec: {schedulerName: "
                      "volcano, containers: [{name: c, image: b}]}}"));
  EXPECT_EQ("", apply("{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: w1, namespace: "
                      "default}, spec: {queue: default}}"));
  EXPECT_EQ(0, kubectl({"label", "jobs.batch.volcano.sh", "w1", "a=b"}).exit);
  EXPECT_EQ(0, kubectl({"label", "queues.scheduling.volcano.sh", "default", "a=b"}).exit);
  EXPECT_EQ(0, kubectl({"delete", "jobs.batch.volcano.sh", "w1"}).exit);
  EXPECT_THAT(apply(job("w3", "tasks: [" + kTask + "]")), HasSubstr("failed calling webhook"));
  for (const auto& replica : world().replicas) replica->start();
  std::string error = "not tried";
  for (int i = 0; i < 300 && !error.empty(); ++i) error = apply(job("w3", "tasks: [" + kTask + "]"));
  EXPECT_EQ("", error);
}

// A thousand jobs while now one and now the other replica is killed or ended and comes back: each is created, and
// nothing is told to a client but that it may try again.
TEST_F(WebhooksReal, KilledAndRestartedReplicasLoseNoCreation) {
  constexpr int kJobs = 1'000;
  constexpr int kThreads = 4;
  const auto runtime = rt::make_real_runtime();
  const auto client = connect(*runtime);
  std::atomic<int> next = 0;
  std::atomic<int> created = 0;
  std::atomic<int> tried_again = 0;
  std::vector<rt::Thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back(*runtime, "creator", [&] {
      for (int n = next++; n < kJobs; n = next++) {
        kube::Request request;
        request.verb = kube::Verb::Create;
        request.resource = {"batch.volcano.sh", "v1alpha1", "jobs"};
        request.ns = "default";
        request.body = R"({"apiVersion":"batch.volcano.sh/v1alpha1","kind":"Job","metadata":{"name":"k)" +
                       std::to_string(n) +
                       R"("},"spec":{"tasks":[{"name":"t","replicas":1,"template":{"spec":{"containers":)"
                       R"([{"name":"c","image":"b"}]}}}]}})";
        for (int attempt = 0; attempt < 200; ++attempt) {
          const auto response = client->call(request, {});
          if (response.ok() || response.error().is(Reason::AlreadyExists)) {
            ++created;
            break;
          }
          const Error& error = response.error();
          const bool may_try_again = error.is_transient() || error.code == 500 || error.code == 503;
          EXPECT_TRUE(may_try_again) << error.to_string();
          if (!may_try_again) break;
          ++tried_again;
          runtime->sleep_for(50ms);
        }
      }
    });
  }
  int restarts = 0;
  while (created < kJobs && next < kJobs + kThreads) {
    AdmissionProcess& victim = *world().replicas[static_cast<std::size_t>(restarts) % world().replicas.size()];
    const int code = victim.stop(restarts % 4 < 2 ? SIGKILL : SIGTERM);
    EXPECT_TRUE(code == 128 + SIGKILL || code == 0) << text_of(victim.log());
    victim.start();
    ++restarts;
    for (int i = 0; i < 600 && !victim.listens(); ++i) runtime->sleep_for(50ms);
    runtime->sleep_for(300ms);
  }
  for (rt::Thread& thread : threads) thread.join();
  EXPECT_EQ(kJobs, created);
  EXPECT_GE(restarts, 2);
  std::printf("%d jobs, %d restarts, %d creations tried again\n", created.load(), restarts, tried_again.load());
  for (const auto& replica : world().replicas) {
    EXPECT_EQ(std::string::npos, text_of(replica->log()).find("orbidden")) << text_of(replica->log());
  }
}

// The alternative without a server says the same of what it can say. Last, because it takes the webhooks away.
TEST_F(WebhooksReal, ZPoliciesTakeTheirPlace) {
  EXPECT_EQ(0, kubectl({"delete", "--filename=" + (kSource / "deploy/webhook-configurations.yaml").string()}).exit);
  ASSERT_EQ("", apply(text_of(kSource / "deploy/policies/admission-policies.yaml")));
  const auto runtime = rt::make_real_runtime();
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.name);
    if (!one.is_a_policy) continue;
    CommandResult refused;
    for (int i = 0; i < 100; ++i) {
      refused = kubectl({"create", "--dry-run=server", "--filename=-"}, one.bad);
      if (refused.err.find("ValidatingAdmissionPolicy") != std::string::npos) break;
      runtime->sleep_for(200ms);
    }
    EXPECT_NE(refused.exit, 0);
    EXPECT_THAT(refused.err, HasSubstr("ValidatingAdmissionPolicy"));
    EXPECT_THAT(refused.err, HasSubstr(one.words));
    const CommandResult created =
        kubectl({"create", "--dry-run=server", "--filename=-"}, base::replace_all(one.good, "name: c", "name: p"));
    EXPECT_EQ(created.exit, 0) << created.err;
  }
  const CommandResult warnings = kubectl({"get", "validatingadmissionpolicies",
                                          "--output=jsonpath={range .items[*]}{"
                                          ".metadata.name}: {.status.typeChecking.expressionWarnings}{\"\\n\"}{end}"});
  EXPECT_EQ(std::string::npos, warnings.out.find("fieldRef")) << warnings.out;
}

}  // namespace
}  // namespace basalt::test
