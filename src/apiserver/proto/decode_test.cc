// Bodies as Kubernetes' own encoder writes them (testdata/*.hex) give what its JSON encoder writes (testdata/*.json),
// and bytes that no encoder writes give errors that say where.

#include "apiserver/proto/decode.h"

#include <gtest/gtest.h>

#include <string>

#include "apiserver/proto/proto_test_support.h"
#include "apiserver/proto/tables.h"

namespace basalt::apiserver::proto {
namespace {

std::string varint(std::size_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  return out += static_cast<char>(value);
}

std::string bytes_field(std::size_t number, std::string_view bytes) {
  return varint(number << 3 | 2) + varint(bytes.size()) + std::string(bytes);
}

std::string enveloped(std::string_view api_version, std::string_view kind, std::string_view raw) {
  const std::string type_meta = bytes_field(1, api_version) + bytes_field(2, kind);
  return std::string("k8s\0", 4) + bytes_field(1, type_meta) + bytes_field(2, raw) + bytes_field(3, "") +
         bytes_field(4, "");
}

std::string decoded(std::string_view api_version, std::string_view kind, std::string_view raw) {
  auto value = decode_object(enveloped(api_version, kind, raw));
  return value.ok() ? value->to_text() : value.error().message;
}

std::string config_map(std::string_view raw) { return decoded("v1", "ConfigMap", raw); }

std::string lease_spec(std::string_view spec) {
  return decoded("coordination.k8s.io/v1", "Lease", bytes_field(2, spec));
}

class Sample : public ::testing::TestWithParam<std::string> {};

TEST_P(Sample, IsWhatJsonSays) {
  auto value = decode_object(sample_body(GetParam()));
  ASSERT_TRUE(value.ok()) << value.error().message;
  EXPECT_EQ(value->to_pretty_text(), sample_object(GetParam()).to_pretty_text());
}

// Every cut of a body is an error or a smaller object, never anything worse.
TEST_P(Sample, MayBeCutOff) {
  const std::string body = sample_body(GetParam());
  for (std::size_t length = 0; length < body.size(); ++length) {
    auto value = decode_object(std::string_view(body).substr(0, length));
    const bool is_refused = !value.ok() && (value.error().reason == Reason::BadRequest ||
                                            value.error().reason == Reason::UnsupportedMediaType);
    EXPECT_TRUE(value.ok() || is_refused);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Sample, ::testing::ValuesIn(sample_names()),
                         [](const auto& sample) { return sample.param; });

TEST(ProtoTables, AreOrdered) {
  for (const MessageFact& message : message_facts()) {
    const auto fields = field_facts().subspan(message.first_field, message.field_count);
    for (std::size_t i = 1; i < fields.size(); ++i) EXPECT_LT(fields[i - 1].number, fields[i].number) << message.name;
    for (const FieldFact& field : fields) {
      if (field.form == Form::Message) {
        ASSERT_LT(field.message, message_facts().size()) << message.name;
      }
      EXPECT_EQ(field.shape == Shape::Inline, std::string_view(field.json_name).empty()) << message.name;
    }
  }
  for (const KindFact& kind : kind_facts()) EXPECT_STREQ(message_facts()[kind.message].name, kind.kind);
}

TEST(ProtoDecode, SkipsUnknownFields) {
  const std::string unknown = bytes_field(15, "x") + std::string("\x70\x05", 2) + std::string("\x7d\1\2\3\4", 5) +
                              std::string("\x71\1\2\3\4\5\6\7\10", 9) + std::string("\x73\x70\x01\x7b\x7c\x74", 6);
  EXPECT_EQ(config_map(unknown), R"({"apiVersion":"v1","kind":"ConfigMap"})");
}

TEST(ProtoDecode, MapsTakeTheLastOfEqualKeysAndFillWhatIsMissing) {
  const std::string raw = bytes_field(2, bytes_field(1, "b") + bytes_field(2, "1")) +
                          bytes_field(2, bytes_field(1, "a")) +
                          bytes_field(2, bytes_field(2, "3") + bytes_field(1, "b"));
  EXPECT_EQ(config_map(raw), R"({"apiVersion":"v1","data":{"a":"","b":"3"},"kind":"ConfigMap"})");
}

TEST(ProtoDecode, TimesHaveTheirRange) {
  const std::string head = R"({"apiVersion":"coordination.k8s.io/v1","kind":"Lease","spec":{)";
  EXPECT_EQ(lease_spec(bytes_field(4, "")), head + "}}");
  EXPECT_EQ(lease_spec(bytes_field(4, std::string_view("\x08\x00\x10\x00", 4))),
            head + R"("renewTime":"1970-01-01T00:00:00.000000Z"}})");
  EXPECT_EQ(lease_spec(bytes_field(4, "\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f")),
            "the body of the request is malformed protobuf: MicroTime: the time is outside the years 1 to 9999");
}

TEST(ProtoDecode, PackedNumbersAreTheSameAsUnpacked) {
  // Pod.spec.securityContext.supplementalGroups
  const auto pod = [](std::string_view groups) {
    return decoded("v1", "Pod", bytes_field(2, bytes_field(14, groups)));
  };
  const std::string expected =
      R"({"apiVersion":"v1","kind":"Pod","spec":{"securityContext":{"supplementalGroups":[5,300]}}})";
  EXPECT_EQ(pod(std::string("\x20\x05\x20\xac\x02", 5)), expected);
  EXPECT_EQ(pod(bytes_field(4, "\x05\xac\x02")), expected);
}

TEST(ProtoDecode, RawExtensionsMayHoldEnvelopes) {
  const std::string inner = enveloped("v1", "Namespace", bytes_field(1, bytes_field(1, "n")));
  EXPECT_EQ(decoded("apps/v1", "ControllerRevision", bytes_field(2, bytes_field(1, inner))),
            R"({"apiVersion":"apps/v1","data":{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"n"}},)"
            R"("kind":"ControllerRevision"})");
}

TEST(ProtoDecode, ErrorsNameMessageAndField) {
  const std::string head = "the body of the request is malformed protobuf: ";
  EXPECT_EQ(config_map(bytes_field(1,
                                   "\x0a\x05"
                                   "a")),
            head + "ObjectMeta.name: its length is more than there is");
  EXPECT_EQ(config_map(bytes_field(1, std::string("\x08\x05", 2))), head + "ObjectMeta.name: wire type 0 instead of 2");
  EXPECT_EQ(config_map(bytes_field(1, bytes_field(1, "\xff"))), head + "ObjectMeta.name: the text is not UTF-8");
  EXPECT_EQ(config_map("\x20\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f"), head + "ConfigMap.immutable: no number");
  EXPECT_EQ(config_map(std::string("\x00", 1)), head + "ConfigMap: no field number");
  EXPECT_EQ(config_map("\x7a\x05"), head + "ConfigMap.15: its value is cut off or no value");
  EXPECT_EQ(config_map("\x7b"), head + "ConfigMap.15: its value is cut off or no value");
  EXPECT_EQ(config_map(bytes_field(1, "") + bytes_field(1, "")), head + "ConfigMap.metadata: it occurs twice");
  EXPECT_EQ(config_map(bytes_field(2, "\x08\x05")), head + "ConfigMap.data: an entry is neither key nor value");
  EXPECT_EQ(decoded("apps/v1", "ControllerRevision", bytes_field(2, bytes_field(1, "{"))).substr(0, 64),
            head + "RawExtension: not");
}

TEST(ProtoDecode, RefusesWhatIsNoKnownEnvelope) {
  EXPECT_EQ(decode_object("").error().reason, Reason::BadRequest);
  EXPECT_EQ(decode_object("{}").error().reason, Reason::BadRequest);
  EXPECT_EQ(decoded("batch.volcano.sh/v1alpha1", "Job", ""),
            "no kind \"Job\" of version \"batch.volcano.sh/v1alpha1\" has a protobuf form here - accepted media types "
            "include: application/json, application/yaml");
  EXPECT_EQ(decoded("batch.volcano.sh/v1alpha1", "DeleteOptions", std::string("\x08\x00", 2)),
            R"({"apiVersion":"batch.volcano.sh/v1alpha1","gracePeriodSeconds":0,"kind":"DeleteOptions"})");
}

TEST(ProtoDecode, DepthIsBounded) {
  // JSONSchemaProps.not, and envelopes within envelopes.
  std::string schema;
  for (int i = 0; i < 150; ++i) schema = bytes_field(28, schema);
  // spec.versions.schema.openAPIV3Schema
  const std::string crd = bytes_field(2, bytes_field(7, bytes_field(4, bytes_field(1, schema))));
  EXPECT_NE(decoded("apiextensions.k8s.io/v1", "CustomResourceDefinition", crd).find("nested"), std::string::npos);
  std::string body = enveloped("v1", "Namespace", "");
  for (int i = 0; i < 150; ++i) body = enveloped("apps/v1", "ControllerRevision", bytes_field(2, bytes_field(1, body)));
  auto value = decode_object(body);
  ASSERT_FALSE(value.ok());
  EXPECT_NE(value.error().message.find("nested"), std::string::npos);
}

}  // namespace
}  // namespace basalt::apiserver::proto
