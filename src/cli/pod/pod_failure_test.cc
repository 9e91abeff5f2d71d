#include "cli/pod/pod_failure.h"

#include <gtest/gtest.h>

#include "api/gen/core_pod.h"
#include "base/check.h"
#include "json/reader.h"
#include "yaml/reader.h"

namespace basalt::cli {
namespace {

api::core::Pod pod(std::string_view status, std::string_view name = "train-worker-0") {
  const auto value =
      yaml::read("metadata: {name: " + std::string(name) +
                 ", namespace: ml, annotations: {volcano.sh/task-spec: worker}}\nspec: {nodeName: n1}\nstatus: " +
                 std::string(status));
  BASALT_CHECK(value.ok());
  auto object = json::from_text<api::core::Pod>(value->to_text());
  BASALT_CHECK(object.ok());
  return std::move(*object);
}

std::string sentence(std::string_view status) {
  const auto failure = failure_of(pod(status));
  return failure ? failure->sentence() : "";
}

TEST(PodFailure, UsersL_EveryCauseIsNamed) {
  const std::vector<std::pair<std::string_view, std::string_view>> cases = {
      {R"({phase: Failed, containerStatuses: [{name: main, state: {terminated: {exitCode: 3, reason: Error}}}]})",
       "pod train-worker-0 (task worker) Error: container main: exit code 3"},
      {R"({phase: Failed, reason: DeadlineExceeded, message: active too long,
           containerStatuses: [{name: main, state: {terminated: {exitCode: 143, reason: Error}}}]})",
       "pod train-worker-0 (task worker) DeadlineExceeded: active too long; container main: exit code 143 (SIGTERM)"},
      {R"({phase: Failed, containerStatuses: [{name: main, state: {terminated: {exitCode: 137, reason: OOMKilled}}}]})",
       "pod train-worker-0 (task worker) OOMKilled: container main: OOMKilled, exit code 137 (SIGKILL)"},
      {R"({phase: Failed, reason: StartError, message: "container main: program \"x\" is not here",
           containerStatuses: [{name: main, state: {terminated: {exitCode: 128, reason: StartError,
           message: "program \"x\" is not here"}}}]})",
       "pod train-worker-0 (task worker) StartError: container main: exit code 128 (program \"x\" is not here)"},
      {R"({phase: Failed, containerStatuses: [{name: main, state: {terminated: {exitCode: 127}}}]})",
       "pod train-worker-0 (task worker) Error: container main: exit code 127 (command not found)"},
      {R"({phase: Failed, reason: Evicted, message: the node was low on memory})",
       "pod train-worker-0 (task worker) Evicted: the node was low on memory"},
      {R"({phase: Pending, containerStatuses: [{name: main, state: {waiting: {reason: ErrImagePull,
           message: "no such image"}}}]})",
       "pod train-worker-0 (task worker) ErrImagePull: container main: ErrImagePull (no such image)"},
      {R"({phase: Running, containerStatuses: [{name: main, restartCount: 1, state: {running: {}},
           lastState: {terminated: {exitCode: 2, reason: Error}}}]})",
       "pod train-worker-0 (task worker) Error: container main: exit code 2, restarted 1 time"},
      {R"({phase: Pending, initContainerStatuses: [{name: get, state: {terminated: {exitCode: 1, reason: Error}}}],
           containerStatuses: [{name: main, state: {waiting: {reason: PodInitializing}}}]})",
       "pod train-worker-0 (task worker) Error: init container get: exit code 1"},
      {R"({phase: Running, containerStatuses: [{name: main, state: {running: {}}}]})", ""},
      {R"({phase: Succeeded, containerStatuses: [{name: main, restartCount: 2, state: {terminated: {exitCode: 0}}}]})",
       ""},
      {R"({phase: Pending, containerStatuses: [{name: main, state: {waiting: {reason: ContainerCreating}}}]})", ""},
      {R"({phase: Pending})", ""},
  };
  for (const auto& [status, expected] : cases) EXPECT_EQ(sentence(status), expected) << status;
}

TEST(PodFailure, KnowsWhoseLogTellsMore) {
  const auto ended =
      failure_of(pod(R"({phase: Failed, containerStatuses: [{name: side, state: {terminated: {exitCode: 0}}},
              {name: main, state: {terminated: {exitCode: 3}}}]})"));
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->container, "main");
  EXPECT_FALSE(ended->is_restarted);
  const auto again = failure_of(pod(R"({phase: Running, containerStatuses: [{name: main, restartCount: 1,
      state: {running: {}}, lastState: {terminated: {exitCode: 2}}}]})"));
  ASSERT_TRUE(again);
  EXPECT_TRUE(again->is_restarted);
  const auto waiting = failure_of(
      pod(R"({phase: Pending, containerStatuses: [{name: main, state: {waiting: {reason: ErrImagePull}}}]})"));
  ASSERT_TRUE(waiting);
  EXPECT_EQ(waiting->container, "") << "it has written nothing";
}

// What ended first is most often why the others ended.
TEST(PodFailure, TheFirstToFailComesFirst) {
  std::vector<PodFailure> failures;
  const auto add = [&](std::string_view name, std::string_view time, std::string_view phase) {
    failures.push_back(*failure_of(pod("{phase: " + std::string(phase) +
                                           ", containerStatuses: [{name: main, restartCount: 1, state: {terminated: "
                                           "{exitCode: 1, finishedAt: \"2026-01-01T00:00:" +
                                           std::string(time) + "Z\"}}}]}",
                                       name)));
  };
  add("a", "09", "Failed");
  add("b", "05", "Failed");
  add("c", "01", "Running");
  sort_failures(failures);
  EXPECT_EQ(failures[0].pod + failures[1].pod + failures[2].pod, "bac");
}

}  // namespace
}  // namespace basalt::cli
