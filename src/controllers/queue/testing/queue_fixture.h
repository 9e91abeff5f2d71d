#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "controllers/queue/queue_controller.h"
#include "controllers/queue/testing/controller_process.h"
#include "sim/cluster.h"
#include "sim/stage.h"

namespace basalt::controllers::queue::testing {

using controllers::testing::ControllerProcess;

// A cluster with one manager that runs the queue controller, and the words that its scenarios are written in.
class QueueFixture {
 public:
  explicit QueueFixture(rt::Runtime& runtime, QueueControllerOptions options = {})
      : sink(std::make_shared<CollectingLogSink>()),
        log(sink, LogLevel::Info),
        owned_(sim::open_cluster(runtime, {.log = log, .with_default_queue = false})),
        cluster(*owned_),
        runtime_(runtime),
        options_(std::move(options)) {}
  ~QueueFixture() {
    stop();
    EXPECT_EQ(sink->first_error(), "");
  }

  void start() {
    process = std::make_unique<ControllerProcess>(
        runtime_, cluster.client(), log, std::vector<ControllerProcess::Make>{[this](ControllerContext& context) {
          return make_queue_controller(context, options_);
        }});
    process->start();
  }
  void stop() {
    if (process) process->stop();
    process.reset();
  }

  void queue(std::string_view name, std::string_view parent = {}) {
    std::string spec = "{weight: 1";
    if (!parent.empty()) spec += ", parent: " + std::string(parent);
    cluster.apply("{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: " + std::string(name) +
                  "}, spec: " + spec + "}}");
  }
  // Returns the name of the command.
  std::string command(std::string_view queue, std::string_view action, std::string uid = {},
                      std::string_view kind = "Queue") {
    const auto target = cluster.get(sim::resources::kQueues, "", queue);
    if (uid.empty()) uid = target ? std::string(target->string_at({"metadata", "uid"})) : "none";
    const std::string name = std::string(queue) + "-" + std::to_string(++commands_given_);
    cluster.apply("{apiVersion: bus.volcano.sh/v1alpha1, kind: Command, metadata: {name: " + name +
                  "}, action: " + std::string(action) + ", target: {apiVersion: scheduling.volcano.sh/v1beta1, kind: " +
                  std::string(kind) + ", name: " + std::string(queue) + ", uid: " + uid + "}}");
    return name;
  }
  void pod_group(std::string_view name, std::string_view queue, std::string_view phase = "Pending") {
    cluster.apply("{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: " + std::string(name) +
                  "}, spec: {minMember: 1, queue: " + std::string(queue) + "}, status: {phase: " + std::string(phase) +
                  "}}");
  }

