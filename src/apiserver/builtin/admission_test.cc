// Built-in admission, on a server in memory.

#include <functional>

#include "apiserver/builtin/builtin_test_support.h"
#include "apiserver/builtin/service_admission.h"
#include "rt/sim_runtime.h"

namespace basalt::apiserver {
namespace {

constexpr std::string_view kPod = "{metadata: {name: p}, spec: {containers: [{name: a, image: b}]}}";

class Server {
 public:
  explicit Server(rt::Runtime& runtime) {
    ApiServer::Options options;
    options.service_ip_range = "10.1.0.0/28";
    auto opened = ApiServer::open(runtime, Logger(), std::move(options));
    EXPECT_TRUE(opened.ok());
    server_ = std::move(*opened);
    EXPECT_TRUE(server_->start().ok());
  }
  ~Server() { server_->stop(); }

  Result<json::Value> call(kube::Verb verb, std::string_view group, std::string_view plural, std::string_view ns,
                           std::string_view name, const json::Value& body) {
    kube::Request request;
    request.verb = verb;
    request.resource = {std::string(group), "v1", std::string(plural)};
    request.ns = ns;
    request.name = name;
    if (!body.is_null()) request.body = body.to_text();
    auto response = server_->call(request, RequestContext{{"admin", "", {}}, "test"});
    if (!response.ok()) return response.error();
    return json::Value::parse(*response->body);
  }
  Result<json::Value> create(std::string_view group, std::string_view plural, std::string_view ns,
                             std::string_view yaml) {
    return call(kube::Verb::Create, group, plural, ns, "", from_yaml(yaml));
  }
  Result<json::Value> create_pod(std::string_view change) {
    return call(kube::Verb::Create, "", "pods", "default", "", changed(kPod, change));
  }
  void remove(std::string_view plural, std::string_view ns, std::string_view name) {
    EXPECT_TRUE(call(kube::Verb::Delete, "", plural, ns, name, json::Value()).ok());
  }

