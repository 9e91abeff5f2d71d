#include "webhooks/testing/rule_cases.h"

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "json/merge_patch.h"
#include "webhooks/fields.h"
#include "yaml/reader.h"

namespace basalt::webhooks::testing {
namespace {

const json::Value& map_of(const json::Value& holder, std::string_view name) {
  static const json::Value kNone{json::Object()};
  const json::Value* found = member(holder, name);
  return found == nullptr ? kNone : *found;
}

// One thing or a list of them.
std::vector<json::Value> many(const json::Value* value) {
  if (value == nullptr) return {};
  if (!value->is_array()) return {*value};
  return {value->as_array().begin(), value->as_array().end()};
}

Operation operation_of(std::string_view word) {
  for (const Operation one : {Operation::Update, Operation::Delete, Operation::Connect}) {
    if (to_string(one) == word) return one;
  }
  return Operation::Create;
}

Result<std::string> read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Error::make(Reason::NotFound, path.string() + " cannot be read");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void read_world(const json::Value& document, RuleWorld& world) {
  for (const json::Value& queue : list_at(document, "queues")) world.queues.push_back(queue);
  for (const json::Value& name : list_at(document, "priorityClasses"))
    world.priority_classes.push_back(name.as_string());
  for (const auto& [name, annotations] : map_at(document, "namespaces")) world.namespaces.set(name, annotations);
}

void read_rule(RuleCaseFile& file, const json::Value& rule) {
  const std::vector<json::Value> words = many(rule.find("says"));
  for (const bool passes : {true, false}) {
    const std::vector<json::Value> changes = many(rule.find(passes ? "pass" : "fail"));
    for (std::size_t i = 0; i < changes.size(); ++i) {
      RuleCase one;
      one.hook = file.hook;
      one.file = file.name;
      one.rule = std::string(text_at(rule, "rule"));
      one.label = file.name + ": " + one.rule + ": " + (passes ? "pass " : "fail ") + std::to_string(i + 1);
      one.passes = passes;
      if (!passes && !words.empty()) one.words = words[std::min(i, words.size() - 1)].as_string();
      one.unreachable = std::string(text_at(rule, "unreachable"));
      one.change = changes[i];
      const std::string_view own = text_at(one.change, "operation");
      one.operation = operation_of(own.empty() ? text_at(rule, "operation") : own);
      if (one.change.is_object()) one.change.as_object().erase("operation");
      one.start = json::apply_merge_patch(map_of(file.document, "object"), map_of(rule, "given"));
      one.object = json::apply_merge_patch(one.start, one.change);
      one.options = map_of(file.document, "options");
      for (const auto& [name, value] : map_of(rule, "options").as_object()) one.options.as_object().set(name, value);
      one.resource_groups = std::string(text_at(file.document, "resourceGroups"));
      file.cases.push_back(std::move(one));
    }
  }
}

Result<RuleCaseFile> read_file(const std::filesystem::path& path) {
  RuleCaseFile file;
  file.name = path.filename().string();
  BASALT_TRY(const std::string text, read_text(path));
  auto document = yaml::read(text);
  if (!document.ok()) return Error::invalid_input(file.name + ": " + document.error().message);
  file.document = std::move(*document);
  file.hook = find_hook(text_at(file.document, "hook"));
  if (file.hook == nullptr) {
    return Error::invalid_input(file.name + ": there is no hook \"" + std::string(text_at(file.document, "hook")) +
                                "\"");
  }
  read_world(map_of(file.document, "cluster"), file.world);
  for (const json::Value& rule : list_at(file.document, "rules")) read_rule(file, rule);
  return file;
}

}  // namespace

std::string RuleCase::ns() const {
  return std::string(object.is_object() ? object.string_at({"metadata", "namespace"})
                                        : start.string_at({"metadata", "namespace"}));
}

Result<std::vector<RuleCaseFile>> read_rule_cases(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".yaml") paths.push_back(entry.path());
  }
  if (paths.empty()) return Error::make(Reason::NotFound, folder.string() + " has no files of cases");
  std::sort(paths.begin(), paths.end());
  std::vector<RuleCaseFile> files;
  for (const auto& path : paths) {
    BASALT_TRY(RuleCaseFile file, read_file(path));
    files.push_back(std::move(file));
  }
  return files;
}

RuleWorld joined_world(const std::vector<RuleCaseFile>& files) {
  RuleWorld all;
  std::set<std::string, std::less<>> queues;
  std::set<std::string> classes;
  for (const RuleCaseFile& file : files) {
    for (const json::Value& queue : file.world.queues) {
      if (queues.emplace(queue.string_at({"metadata", "name"})).second) all.queues.push_back(queue);
    }
    classes.insert(file.world.priority_classes.begin(), file.world.priority_classes.end());
    for (const auto& [name, annotations] : file.world.namespaces) all.namespaces.set(name, annotations);
  }
  all.priority_classes.assign(classes.begin(), classes.end());
  return all;
}

RuleOptions rule_options(const json::Value& wanted) {
  RuleOptions options;
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
  return options;
}

RuleBench::RuleBench(const RuleWorld& world, const json::Value& options, const std::string& resource_groups)
    : options_(rule_options(options)), context_{options_, cluster_, nullptr, {}} {
  const auto note = [this](const Done& done) {
    if (!done.ok()) problem_ += done.error().message + "\n";
  };
  for (const json::Value& queue : world.queues) note(cluster_.put_queue(queue));
  for (const auto& [name, annotations] : world.namespaces) {
    std::map<std::string, std::string, std::less<>> map;
    for (const auto& [key, value] : annotations.as_object()) map[key] = value.as_string();
    cluster_.put_namespace(name, std::move(map));
  }
  if (!world.priority_classes.empty()) cluster_.set_priority_classes(world.priority_classes);
  if (resource_groups.empty()) return;
  note(groups_.replace(resource_groups));
  context_.resource_groups = &groups_;
}

ReviewRequest request_of(const RuleCase& one) {
  ReviewRequest request;
  request.operation = one.operation;
  request.group = one.hook->group;
  request.version = one.hook->version;
  request.resource = one.hook->resource;
  request.ns = one.ns();
  request.name = one.object.string_at({"metadata", "name"});
  const bool is_delete = one.operation == Operation::Delete;
  if (!is_delete) request.object = &one.object;
  if (one.operation == Operation::Update) request.old_object = &one.start;
  if (is_delete) request.old_object = &one.object;
  return request;
}

ReviewAnswer RuleBench::review(const RuleCase& one) const {
  return webhooks::review(*one.hook, context_, request_of(one));
}

}  // namespace basalt::webhooks::testing
