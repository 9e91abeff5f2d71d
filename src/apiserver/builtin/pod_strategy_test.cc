#include "apiserver/builtin/pod_strategy.h"

#include <algorithm>

#include "apiserver/builtin/builtin_test_support.h"

namespace basalt::apiserver {
namespace {

constexpr std::string_view kNow = "2026-01-01T01:00:00Z";

std::string line_of(std::string_view pod) { return cells_text(*pod_type(), pod, kNow); }

// NAME READY STATUS RESTARTS AGE
std::string short_line(std::string_view pod) {
  const std::string line = line_of(pod);
  std::size_t end = 0;
  for (int i = 0; i < 4; ++i) end = line.find(" | ", end) + 3;
  return line.substr(0, end - 3);
}

TEST(PodColumns, Wide) {
  EXPECT_EQ(line_of(R"(
metadata: {name: p, creationTimestamp: '2026-01-01T00:00:00Z'}
spec: {nodeName: w, containers: [{name: a}], readinessGates: [{conditionType: x/y}, {conditionType: z}]}
status:
  phase: Running
  podIPs: [{ip: 10.1.1.1}]
  conditions: [{type: x/y, status: 'True'}]
  containerStatuses: [{name: a, ready: true, restartCount: 2, state: {running: {}}, lastState: {terminated: {finishedAt: '2026-01-01T00:58:00Z'}}}]
)"),
            "p | 1/1 | Running | 2 (2m ago) | 60m | 10.1.1.1 | w | <none> | 1/2");
}

TEST(PodColumns, Status) {
  const std::pair<std::string_view, std::string_view> table[] = {
      {"{spec: {containers: [{name: a}]}, status: {phase: Pending}}", " | 0/1 | Pending | 0"},
      {"{spec: {containers: [{name: a}]}, status: {phase: Failed, reason: Evicted}}", " | 0/1 | Evicted | 0"},
      {"{spec: {containers: [{name: a}]}, status: {phase: Pending, conditions: [{type: PodScheduled, status: 'False', "
       "reason: SchedulingGated}]}}",
       " | 0/1 | SchedulingGated | 0"},
      {"{spec: {containers: [{name: a}]}, status: {phase: Running, containerStatuses: [{name: a, restartCount: 7, "
       "state: "
       "{waiting: {reason: CrashLoopBackOff}}}]}}",
       " | 0/1 | CrashLoopBackOff | 7"},
      {"{spec: {containers: [{name: a}]}, status: {phase: Succeeded, containerStatuses: [{name: a, state: {terminated: "
       "{exitCode: 0, reason: Completed}}}]}}",
       " | 0/1 | Completed | 0"},
      {"{spec: {containers: [{name: a}]}, status: {phase: Failed, containerStatuses: [{name: a, state: {terminated: "
       "{exitCode: 3}}}]}}",
       " | 0/1 | ExitCode:3 | 0"},
      {"{spec: {containers: [{name: a}]}, status: {phase: Failed, containerStatuses: [{name: a, state: {terminated: "
       "{exitCode: 137, signal: 9}}}]}}",
       " | 0/1 | Signal:9 | 0"},
      {"{spec: {containers: [{name: a}, {name: b}]}, status: {phase: Running, conditions: [{type: Ready, status: "
       "'True'}], containerStatuses: [{name: a, state: {terminated: {exitCode: 0, reason: Completed}}}, {name: b, "
       "ready: "
       "true, state: {running: {}}}]}}",
       " | 1/2 | Running | 0"},
      {"{spec: {containers: [{name: a}, {name: b}]}, status: {phase: Running, containerStatuses: [{name: a, state: "
       "{terminated: {exitCode: 0, reason: Completed}}}, {name: b, ready: true, state: {running: {}}}]}}",
       " | 1/2 | NotReady | 0"},
      {"{spec: {containers: [{name: a}], initContainers: [{name: i}, {name: j}]}, status: {phase: Pending, "
       "initContainerStatuses: [{name: i, state: {terminated: {exitCode: 0}}}, {name: j, state: {running: {}}}]}}",
       " | 0/1 | Init:1/2 | 0"},
      {"{spec: {containers: [{name: a}], initContainers: [{name: i}]}, status: {phase: Pending, initContainerStatuses: "
       "[{name: i, restartCount: 1, state: {terminated: {exitCode: 1, reason: Error}}}]}}",
       " | 0/1 | Init:Error | 1"},
      {"{spec: {containers: [{name: a}], initContainers: [{name: i}]}, status: {phase: Pending, initContainerStatuses: "
       "[{name: i, state: {waiting: {reason: ErrImagePull}}}]}}",
       " | 0/1 | Init:ErrImagePull | 0"},
      {"{spec: {containers: [{name: a}], initContainers: [{name: i, restartPolicy: Always}]}, status: {phase: Running, "
       "initContainerStatuses: [{name: i, started: true, ready: true, state: {running: {}}}], containerStatuses: "
       "[{name: a, "
       "ready: true, state: {running: {}}}]}}",
       " | 2/2 | Running | 0"},
      {"{metadata: {deletionTimestamp: '2026-01-01T00:59:00Z'}, spec: {containers: [{name: a}]}, status: {phase: "
       "Running}}",
       " | 0/1 | Terminating | 0"},
      {"{metadata: {deletionTimestamp: '2026-01-01T00:59:00Z'}, spec: {containers: [{name: a}]}, status: {phase: "
       "Succeeded}}",
       " | 0/1 | Succeeded | 0"},
  };
  for (const auto& [pod, expected] : table) EXPECT_EQ(short_line(pod), expected) << pod;
}

TEST(PodStrategy, GraceOnlyWhereSomethingRuns) {
  const PodStrategy strategy;
  const std::pair<std::string_view, std::int64_t> table[] = {
      {"{spec: {terminationGracePeriodSeconds: 30}}", 0},
      {"{spec: {nodeName: w, terminationGracePeriodSeconds: 30}}", 30},
      {"{spec: {nodeName: w, terminationGracePeriodSeconds: 0}}", 0},
      {"{spec: {nodeName: w, terminationGracePeriodSeconds: 30}, status: {phase: Succeeded}}", 0},
      {"{spec: {nodeName: w, terminationGracePeriodSeconds: 30}, status: {phase: Failed}}", 0},
  };
  for (const auto& [pod, seconds] : table) EXPECT_EQ(strategy.default_grace_seconds(from_yaml(pod)), seconds) << pod;
  EXPECT_TRUE(strategy.holds_deletion(from_yaml("metadata: {deletionGracePeriodSeconds: 30}")));
  EXPECT_FALSE(strategy.holds_deletion(from_yaml("metadata: {deletionGracePeriodSeconds: 0}")));
}

TEST(PodStrategy, SelectableFields) {
  const PodStrategy strategy;
  for (const std::string_view field :
       {"spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork",
        "status.phase", "status.podIP", "status.nominatedNodeName"}) {
    EXPECT_TRUE(strategy.is_selectable(field)) << field;
  }
  EXPECT_FALSE(strategy.is_selectable("spec.priority"));
  const auto fields = strategy.selectable_fields(from_yaml("{spec: {nodeName: w}, status: {phase: Running}}"));
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"spec.nodeName", "w"}, {"spec.hostNetwork", "false"}, {"status.phase", "Running"}};
  EXPECT_EQ(fields, expected);
}

TEST(PodStrategy, AStatusKeepsItsQosClass) {
  const PodStrategy strategy;
  const json::Value old = from_yaml("{metadata: {name: p}, spec: {}, status: {phase: Pending, qosClass: Burstable}}");
  json::Value object = from_yaml("{metadata: {name: p}, spec: {nodeName: forged}, status: {phase: Running}}");
  strategy.prepare_for_update(object, old, WritePart::Status);
  EXPECT_EQ(object.to_text(),
            from_yaml("{metadata: {name: p}, spec: {}, status: {phase: Running, qosClass: Burstable}}").to_text());
}

}  // namespace
}  // namespace basalt::apiserver
