#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "rt/mutex.h"

namespace basalt::controllers::queue {

// Phases that are counted; what has another phase, or none, counts towards the total only.
enum class CountedPhase : std::uint8_t { Pending, Running, Unknown, Inqueue, Completed };
inline constexpr std::size_t kCountedPhases = 5;
[[nodiscard]] std::string_view to_string(CountedPhase phase);

struct GroupCounts {
  std::array<std::int64_t, kCountedPhases> by_phase{};
  std::int64_t total = 0;
  bool operator==(const GroupCounts&) const = default;
};

// How many pod groups each queue holds, kept up to date change by change: a pass over a queue of 100,000 groups costs
// as much as over an empty one. Queues that do not exist are counted, too, so that one that appears (again) has its
// groups at once. Entries vanish with their last group. Thread-safe.
class PodGroupCounts {
 public:
  void add(std::string_view queue, std::string_view phase) { change(queue, phase, 1); }
  void remove(std::string_view queue, std::string_view phase) { change(queue, phase, -1); }
  [[nodiscard]] GroupCounts of(std::string_view queue) const;
  [[nodiscard]] std::size_t queues() const;

 private:
  void change(std::string_view queue, std::string_view phase, std::int64_t by);

  mutable rt::Mutex mutex_;
  std::map<std::string, GroupCounts, std::less<>> counts_ BASALT_GUARDED_BY(mutex_);
};

}  // namespace basalt::controllers::queue
