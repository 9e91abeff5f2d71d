#include <map>

#include "base/encoding.h"
#include "controllers/job/testing/job_bench.h"

// Scenarios of the fact sheet that show in what a server stores: pod groups, pods and the plugins' objects. The rules
// behind them have their own tests beside the builders.
namespace basalt::controllers::job {
namespace {

using namespace std::chrono_literals;
namespace resources = sim::resources;

// Task by task: name, replicas and what else the template's spec says.
struct Task {
  std::string name;
  int replicas = 1;
  std::string template_spec;  // ", hostNetwork: true"
  std::string container = "{name: c, image: busybox}";
  std::string more;  // of the task: ", minAvailable: 1"
};

std::string job_yaml(const std::vector<Task>& tasks, const std::string& spec, int min_available = -1) {
  int sum = 0;
  std::string list;
  for (const Task& task : tasks) {
    sum += task.replicas;
    list += "  - {name: " + task.name + ", replicas: " + std::to_string(task.replicas) + task.more +
            ", template: {spec: {restartPolicy: Never, containers: [" + task.container + "]" + task.template_spec +
            "}}}\n";
  }
  return "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: j}\nspec:\n  schedulerName: volcano\n"
         "  queue: default\n  minAvailable: " +
         std::to_string(min_available < 0 ? sum : min_available) + "\n" + spec + "  tasks:\n" + list;
}

json::Value pod(Bench& bench, std::string_view name) {
  const auto found = bench.cluster.get(resources::kPods, "default", name);
  return found ? *found : json::Value();
}

const json::Value& container(const json::Value& pod, std::string_view list = "containers") {
  static const json::Value none;
  const json::Value* all = pod.find_path({"spec", list});
  return all == nullptr || all->as_array().empty() ? none : all->as_array()[0];
}

std::map<std::string, std::string> env_of(const json::Value& one) {
  std::map<std::string, std::string> all;
  if (const json::Value* env = one.find("env")) {
    for (const json::Value& entry : env->as_array())
      all[std::string(entry.string_at({"name"}))] = std::string(entry.string_at({"value"}));
  }
  return all;
}

bool exists(Bench& bench, const kube::Resource& resource, std::string_view name) {
  return bench.cluster.get(resource, "default", name).has_value();
}

::testing::AssertionResult gets_pods(Bench& bench, const std::string& yaml, std::size_t pods) {
  bench.cluster.apply(yaml);
  if (auto admitted = bench.admit(); !admitted) return admitted;
  return bench.has_pods(pods);
}

// The worked values of the sheet whose minimums are said, as the admission server leaves them.
TEST(JobSheet, Scenario23MinimumOfThePodGroup) {
  struct Row {
    int job_min;
    int master_min;
    int work_min;
    const char* cpu;
  };
  for (const Row row : {Row{3, 2, 1, "200m"}, Row{3, 1, 2, "250m"}, Row{2, 1, 1, "150m"}, Row{2, 2, 1, "100m"}}) {
    scenario(
        [&](Bench& bench) {
          const auto cpu = [](const char* amount) {
            return "{name: c, image: busybox, resources: {requests: {cpu: " + std::string(amount) + "}}}";
          };
          const auto minimum = [](int value) { return ", minAvailable: " + std::to_string(value); };
          bench.cluster.apply(job_yaml({{"master", 2, "", cpu("50m"), minimum(row.master_min)},
                                        {"work", 2, "", cpu("100m"), minimum(row.work_min)}},
                                       "", row.job_min));
          ASSERT_TRUE(bench.eventually([&] { return !bench.group_uid().empty(); }));
          const auto group = bench.cluster.get(resources::kPodGroups, "default", bench.group_name());
          EXPECT_EQ(group->find_path({"spec", "minMember"})->as_int(), row.job_min);
          const json::Value least = *group->find_path({"spec", "minResources"});
          EXPECT_EQ(least.string_at({"cpu"}), row.cpu);
          EXPECT_EQ(least.string_at({"requests.cpu"}), row.cpu);
          EXPECT_EQ(least.string_at({"pods"}), std::to_string(row.job_min));
          EXPECT_EQ(least.string_at({"count/pods"}), std::to_string(row.job_min));
        },
        {}, 1);
  }
}

TEST(JobSheet, Scenario25TheTemplateSaysMore) {
  scenario([](Bench& bench) {
    ASSERT_TRUE(gets_pods(bench, job_yaml({{"own", 1, ", schedulerName: other"}, {"plain", 1}}, ""), 2));
    EXPECT_EQ(pod(bench, "j-own-0").string_at({"spec", "schedulerName"}), "other");
    EXPECT_EQ(pod(bench, "j-plain-0").string_at({"spec", "schedulerName"}), "volcano");
  });
}

TEST(JobSheet, Scenario37TtlOfACompletedAndOfAnAbortedJob) {
  for (const bool is_aborted : {false, true}) {
    scenario(
        [&](Bench& bench) {
          bench.stop();
          bench.start(true);
          ASSERT_TRUE(bench.run_job(JobText{.spec = "  ttlSecondsAfterFinished: 1\n"}.yaml(), 2));
          if (is_aborted) {
            bench.command("AbortJob");
            ASSERT_TRUE(bench.reaches("Aborted"));
            bench.let_pass(30s);
            EXPECT_EQ(bench.phase(), "Aborted");
          } else {
            bench.set_all("Succeeded");
            EXPECT_TRUE(bench.eventually([&] { return bench.uid(resources::kJobs, "j").empty(); }));
          }
        },
        {}, 1);
  }
}

TEST(JobSheet, Scenario63ScaleDownKeepsTheFirst) {
  scenario([](Bench& bench) {
    ASSERT_TRUE(bench.run_job(JobText{.tasks = {{"t", 4}}}.yaml(), 4));
    const std::string first = bench.pod_uid("j-t-0");
    const std::string second = bench.pod_uid("j-t-1");
    bench.cluster.patch(resources::kJobs, "default", "j",
                        R"({"spec":{"minAvailable":2,"tasks":[{"name":"t","replicas":2,"template":{"spec":
                        {"restartPolicy":"Never","containers":[{"name":"c","image":"busybox"}]}}}]}})");
    ASSERT_TRUE(bench.has_pods(2));
    EXPECT_EQ(bench.pod_uid("j-t-0"), first);
    EXPECT_EQ(bench.pod_uid("j-t-1"), second);
  });
}

