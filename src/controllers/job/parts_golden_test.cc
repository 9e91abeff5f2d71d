#include <gtest/gtest.h>

#include "controllers/job/parts_test_support.h"

// Whole pods of a job that uses every plugin, as job.md 5.5 and 6 describe them.
namespace basalt::controllers::job {
namespace {

using testing::job_of;
using testing::pod_of;
using testing::pretty;

api::batch::Job golden_job() {
  return job_of(R"({
    "apiVersion":"batch.volcano.sh/v1alpha1","kind":"Job",
    "metadata":{"name":"train","namespace":"ml","uid":"8d2f",
      "labels":{"volcano.sh/preemptable":"true","team":"x"},
      "annotations":{"volcano.sh/revocable-zone":"*","volcano.sh/jdb-min-available":"2","note":"x"}},
    "spec":{"queue":"research","schedulerName":"volcano","priorityClassName":"high","minAvailable":4,
      "volumes":[{"mountPath":"/data","volumeClaimName":"data-claim"}],
      "plugins":{"env":[],"svc":[],"ssh":[],"mpi":[],"tensorflow":[],"pytorch":["--wait-master-enabled"],"ray":[],
        "hcclrank":[]},
      "tasks":[
        {"name":"master","replicas":1,"topologyPolicy":"restricted","template":{
          "metadata":{"labels":{"app":"trainer"}},
          "spec":{"restartPolicy":"OnFailure","containers":[{"name":"main","image":"trainer","args":["--lead"]}]}}},
        {"name":"worker","replicas":2,"partitionPolicy":{"totalPartitions":2,"partitionSize":1},"template":{
          "spec":{"schedulerName":"mine",
            "initContainers":[{"name":"prepare","image":"tools"}],
            "containers":[{"name":"worker","image":"trainer","env":[{"name":"MINE","value":"1"}],
              "ports":[{"containerPort":22,"name":"ssh"}]}]}}},
        {"name":"head","replicas":1,"template":{"spec":{"hostname":"front","subdomain":"desk",
          "containers":[{"name":"head","image":"ray"}]}}}]},
    "status":{"version":3,"retryCount":1}})");
}

const char* const kOwner = R"([{"apiVersion":"batch.volcano.sh/v1alpha1","kind":"Job","name":"train","uid":"8d2f",
  "controller":true,"blockOwnerDeletion":true}])";

const char* const kHosts = R"(
  {"name":"VC_MASTER_HOSTS","valueFrom":{"configMapKeyRef":{"name":"train-svc","key":"VC_MASTER_HOSTS"}}},
  {"name":"VC_MASTER_NUM","valueFrom":{"configMapKeyRef":{"name":"train-svc","key":"VC_MASTER_NUM"}}},
  {"name":"VC_WORKER_HOSTS","valueFrom":{"configMapKeyRef":{"name":"train-svc","key":"VC_WORKER_HOSTS"}}},
  {"name":"VC_WORKER_NUM","valueFrom":{"configMapKeyRef":{"name":"train-svc","key":"VC_WORKER_NUM"}}},
  {"name":"VC_HEAD_HOSTS","valueFrom":{"configMapKeyRef":{"name":"train-svc","key":"VC_HEAD_HOSTS"}}},
  {"name":"VC_HEAD_NUM","valueFrom":{"configMapKeyRef":{"name":"train-svc","key":"VC_HEAD_NUM"}}})";

const char* const kVolumes = R"([
  {"name":"train-a7igqowndhxe","persistentVolumeClaim":{"claimName":"data-claim"}},
  {"name":"train-svc","configMap":{"name":"train-svc"}},
  {"name":"train-ssh","secret":{"secretName":"train-ssh","defaultMode":384,"items":[
    {"key":"id_rsa","path":".ssh/id_rsa"},{"key":"id_rsa.pub","path":".ssh/id_rsa.pub"},
    {"key":"authorized_keys","path":".ssh/authorized_keys"},{"key":"config","path":".ssh/config"}]}}])";

const char* const kMounts = R"([{"name":"train-a7igqowndhxe","mountPath":"/data"},
  {"name":"train-svc","mountPath":"/etc/volcano"},
  {"name":"train-ssh","mountPath":"/root/.ssh","subPath":".ssh"}])";

const char* const kInitMounts = R"([{"name":"train-svc","mountPath":"/etc/volcano"},
  {"name":"train-ssh","mountPath":"/root/.ssh","subPath":".ssh"}])";

const char* const kPytorch = R"({"name":"MASTER_ADDR","value":"train-master-0.train"},
  {"name":"MASTER_PORT","value":"23456"},{"name":"WORLD_SIZE","value":"3"})";

std::string tf_config(std::string_view type, int index) {
  return R"({"name":"TF_CONFIG","value":"{\"cluster\":{\"worker\":[\"train-worker-0.train:2222\",)"
         R"(\"train-worker-1.train:2222\"]},\"task\":{\"type\":\")" +
         std::string(type) + R"(\",\"index\":)" + std::to_string(index) + R"(}}"})";
}

