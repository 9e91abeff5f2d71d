#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/encoding.h"
#include "controllers/job/parts_test_support.h"
#include "controllers/job/plugins/plugin.h"
#include "controllers/job/plugins/pod_edit.h"

namespace basalt::controllers::job {
namespace {

using testing::container_of;
using testing::env_of;
using testing::job_with_spec;
using testing::plugins_of;
using testing::pod_of;
using testing::pretty;

// Tasks as {"name","replicas"} with one container "c" and one init container "i", and these plugins.
struct TaskLine {
  std::string name;
  int replicas = 1;
  std::string extra_spec;  // members of the template's spec, ending in a comma
};

api::batch::Job job_with(const std::vector<TaskLine>& tasks, const std::string& plugins) {
  std::string list;
  for (const TaskLine& task : tasks) {
    if (!list.empty()) list += ",";
    list += R"({"name":")" + task.name + R"(","replicas":)" + std::to_string(task.replicas) +
            R"(,"template":{"spec":{)" + task.extra_spec +
            R"("containers":[{"name":"c"}],"initContainers":[{"name":"i"}]}}})";
  }
  return job_with_spec(R"({"queue":"q","tasks":[)" + list + R"(],"plugins":)" + plugins + "}");
}

std::string objects_text(const api::batch::Job& job) {
  json::Array all;
  const PluginSet plugins = plugins_of(job);
  for (const auto& plugin : plugins.all())
    for (const PluginObject& object : plugin->objects(job)) all.push_back(object.object);
  return json::Value(std::move(all)).to_pretty_text();
}

const char* const kOwner = R"([{"apiVersion":"batch.volcano.sh/v1alpha1","kind":"Job","name":"train","uid":"u-1",
  "controller":true,"blockOwnerDeletion":true}])";

TEST(PluginSetTest, plugins_run_in_a_fixed_order_D19) {
  const auto job = job_with({{"head"}}, R"({"hcclrank":[],"ray":[],"pytorch":[],"tensorflow":[],"mpi":[],"ssh":[],
      "svc":[],"env":[]})");
  std::vector<std::string_view> names;
  const PluginSet plugins = plugins_of(job);
  for (const auto& plugin : plugins.all()) names.push_back(plugin->name());
  EXPECT_EQ(names,
            (std::vector<std::string_view>{"env", "svc", "ssh", "mpi", "tensorflow", "pytorch", "ray", "hcclrank"}));
}

TEST(PluginSetTest, all_but_hcclrank_are_recorded) {
  const auto job = job_with({{"head"}}, R"({"hcclrank":[],"env":[],"pytorch":[]})");
  const PluginSet set = plugins_of(job);
  ASSERT_EQ(set.all().size(), 3U);
  EXPECT_TRUE(set.all()[0]->is_recorded());
  EXPECT_TRUE(set.all()[1]->is_recorded());
  EXPECT_FALSE(set.all()[2]->is_recorded());
}

TEST(PluginSetTest, an_unknown_plugin_is_named_and_the_known_ones_are_listed) {
  const auto job = job_with({{"a"}}, R"({"env":[],"pytorhc":[]})");
  const auto set = PluginSet::make(job.spec);
  ASSERT_FALSE(set.ok());
  EXPECT_EQ(set.error().reason, Reason::Invalid);
  EXPECT_EQ(set.error().message,
            "spec.plugins: there is no plugin \"pytorhc\"; use one of env, svc, ssh, mpi, tensorflow, pytorch, ray, "
            "hcclrank; did you mean \"pytorch\"?");
}

TEST(PluginSetTest, arguments_that_are_not_understood_are_told) {
  const auto job =
      job_with({{"a"}}, R"({"env":["--x"],"svc":["--inject-hosts-env=maybe"],"ssh":["--ssh-port=70000"]})");
  EXPECT_EQ(plugins_of(job).warnings(),
            (std::vector<std::string>{
                "spec.plugins[env]: argument \"--x\" is not known to the plugin (it takes none); it and what follows "
                "is ignored",
                "spec.plugins[svc]: argument \"--inject-hosts-env=maybe\" is neither true nor false; it and what "
                "follows is ignored",
                "spec.plugins[ssh]: argument \"--ssh-port=70000\" is out of range (1 to 65535); the default is used"}));
}