TEST(JobSheet, Scenario75TheIndexIsInEveryContainer) {
  scenario([](Bench& bench) {
    const Task task{"t", 2, ", initContainers: [{name: i, image: busybox}]"};
    ASSERT_TRUE(gets_pods(bench, job_yaml({task}, "  plugins: {env: []}\n"), 2));
    for (const char* list : {"containers", "initContainers"}) {
      for (const int index : {0, 1}) {
        auto env = env_of(container(pod(bench, "j-t-" + std::to_string(index)), list));
        EXPECT_EQ(env["VK_TASK_INDEX"], std::to_string(index)) << list;
        EXPECT_EQ(env["VC_TASK_INDEX"], std::to_string(index)) << list;
      }
    }
  });
}

TEST(JobSheet, Scenario77ArgumentsOfSvc) {
  scenario([](Bench& bench) {
    ASSERT_TRUE(gets_pods(bench,
                          job_yaml({{"t", 1}},
                                   "  plugins: {svc: [\"--disable-network-policy=true\", \"--inject-hosts-env=false\", "
                                   "\"--publish-not-ready-addresses=true\"]}\n"),
                          1));
    EXPECT_FALSE(exists(bench, resources::kNetworkPolicies, "j"));
    EXPECT_TRUE(env_of(container(pod(bench, "j-t-0"))).empty());
    const auto service = bench.cluster.get(resources::kServices, "default", "j");
    ASSERT_TRUE(service);
    EXPECT_TRUE(service->find_path({"spec", "publishNotReadyAddresses"})->as_bool());
    EXPECT_EQ(service->string_at({"spec", "clusterIP"}), "None");
  });
}

TEST(JobSheet, Scenario78And79KeysAndTheirClients) {
  scenario(
      [](Bench& bench) {
        ASSERT_TRUE(gets_pods(bench,
                              job_yaml({{"t", 2}},
                                       "  plugins: {svc: [], ssh: [\"--ssh-port=70000\", "
                                       "\"--ssh-key-file-path=/home/u/.ssh\"]}\n"),
                              2));
        const auto secret = bench.cluster.get(resources::kSecrets, "default", "j-ssh");
        ASSERT_TRUE(secret);
        EXPECT_EQ(secret->find("data")->as_object().size(), 4U);
        EXPECT_EQ(secret->string_at({"data", "id_rsa.pub"}), secret->string_at({"data", "authorized_keys"}));
        const auto config = base::base64_decode(secret->string_at({"data", "config"}));
        ASSERT_TRUE(config);
        for (const char* part : {"Host j-t-0\n  HostName j-t-0.j\n  Port 22\n", "Host j-t-1\n"})
          EXPECT_NE(config->find(part), std::string::npos) << *config;
        const json::Value made = pod(bench, "j-t-1");
        bool is_mounted = false;
        for (const json::Value& mount : container(made).find("volumeMounts")->as_array())
          is_mounted |= mount.string_at({"mountPath"}) == "/home/u/.ssh";
        EXPECT_TRUE(is_mounted);
        for (const json::Value& volume : made.find_path({"spec", "volumes"})->as_array()) {
          if (volume.string_at({"name"}) != "j-ssh") continue;
          EXPECT_EQ(volume.find_path({"secret", "defaultMode"})->as_int(), 0644);
        }
      },
      {}, 1);
}

