// The volume by which pods reach their service account, on a server in memory.

#include "apiserver/builtin/token_volume.h"

#include <functional>

#include "apiserver/builtin/builtin_test_support.h"
#include "rt/sim_runtime.h"

namespace basalt::apiserver {
namespace {

constexpr std::string_view kPod = "{metadata: {name: p}, spec: {containers: [{name: a, image: b}]}}";

class Server {
 public:
  Server(rt::Runtime& runtime, std::string token_key) {
    ApiServer::Options options;
    options.token_key = std::move(token_key);
    server_ = *ApiServer::open(runtime, Logger(), std::move(options));
    EXPECT_TRUE(server_->start().ok());
  }
  ~Server() { server_->stop(); }

  Result<json::Value> create(std::string_view plural, std::string_view ns, const json::Value& body) {
    kube::Request request;
    request.verb = kube::Verb::Create;
    request.resource = {"", "v1", std::string(plural)};
    request.ns = ns;
    request.body = body.to_text();
    auto response = server_->call(request, RequestContext{{"admin", "", {}}, "test"});
    if (!response.ok()) return response.error();
    return json::Value::parse(*response->body);
  }
  // The spec of a pod with these changes; null if it was refused.
  json::Value spec_of(std::string_view change, std::string_view ns = "default") {
    json::Value body = changed(kPod, change);
    body.ensure_path({"metadata", "name"}) = "p" + std::to_string(++pods_);
    const auto pod = create("pods", ns, body);
    EXPECT_TRUE(pod.ok()) << (pod.ok() ? "" : pod.error().message);
    return pod.ok() ? *pod->find("spec") : json::Value();
  }

 private:
  std::unique_ptr<ApiServer> server_;
  int pods_ = 0;
};

void with_server(const std::function<void(Server&)>& body, const std::string& token_key = "a key of the test") {
  auto runtime = rt::SimRuntime::make({});
  const auto report = runtime->run([&] {
    Server server(*runtime, token_key);
    body(server);
  });
  EXPECT_TRUE(report.completed) << report.problem;
}

std::vector<std::string> names_of(const json::Value& object, std::string_view list) {
  std::vector<std::string> names;
  const json::Value* items = object.find(list);
  if (items == nullptr) return names;
  for (const json::Value& one : items->as_array()) names.emplace_back(one.string_at({"name"}));
  return names;
}

TEST(TokenVolume, IsWhatKubernetesMakes) {
  with_server([](Server& server) {
    const json::Value spec = server.spec_of(
        "spec: {initContainers: [{name: i, image: b}], containers: [{name: a, image: b}, {name: c, image: b, "
        "volumeMounts: [{name: v, mountPath: /v}]}], volumes: [{name: v, emptyDir: {}}]}");
    const std::vector<std::string> volumes = names_of(spec, "volumes");
    ASSERT_EQ(volumes.size(), 2u);
    const std::string name = volumes[1];
    EXPECT_TRUE(name.starts_with("kube-api-access-") && name.size() == 21) << name;
    EXPECT_EQ(spec.find("volumes")->as_array()[1],
              from_yaml("{name: " + name + R"(, projected: {defaultMode: 420, sources: [
      {serviceAccountToken: {expirationSeconds: 3607, path: token}},
      {configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}},
      {downwardAPI: {items: [{path: namespace, fieldRef: {apiVersion: v1, fieldPath: metadata.namespace}}]}}]}})"));
    const json::Value mount =
        from_yaml("{mountPath: " + std::string(kAccountMountPath) + ", name: " + name + ", readOnly: true}");
    EXPECT_EQ(spec.find("initContainers")->as_array()[0].find("volumeMounts")->as_array(), json::Array{mount});
    EXPECT_EQ(spec.find("containers")->as_array()[0].find("volumeMounts")->as_array(), json::Array{mount});
    EXPECT_EQ(spec.find("containers")->as_array()[1].find("volumeMounts")->as_array()[1], mount);
    EXPECT_NE(names_of(server.spec_of(""), "volumes")[0], name);
  });
}