TEST(PodIndexTest, writes_numbers_or_marks) {
  EXPECT_EQ(PodIndex(7).text(), "7");
  EXPECT_EQ(PodIndex(7).text(3), "10");
  EXPECT_EQ(PodIndex(7).quotient_text(2), "3");
  EXPECT_EQ(PodIndex::of_mark("@m:").text(1), "@m:+1;");
  EXPECT_EQ(PodIndex::of_mark("@m:").quotient_text(4), "@m:/4;");
}

TEST(PodEditTest, volume_names_are_dns_labels) {
  EXPECT_EQ(fitting_volume_name("train", "-svc"), "train-svc");
  EXPECT_EQ(fitting_volume_name("a.b", "-svc"), "a-b-svc");
  EXPECT_EQ(fitting_volume_name(std::string(63, 'j'), "-svc"), std::string(59, 'j') + "-svc");
}

// Scenario 75.
TEST(EnvPluginTest, the_index_is_in_all_containers_75) {
  const auto job = job_with({{"a", 12}}, R"({"env":[]})");
  const json::Value pod = pod_of(job, 0, 11);
  for (const std::string_view list : {"containers", "initContainers"}) {
    EXPECT_EQ(env_of(container_of(pod, 0, list), "VK_TASK_INDEX"), "11");
    EXPECT_EQ(env_of(container_of(pod, 0, list), "VC_TASK_INDEX"), "11");
  }
}

