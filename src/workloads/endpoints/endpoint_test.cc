#include <gtest/gtest.h>

#include <set>

#include "controllers/queue/testing/fault_enumeration.h"
#include "rt/sim_test_support.h"
#include "workloads/endpoints/endpoint_plan.h"
#include "workloads/testing/workload_fixture.h"

namespace basalt::workloads {
namespace {

using controllers::testing::FaultStory;
using std::chrono::minutes;
using std::chrono::seconds;
using Fixture = testing::WorkloadFixture;
using testing::Fate;

Object service_of(std::string_view spec) {
  auto service = json::from_text<Object>(R"({"metadata":{"name":"s","namespace":"default","uid":"u"},"spec":)" +
                                         std::string(spec) + "}");
  EXPECT_TRUE(service.ok());
  return *service;
}

PodPtr pod_at(std::string_view name, std::string_view address, std::int32_t http_port) {
  auto pod = std::make_shared<Pod>();
  pod->metadata.name = name;
  pod->metadata.uid = name;
  pod->metadata.namespace_ = "default";
  pod->phase = "Running";
  pod->is_ready = true;
  pod->address = address;
  if (http_port != 0) pod->ports.push_back({"http", "TCP", http_port});
  return pod;
}

TEST(EndpointPlan, NamedPortsAreThePodsOwn) {
  const Object service = service_of(R"({"selector":{"a":"b"},"ports":[{"name":"web","port":80,"targetPort":"http"}]})");
  const auto backends =
      backends_of(service, {pod_at("a", "10.0.0.1", 8080), pod_at("b", "10.0.0.2", 9090), pod_at("c", "10.0.0.3", 0)});
  ASSERT_EQ(backends.size(), 2u);  // c has no such port
  EXPECT_EQ(json::Value(backends[0].ports).to_text(), R"([{"name":"web","port":8080,"protocol":"TCP"}])");
  EXPECT_EQ(json::Value(backends[1].ports).to_text(), R"([{"name":"web","port":9090,"protocol":"TCP"}])");
  EXPECT_EQ(list_at(endpoints_of(service, backends), {"subsets"}).size(), 2u);
}

TEST(EndpointPlan, AHeadlessServiceNeedsNoPorts) {
  const Object service = service_of(R"({"clusterIP":"None","selector":{"a":"b"}})");
  const json::Value endpoints = endpoints_of(service, backends_of(service, {pod_at("a", "10.0.0.1", 0)}));
  ASSERT_EQ(list_at(endpoints, {"subsets"}).size(), 1u);
  EXPECT_EQ(list_at(endpoints, {"subsets"}).front().find("ports"), nullptr);
}

TEST(EndpointPlan, SlicesHoldAHundredAndEndpointsStayWhereTheyAre) {
  const Object service = service_of(R"({"selector":{"a":"b"},"ports":[{"port":80}]})");
  std::vector<PodPtr> pods;
  for (int i = 0; i < 250; ++i) pods.push_back(pod_at("p" + std::to_string(1000 + i), "10.0.0.1", 0));
  SlicePlan plan = plan_slices(service, backends_of(service, pods), {});
  ASSERT_EQ(plan.creates.size(), 3u);
  std::vector<std::shared_ptr<const Object>> present;
  for (json::Value& slice : plan.creates) {
    slice.ensure_path({"metadata", "name"}) = "s-" + std::to_string(present.size());
    present.push_back(std::make_shared<const Object>(*json::from_text<Object>(slice.to_text())));
  }
  EXPECT_TRUE(plan_slices(service, backends_of(service, pods), present).changes.empty());
  pods.erase(pods.begin());  // only the slice that it was in changes, besides one that gives to it
  plan = plan_slices(service, backends_of(service, pods), present);
  EXPECT_EQ(plan.changes.size(), 1u);
  EXPECT_TRUE(plan.creates.empty());
  pods.resize(20);
  plan = plan_slices(service, backends_of(service, pods), present);
  EXPECT_EQ(plan.deletes.size(), 2u);
}

constexpr std::string_view kService =
    "{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {selector: {app: web}, ports: [{name: http, port: "
    "80, targetPort: 8080}]}}";

void apply_set(Fixture& f, int replicas) {
  f.cluster.apply(
      "{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: web}, spec: {replicas: " + std::to_string(replicas) +
      ", selector: {matchLabels: {app: web}}, template: " + testing::pod_template("web", "i") + "}}");
}
std::size_t addresses(Fixture& f, std::string_view which) {
  const auto endpoints = f.cluster.get(resources::kEndpoints, "default", "web");
  std::size_t sum = 0;
  if (!endpoints) return 9999;
  for (const json::Value& subset : list_at(*endpoints, {"subsets"})) sum += list_at(subset, {which}).size();
  return sum;
}
std::size_t ready_in_slices(Fixture& f) {
  std::size_t sum = 0;
  for (const json::Value& slice : f.cluster.list(resources::kSlices, "default")) {
    for (const json::Value& endpoint : list_at(slice, {"endpoints"}))
      sum += flag_at(endpoint, {"conditions", "ready"}) ? 1 : 0;
  }
  return sum;
}

TEST(Endpoints, FollowThePods) {
  rt::run_seeds(1, 4, [](rt::SimRuntime& runtime) {
    Fixture f(runtime);
    f.start();
    f.cluster.apply(kService);
    EXPECT_TRUE(f.wait([&] { return addresses(f, "addresses") == 0; }));
    apply_set(f, 3);
    EXPECT_TRUE(f.wait([&] { return addresses(f, "addresses") == 3 && ready_in_slices(f) == 3; }));
    const auto endpoints = *f.cluster.get(resources::kEndpoints, "default", "web");
    EXPECT_EQ(int_at(list_at(list_at(endpoints, {"subsets"}).front(), {"ports"}).front(), {"port"}), 8080);
    f.cluster.patch(resources::kReplicaSets, "default", "web", R"({"spec":{"replicas":1}})");
    EXPECT_TRUE(f.wait([&] { return addresses(f, "addresses") == 1 && ready_in_slices(f) == 1; }));
    f.rest(seconds(2));
    const auto writes = f.process->writes("endpoints");
    f.rest(minutes(30));
    EXPECT_EQ(f.process->writes("endpoints"), writes);
    f.cluster.remove(resources::kServices, "default", "web");
    EXPECT_TRUE(f.wait([&] {
      return !f.cluster.get(resources::kEndpoints, "default", "web") &&
             f.cluster.list(resources::kSlices, "default").empty();
    }));
  });
}

TEST(Endpoints, WhatIsNotReadyIsListedApart) {
  rt::run_seeds(1, 4, [](rt::SimRuntime& runtime) {
    Fixture f(runtime, [](const Pod&) { return Fate{.becomes_ready = false}; });
    f.start();
    f.cluster.apply(kService);
    apply_set(f, 2);
    EXPECT_TRUE(f.wait([&] { return addresses(f, "notReadyAddresses") == 2; }));
    EXPECT_EQ(ready_in_slices(f), 0u);
    f.cluster.patch(resources::kServices, "default", "web", R"({"spec":{"publishNotReadyAddresses":true}})");
    EXPECT_TRUE(f.wait([&] { return addresses(f, "addresses") == 2 && ready_in_slices(f) == 2; }));
  });
}

TEST(Endpoints, OfServicesWithoutASelectorAreNotTouched) {
  rt::run_seeds(1, 2, [](rt::SimRuntime& runtime) {
    Fixture f(runtime);
    f.start();
    f.cluster.apply("{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {ports: [{port: 80}]}}");
    f.cluster.apply(
        "{apiVersion: v1, kind: Endpoints, metadata: {name: web}, subsets: [{addresses: [{ip: 1.2.3.4}], ports: "
        "[{port: 80}]}]}");
    apply_set(f, 1);
    f.rest(seconds(30));
    EXPECT_EQ(addresses(f, "addresses"), 1u);
    f.cluster.remove(resources::kServices, "default", "web");
    f.rest(seconds(30));
    EXPECT_EQ(addresses(f, "addresses"), 1u);
  });
}

void play(Fixture& f) {
  f.cluster.apply(kService);
  apply_set(f, 2);
  f.rest(seconds(10));
  f.cluster.patch(resources::kReplicaSets, "default", "web", R"({"spec":{"replicas":1}})");
  f.rest(seconds(6));
}

void check_end(Fixture& f) {
  EXPECT_EQ(addresses(f, "addresses"), 1u);
  EXPECT_EQ(ready_in_slices(f), 1u);
  EXPECT_EQ(f.cluster.list(resources::kSlices, "default").size(), 1u);
}

FaultStory<Fixture> story() {
  return {"endpoints", [](rt::SimRuntime& runtime) { return std::make_unique<Fixture>(runtime); }, &play, &check_end};
}

TEST(EndpointsFaults, ACrashAtEveryCall) { controllers::testing::crash_at_every_call(story()); }
TEST(EndpointsFaults, AFailureOfEveryCall) { controllers::testing::fail_every_call(story()); }
TEST(EndpointsFaults, FailingCallsAndLateEvents) { controllers::testing::play_under_random_faults(story(), 20); }

}  // namespace
}  // namespace basalt::workloads
