#include "net/url.h"

#include <gtest/gtest.h>

namespace basalt::net {
namespace {

TEST(Url, SplitsAndJoins) {
  const Url url = parse_url("HTTPS://Example.org:6443/apis/batch?watch=true&x=%20").value();
  EXPECT_EQ("https", url.scheme);
  EXPECT_EQ("Example.org", url.host);
  EXPECT_EQ(6443, url.port);
  EXPECT_EQ("/apis/batch", url.path);
  EXPECT_EQ("watch=true&x=%20", url.query);
  EXPECT_EQ("https://Example.org:6443/apis/batch?watch=true&x=%20", url.to_string());
}

TEST(Url, FillsInWhatIsLeftOut) {
  EXPECT_EQ("https://a:443/", parse_url("https://a").value().to_string());
  EXPECT_EQ("http://a:80/", parse_url("http://a:/").value().to_string());
  EXPECT_EQ("http://a:80/?q", parse_url("http://a?q").value().to_string());
  const Url v6 = parse_url("https://[fd00::1]:8443/x").value();
  EXPECT_EQ("fd00::1", v6.host);
  EXPECT_EQ("https://[fd00::1]:8443", v6.origin());
  EXPECT_EQ("https://[fd00::1]:443/", parse_url("https://[fd00::1]").value().to_string());
}

TEST(Url, RefusesWhatIsNone) {
  for (const char* text : {"", "example.org", "ftp://a/", "https://", "https:///x", "https://a:b/", "https://a:65536/",
                           "https://a:-1/", "https://user@a/", "https://a/#b", "https://[::1", "https://::1/",
                           "https://[::1]x/", "https://a b/", "https://a/\r\nHost: x"}) {
    const auto url = parse_url(text);
    ASSERT_FALSE(url.ok()) << text;
    EXPECT_EQ(Reason::InvalidInput, url.error().reason) << text;
  }
}

TEST(Url, SplitsHostAndPort) {
  EXPECT_EQ("::1", parse_host_port("[::1]:80").value().host);
  EXPECT_EQ("", parse_host_port(":8080").value().host);
  EXPECT_EQ(8080, parse_host_port("0.0.0.0:8080").value().port);
  for (const char* text : {"", "host", "host:", "host:x", "::1", "a:1:2", "[::1]"}) {
    EXPECT_FALSE(parse_host_port(text).ok()) << text;
  }
}

TEST(Url, EncodesAndDecodes) {
  std::string all;
  for (int c = 0; c < 256; ++c) all.push_back(static_cast<char>(c));
  EXPECT_EQ(all, percent_decode(percent_encode(all)).value());
  EXPECT_EQ("a%2Fb%20%C3%A9~", percent_encode("a/b \xc3\xa9~"));
  EXPECT_EQ("a+b", percent_decode("a+b").value());
  for (const char* text : {"%", "%2", "%zz", "a%2", "%%20"}) EXPECT_FALSE(percent_decode(text)) << text;
}

TEST(Url, ParsesAndBuildsQueries) {
  const Query query = parse_query("a=1&b=x%3Dy+z&&c&a=2&=v").value();
  const Query expected = {{"a", "1"}, {"b", "x=y z"}, {"c", ""}, {"a", "2"}, {"", "v"}};
  EXPECT_EQ(expected, query);
  EXPECT_EQ("1", find_parameter(query, "a").value());
  EXPECT_FALSE(find_parameter(query, "d"));
  EXPECT_EQ(expected, parse_query(build_query(expected)).value());
  EXPECT_TRUE(parse_query("").value().empty());
  EXPECT_EQ(Reason::BadRequest, parse_query("a=%g0").error().reason);
}

TEST(Url, BoundsTheNumberOfParameters) {
  EXPECT_EQ(3u, parse_query("a&b&c", 3).value().size());
  EXPECT_EQ(Reason::BadRequest, parse_query("a&b&c&d", 3).error().reason);
}

}  // namespace
}  // namespace basalt::net