// Scenario 76 and table 6.3.
TEST(SvcPluginTest, objects_list_every_host) {
  const auto job = job_with(
      {{"my-ps", 1}, {"worker", 2}, {"one", 5, R"("hostname":"h","subdomain":"s",)"}, {"none", 0}}, R"({"svc":[]})");
  const std::string meta = R"({"name":"train","namespace":"ml","ownerReferences":)" + std::string(kOwner) + "}";
  const std::string labels = R"({"volcano.sh/job-name":"train","volcano.sh/job-namespace":"ml"})";
  EXPECT_EQ(objects_text(job), pretty(R"([
      {"apiVersion":"v1","kind":"ConfigMap",
       "metadata":{"name":"train-svc","namespace":"ml","ownerReferences":)" +
                                      std::string(kOwner) + R"(},
       "data":{"my_ps.host":"train-my-ps-0.train","VC_MY_PS_HOSTS":"train-my-ps-0.train","VC_MY_PS_NUM":"1",
               "worker.host":"train-worker-0.train\ntrain-worker-1.train",
               "VC_WORKER_HOSTS":"train-worker-0.train,train-worker-1.train","VC_WORKER_NUM":"2",
               "one.host":"h.s","VC_ONE_HOSTS":"h.s","VC_ONE_NUM":"1",
               "none.host":"","VC_NONE_HOSTS":"","VC_NONE_NUM":"0"}},
      {"apiVersion":"v1","kind":"Service","metadata":)" +
                                      meta + R"(,"spec":{"clusterIP":"None","selector":)" + labels +
                                      R"(}},
      {"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","metadata":)" +
                                      meta + R"(,
       "spec":{"podSelector":{"matchLabels":)" +
                                      labels + R"(},
               "ingress":[{"from":[{"podSelector":{"matchLabels":)" +
                                      labels + R"(}}]}],
               "policyTypes":["Ingress"]}}])"));
}

// users.md volcano#1894: what is missing later is listed again, whatever the status says; only the hosts are kept
// current.
TEST(SvcPluginTest, objects_are_the_same_at_any_time_and_only_hosts_follow_volcano_1894) {
  auto job = job_with({{"a", 1}}, R"({"svc":[]})");
  const std::string first = objects_text(job);
  job.status.controlled_resources.set("plugin-svc", "svc");
  EXPECT_EQ(objects_text(job), first);
  const auto objects = plugins_of(job).all()[0]->objects(job);
  ASSERT_EQ(objects.size(), 3U);
  EXPECT_EQ(objects[0].upkeep, PluginObject::Upkeep::Current);
  EXPECT_EQ(objects[0].resource, (kube::Resource{"", "v1", "configmaps"}));
  EXPECT_EQ(objects[0].name, "train-svc");
  EXPECT_EQ(objects[1].upkeep, PluginObject::Upkeep::Once);
  EXPECT_EQ(objects[1].resource, (kube::Resource{"", "v1", "services"}));
  EXPECT_EQ(objects[2].upkeep, PluginObject::Upkeep::Once);
  EXPECT_EQ(objects[2].resource, (kube::Resource{"networking.k8s.io", "v1", "networkpolicies"}));
  job.spec.tasks[0].replicas = 2;
  EXPECT_EQ(plugins_of(job).all()[0]->objects(job)[0].object.string_at({"data", "VC_A_NUM"}), "2");
}

TEST(SvcPluginTest, arguments_switch_parts_off_77) {
  const auto job = job_with({{"a", 2}}, R"({"svc":["--disable-network-policy=true","--inject-hosts-env=false",
      "--publish-not-ready-addresses=true"]})");
  const auto objects = plugins_of(job).all()[0]->objects(job);
  ASSERT_EQ(objects.size(), 2U);
  EXPECT_TRUE(objects[1].object.find_path({"spec", "publishNotReadyAddresses"})->as_bool());
  const json::Value pod = pod_of(job, 0, 1);
  EXPECT_EQ(env_of(container_of(pod), "VC_A_HOSTS"), "absent");
  EXPECT_EQ(container_of(pod).find("volumeMounts")->as_array().size(), 1U);
}

TEST(SvcPluginTest, host_names_of_the_template_stay) {
  const auto job = job_with({{"a", 2, R"("hostname":"h",)"}}, R"({"svc":[]})");
  const json::Value pod = pod_of(job, 0, 1);
  EXPECT_EQ(pod.string_at({"spec", "hostname"}), "h");
  EXPECT_EQ(pod.string_at({"spec", "subdomain"}), "train");
}

std::string ssh_config(const api::batch::Job& job) {
  const PluginSet plugins = plugins_of(job);
  for (const auto& plugin : plugins.all()) {
    if (plugin->name() != "ssh") continue;
    return base::base64_decode(plugin->objects(job)[0].object.string_at({"data", "config"})).value_or("no base64");
  }
  return "no ssh";
}

TEST(SshPluginTest, the_secret_lists_every_host_78) {
  const auto job = job_with({{"a", 2}, {"b", 3, R"("hostname":"h","subdomain":"s",)"}}, R"({"ssh":[]})");
  const PluginSet set = plugins_of(job);
  EXPECT_TRUE(set.needs_keys());
  auto objects = set.all()[0]->objects(job);
  ASSERT_EQ(objects.size(), 1U);
  EXPECT_EQ(objects[0].upkeep, PluginObject::Upkeep::SshKeys);
  EXPECT_EQ(objects[0].resource, (kube::Resource{"", "v1", "secrets"}));
  EXPECT_EQ(objects[0].name, "train-ssh");
  EXPECT_EQ(objects[0].object.string_at({"type"}), "Opaque");
  EXPECT_EQ(ssh_config(job),
            "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n"
            "Host train-a-0\n  HostName train-a-0.train\n  Port 22\n"
            "Host train-a-1\n  HostName train-a-1.train\n  Port 22\n"
            "Host h\n  HostName h.s\n  Port 22\n");
  EXPECT_EQ(objects[0].object.find("data")->as_object().size(), 1U);
  with_keys(objects[0].object, {"private", "public\n"});
  EXPECT_EQ(objects[0].object.find("data")->as_object().size(), 4U);
  EXPECT_EQ(json::Value(objects[0].object.find("metadata")->as_object()).to_pretty_text(),
            pretty(R"({"name":"train-ssh","namespace":"ml","ownerReferences":)" + std::string(kOwner) + "}"));
}

TEST(SshPluginTest, a_port_out_of_range_is_22_79) {
  EXPECT_NE(ssh_config(job_with({{"a"}}, R"({"ssh":["--ssh-port=70000"]})")).find("  Port 22\n"), std::string::npos);
  EXPECT_NE(ssh_config(job_with({{"a"}}, R"({"ssh":["--ssh-port=2022"]})")).find("  Port 2022\n"), std::string::npos);
}

TEST(SshPluginTest, another_path_is_readable_for_others) {
  const json::Value pod = pod_of(job_with({{"a"}}, R"({"ssh":["--ssh-key-file-path=/home/u/.ssh"]})"), 0, 0);
  EXPECT_EQ(pod.find_path({"spec", "volumes"})->as_array()[0].find_path({"secret", "defaultMode"})->as_int(), 0644);
  EXPECT_EQ(container_of(pod).find("volumeMounts")->as_array()[0].string_at({"mountPath"}), "/home/u/.ssh");
}

TEST(SshPluginTest, the_users_keys_are_used_verbatim) {
  const auto job = job_with({{"a"}}, R"({"ssh":["--ssh-private-key=PRIVATE","--ssh-public-key=PUBLIC"]})");
  const PluginSet set = plugins_of(job);
  EXPECT_FALSE(set.needs_keys());
  json::Value secret = set.all()[0]->objects(job)[0].object;
  with_keys(secret, {"made", "made"});
  EXPECT_EQ(secret.string_at({"data", "id_rsa"}), base::base64_encode("PRIVATE"));
  EXPECT_EQ(secret.string_at({"data", "id_rsa.pub"}), base::base64_encode("PUBLIC"));
  EXPECT_EQ(secret.string_at({"data", "authorized_keys"}), base::base64_encode("PUBLIC"));
}

TEST(TensorflowPluginTest, every_container_knows_the_cluster_80) {
  const auto job = job_with({{"ps", 1}, {"worker", 2}, {"other", 1}}, R"({"tensorflow":[]})");
  const std::string cluster =
      R"({"cluster":{"ps":["train-ps-0.train:2222"],"worker":["train-worker-0.train:2222","train-worker-1.train:2222"]},)";
  const json::Value pod = pod_of(job, 1, 1);
  EXPECT_EQ(env_of(container_of(pod), "TF_CONFIG"), cluster + R"("task":{"type":"worker","index":1}})");
  EXPECT_EQ(env_of(container_of(pod, 0, "initContainers"), "TF_CONFIG"), "absent");
  EXPECT_EQ(env_of(container_of(pod_of(job, 2, 0)), "TF_CONFIG"), cluster + R"("task":{"type":"other","index":0}})");
}

TEST(TensorflowPluginTest, roles_and_port_are_arguments) {
  const auto job = job_with({{"boss", 1}, {"judge", 1}, {"empty", 0}},
                            R"({"tensorflow":["--chief=boss","--evaluator=judge","--worker=empty","--port=99"]})");
  EXPECT_EQ(env_of(container_of(pod_of(job, 1, 0)), "TF_CONFIG"),
            R"({"cluster":{"chief":["train-boss-0.train:99"],"evaluator":["train-judge-0.train:99"]},)"
            R"("task":{"type":"evaluator","index":0}})");
}

TEST(TensorflowPluginTest, a_single_pod_needs_none_80) {
  EXPECT_EQ(env_of(container_of(pod_of(job_with({{"worker", 1}}, R"({"tensorflow":[]})"), 0, 0)), "TF_CONFIG"),
            "absent");
  EXPECT_NE(env_of(container_of(pod_of(job_with({{"worker", 2}}, R"({"tensorflow":[]})"), 0, 0)), "TF_CONFIG"),
            "absent");
}

bool declares_port(const json::Value& container, std::string_view name, std::int64_t number) {
  const json::Value* const ports = container.find("ports");
  if (ports == nullptr) return false;
  return std::any_of(ports->as_array().begin(), ports->as_array().end(), [&](const json::Value& port) {
    return port.string_at({"name"}) == name && port.find("containerPort")->as_int() == number;
  });
}

TEST(MpiPluginTest, the_master_knows_its_workers) {
  const auto job = job_with({{"master", 1}, {"worker", 2}}, R"({"mpi":["--port=5000"]})");
  const json::Value master = pod_of(job, 0, 0);
  const json::Value worker = pod_of(job, 1, 1);
  for (const std::string_view list : {"containers", "initContainers"}) {
    EXPECT_EQ(env_of(container_of(master, 0, list), "MPI_HOST"), "train-worker-0.train,train-worker-1.train");
    EXPECT_TRUE(declares_port(container_of(master, 0, list), "mpijob-port", 5000));
    EXPECT_EQ(env_of(container_of(worker, 0, list), "MPI_HOST"), "absent");
    EXPECT_TRUE(declares_port(container_of(worker, 0, list), "mpijob-port", 5000));
  }
}

TEST(MpiPluginTest, without_workers_nothing_happens_to_the_master) {
  const auto job = job_with({{"master", 1}, {"other", 1}}, R"({"mpi":[]})");
  EXPECT_EQ(container_of(pod_of(job, 0, 0)).find("env"), nullptr);
  EXPECT_EQ(container_of(pod_of(job, 0, 0)).find("ports"), nullptr);
  EXPECT_TRUE(declares_port(container_of(pod_of(job, 1, 0)), "mpijob-port", 22));
}

TEST(MpiPluginTest, a_declared_port_is_not_repeated) {
  const auto job = job_with_spec(R"({"tasks":[{"name":"a","replicas":1,"template":{"spec":{"containers":[
      {"name":"x","ports":[{"containerPort":22,"name":"ssh"}]},
      {"name":"y","ports":[{"containerPort":80,"name":"mpijob-port"}]}]}}}],"plugins":{"mpi":[]}})");
  const json::Value pod = pod_of(job, 0, 0);
  EXPECT_EQ(container_of(pod, 0).find("ports")->to_text(), R"([{"containerPort":22,"name":"ssh"}])");
  EXPECT_EQ(container_of(pod, 1).find("ports")->to_text(),
            R"([{"containerPort":80,"name":"mpijob-port"},{"containerPort":22}])");
}

