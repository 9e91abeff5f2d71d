// Objects as Kubernetes' encoders write them (testdata): what is written here says the same, and where every field was
// set the bytes are the same, too.

#include "apiserver/proto/encode.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "apiserver/proto/decode.h"
#include "apiserver/proto/proto_test_support.h"
#include "base/encoding.h"

namespace basalt::apiserver::proto {
namespace {

class Encoded : public ::testing::TestWithParam<std::string> {};

TEST_P(Encoded, IsReadAsItWas) {
  const json::Value object = sample_object(GetParam());
  const auto body = encode_object(object);
  ASSERT_TRUE(body.ok()) << body.error().message;
  const auto again = decode_object(*body);
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(again->to_pretty_text(), object.to_pretty_text());
}

INSTANTIATE_TEST_SUITE_P(All, Encoded, ::testing::ValuesIn(sample_names()), [](const auto& one) { return one.param; });

std::string hex_of(std::string_view text) {
  return base::hex_encode(encode_object(json::Value::parse(text).value()).value());
}

TEST(ProtoEncode, BytesAreKubernetes) {
  // "k8s\0", {1: {1: v1, 2: ConfigMap}}, {2: {1: {1: a}, 2: {1: k, 2: v}}}, and the two empty fields of the envelope.
  EXPECT_EQ(hex_of(R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v"}})"),
            "6b387300"
            "0a0f0a0276311209436f6e6669674d6170"
            "120d0a030a016112060a016b120176"
            "1a002200");
}

TEST(ProtoEncode, ListsHaveMetadataAndItems) {
  const std::vector<std::shared_ptr<const std::string>> items = {
      std::make_shared<const std::string>(R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}})"),
      std::make_shared<const std::string>(R"({"metadata":{"name":"b"}})")};
  const auto list = encode_list("v1", "ConfigMap", json::Object{{"resourceVersion", "7"}}, items);
  ASSERT_TRUE(list.ok()) << list.error().message;
  EXPECT_EQ(base::hex_encode(*list),
            "6b387300"
            "0a130a027631120d436f6e6669674d61704c697374"
            "1213"
            "0a03120137"
            "12050a030a0161"
            "12050a030a0162"
            "1a002200");
  EXPECT_EQ(encode_list("batch.volcano.sh/v1alpha1", "Job", json::Object(), items).error().reason,
            Reason::NotAcceptable);
}

TEST(ProtoEncode, EventsAreFramed) {
  const auto object = json::Value::parse(R"({"apiVersion":"v1","kind":"Namespace"})").value();
  const std::string body = encode_object(object).value();
  const std::string frame = encode_watch_frame("ADDED", object).value();
  ASSERT_EQ(body.size(), 27u);
  EXPECT_EQ(base::hex_encode(frame.substr(0, 15)),
            "00000026"
            "0a054144444544"
            "121d"
            "0a1b");
  EXPECT_EQ(frame.substr(15), body);
}

TEST(ProtoEncode, TellsWhatHasNoForm) {
  const auto custom = json::Value::parse(R"({"apiVersion":"batch.volcano.sh/v1alpha1","kind":"Job"})").value();
  EXPECT_EQ(encode_object(custom).error().reason, Reason::NotAcceptable);
  const auto broken = json::Value::parse(R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":5}})").value();
  EXPECT_EQ(encode_object(broken).error().message,
            "the object cannot be written as protobuf: ObjectMeta.name: it is of type integer");
  std::string deep = R"({"type":"object"})";
  for (int i = 0; i < 150; ++i) deep = R"({"not":)" + deep + "}";
  const auto crd = json::Value::parse(
      R"({"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","spec":{"versions":[{"schema":)"
      R"({"openAPIV3Schema":)" +
      deep + "}}]}}");
  ASSERT_TRUE(crd.ok());
  EXPECT_NE(encode_object(*crd).error().message.find("deep"), std::string::npos);
}

}  // namespace
}  // namespace basalt::apiserver::proto
