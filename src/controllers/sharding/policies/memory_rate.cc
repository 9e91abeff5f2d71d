#include "controllers/sharding/policies/policy.h"
#include "controllers/sharding/policies/range.h"

namespace basalt::controllers::sharding {
namespace {

// Nodes by the share of their memory that pods request. Without arguments every node passes.
class MemoryRate final : public Policy {
 public:
  explicit MemoryRate(Arguments& arguments) : range_(arguments, "minMemUtil", "maxMemUtil", 0, 1) {}
  std::string_view name() const override { return "memory-rate"; }
  int distance(const NodeFacts& facts, int slack) const override { return range_.distance(facts.memory, slack); }
  double score(const NodeFacts& facts) const override { return range_.score(facts.memory); }
  bool has_score() const override { return true; }
  std::string explain(const NodeFacts& facts) const override { return range_.explain("memory", facts.memory); }

 private:
  Range range_;
};

}  // namespace

PolicyPtr make_memory_rate(Arguments& arguments) { return std::make_unique<MemoryRate>(arguments); }

}  // namespace basalt::controllers::sharding