TEST(PytorchPluginTest, ranks_follow_the_index_81) {
  const auto job = job_with({{"master", 1}, {"worker", 3}, {"other", 1}}, R"({"pytorch":[]})");
  struct Row {
    std::size_t task;
    std::int32_t index;
    std::string rank;
  };
  for (const Row& row : {Row{0, 0, "0"}, {1, 0, "1"}, {1, 2, "3"}, {2, 0, "absent"}}) {
    const json::Value pod = pod_of(job, row.task, row.index);
    const json::Value& container = container_of(pod);
    EXPECT_EQ(env_of(container, "RANK"), row.rank);
    EXPECT_EQ(env_of(container, "WORLD_SIZE"), "4");
    EXPECT_EQ(env_of(container, "MASTER_ADDR"), "train-master-0.train");
    EXPECT_EQ(env_of(container, "MASTER_PORT"), "23456");
    EXPECT_TRUE(declares_port(container, "pytorchjob-port", 23456));
    EXPECT_EQ(container_of(pod, 0, "initContainers").find("env"), nullptr);
  }
}

TEST(PytorchPluginTest, without_a_master_nothing_happens) {
  const auto job = job_with({{"worker", 3}}, R"({"pytorch":[]})");
  EXPECT_EQ(container_of(pod_of(job, 0, 0)).find("env"), nullptr);
  EXPECT_EQ(container_of(pod_of(job, 0, 0)).find("ports"), nullptr);
}

