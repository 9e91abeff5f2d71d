#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "json/merge_patch.h"
#include "webhooks/webhooks_test_support.h"

// The rules as tables: testdata/*.yaml holds, for every rule, what passes and what fails, and testdata/messages.golden
// every sentence that a user can read. To write the latter again after a rule or a sentence changed:
//
//   BASALT_UPDATE_GOLDEN=1 build/dev/src/webhooks/webhooks_test --gtest_filter='RuleCases.*'

namespace basalt::webhooks {
namespace {

using ::testing::HasSubstr;
using namespace testing;

std::filesystem::path data_folder() { return std::filesystem::path(BASALT_SOURCE_DIR) / "src/webhooks/testdata"; }

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::filesystem::path> case_files() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(data_folder())) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// One thing or a list of them.
std::vector<json::Value> many(const json::Value* value) {
  if (value == nullptr) return {};
  if (!value->is_array()) return {*value};
  return {value->as_array().begin(), value->as_array().end()};
}

void fill_cluster(const json::Value& wanted, StoredClusterView& cluster) {
  for (const json::Value& queue : list_at(wanted, "queues")) EXPECT_TRUE(cluster.put_queue(queue).ok());
  for (const auto& [name, annotations] : map_at(wanted, "namespaces")) {
    std::map<std::string, std::string, std::less<>> map;
    for (const auto& [key, value] : annotations.as_object()) map[key] = value.as_string();
    cluster.put_namespace(name, std::move(map));
  }
  if (member(wanted, "priorityClasses") != nullptr) {
    std::vector<std::string> names;
    for (const json::Value& name : list_at(wanted, "priorityClasses")) names.push_back(name.as_string());
    cluster.set_priority_classes(std::move(names));
  }
}

void fill_options(const json::Value& wanted, RuleOptions& options) {
  if (const auto depth = int_at(wanted, "queueDepthMax")) options.queue_depth_max = static_cast<int>(*depth);
  if (member(wanted, "rootIsProtected") != nullptr)
    options.root_queue_is_protected = flag_at(wanted, "rootIsProtected");
  if (flag_at(wanted, "queueWithPodsIsKept")) options.queue_with_pods_is_kept = true;
  if (flag_at(wanted, "schedulingGates")) options.scheduling_gates_queue_admission = true;
  if (const json::Value* patch = member(wanted, "bindingPatch")) {
    options.binding_patch = [patch = *patch](const json::Value&, const json::Value*) {
      return Result<std::optional<json::Value>>(patch);
    };
  }
  if (const auto max = int_at(wanted, "listsMax")) {
    const auto count = static_cast<std::size_t>(*max);
    options.tasks_max = options.policies_max = options.volumes_max = count;
    options.flows_max = options.edges_max = options.members_max = count;
  }
}

// A file of cases: the world they happen in, and how to send one.
class CaseFile {
 public:
  explicit CaseFile(const json::Value& document) : document_(document), hook_(find_hook(text_at(document, "hook"))) {
    EXPECT_NE(nullptr, hook_) << text_at(document, "hook");
    fill_cluster(map(document, "cluster"), cluster_);
    if (const std::string_view groups = text_at(document, "resourceGroups"); !groups.empty()) {
      EXPECT_TRUE(groups_.replace(groups).ok());
      has_groups_ = true;
    }
  }
  [[nodiscard]] const Hook& hook() const { return *hook_; }

  ReviewAnswer send(const json::Value& rule, const json::Value& change) const {
    RuleOptions options;
    fill_options(map(document_, "options"), options);
    fill_options(map(rule, "options"), options);
    const json::Value& base = map(document_, "object");
    const json::Value start = json::apply_merge_patch(base, map(rule, "given"));
    const json::Value object = json::apply_merge_patch(start, change);
    ReviewRequest request;
    const std::string_view operation = text_at(rule, "operation");
    for (const Operation one : {Operation::Create, Operation::Update, Operation::Delete, Operation::Connect}) {
      if (to_string(one) == (text_at(change, "operation").empty() ? operation : text_at(change, "operation"))) {
        request.operation = one;
      }
    }
    request.group = hook_->group;
    request.version = hook_->version;
    request.resource = hook_->resource;
    request.ns = "team";
    request.name = object.string_at({"metadata", "name"});
    const bool is_delete = request.operation == Operation::Delete;
    request.object = is_delete ? nullptr : &object;
    if (request.operation == Operation::Update) request.old_object = &start;
    if (is_delete) request.old_object = &object;
    const RuleContext context{options, cluster_, has_groups_ ? &groups_ : nullptr, {}};
    return review(*hook_, context, request);
  }

