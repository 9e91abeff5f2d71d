#include "controllers/sharding/full_assignment.h"

#include <algorithm>

namespace basalt::controllers::sharding {
namespace {

struct Candidate {
  double score = 0;
  std::uint64_t rank = 0;
  std::size_t input = 0;
  bool is_incumbent = false;
};

}  // namespace

std::vector<ShardIndex> full_assignment(std::span<const Level> levels, std::size_t shards, const NodeNames& names,
                                        std::span<const NodeInput> inputs) {
  std::vector<ShardIndex> owners(inputs.size(), kNoShard);
  std::vector<std::size_t> sizes(shards, 0);
  const auto better = [&](const Candidate& a, const Candidate& b) {
    if (a.score != b.score) return a.score > b.score;
    if (a.is_incumbent != b.is_incumbent) return a.is_incumbent;
    if ((a.rank >> 1) != (b.rank >> 1)) return (a.rank >> 1) < (b.rank >> 1);
    return names.name_of(inputs[a.input].node) < names.name_of(inputs[b.input].node);
  };
  std::vector<Candidate> candidates;
  candidates.reserve(inputs.size());
  for (std::size_t level = 0; level < levels.size(); ++level) {
    const auto shard = static_cast<std::size_t>(levels[level].shard);
    candidates.clear();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (owners[i] != kNoShard || inputs[i].scores[level] <= kRefused) continue;
      const bool is_incumbent = inputs[i].incumbent != kNoShard && inputs[i].incumbent == levels[level].shard;
      candidates.push_back({inputs[i].scores[level], inputs[i].rank, i, is_incumbent});
    }
    std::size_t room = levels[level].nodes_max;
    if (levels[level].is_fill) room = room > sizes[shard] ? room - sizes[shard] : 0;
    if (candidates.size() > room) {
      std::nth_element(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(room), candidates.end(),
                       better);
      candidates.resize(room);
    }
    for (const Candidate& candidate : candidates) owners[candidate.input] = levels[level].shard;
    sizes[shard] += candidates.size();
  }
  return owners;
}

}  // namespace basalt::controllers::sharding
