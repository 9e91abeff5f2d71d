// Real processes on the operating system's runtime.
#include "node/process_node.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "node/testing/process_test.h"

namespace basalt::node {
namespace {

using testing::container_status;
using testing::int_at;
using testing::log_of;
using testing::phase_of;
using namespace std::chrono_literals;

using ProcessNodeTest = testing::ProcessTest;
using testing::shell_pod;

TEST_F(ProcessNodeTest, RunsACommandToItsEnd) {
  begin();
  cluster_.apply(shell_pod("a", "echo hello; echo there >&2"));
  ASSERT_TRUE(wait_phase("a", "Succeeded"));
  EXPECT_EQ(log("a"), "hello\nthere\n");
  const json::Value status = container_status(cluster_, "a");
  EXPECT_EQ(int_at(status, {"state", "terminated", "exitCode"}), 0);
  EXPECT_EQ(status.string_at({"state", "terminated", "reason"}), "Completed");
  EXPECT_NE(status.string_at({"state", "terminated", "finishedAt"}), "");
  const auto pod = cluster_.get(sim::resources::kPods, "default", "a");
  EXPECT_TRUE(pod->string_at({"status", "podIP"}).starts_with("127."));
}

TEST_F(ProcessNodeTest, RegistersItsNode) {
  begin({.node = {.name = "n1", .labels = {{"zone", "a"}}}});
  ASSERT_TRUE(cluster_.wait_until([&] { return cluster_.get(sim::resources::kNodes, "", "n1").has_value(); }));
  const json::Value node = *cluster_.get(sim::resources::kNodes, "", "n1");
  EXPECT_EQ(node.string_at({"metadata", "labels", "kubernetes.io/hostname"}), "n1");
  EXPECT_EQ(node.string_at({"metadata", "labels", "zone"}), "a");
  EXPECT_NE(node.string_at({"status", "capacity", "cpu"}), "");
  EXPECT_EQ(node.find_path({"status", "conditions"})->as_array().back().string_at({"status"}), "True");
  end();
  const json::Value stopped = *cluster_.get(sim::resources::kNodes, "", "n1");
  EXPECT_EQ(stopped.find_path({"status", "conditions"})->as_array().back().string_at({"status"}), "False");
}

TEST_F(ProcessNodeTest, ExitCodesAndReasons) {
  begin();
  cluster_.apply(shell_pod("three", "exit 3"));
  cluster_.apply(shell_pod("killed", "kill -9 $$$$"));
  cluster_.apply(R"({apiVersion: v1, kind: Pod, metadata: {name: none},
    spec: {nodeName: n1, restartPolicy: OnFailure, containers: [{name: c, image: nginx:1}]}})");
  cluster_.apply(R"({apiVersion: v1, kind: Pod, metadata: {name: absent},
    spec: {nodeName: n1, restartPolicy: Always, containers: [{name: c, image: x, command: [no-such-program]}]}})");
  ASSERT_TRUE(wait_phase("three", "Failed"));
  ASSERT_TRUE(wait_phase("killed", "Failed"));
  ASSERT_TRUE(wait_phase("none", "Failed"));
  ASSERT_TRUE(wait_phase("absent", "Failed"));
  EXPECT_EQ(int_at(container_status(cluster_, "three"), {"state", "terminated", "exitCode"}), 3);
  const json::Value killed = container_status(cluster_, "killed");
  EXPECT_EQ(int_at(killed, {"state", "terminated", "exitCode"}), 137);
  EXPECT_EQ(int_at(killed, {"state", "terminated", "signal"}), 9);
  const json::Value none = container_status(cluster_, "none");
  EXPECT_EQ(none.string_at({"state", "terminated", "reason"}), "StartError");
  EXPECT_EQ(none.string_at({"state", "terminated", "message"}),
            "image nginx:1 has no command here: process nodes do not pull images; give command:");
  const json::Value absent = container_status(cluster_, "absent");
  EXPECT_NE(absent.string_at({"state", "terminated", "message"}).find("\"no-such-program\" is not on this machine"),
            std::string_view::npos);
}

