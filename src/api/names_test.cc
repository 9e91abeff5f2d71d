#include "api/names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "api/string_map.h"
#include "base/error.h"

namespace basalt::api {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

TEST(Names, Dns1123Label) {
  for (const std::string& good : {std::string("a"), std::string("1a"), std::string("a--b"), std::string(63, 'a')}) {
    EXPECT_TRUE(is_dns1123_label(good)) << good;
    EXPECT_THAT(dns1123_label_complaints(good), IsEmpty());
  }
  EXPECT_THAT(
      dns1123_label_complaints(""),
      ElementsAre("a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
                  "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used "
                  "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"));
  EXPECT_THAT(dns1123_label_complaints("a.b"), ElementsAre("must not contain dots"));
  EXPECT_THAT(dns1123_label_complaints(std::string(64, 'a')), ElementsAre("must be no more than 63 characters"));
  EXPECT_THAT(dns1123_label_complaints(std::string(64, '-')), ElementsAre(HasSubstr("63"), StartsWith("a lowercase")));
  for (const char* bad : {"-a", "a-", "A", "a_b", "a..b", ".a", "a.", "é", "a\n", "a b"}) {
    EXPECT_FALSE(is_dns1123_label(bad)) << bad;
    EXPECT_THAT(dns1123_label_complaints(bad), ElementsAre(StartsWith("a lowercase RFC 1123 label"))) << bad;
  }
}

TEST(Names, Dns1123Subdomain) {
  for (const std::string& good : {std::string("a"), std::string("a.b-c.1"), std::string(253, 'a')}) {
    EXPECT_TRUE(is_dns1123_subdomain(good));
    EXPECT_THAT(dns1123_subdomain_complaints(good), IsEmpty());
  }
  EXPECT_THAT(dns1123_subdomain_complaints("A"),
              ElementsAre("a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
                          "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
                          "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"));
  EXPECT_THAT(dns1123_subdomain_complaints(std::string(254, 'a')), ElementsAre("must be no more than 253 characters"));
  for (const char* bad : {"", ".", "a..b", "a.-b", "a-.b", "a.b.", "a/b"}) EXPECT_FALSE(is_dns1123_subdomain(bad));
}

TEST(Names, Dns1035Label) {
  EXPECT_TRUE(is_dns1035_label("abc-123"));
  EXPECT_FALSE(is_dns1035_label("1a"));
  EXPECT_FALSE(is_dns1035_label(""));
  EXPECT_THAT(
      dns1035_label_complaints("1a"),
      ElementsAre("a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
                  "alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', "
                  "regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"));
}

TEST(Names, QualifiedName) {
  for (const char* good : {"a", "MyName", "my.name", "123-abc", "a_b", "example.com/MyName", "a/b", "1/2"}) {
    EXPECT_TRUE(is_qualified_name(good)) << good;
    EXPECT_THAT(qualified_name_complaints(good), IsEmpty()) << good;
  }
  const std::string rule =
      "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
      "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
      "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
  EXPECT_THAT(qualified_name_complaints(""), ElementsAre("name part must be non-empty", "name part " + rule));
  EXPECT_THAT(qualified_name_complaints("/a"), ElementsAre("prefix part must be non-empty"));
  EXPECT_THAT(qualified_name_complaints("A/b"), ElementsAre(StartsWith("prefix part a lowercase RFC 1123 subdomain")));
  EXPECT_THAT(qualified_name_complaints(std::string(64, 'a')), ElementsAre("name part must be no more than 63 bytes"));
  EXPECT_THAT(qualified_name_complaints(std::string(254, 'a') + "/b"),
              ElementsAre("prefix part must be no more than 253 bytes"));
  EXPECT_THAT(qualified_name_complaints("a/b/c"),
              ElementsAre("a valid label key " + rule +
                          " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"));
  EXPECT_THAT(qualified_name_complaints("-/-").size(), 2);
}

TEST(Names, LabelValue) {
  for (const char* good : {"", "a", "MyValue", "my_value", "12345", "a.b-c"}) EXPECT_TRUE(is_label_value(good)) << good;
  EXPECT_THAT(label_value_complaints(std::string(64, 'a')), ElementsAre("must be no more than 63 bytes"));
  EXPECT_THAT(
      label_value_complaints("-b"),
      ElementsAre("a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
                  "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  "
                  "or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"));
}

TEST(Names, EnvironmentVariables) {
  for (const char* good : {"MY_ENV.NAME", "my-env", "_", "-", "a..", ".a"}) EXPECT_TRUE(is_env_var_name(good)) << good;
  EXPECT_THAT(env_var_name_complaints("1A"),
              ElementsAre(StartsWith("a valid environment variable name must consist of")));
  EXPECT_THAT(env_var_name_complaints("."), ElementsAre("must not be '.'"));
  EXPECT_THAT(env_var_name_complaints(".."), ElementsAre("must not be '..'"));
  EXPECT_THAT(env_var_name_complaints("..a"), ElementsAre("must not start with '..'"));
  EXPECT_THAT(env_var_name_complaints(""), testing::SizeIs(1));
  EXPECT_THAT(relaxed_env_var_name_complaints("1 A/é"), testing::SizeIs(1));
  EXPECT_THAT(relaxed_env_var_name_complaints("1 A/~"), IsEmpty());
  EXPECT_THAT(relaxed_env_var_name_complaints("a=b"), testing::SizeIs(1));
  EXPECT_THAT(relaxed_env_var_name_complaints(""), ElementsAre("environment variable name must be non-empty"));
  EXPECT_THAT(c_identifier_complaints("_a1"), IsEmpty());
  EXPECT_THAT(c_identifier_complaints("a-b"), ElementsAre(StartsWith("a valid C identifier")));
}

TEST(Names, ConfigKeys) {
  EXPECT_TRUE(is_config_key("tls.crt"));
  EXPECT_TRUE(is_config_key("-._A1"));
  EXPECT_THAT(config_key_complaints(".."), ElementsAre("must not be '..'"));
  EXPECT_THAT(config_key_complaints("a/b"), ElementsAre(StartsWith("a valid config key")));
  EXPECT_THAT(config_key_complaints(std::string(254, 'a')), ElementsAre("must be no more than 253 characters"));
}

TEST(Names, Ports) {
  for (const char* good : {"http", "http-80", "1a", "aaaaaaaaaaaaaaa"}) EXPECT_TRUE(is_port_name(good)) << good;
  EXPECT_THAT(port_name_complaints("80"), ElementsAre("must contain at least one letter (a-z)"));
  EXPECT_THAT(port_name_complaints("a--b"), ElementsAre("must not contain consecutive hyphens"));
  EXPECT_THAT(port_name_complaints("-a"), ElementsAre("must not begin or end with a hyphen"));
  EXPECT_THAT(port_name_complaints("aaaaaaaaaaaaaaaa"), ElementsAre("must be no more than 15 characters"));
  EXPECT_THAT(port_name_complaints("A"),
              ElementsAre("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
                          "must contain at least one letter (a-z)"));
  EXPECT_THAT(port_number_complaints(1), IsEmpty());
  EXPECT_THAT(port_number_complaints(65'535), IsEmpty());
  EXPECT_THAT(port_number_complaints(0), ElementsAre("must be between 1 and 65535, inclusive"));
  EXPECT_THAT(port_number_complaints(65'536), testing::SizeIs(1));
}

TEST(Names, Others) {
  EXPECT_THAT(percent_complaints("93%"), IsEmpty());
  for (const char* bad : {"", "%", "-1%", "93", "1.5%"})
    EXPECT_THAT(percent_complaints(bad), testing::SizeIs(1)) << bad;
  EXPECT_THAT(path_segment_complaints("system:node"), IsEmpty());
  EXPECT_THAT(path_segment_complaints(".."), ElementsAre("may not be '..'"));
  EXPECT_THAT(path_segment_complaints("a/b%"), ElementsAre("may not contain '/'", "may not contain '%'"));
  EXPECT_EQ(name_for_prefix_check("job-"), "joa");
  EXPECT_EQ(name_for_prefix_check("-"), "-");
  EXPECT_EQ(name_for_prefix_check("job"), "job");
  EXPECT_TRUE(is_dns1123_subdomain(name_for_prefix_check("my.job-")));
  EXPECT_FALSE(is_dns1123_subdomain(name_for_prefix_check("My-")));
}

TEST(Names, WholeMaps) {
  std::vector<Cause> causes;
  check_labels({{"app", "x"}, {"-bad", "y"}, {"c", "-z"}}, "metadata.labels", causes);
  ASSERT_EQ(causes.size(), 2);
  EXPECT_EQ(causes[0].field, "metadata.labels");
  EXPECT_EQ(causes[0].type, "FieldValueInvalid");
  EXPECT_THAT(causes[0].message, StartsWith("Invalid value: \"-bad\": name part must consist"));
  EXPECT_THAT(causes[1].message, StartsWith("Invalid value: \"-z\": a valid label must be"));
  causes.clear();
  const std::string large(kAnnotationsBytesMax, 'x');
  check_annotations({{"Example.com/A", large}}, "metadata.annotations", causes);
  ASSERT_EQ(causes.size(), 1) << "upper case is allowed, too much is not";
  EXPECT_EQ(causes[0].type, "FieldValueTooLong");
  EXPECT_EQ(causes[0].message, "Too long: may not be more than 262144 bytes");
  causes.clear();
  check_annotations({{"a/b/c", "x"}}, "metadata.annotations", causes);
  EXPECT_EQ(causes.size(), 1);
}

// The question and the complaints must never disagree.
TEST(Names, QuestionsAgreeWithComplaints) {
  std::mt19937 random(9);
  constexpr std::string_view kLetters = "aB1-_./ ";
  for (int i = 0; i < 50'000; ++i) {
    std::string text(random() % 6, '\0');
    for (char& c : text) c = kLetters[random() % kLetters.size()];
    if (random() % 20 == 0) text += std::string(60 + random() % 6, 'a');
    ASSERT_EQ(is_dns1123_label(text), dns1123_label_complaints(text).empty()) << text;
    ASSERT_EQ(is_dns1123_subdomain(text), dns1123_subdomain_complaints(text).empty()) << text;
    ASSERT_EQ(is_dns1035_label(text), dns1035_label_complaints(text).empty()) << text;
    ASSERT_EQ(is_qualified_name(text), qualified_name_complaints(text).empty()) << text;
    ASSERT_EQ(is_label_value(text), label_value_complaints(text).empty()) << text;
  }
}

}  // namespace
}  // namespace basalt::api
