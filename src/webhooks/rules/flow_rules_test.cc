#include "webhooks/webhooks_test_support.h"

// Flows: what is too long for a table of cases. Tests named F<n> are the scenarios of the sheet of flows.

namespace basalt::webhooks {
namespace {

using ::testing::HasSubstr;
using namespace testing;

class FlowRules : public RulesTest {
 protected:
  // `steps` steps that each depend on all before them; the first on `first`.
  ReviewAnswer dense(int steps, const std::string& first) {
    std::string text =
        "{apiVersion: flow.volcano.sh/v1alpha1, kind: JobFlow, metadata: {name: f, namespace: team}, spec: {flows: [";
    std::string targets = first;
    for (int i = 0; i < steps; ++i) {
      const std::string name = "s" + std::to_string(i);
      text += "{name: " + name + ", dependsOn: {targets: [" + targets + "]}}, ";
      targets += (targets.empty() ? "" : ", ") + name;
    }
    return create("/jobflows/validate", text + "]}}");
  }
};

// A search that tries every way through them would not end.
TEST_F(FlowRules, F19DenseGraphsAreJudgedAtOnce) {
  EXPECT_TRUE(dense(40, "").allowed) << dense(40, "").message;
  const ReviewAnswer cycle = dense(40, "s39");
  EXPECT_FALSE(cycle.allowed);
  EXPECT_THAT(cycle.message, HasSubstr("jobflow Flow is not DAG: "));
}

TEST_F(FlowRules, F17AnUndefinedTargetIsNamed) {
  const ReviewAnswer answer = dense(1, "a");
  EXPECT_FALSE(answer.allowed);
  EXPECT_THAT(answer.message, HasSubstr("jobflow Flow is not DAG: vertex is not defined: a"));
}

}  // namespace
}  // namespace basalt::webhooks
