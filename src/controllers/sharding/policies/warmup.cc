#include <algorithm>

#include "api/gen/names.h"
#include "controllers/sharding/policies/policy.h"

namespace basalt::controllers::sharding {
namespace {

// Prefers nodes with a label of a certain value: those on which images and caches are warm. It never filters.
class Warmup final : public Policy {
 public:
  Warmup(std::string label, std::string value, std::uint32_t bit)
      : label_(std::move(label)), value_(std::move(value)), bit_(bit) {}
  std::string_view name() const override { return "warmup"; }
  double score(const NodeFacts& facts) const override { return (facts.label_bits & bit_) != 0 ? 1 : 0; }
  bool has_score() const override { return true; }
  std::string explain(const NodeFacts& facts) const override {
    return ((facts.label_bits & bit_) != 0 ? "has the label " : "lacks the label ") + label_ + "=" + value_;
  }

 private:
  const std::string label_;
  const std::string value_;
  const std::uint32_t bit_;
};

}  // namespace

PolicyPtr make_warmup(Arguments& arguments, Catalog& catalog) {
  std::string label = arguments.text("warmupLabel", api::keys::kWarmupNode);
  std::string value = arguments.text("warmupLabelValue", "true");
  if (label.empty()) arguments.fail("warmupLabel", "must not be empty");
  const std::pair<std::string, std::string> pair{label, value};
  auto place =
      static_cast<std::size_t>(std::find(catalog.labels.begin(), catalog.labels.end(), pair) - catalog.labels.begin());
  if (place == catalog.labels.size()) {
    if (place == kLabelsMax) {
      arguments.fail("warmupLabel", "all schedulers together may use 32 labels");
      place = 0;
    } else {
      catalog.labels.push_back(pair);
    }
  }
  return std::make_unique<Warmup>(std::move(label), std::move(value), 1U << place);
}

}  // namespace basalt::controllers::sharding
