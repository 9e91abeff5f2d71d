#include "node/node_object.h"

#include <gtest/gtest.h>

#include "rt/sim_test_support.h"
#include "sim/cluster.h"

namespace basalt::node {
namespace {

json::Value value(std::string_view text) {
  auto parsed = json::Value::parse(text);
  EXPECT_TRUE(parsed.ok()) << text;
  return parsed.ok() ? std::move(*parsed) : json::Value();
}

TEST(NodeObject, TakesAwayOnlyTheTaintsOfItsOwnAbsence) {
  const json::Value shown = value(R"({"metadata":{"name":"n","resourceVersion":"7"},"spec":{"taints":[
    {"key":"node.kubernetes.io/not-ready","effect":"NoSchedule"},{"key":"gpu","value":"yes","effect":"NoSchedule"},
    {"key":"node.kubernetes.io/unreachable","effect":"NoExecute"}]}})");
  const auto request = untaint_request(shown, {});
  ASSERT_TRUE(request);
  EXPECT_EQ(request->name, "n");
  EXPECT_EQ(request->body, R"({"metadata":{"resourceVersion":"7"},"spec":{"taints":)"
                           R"([{"effect":"NoSchedule","key":"gpu","value":"yes"}]}})");
  const json::Value own = value(R"([{"key":"node.kubernetes.io/not-ready","effect":"NoSchedule"},
                                    {"key":"node.kubernetes.io/unreachable","effect":"NoExecute"}])");
  EXPECT_FALSE(untaint_request(shown, own.as_array())) << "somebody asked for them";
  EXPECT_FALSE(untaint_request(value(R"({"metadata":{"name":"n"},"spec":{}})"), {}));
}

// A server without a node controller taints every new node and nobody takes the taint away.
TEST(NodeObject, ARegisteredNodeTakesPods) {
  rt::run_seeds(1, 2, [](rt::SimRuntime& runtime) {
    sim::Cluster cluster(runtime);
    cluster.apply(
        "{apiVersion: v1, kind: Node, metadata: {name: worker}, spec: {taints: [{key: node.kubernetes.io/not-ready, "
        "effect: "
        "NoSchedule}, {key: mine, effect: NoSchedule}]}}");
    NodeDescription description;
    description.name = "worker";
    description.runtime = "process";
    const rt::StopToken never;
    ASSERT_TRUE(register_node(cluster.client(), node_object(description, {}, {}), never).ok());
    const auto node = cluster.get(sim::resources::kNodes, "", "worker");
    ASSERT_TRUE(node);
    const json::Value* taints = node->find_path({"spec", "taints"});
    ASSERT_TRUE(taints != nullptr && taints->is_array());
    ASSERT_EQ(taints->as_array().size(), 1u);
    EXPECT_EQ(taints->as_array()[0].string_at({"key"}), "mine");
    cluster.stop();
  });
}

}  // namespace
}  // namespace basalt::node
