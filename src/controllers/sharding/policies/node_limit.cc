#include <algorithm>

#include "controllers/sharding/policies/policy.h"

namespace basalt::controllers::sharding {
namespace {

// How many nodes a scheduler gets: the best `maxNodes` of its candidates. The minimum is stated when it is missed, or
// met with free nodes that lie next to the range (minMode: fill).
class NodeLimit final : public Policy {
 public:
  explicit NodeLimit(const Limits& own) : own_(own) {}
  std::string_view name() const override { return "node-limit"; }
  void limit(Limits& limits) const override {
    limits.nodes_min = std::max(limits.nodes_min, own_.nodes_min);
    limits.percent_min = std::max(limits.percent_min, own_.percent_min);
    if (own_.nodes_max > 0)
      limits.nodes_max = limits.nodes_max > 0 ? std::min(limits.nodes_max, own_.nodes_max) : own_.nodes_max;
    if (own_.percent_max > 0)
      limits.percent_max = limits.percent_max > 0 ? std::min(limits.percent_max, own_.percent_max) : own_.percent_max;
    limits.fill = limits.fill || own_.fill;
  }
  std::string explain(const NodeFacts&) const override {
    std::string text = "at least " + std::to_string(own_.nodes_min) + " nodes";
    if (own_.nodes_max > 0) text += ", at most " + std::to_string(own_.nodes_max);
    if (own_.percent_max > 0) text += ", at most " + std::to_string(static_cast<int>(own_.percent_max)) + "% of all";
    return text;
  }

 private:
  const Limits own_;
};

}  // namespace

PolicyPtr make_node_limit(Arguments& arguments) {
  Limits limits;
  limits.nodes_min = arguments.integer("minNodes", 0);
  limits.nodes_max = std::max<std::int64_t>(0, arguments.integer("maxNodes", 0));
  limits.percent_min = arguments.number("minPercent", 0);
  limits.percent_max = arguments.number("maxPercent", 0);
  limits.fill = arguments.choice("minMode", {"informational", "fill"}) == "fill";
  if (limits.nodes_min < 0) arguments.fail("minNodes", "must be at least 0");
  if (limits.nodes_max > 0 && limits.nodes_max < limits.nodes_min)
    arguments.fail("maxNodes", "must not be below minNodes");
  if (!(limits.percent_min >= 0 && limits.percent_min <= 100))
    arguments.fail("minPercent", "must be between 0 and 100");
  if (!(limits.percent_max >= 0 && limits.percent_max <= 100))
    arguments.fail("maxPercent", "must be between 0 and 100");
  if (limits.percent_max > 0 && limits.percent_max < limits.percent_min)
    arguments.fail("maxPercent", "must not be below minPercent");
  return std::make_unique<NodeLimit>(limits);
}

}  // namespace basalt::controllers::sharding
