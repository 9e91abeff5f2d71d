#include "webhooks/graph.h"

#include <algorithm>

namespace basalt::webhooks {

std::vector<std::uint32_t> find_cycle(const Graph& graph) {
  const std::size_t count = graph.depends_on.size();
  // Takes away, again and again, what waits for nothing; what stays lies on a cycle or waits for one.
  std::vector<std::uint32_t> open(count, 0);
  std::vector<std::vector<std::uint32_t>> waiting(count);
  for (std::uint32_t vertex = 0; vertex < count; ++vertex) {
    open[vertex] = static_cast<std::uint32_t>(graph.depends_on[vertex].size());
    for (const std::uint32_t target : graph.depends_on[vertex]) waiting[target].push_back(vertex);
  }
  std::vector<std::uint32_t> ready;
  for (std::uint32_t vertex = 0; vertex < count; ++vertex) {
    if (open[vertex] == 0) ready.push_back(vertex);
  }
  std::size_t removed = 0;
  while (!ready.empty()) {
    const std::uint32_t vertex = ready.back();
    ready.pop_back();
    ++removed;
    for (const std::uint32_t waiter : waiting[vertex]) {
      if (--open[waiter] == 0) ready.push_back(waiter);
    }
  }
  if (removed == count) return {};

  // Every vertex that stays has a dependency that stays: following them must come back to where it was.
  std::uint32_t vertex = 0;
  while (open[vertex] == 0) ++vertex;
  std::vector<std::uint32_t> way;
  std::vector<bool> seen(count, false);
  while (!seen[vertex]) {
    seen[vertex] = true;
    way.push_back(vertex);
    vertex = *std::find_if(graph.depends_on[vertex].begin(), graph.depends_on[vertex].end(),
                           [&](std::uint32_t target) { return open[target] != 0; });
  }
  way.erase(way.begin(), std::find(way.begin(), way.end(), vertex));
  return way;
}

}  // namespace basalt::webhooks
