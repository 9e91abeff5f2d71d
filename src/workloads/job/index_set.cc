#include "workloads/job/index_set.h"

#include <algorithm>
#include <iterator>

#include "base/strings.h"

namespace basalt::workloads {

void IndexSet::add_run(std::int64_t first, std::int64_t last) {
  auto next = runs_.upper_bound(first);
  if (next != runs_.begin() && std::prev(next)->second >= first - 1) {
    --next;
    first = next->first;
  }
  while (next != runs_.end() && next->first <= last + 1) {
    last = std::max(last, next->second);
    next = runs_.erase(next);
  }
  runs_[first] = last;
}

IndexSet IndexSet::parse(std::string_view text) {
  IndexSet set;
  if (text.empty()) return set;
  for (const std::string_view piece : base::split(text, ',')) {
    const auto range = base::split_once(piece, '-');
    const auto first = base::parse_uint64(range ? range->first : piece);
    const auto last = range ? base::parse_uint64(range->second) : first;
    if (first && last && *first <= *last && *last <= 2'147'483'647)
      set.add_run(static_cast<std::int64_t>(*first), static_cast<std::int64_t>(*last));
  }
  return set;
}

std::string IndexSet::to_text() const {
  std::string text;
  for (const auto& [first, last] : runs_) {
    if (!text.empty()) text += ',';
    text += std::to_string(first);
    if (last > first) text += (last == first + 1 ? "," : "-") + std::to_string(last);
  }
  return text;
}

bool IndexSet::contains(std::int64_t index) const { return next_free(index) != index; }

void IndexSet::add(std::int64_t index) { add_run(index, index); }

std::int64_t IndexSet::size() const {
  std::int64_t count = 0;
  for (const auto& [first, last] : runs_) count += last - first + 1;
  return count;
}

std::int64_t IndexSet::next_free(std::int64_t index) const {
  const auto next = runs_.upper_bound(index);
  if (next == runs_.begin()) return index;
  const auto& run = *std::prev(next);
  return run.second >= index ? run.second + 1 : index;
}

std::int64_t IndexSet::count_common(const IndexSet& other) const {
  std::int64_t count = 0;
  for (const auto& [first, last] : runs_) {
    auto run = other.runs_.upper_bound(first);
    if (run != other.runs_.begin()) --run;
    for (; run != other.runs_.end() && run->first <= last; ++run)
      count += std::max<std::int64_t>(0, std::min(last, run->second) - std::max(first, run->first) + 1);
  }
  return count;
}

IndexSet IndexSet::below(std::int64_t limit) const {
  IndexSet set;
  for (const auto& [first, last] : runs_) {
    if (first < limit) set.add_run(first, std::min(last, limit - 1));
  }
  return set;
}

}  // namespace basalt::workloads
