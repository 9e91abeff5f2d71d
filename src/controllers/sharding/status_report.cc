#include "controllers/sharding/status_report.h"

#include <utility>

namespace basalt::controllers::sharding {
namespace {

const kube::Resource kConfigMaps{"", "v1", "configmaps"};

std::int64_t integer_at(const json::Value& value, std::string_view key) {
  const json::Value* found = value.find(key);
  return found != nullptr && found->is_int() ? found->as_int() : 0;
}

}  // namespace

json::Value to_data(const ShardingStatus& status) {
  json::Array shards;
  for (const ShardingStatus::Shard& shard : status.shards) {
    shards.push_back(json::Object{{"name", shard.name},
                                  {"nodes", shard.nodes},
                                  {"minNodes", shard.nodes_min},
                                  {"maxNodes", shard.nodes_max},
                                  {"parts", shard.parts},
                                  {"missing", shard.missing},
                                  {"cut", shard.cut}});
  }
  json::Array flags;
  for (const std::string& flag : status.flags) flags.push_back(flag);
  const bool keeps_document = status.document.size() <= StatusReport::kDocumentMax;
  const json::Value body = json::Object{{"nodes", status.nodes},
                                        {"unassigned", status.unassigned},
                                        {"schedulerConfigs", std::move(flags)},
                                        {"shards", std::move(shards)}};
  return json::Object{{"configuration", status.configuration},
                      {"configurationVersion", status.configuration_version},
                      {"configurationProblem", status.configuration_problem},
                      {"sharding.yaml", keeps_document ? status.document : std::string()},
                      {"breaker", status.breaker},
                      {"writeProblem", status.write_problem},
                      {"status.json", body.to_text()}};
}

Result<ShardingStatus> from_data(const json::Value& data) {
  ShardingStatus status;
  status.configuration = std::string(data.string_at({"configuration"}));
  status.configuration_version = std::string(data.string_at({"configurationVersion"}));
  status.configuration_problem = std::string(data.string_at({"configurationProblem"}));
  status.document = std::string(data.string_at({"sharding.yaml"}));
  status.breaker = std::string(data.string_at({"breaker"}));
  status.write_problem = std::string(data.string_at({"writeProblem"}));
  BASALT_TRY(const json::Value body, json::Value::parse(data.string_at({"status.json"})));
  status.nodes = integer_at(body, "nodes");
  status.unassigned = integer_at(body, "unassigned");
  if (const json::Value* flags = body.find("schedulerConfigs"); flags != nullptr && flags->is_array()) {
    for (const json::Value& flag : flags->as_array()) {
      if (flag.is_string()) status.flags.push_back(flag.as_string());
    }
  }
  if (const json::Value* shards = body.find("shards"); shards != nullptr && shards->is_array()) {
    for (const json::Value& shard : shards->as_array()) {
      status.shards.push_back({std::string(shard.string_at({"name"})), integer_at(shard, "nodes"),
                               integer_at(shard, "minNodes"), integer_at(shard, "maxNodes"), integer_at(shard, "parts"),
                               integer_at(shard, "missing"), integer_at(shard, "cut")});
    }
  }
  return status;
}

StatusReport::StatusReport(rt::Runtime& runtime, kube::Client& client, std::string ns)
    : runtime_(runtime), client_(client), ns_(std::move(ns)) {}

void StatusReport::set(ShardingStatus status) { wanted_ = std::move(status); }

rt::Instant StatusReport::next() const { return written_ && *written_ == wanted_ ? rt::kNever : not_before_; }

void StatusReport::write(const rt::StopToken& stop) {
  const json::Value data = to_data(wanted_);
  kube::Request patch;
  patch.verb = kube::Verb::Patch;
  patch.resource = kConfigMaps;
  patch.ns = ns_;
  patch.name = std::string(kStatusConfigMap);
  patch.body = json::Value(json::Object{{"data", data}}).to_text();
  patch.timeout = std::chrono::seconds(5);
  Result<kube::Response> done = client_.call(patch, stop);
  if (!done.ok() && done.error().is(Reason::NotFound)) {
    kube::Request create = patch;
    create.verb = kube::Verb::Create;
    create.name.clear();
    create.body = json::Value(json::Object{{"apiVersion", "v1"},
                                           {"kind", "ConfigMap"},
                                           {"metadata", json::Object{{"name", kStatusConfigMap}, {"namespace", ns_}}},
                                           {"data", data}})
                      .to_text();
    done = client_.call(create, stop);
  }
  if (done.ok()) written_ = wanted_;
  not_before_ = rt::saturating_add(runtime_.now(), done.ok() ? kIntervalMin : kRetryAfter);
}

}  // namespace basalt::controllers::sharding