// An image can stand for a program of this machine; with a command of the container's own it does not matter.
TEST_F(ProcessNodeTest, ImagesThatArePrograms) {
  begin({.images = {{"say", {"sh", "-c", "echo $0 $1"}}, {"registry.example:5000/deep/other", {"false"}}}});
  cluster_.apply(R"({apiVersion: v1, kind: Pod, metadata: {name: said},
    spec: {nodeName: n1, restartPolicy: Never, containers: [{name: c, image: "registry.example:5000/a/say:1.2", args: [one, two]}]}})");
  cluster_.apply(R"({apiVersion: v1, kind: Pod, metadata: {name: own},
    spec: {nodeName: n1, restartPolicy: Never, containers: [{name: c, image: say, command: ["true"]}]}})");
  cluster_.apply(R"({apiVersion: v1, kind: Pod, metadata: {name: full},
    spec: {nodeName: n1, restartPolicy: Never, containers: [{name: c, image: "registry.example:5000/deep/other@sha256:0"}]}})");
  ASSERT_TRUE(wait_phase("said", "Succeeded"));
  ASSERT_TRUE(wait_phase("own", "Succeeded"));
  ASSERT_TRUE(wait_phase("full", "Failed"));
  EXPECT_EQ(log("said"), "one two\n");
}

// Its owner would make another pod at once, and so on: it is tried again here instead.
TEST_F(ProcessNodeTest, APodOfAReplicaSetDoesNotFailForWantOfAProgram) {
  begin();
  cluster_.apply(R"({apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: r}, spec: {replicas: 0, selector:
    {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}})");
  const auto owner = cluster_.get({"apps", "v1", "replicasets"}, "default", "r");
  ASSERT_TRUE(owner.has_value());
  cluster_.apply(R"({apiVersion: v1, kind: Pod, metadata: {name: kept, ownerReferences: [{apiVersion: apps/v1,
    kind: ReplicaSet, name: r, controller: true, uid: )" +
                 std::string(owner->string_at({"metadata", "uid"})) + R"(}]},
    spec: {nodeName: n1, restartPolicy: Always, containers: [{name: c, image: "nginx:1"}]}})");
  ASSERT_TRUE(cluster_.wait_until([&] {
    const json::Value status = container_status(cluster_, "kept");
    return status.string_at({"lastState", "terminated", "reason"}) == "StartError" &&
           status.string_at({"state", "waiting", "reason"}) == "CrashLoopBackOff";
  }));
  EXPECT_NE(phase_of(cluster_, "kept"), "Failed");
}

TEST_F(ProcessNodeTest, EnvironmentFromEverywhere) {
  begin({.environment = {{"KUBERNETES_SERVICE_HOST", "127.0.0.1"}}});
  cluster_.apply(R"yaml({apiVersion: v1, kind: ConfigMap, metadata: {name: m}, data: {color: red, size: big}}
---
{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {word: open sesame}}
---
apiVersion: v1
kind: Pod
metadata: {name: e, labels: {app: x}}
spec:
  nodeName: n1
  restartPolicy: Never
  containers:
  - name: c
    image: x
    command: [sh, -c, 'echo "$A|$B|$C|$NAME|$LABEL|$CPU|$WORD|$P_size|$MISSING|$KUBERNETES_SERVICE_HOST|$HOSTNAME|$0"']
    args: ["$(A)-$$(A)"]
    envFrom: [{prefix: P_, configMapRef: {name: m}}]
    env:
    - {name: A, value: one}
    - {name: B, value: "$(A)-two-$(NOPE)-$$(A)"}
    - {name: C, valueFrom: {configMapKeyRef: {name: m, key: color}}}
    - {name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    - {name: LABEL, valueFrom: {fieldRef: {fieldPath: "metadata.labels['app']"}}}
    - {name: CPU, valueFrom: {resourceFieldRef: {resource: requests.cpu, divisor: 1m}}}
    - {name: WORD, valueFrom: {secretKeyRef: {name: s, key: word}}}
    - {name: MISSING, valueFrom: {configMapKeyRef: {name: nope, key: nope, optional: true}}}
    resources: {requests: {cpu: 250m}}
)yaml");
  ASSERT_TRUE(wait_phase("e", "Succeeded"));
  EXPECT_EQ(log("e"), "one|one-two-$(NOPE)-$(A)|red|e|x|250|open sesame|big||127.0.0.1|e|one-$(A)\n");
}

TEST_F(ProcessNodeTest, WaitsForAMissingConfigMapAndSaysSo) {
  begin();
  cluster_.apply(R"({apiVersion: v1, kind: Pod, metadata: {name: w}, spec: {nodeName: n1, restartPolicy: Never,
    containers: [{name: c, image: x, command: [sh, -c, 'echo $V'],
                  env: [{name: V, valueFrom: {configMapKeyRef: {name: later, key: v}}}]}]}})");
  ASSERT_TRUE(cluster_.wait_until([&] {
    return container_status(cluster_, "w").string_at({"state", "waiting", "reason"}) == "CreateContainerConfigError";
  }));
  EXPECT_EQ(phase_of(cluster_, "w"), "Pending");
  EXPECT_NE(container_status(cluster_, "w").string_at({"state", "waiting", "message"}).find("later"),
            std::string_view::npos);
  cluster_.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: later}, data: {v: now}}");
  ASSERT_TRUE(wait_phase("w", "Succeeded"));
  EXPECT_EQ(log("w"), "now\n");
}

