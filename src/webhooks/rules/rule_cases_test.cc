#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>

#include "base/strings.h"
#include "webhooks/testing/rule_cases.h"
#include "webhooks/webhooks_test_support.h"

// The rules as tables: testdata/*.yaml holds, for every rule, what passes and what fails, and testdata/messages.golden
// every sentence that a user can read. To write the latter again after a rule or a sentence changed:
//
//   BASALT_UPDATE_GOLDEN=1 build/dev/src/webhooks/webhooks_test --gtest_filter='RuleCases.*'
//
// The same cases go through the embedded API server (admission/rule_cases_embedded_test.cc) and through a real one
// (test/kube/admission_cases_real_test.cc).

namespace basalt::webhooks {
namespace {

using ::testing::HasSubstr;
using namespace testing;

std::filesystem::path data_folder() { return std::filesystem::path(BASALT_SOURCE_DIR) / "src/webhooks/testdata"; }

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<RuleCaseFile> files() {
  auto read = read_rule_cases(data_folder());
  EXPECT_TRUE(read.ok()) << read.error().message;
  return read.ok() ? std::move(*read) : std::vector<RuleCaseFile>();
}

void describe(const ReviewAnswer& answer, std::string& out) {
  if (!answer.allowed) out += "denied: " + answer.message + "\n";
  for (const std::string& warning : answer.warnings) out += "warning: " + warning + "\n";
  for (const json::Value& operation : answer.patch) out += "patch: " + operation.to_text() + "\n";
}

void run_case(const RuleWorld& world, const RuleCase& one, std::string& golden) {
  SCOPED_TRACE(one.label);
  const RuleBench bench(world, one.options, one.resource_groups);
  EXPECT_EQ("", bench.problem());
  const ReviewAnswer answer = bench.review(one);
  EXPECT_EQ(one.passes, answer.allowed) << one.change.to_text() << "\n" << answer.message;
  if (!one.passes) {
    EXPECT_EQ(400, answer.code);
    EXPECT_THAT(answer.message, HasSubstr(one.words));
  }
  describe(answer, golden);
}

TEST(RuleCases, EveryRulePassesAndFailsWithItsWords) {
  std::string golden =
      "# What the admission rules say. Made by RuleCases of webhooks_test; see rules/rule_cases_test.cc.\n";
  std::set<std::string_view> reviewed;
  const std::vector<RuleCaseFile> all = files();
  for (const RuleCaseFile& file : all) {
    golden += "\n## " + std::string(file.hook->path) + "\n";
    reviewed.insert(file.hook->path);
    std::string_view rule;
    for (const RuleCase& one : file.cases) {
      if (one.rule != rule) golden += "\n### " + one.rule + "\n";
      rule = one.rule;
      run_case(file.world, one, golden);
    }
  }
  for (const Hook& hook : all_hooks()) EXPECT_TRUE(reviewed.contains(hook.path)) << hook.path << " has no cases";

  const std::filesystem::path golden_path = data_folder() / "messages.golden";
  if (std::getenv("BASALT_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(golden_path, std::ios::binary) << golden;
    return;
  }
  EXPECT_EQ(read_text(golden_path), golden) << "if the new sentences are meant, write " << golden_path
                                            << " again; the command is at the top of rule_cases_test.cc";
}

struct Covered {
  int passing = 0;
  int failing = 0;
  bool must_fail = false;
};

// testdata/rules.list names every rule that users of the API rely on; each has cases that pass and cases that fail
// (defaults refuse nothing). A rule of the files is about at least one of them.
TEST(RuleCases, EveryRuleOfTheListHasBothKindsOfCases) {
  std::map<std::string, Covered, std::less<>> covered;
  std::istringstream list(read_text(data_folder() / "rules.list"));
  for (std::string line; std::getline(list, line);) {
    if (line.empty() || line.starts_with("#")) continue;
    const std::string id = line.substr(0, line.find(' '));
    EXPECT_TRUE(covered.try_emplace(id).second) << id << " is there twice";
  }
  EXPECT_GT(covered.size(), 100U);
  int rules = 0;
  int cases = 0;
  for (const RuleCaseFile& file : files()) {
    for (const json::Value& rule : list_at(file.document, "rules")) {
      const std::string title(text_at(rule, "rule"));
      SCOPED_TRACE(file.name + ": " + title);
      const auto count = [&](bool passes) {
        return static_cast<int>(std::count_if(file.cases.begin(), file.cases.end(), [&](const RuleCase& one) {
          return one.rule == title && one.passes == passes;
        }));
      };
      ++rules;
      cases += count(true) + count(false);
      const json::Array& ids = list_at(rule, "ids");
      EXPECT_FALSE(ids.empty()) << "the rule is about nothing that rules.list names";
      EXPECT_GT(count(true), 0) << "a rule needs a case that passes";
      // One for each at least: a case that breaks two rules shows only the first of them.
      if (!file.hook->is_mutating) {
        EXPECT_GE(count(false), static_cast<int>(ids.size()));
      }
      for (const json::Value& id : ids) {
        const auto found = covered.find(id.as_string());
        ASSERT_NE(covered.end(), found) << id.as_string() << " is not in rules.list";
        found->second.passing += count(true);
        found->second.failing += count(false);
        found->second.must_fail = found->second.must_fail || !file.hook->is_mutating;
      }
    }
  }
  for (const auto& [id, found] : covered) {
    EXPECT_GT(found.passing, 0) << id << " has no case that passes";
    if (found.must_fail) {
      EXPECT_GT(found.failing, 0) << id << " has no case that fails";
    }
  }
  std::printf("%zu rules of the list, %d rules with %d cases\n", covered.size(), rules, cases);
}

}  // namespace
}  // namespace basalt::webhooks
