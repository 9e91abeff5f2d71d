#include <algorithm>

#include "base/strings.h"
#include "controllers/sharding/policies/policy.h"
#include "controllers/sharding/policies/range.h"

namespace basalt::controllers::sharding {
namespace {

struct Dimension {
  std::string resource;
  int extra = -1;  // place in NodeFacts::shares; -1: cpu, -2: memory
  double weight = 1;
};

enum class Combine : std::uint8_t { Max, Mean, Weighted };

// Several resources as one share: the largest (dominant share), the mean or a weighted mean. A resource that a node
// does not have does not count for it, or makes the node unfit.
class MultiDimension final : public Policy {
 public:
  MultiDimension(Range range, std::vector<Dimension> dimensions, Combine combine, bool missing_is_refused)
      : range_(range), dimensions_(std::move(dimensions)), combine_(combine), missing_is_refused_(missing_is_refused) {}
  std::string_view name() const override { return "multi-dimension"; }
  int distance(const NodeFacts& facts, int slack) const override { return range_.distance(combined(facts), slack); }
  double score(const NodeFacts& facts) const override { return range_.score(combined(facts)); }
  bool has_score() const override { return true; }
  std::string explain(const NodeFacts& facts) const override {
    std::string what;
    for (const Dimension& dimension : dimensions_) what += (what.empty() ? "" : "+") + dimension.resource;
    return range_.explain(what, combined(facts));
  }

 private:
  static double share_of(const NodeFacts& facts, const Dimension& dimension) {
    if (dimension.extra == -1) return facts.cpu;
    if (dimension.extra == -2) return facts.memory;
    return facts.shares[static_cast<std::size_t>(dimension.extra)];
  }
  // Negative: the node is refused.
  [[nodiscard]] double combined(const NodeFacts& facts) const {
    double largest = 0;
    double sum = 0;
    double weights = 0;
    for (const Dimension& dimension : dimensions_) {
      const double share = share_of(facts, dimension);
      if (share < 0) {
        if (missing_is_refused_) return -1;
        continue;
      }
      largest = std::max(largest, share);
      const double weight = combine_ == Combine::Weighted ? dimension.weight : 1;
      sum += weight * share;
      weights += weight;
    }
    if (combine_ == Combine::Max) return largest;
    return weights > 0 ? sum / weights : 0;
  }

  const Range range_;
  const std::vector<Dimension> dimensions_;
  const Combine combine_;
  const bool missing_is_refused_;
};

}  // namespace

PolicyPtr make_multi_dimension(Arguments& arguments, Catalog& catalog) {
  const Range range(arguments, "minUtil", "maxUtil", 0, 1);
  std::vector<Dimension> dimensions;
  for (const std::string& resource : arguments.texts("resources")) {
    Dimension dimension{resource, -1, 1};
    if (resource == "memory") {
      dimension.extra = -2;
    } else if (resource != "cpu") {
      auto place = std::find(catalog.resources.begin(), catalog.resources.end(), resource);
      if (place == catalog.resources.end()) {
        if (catalog.resources.size() == kExtraMax) {
          arguments.fail("resources", "all schedulers together may use 8 resources beside cpu and memory");
          continue;
        }
        place = catalog.resources.insert(catalog.resources.end(), resource);
      }
      dimension.extra = static_cast<int>(place - catalog.resources.begin());
    }
    dimensions.push_back(std::move(dimension));
  }
  if (dimensions.empty()) arguments.fail("resources", "must name at least one resource");
  const std::string combine = arguments.choice("combine", {"max", "mean", "weighted"});
  const bool missing_is_refused = arguments.choice("missing", {"ignore", "reject"}) == "reject";
  if (const json::Object* weights = arguments.object("weights"); weights != nullptr) {
    for (const json::Member& member : *weights) {
      const auto named = std::find_if(dimensions.begin(), dimensions.end(),
                                      [&](const Dimension& dimension) { return dimension.resource == member.key; });
      if (named == dimensions.end()) {
        arguments.fail("weights", base::quote(member.key) + " is not among the resources");
      } else if (!member.value.is_number() || !(member.value.as_double() >= 0 && member.value.as_double() <= 1e6)) {
        arguments.fail("weights", "the weight of " + base::quote(member.key) + " must be between 0 and 1000000");
      } else {
        named->weight = member.value.as_double();
      }
    }
  }
  const Combine how = combine == "mean" ? Combine::Mean : combine == "weighted" ? Combine::Weighted : Combine::Max;
  return std::make_unique<MultiDimension>(range, std::move(dimensions), how, missing_is_refused);
}

}  // namespace basalt::controllers::sharding