TEST_F(ProcessNodeTest, InitContainersRunFirstAndInOrder) {
  begin();
  cluster_.apply(R"({apiVersion: v1, kind: Pod, metadata: {name: i}, spec: {nodeName: n1, restartPolicy: Never,
    volumes: [{name: d, emptyDir: {}}],
    initContainers: [
      {name: one, image: x, command: [sh, -c, 'echo 1 >> $BASALT_VOLUME_D/f'], volumeMounts: [{name: d, mountPath: /d}]},
      {name: side, image: x, restartPolicy: Always, command: [sh, -c, 'trap "exit 0" TERM; while :; do sleep 0.05; done']},
      {name: two, image: x, command: [sh, -c, 'echo 2 >> $BASALT_VOLUME_D/f'], volumeMounts: [{name: d, mountPath: /d}]}],
    containers: [{name: c, image: x, command: [sh, -c, 'cat $BASALT_VOLUME_D/f'], volumeMounts: [{name: d, mountPath: /d}]}]}})");
  ASSERT_TRUE(wait_phase("i", "Succeeded"));
  EXPECT_EQ(log_of(*agent_->node, "i", "c"), "1\n2\n");
  EXPECT_EQ(int_at(container_status(cluster_, "i", 1, "initContainerStatuses"), {"state", "terminated", "exitCode"}),
            0);
}

TEST_F(ProcessNodeTest, AFailedInitContainerFailsThePod) {
  begin();
  cluster_.apply(R"({apiVersion: v1, kind: Pod, metadata: {name: f}, spec: {nodeName: n1, restartPolicy: Never,
    initContainers: [{name: one, image: x, command: ["false"]}],
    containers: [{name: c, image: x, command: ["true"]}]}})");
  ASSERT_TRUE(wait_phase("f", "Failed"));
  EXPECT_EQ(container_status(cluster_, "f").string_at({"state", "waiting", "reason"}), "PodInitializing");
}

TEST_F(ProcessNodeTest, RestartsWithBackoffUntilItSucceeds) {
  begin({.restart = {.backoff_base = 10ms, .backoff_cap = 50ms}});
  cluster_.apply(R"({apiVersion: v1, kind: Pod, metadata: {name: r}, spec: {nodeName: n1, restartPolicy: OnFailure,
    containers: [{name: c, image: x,
      command: [sh, -c, 'echo run >> count; echo $(wc -l < count); test $(wc -l < count) -ge 4']}]}})");
  ASSERT_TRUE(wait_phase("r", "Succeeded"));
  EXPECT_EQ(int_at(container_status(cluster_, "r"), {"restartCount"}), 3);
  EXPECT_EQ(log("r"), "4\n");
  EXPECT_EQ(log("r", {.previous = true}), "3\n");
}

