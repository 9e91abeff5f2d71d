#pragma once

#include <cstddef>
#include <vector>

namespace basalt::rt::internal {

inline constexpr std::size_t kNotInHeap = static_cast<std::size_t>(-1);

// Items that wait for their deadlines, the earliest first, and the smaller id first among equals. An item knows its
// place (`heap_index`, first kNotInHeap), so one that no longer waits is taken out at once and long timeouts do not
// pile up. T has the members `deadline`, `id` and `heap_index`. The heap does not own its items.
template <class T>
class DeadlineHeap {
 public:
  [[nodiscard]] bool empty() const { return heap_.empty(); }
  [[nodiscard]] std::size_t size() const { return heap_.size(); }
  [[nodiscard]] T& first() const { return *heap_.front(); }

  void insert(T& item) {
    heap_.push_back(&item);
    sift_up(heap_.size() - 1);
  }

  // Nothing if it is not in.
  void erase(T& item) {
    const std::size_t index = item.heap_index;
    if (index == kNotInHeap) return;
    item.heap_index = kNotInHeap;
    T& last = *heap_.back();
    heap_.pop_back();
    if (&last == &item) return;
    put(last, index);
    sift_up(index);
    sift_down(last.heap_index);
  }

 private:
  static bool earlier(const T& a, const T& b) {
    return a.deadline != b.deadline ? a.deadline < b.deadline : a.id < b.id;
  }
  void put(T& item, std::size_t index) {
    heap_[index] = &item;
    item.heap_index = index;
  }
  void sift_up(std::size_t index) {
    T& item = *heap_[index];
    while (index > 0) {
      const std::size_t parent = (index - 1) / 2;
      if (!earlier(item, *heap_[parent])) break;
      put(*heap_[parent], index);
      index = parent;
    }
    put(item, index);
  }
  void sift_down(std::size_t index) {
    T& item = *heap_[index];
    for (std::size_t child = 2 * index + 1; child < heap_.size(); child = 2 * index + 1) {
      if (child + 1 < heap_.size() && earlier(*heap_[child + 1], *heap_[child])) ++child;
      if (!earlier(*heap_[child], item)) break;
      put(*heap_[child], index);
      index = child;
    }
    put(item, index);
  }

  std::vector<T*> heap_;
};

}  // namespace basalt::rt::internal
