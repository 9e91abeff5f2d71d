#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace basalt::workloads {

// A set of completion indexes, written as Job status has it: "0-2,5". Small however many they are, as long as they
// come in runs.
class IndexSet {
 public:
  // What cannot be read is left out.
  [[nodiscard]] static IndexSet parse(std::string_view text);
  [[nodiscard]] std::string to_text() const;
  [[nodiscard]] bool contains(std::int64_t index) const;
  void add(std::int64_t index);
  [[nodiscard]] std::int64_t size() const;
  // The first at or after `index` that is not in the set.
  [[nodiscard]] std::int64_t next_free(std::int64_t index) const;
  // How many are in both.
  [[nodiscard]] std::int64_t count_common(const IndexSet& other) const;
  // Those below the limit.
  [[nodiscard]] IndexSet below(std::int64_t limit) const;

 private:
  void add_run(std::int64_t first, std::int64_t last);
  std::map<std::int64_t, std::int64_t> runs_;  // first -> last; neither touching nor overlapping
};

}  // namespace basalt::workloads