TEST_F(ProcessNodeTest, DeletionAsksThenKills) {
  begin();
  cluster_.apply(shell_pod("polite", "trap 'exit 0' TERM; while :; do sleep 0.02; done"));
  cluster_.apply(
      shell_pod("stubborn", "trap '' TERM; while :; do sleep 0.02; done", ", terminationGracePeriodSeconds: 1"));
  ASSERT_TRUE(wait_phase("polite", "Running"));
  ASSERT_TRUE(wait_phase("stubborn", "Running"));
  cluster_.remove(sim::resources::kPods, "default", "polite");
  cluster_.remove(sim::resources::kPods, "default", "stubborn");
  ASSERT_TRUE(cluster_.wait_until([&] { return phase_of(cluster_, "polite").empty(); }, 20s));
  ASSERT_TRUE(cluster_.wait_until([&] { return phase_of(cluster_, "stubborn").empty(); }, 20s));
  EXPECT_TRUE(cluster_.wait_until([&] { return std::filesystem::is_empty(folder_.path() + "/nodes/n1/pods"); }, 20s));
}

TEST_F(ProcessNodeTest, ActiveDeadlineFailsThePod) {
  begin();
  cluster_.apply(shell_pod("d", "sleep 100", ", activeDeadlineSeconds: 1"));
  ASSERT_TRUE(wait_phase("d", "Failed"));
  EXPECT_EQ(cluster_.get(sim::resources::kPods, "default", "d")->string_at({"status", "reason"}), "DeadlineExceeded");
}

TEST_F(ProcessNodeTest, LogsCanBeFollowed) {
  begin();
  cluster_.apply(shell_pod("l", "echo one; while [ ! -e go ]; do sleep 0.02; done; echo two; printf end"));
  ASSERT_TRUE(wait_phase("l", "Running"));
  const std::string uid(cluster_.get(sim::resources::kPods, "default", "l")->string_at({"metadata", "uid"}));
  std::string text;
  const Done done = agent_->node->read_log(
      "default", "l", "c", {.follow = true, .timestamps = true},
      [&](std::string_view bytes) {
        text += bytes;
        // Once the first line is seen the process may go on.
        EXPECT_TRUE(write_file(folder_.path() + "/nodes/n1/pods/" + uid + "/containers/c/rootfs/go", "", 0644).ok());
        return true;
      },
      {});
  ASSERT_TRUE(done.ok());
  ASSERT_TRUE(wait_phase("l", "Succeeded"));
  EXPECT_EQ(log("l"), "one\ntwo\nend");
  EXPECT_EQ(log("l", {.tail_lines = 2}), "two\nend");
  EXPECT_EQ(log("l", {.limit_bytes = 5}), "one\nt");
  EXPECT_EQ(log("l", {.since = runtime_->wall_now() + 1h}), "");
  EXPECT_EQ(text.substr(4, 1), "-");
  EXPECT_EQ(text.find("Z one\n"), 29u);
}

TEST_F(ProcessNodeTest, NothingSurvivesTheStop) {
  begin();
  cluster_.apply(shell_pod("s", "trap '' TERM; sleep 1000 & setsid sleep 1001 & echo $!; echo up; wait"));
  ASSERT_TRUE(wait_phase("s", "Running"));
  ASSERT_TRUE(cluster_.wait_until([&] { return log("s").ends_with("up\n"); }));
  const pid_t escaped = std::stoi(log("s"));
  const std::string mark = "BASALT_HOST_ID=" + agent_->host->mark();
  end();
  EXPECT_EQ(testing::count_marked(mark), 0u);
  // Killed, though perhaps still a zombie of somebody who does not reap.
  const auto stat = read_file("/proc/" + std::to_string(escaped) + "/stat");
  EXPECT_TRUE(!stat || stat->find(") Z ") != std::string::npos) << *stat;
}

