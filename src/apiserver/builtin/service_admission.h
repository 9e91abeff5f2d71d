#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "apiserver/registry/admission.h"
#include "apiserver/store/store.h"
#include "base/thread_annotations.h"
#include "rt/mutex.h"

namespace basalt::apiserver {

// Numbers of a range, each given out once: the addresses or the node ports of services. What is taken is read from the
// store at the first question, and again when the range seems exhausted, which is when those of deleted services come
// back, or when a number is asked for that seems to be taken. Thread-safe; never holds its lock while it reads.
class NumberPool {
 public:
  using TakenNumbers = std::function<std::set<std::uint32_t>()>;
  struct Range {
    std::uint32_t first;
    std::uint32_t last;
    std::uint32_t start;  // where the search begins; what lies before is left to those who name a number
  };
  NumberPool(Range range, TakenNumbers taken) : range_(range), taken_(std::move(taken)), next_(range.start) {}

  [[nodiscard]] bool contains(std::uint32_t number) const { return number >= range_.first && number <= range_.last; }
  // Nothing if all are taken.
  std::optional<std::uint32_t> take();
  // False if a service has it.
  bool take(std::uint32_t number);

 private:
  std::optional<std::uint32_t> find_free();
  std::set<std::uint32_t> read_again();

  // Fixed after construction.
  const Range range_;
  const TakenNumbers taken_;

  rt::Mutex mutex_;
  bool has_read_ BASALT_GUARDED_BY(mutex_) = false;
  std::uint32_t next_ BASALT_GUARDED_BY(mutex_);
  std::set<std::uint32_t> used_ BASALT_GUARDED_BY(mutex_);
  std::set<std::uint32_t> recent_ BASALT_GUARDED_BY(mutex_);  // given out since the last read: perhaps not stored yet
};

// "10.96.0.0/16" -> its first and last address; nothing if it is no IPv4 range.
[[nodiscard]] std::optional<std::pair<std::uint32_t, std::uint32_t>> parse_ip_range(std::string_view text);
[[nodiscard]] std::optional<std::uint32_t> parse_ipv4(std::string_view text);
[[nodiscard]] std::string format_ipv4(std::uint32_t address);

// Gives services their cluster addresses and node ports.
[[nodiscard]] std::shared_ptr<AdmissionHook> service_admission(Store& store, std::string service_ip_range);

}  // namespace basalt::apiserver
