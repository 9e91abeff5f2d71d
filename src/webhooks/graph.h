#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace basalt::webhooks {

// Who waits for whom, by position in a list. Linear in vertices and edges.
struct Graph {
  std::vector<std::vector<std::uint32_t>> depends_on;
};

// The vertices of one cycle, in order, each depending on the next and the last on the first; empty if there is none.
[[nodiscard]] std::vector<std::uint32_t> find_cycle(const Graph& graph);

}  // namespace basalt::webhooks
