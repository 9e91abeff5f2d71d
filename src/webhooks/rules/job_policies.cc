// Life cycle policies of jobs and tasks.

#include <algorithm>
#include <set>

#include "base/strings.h"
#include "webhooks/rules/job_spec.h"

namespace basalt::webhooks {
namespace {

constexpr std::string_view kEvents[] = {"*",       "PodFailed",     "PodEvicted", "PodPending",
                                        "Unknown", "TaskCompleted", "TaskFailed", "JobUpdated"};
constexpr std::string_view kActions[] = {"AbortJob",  "RestartJob",  "TerminateJob", "CompleteJob",
                                         "ResumeJob", "RestartTask", "RestartPod",   "RestartPartition"};
// Words that exist but that users may not write.
constexpr std::string_view kInternalEvents[] = {"PodRunning", "OutOfSync", "CommandIssued"};
constexpr std::string_view kInternalActions[] = {"SyncJob", "EnqueueJob", "SyncQueue", "OpenQueue", "CloseQueue"};
constexpr std::size_t kEventsMax = 64;  // of one policy; there are eight

bool contains(std::span<const std::string_view> words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::string hint(std::string_view word, std::span<const std::string_view> known,
                 std::span<const std::string_view> internal) {
  if (contains(internal, word)) return "; it is used inside the controller and cannot be asked for";
  return base::did_you_mean(word, known);
}

std::string valid_words() {
  return ": valid events are [" + base::join(std::span<const std::string_view>(kEvents), ", ") +
         "], valid actions are [" + base::join(std::span<const std::string_view>(kActions), ", ") + "]";
}

class PolicyList {
 public:
  PolicyList(const Path& path, Problems& problems) : path_(path), problems_(problems) {}

  // False after an error.
  bool check(const json::Value& policy, std::size_t index) {
    const Path at = path_.index(index);
    std::set<std::string_view> events;
    if (const std::string_view event = text_at(policy, "event"); !event.empty()) events.insert(event);
    const json::Array& list = list_at(policy, "events");
    if (list.size() > kEventsMax) {
      problems_.too_many(at.text("events"), list.size(), kEventsMax);
      return false;
    }
    for (const json::Value& event : list) {
      if (event.is_string()) events.insert(event.as_string());
    }
    const auto exit_code = int_at(policy, "exitCode");
    if (!events.empty() && exit_code) {
      return fail(at.text(), "must not specify event and exitCode simultaneously" + valid_words());
    }
    if (events.empty() && !exit_code) {
      return fail(at.text(), "either event and exitCode should be specified" + valid_words());
    }
    return exit_code ? check_exit_code(policy, *exit_code, at) : check_events(policy, events, at);
  }

  void finish() {
    if (!seen_events_.contains("*") || seen_events_.size() == 1) return;
    (void)fail(path_.text(),
               "if there's * here, no other policy should be here; `*` covers every event, write either it or the "
               "single events");
  }

 private:
  bool check_events(const json::Value& policy, const std::set<std::string_view>& events, const Path& at) {
    for (const std::string_view event : events) {
      if (!contains(kEvents, event)) {
        return fail(at.text(text_at(policy, "event") == event ? "event" : "events"),
                    "invalid policy event " + shown(event) + hint(event, kEvents, kInternalEvents) + valid_words());
      }
      if (!check_action(policy, at)) return false;
      if (!seen_events_.insert(event).second) {
        return fail(at.text(), "duplicate event " + std::string(event) +
                                   " across different policies: only one action can follow from it" + valid_words());
      }
    }
    return true;
  }

  bool check_exit_code(const json::Value& policy, std::int64_t code, const Path& at) {
    if (code == 0) return fail(at.text("exitCode"), "0 is not a valid error code" + valid_words());
    if (!seen_codes_.insert(code).second) {
      return fail(at.text("exitCode"), "duplicate exitCode " + std::to_string(code) + valid_words());
    }
    return check_action(policy, at);
  }

  bool check_action(const json::Value& policy, const Path& at) {
    const std::string_view action = text_at(policy, "action");
    if (contains(kActions, action)) return true;
    return fail(at.text("action"),
                "invalid policy action " + shown(action) + hint(action, kActions, kInternalActions) + valid_words());
  }

  bool fail(std::string field, std::string message) {
    problems_.add(std::move(field), std::move(message));
    return false;
  }

  const Path& path_;
  Problems& problems_;
  std::set<std::string_view> seen_events_;
  std::set<std::int64_t> seen_codes_;
};

}  // namespace

void check_policies(const RuleOptions& options, const json::Value& holder, const Path& path, Problems& problems) {
  const json::Array& policies = list_at(holder, "policies");
  if (policies.empty()) return;
  const Path list_path = path.child("policies");
  if (policies.size() > options.policies_max) {
    problems.too_many(list_path.text(), policies.size(), options.policies_max);
    return;
  }
  PolicyList list(list_path, problems);
  for (std::size_t i = 0; i < policies.size(); ++i) {
    if (!list.check(policies[i], i)) return;
  }
  list.finish();
}

}  // namespace basalt::webhooks
