#include "kube/watch_decoder.h"

#include <gtest/gtest.h>

#include "kube/identity.h"

namespace basalt::kube {
namespace {

constexpr std::string_view kAdded = R"({"type":"ADDED","object":{"kind":"Pod","metadata":{"name":"a"}}})";

TEST(WatchDecoder, CutsFramesHoweverTheyCome) {
  const std::string body = std::string(kAdded) + "\n" +
                           R"({"object":{"kind":"Pod","metadata":{"name":"b"}},"type":"MODIFIED"})" + "\r\n\n" +
                           R"({"type":"DELETED","object":{"kind":"Pod"}})" + "\n" +
                           R"({"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"9"}}})" + "\n";
  for (std::size_t piece = 1; piece <= body.size(); ++piece) {
    WatchDecoder decoder(1000);
    std::vector<WatchEvent> events;
    for (std::size_t at = 0; at < body.size(); at += piece) {
      decoder.add(std::string_view(body).substr(at, piece));
      while (true) {
        auto next = decoder.next();
        ASSERT_TRUE(next.ok());
        if (!*next) break;
        events.push_back(**next);
      }
    }
    ASSERT_EQ(events.size(), 4u);
    EXPECT_EQ(events[0].type, WatchEventType::Added);
    EXPECT_EQ(*events[0].object, R"({"kind":"Pod","metadata":{"name":"a"}})");
    EXPECT_EQ(events[1].type, WatchEventType::Modified);
    EXPECT_EQ(events[2].type, WatchEventType::Deleted);
    EXPECT_EQ(events[3].type, WatchEventType::Bookmark);
    EXPECT_TRUE(decoder.at_boundary());
  }
}

TEST(WatchDecoder, KnowsAFrameThatIsHalfRead) {
  WatchDecoder decoder(1000);
  decoder.add(kAdded);
  EXPECT_FALSE(decoder.next()->has_value());
  EXPECT_FALSE(decoder.at_boundary());
  decoder.add("\n");
  EXPECT_TRUE(decoder.next()->has_value());
  EXPECT_TRUE(decoder.at_boundary());
}

TEST(WatchDecoder, TurnsAnErrorEventIntoAnErrorForEver) {
  WatchDecoder decoder(1000);
  decoder.add(R"--({"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure",)--");
  decoder.add(R"--("message":"too old resource version: 1 (5)","reason":"Expired","code":410}})--");
  decoder.add("\n" + std::string(kAdded) + "\n");
  for (int i = 0; i < 3; ++i) {
    const auto next = decoder.next();
    ASSERT_FALSE(next.ok());
    EXPECT_EQ(next.error().reason, Reason::Expired);
  }
}

TEST(WatchDecoder, RefusesFramesOverTheLimit) {
  WatchDecoder decoder(100);
  for (int i = 0; i < 3; ++i) decoder.add(std::string(50, 'x'));
  const auto next = decoder.next();
  ASSERT_FALSE(next.ok());
  EXPECT_EQ(next.error().reason, Reason::ResponseTooLarge);
  // Also if the whole line came at once.
  WatchDecoder whole(20);
  whole.add(std::string(kAdded) + "\n");
  EXPECT_FALSE(whole.next().ok());
  // Several small frames together may be larger than one may be.
  WatchDecoder several(kAdded.size());
  for (int i = 0; i < 20; ++i) several.add(std::string(kAdded) + "\n");
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(several.next()->has_value());
}

TEST(WatchDecoder, RefusesWhatIsNoEvent) {
  for (const std::string_view frame : {"{}", "[]", "null", "x", R"({"type":"ADDED"})", R"({"type":"NEW","object":{}})",
                                       R"({"type":"ADDED","object":[]})", R"({"type":"ADDED","object":{}} x)"}) {
    EXPECT_FALSE(decode_watch_frame(frame).ok()) << frame;
  }
}

TEST(Identity, IsReadFromTheTextAlone) {
  const auto identity = identity_of(
      R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"b","uid":"u","resourceVersion":"12",
         "annotations":{"x":"y","k8s.io/initial-events-end":"true"},"deletionTimestamp":"2026-01-01T00:00:00Z"},"spec":)");
  ASSERT_TRUE(identity.ok()) << "what follows the metadata is not looked at";
  EXPECT_EQ(identity->name, "a");
  EXPECT_EQ(identity->ns, "b");
  EXPECT_EQ(identity->uid, "u");
  EXPECT_EQ(identity->resource_version, "12");
  EXPECT_TRUE(identity->is_being_deleted);
  EXPECT_TRUE(identity->initial_events_end);
  EXPECT_FALSE(identity_of(R"({"kind":"Pod"})").ok());
  EXPECT_FALSE(identity_of(R"({"metadata":{"name":1}})").ok());
  EXPECT_EQ(resource_version_of({200, make_bytes(R"({"metadata":{"resourceVersion":"77"}})"), {}}), "77");
  EXPECT_EQ(resource_version_of({200, make_bytes("{}"), {}}), "");
  EXPECT_EQ(parse_revision("18446744073709551615"), 18446744073709551615ULL);
  EXPECT_EQ(parse_revision("abc"), 0u);
}

}  // namespace
}  // namespace basalt::kube
