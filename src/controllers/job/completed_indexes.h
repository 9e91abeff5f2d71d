#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace basalt::controllers::job {

// The indexes of one task whose pods succeeded: the durable record by which a pod that is gone (node removed, object
// collected) is never run again. Kept in status.controlledResources under "completed-<task>" as
//
//   <version>:<intervals>    "2:0-3,7"       the text of the intervals, or
//   <version>:~<bitmap>      "2:~gAE"        base64url of one bit an index, if that is shorter
//
// so it takes at most a sixth of a byte for each replica (or 64 bytes), and a few bytes if pods finish in order.
// `version` is the job's version when the last index was added: TaskCompleted is an event of that version only.
class CompletedIndexes {
 public:
  static constexpr std::int32_t kIndexMax = 1'000'000;  // what lies above is not recorded

  // What cannot be read is an empty record: the pods that exist still count.
  [[nodiscard]] static CompletedIndexes parse(std::string_view text);
  [[nodiscard]] std::string to_text() const;  // "" if empty

  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::int32_t size() const { return size_; }
  [[nodiscard]] std::int32_t version() const { return version_; }
  [[nodiscard]] bool contains(std::int32_t index) const;
  // Returns whether it is new.
  bool add(std::int32_t index, std::int32_t version);
  void remove(std::int32_t index);
  void clear() { *this = CompletedIndexes(); }
  void truncate(std::int32_t replicas);  // forgets indexes at and above it
  bool operator==(const CompletedIndexes&) const = default;

 private:
  std::vector<bool> bits_;  // no trailing zeros
  std::int32_t size_ = 0;
  std::int32_t version_ = 0;
};

}  // namespace basalt::controllers::job
