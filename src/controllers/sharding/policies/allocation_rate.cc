#include "controllers/sharding/policies/policy.h"
#include "controllers/sharding/policies/range.h"

namespace basalt::controllers::sharding {
namespace {

// Nodes by the share of their CPU that pods request. Without arguments only idle nodes pass, as in Volcano.
class AllocationRate final : public Policy {
 public:
  explicit AllocationRate(Arguments& arguments) : range_(arguments, "minCPUUtil", "maxCPUUtil", 0, 0) {}
  std::string_view name() const override { return "allocation-rate"; }
  int distance(const NodeFacts& facts, int slack) const override { return range_.distance(facts.cpu, slack); }
  double score(const NodeFacts& facts) const override { return range_.score(facts.cpu); }
  bool has_score() const override { return true; }
  std::string explain(const NodeFacts& facts) const override { return range_.explain("cpu", facts.cpu); }

 private:
  Range range_;
};

}  // namespace

PolicyPtr make_allocation_rate(Arguments& arguments) { return std::make_unique<AllocationRate>(arguments); }

}  // namespace basalt::controllers::sharding
