#include "controllers/sharding/configuration.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "api/duration.h"
#include "api/names.h"
#include "base/check.h"
#include "base/strings.h"
#include "controllers/sharding/options.h"
#include "yaml/reader.h"

namespace basalt::controllers::sharding {
namespace {

Error problem(const std::string& where, std::string_view what) {
  return Error::invalid_input(where + ": " + std::string(what));
}

// The members of one map of the document. Each is asked for by name; what nobody asked for is an error.
class Fields {
 public:
  Fields(std::string where, const json::Object& object) : where_(std::move(where)), object_(object) {}

  const json::Value* take(std::string_view key) {
    asked_.emplace_back(key);
    const json::Value* value = find_folded(object_, key);
    return value == nullptr || value->is_null() ? nullptr : value;
  }
  [[nodiscard]] std::string at(std::string_view key) const {
    return where_.empty() ? std::string(key) : where_ + "." + std::string(key);
  }
  // A number or boolean where a text belongs is that text.
  Result<std::string> text(std::string_view key) {
    const json::Value* value = take(key);
    if (value == nullptr) return std::string();
    if (value->is_string()) return value->as_string();
    if (value->is_bool() || value->is_number()) return value->to_text();
    return problem(at(key), "must be a string");
  }
  Result<double> number(std::string_view key, double fallback) {
    const json::Value* value = take(key);
    if (value == nullptr) return fallback;
    if (!value->is_number()) return problem(at(key), "must be a number, not " + value->to_text());
    return value->as_double();
  }
  Result<std::int64_t> integer(std::string_view key, std::int64_t fallback) {
    const json::Value* value = take(key);
    if (value == nullptr) return fallback;
    if (!value->is_int()) return problem(at(key), "must be an integer, not " + value->to_text());
    if (value->as_int() > 1'000'000'000 || value->as_int() < -1'000'000'000)
      return problem(at(key), "must be below 1000000000");
    return value->as_int();
  }
  Result<std::optional<bool>> truth(std::string_view key) {
    const json::Value* value = take(key);
    if (value == nullptr) return std::optional<bool>();
    if (!value->is_bool()) return problem(at(key), "must be true or false, not " + value->to_text());
    return std::optional<bool>(value->as_bool());
  }
  Done finish() {
    std::vector<std::string_view> known(asked_.begin(), asked_.end());
    for (const json::Member& member : object_) {
      const std::string folded = folded_key(member.key);
      const bool is_known =
          std::any_of(asked_.begin(), asked_.end(), [&](const std::string& key) { return folded_key(key) == folded; });
      if (!is_known) return problem(at(member.key), "is not a key of this map" + base::did_you_mean(member.key, known));
      if (!seen_.insert(folded).second) return problem(at(member.key), "is given twice, in two spellings");
    }
    return Ok{};
  }

