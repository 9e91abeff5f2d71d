// The pure parts: names, mappings, answers of metadata services, configuration, placement.

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "controllers/datadependency/identity.h"
#include "controllers/datadependency/location_mapping.h"
#include "controllers/datadependency/placement.h"
#include "controllers/datadependency/plugins/plugin.h"
#include "controllers/datadependency/plugins/table_answers.h"
#include "json/value.h"

namespace basalt::controllers::datadependency {
namespace {

using Names = std::vector<std::string>;

json::Value parse(std::string_view text) {
  auto value = json::Value::parse(text);
  EXPECT_TRUE(value.ok()) << text;
  return value.ok() ? std::move(*value) : json::Value();
}

TEST(Identity, NamesAreThoseOfOtherControllersWhereTheyAreValid) {
  DataIdentity identity{"amoro", "table", "prod.db.orders", {}};
  EXPECT_EQ(data_source_name(identity), "amoro-table-prod.db.orders");
  identity.attributes = {{"snapshot", "42"}};
  EXPECT_EQ(data_source_name(identity), "amoro-table-prod.db.orders-462f6606");
  identity.attributes = {{"snapshot", "42"}, {"mode", "read"}};
  EXPECT_EQ(data_source_name(identity), "amoro-table-prod.db.orders-29a56153");
}

TEST(Identity, OtherNamesGetAHash) {
  const DataIdentity identity{"amoro", "table", "prod.db.user_table", {}};
  EXPECT_EQ(data_source_name(identity), "amoro-table-prod.db.user-table-b0d5c1e762");
  const DataIdentity odd{"S", "T", std::string(300, '_') + ".x", {}};
  EXPECT_LE(data_source_name(odd).size(), 253u);
  EXPECT_NE(hashed_data_source_name({"a", "b-c", "d", {}}), hashed_data_source_name({"a-b", "c", "d", {}}));
}

TEST(Identity, AbsentAndEmptyAttributesAreTheSame) {
  EXPECT_EQ((DataIdentity{"a", "b", "c", {}}).key(), (DataIdentity{"a", "b", "c", api::StringMap()}).key());
}

TEST(Identity, TheWorkloadIsInTheClaimsNamespaceIfItNamesNone) {
  api::datadependency::DataSourceClaim claim;
  claim.metadata.namespace_ = "team";
  claim.spec.workload = {"apps/v1", "Deployment", "web", "", {}};
  EXPECT_EQ(workload_key(claim), "apps/v1/Deployment/team/web");
  claim.spec.workload.kind = "";
  EXPECT_EQ(workload_key(claim), "");
}

TEST(LocationMapping, TheLongestPrefixDecides) {
  const LocationMapping mapping({{"s3://warehouse/", {"d"}},
                                 {"s3://warehouse/prod/", {"p1", "p2", "p1"}},
                                 {"s3://warehouse/prod/db1/", {"x"}},
                                 {"s3://warehouse/none/", {}}},
                                {{"s3a", "s3"}});
  EXPECT_EQ(mapping.clusters_of("s3://warehouse/prod/db1/t"), Names{"x"});
  EXPECT_EQ(mapping.clusters_of("s3://warehouse/prod/db2/t"), (Names{"p1", "p2"}));
  EXPECT_EQ(mapping.clusters_of("s3://warehouse/test/t"), Names{"d"});
  EXPECT_EQ(mapping.clusters_of("s3://warehouse/"), Names{"d"});
  EXPECT_EQ(mapping.clusters_of("s3://warehouse"), Names{"d"});
  EXPECT_EQ(mapping.clusters_of("S3A://Warehouse//prod//db1/t"), Names{"x"});
  EXPECT_EQ(mapping.clusters_of("s3://other/t"), Names{});
  EXPECT_EQ(mapping.clusters_of("s3://warehouse/none/t"), Names{}) << "no way back to a shorter prefix";
  EXPECT_EQ(LocationMapping({{"", {"a"}}}, {}).clusters_of("s3://x"), Names{});
}

TEST(LocationMapping, WarnsOfPrefixesThatMatchTheirNeighbours) {
  EXPECT_EQ(LocationMapping({{"s3://wh", {"a"}}}, {}).warnings().size(), 1u);
  EXPECT_EQ(LocationMapping({{"s3://wh/", {"a"}}}, {}).warnings().size(), 0u);
}

Result<net::HttpResponse> answer(int status, std::string body, net::Headers headers = {}) {
  return net::HttpResponse{status, std::move(headers), std::move(body)};
}

TEST(IcebergAnswers, TellTheirKindsApart) {
  EXPECT_EQ(read_iceberg_answer(answer(200, R"({"metadata":{"location":"s3://a/b"}})")).location, "s3://a/b");
  EXPECT_EQ(
      read_iceberg_answer(answer(200, R"({"metadata-location":"s3://a/b/metadata/1.json","metadata":{}})")).location,
      "s3://a/b");
  for (const char* body :
       {"<html>", R"({"metadata":{"location":7}})", R"({"metadata":{}})", R"({"metadata":{"location":"s)"})
    EXPECT_EQ(read_iceberg_answer(answer(200, body)).kind, ResolutionKind::Malformed) << body;
  EXPECT_EQ(read_iceberg_answer(answer(404, R"({"error":{"type":"NoSuchTableException","code":404}})")).kind,
            ResolutionKind::NotFound);
  EXPECT_EQ(read_iceberg_answer(answer(404, "<html>not here</html>")).kind, ResolutionKind::Misconfigured);
  EXPECT_EQ(read_iceberg_answer(answer(400, "")).kind, ResolutionKind::Unsupported);
  EXPECT_EQ(read_iceberg_answer(answer(401, "")).kind, ResolutionKind::Denied);
  EXPECT_EQ(read_iceberg_answer(answer(503, "")).kind, ResolutionKind::Unavailable);
  EXPECT_EQ(read_iceberg_answer(answer(429, "", {{"Retry-After", "500"}})).retry_after, std::chrono::seconds(60));
  EXPECT_EQ(read_iceberg_answer(Error::make(Reason::Unreachable, "refused")).kind, ResolutionKind::Unavailable);
}

TEST(IcebergAnswers, TheCatalogsConfigurationNamesThePrefix) {
  EXPECT_EQ(read_catalog_config(answer(200, R"({"defaults":{"prefix":"a"},"overrides":{"prefix":"b/c"}})")).location,
            "b/c");
  EXPECT_EQ(read_catalog_config(answer(200, R"({"defaults":{"prefix":"a"},"overrides":{}})")).location, "a");
  const TableAnswer none = read_catalog_config(answer(200, R"({"defaults":{},"overrides":{}})"));
  EXPECT_EQ(none.kind, ResolutionKind::Found);
  EXPECT_EQ(none.location, "");
  EXPECT_EQ(read_catalog_config(answer(200, "<html>")).kind, ResolutionKind::Malformed);
  EXPECT_EQ(read_catalog_config(answer(200, "{}")).kind, ResolutionKind::Malformed);
  EXPECT_EQ(read_catalog_config(answer(404, "")).kind, ResolutionKind::Misconfigured);
  EXPECT_EQ(read_catalog_config(answer(401, "")).kind, ResolutionKind::Denied);
  EXPECT_EQ(read_catalog_config(answer(503, "")).kind, ResolutionKind::Unavailable);
}

TEST(DashboardAnswers, HideTheirCodeInTheBody) {
  EXPECT_EQ(read_dashboard_answer(answer(200, R"({"code":200,"result":{"baseLocation":"s3://a"}})")).location,
            "s3://a");
  EXPECT_EQ(read_dashboard_answer(answer(200, R"({"code":403,"message":"x"})")).kind, ResolutionKind::Denied);
  EXPECT_EQ(read_dashboard_answer(answer(200, R"({"code":500,"message":"x"})")).kind, ResolutionKind::Unavailable);
  EXPECT_EQ(read_dashboard_answer(answer(200, R"({"code":200,"result":{}})")).kind, ResolutionKind::Unsupported);
  EXPECT_EQ(read_dashboard_answer(answer(200, "<html>")).kind, ResolutionKind::Malformed);
}

TEST(AmoroSignature, HasTheCheckValues) {
  EXPECT_EQ(amoro_signature("ak", "sk", {}, "20260101"), "960921ea3a94cb097fe8baf31bf52ff6");
  EXPECT_EQ(amoro_signature("ak", "sk", {{"keywords", "foo"}, {"page", "1"}}, "20260101"),
            "b7ed137640938877814ab4188bd558b2");
}

TEST(TableName, HasThreeParts) {
  EXPECT_EQ(parse_table_name("a.b.c")->table, "c");
  for (const char* name : {"a.b", "a.b.c.d", "a..c", ""}) EXPECT_FALSE(parse_table_name(name).ok()) << name;
}

TEST(PluginConfig, ReadsTheDocumentAndNamesWhatIsWrong) {
  const auto parsed = parse_plugin_config("amoro", R"({"endpoint":{"url":"http://ams/","port":1630,
      "auth":{"type":"Basic","username":"u","password":"p"}},"locationMapping":{"s3://a/":["m1"]},
      "retryConfig":{"maxRetries":1,"timeout":"5s"},"suprise":1})");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  EXPECT_EQ(parsed->config.base_url, "http://ams:1630");
  EXPECT_EQ(parsed->config.retry.retries_max, 1);
  EXPECT_EQ(parsed->config.retry.backoff_max, std::chrono::seconds(30)) << "defaults field by field";
  ASSERT_EQ(parsed->warnings.size(), 2u);
  const std::pair<const char*, const char*> wrong[] = {
      {R"({"locationMapping":{}})", "endpoint.url"},
      {R"({"endpoint":{"url":"x"},"retryConfig":{"timeout":5}})", "retryConfig.timeout"},
      {R"({"endpoint":{"url":"x","auth":{"type":"magic"}}})", "endpoint.auth.type"},
      {R"({"endpoint":{"url":"x"},"locationMapping":{"a":"b"}})", "locationMapping[\"a\"]"}};
  for (const auto& [text, field] : wrong) {
    const auto refused = parse_plugin_config("amoro", text);
    ASSERT_FALSE(refused.ok()) << text;
    EXPECT_NE(refused.error().message.find(field), std::string::npos) << refused.error().message;
  }
}

// A binding after the patch.
json::Value patched(json::Value binding, const std::optional<json::Value>& patch) {
  const std::function<void(json::Value&, const json::Value&)> merge = [&](json::Value& into, const json::Value& from) {
    for (const json::Member& member : from.as_object()) {
      if (member.value.is_null()) {
        into.as_object().erase(member.key);
      } else if (member.value.is_object() && into.find(member.key) != nullptr && into.find(member.key)->is_object()) {
        merge(*into.find(member.key), member.value);
      } else {
        into.as_object().set(member.key, member.value);
      }
    }
  };
  if (patch) merge(binding, *patch);
  return binding;
}

const Names kClusters = {"m1", "m2", "m3"};

ClaimOnWorkload bound(std::string uid, Names clusters) { return {std::move(uid), true, std::move(clusters)}; }

json::Value binding(std::string_view placement, bool scheduled = false) {
  return parse(R"({"metadata":{"name":"b","annotations":{}},"spec":{"placement":)" + std::string(placement) +
               R"(},"status":{)" + (scheduled ? R"("lastScheduledTime":"2026-01-01T00:00:00Z")" : "") + "}}");
}

std::string excluded(const json::Value& object) {
  const json::Value* list = object.find_path({"spec", "placement", "clusterAffinity", "exclude"});
  return list == nullptr ? "none" : list->to_text();
}

TEST(Placement, ExcludesWhatIsNotNearTheData) {
  const json::Value before = binding("{}");
  const PlacementPlan plan = plan_placement(before, {bound("u", {"m1", "m2"})}, kClusters);
  EXPECT_EQ(plan.verdict, PlacementVerdict::Injected);
  const json::Value after = patched(before, plan.patch);
  EXPECT_EQ(excluded(after), R"(["m3"])");
  EXPECT_EQ(after.string_at({"metadata", "annotations", kInjectedAnnotation}), "true");
  EXPECT_EQ(after.string_at({"metadata", "annotations", kExcludedAnnotation}), "m3");
  EXPECT_TRUE(may_be_scheduled(after, {bound("u", {"m1", "m2"})}));
  EXPECT_FALSE(plan_placement(after, {bound("u", {"m1", "m2"})}, kClusters).patch) << "no difference, no write";
}

TEST(Placement, KeepsWhatTheUserExcludes) {
  const json::Value before = binding(R"({"clusterAffinity":{"exclude":["m2"]}})");
  const std::vector<ClaimOnWorkload> claims = {bound("u", {"m1"})};
  const json::Value after = patched(before, plan_placement(before, claims, kClusters).patch);
  EXPECT_EQ(excluded(after), R"(["m2","m3"])");
  const json::Value freed = patched(after, plan_placement(after, {}, kClusters).patch);
  EXPECT_EQ(excluded(freed), R"(["m2"])");
  EXPECT_EQ(freed.string_at({"metadata", "annotations", kInjectedAnnotation}), "");
}

TEST(Placement, SaysWhenNoClusterFits) {
  const json::Value before = binding(R"({"clusterAffinity":{"clusterNames":["m3"]}})");
  EXPECT_EQ(plan_placement(before, {bound("u", {"m1"})}, kClusters).verdict, PlacementVerdict::NoFeasibleCluster);
  EXPECT_EQ(plan_placement(binding("{}"), {bound("u", {"gone"})}, kClusters).verdict,
            PlacementVerdict::NoFeasibleCluster);
}

TEST(Placement, EveryTermOfSeveralGetsTheExclusion) {
  const json::Value before =
      binding(R"({"clusterAffinities":[{"affinityName":"a"},{"affinityName":"b","exclude":["m3"]}]})");
  const json::Value after = patched(before, plan_placement(before, {bound("u", {"m1"})}, kClusters).patch);
  EXPECT_EQ(after.find_path({"spec", "placement", "clusterAffinities"})->to_text(),
            R"([{"affinityName":"a","exclude":["m2","m3"]},{"affinityName":"b","exclude":["m3","m2"]}])");
  EXPECT_EQ(after.find_path({"spec", "placement", "clusterAffinity"}), nullptr);
}

TEST(Placement, ClaimsThatContradictHoldOnlyWhatHasNotStarted) {
  const std::vector<ClaimOnWorkload> claims = {bound("u", {"m1"}), bound("v", {"m3"})};
  EXPECT_EQ(plan_placement(binding("{}"), claims, kClusters).verdict, PlacementVerdict::Contradiction);
  EXPECT_FALSE(may_be_scheduled(binding("{}"), claims));
  const json::Value running = binding(R"({"clusterAffinity":{"exclude":["m2","m3"]}})", true);
  EXPECT_FALSE(plan_placement(running, claims, kClusters).patch) << "what runs is left alone";
}

TEST(Placement, AClaimThatIsNotBoundHoldsTheGate) {
  const std::vector<ClaimOnWorkload> claims = {bound("u", {"m1"}), {"v", false, {}}};
  EXPECT_EQ(plan_placement(binding("{}"), claims, kClusters).verdict, PlacementVerdict::Waiting);
  EXPECT_FALSE(may_be_scheduled(binding("{}"), claims));
  EXPECT_EQ(plan_placement(binding("{}", true), claims, kClusters).verdict, PlacementVerdict::Injected)
      << "what runs follows the claims that are bound";
}

TEST(Placement, AnOverwrittenPlacementIsNoticedAndRepaired) {
  const json::Value before = binding("{}");
  const std::vector<ClaimOnWorkload> claims = {bound("u", {"m1"})};
  json::Value after = patched(before, plan_placement(before, claims, kClusters).patch);
  after.ensure_path({"spec", "placement"}) = json::Object();
  EXPECT_FALSE(may_be_scheduled(after, claims)) << "an annotation alone proves nothing";
  const PlacementPlan again = plan_placement(after, claims, kClusters);
  EXPECT_TRUE(again.was_overwritten);
  EXPECT_EQ(excluded(patched(after, again.patch)), R"(["m2","m3"])");
}

TEST(Placement, NewClustersAreExcludedAndGoneOnesForgotten) {
  const json::Value before = binding("{}");
  const std::vector<ClaimOnWorkload> claims = {bound("u", {"m1"})};
  const json::Value after = patched(before, plan_placement(before, claims, kClusters).patch);
  const json::Value more = patched(after, plan_placement(after, claims, {"m1", "m2", "m3", "m4"}).patch);
  EXPECT_EQ(excluded(more), R"(["m2","m3","m4"])");
  const json::Value fewer = patched(more, plan_placement(more, claims, {"m1", "m4"}).patch);
  EXPECT_EQ(excluded(fewer), R"(["m4"])");
}

TEST(Placement, TheEmptyListIsNeverWritten) {
  const json::Value before = binding("{}");
  const json::Value after = patched(before, plan_placement(before, {bound("u", kClusters)}, kClusters).patch);
  EXPECT_EQ(excluded(after), "none");
  EXPECT_TRUE(may_be_scheduled(after, {bound("u", kClusters)}));
}

}  // namespace
}  // namespace basalt::controllers::datadependency
