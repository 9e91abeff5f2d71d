// Flow schemas and priority levels. They are served, defaulted and checked; this server answers in the order in which
// requests come, so they change nothing.

#include "apiserver/builtin/fields.h"
#include "apiserver/builtin/kind_rules.h"
#include "apiserver/builtin/misc_types.h"
#include "apiserver/registry/metadata.h"
#include "base/strings.h"

namespace basalt::apiserver {
namespace {

constexpr std::string_view kGroup = "flowcontrol.apiserver.k8s.io";
// Defaults and limits of flowcontrol v1.
constexpr std::int64_t kPrecedence = 1000;
constexpr std::int64_t kPrecedenceMax = 10'000;
constexpr std::int64_t kShares = 30;
constexpr std::int64_t kQueues = 64;
constexpr std::int64_t kHandSize = 8;
constexpr std::int64_t kQueueLength = 50;

void default_flow_schema(json::Value& object) {
  json::Value* spec = object.find("spec");
  if (spec == nullptr || !spec->is_object()) return;
  set_default_int(spec->as_object(), "matchingPrecedence", kPrecedence);
}

void check_flow_rule(const json::Value& rule, const FieldPath& path, Causes& causes) {
  const json::Array& subjects = list_at(rule, "subjects");
  if (subjects.empty()) causes.push_back(required(path.text("subjects"), "subjects must contain at least one value"));
  constexpr std::string_view kKinds[] = {"Group", "ServiceAccount", "User"};
  const FieldPath subjects_path = path.child("subjects");
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    const FieldPath at = subjects_path.index(i);
    check_one_of(text_at(subjects[i], "kind"), at.child("kind"), kKinds, causes);
  }
  const json::Array& resources = list_at(rule, "resourceRules");
  const json::Array& urls = list_at(rule, "nonResourceRules");
  if (resources.empty() && urls.empty()) {
    causes.push_back(required(path.text(), "at least one of resourceRules and nonResourceRules has to be non-empty"));
  }
  for (const std::string_view name : {"resourceRules", "nonResourceRules"}) {
    const FieldPath list_path = path.child(name);
    const json::Array& rules = list_at(rule, name);
    for (std::size_t i = 0; i < rules.size(); ++i) {
      const FieldPath at = list_path.index(i);
      if (list_at(rules[i], "verbs").empty()) {
        causes.push_back(required(at.text("verbs"), "verbs must contain at least one value"));
      }
    }
  }
}

void validate_flow_schema(const json::Value& object, Causes& causes) {
  static const json::Value kNothing{json::Object()};
  const json::Value* found = member(object, "spec");
  const json::Value& spec = found != nullptr ? *found : kNothing;
  const FieldPath path("spec");
  const std::int64_t precedence = int_at(spec, "matchingPrecedence").value_or(0);
  if (precedence <= 0 || precedence > kPrecedenceMax) {
    causes.push_back(invalid_value(path.text("matchingPrecedence"), std::to_string(precedence),
                                   "must be between 1 and " + std::to_string(kPrecedenceMax)));
  }
  if (spec.string_at({"priorityLevelConfiguration", "name"}).empty()) {
    causes.push_back(required("spec.priorityLevelConfiguration.name", "must reference a priority level"));
  }
  if (const json::Value* method = member(spec, "distinguisherMethod")) {
    constexpr std::string_view kMethods[] = {"ByNamespace", "ByUser"};
    check_one_of(text_at(*method, "type"), FieldPath("spec.distinguisherMethod"), kMethods, causes);
  }
  const json::Array& rules = list_at(spec, "rules");
  const FieldPath rules_path = path.child("rules");
  for (std::size_t i = 0; i < rules.size(); ++i) check_flow_rule(rules[i], rules_path.index(i), causes);
}

json::Array flow_schema_cells(const json::Value& object, api::Time now) {
  const std::string_view method = object.string_at({"spec", "distinguisherMethod", "type"});
  std::string missing = "?";
  for (const json::Value& condition : list_at(object, {"status", "conditions"})) {
    if (text_at(condition, "type") == "Dangling") missing = text_at(condition, "status");
  }
  return {metadata_text(object, "name"),
          object.string_at({"spec", "priorityLevelConfiguration", "name"}),
          int_at(object, {"spec", "matchingPrecedence"}),
          or_none(method),
          age_of(object, now),
          missing};
}

void default_priority_level(json::Value& object) {
  json::Value* spec = object.find("spec");
  if (spec == nullptr || !spec->is_object()) return;
  const bool is_exempt = text_at(*spec, "type") == "Exempt";
  json::Object* part = ensure_map(spec->as_object(), is_exempt ? "exempt" : "limited");
  if (part == nullptr) return;
  set_default(*part, "nominalConcurrencyShares", is_exempt ? 0 : kShares);
  set_default(*part, "lendablePercent", 0);
  if (is_exempt) return;
  json::Value* response = part->find("limitResponse");
  json::Object* queuing = response != nullptr ? mutable_map(*response, "queuing") : nullptr;
  if (queuing == nullptr) return;
  set_default_int(*queuing, "queues", kQueues);
  set_default_int(*queuing, "handSize", kHandSize);
  set_default_int(*queuing, "queueLengthLimit", kQueueLength);
}

void validate_priority_level(const json::Value& object, Causes& causes) {
  static const json::Value kNothing{json::Object()};
  const json::Value* found = member(object, "spec");
  const json::Value& spec = found != nullptr ? *found : kNothing;
  constexpr std::string_view kTypes[] = {"Exempt", "Limited"};
  const FieldPath path("spec");
  const std::string_view type = text_at(spec, "type");
  check_one_of(type, path.child("type"), kTypes, causes);
  if (type == "Exempt" && member(spec, "limited") != nullptr) {
    causes.push_back(forbidden_field("spec.limited", "must be nil if the type is not Limited"));
  }
  if (type != "Limited") return;
  if (member(spec, "exempt") != nullptr) {
    causes.push_back(forbidden_field("spec.exempt", "must be nil if the type is Limited"));
  }
  const json::Value* limited = member(spec, "limited");
  if (limited == nullptr) {
    causes.push_back(required("spec.limited", "must not be empty when type is Limited"));
    return;
  }
  const FieldPath limited_path = path.child("limited");
  check_not_negative(*limited, "nominalConcurrencyShares", limited_path, causes);
  constexpr std::string_view kResponses[] = {"Queue", "Reject"};
  const std::string_view response = limited->string_at({"limitResponse", "type"});
  check_one_of(response, FieldPath("spec.limited.limitResponse.type"), kResponses, causes);
  if (response == "Queue" && limited->find_path({"limitResponse", "queuing"}) == nullptr) {
    causes.push_back(
        required("spec.limited.limitResponse.queuing", "must not be empty if limited.limitResponse.type is Limited"));
  }
  if (response == "Reject" && limited->find_path({"limitResponse", "queuing"}) != nullptr) {
    causes.push_back(
        forbidden_field("spec.limited.limitResponse.queuing", "must be nil if limitResponse.type is not Queue"));
  }
}

json::Array priority_level_cells(const json::Value& object, api::Time now) {
  const auto number = [&](std::initializer_list<std::string_view> path) -> json::Value {
    const json::Value* value = object.find_path(path);
    return value != nullptr && value->is_int() ? json::Value(value->as_int()) : json::Value("<none>");
  };
  return {metadata_text(object, "name"),
          object.string_at({"spec", "type"}),
          number({"spec", "limited", "nominalConcurrencyShares"}),
          number({"spec", "limited", "limitResponse", "queuing", "queues"}),
          number({"spec", "limited", "limitResponse", "queuing", "handSize"}),
          number({"spec", "limited", "limitResponse", "queuing", "queueLengthLimit"}),
          age_of(object, now)};
}

std::shared_ptr<const ResourceType> flow_type(std::string plural, std::string kind, KindRules rules,
                                              std::vector<PrinterColumn> columns) {
  rules.has_status = true;
  rules.has_generation = true;
  ResourceType type = basic_type(std::string(kGroup), "v1", std::move(plural), std::move(kind), false);
  type.has_status = true;
  type.has_generation = true;
  type.strategy = make_strategy(std::move(rules));
  type.columns = std::move(columns);
  return std::make_shared<const ResourceType>(std::move(type));
}

}  // namespace

TypeList flow_types() {
  KindRules schemas;
  schemas.defaults = default_flow_schema;
  schemas.validate = validate_flow_schema;
  schemas.cells = flow_schema_cells;
  KindRules levels;
  levels.defaults = default_priority_level;
  levels.validate = validate_priority_level;
  levels.cells = priority_level_cells;
  return {flow_type("flowschemas", "FlowSchema", std::move(schemas),
                    {name_column(), column("PriorityLevel", "string", "The level that its requests have."),
                     column("MatchingPrecedence", "string", "The lowest of those that match counts."),
                     column("DistinguisherMethod", "string", "What tells one flow from another."), age_column(),
                     column("MissingPL", "string", "Whether its level does not exist.")}),
          flow_type("prioritylevelconfigurations", "PriorityLevelConfiguration", std::move(levels),
                    {name_column(), column("Type", "string", "Limited or Exempt."),
                     column("NominalConcurrencyShares", "string", "Its share of the server."),
                     column("Queues", "string", "How many queues it has."),
                     column("HandSize", "string", "How many queues a flow may use."),
                     column("QueueLengthLimit", "string", "How many requests a queue holds."), age_column()})};
}

}  // namespace basalt::apiserver
