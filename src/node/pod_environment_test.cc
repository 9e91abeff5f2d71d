#include "node/pod_environment.h"

#include <gtest/gtest.h>

#include <map>

#include "json/reader.h"
#include "node/pod_names.h"
#include "node/pod_volumes.h"
#include "node/testing/local_cluster.h"
#include "yaml/reader.h"

namespace basalt::node {
namespace {

api::core::Pod pod_of(std::string_view text) {
  const auto value = yaml::read(text);
  EXPECT_TRUE(value.ok());
  auto pod = json::from_text<api::core::Pod>(value->to_text());
  EXPECT_TRUE(pod.ok());
  return std::move(*pod);
}

// Objects that are there, by name.
class Shelf final : public PodObjects {
 public:
  Result<api::core::ConfigMap> config_map(const std::string&, const std::string& name) override {
    if (name != "m") return Error::make(Reason::NotFound, "configmaps \"" + name + "\" not found");
    api::core::ConfigMap map;
    map.metadata.name = name;
    map.data = {{"a", "1"}, {"b-c", "2"}, {"bad=name", "3"}};
    return map;
  }
  Result<api::core::Secret> secret(const std::string&, const std::string& name) override {
    if (name != "s") return Error::make(Reason::NotFound, "secrets \"" + name + "\" not found");
    api::core::Secret secret;
    secret.metadata.name = name;
    secret.data = {{"k", "aGlkZGVu"}};
    return secret;
  }
  Done claim(const std::string&, const std::string& name) override {
    if (name == "disk") return Ok{};
    return Error::make(Reason::NotFound, "persistentvolumeclaims \"" + name + "\" not found");
  }
  Result<std::string> token(const api::core::Pod& pod, const TokenWish& wish) override {
    return "token " + std::to_string(++tokens_made) + " of " + pod.spec.service_account_name + " for " +
           (wish.audience.empty() ? "us" : wish.audience) + ", " + std::to_string(wish.seconds) + " s";
  }

  int tokens_made = 0;
};

TEST(PodEnvironment, VariablesExpandAsKubernetesDoes) {
  const Environment env = {{"A", "1"}, {"B", "$(A)"}};
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"$(A)", "1"},    {"x$(A)y", "x1y"},    {"$(NOPE)", "$(NOPE)"}, {"$$(A)", "$(A)"},
      {"$$$(A)", "$1"}, {"$$$$(A)", "$$(A)"}, {"$A", "$A"},           {"$(A", "$(A"},
      {"$", "$"},       {"$()", "$()"},       {"$(B)", "$(A)"},       {"$(A)$(A)", "11"},
      {"", ""},
  };
  for (const auto& [text, expected] : rows) {
    EXPECT_EQ(expand_variables(text, env), expected) << text;
  }
}

TEST(PodEnvironment, WhatIsMissingIsNamed) {
  Shelf shelf;
  const auto error_of = [&](std::string_view variable) {
    const api::core::Pod pod = pod_of("{metadata: {name: p, namespace: default}, spec: {containers: [{name: c, env: [" +
                                      std::string(variable) + "]}]}}");
    const auto env = container_environment(pod, pod.spec.containers[0], {}, {}, shelf);
    return env.ok() ? std::string() : env.error().message;
  };
  EXPECT_EQ(error_of("{name: V, valueFrom: {configMapKeyRef: {name: m, key: zz}}}"),
            "environment variable V: couldn't find key zz in ConfigMap default/m");
  EXPECT_EQ(error_of("{name: V, valueFrom: {secretKeyRef: {name: x, key: zz}}}"),
            "environment variable V: secrets \"x\" not found");
  EXPECT_EQ(error_of("{name: V, valueFrom: {fieldRef: {fieldPath: spec.nope}}}"),
            "environment variable V: fieldPath \"spec.nope\" is not offered by the downward API");
  EXPECT_EQ(error_of("{name: V, valueFrom: {secretKeyRef: {name: x, key: zz, optional: true}}}"), "");
}