  [[nodiscard]] std::string field(std::string_view queue, std::initializer_list<std::string_view> path) {
    const auto object = cluster.get(sim::resources::kQueues, "", queue);
    return object ? std::string(object->string_at(path)) : "(none)";
  }
  [[nodiscard]] std::string state(std::string_view queue) { return field(queue, {"status", "state"}); }
  [[nodiscard]] std::string mark(std::string_view queue) {
    return field(queue, {"metadata", "annotations", "volcano.sh/closed-by-parent"});
  }
  bool becomes(std::string_view queue, std::string_view wanted, rt::Duration limit = std::chrono::seconds(10)) {
    const bool reached = cluster.wait_until([&] { return state(queue) == wanted; }, limit);
    if (!reached) ADD_FAILURE() << "queue " << queue << " is " << state(queue) << " and not " << wanted << logged();
    return reached;
  }
  // The first warnings, or all that was said, to explain a failure.
  [[nodiscard]] std::string logged(LogLevel level = LogLevel::Warn) const {
    std::string text;
    for (const LogRecord& record : sink->records()) {
      if (record.level < level || text.size() > 8000) continue;
      text += "\n  " + format_log_record(record, LogFormat::Text);
    }
    return text;
  }
  bool no_commands(rt::Duration limit = std::chrono::seconds(10)) {
    return cluster.wait_until([&] { return cluster.list(sim::resources::kCommands).empty(); }, limit);
  }
  // Lets everything happen that is going to happen soon.
  void rest(rt::Duration duration = std::chrono::seconds(2)) { sim::let_pass(runtime_, duration); }
  // "Normal CloseQueue Close queue succeed", of the events about this queue.
  [[nodiscard]] std::vector<std::string> events(std::string_view queue) {
    std::vector<std::string> lines;
    for (const json::Value& event : cluster.list(sim::resources::kEvents, "default")) {
      if (event.string_at({"involvedObject", "name"}) != queue) continue;
      lines.push_back(std::string(event.string_at({"type"})) + " " + std::string(event.string_at({"reason"})) + " " +
                      std::string(event.string_at({"message"})));
    }
    std::sort(lines.begin(), lines.end());
    return lines;
  }
  bool has_event(std::string_view queue, std::string_view text, rt::Duration limit = std::chrono::seconds(10)) {
    return cluster.wait_until(
        [&] {
          const auto all = events(queue);
          return std::any_of(all.begin(), all.end(),
                             [&](const std::string& line) { return line.find(text) != std::string::npos; });
        },
        limit);
  }
  [[nodiscard]] double gauge(std::string_view phase, std::string_view queue) {
    return process->metrics()
        .gauge("volcano_queue_pod_group_" + std::string(phase) + "_count", "", {{"queue_name", std::string(queue)}})
        .value();
  }

  // What must hold whenever nothing is going on: counters equal pod groups, states agree with the hierarchy, no command
  // is left, and nothing was logged as an error.
  void check() {
    std::map<std::string, std::map<std::string, int>> groups;
    for (const json::Value& group : cluster.list(sim::resources::kPodGroups))
      ++groups[std::string(group.string_at({"spec", "queue"}))][std::string(group.string_at({"status", "phase"}))];
    std::map<std::string, json::Value> queues;
    for (json::Value& item : cluster.list(sim::resources::kQueues))
      queues.emplace(std::string(item.string_at({"metadata", "name"})), item);
    for (const auto& [name, object] : queues) {
      SCOPED_TRACE(name + " " + object.to_text());
      const std::string_view state = object.string_at({"status", "state"});
      const bool is_shut = state == "Closed" || state == "Closing";
      EXPECT_NE(state, "");
      if (name != "root") {
        EXPECT_NE(object.string_at({"spec", "parent"}), "");
      } else {
        EXPECT_EQ(state, "Open");
      }
      EXPECT_TRUE(state != "Closing" || !groups[name].empty());
      const auto parent = queues.find(std::string(object.string_at({"spec", "parent"})));
      const std::string_view mark = object.string_at({"metadata", "annotations", "volcano.sh/closed-by-parent"});
      if (parent != queues.end()) {
        const std::string_view above = parent->second.string_at({"status", "state"});
        EXPECT_TRUE(is_shut || (above != "Closed" && above != "Closing"));
        EXPECT_TRUE(above != "Open" || mark != "true");
      }
      for (const char* phase : {"Pending", "Running", "Unknown", "Inqueue", "Completed"})
        EXPECT_EQ(gauge(base::to_lower_ascii(phase), name), groups[name][phase]) << phase;
    }
    EXPECT_TRUE(cluster.list(sim::resources::kCommands).empty());
    EXPECT_EQ(sink->first_error(), "");
  }

  std::shared_ptr<CollectingLogSink> sink;
  Logger log;

 private:
  std::unique_ptr<sim::Driver> owned_;

 public:
  sim::Driver& cluster;
  std::unique_ptr<ControllerProcess> process;

 private:
  rt::Runtime& runtime_;
  const QueueControllerOptions options_;
  int commands_given_ = 0;
};

}  // namespace basalt::controllers::queue::testing