 private:
  std::unique_ptr<ApiServer> server_;
};

void with_server(const std::function<void(Server&)>& body) {
  auto runtime = rt::SimRuntime::make({});
  const auto report = runtime->run([&] {
    Server server(*runtime);
    body(server);
  });
  EXPECT_TRUE(report.completed) << report.problem;
}

std::string message_of(const Result<json::Value>& result) { return result.ok() ? "ok" : result.error().message; }

TEST(PodAdmission, FillsIn) {
  with_server([](Server& server) {
    const auto pod = server.create_pod("");
    ASSERT_TRUE(pod.ok()) << message_of(pod);
    expect_contains(*pod, from_yaml(R"(
spec:
  priority: 0
  preemptionPolicy: PreemptLowerPriority
  serviceAccount: default
  serviceAccountName: default
  tolerations:
  - {effect: NoExecute, key: node.kubernetes.io/not-ready, operator: Exists, tolerationSeconds: 300}
  - {effect: NoExecute, key: node.kubernetes.io/unreachable, operator: Exists, tolerationSeconds: 300}
status: {phase: Pending, qosClass: BestEffort}
)"),
                    "");
    EXPECT_EQ(pod->find_path({"spec", "priorityClassName"}), nullptr);
  });
}

TEST(PodAdmission, OwnTolerationsCount) {
  with_server([](Server& server) {
    const auto pod = server.create_pod("spec: {tolerations: [{key: node.kubernetes.io/not-ready, operator: Exists}]}");
    ASSERT_TRUE(pod.ok());
    EXPECT_EQ(pod->find_path({"spec", "tolerations"})->as_array().size(), 2u);
    const auto all = server.create_pod("{metadata: {name: q}, spec: {tolerations: [{operator: Exists}]}}");
    ASSERT_TRUE(all.ok());
    EXPECT_EQ(all->find_path({"spec", "tolerations"})->as_array().size(), 1u);
  });
}

TEST(PodAdmission, PriorityClasses) {
  with_server([](Server& server) {
    constexpr std::string_view kGroup = "scheduling.k8s.io";
    EXPECT_EQ(message_of(server.create_pod("spec: {priorityClassName: high}")),
              "pods \"p\" is forbidden: no PriorityClass with name high was found");
    ASSERT_TRUE(
        server.create(kGroup, "priorityclasses", "", "{metadata: {name: high}, value: 100, preemptionPolicy: Never}")
            .ok());
    const auto pod = server.create_pod("spec: {priorityClassName: high}");
    ASSERT_TRUE(pod.ok()) << message_of(pod);
    expect_contains(*pod, from_yaml("spec: {priority: 100, preemptionPolicy: Never}"), "");
    EXPECT_EQ(message_of(server.create_pod("{metadata: {name: q}, spec: {priorityClassName: high, priority: 7}}")),
              "pods \"q\" is forbidden: the integer value of priority (7) must not be provided in pod spec; priority "
              "admission controller computed 100 from the given PriorityClass name");

    ASSERT_TRUE(
        server.create(kGroup, "priorityclasses", "", "{metadata: {name: usual}, value: 5, globalDefault: true}").ok());
    const auto usual = server.create_pod("metadata: {name: r}");
    ASSERT_TRUE(usual.ok());
    expect_contains(*usual, from_yaml("spec: {priority: 5, priorityClassName: usual}"), "");
    EXPECT_EQ(message_of(server.create(kGroup, "priorityclasses", "",
                                       "{metadata: {name: second}, value: 5, globalDefault: true}")),
              "priorityclasses.scheduling.k8s.io \"second\" is forbidden: PriorityClass usual is already marked as "
              "default. Only one default can exist");
  });
}

TEST(PodAdmission, UpdatesKeepThePriority) {
  with_server([](Server& server) {
    auto pod = server.create_pod("");
    ASSERT_TRUE(pod.ok());
    pod->find("spec")->as_object().erase("priority");
    pod->find("spec")->as_object().erase("preemptionPolicy");
    pod->ensure_path({"metadata", "labels"}) = from_yaml("a: b");
    const auto updated = server.call(kube::Verb::Update, "", "pods", "default", "p", *pod);
    ASSERT_TRUE(updated.ok()) << message_of(updated);
    expect_contains(*updated, from_yaml("spec: {priority: 0, preemptionPolicy: PreemptLowerPriority}"), "");
  });
}

TEST(PodAdmission, ServiceAccounts) {
  with_server([](Server& server) {
    EXPECT_EQ(message_of(server.create_pod("spec: {serviceAccountName: robot}")),
              "pods \"p\" is forbidden: error looking up service account default/robot: serviceaccount \"robot\" not "
              "found");
    ASSERT_TRUE(
        server.create("", "serviceaccounts", "default", "{metadata: {name: robot}, imagePullSecrets: [{name: s}]}")
            .ok());
    const auto pod = server.create_pod("spec: {serviceAccountName: robot}");
    ASSERT_TRUE(pod.ok()) << message_of(pod);
    expect_contains(*pod, from_yaml("spec: {serviceAccount: robot, imagePullSecrets: [{name: s}]}"), "");
  });
}

TEST(ServiceAdmission, GivesAddresses) {
  with_server([](Server& server) {
    const auto first = server.create("", "services", "default", "{metadata: {name: a}, spec: {ports: [{port: 80}]}}");
    const auto second = server.create("", "services", "default", "{metadata: {name: b}, spec: {ports: [{port: 80}]}}");
    ASSERT_TRUE(first.ok() && second.ok()) << message_of(first);
    const std::string address(first->string_at({"spec", "clusterIP"}));
    EXPECT_TRUE(address.starts_with("10.1.0.")) << address;
    EXPECT_NE(address, second->string_at({"spec", "clusterIP"}));
    expect_contains(*first,
                    from_yaml("spec: {clusterIPs: [" + address + "], ipFamilies: [IPv4], ipFamilyPolicy: SingleStack}"),
                    "");

    const auto again = server.create("", "services", "default",
                                     "{metadata: {name: c}, spec: {ports: [{port: 80}], clusterIP: " + address + "}}");
    EXPECT_EQ(message_of(again), "Service \"c\" is invalid: spec.clusterIPs: Invalid value: [\"" + address +
                                     "\"]: failed to allocate IP " + address + ": provided IP is already allocated");
    EXPECT_EQ(message_of(server.create("", "services", "default",
                                       "{metadata: {name: c}, spec: {ports: [{port: 80}], clusterIP: 9.9.9.9}}")),
              "Service \"c\" is invalid: spec.clusterIPs: Invalid value: [\"9.9.9.9\"]: failed to allocate IP 9.9.9.9: "
              "the provided IP (9.9.9.9) is not in the valid range. The range of valid IPs is 10.1.0.0/28");
    const auto headless =
        server.create("", "services", "default", "{metadata: {name: h}, spec: {clusterIP: None, selector: {a: b}}}");
    ASSERT_TRUE(headless.ok()) << message_of(headless);
    expect_contains(*headless, from_yaml("spec: {clusterIP: None, clusterIPs: [None], ipFamilies: [IPv4]}"), "");
  });
}

TEST(ServiceAdmission, AddressesComeBackAndRunOut) {
  with_server([](Server& server) {
    int made = 0;
    std::string last;
    while (made < 20) {
      const std::string name = "s" + std::to_string(made);
      const auto service =
          server.create("", "services", "default", "{metadata: {name: " + name + "}, spec: {ports: [{port: 80}]}}");
      if (!service.ok()) break;
      last = name;
      ++made;
    }
    EXPECT_EQ(made, 14);  // of 16, the first and the last are not usable
    server.remove("services", "default", last);
    EXPECT_TRUE(server.create("", "services", "default", "{metadata: {name: new}, spec: {ports: [{port: 80}]}}").ok());
  });
}

TEST(ServiceAdmission, UpdatesKeepWhatWasGiven) {
  with_server([](Server& server) {
    const auto made =
        server.create("", "services", "default", "{metadata: {name: a}, spec: {type: NodePort, ports: [{port: 80}]}}");
    ASSERT_TRUE(made.ok()) << message_of(made);
    const std::int64_t node_port = made->find_path({"spec", "ports"})->as_array()[0].find("nodePort")->as_int();
    EXPECT_GE(node_port, 30000);
    EXPECT_LE(node_port, 32767);
    const auto updated = server.call(kube::Verb::Update, "", "services", "default", "a",
                                     from_yaml("{metadata: {name: a}, spec: {type: NodePort, ports: [{port: 81}]}}"));
    ASSERT_TRUE(updated.ok()) << message_of(updated);
    EXPECT_EQ(updated->string_at({"spec", "clusterIP"}), made->string_at({"spec", "clusterIP"}));
    EXPECT_EQ(updated->find_path({"spec", "ports"})->as_array()[0].find("nodePort")->as_int(), node_port);
    const auto other = server.create("", "services", "default",
                                     "{metadata: {name: b}, spec: {type: NodePort, ports: [{port: 80, nodePort: " +
                                         std::to_string(node_port) + "}]}}");
    EXPECT_EQ(message_of(other), "Service \"b\" is invalid: spec.ports[0].nodePort: Invalid value: " +
                                     std::to_string(node_port) + ": provided port is already allocated");
  });
}

TEST(NamespaceAdmission, SomeStay) {
  with_server([](Server& server) {
    const auto removed = server.call(kube::Verb::Delete, "", "namespaces", "", "default", json::Value());
    EXPECT_EQ(message_of(removed), "namespaces \"default\" is forbidden: this namespace may not be deleted");
  });
}

TEST(IpRange, Parsing) {
  EXPECT_EQ(parse_ipv4("10.0.0.1"), 0x0A000001u);
  for (const std::string_view wrong : {"", "10.0.0", "10.0.0.256", "10.0.0.01", "a.b.c.d", "::1", "10.0.0.1 "}) {
    EXPECT_FALSE(parse_ipv4(wrong)) << wrong;
  }
  EXPECT_EQ(format_ipv4(0x0A000001u), "10.0.0.1");
  const auto range = parse_ip_range("10.96.0.0/16");
  ASSERT_TRUE(range);
  EXPECT_EQ(format_ipv4(range->first), "10.96.0.1");
  EXPECT_EQ(format_ipv4(range->second), "10.96.255.254");
  for (const std::string_view wrong : {"", "10.0.0.0", "10.0.0.0/33", "10.0.0.0/x", "fd00::/64"}) {
    EXPECT_FALSE(parse_ip_range(wrong)) << wrong;
  }
}

}  // namespace
}  // namespace basalt::apiserver
