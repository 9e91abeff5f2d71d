#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <utility>

#include "base/check.h"

namespace basalt::kube {

// A map that forgets what was not used for the longest time. One thread.
template <class Key, class Value>
class LruMap {
 public:
  explicit LruMap(std::size_t entries_max) : entries_max_(entries_max) { BASALT_CHECK(entries_max > 0); }

  // Valid until the next call.
  template <class Make>
  Value& get_or_add(const Key& key, Make make) {
    const auto found = index_.find(key);
    if (found != index_.end()) {
      order_.splice(order_.begin(), order_, found->second);
      return found->second->second;
    }
    if (index_.size() >= entries_max_) {
      index_.erase(order_.back().first);
      order_.pop_back();
    }
    order_.emplace_front(key, make());
    index_.emplace(key, order_.begin());
    return order_.front().second;
  }
  [[nodiscard]] std::size_t size() const { return index_.size(); }

 private:
  using Order = std::list<std::pair<Key, Value>>;
  const std::size_t entries_max_;
  Order order_;  // last used first
  std::map<Key, typename Order::iterator> index_;
};

}  // namespace basalt::kube