 private:
  const std::string where_;
  const json::Object& object_;
  std::vector<std::string> asked_;
  std::set<std::string> seen_;
};

// The scalars from before there were policies.
struct Legacy {
  double utilization_min = 0;
  double utilization_max = 0;
  bool prefer_warmup = false;
  std::int64_t nodes_min = 0;
  std::int64_t nodes_max = 0;
  json::Value arguments;
};

Done check_legacy(const std::string& where, const Legacy& legacy) {
  const auto in_unit = [](double value) { return value >= 0 && value <= 1; };
  if (!in_unit(legacy.utilization_min)) return problem(where + ".cpuUtilizationMin", "must be between 0 and 1");
  if (!in_unit(legacy.utilization_max)) return problem(where + ".cpuUtilizationMax", "must be between 0 and 1");
  if (legacy.utilization_min > legacy.utilization_max)
    return problem(where + ".cpuUtilizationMin", "must not be above cpuUtilizationMax");
  if (legacy.nodes_min < 0) return problem(where + ".minNodes", "must be at least 0");
  if (legacy.nodes_max < legacy.nodes_min) return problem(where + ".maxNodes", "must not be below minNodes");
  return Ok{};
}

json::Value range_arguments(double min, double max) {
  return json::Object{{"minCPUUtil", json::Value(min)}, {"maxCPUUtil", json::Value(max)}};
}

// Turns the scalars into policies.
void synthesize(SchedulerEntry& entry, const Legacy& legacy) {
  if (entry.policies.empty()) {
    const bool has_arguments = legacy.arguments.is_object() && !legacy.arguments.as_object().empty();
    entry.policies.push_back(
        {"allocation-rate", 1,
         has_arguments ? legacy.arguments : range_arguments(legacy.utilization_min, legacy.utilization_max)});
    if (legacy.prefer_warmup) entry.policies.push_back({"warmup", 1, {}});
  }
  const bool has_limit = std::any_of(entry.policies.begin(), entry.policies.end(),
                                     [](const PolicyEntry& policy) { return policy.name == "node-limit"; });
  if (!has_limit && (legacy.nodes_min > 0 || legacy.nodes_max > 0)) {
    entry.policies.push_back(
        {"node-limit", 1,
         json::Object{{"minNodes", json::Value(legacy.nodes_min)}, {"maxNodes", json::Value(legacy.nodes_max)}}});
  }
}

Result<PolicyEntry> read_policy(const std::string& where, const json::Value& value) {
  if (!value.is_object()) return problem(where, "must be a map with a name");
  Fields fields(where, value.as_object());
  PolicyEntry policy;
  BASALT_TRY(policy.name, fields.text("name"));
  if (policy.name.empty()) return problem(where + ".name", "must not be empty");
  BASALT_TRY(policy.weight, fields.integer("weight", 1));
  if (policy.weight < 0 || policy.weight > kWeightMax)
    return problem(where + ".weight", "must be between 0 and 1000000");
  if (policy.weight == 0) policy.weight = 1;
  if (const json::Value* arguments = fields.take("arguments"); arguments != nullptr) policy.arguments = *arguments;
  BASALT_TRY_DONE(fields.finish());
  return policy;
}

Done read_policies(const std::string& where, const json::Value& value, std::vector<PolicyEntry>& policies) {
  if (!value.is_array()) return problem(where, "must be a list");
  if (value.as_array().size() > kPoliciesMax) return problem(where, "may have at most 32 entries");
  for (std::size_t i = 0; i < value.as_array().size(); ++i) {
    BASALT_TRY(PolicyEntry policy, read_policy(where + "[" + std::to_string(i) + "]", value.as_array()[i]));
    policies.push_back(std::move(policy));
  }
  return Ok{};
}

Result<int> read_partitions(Fields& fields) {
  const json::Value* value = fields.take("partitions");
  if (value == nullptr) return 1;
  if (value->is_string() && value->as_string() == "auto") return kPartitionsAuto;
  if (!value->is_int() || value->as_int() < 1 || value->as_int() > kPartitionsMax)
    return problem(fields.at("partitions"), "must be a number between 1 and 1000, or auto");
  return static_cast<int>(value->as_int());
}

Result<SchedulerEntry> read_scheduler(const std::string& where, const json::Value& value,
                                      std::vector<std::string>& warnings) {
  if (!value.is_object()) return problem(where, "must be a map with a name");
  Fields fields(where, value.as_object());
  SchedulerEntry entry;
  BASALT_TRY(entry.name, fields.text("name"));
  if (entry.name.empty()) return problem(where + ".name", "must not be empty");
  BASALT_TRY(entry.type, fields.text("type"));
  Legacy legacy;
  BASALT_TRY(legacy.utilization_min, fields.number("cpuUtilizationMin", 0));
  BASALT_TRY(legacy.utilization_max, fields.number("cpuUtilizationMax", 0));
  BASALT_TRY(legacy.nodes_min, fields.integer("minNodes", 0));
  BASALT_TRY(legacy.nodes_max, fields.integer("maxNodes", 0));
  BASALT_TRY(const std::optional<bool> prefers, fields.truth("preferWarmupNodes"));
  legacy.prefer_warmup = prefers.value_or(false);
  BASALT_TRY_DONE(check_legacy(where, legacy));
  if (const json::Value* arguments = fields.take("arguments"); arguments != nullptr) {
    if (!arguments->is_object()) return problem(where + ".arguments", "must be a map");
    legacy.arguments = *arguments;
  }
  if (const json::Value* policies = fields.take("policies"); policies != nullptr) {
    BASALT_TRY_DONE(read_policies(where + ".policies", *policies, entry.policies));
  }
  BASALT_TRY(entry.partitions, read_partitions(fields));
  BASALT_TRY_DONE(fields.finish());
  if (entry.policies.empty()) warnings.push_back(where + ": is written without policies, a deprecated form");
  synthesize(entry, legacy);
  return entry;
}

// Policies are made, so that every argument is checked before anything is taken over.
Done compile(Configuration& configuration, int slack, RequestModel model, UtilizationBase base,
             std::string_view list_name) {
  auto rules = std::make_shared<RuleSet>();
  rules->slack = slack;
  rules->catalog.request_model = model;
  rules->catalog.base = base;
  std::set<std::string, std::less<>> names;
  for (std::size_t i = 0; i < configuration.schedulers.size(); ++i) {
    const SchedulerEntry& entry = configuration.schedulers[i];
    const std::string where = std::string(list_name) + "[" + std::to_string(i) + "]";
    if (const api::Complaints complaints = api::dns1123_subdomain_complaints(entry.name); !complaints.empty())
      return problem(where + ".name", base::quote(entry.name) + " cannot name a NodeShard: " + complaints.front());
    if (!names.insert(entry.name).second)
      return problem(where + ".name", base::quote(entry.name) + " is the name of an earlier scheduler, too");
    Rule rule{.name = entry.name, .type = entry.type, .steps = {}, .limits = {}, .partitions = entry.partitions};
    for (std::size_t p = 0; p < entry.policies.size(); ++p) {
      const PolicyEntry& policy = entry.policies[p];
      BASALT_TRY(PolicyPtr made, make_policy(policy.name, where + ".policies[" + std::to_string(p) + "]",
                                             &policy.arguments, rules->catalog));
      made->limit(rule.limits);
      rules->uses_forecast = rules->uses_forecast || policy.name == "forecast";
      rule.steps.push_back({std::move(made), static_cast<double>(policy.weight)});
    }
    rules->rules.push_back(std::move(rule));
  }
  // A partition of one entry may not be called like another entry.
  for (const Rule& rule : rules->rules) {
    if (rule.partitions == 1) continue;
    for (const std::string& name : names) {
      const auto rest = base::strip_prefix(name, rule.name + "-");
      if (rest && base::parse_uint64(*rest))
        return problem(std::string(list_name),
                       base::quote(name) + " is also the name of a partition of " + base::quote(rule.name));
    }
  }
  configuration.rules = std::move(rules);
  return Ok{};
}

Done read_schedulers(Fields& fields, Configuration& configuration) {
  const json::Value* schedulers = fields.take("schedulerConfigs");
  if (schedulers == nullptr || (schedulers->is_array() && schedulers->as_array().empty()))
    return problem("schedulerConfigs", "must list at least one scheduler");
  if (!schedulers->is_array()) return problem("schedulerConfigs", "must be a list");
  if (schedulers->as_array().size() > kSchedulersMax)
    return problem("schedulerConfigs", "may have at most 100 entries");
  for (std::size_t i = 0; i < schedulers->as_array().size(); ++i) {
    BASALT_TRY(SchedulerEntry entry, read_scheduler("schedulerConfigs[" + std::to_string(i) + "]",
                                                    schedulers->as_array()[i], configuration.warnings));
    configuration.schedulers.push_back(std::move(entry));
  }
  return Ok{};
}

Result<rt::Duration> read_duration(Fields& fields, std::string_view key) {
  BASALT_TRY(const std::string text, fields.text(key));
  if (text.empty()) return rt::Duration::zero();
  BASALT_TRY(const api::Duration parsed, api::Duration::parse(text));
  return rt::Duration(parsed.value);
}

Result<double> read_fraction(std::string_view text) {
  const std::string lower = base::to_lower_ascii(text);
  if (lower == "inf" || lower == "infinity" || lower == "+inf" || lower == "+infinity") return 1.0;
  if (lower == "-inf" || lower == "-infinity") return 0.0;
  const auto value = base::parse_double(text);
  if (!value) return Error::invalid_input(base::quote(text) + " is no number");
  return *value;
}

Result<bool> read_truth(std::string_view text) {
  for (const std::string_view word : {"1", "t", "T", "TRUE", "true", "True"})
    if (text == word) return true;
  for (const std::string_view word : {"0", "f", "F", "FALSE", "false", "False"})
    if (text == word) return false;
  return Error::invalid_input(base::quote(text) + " is neither true nor false");
}

Result<SchedulerEntry> read_flag_entry(std::string_view text, std::vector<std::string>& warnings) {
  const std::vector<std::string_view> parts = base::split(text, ':');
  if (parts.size() != 7)
    return Error::invalid_input("has " + std::to_string(parts.size()) +
                                " parts; it needs name:type:minUtil:maxUtil:preferWarmup:minNodes:maxNodes");
  SchedulerEntry entry;
  entry.name = std::string(parts[0]);
  entry.type = std::string(parts[1]);
  if (entry.name.empty()) return Error::invalid_input("has no name");
  Legacy legacy;
  BASALT_TRY(legacy.utilization_min, read_fraction(parts[2]));
  BASALT_TRY(legacy.utilization_max, read_fraction(parts[3]));
  BASALT_TRY(const bool prefers, read_truth(parts[4]));
  const auto nodes_min = base::parse_int64(parts[5]);
  const auto nodes_max = base::parse_int64(parts[6]);
  if (!nodes_min || !nodes_max) return Error::invalid_input("has node counts that are no integers");
  legacy.nodes_min = *nodes_min;
  legacy.nodes_max = *nodes_max;
  BASALT_TRY_DONE(check_legacy("", legacy));
  if (prefers) {
    warnings.push_back("--scheduler-configs: the warm-up preference of " + base::quote(entry.name) +
                       " has no effect in this form; add the policy warmup in the ConfigMap");
  }
  synthesize(entry, legacy);
  return entry;
}

}  // namespace

Result<Configuration> read_document(std::string_view text) {
  BASALT_TRY(const json::Value document, yaml::read(text, {.size_bytes_max = 1 << 20}));
  if (document.is_null()) return Error::invalid_input("the document is empty; list schedulers under schedulerConfigs");
  if (!document.is_object()) return Error::invalid_input("the document must be a map with the key schedulerConfigs");
  Fields fields("", document.as_object());
  Configuration configuration;
  BASALT_TRY_DONE(read_schedulers(fields, configuration));
  if (Result<rt::Duration> period = read_duration(fields, "shardSyncPeriod"); !period.ok()) {
    configuration.warnings.push_back("shardSyncPeriod is ignored: " + period.error().message);
  } else if (fields.take("shardSyncPeriod") != nullptr) {
    configuration.sync_period = *period;
  }
  BASALT_TRY(configuration.node_event_trigger, fields.truth("enableNodeEventTrigger"));
  BASALT_TRY(configuration.utilization_threshold, fields.number("utilizationThreshold", 0.5));
  if (!(configuration.utilization_threshold >= 0 && configuration.utilization_threshold <= 1))
    return problem("utilizationThreshold", "must be between 0 and 1");
  BASALT_TRY(const double hysteresis, fields.number("hysteresis", 0));
  if (!(hysteresis >= 0 && hysteresis <= 0.5)) return problem("hysteresis", "must be between 0 and 0.5");
  BASALT_TRY(const std::optional<bool> status, fields.truth("writeStatus"));
  configuration.write_status = status.value_or(true);
  BASALT_TRY(configuration.handover_grace, read_duration(fields, "handoverGrace"));
  BASALT_TRY(configuration.object_bytes_max, fields.integer("objectBytesMax", configuration.object_bytes_max));
  if (configuration.object_bytes_max < 10'000 || configuration.object_bytes_max > 1'500'000)
    return problem("objectBytesMax", "must be between 10000 and 1500000");
  BASALT_TRY(configuration.fan_out_bytes_max, fields.integer("fanOutBytesMax", configuration.fan_out_bytes_max));
  if (configuration.fan_out_bytes_max < 1'000'000) return problem("fanOutBytesMax", "must be at least 1000000");
  BASALT_TRY(const std::string model, fields.text("podRequestModel"));
  if (!model.empty() && model != "containers" && model != "effective")
    return problem("podRequestModel", "must be containers or effective, not " + base::quote(model));
  BASALT_TRY(const std::string divisor, fields.text("utilizationBase"));
  if (!divisor.empty() && divisor != "capacity" && divisor != "allocatable")
    return problem("utilizationBase", "must be capacity or allocatable, not " + base::quote(divisor));
  BASALT_TRY_DONE(fields.finish());
  BASALT_TRY_DONE(compile(
      configuration, bucket_of(hysteresis), model == "effective" ? RequestModel::Effective : RequestModel::Containers,
      divisor == "allocatable" ? UtilizationBase::Allocatable : UtilizationBase::Capacity, "schedulerConfigs"));
  return configuration;
}

Result<Configuration> read_scheduler_flags(std::span<const std::string> entries) {
  Configuration configuration;
  for (const std::string& text : entries) {
    Result<SchedulerEntry> entry = read_flag_entry(text, configuration.warnings);
    if (!entry.ok()) return entry.error().with_context("--scheduler-configs: the entry " + base::quote(text));
    configuration.schedulers.push_back(std::move(entry).value());
  }
  if (configuration.schedulers.empty() || configuration.schedulers.size() > kSchedulersMax)
    return Error::invalid_input("--scheduler-configs: must have between 1 and 100 entries");
  BASALT_TRY_DONE(
      compile(configuration, 0, RequestModel::Containers, UtilizationBase::Capacity, "--scheduler-configs"));
  return configuration;
}

Configuration built_in_configuration() {
  Result<Configuration> built_in = read_scheduler_flags(ShardingOptions().scheduler_configs);
  BASALT_CHECK_MSG(built_in.ok(), "the built-in schedulers are well-formed");
  return std::move(built_in).value();
}

std::string shard_object_name(const Rule& rule, int partition, int partitions) {
  // Whoever asked for partitions gets numbered names even for one, so that a growing set renames nothing.
  if (rule.partitions == 1 && partitions == 1) return rule.name;
  return rule.name + "-" + std::to_string(partition);
}

}  // namespace basalt::controllers::sharding