TEST(PytorchPluginTest, workers_wait_for_the_master_if_asked_to_81) {
  const auto job = job_with({{"master", 1}, {"worker", 1}},
                            R"({"pytorch":["--wait-master-enabled","--wait-master-timeout=60","--port=99"]})");
  EXPECT_EQ(pod_of(job, 0, 0).find_path({"spec", "initContainers"})->as_array().size(), 1U);
  const json::Value pod = pod_of(job, 1, 0);
  ASSERT_EQ(pod.find_path({"spec", "initContainers"})->as_array().size(), 2U);
  const json::Value& wait = container_of(pod, 1, "initContainers");
  EXPECT_EQ(wait.string_at({"name"}), "wait-for-master");
  EXPECT_EQ(wait.string_at({"image"}), "busybox:1.36.1");
  EXPECT_EQ(wait.find("command")->as_array()[0].as_string(), "sh");
  EXPECT_EQ(wait.find("command")->as_array()[1].as_string(), "-c");
  EXPECT_EQ(env_of(wait, "MASTER_ADDR"), "train-master-0.train");
  EXPECT_EQ(env_of(wait, "MASTER_PORT"), "99");
  EXPECT_EQ(env_of(wait, "WAIT_SECONDS"), "60");
}

// Runs the wait script with these stand-ins for the tools it calls; returns its exit code.
int run_wait_script(const std::string& tools) {
  const auto job = job_with({{"master", 1}, {"worker", 1}}, R"({"pytorch":["--wait-master-enabled"]})");
  const json::Value pod = pod_of(job, 1, 0);
  const std::string script = container_of(pod, 1, "initContainers").find("command")->as_array()[2].as_string();
  const ::testing::TestInfo* const test = ::testing::UnitTest::GetInstance()->current_test_info();
  const std::string path = ::testing::TempDir() + "basalt_" + test->name() + "_" + std::to_string(getpid()) + ".sh";
  std::ofstream(path) << "MASTER_ADDR=m\nMASTER_PORT=1\nWAIT_SECONDS=300\nnow=0\n" << tools << script;
  const int status = std::system(("sh " + path + " 2>/dev/null").c_str());
  std::filesystem::remove(path);
  return WEXITSTATUS(status);
}

