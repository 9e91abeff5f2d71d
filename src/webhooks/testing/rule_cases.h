#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "json/value.h"
#include "webhooks/cluster_view.h"
#include "webhooks/resource_groups.h"
#include "webhooks/review.h"
#include "webhooks/rule_context.h"

// The cases of webhooks/testdata/*.yaml: for every rule what passes and what fails. One set, read by the tests of the
// rules themselves, of the embedded API server and of a real one. queues_mutate.yaml says how a file is written.

namespace basalt::webhooks::testing {

struct RuleCase {
  const Hook* hook = nullptr;
  std::string file;   // "jobs_validate.yaml"
  std::string rule;   // what it is about
  std::string label;  // unique: "jobs_validate.yaml: V1 there is a task: fail 2"
  Operation operation = Operation::Create;
  bool passes = true;
  std::string words;        // that a refusal contains; "" for any
  std::string unreachable;  // why an API server does not bring this case about; "" if it does
  json::Value start;        // the object before the change; what is stored if it is an update
  json::Value change;       // a merge patch
  json::Value object;       // start with the change
  json::Value options;      // of the rules: {} or, for example, {queueDepthMax: 6}
  std::string resource_groups;

  [[nodiscard]] std::string ns() const;  // "" for cluster-scoped kinds
  [[nodiscard]] bool is_sent() const { return hook->takes(operation); }
};

// What the cases of a file, or of all, happen in.
struct RuleWorld {
  std::vector<json::Value> queues;  // one of each name; the first of several files that name it
  std::vector<std::string> priority_classes;
  json::Object namespaces;  // name -> annotations
};

struct RuleCaseFile {
  std::string name;
  const Hook* hook = nullptr;
  RuleWorld world;
  json::Value document;
  std::vector<RuleCase> cases;  // rule by rule, first those that pass
};

// All files in the order of their names. An error names the file and what cannot be used.
[[nodiscard]] Result<std::vector<RuleCaseFile>> read_rule_cases(const std::filesystem::path& folder);

// The worlds of all files in one: files do not contradict each other.
[[nodiscard]] RuleWorld joined_world(const std::vector<RuleCaseFile>& files);

[[nodiscard]] RuleOptions rule_options(const json::Value& options);

// Everything that a review looks at. Not movable: the context refers to the rest.
class RuleBench {
 public:
  RuleBench(const RuleWorld& world, const json::Value& options, const std::string& resource_groups);
  RuleBench(const RuleBench&) = delete;
  RuleBench& operator=(const RuleBench&) = delete;

  [[nodiscard]] const RuleContext& context() const { return context_; }
  // "" or what of the world could not be used.
  [[nodiscard]] const std::string& problem() const { return problem_; }
  // The answer of the case's own hook.
  [[nodiscard]] ReviewAnswer review(const RuleCase& one) const;

 private:
  const RuleOptions options_;
  StoredClusterView cluster_;
  ResourceGroups groups_;
  std::string problem_;
  RuleContext context_;
};

// The question that the case's hook is asked. Borrows the case's objects.
[[nodiscard]] ReviewRequest request_of(const RuleCase& one);

}  // namespace basalt::webhooks::testing