std::string metadata(std::string_view task, std::string_view index, std::string_view more_labels,
                     std::string_view more_annotations) {
  const std::string t(task);
  const std::string i(index);
  return R"({"name":"train-)" + t + "-" + i + R"(","namespace":"ml","ownerReferences":)" + kOwner +
         R"(,"labels":{"volcano.sh/task-spec":")" + t + R"(","volcano.sh/task-index":")" + i +
         R"(","volcano.sh/job-name":"train","volcano.sh/job-namespace":"ml","volcano.sh/queue-name":"research",
         "volcano.sh/preemptable":"true")" +
         std::string(more_labels) + R"(},"annotations":{"volcano.sh/task-spec":")" + t +
         R"(","volcano.sh/task-index":")" + i +
         R"(","volcano.sh/job-name":"train","volcano.sh/queue-name":"research","volcano.sh/job-version":"3",
         "volcano.sh/job-retry-count":"1","volcano.sh/template-uid":"train-)" +
         t + R"(",
         "scheduling.k8s.io/group-name":"train-8d2f","volcano.sh/revocable-zone":"*",
         "volcano.sh/jdb-min-available":"2")" +
         std::string(more_annotations) + "}}";
}

TEST(GoldenPodTest, master) {
  EXPECT_EQ(pod_of(golden_job(), 0, 0).to_pretty_text(),
            pretty(R"({"apiVersion":"v1","kind":"Pod","metadata":)" +
                   metadata("master", "0", R"(,"app":"trainer")",
                            R"(,"volcano.sh/numa-topology-policy":"restricted","hccl/rankIndex":"0")") +
                   R"(,
    "spec":{"restartPolicy":"OnFailure","schedulerName":"volcano","priorityClassName":"high",
      "hostname":"train-master-0","subdomain":"train","volumes":)" +
                   kVolumes + R"(,
      "containers":[{"name":"main","image":"trainer","args":["--lead"],"volumeMounts":)" +
                   kMounts + R"(,
        "ports":[{"containerPort":22,"name":"mpijob-port"},{"containerPort":23456,"name":"pytorchjob-port"}],
        "env":[{"name":"VK_TASK_INDEX","value":"0"},{"name":"VC_TASK_INDEX","value":"0"},)" +
                   kHosts + R"(,
          {"name":"MPI_HOST","value":"train-worker-0.train,train-worker-1.train"},)" +
                   tf_config("master", 0) + "," + kPytorch + R"(,{"name":"RANK","value":"0"}]}]}})"));
}

TEST(GoldenPodTest, worker) {
  const json::Value pod = pod_of(golden_job(), 1, 1);
  // The script of the wait container is ours to write; what it must do is in plugins_test.cc.
  json::Value shown = pod;
  shown.find_path({"spec", "initContainers"})->as_array()[1].find("command")->as_array()[2] = "SCRIPT";
  EXPECT_EQ(shown.to_pretty_text(),
            pretty(R"({"apiVersion":"v1","kind":"Pod","metadata":)" +
                   metadata("worker", "1", R"(,"volcano.sh/partition-id":"1")", R"(,"hccl/rankIndex":"2")") + R"(,
    "spec":{"schedulerName":"mine","priorityClassName":"high","hostname":"train-worker-1","subdomain":"train",
      "volumes":)" +
                   kVolumes + R"(,
      "initContainers":[
        {"name":"prepare","image":"tools","ports":[{"containerPort":22,"name":"mpijob-port"}],
         "volumeMounts":)" +
                   kInitMounts + R"(,
         "env":[{"name":"VK_TASK_INDEX","value":"1"},{"name":"VC_TASK_INDEX","value":"1"},)" +
                   kHosts + R"(]},
        {"name":"wait-for-master","image":"busybox:1.36.1","command":["sh","-c","SCRIPT"],
         "env":[{"name":"MASTER_ADDR","value":"train-master-0.train"},{"name":"MASTER_PORT","value":"23456"},
           {"name":"WAIT_SECONDS","value":"300"}]}],
      "containers":[{"name":"worker","image":"trainer","volumeMounts":)" +
                   kMounts + R"(,
        "command":["sh","-c","ray start --block --address=front.desk:6379"],
        "ports":[{"containerPort":22,"name":"ssh"},{"containerPort":23456,"name":"pytorchjob-port"}],
        "env":[{"name":"MINE","value":"1"},{"name":"VK_TASK_INDEX","value":"1"},{"name":"VC_TASK_INDEX","value":"1"},)" +
                   kHosts + "," + tf_config("worker", 1) + "," + kPytorch + R"(,{"name":"RANK","value":"2"}]}]}})"));
}

TEST(GoldenPodTest, head) {
  EXPECT_EQ(pod_of(golden_job(), 2, 0).to_pretty_text(),
            pretty(R"({"apiVersion":"v1","kind":"Pod","metadata":)" + metadata("head", "0", "", "") + R"(,
    "spec":{"schedulerName":"volcano","priorityClassName":"high","hostname":"front","subdomain":"desk",
      "volumes":)" +
                   kVolumes + R"(,
      "containers":[{"name":"head","image":"ray","volumeMounts":)" +
                   kMounts + R"(,
        "command":["sh","-c","ray start --head --block --dashboard-host=0.0.0.0 --port=6379 --dashboard-port=8265 --ray-client-server-port=10001"],
        "ports":[{"containerPort":22,"name":"mpijob-port"},{"containerPort":23456,"name":"pytorchjob-port"},
          {"containerPort":6379,"name":"gcs"},{"containerPort":8265,"name":"dashboard"},
          {"containerPort":10001,"name":"client-server"}],
        "env":[{"name":"VK_TASK_INDEX","value":"0"},{"name":"VC_TASK_INDEX","value":"0"},)" +
                   kHosts + "," + tf_config("head", 0) + "," + kPytorch + R"(]}]}})"));
}

TEST(GoldenPodTest, a_pod_that_is_built_again_is_the_same) {
  EXPECT_EQ(pod_of(golden_job(), 1, 0).to_text(), pod_of(golden_job(), 1, 0).to_text());
}

}  // namespace
}  // namespace basalt::controllers::job
