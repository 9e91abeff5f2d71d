#include "kube/status.h"

#include <gtest/gtest.h>

#include "json/value.h"

namespace basalt::kube {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Status, ReadsAServersAnswer) {
  const DecodedStatus status = decode_status(
      422,
      R"({"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Job \"a\" is invalid",
          "reason":"Invalid","details":{"name":"a","group":"batch.volcano.sh","kind":"Job","uid":"u","causes":[
          {"reason":"FieldValueRequired","message":"Required value","field":"spec.tasks[0].name"}],
          "retryAfterSeconds":3,"new":{"x":1}},"code":422,"other":[1,2]})");
  EXPECT_FALSE(status.is_success);
  EXPECT_EQ(status.error.reason, Reason::Invalid);
  EXPECT_EQ(status.error.code, 422);
  EXPECT_EQ(status.error.message, "Job \"a\" is invalid");
  ASSERT_EQ(status.error.causes.size(), 1u);
  EXPECT_EQ(status.error.causes[0], (Cause{"FieldValueRequired", "Required value", "spec.tasks[0].name"}));
  EXPECT_EQ(status.error.retry_after, seconds(3));
  EXPECT_EQ(status.subject, (StatusSubject{"a", "batch.volcano.sh", "Job", "u"}));
}

TEST(Status, GoesThereAndBackForEveryReasonOfAServer) {
  for (int i = 0; i <= static_cast<int>(Reason::ResponseTooLarge); ++i) {
    const auto reason = static_cast<Reason>(i);
    Error error = Error::make(reason, "something went wrong");
    error.causes.push_back({"FieldValueInvalid", "bad", "spec.x"});
    error.retry_after = milliseconds(1500);
    const StatusSubject subject{"name", "group", "things", "uid"};
    const DecodedStatus back = decode_status(500, encode_status(error, subject));
    SCOPED_TRACE(to_string(reason));
    const bool from_server = http_code_of(reason) != 0 && reason != Reason::Unknown;
    EXPECT_EQ(back.error.reason, from_server ? reason : Reason::InternalError);
    EXPECT_EQ(back.error.code, from_server ? http_code_of(reason) : 500);
    EXPECT_EQ(back.error.message, error.message);
    EXPECT_EQ(back.error.causes, error.causes);
    EXPECT_EQ(back.error.retry_after, seconds(2)) << "seconds on the wire, rounded up";
    EXPECT_EQ(back.subject, subject);
  }
}

TEST(Status, IsWhatAnApiServerSends) {
  const std::string text = encode_status(Error::make(Reason::NotFound, "pods \"a\" not found"), {"a", "", "pods", ""});
  EXPECT_EQ(text,
            R"({"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"pods \"a\" not found",)"
            R"("reason":"NotFound","details":{"name":"a","kind":"pods"},"code":404})");
  EXPECT_EQ(encode_success({"a", "", "pods", "u"}),
            R"({"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success",)"
            R"("details":{"name":"a","kind":"pods","uid":"u"}})");
  EXPECT_TRUE(decode_status(200, encode_success({})).is_success);
}

TEST(Status, TakesAForeignBodyAsItIs) {
  const struct {
    int code;
    Reason reason;
  } cases[] = {{400, Reason::BadRequest},         {401, Reason::Unauthorized},  {403, Reason::Forbidden},
               {404, Reason::NotFound},           {409, Reason::Conflict},      {410, Reason::Gone},
               {429, Reason::TooManyRequests},    {500, Reason::InternalError}, {502, Reason::Unknown},
               {503, Reason::ServiceUnavailable}, {504, Reason::Timeout}};
  for (const auto& c : cases) {
    for (const std::string_view body : {"<html>Bad gateway</html>", "", "{\"kind\":\"Pod\"}", "{", "[]", "null"}) {
      const Error error = error_from_answer(c.code, body, "");
      EXPECT_EQ(error.reason, c.reason) << c.code << body;
      EXPECT_EQ(error.code, c.code);
      EXPECT_FALSE(error.message.empty());
    }
  }
  EXPECT_NE(error_from_answer(502, "<html>Bad gateway</html>", "").message.find("Bad gateway"), std::string::npos);
  EXPECT_TRUE(error_from_answer(502, "", "").is_transient());
}

TEST(Status, HonoursRetryAfter) {
  EXPECT_EQ(error_from_answer(429, "", "7").retry_after, seconds(7));
  EXPECT_EQ(error_from_answer(429, "", "0").retry_after, seconds(0));
  EXPECT_EQ(error_from_answer(429, "", "999999").retry_after, seconds(600)) << "one bad header must not park a client";
  EXPECT_EQ(error_from_answer(429, "", "-4").retry_after, std::nullopt);
  EXPECT_EQ(error_from_answer(429, "", "Wed, 21 Oct 2015 07:28:00 GMT").retry_after, std::nullopt);
  Error busy = Error::make(Reason::TooManyRequests, "busy");
  busy.retry_after = seconds(10);
  EXPECT_EQ(error_from_answer(429, encode_status(busy), "1").retry_after, seconds(10));
  EXPECT_EQ(error_from_answer(429, encode_status(busy), "30").retry_after, seconds(30));
}

TEST(Status, KnowsARevisionThatIsTooLarge) {
  const Error error =
      decode_status(504, R"({"kind":"Status","status":"Failure","message":"Timeout: Too large resource version: 9",
        "reason":"Timeout","details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"x"}]},"code":504})")
          .error;
  EXPECT_TRUE(is_revision_too_large(error));
  EXPECT_FALSE(is_revision_too_large(Error::make(Reason::Timeout, "x")));
}

}  // namespace
}  // namespace basalt::kube
