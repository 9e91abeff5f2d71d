#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "controllers/sharding/facts.h"
#include "controllers/sharding/ordered_keys.h"

namespace basalt::controllers::sharding {

// A moving forecast of every node's CPU utilisation: a profile over the hours of the week, one byte an hour, learnt by
// an exponentially decayed mean. It follows habits (nightly batch, office hours), not surprises: the forecast stays
// within kReach points of the present value, and is only given while it has been right on average lately.
// One owner; times come from the caller. 176 bytes a node, only while a configuration asks for it.
class ForecastModel {
 public:
  static constexpr int kHours = 168;
  static constexpr int kReach = 10;
  static constexpr double kDecay = 0.3;              // share of a new observation in the profile
  static constexpr double kErrorMax = 10;            // points; above it no forecast is given
  static constexpr std::uint32_t kSamplesMin = 100;  // before the first

  // The CPU bucket of a node at this time (seconds since 1970). Returns the forecast for an hour later, or -1.
  std::int16_t observe(NodeId node, int bucket, std::int64_t unix_seconds);
  void forget(NodeId node);
  // How far forecasts of an hour ago were off lately, in points; and how many were looked at.
  [[nodiscard]] double error_points() const { return error_; }
  [[nodiscard]] std::uint32_t samples() const { return samples_; }
  [[nodiscard]] bool is_trusted() const { return samples_ >= kSamplesMin && error_ <= kErrorMax; }

 private:
  struct Profile {
    std::array<std::uint8_t, kHours> buckets{};  // plus one; 0: never seen
    std::int32_t hour = -1;                      // since 1970, of the last observation
    std::int16_t promised = -1;                  // what was forecast for the hour after it
  };
  std::vector<Profile> profiles_;  // by node
  double error_ = 0;
  std::uint32_t samples_ = 0;
};

}  // namespace basalt::controllers::sharding
