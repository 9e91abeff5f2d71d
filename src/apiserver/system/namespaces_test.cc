#include <gtest/gtest.h>

#include <string>

#include "apiserver/registry/api_server.h"
#include "json/value.h"
#include "rt/sim_test_support.h"

namespace basalt::apiserver {
namespace {

kube::Request request_of(kube::Verb verb, kube::Resource resource, std::string ns, std::string name,
                         std::string body = {}) {
  kube::Request request;
  request.verb = verb;
  request.resource = std::move(resource);
  request.ns = std::move(ns);
  request.name = std::move(name);
  request.body = std::move(body);
  return request;
}

std::string definition_of(const std::string& plural) {
  return R"({"metadata":{"name":")" + plural + R"(.example.io"},"spec":{"group":"example.io","scope":"Namespaced",)" +
         R"("names":{"plural":")" + plural + R"(","kind":"K)" + plural +
         R"("},"versions":[{"name":"v1","served":true,)" +
         R"("storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}})";
}

// Each definition makes a new table of types, while a namespace is emptied type by type.
TEST(Namespaces, AreEmptiedWhileKindsComeAndGo) {
  const kube::Resource namespaces{"", "v1", "namespaces"};
  const kube::Resource definitions{"apiextensions.k8s.io", "v1", "customresourcedefinitions"};
  rt::run_seeds(1, 20, [&](rt::SimRuntime& runtime) {
    auto server = ApiServer::open(runtime, Logger(), ApiServer::Options());
    ASSERT_TRUE(server.ok());
    ASSERT_TRUE((*server)->start().ok());
    const auto client = make_direct_client(runtime, **server, RequestContext{{"admin", "", {}}, "test"});
    const auto call = [&](const kube::Request& request) { return client->call(request, {}); };
    const auto exists = [&](const std::string& name) {
      return call(request_of(kube::Verb::Get, namespaces, "", name)).ok();
    };
    for (int i = 0; i < 8; ++i) {
      const std::string name = "n" + std::to_string(i);
      const std::string plural = "things" + std::to_string(i);
      ASSERT_TRUE(
          call(request_of(kube::Verb::Create, namespaces, "", "", R"({"metadata":{"name":")" + name + "\"}}")).ok());
      ASSERT_TRUE(call(request_of(kube::Verb::Delete, namespaces, "", name)).ok());
      ASSERT_TRUE(call(request_of(kube::Verb::Create, definitions, "", "", definition_of(plural))).ok());
      if (i % 2 == 0) continue;
      ASSERT_TRUE(call(request_of(kube::Verb::Delete, definitions, "", plural + ".example.io")).ok());
    }
    for (int i = 0; i < 8; ++i) {
      const std::string name = "n" + std::to_string(i);
      for (int tries = 0; exists(name) && tries < 1000; ++tries) runtime.sleep_for(std::chrono::milliseconds(10));
      EXPECT_FALSE(exists(name)) << name;
    }
    (*server)->stop();
  });
}

// Pods cannot start without them.
TEST(Namespaces, GetTheirAccountAndAuthorityBack) {
  rt::run_seeds(1, 5, [&](rt::SimRuntime& runtime) {
    ApiServer::Options options;
    options.cluster_ca_pem = "an authority";
    auto server = ApiServer::open(runtime, Logger(), options);
    ASSERT_TRUE(server.ok());
    ASSERT_TRUE((*server)->start().ok());
    const auto client = make_direct_client(runtime, **server, RequestContext{{"admin", "", {}}, "test"});
    const kube::Resource maps{"", "v1", "configmaps"};
    const kube::Resource accounts{"", "v1", "serviceaccounts"};
    const auto shown = [&]() -> std::string {
      const auto account = client->call(request_of(kube::Verb::Get, accounts, "team", "default"), {});
      const auto map = client->call(request_of(kube::Verb::Get, maps, "team", "kube-root-ca.crt"), {});
      if (!account.ok() || !map.ok()) return "";
      const auto parsed = json::Value::parse(*map->body);
      return parsed->find("data") == nullptr ? "" : parsed->find("data")->to_text();
    };
    const auto comes_back = [&] {
      for (int tries = 0; tries < 1000; ++tries) {
        if (shown() == R"({"ca.crt":"an authority"})") return true;
        runtime.sleep_for(std::chrono::milliseconds(10));
      }
      return false;
    };
    ASSERT_TRUE(
        client
            ->call(request_of(kube::Verb::Create, {"", "v1", "namespaces"}, "", "", R"({"metadata":{"name":"team"}})"),
                   {})
            .ok());
    EXPECT_TRUE(comes_back());
    ASSERT_TRUE(client->call(request_of(kube::Verb::Delete, maps, "team", "kube-root-ca.crt"), {}).ok());
    EXPECT_TRUE(comes_back());
    ASSERT_TRUE(client->call(request_of(kube::Verb::Delete, accounts, "team", "default"), {}).ok());
    EXPECT_TRUE(comes_back());
    ASSERT_TRUE(
        client
            ->call(request_of(kube::Verb::Patch, maps, "team", "kube-root-ca.crt", R"({"data":{"ca.crt":"","x":"y"}})"),
                   {})
            .ok());
    EXPECT_TRUE(comes_back());
    (*server)->stop();
  });
}

}  // namespace
}  // namespace basalt::apiserver
