#pragma once

#include <optional>
#include <string>

#include "api/object_key.h"
#include "base/result.h"
#include "cli/client/host.h"
#include "cli/client/objects.h"
#include "cli/run/job_progress.h"

namespace basalt::cli {

// One job from now to its end: its state by a watch, its newest event by asking now and then.
class JobFollower {
 public:
  // `uid` tells the job from one of the same name that comes later; "" = whatever is there first.
  JobFollower(Session& session, api::ObjectKey key, std::string uid);

  // Waits for a change until the deadline. Errors that pass are retried; others are returned.
  [[nodiscard]] Done poll(rt::Instant deadline, const rt::StopToken& stop);
  [[nodiscard]] bool has_ended() const { return is_deleted_ || is_final(progress_.phase); }
  [[nodiscard]] bool is_deleted() const { return is_deleted_; }
  [[nodiscard]] int exit_code() const {
    return is_final(progress_.phase) ? exit_code_of(progress_.phase) : kExitJobDeleted;
  }
  [[nodiscard]] JobProgress progress() const;                     // with the time that has passed
  [[nodiscard]] std::size_t changes() const { return changes_; }  // seen so far
  [[nodiscard]] const api::ObjectKey& key() const { return key_; }
  [[nodiscard]] const std::string& uid() const { return uid_; }

 private:
  void look_for_events(const rt::StopToken& stop);
  void look_for_reason(const rt::StopToken& stop);

  Session& session_;
  const api::ObjectKey key_;
  std::string uid_;
  ObjectWatch watch_;
  JobProgress progress_;
  std::size_t changes_ = 0;
  bool is_deleted_ = false;
  const rt::Instant begun_;
  std::optional<rt::Instant> ended_;
  rt::Instant changed_at_;
  rt::Instant next_events_;
};

}  // namespace basalt::cli