// `date` runs in a subshell, so the time lives in a variable that `sleep` moves.
const char* const kTime = "date() { echo $now; }\nsleep() { test \"$1\" = 2 || exit 9; now=$((now + $1)); }\n";

TEST(PytorchPluginTest, the_wait_ends_when_the_master_answers_81) {
  EXPECT_EQ(run_wait_script(std::string(kTime) + "nc() { test $now -ge 298; }\n"), 0);
}

TEST(PytorchPluginTest, the_wait_gives_up_after_its_time_81) {
  EXPECT_EQ(run_wait_script(std::string(kTime) + "nc() { test $now -gt 300; }\n"), 1);
}

TEST(PytorchPluginTest, a_wait_container_of_the_user_stays_alone) {
  const auto job = job_with_spec(R"({"tasks":[{"name":"master","replicas":1},{"name":"worker","replicas":1,
      "template":{"spec":{"containers":[{"name":"c"}],"initContainers":[{"name":"wait-for-master","image":"mine"}]}}}],
      "plugins":{"pytorch":["--wait-master-enabled=true"]}})");
  const json::Value pod = pod_of(job, 1, 0);
  ASSERT_EQ(pod.find_path({"spec", "initContainers"})->as_array().size(), 1U);
  EXPECT_EQ(container_of(pod, 0, "initContainers").string_at({"image"}), "mine");
}

const char* const kRayTasks = R"("tasks":[
  {"name":"head","replicas":1,"template":{"spec":{"containers":[
    {"name":"head","command":["old"],"ports":[{"containerPort":8265}]},{"name":"side","command":["stay"]}]}}},
  {"name":"worker","replicas":2,"template":{"spec":{"containers":[{"name":"worker"},{"name":"side"}]}}},
  {"name":"other","replicas":1,"template":{"spec":{"containers":[{"name":"head"}]}}}])";

TEST(RayPluginTest, the_head_has_a_service_and_commands_are_replaced_83) {
  const auto job = job_with_spec("{" + std::string(kRayTasks) + R"(,"plugins":{"ray":[]}})");
  EXPECT_EQ(objects_text(job), pretty(R"([{"apiVersion":"v1","kind":"Service",
      "metadata":{"name":"train-head-svc","namespace":"ml","ownerReferences":)" +
                                      std::string(kOwner) + R"(},
      "spec":{"selector":{"volcano.sh/job-name":"train","volcano.sh/job-namespace":"ml","volcano.sh/task-spec":"head"},
        "ports":[{"name":"gcs","port":6379,"protocol":"TCP","targetPort":"gcs"},
                 {"name":"dashboard","port":8265,"protocol":"TCP","targetPort":"dashboard"},
                 {"name":"client-server","port":10001,"protocol":"TCP","targetPort":"client-server"}]}}])"));
  const json::Value head = pod_of(job, 0, 0);
  EXPECT_EQ(head.find_path({"spec", "containers"})->to_pretty_text(), pretty(R"([
      {"name":"head","command":["sh","-c",
        "ray start --head --block --dashboard-host=0.0.0.0 --port=6379 --dashboard-port=8265 --ray-client-server-port=10001"],
       "ports":[{"containerPort":8265,"name":"dashboard"},{"containerPort":6379,"name":"gcs"},
                {"containerPort":10001,"name":"client-server"}]},
      {"name":"side","command":["stay"]}])"));
  EXPECT_EQ(pod_of(job, 1, 1).find_path({"spec", "containers"})->to_pretty_text(), pretty(R"([
      {"name":"worker","command":["sh","-c","ray start --block --address=train-head-0.train:6379"]},{"name":"side"}])"));
  EXPECT_EQ(pod_of(job, 2, 0).find_path({"spec", "containers"})->to_text(), R"([{"name":"head"}])");
}

