#include <algorithm>
#include <cmath>

#include "controllers/sharding/policies/policy.h"
#include "controllers/sharding/policies/range.h"

namespace basalt::controllers::sharding {
namespace {

// A number that somebody else writes on the node as an annotation or label: real usage, temperature, a price.
class MetricRange final : public Policy {
 public:
  MetricRange(Range range, std::string key, std::size_t place, double full, bool missing_is_accepted)
      : range_(range), key_(std::move(key)), place_(place), full_(full), missing_is_accepted_(missing_is_accepted) {}
  std::string_view name() const override { return "metric-range"; }
  int distance(const NodeFacts& facts, int slack) const override {
    const double value = value_of(facts);
    if (std::isnan(value)) return missing_is_accepted_ ? 0 : kNever;
    return range_.distance(value, slack);
  }
  double score(const NodeFacts& facts) const override {
    const double value = value_of(facts);
    return std::isnan(value) ? 0 : range_.score(value);
  }
  bool has_score() const override { return true; }
  std::string explain(const NodeFacts& facts) const override {
    const double value = value_of(facts);
    if (std::isnan(value)) return key_ + " is missing" + (missing_is_accepted_ ? "" : " and required");
    return range_.explain(key_, value);
  }

 private:
  [[nodiscard]] double value_of(const NodeFacts& facts) const { return facts.metrics[place_] / full_; }

  const Range range_;
  const std::string key_;
  const std::size_t place_;
  const double full_;
  const bool missing_is_accepted_;
};

}  // namespace

PolicyPtr make_metric_range(Arguments& arguments, Catalog& catalog) {
  const Range range(arguments, "min", "max", 0, 1);
  std::string key = arguments.text("key", "");
  if (key.empty()) arguments.fail("key", "must name an annotation or label of the nodes");
  const bool is_label = arguments.choice("source", {"annotation", "label"}) == "label";
  const bool missing_is_accepted = arguments.choice("missing", {"reject", "accept"}) == "accept";
  const double full = arguments.number("full", 1);  // the value that counts as 100 %
  if (!(full > 0)) arguments.fail("full", "must be above 0");
  std::vector<std::string>& keys = is_label ? catalog.metric_labels : catalog.annotations;
  auto place = static_cast<std::size_t>(std::find(keys.begin(), keys.end(), key) - keys.begin());
  if (place == keys.size()) {
    if (place == kMetricsMax / 2) {
      arguments.fail("key", "all schedulers together may use 4 annotations and 4 labels");
      place = 0;
    } else {
      keys.push_back(key);
    }
  }
  if (is_label) place += kMetricsMax / 2;
  return std::make_unique<MetricRange>(range, std::move(key), place, full, missing_is_accepted);
}

}  // namespace basalt::controllers::sharding