TEST(PodEnvironment, ResourcesAreRoundedUpAndLimitsFallBackToTheNode) {
  const api::core::Pod pod = pod_of(R"({metadata: {name: p}, spec: {containers: [{name: c,
    resources: {requests: {cpu: 1500m, memory: 100Mi}, limits: {memory: 1Gi}}}]}})");
  PodPlace place;
  place.allocatable.set("cpu", api::Quantity::of(4));
  const auto text = [&](std::string_view resource, std::string_view divisor) {
    api::core::ResourceFieldSelector selector;
    selector.resource = resource;
    if (!divisor.empty()) selector.divisor = *api::Quantity::parse(divisor);
    const auto value = resource_text(pod, place, pod.spec.containers[0], selector);
    return value.ok() ? *value : value.error().message;
  };
  EXPECT_EQ(text("requests.cpu", ""), "2");
  EXPECT_EQ(text("requests.cpu", "1m"), "1500");
  EXPECT_EQ(text("limits.cpu", ""), "4");
  EXPECT_EQ(text("limits.memory", "1Mi"), "1024");
  EXPECT_EQ(text("requests.memory", ""), "104857600");
  EXPECT_EQ(text("cpu", ""), "resource \"cpu\" is neither limits.* nor requests.*");
}

TEST(PodEnvironment, NamesThatAreNoneAreLeftOut) {
  Shelf shelf;
  const api::core::Pod pod = pod_of(R"({metadata: {name: p, namespace: default}, spec: {containers: [{name: c,
    envFrom: [{configMapRef: {name: m}, prefix: X_}, {secretRef: {name: s}}]}]}})");
  const auto env = container_environment(pod, pod.spec.containers[0], {}, {{"k", "old"}}, shelf);
  ASSERT_TRUE(env.ok());
  EXPECT_EQ(*env, (Environment{{"k", "hidden"}, {"X_a", "1"}, {"X_b-c", "2"}}));
}

TEST(PodVolumes, PathsStayInsideAndMissingThingsAreNamed) {
  Shelf shelf;
  const testing::TemporaryFolder folder;
  const VolumeFolders folders{folder.path() + "/pod", folder.path() + "/host", folder.path() + "/claims"};
  const auto error_of = [&](std::string_view volume) {
    const api::core::Pod pod =
        pod_of("{metadata: {name: p, namespace: default}, spec: {containers: [{name: c}], volumes: [" +
               std::string(volume) + "]}}");
    const Done done = make_volumes(pod, {}, folders, shelf);
    return done.ok() ? std::string() : done.error().message;
  };
  EXPECT_EQ(error_of("{name: v, configMap: {name: m, items: [{key: a, path: ../../x}]}}"),
            "volume v: path \"../../x\" must be relative and without \"..\"");
  EXPECT_EQ(error_of("{name: v, configMap: {name: zz}}"), "volume v: configmaps \"zz\" not found");
  EXPECT_EQ(error_of("{name: v, configMap: {name: zz, optional: true}}"), "");
  EXPECT_EQ(error_of("{name: v, secret: {secretName: s, items: [{key: zz, path: a}]}}"),
            "volume v: references non-existent key zz");
  EXPECT_EQ(error_of("{name: v, persistentVolumeClaim: {claimName: zz}}"),
            "volume v: persistentvolumeclaims \"zz\" not found");
  EXPECT_EQ(error_of("{name: v, persistentVolumeClaim: {claimName: disk}}"), "");
  EXPECT_EQ(error_of("{name: v, hostPath: {path: /../../etc, type: DirectoryOrCreate}}"), "");
  EXPECT_TRUE(std::filesystem::is_directory(folder.path() + "/host/etc"));
  EXPECT_EQ(error_of("{name: v, hostPath: {path: /nope, type: Directory}}"),
            "volume v: there is no folder " + folder.path() + "/host/nope");
  EXPECT_TRUE(error_of("{name: v, nfs: {server: a, path: /}}").starts_with("volume v: this kind of volume"));
}

TEST(AddressPool, EachPodHasItsOwnUntilItIsReleased) {
  auto pool = AddressPool::make("127.64.1.0/24");
  ASSERT_TRUE(pool.ok());
  std::map<std::string, std::string> owners;
  for (int i = 0; i < 254; ++i) {
    const std::string address = (*pool)->take("uid-" + std::to_string(i));
    EXPECT_TRUE(address.starts_with("127.64.1.")) << address;
    EXPECT_TRUE(owners.emplace(address, "").second) << address;
  }
  EXPECT_EQ((*pool)->take("one-more"), "");
  const std::string first = (*pool)->take("uid-0");
  (*pool)->release("uid-0");
  EXPECT_EQ((*pool)->take("one-more", first), first);
  EXPECT_FALSE(AddressPool::make("10.0.0.0/24").ok());
  EXPECT_FALSE(AddressPool::make("127.0.0.0/30").ok());
}

}  // namespace
}  // namespace basalt::node
