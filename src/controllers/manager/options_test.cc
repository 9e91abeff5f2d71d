#include "controllers/manager/options.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "controllers/manager/kubernetes_gates.h"

namespace basalt::controllers {
namespace {

TEST(ManagerOptions, TheFirstEntryThatNamesAControllerDecides) {
  struct Case {
    std::vector<std::string> list;
    bool job;
    bool sharding;
  };
  const Case cases[] = {
      {{}, true, true},
      {{"*", "-sharding-controller"}, true, false},
      {{"*"}, true, true},
      {{"-job-controller", "*"}, false, true},
      {{"job-controller"}, true, false},
      {{"+sharding-controller"}, false, true},
      {{"*", " -job-controller"}, true, true},  // nothing is trimmed
      {{"-job-controller", "job-controller"}, false, false},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(is_selected(c.list, "job-controller"), c.job);
    EXPECT_EQ(is_selected(c.list, "sharding-controller"), c.sharding);
  }
}

TEST(ManagerOptions, AControllerIsNamedOnce) {
  ManagerOptions options;
  EXPECT_TRUE(validate(options).ok());
  options.controllers = {"*", "*", "job-controller", "-job-controller"};
  const Done done = validate(options);
  ASSERT_FALSE(done.ok());
  EXPECT_NE(done.error().message.find("job-controller twice"), std::string::npos);
  options.controllers = {"*"};
  options.workers_job = 0;
  EXPECT_FALSE(validate(options).ok());
}

TEST(ManagerOptions, UnknownControllersAreRefused) {
  const auto message = [](std::vector<std::string> list) {
    ManagerOptions options;
    options.controllers = std::move(list);
    const Done done = validate(options);
    return done.ok() ? std::string() : done.error().message;
  };
  for (const char* stock :
       {"queue-controller", "pg-controller", "gc-controller", "job-controller", "jobflow-controller",
        "jobtemplate-controller", "cronjob-controller", "hyperNode-controller", "colocation-config-controller",
        "sharding-controller", "hyperjob-controller"}) {
    const std::string name = stock;
    EXPECT_EQ(message({"*", name}) + message({"*", "+" + name}) + message({"*", "-" + name}), "") << name;
  }
  const std::string said = message({"*", "foo"});
  EXPECT_NE(said.find("\"foo\""), std::string::npos) << said;
  EXPECT_NE(said.find("job-controller"), std::string::npos) << said;
  EXPECT_NE(message({"-hypernode-controller"}).find("hyperNode-controller"), std::string::npos);
  EXPECT_NE(message({"job-contrller"}).find("did you mean"), std::string::npos) << message({"job-contrller"});
  EXPECT_NE(message({"*", " -job-controller"}), "") << "what is not trimmed must not be ignored";
}

TEST(ManagerOptions, FeatureGates) {
  FeatureGates gates;
  EXPECT_TRUE(set_feature_gates(gates, "WorkLoadSupport=false,CSIStorage=true,AllAlpha=false").ok());
  EXPECT_FALSE(gates.workload_support);
  EXPECT_TRUE(gates.queue_command_sync);
  EXPECT_TRUE(set_feature_gates(gates, "WatchListClient=true,DynamicResourceAllocation=false").ok());
  EXPECT_TRUE(std::ranges::is_sorted(kKubernetesGates));
  const Done unknown = set_feature_gates(gates, "WorkloadSupport=false");
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.error().message.find("WorkLoadSupport"), std::string::npos);
  EXPECT_FALSE(set_feature_gates(gates, "PriorityClass=perhaps").ok());
  EXPECT_FALSE(set_feature_gates(gates, "PriorityClass").ok());
}

TEST(ManagerOptions, SomeControllersMustBeNamed) {
  EXPECT_FALSE(is_named({"*"}, "hyperjob-controller"));
  EXPECT_FALSE(is_named({"*", "-hyperjob-controller"}, "hyperjob-controller"));
  EXPECT_TRUE(is_named({"*", "+hyperjob-controller"}, "hyperjob-controller"));
  EXPECT_TRUE(is_named({"hyperjob-controller"}, "hyperjob-controller"));
}

}  // namespace
}  // namespace basalt::controllers
