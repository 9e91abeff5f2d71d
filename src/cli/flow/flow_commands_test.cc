#include "cli/flow/flow_commands.h"

#include <gtest/gtest.h>

#include "cli/client/host_test_support.h"
#include "rt/sim_test_support.h"

namespace basalt::cli {
namespace {

constexpr std::string_view kTwoFlows = R"(
apiVersion: flow.volcano.sh/v1alpha1
kind: JobFlow
metadata: {name: a}
spec: {jobRetainPolicy: retain, flows: [{name: "x---y"}]}
---
apiVersion: flow.volcano.sh/v1alpha1
kind: JobFlow
metadata: {name: longer-name}
spec: {flows: [{name: step}]}
)";

void with_flows(const std::function<void(TestHost&)>& body) {
  on_cluster([&](sim::Cluster&, TestHost& host) {
    host.files["flows.yaml"] = std::string(kTwoFlows);
    body(host);
  });
}

Ran flow(TestHost& host, std::vector<std::string> arguments) {
  return run_line(host, job_flow_group(), "vcctl jobflow", std::move(arguments));
}

TEST(FlowCommands, CreateListGetDelete) {
  with_flows([](TestHost& host) {
    Ran ran = flow(host, {"create", "-f", "flows.yaml"});
    EXPECT_EQ(ran.out, "Created JobFlow: default/a\nCreated JobFlow: default/longer-name\n");
    EXPECT_EQ(ran.exit, 0);
    ran = flow(host, {"list"});
    EXPECT_TRUE(
        ran.out.starts_with("Name           Namespace    Phase    Age    \na              default               "))
        << ran.out;
    EXPECT_EQ(flow(host, {"list", "-n", "elsewhere"}).out, "No resources found\n");
    EXPECT_EQ(flow(host, {"list", "-o", "name"}).out,
              "jobflow.flow.volcano.sh/a\njobflow.flow.volcano.sh/longer-name\n");
    EXPECT_TRUE(
        flow(host, {"get", "-N", "a"}).out.starts_with("Name    Namespace    Phase    Age    \na       default"));
    EXPECT_EQ(flow(host, {"get"}).out,
              "Failed to get jobflow: name is mandatory to get the particular jobflow details\n");
    EXPECT_EQ(flow(host, {"delete", "-N", "a"}).out, "Deleted JobFlow: default/a\n");
    EXPECT_EQ(flow(host, {"delete"}).out, "Failed to delete jobflow: jobflow name must be specified\n");
  });
}

TEST(FlowCommands, FailuresOfAFileAreAllToldAndTheRestIsDone) {
  with_flows([](TestHost& host) {
    EXPECT_EQ(flow(host, {"create", "-f", "flows.yaml"}).exit, 0);
    EXPECT_EQ(flow(host, {"delete", "-N", "a"}).exit, 0);
    Ran ran = flow(host, {"create", "-f", "flows.yaml"});
    EXPECT_EQ(ran.exit, 255);
    EXPECT_TRUE(ran.out.starts_with("Created JobFlow: default/a\nFailed to create jobflow: Failed to create JobFlow: "))
        << ran.out;
    EXPECT_EQ(flow(host, {"delete", "-f", "flows.yaml"}).exit, 0);
    ran = flow(host, {"delete", "-f", "flows.yaml"});
    EXPECT_EQ(ran.exit, 255);
    EXPECT_TRUE(ran.out.starts_with("Failed to delete jobflow: [Failed to delete JobFlow: ")) << ran.out;
  });
}

TEST(FlowCommands, DescribePrintsWholeObjects) {
  with_flows([](TestHost& host) {
    EXPECT_EQ(flow(host, {"describe"}).out, "");
    EXPECT_EQ(flow(host, {"create", "-f", "flows.yaml"}).exit, 0);
    Ran ran = flow(host, {"describe", "-N", "a"});
    EXPECT_TRUE(ran.out.starts_with("apiVersion: flow.volcano.sh/v1alpha1\nkind: JobFlow\n")) << ran.out;
    EXPECT_NE(ran.out.find("status:\n  state: {}\n"), std::string::npos) << ran.out;
    EXPECT_EQ(ran.out.find("managedFields"), std::string::npos);
    EXPECT_NE(flow(host, {"describe"}).out.find("\n\napiVersion:"), std::string::npos);
    ran = flow(host, {"describe", "-N", "a", "-o", "xml"});
    EXPECT_EQ(ran.out, "Failed to describe jobflow: Unsupported format: xml\n");
    EXPECT_EQ(ran.exit, 255);
  });
}

TEST(FlowCommands, Templates) {
  with_flows([](TestHost& host) {
    host.files["t.yaml"] =
        "{apiVersion: flow.volcano.sh/v1alpha1, kind: JobTemplate, metadata: {name: t}, spec: {minAvailable: 1}}";
    const auto run = [&host](std::vector<std::string> arguments) {
      return run_line(host, job_template_group(), "vcctl jobtemplate", std::move(arguments));
    };
    EXPECT_EQ(run({"create", "-f", "t.yaml"}).out, "Created JobTemplate: default/t\n");
    EXPECT_EQ(run({"list"}).out, "Name    Namespace    \nt       default      \n");
    EXPECT_EQ(run({"list", "--all-namespaces"}).exit, 1) << "vcctl has no such flag here";
    EXPECT_EQ(run({"get"}).out,
              "Failed to get jobtemplate: name is mandatory to get the particular job template details\n");
    EXPECT_EQ(run({"delete"}).out, "Failed to delete jobtemplate: job template name must be specified\n");
    EXPECT_EQ(run({"create", "-f", "flows.yaml"}).out,
              "Failed to create jobtemplate: flows.yaml:2: this is a JobFlow, not a JobTemplate\n");
  });
}

}  // namespace
}  // namespace basalt::cli