TEST_F(ProcessNodeTest, ASecondAgentRunsOnlyWhatMayRunAgain) {
  begin();
  const std::string count = folder_.path() + "/count";
  cluster_.apply(shell_pod("done", "echo done >> " + count));
  cluster_.apply(shell_pod("once", "echo once >> " + count + "; sleep 1000"));
  std::string again =
      shell_pod("again", "echo again >> " + count + "; test $(grep -c again " + count + ") -ge 2 || sleep 1000");
  again.replace(again.find("Never"), 5, "OnFailure");
  cluster_.apply(again);
  ASSERT_TRUE(wait_phase("done", "Succeeded"));
  ASSERT_TRUE(cluster_.wait_until([&] {
    const std::string text = read_file(count).value_or("");
    return text.find("once") != std::string::npos && text.find("again") != std::string::npos;
  }));
  ASSERT_TRUE(wait_phase("once", "Running"));
  ASSERT_TRUE(wait_phase("again", "Running"));
  end();
  begin();
  ASSERT_TRUE(wait_phase("again", "Succeeded"));
  ASSERT_TRUE(wait_phase("once", "Failed"));
  EXPECT_EQ(container_status(cluster_, "once").string_at({"state", "terminated", "reason"}), "Interrupted");
  const std::string text = *read_file(count);
  const auto times = [&](std::string_view word) {
    std::size_t found = 0;
    for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(times("done"), 1u);
  EXPECT_EQ(times("once"), 1u);
  EXPECT_EQ(times("again"), 2u);
  EXPECT_EQ(log("done"), "");
}

TEST_F(ProcessNodeTest, ProbesDecideAboutReadinessAndRestarts) {
  // The second run has started when it has taken the file away: only then may the liveness probe look for it.
  begin({.restart = {.backoff_base = 10ms, .backoff_cap = 50ms}});
  cluster_.apply(R"({apiVersion: v1, kind: Pod, metadata: {name: probed}, spec: {nodeName: n1, restartPolicy: Always,
    terminationGracePeriodSeconds: 1,
    containers: [{name: c, image: x, command: [sh, -c, 'rm -f sick; echo up; while :; do sleep 0.05; done'],
      startupProbe: {exec: {command: [test, '!', -e, sick]}, periodSeconds: 1, failureThreshold: 20, timeoutSeconds: 20},
      readinessProbe: {exec: {command: [test, -e, ready]}, periodSeconds: 1, timeoutSeconds: 20},
      livenessProbe: {exec: {command: [test, '!', -e, sick]}, periodSeconds: 1, failureThreshold: 1, timeoutSeconds: 20}}]}})");
  ASSERT_TRUE(wait_phase("probed", "Running"));
  const auto is_ready = [&] {
    const json::Value status = container_status(cluster_, "probed");
    const json::Value* ready = status.find("ready");
    return ready != nullptr && ready->as_bool();
  };
  ASSERT_TRUE(cluster_.wait_until([&] { return log("probed") == "up\n"; }));
  EXPECT_FALSE(is_ready());
  const std::string uid(cluster_.get(sim::resources::kPods, "default", "probed")->string_at({"metadata", "uid"}));
  const std::string files = folder_.path() + "/nodes/n1/pods/" + uid + "/containers/c/rootfs/";
  ASSERT_TRUE(write_file(files + "ready", "", 0644).ok());
  ASSERT_TRUE(cluster_.wait_until(is_ready, 20s));
  ASSERT_TRUE(write_file(files + "sick", "", 0644).ok());
  ASSERT_TRUE(
      cluster_.wait_until([&] { return int_at(container_status(cluster_, "probed"), {"restartCount"}) == 1; }, 20s));
  EXPECT_EQ(container_status(cluster_, "probed").string_at({"lastState", "terminated", "message"}),
            "container c failed its liveness probe");
}

TEST_F(ProcessNodeTest, UsersL2270_LogsStayAfterTheEndAndThePrevious) {
  begin();
  cluster_.apply(shell_pod("l", "echo kept"));
  ASSERT_TRUE(wait_phase("l", "Succeeded"));
  end();
  begin();
  ASSERT_TRUE(cluster_.wait_until([&] { return log("l") == "kept\n"; }, 20s)) << log("l");
  EXPECT_EQ(log("l", {.previous = true}), "error: previous terminated container \"c\" in pod \"l\" not found");
  EXPECT_EQ(log_of(*agent_->node, "l", "zz"), "error: container zz is not valid for pod l");
  EXPECT_EQ(log_of(*agent_->node, "nope"), "error: pods \"nope\" not found");
}

}  // namespace
}  // namespace basalt::node
