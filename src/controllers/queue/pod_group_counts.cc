#include "controllers/queue/pod_group_counts.h"

#include <optional>

#include "api/gen/scheduling_podgroup.h"
#include "base/check.h"

namespace basalt::controllers::queue {

namespace phases = api::scheduling::pod_group_phase;

namespace {
constexpr std::array<std::string_view, kCountedPhases> kWords = {phases::kPending, phases::kRunning, phases::kUnknown,
                                                                 phases::kInqueue, phases::kCompleted};
}

std::string_view to_string(CountedPhase phase) { return kWords.at(static_cast<std::size_t>(phase)); }

GroupCounts PodGroupCounts::of(std::string_view queue) const {
  const rt::MutexLock lock(mutex_);
  const auto found = counts_.find(queue);
  return found == counts_.end() ? GroupCounts{} : found->second;
}

std::size_t PodGroupCounts::queues() const {
  const rt::MutexLock lock(mutex_);
  return counts_.size();
}

void PodGroupCounts::change(std::string_view queue, std::string_view phase, std::int64_t by) {
  const rt::MutexLock lock(mutex_);
  auto found = counts_.find(queue);
  if (found == counts_.end()) found = counts_.emplace(std::string(queue), GroupCounts{}).first;
  GroupCounts& counts = found->second;
  counts.total += by;
  for (std::size_t i = 0; i < kWords.size(); ++i) {
    if (kWords.at(i) == phase) counts.by_phase.at(i) += by;
  }
  BASALT_DCHECK(counts.total >= 0);
  if (counts.total == 0) counts_.erase(found);
}

}  // namespace basalt::controllers::queue
