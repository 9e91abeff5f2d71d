#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "controllers/sharding/policies/policy.h"

namespace basalt::controllers::sharding {

// A closed range of utilisation in whole percent, and the score of a value in it: the busier, the better, so that
// load is packed.
class Range {
 public:
  Range() = default;
  // Reads both ends and checks them.
  Range(Arguments& arguments, std::string_view min_key, std::string_view max_key, double min, double max) {
    min = arguments.number(min_key, min);
    max = arguments.number(max_key, max);
    if (!(min >= 0)) arguments.fail(min_key, "must be at least 0");
    if (!(max <= 1)) arguments.fail(max_key, "must be at most 1");
    if (!(min <= max)) arguments.fail(min_key, "must not be above " + std::string(max_key));
    low_ = bucket_of(min);
    high_ = bucket_of(max);
  }

  [[nodiscard]] int distance(double value, int slack) const {
    const int bucket = bucket_of(value);
    if (bucket < 0) return Policy::kNever;
    return std::max({0, low_ - slack - bucket, bucket - high_ - slack});
  }
  [[nodiscard]] double score(double value) const {
    if (bucket_of(value) < 0) return 0;
    if (low_ == high_) return 1;
    const double low = low_ / 100.0;
    const double high = high_ / 100.0;
    return std::clamp((bucket_of(value) / 100.0 - low) / (high - low), 0.0, 1.0);
  }
  [[nodiscard]] std::string explain(std::string_view what, double value) const {
    std::string text(what);
    if (bucket_of(value) < 0) return text + " is not known";
    text += " " + std::to_string(bucket_of(value)) + "% is " + (distance(value, 0) == 0 ? "within " : "outside ");
    return text + std::to_string(low_) + ".." + std::to_string(high_) + "%";
  }

 private:
  int low_ = 0;
  int high_ = 0;
};

}  // namespace basalt::controllers::sharding