TEST(RayPluginTest, names_and_ports_are_arguments) {
  const auto job = job_with_spec("{" + std::string(kRayTasks) + R"(,"plugins":{"ray":["--head=worker",
      "--headContainer=side","--worker=head","--workerContainer=side","--port=1","--dashboardPort=2","--clientPort=3"]}})");
  EXPECT_EQ(container_of(pod_of(job, 1, 0), 1).find("command")->as_array()[2].as_string(),
            "ray start --head --block --dashboard-host=0.0.0.0 --port=1 --dashboard-port=2 --ray-client-server-port=3");
  EXPECT_EQ(container_of(pod_of(job, 0, 0), 1).find("command")->as_array()[2].as_string(),
            "ray start --block --address=train-worker-0.train:1");
}

TEST(RayPluginTest, a_missing_head_is_an_error_that_says_what_to_do) {
  const auto job = job_with({{"worker", 1}}, R"({"ray":[]})");
  const auto builder = PodBuilder::make(job, 0, plugins_of(job), {});
  ASSERT_FALSE(builder.ok());
  EXPECT_EQ(builder.error().reason, Reason::Invalid);
  EXPECT_EQ(builder.error().message,
            "job ml/train, task \"worker\": plugin ray: job ml/train has no head task \"head\"; add a task of that "
            "name, or name yours in --head");
}

std::string rank_index(const json::Value& pod) {
  return std::string(pod.string_at({"metadata", "annotations", "hccl/rankIndex"}));
}

TEST(HcclRankPluginTest, follows_pytorch_or_counts_itself_84) {
  const std::vector<TaskLine> tasks = {{"master", 2}, {"worker", 3}, {"other", 1}};
  const auto with_pytorch = job_with(tasks, R"({"hcclrank":[],"pytorch":[]})");
  EXPECT_EQ(rank_index(pod_of(with_pytorch, 0, 1)), "0");
  EXPECT_EQ(rank_index(pod_of(with_pytorch, 1, 2)), "3");
  EXPECT_EQ(rank_index(pod_of(with_pytorch, 2, 0)), "");
  const auto alone = job_with(tasks, R"({"hcclrank":[]})");
  EXPECT_EQ(rank_index(pod_of(alone, 0, 1)), "1");
  EXPECT_EQ(rank_index(pod_of(alone, 1, 2)), "4");
  EXPECT_EQ(rank_index(pod_of(alone, 2, 0)), "");
  EXPECT_TRUE(plugins_of(alone).all()[0]->objects(alone).empty());
}

TEST(HcclRankPluginTest, what_the_template_says_wins_84) {
  const auto job = job_with_spec(R"({"tasks":[
      {"name":"master","replicas":1,"template":{"metadata":{"annotations":{"hccl/rankIndex":"9"}},
        "spec":{"containers":[{"name":"c"}]}}},
      {"name":"worker","replicas":1,"template":{"spec":{"containers":[{"name":"c"},
        {"name":"d","env":[{"name":"RANK","value":"7"}]}]}}}],"plugins":{"hcclrank":[]}})");
  EXPECT_EQ(rank_index(pod_of(job, 0, 0)), "9");
  EXPECT_EQ(rank_index(pod_of(job, 1, 0)), "7");
}

}  // namespace
}  // namespace basalt::controllers::job
