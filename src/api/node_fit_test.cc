#include "api/node_fit.h"

#include <gtest/gtest.h>

#include "json/reader.h"

namespace basalt::api {
namespace {

core::NodeProjection node() {
  return *json::from_text<core::NodeProjection>(R"({"metadata":{"name":"n1","labels":{"zone":"a","cores":"8"}}})");
}

bool fits(const std::string& term) { return holds(*json::from_text<core::NodeSelectorTerm>(term), node()); }

TEST(NodeFit, TermsOfAnAffinity) {
  const auto label = [](std::string_view rest) {
    return fits(R"({"matchExpressions":[{)" + std::string(rest) + "}]}");
  };
  EXPECT_FALSE(fits("{}"));
  EXPECT_TRUE(label(R"("key":"zone","operator":"In","values":["b","a"])"));
  EXPECT_FALSE(label(R"("key":"zone","operator":"NotIn","values":["a"])"));
  EXPECT_TRUE(label(R"("key":"rack","operator":"NotIn","values":["a"])"));
  EXPECT_TRUE(label(R"("key":"zone","operator":"Exists")"));
  EXPECT_TRUE(label(R"("key":"rack","operator":"DoesNotExist")"));
  EXPECT_TRUE(label(R"("key":"cores","operator":"Gt","values":["7"])"));
  EXPECT_FALSE(label(R"("key":"cores","operator":"Lt","values":["8"])"));
  EXPECT_FALSE(label(R"("key":"zone","operator":"Gt","values":["7"])"));
  EXPECT_TRUE(fits(R"({"matchFields":[{"key":"metadata.name","operator":"In","values":["n1"]}]})"));
  EXPECT_FALSE(fits(R"({"matchFields":[{"key":"metadata.name","operator":"In","values":["n2"]}]})"));
  EXPECT_FALSE(fits(R"({"matchExpressions":[{"key":"zone","operator":"Exists"}],)"
                    R"("matchFields":[{"key":"metadata.name","operator":"NotIn","values":["n1"]}]})"));
}

TEST(NodeFit, Tolerations) {
  const auto borne = [](const std::string& toleration) {
    return tolerates({*json::from_text<core::Toleration>(toleration)}, "k", "v", "NoSchedule");
  };
  EXPECT_FALSE(tolerates({}, "k", "v", "NoSchedule"));
  EXPECT_TRUE(borne(R"({"operator":"Exists"})"));
  EXPECT_TRUE(borne(R"({"key":"k","operator":"Exists"})"));
  EXPECT_TRUE(borne(R"({"key":"k","value":"v"})"));
  EXPECT_TRUE(borne(R"({"key":"k","operator":"Equal","value":"v","effect":"NoSchedule"})"));
  EXPECT_FALSE(borne(R"({"key":"k","value":"w"})"));
  EXPECT_FALSE(borne(R"({"key":"j","operator":"Exists"})"));
  EXPECT_FALSE(borne(R"({"key":"k","operator":"Exists","effect":"NoExecute"})"));
}

}  // namespace
}  // namespace basalt::api
