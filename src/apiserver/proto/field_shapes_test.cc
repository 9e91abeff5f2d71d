#include "apiserver/proto/field_shapes.h"

#include <gtest/gtest.h>

namespace basalt::apiserver::proto {
namespace {

struct Fit {
  std::string error;
  std::string text;
  std::vector<std::string> unknown;
};

Fit fit(std::string_view api_version, std::string_view kind, std::string_view text) {
  const MessageFact* message = message_of_kind(api_version, kind);
  EXPECT_NE(message, nullptr) << kind;
  auto value = json::Value::parse(text);
  EXPECT_TRUE(value.ok());
  Fit result;
  if (Done done = fit_to_message(*message, *value, &result.unknown); !done.ok()) result.error = done.error().message;
  result.text = value->to_text();
  return result;
}

TEST(FieldShapes, WhatFitsStaysAsItIs) {
  const std::string pod =
      R"({"apiVersion":"v1","kind":"Pod","metadata":{"creationTimestamp":null,"labels":{"a":"b"},"name":"p"},)"
      R"("spec":{"containers":[{"image":"i","name":"c","ports":[{"containerPort":80}],)"
      R"("resources":{"limits":{"cpu":"1","memory":1000}},"volumeMounts":[{"mountPath":"/a","name":"v"}]}],)"
      R"("terminationGracePeriodSeconds":30,"volumes":[{"emptyDir":{},"name":"v"}]}})";
  const Fit result = fit("v1", "Pod", pod);
  EXPECT_EQ(result.error, "");
  EXPECT_TRUE(result.unknown.empty());
  EXPECT_EQ(result.text, pod);
}

TEST(FieldShapes, UnknownFieldsAreDroppedAndNamed) {
  const Fit result =
      fit("v1", "Pod",
          R"({"apiVersion":"v1","kind":"Pod","foo":1,"metadata":{"name":"p","nmae":"q"},)"
          R"("spec":{"containers":[{"name":"c"},{"name":"d","imgae":"x","env":[{"name":"E","vlaue":"1"}]}]}})");
  EXPECT_EQ(result.error, "");
  EXPECT_EQ(result.unknown, (std::vector<std::string>{"metadata.nmae", "spec.containers[1].env[0].vlaue",
                                                      "spec.containers[1].imgae", "foo"}));
  EXPECT_EQ(result.text, R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},)"
                         R"("spec":{"containers":[{"name":"c"},{"env":[{"name":"E"}],"name":"d"}]}})");
}

TEST(FieldShapes, WrongTypesAreErrorsThatNameThePath) {
  struct Case {
    std::string_view api_version;
    std::string_view kind;
    std::string_view text;
    std::string_view error;
  };
  const Case cases[] = {
      {"v1", "Pod", R"({"spec":{"containers":"x"}})",
       "json: cannot unmarshal string into Go struct field spec.containers of type []Container"},
      {"v1", "Pod", R"({"metadata":{"labels":{"a":1}}})",
       "json: cannot unmarshal number 1 into Go struct field metadata.labels.a of type string"},
      {"v1", "Pod", R"({"spec":{"hostNetwork":"yes"}})",
       "json: cannot unmarshal string into Go struct field spec.hostNetwork of type bool"},
      {"v1", "Pod", R"({"spec":{"priority":1.5}})",
       "json: cannot unmarshal number 1.5 into Go struct field spec.priority of type int32"},
      {"v1", "Pod", R"({"spec":{"priority":3000000000}})",
       "json: cannot unmarshal number 3000000000 into Go struct field spec.priority of type int32"},
      {"v1", "ConfigMap", R"({"data":["a"]})",
       "json: cannot unmarshal array into Go struct field data of type map[string]string"},
      {"v1", "Service", R"({"spec":{"ports":[{"targetPort":true}]}})",
       "json: cannot unmarshal bool into Go struct field spec.ports[0].targetPort of type IntOrString"},
  };
  for (const Case& c : cases) EXPECT_EQ(fit(c.api_version, c.kind, c.text).error, c.error) << c.text;
}

TEST(FieldShapes, KindsWithoutATableAreNotKnown) {
  EXPECT_EQ(message_of_kind("v1", "Nothing"), nullptr);
  EXPECT_EQ(message_of_kind("batch.volcano.sh/v1alpha1", "Job"), nullptr);
  EXPECT_NE(message_of_kind("apps/v1", "Deployment"), nullptr);
}

}  // namespace
}  // namespace basalt::apiserver::proto