TEST(JobSheet, Scenario80Tensorflow) {
  scenario([](Bench& bench) {
    ASSERT_TRUE(gets_pods(bench, job_yaml({{"ps", 1}, {"worker", 2}}, "  plugins: {svc: [], tensorflow: []}\n"), 3));
    EXPECT_EQ(env_of(container(pod(bench, "j-worker-1")))["TF_CONFIG"],
              R"({"cluster":{"ps":["j-ps-0.j:2222"],"worker":["j-worker-0.j:2222","j-worker-1.j:2222"]},)"
              R"("task":{"type":"worker","index":1}})");
  });
  scenario([](Bench& bench) {
    ASSERT_TRUE(gets_pods(bench, job_yaml({{"worker", 1}}, "  plugins: {svc: [], tensorflow: []}\n"), 1));
    EXPECT_FALSE(env_of(container(pod(bench, "j-worker-0"))).contains("TF_CONFIG"));
  });
}

TEST(JobSheet, Scenario81And84PytorchAndRanks) {
  scenario([](Bench& bench) {
    ASSERT_TRUE(gets_pods(bench,
                          job_yaml({{"master", 1}, {"worker", 2}},
                                   "  plugins: {svc: [], pytorch: [\"--wait-master-enabled=true\"], hcclrank: []}\n"),
                          3));
    auto master = env_of(container(pod(bench, "j-master-0")));
    const json::Value last = pod(bench, "j-worker-1");
    auto worker = env_of(container(last));
    EXPECT_EQ(master["RANK"], "0");
    EXPECT_EQ(worker["RANK"], "2");
    EXPECT_EQ(worker["WORLD_SIZE"], "3");
    EXPECT_EQ(worker["MASTER_PORT"], "23456");
    EXPECT_EQ(worker["MASTER_ADDR"], "j-master-0.j");
    EXPECT_EQ(container(last, "initContainers").string_at({"name"}), "wait-for-master");
    EXPECT_EQ(last.string_at({"metadata", "annotations", "hccl/rankIndex"}), "2");
  });
  scenario([](Bench& bench) {
    ASSERT_TRUE(gets_pods(bench, job_yaml({{"master", 1}, {"worker", 2}}, "  plugins: {hcclrank: []}\n"), 3));
    EXPECT_EQ(pod(bench, "j-master-0").string_at({"metadata", "annotations", "hccl/rankIndex"}), "0");
    EXPECT_EQ(pod(bench, "j-worker-1").string_at({"metadata", "annotations", "hccl/rankIndex"}), "2");
  });
}

TEST(JobSheet, Scenario83Ray) {
  scenario([](Bench& bench) {
    const auto named = [](const std::string& name) { return "{name: " + name + ", image: busybox, command: [stay]}"; };
    ASSERT_TRUE(gets_pods(
        bench,
        job_yaml({{"head", 1, "", named("head")}, {"worker", 1, "", named("worker")}, {"other", 1, "", named("other")}},
                 "  plugins: {svc: [], ray: []}\n"),
        3));
    const auto service = bench.cluster.get(resources::kServices, "default", "j-head-svc");
    ASSERT_TRUE(service);
    EXPECT_EQ(service->find_path({"spec", "ports"})->as_array().size(), 3U);
    const auto command = [&](const char* name) {
      const json::Value made = pod(bench, name);
      return std::string(container(made).find("command")->as_array().back().as_string());
    };
    EXPECT_TRUE(command("j-head-0").starts_with("ray start --head")) << command("j-head-0");
    EXPECT_EQ(command("j-worker-0"), "ray start --block --address=j-head-0.j:6379");
    EXPECT_EQ(command("j-other-0"), "stay");
  });
}

}  // namespace
}  // namespace basalt::controllers::job
