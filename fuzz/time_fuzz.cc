// Times and durations: what parses prints to text that reads back as the same.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "api/duration.h"
#include "api/int_or_string.h"
#include "api/time.h"
#include "base/check.h"
#include "json/reader.h"
#include "json/writer.h"

namespace {

using namespace basalt;

void check_time(std::string_view text) {
  const Result<api::Time> time = api::Time::parse(text);
  const Result<api::MicroTime> micro = api::MicroTime::parse(text);
  BASALT_CHECK(time.ok() == micro.ok());
  if (!time.ok()) return;
  const Result<api::Time> again = json::from_text<api::Time>(json::to_text(*time));
  BASALT_CHECK(again.ok() && *again == *time);
  const Result<api::MicroTime> micro_again = json::from_text<api::MicroTime>(json::to_text(*micro));
  BASALT_CHECK(micro_again.ok() && *micro_again == *micro);
  if (!time->is_zero() && !micro->is_zero()) {
    BASALT_CHECK(micro->to_time() == *time);
    BASALT_CHECK(micro->to_string().substr(0, 19) == time->to_string().substr(0, 19));
    BASALT_CHECK((*time + std::chrono::seconds(1)) - *time <= std::chrono::seconds(1));
  }
  (void)time->to_time_point();
  (void)micro->to_time_point();
}

void check_duration(std::string_view text) {
  const Result<api::Duration> duration = api::Duration::parse(text);
  if (!duration.ok()) {
    BASALT_CHECK(!duration.error().message.empty() && duration.error().message.size() < 1000);
    return;
  }
  const Result<api::Duration> again = json::from_text<api::Duration>(json::to_text(*duration));
  BASALT_CHECK(again.ok() && *again == *duration);
  BASALT_CHECK(!api::human_duration(duration->value).empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  check_time(input);
  check_duration(input);
  const Result<std::int64_t> resolved =
      api::IntOrString(input).resolve(static_cast<std::int64_t>(size) * 1'000'000'007, api::IntOrString::Rounding::Up);
  BASALT_CHECK(resolved.ok() || !resolved.error().message.empty());
  return 0;
}