TEST(TokenVolume, WhatAContainerMountsThereStays) {
  with_server([](Server& server) {
    const std::string own = "volumeMounts: [{name: v, mountPath: " + std::string(kAccountMountPath) + "}]";
    const json::Value all =
        server.spec_of("spec: {volumes: [{name: v, emptyDir: {}}], containers: [{name: a, image: b, " + own + "}]}");
    EXPECT_EQ(names_of(all, "volumes"), std::vector<std::string>{"v"});
    const json::Value one =
        server.spec_of("spec: {volumes: [{name: v, emptyDir: {}}], containers: [{name: a, image: b, " + own +
                       "}, {name: c, image: b}]}");
    ASSERT_EQ(names_of(one, "volumes").size(), 2u);
    EXPECT_EQ(names_of(one.find("containers")->as_array()[0], "volumeMounts"), std::vector<std::string>{"v"});
    EXPECT_EQ(names_of(one.find("containers")->as_array()[1], "volumeMounts")[0], names_of(one, "volumes").back());
    // A copy of a pod brings the volume along.
    const json::Value copy = server.spec_of("spec: {volumes: [{name: kube-api-access-abcde, emptyDir: {}}]}");
    EXPECT_EQ(names_of(copy, "volumes"), std::vector<std::string>{"kube-api-access-abcde"});
    EXPECT_EQ(names_of(copy.find("containers")->as_array()[0], "volumeMounts"), names_of(copy, "volumes"));
  });
}

TEST(TokenVolume, PodsAndAccountsMayDoWithout) {
  with_server([](Server& server) {
    ASSERT_TRUE(server
                    .create("serviceaccounts", "default",
                            from_yaml("{metadata: {name: shy}, automountServiceAccountToken: false}"))
                    .ok());
    struct Row {
      std::string_view change;
      std::size_t volumes;
    };
    for (const Row& row :
         {Row{"", 1}, Row{"spec: {automountServiceAccountToken: false}", 0},
          Row{"spec: {automountServiceAccountToken: true}", 1}, Row{"spec: {serviceAccountName: shy}", 0},
          Row{"spec: {serviceAccountName: shy, automountServiceAccountToken: true}", 1}}) {
      EXPECT_EQ(names_of(server.spec_of(row.change), "volumes").size(), row.volumes) << row.change;
    }
  });
}

TEST(TokenVolume, ANewNamespaceNeedNotHaveItsAccountYet) {
  with_server([](Server& server) {
    ASSERT_TRUE(server.create("namespaces", "", from_yaml("{metadata: {name: new}}")).ok());
    const json::Value spec = server.spec_of("", "new");
    EXPECT_EQ(spec.string_at({"serviceAccountName"}), "default");
    EXPECT_EQ(names_of(spec, "volumes").size(), 1u);
  });
}

TEST(TokenVolume, MirrorPodsHaveNoAccount) {
  with_server([](Server& server) {
    const std::string mirror = "metadata: {annotations: {kubernetes.io/config.mirror: x}}";
    const json::Value spec = server.spec_of("{" + mirror + ", spec: {nodeName: n1}}");
    EXPECT_EQ(spec.find("serviceAccountName"), nullptr);
    EXPECT_EQ(spec.find("volumes"), nullptr);
    const auto refused = server.create(
        "pods", "default", changed(kPod, "{" + mirror + ", spec: {nodeName: n1, serviceAccountName: default}}"));
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().message,
              "pods \"p\" is forbidden: it stands for a static pod of its node, which has no service account");
  });
}

TEST(TokenVolume, IsNotThereWithoutTokens) {
  with_server([](Server& server) { EXPECT_EQ(server.spec_of("").find("volumes"), nullptr); }, "");
}

}  // namespace
}  // namespace basalt::apiserver
