#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "json/value.h"
#include "kube/client.h"
#include "rt/runtime.h"
#include "rt/stop.h"

namespace basalt::controllers::sharding {

// What the controller says about itself, for `basalt shard status`.
struct ShardingStatus {
  struct Shard {
    std::string name;
    std::int64_t nodes = 0;
    std::int64_t nodes_min = 0;
    std::int64_t nodes_max = 0;  // 0: no limit
    std::int64_t parts = 1;
    std::int64_t missing = 0;  // to the minimum
    std::int64_t cut = 0;      // nodes that no object has room for
    bool operator==(const Shard&) const = default;
  };
  std::string configuration;  // "flags", "ConfigMap ns/name"
  std::string configuration_version;
  std::string configuration_problem;  // "" if what was written last is in force
  std::string document;               // the text in force, "" for flags
  std::vector<std::string> flags;     // --scheduler-configs, if these are in force
  std::string breaker;                // "closed", "open", "half open"
  std::string write_problem;          // the last failure of a write that has not been repeated with success
  std::int64_t nodes = 0;
  std::int64_t unassigned = 0;
  std::vector<Shard> shards;
  bool operator==(const ShardingStatus&) const = default;
};

// As the data of a ConfigMap, so that kubectl shows it, too.
[[nodiscard]] json::Value to_data(const ShardingStatus& status);
[[nodiscard]] Result<ShardingStatus> from_data(const json::Value& data);

// Where it is written: beside the ConfigMap of the configuration.
inline constexpr std::string_view kStatusConfigMap = "volcano-sharding-status";

// Writes the status when it has changed, at most once in kIntervalMin; what fails is tried again later and disturbs
// nobody. One thread.
class StatusReport {
 public:
  StatusReport(rt::Runtime& runtime, kube::Client& client, std::string ns);
  void set(ShardingStatus status);
  [[nodiscard]] rt::Instant next() const;  // kNever: nothing to write
  void write(const rt::StopToken& stop);

  static constexpr rt::Duration kIntervalMin = std::chrono::seconds(5);
  static constexpr rt::Duration kRetryAfter = std::chrono::seconds(30);
  static constexpr std::size_t kDocumentMax = 256 * 1024;  // longer texts are left out

 private:
  rt::Runtime& runtime_;
  kube::Client& client_;
  const std::string ns_;
  ShardingStatus wanted_;
  std::optional<ShardingStatus> written_;
  rt::Instant not_before_{};
};

}  // namespace basalt::controllers::sharding
