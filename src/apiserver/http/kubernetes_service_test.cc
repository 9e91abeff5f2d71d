#include "apiserver/http/kubernetes_service.h"

#include <gtest/gtest.h>

#include <functional>

#include "apiserver/registry/api_server.h"
#include "json/value.h"
#include "rt/sim_runtime.h"

namespace basalt::apiserver {
namespace {

class KubernetesService : public ::testing::Test {
 protected:
  void run(const std::function<void()>& body) {
    auto runtime = rt::SimRuntime::make({});
    const auto report = runtime->run([&] {
      server_ = *ApiServer::open(*runtime, Logger(), {});
      ASSERT_TRUE(server_->start().ok());
      client_ = make_direct_client(*runtime, *server_, RequestContext{{"admin", "", {}}, "test"});
      body();
      client_.reset();
      server_->stop();
      server_.reset();
    });
    EXPECT_TRUE(report.completed) << report.problem;
  }
  Done publish(const std::string& address, std::uint16_t port) {
    return publish_kubernetes_service(*client_, address, port, "10.96.0.1", {});
  }
  json::Value get(const kube::Resource& resource) {
    kube::Request request;
    request.resource = resource;
    request.ns = "default";
    request.name = "kubernetes";
    const auto found = client_->call(request, {});
    EXPECT_TRUE(found.ok()) << (found.ok() ? "" : found.error().message);
    return found.ok() ? json::Value::parse(*found->body).value_or(json::Value()) : json::Value();
  }
  static std::string text_of(const json::Value& object, std::initializer_list<std::string_view> path) {
    const json::Value* found = object.find_path(path);
    return found == nullptr ? "" : found->to_text();
  }
  // The service's ports, the endpoints, those of the slice, and which writes made them.
  std::string shown() {
    const json::Value service = get({"", "v1", "services"});
    const json::Value endpoints = get({"", "v1", "endpoints"});
    const json::Value slice = get({"discovery.k8s.io", "v1", "endpointslices"});
    return text_of(service, {"spec", "ports"}) + text_of(endpoints, {"subsets"}) + text_of(slice, {"endpoints"}) +
           text_of(slice, {"ports"});
  }
  std::string versions() {
    std::string text;
    for (const kube::Resource& one : {kube::Resource{"", "v1", "services"}, kube::Resource{"", "v1", "endpoints"},
                                      kube::Resource{"discovery.k8s.io", "v1", "endpointslices"}})
      text += text_of(get(one), {"metadata", "resourceVersion"});
    return text;
  }

  std::unique_ptr<ApiServer> server_;
  std::unique_ptr<kube::Client> client_;
};

std::string expected(const std::string& address, const std::string& port) {
  const std::string ports = R"([{"name":"https","port":)" + port + R"(,"protocol":"TCP"}])";
  return R"([{"name":"https","port":443,"protocol":"TCP","targetPort":)" + port + "}]" + R"([{"addresses":[{"ip":")" +
         address + R"("}],"ports":)" + ports + "}]" + R"([{"addresses":[")" + address +
         R"("],"conditions":{"ready":true}}])" + ports;
}

TEST_F(KubernetesService, NamesTheAddressAndFollowsIt) {
  run([&] {
    ASSERT_TRUE(publish("127.0.0.1", 6443).ok());
    EXPECT_EQ(shown(), expected("127.0.0.1", "6443"));
    EXPECT_EQ(text_of(get({"", "v1", "services"}), {"spec", "clusterIP"}), "\"10.96.0.1\"");
    const std::string before = versions();
    ASSERT_TRUE(publish("127.0.0.1", 6443).ok());
    EXPECT_EQ(versions(), before);  // nothing was written
    ASSERT_TRUE(publish("127.0.0.9", 7443).ok());
    EXPECT_EQ(shown(), expected("127.0.0.9", "7443"));
    ASSERT_TRUE(publish("0.0.0.0", 7443).ok());
    EXPECT_EQ(shown(), expected("127.0.0.1", "7443"));
  });
}

TEST_F(KubernetesService, TakesAnotherAddressIfSomebodyHasIts) {
  run([&] {
    kube::Request request;
    request.verb = kube::Verb::Create;
    request.resource = {"", "v1", "services"};
    request.ns = "default";
    request.body = R"({"metadata":{"name":"a"},"spec":{"clusterIP":"10.96.0.1","ports":[{"port":80}]}})";
    ASSERT_TRUE(client_->call(request, {}).ok());
    ASSERT_TRUE(publish("127.0.0.1", 6443).ok());
    const std::string address = text_of(get({"", "v1", "services"}), {"spec", "clusterIP"});
    EXPECT_TRUE(address.starts_with("\"10.96.") && address != "\"10.96.0.1\"") << address;
  });
}

}  // namespace
}  // namespace basalt::apiserver
