#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>

namespace basalt {
namespace {

Result<int> half(int value) {
  if (value % 2 != 0) return Error::invalid_input("odd");
  return value / 2;
}

Result<int> quarter(int value) {
  BASALT_TRY(const int once, half(value));
  BASALT_TRY(const int twice, half(once));
  return twice;
}

TEST(Result, HoldsAValueOrAnError) {
  EXPECT_TRUE(half(4).ok());
  EXPECT_EQ(*half(4), 2);
  EXPECT_FALSE(half(3).ok());
  EXPECT_EQ(half(3).error().message, "odd");
  EXPECT_EQ(half(3).value_or(7), 7);
}

TEST(Result, TryPassesTheErrorUp) {
  EXPECT_EQ(*quarter(8), 2);
  EXPECT_EQ(quarter(6).error().message, "odd");
}

TEST(Result, MovesOutOfATemporary) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(5);
  const std::unique_ptr<int> taken = *std::move(result);
  EXPECT_EQ(*taken, 5);
}

TEST(ResultDeathTest, TakingAValueThatIsNotThereStops) {
  EXPECT_DEATH({ [[maybe_unused]] const int value = *half(3); }, "odd");
}

TEST(Error, CarriesTheHttpCodeOfItsReason) {
  EXPECT_EQ(Error::make(Reason::NotFound, "x").code, 404);
  EXPECT_EQ(Error::make(Reason::Unreachable, "x").code, 0);
  EXPECT_EQ(Error::make(Reason::Conflict, "stale").with_context("job a").message, "job a: stale");
}

TEST(Error, KnowsWhatARetryCanMend) {
  for (const Reason reason : {Reason::TooManyRequests, Reason::InternalError, Reason::ServiceUnavailable,
                              Reason::Unreachable, Reason::ConnectionLost, Reason::DeadlineExceeded}) {
    EXPECT_TRUE(Error::make(reason, "").is_transient()) << to_string(reason);
  }
  for (const Reason reason : {Reason::NotFound, Reason::Invalid, Reason::Forbidden, Reason::InvalidInput}) {
    EXPECT_FALSE(Error::make(reason, "").is_transient()) << to_string(reason);
  }
  EXPECT_TRUE(Error::make(Reason::ConnectionLost, "").outcome_is_unknown());
  EXPECT_FALSE(Error::make(Reason::Unreachable, "").outcome_is_unknown());
}

TEST(Error, ReasonsHaveNamesThatReadBack) {
  for (const Reason reason : {Reason::NotFound, Reason::AlreadyExists, Reason::Expired, Reason::Cancelled}) {
    EXPECT_EQ(reason_from_string(to_string(reason)), reason);
  }
  EXPECT_EQ(reason_from_string("no such reason"), Reason::Unknown);
}

}  // namespace
}  // namespace basalt
