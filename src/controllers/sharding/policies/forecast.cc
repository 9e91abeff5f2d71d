#include "controllers/sharding/policies/forecast.h"

#include <algorithm>
#include <cmath>

#include "controllers/sharding/policies/policy.h"
#include "controllers/sharding/policies/range.h"

namespace basalt::controllers::sharding {
namespace {

// Filters and scores by the forecast instead of the present. `shadow` only measures (see the metric of its error);
// without a forecast that can be trusted the node passes and scores nothing.
class Forecast final : public Policy {
 public:
  Forecast(Range range, bool is_on) : range_(range), is_on_(is_on) {}
  std::string_view name() const override { return "forecast"; }
  int distance(const NodeFacts& facts, int slack) const override {
    return !is_on_ || facts.forecast < 0 ? 0 : range_.distance(facts.forecast / 100.0, slack);
  }
  double score(const NodeFacts& facts) const override {
    return !is_on_ || facts.forecast < 0 ? 0 : range_.score(facts.forecast / 100.0);
  }
  bool has_score() const override { return true; }
  std::string explain(const NodeFacts& facts) const override {
    if (facts.forecast < 0) return "no forecast yet";
    return range_.explain(is_on_ ? "forecast cpu" : "forecast cpu (shadow)", facts.forecast / 100.0);
  }

 private:
  const Range range_;
  const bool is_on_;
};

}  // namespace

PolicyPtr make_forecast(Arguments& arguments) {
  const Range range(arguments, "minCPUUtil", "maxCPUUtil", 0, 1);
  const bool is_on = arguments.choice("mode", {"shadow", "on"}) == "on";
  return std::make_unique<Forecast>(range, is_on);
}

std::int16_t ForecastModel::observe(NodeId node, int bucket, std::int64_t unix_seconds) {
  if (node >= profiles_.size()) profiles_.resize(node + 1);
  Profile& profile = profiles_[node];
  const auto hour = static_cast<std::int32_t>(std::max<std::int64_t>(0, unix_seconds) / 3600);
  if (profile.promised >= 0 && profile.hour + 1 == hour) {
    constexpr double kErrorDecay = 0.01;
    const double off = std::abs(profile.promised - bucket);
    error_ = samples_ == 0 ? off : error_ + kErrorDecay * (off - error_);
    if (samples_ < kSamplesMin) ++samples_;
  }
  std::uint8_t& learnt = profile.buckets[static_cast<std::size_t>(hour % kHours)];
  if (learnt == 0 || profile.hour != hour) {
    const double old = learnt == 0 ? bucket : learnt - 1;
    learnt = static_cast<std::uint8_t>(std::clamp(std::lround(old + kDecay * (bucket - old)), 0L, 254L) + 1);
  }
  profile.hour = hour;
  const std::uint8_t next = profile.buckets[static_cast<std::size_t>((hour + 1) % kHours)];
  if (next == 0) {
    profile.promised = -1;
    return -1;
  }
  profile.promised = static_cast<std::int16_t>(std::clamp(next - 1, std::max(0, bucket - kReach), bucket + kReach));
  return is_trusted() ? profile.promised : std::int16_t{-1};
}

void ForecastModel::forget(NodeId node) {
  if (node < profiles_.size()) profiles_[node] = Profile();
}

}  // namespace basalt::controllers::sharding
