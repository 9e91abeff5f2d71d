#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "controllers/sharding/facts.h"
#include "json/value.h"

namespace basalt::controllers::sharding {

// How many nodes a scheduler may and should have.
struct Limits {
  std::int64_t nodes_min = 0;
  std::int64_t nodes_max = 0;  // 0: no limit
  double percent_min = 0;      // of all nodes
  double percent_max = 0;      // 0: no limit
  bool fill = false;           // the minimum is met with nodes that nobody has taken

  [[nodiscard]] std::size_t min_of(std::size_t nodes) const;
  [[nodiscard]] std::size_t max_of(std::size_t nodes) const;  // SIZE_MAX: no limit
};

// One step of a scheduler's chain: filters, scores or limits. Pure and deterministic; immutable once made, so any
// thread may use it. Each policy has a file of its own; make_policy() knows them all.
class Policy {
 public:
  static constexpr int kNever = 1'000'000;  // a distance that no filling bridges

  virtual ~Policy() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  // How far the node lies outside of what the policy accepts, in percent points; 0 if it is accepted. `slack` widens
  // the accepted range at both ends, for nodes that the scheduler has already.
  [[nodiscard]] virtual int distance(const NodeFacts& facts, int slack) const;
  // In [0, 1]; the larger, the better.
  [[nodiscard]] virtual double score(const NodeFacts& facts) const;
  [[nodiscard]] virtual bool has_score() const { return false; }
  virtual void limit(Limits& limits) const;
  // What the policy says about this node, for people: "cpu 65% is outside 0..60%".
  [[nodiscard]] virtual std::string explain(const NodeFacts& facts) const = 0;
};

// A policy's arguments. Every problem is an error that names the place; what nobody asked for is one, too.
class Arguments {
 public:
  Arguments(std::string where, const json::Value* arguments);

  [[nodiscard]] double number(std::string_view key, double fallback);
  [[nodiscard]] std::int64_t integer(std::string_view key, std::int64_t fallback);  // cuts fractions
  [[nodiscard]] std::string text(std::string_view key, std::string_view fallback);
  [[nodiscard]] std::string choice(std::string_view key, std::initializer_list<std::string_view> values);
  [[nodiscard]] std::vector<std::string> texts(std::string_view key);
  [[nodiscard]] const json::Object* object(std::string_view key);
  void fail(std::string_view key, std::string_view problem);
  // The first problem.
  [[nodiscard]] Done finish();

 private:
  const json::Value* take(std::string_view key);

  std::string where_;
  const json::Object* members_ = nullptr;
  std::vector<std::string> asked_;
  std::optional<Error> error_;
};

// A key without its case and its dashes, so that minNodes, min-nodes and minnodes are one.
[[nodiscard]] std::string folded_key(std::string_view key);
// Null if there is none; case and dashes do not count.
[[nodiscard]] const json::Value* find_folded(const json::Object& object, std::string_view key);

// `catalog` grows by what the policy needs to be read.
using PolicyPtr = std::unique_ptr<const Policy>;
[[nodiscard]] Result<PolicyPtr> make_policy(std::string_view name, std::string where, const json::Value* arguments,
                                            Catalog& catalog);
[[nodiscard]] std::span<const std::string_view> policy_names();

// One for each policy.
[[nodiscard]] PolicyPtr make_allocation_rate(Arguments& arguments);
[[nodiscard]] PolicyPtr make_memory_rate(Arguments& arguments);
[[nodiscard]] PolicyPtr make_warmup(Arguments& arguments, Catalog& catalog);
[[nodiscard]] PolicyPtr make_node_limit(Arguments& arguments);
[[nodiscard]] PolicyPtr make_multi_dimension(Arguments& arguments, Catalog& catalog);
[[nodiscard]] PolicyPtr make_metric_range(Arguments& arguments, Catalog& catalog);
[[nodiscard]] PolicyPtr make_forecast(Arguments& arguments);

}  // namespace basalt::controllers::sharding
