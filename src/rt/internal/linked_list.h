#pragma once

#include <cstddef>

namespace basalt::rt::internal {

// A list through the members `previous` and `next` of its items, which it does not own. An item is in one list at most.
template <class T>
class LinkedList {
 public:
  [[nodiscard]] bool empty() const { return first_ == nullptr; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] T* first() const { return first_; }

  void push_back(T& item) {
    item.previous = last_;
    item.next = nullptr;
    (last_ != nullptr ? last_->next : first_) = &item;
    last_ = &item;
    ++size_;
  }
  void erase(T& item) {
    (item.previous != nullptr ? item.previous->next : first_) = item.next;
    (item.next != nullptr ? item.next->previous : last_) = item.previous;
    item.previous = item.next = nullptr;
    --size_;
  }

 private:
  T* first_ = nullptr;
  T* last_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace basalt::rt::internal