 private:
  static const json::Value& map(const json::Value& holder, std::string_view name) {
    static const json::Value kNone{json::Object()};
    const json::Value* found = member(holder, name);
    return found == nullptr ? kNone : *found;
  }

  const json::Value& document_;
  const Hook* hook_;
  StoredClusterView cluster_;
  ResourceGroups groups_;
  bool has_groups_ = false;
};

void describe(const ReviewAnswer& answer, std::string& out) {
  if (!answer.allowed) out += "denied: " + answer.message + "\n";
  for (const std::string& warning : answer.warnings) out += "warning: " + warning + "\n";
  for (const json::Value& operation : answer.patch) out += "patch: " + operation.to_text() + "\n";
}

void run_rule(const CaseFile& file, const json::Value& rule, std::string& golden) {
  const std::string title(text_at(rule, "rule"));
  SCOPED_TRACE(std::string(file.hook().path) + ": " + title);
  golden += "\n### " + title + "\n";
  const auto passing = many(rule.find("pass"));
  const auto failing = many(rule.find("fail"));
  const auto words = many(rule.find("says"));
  EXPECT_FALSE(title.empty());
  EXPECT_FALSE(passing.empty()) << "a rule needs a case that passes";
  // Defaults refuse nothing; every other rule must.
  if (!file.hook().is_mutating) {
    EXPECT_FALSE(failing.empty()) << "a rule needs a case that fails";
  }
  for (const json::Value& change : passing) {
    const ReviewAnswer answer = file.send(rule, change);
    EXPECT_TRUE(answer.allowed) << change.to_text() << "\n" << answer.message;
    describe(answer, golden);
  }
  for (std::size_t i = 0; i < failing.size(); ++i) {
    const ReviewAnswer answer = file.send(rule, failing[i]);
    EXPECT_FALSE(answer.allowed) << failing[i].to_text();
    EXPECT_EQ(400, answer.code);
    if (!words.empty()) {
      EXPECT_THAT(answer.message, HasSubstr(words[std::min(i, words.size() - 1)].as_string()));
    }
    describe(answer, golden);
  }
}

TEST(RuleCases, EveryRulePassesAndFailsWithItsWords) {
  std::string golden =
      "# What the admission rules say. Made by RuleCases of webhooks_test; see rules/rule_cases_test.cc.\n";
  std::set<std::string_view> reviewed;
  int rules = 0;
  for (const std::filesystem::path& path : case_files()) {
    SCOPED_TRACE(path.filename());
    const json::Value document = from_yaml(read_text(path));
    const CaseFile file(document);
    golden += "\n## " + std::string(file.hook().path) + "\n";
    reviewed.insert(file.hook().path);
    for (const json::Value& rule : list_at(document, "rules")) {
      run_rule(file, rule, golden);
      ++rules;
    }
  }
  for (const Hook& hook : all_hooks()) EXPECT_TRUE(reviewed.contains(hook.path)) << hook.path << " has no cases";
  EXPECT_GT(rules, 0);
  RecordProperty("rules", rules);

  const std::filesystem::path golden_path = data_folder() / "messages.golden";
  if (std::getenv("BASALT_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(golden_path, std::ios::binary) << golden;
    return;
  }
  EXPECT_EQ(read_text(golden_path), golden) << "if the new sentences are meant, write " << golden_path
                                            << " again; the command is at the top of rule_cases_test.cc";
}

}  // namespace
}  // namespace basalt::webhooks
