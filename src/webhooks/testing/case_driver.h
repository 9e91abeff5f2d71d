#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "json/value.h"
#include "kube/client.h"
#include "net/http_client.h"
#include "webhooks/review.h"
#include "webhooks/testing/rule_cases.h"

namespace basalt::webhooks::testing {

// How to ask the admission server itself; empty where there is none.
using AskReview = std::function<Result<ReviewAnswer>(const Hook& hook, const ReviewRequest& request)>;
// Asks the one at this address ("https://127.0.0.1:8443") as an API server does. The client outlives the function.
[[nodiscard]] AskReview ask_over_https(net::HttpClient& client, std::string url);

struct CaseReport {
  int stored = 0;         // accepted by the server, with the defaults that the rules write
  int denied = 0;         // refused with the rule's very words
  int asked = 0;          // asked of the admission server itself, too
  int not_sent = 0;       // operations that no configuration sends: asked of the admission server only
  int without_words = 0;  // what the server makes of the object passes: the case is marked `unreachable`
  // Labels of what a server refuses by its schema, or because it knows the kind, before a validating hook is asked.
  std::vector<std::string> refused_before;
  std::vector<std::string> problems;  // what went wrong; empty is success

  [[nodiscard]] std::string summary() const;
};

// Sends the cases to an API server as writes (dry runs; updates of objects that were stored beforehand) and compares
// verdicts, words, warnings and defaults with what the rules say of the same objects. The expectation follows an API
// server's order: mutating hook, status of the stored object, validating hook.
//
//   prepare() while no hook is called; then the hooks; then run() once for every set of options.
//
// For one thread. The client outlives it.
class CaseDriver {
 public:
  CaseDriver(kube::Client& client, const std::vector<RuleCaseFile>& files);

  // The sets of options that cases ask for, with the resource groups of those cases: {} first.
  struct Setting {
    json::Value options;
    std::string resource_groups;
    bool operator==(const Setting&) const = default;
  };
  [[nodiscard]] std::vector<Setting> settings() const;

  // Namespaces, queues, priority classes, and what updates start from. "" or why it could not be.
  [[nodiscard]] std::string prepare();
  // Whether the server asks every hook that has cases in this setting: configurations take a moment to be known.
  [[nodiscard]] bool are_hooks_called(const Setting& setting);
  void run(const Setting& setting, const AskReview& ask);
  [[nodiscard]] const CaseReport& report() const { return report_; }

 private:
  struct Expected {
    bool allowed = true;
    std::string message;
    json::Value object;
    std::vector<std::string> warnings;
  };

  [[nodiscard]] std::vector<Result<kube::Response>> call_all(const std::vector<const RuleCase*>& cases);
  [[nodiscard]] bool is_written(const RuleCase& one) const;
  [[nodiscard]] std::string store(RuleCase& one);
  [[nodiscard]] std::string make(const kube::Resource& resource, const std::string& ns, const json::Value& object,
                                 bool has_status = false);
  [[nodiscard]] std::string prepare_world();
  [[nodiscard]] std::string prepare_updates();
  void note_server_objects();
  [[nodiscard]] Expected expect(const RuleBench& bench, const RuleCase& one) const;
  [[nodiscard]] bool is_called(const RuleBench& bench, const Setting& setting, const Hook& hook);
  void run_all(const RuleBench& bench, const Setting& setting, bool creates, const AskReview& ask);
  void judge(const RuleBench& bench, const RuleCase& one, const Result<kube::Response>& response);
  void compare_denial(const RuleCase& one, const Expected& expected, const Error& error);
  void compare_object(const RuleCase& one, const Expected& expected, const kube::Response& response);
  void ask_directly(const RuleBench& bench, const RuleCase& one, const AskReview& ask);
  void problem(const RuleCase& one, const std::string& what);

  kube::Client& client_;
  RuleWorld world_;
  std::vector<RuleCase> cases_;
  // Label -> the object as the server makes it of the write while no hook is called: with defaults of its own.
  std::map<std::string, json::Value> by_server_;
  std::map<std::string, std::string> not_stored_;  // label -> why the object of an update cannot be stored
  std::vector<RuleCase> leftovers_;                // stored, cluster-scoped, and in the way of new ones
  CaseReport report_;
};

}  // namespace basalt::webhooks::testing
