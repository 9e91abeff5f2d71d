#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/log.h"
#include "base/result.h"
#include "json/value.h"
#include "kube/client.h"
#include "rt/runtime.h"
#include "rt/stop.h"

namespace basalt::kube {

class EventRecorder;

struct LeaderElectionOptions {
  std::string ns = "volcano-system";
  std::string name = "vc-controller-manager";
  std::string identity;  // unique to this process: make_identity()
  // Volcano's defaults (cmd/controller-manager, v1.12). A holder that is cut off stops `renew_deadline` after its last
  // success, another may begin `lease_duration` after that; the difference is the room for clocks that run differently.
  rt::Duration lease_duration = std::chrono::seconds(15);
  rt::Duration renew_deadline = std::chrono::seconds(10);
  rt::Duration retry_period = std::chrono::seconds(2);
  bool release_on_stop = true;
  EventRecorder* recorder = nullptr;  // "<identity> became leader" / "stopped leading" on the Lease
};

// "<host>_<random UUID>"
[[nodiscard]] std::string make_identity(rt::Runtime& runtime, std::string_view host);
// The settings make sense: lease > renew deadline > 1.2 x retry period > 0, names not empty. Names the flag at fault.
[[nodiscard]] Done validate(const LeaderElectionOptions& options);

// Takes part in the election of a leader through a Lease.
//
// A lease is held until its record has not changed for `leaseDurationSeconds` as seen on *our* clock; clocks of others
// are never compared. Our own hold counts from the moment *before* the last successful request was sent, so it ends
// `lease_duration - renew_deadline` before another may act, whatever happened to this process in between: stopped,
// swapped out, cut off. Time is the boot-time clock, which goes on while the machine sleeps.
class LeaderElector {
 public:
  struct Callbacks {
    // On the thread of run(). `started` begins the work and returns. `stopped` ends it and returns when it has ended;
    // it has until lease_duration - renew_deadline. `new_leader` gets every holder that is seen, also ourselves.
    std::function<void()> started;
    std::function<void()> stopped;
    std::function<void(const std::string& identity)> new_leader;
  };

  LeaderElector(rt::Runtime& runtime, Client& client, Logger log, LeaderElectionOptions options, Callbacks callbacks);

  // Waits for leadership, holds it, and returns when it ended: success if `stop` asked for it (the lease is released),
  // an error if it was lost. Called once.
  [[nodiscard]] Done run(const rt::StopToken& stop);

  // Whether we may act now: consult it right before a write. Any thread.
  [[nodiscard]] bool still_leader() const;
  // The time, on clock(), up to which we may act unless it is renewed; in the past if we are not the leader.
  [[nodiscard]] rt::Instant is_leader_until() const;
  [[nodiscard]] rt::Instant clock() const;
  // Stops when the leadership is lost, or has been given up.
  [[nodiscard]] rt::StopToken leading() const { return leading_.token(); }
  [[nodiscard]] rt::Runtime& runtime() const { return runtime_; }
  // The holder seen last, "" if none.
  [[nodiscard]] std::string leader() const;
  [[nodiscard]] const std::string& identity() const { return options_.identity; }

 private:
  struct Record {
    std::string holder;
    rt::Duration duration{};
    std::int64_t transitions = 0;
    std::string acquire_time;
    std::string renew_time;
    bool operator==(const Record&) const = default;
  };

  [[nodiscard]] bool acquire(const rt::StopToken& stop);
  [[nodiscard]] Error hold(const rt::StopToken& stop);
  Done try_once(const rt::StopToken& stop);
  Done read_lease(const rt::StopToken& stop);
  Done write_lease(bool create, const Record& record, rt::Duration timeout, const rt::StopToken& stop);
  void give_up();
  void observe(std::string_view text);
  void release();
  void announce();
  void emit_event(std::string_view what) const;
  [[nodiscard]] Record next_record() const;
  [[nodiscard]] rt::Duration acquire_pause();
  [[nodiscard]] rt::Duration attempt_timeout() const;
  [[nodiscard]] bool lease_is_free() const;

  // Fixed after construction.
  rt::Runtime& runtime_;
  Client& client_;
  const Logger log_;
  const LeaderElectionOptions options_;
  const Callbacks callbacks_;

  // Self-locking.
  std::atomic<rt::Duration::rep> leader_until_;
  rt::StopSource leading_;

  mutable rt::Mutex mutex_;
  std::string leader_ BASALT_GUARDED_BY(mutex_);

  // Used by run() only.
  std::optional<json::Value> lease_;  // as last seen; nothing if there is none
  Record record_;                     // of the lease seen last, also if it was deleted since
  bool was_seen_ = false;
  bool wrote_unconfirmed_ = false;  // the last write may have taken effect although we saw a failure
  rt::Instant observed_at_{};       // when record_ was last seen to change
  std::string announced_;
};

// A view of `inner` that refuses writes (Reason::Cancelled) once `elector` is not the leader any more, and lets none
// outlast the leadership: the timeout of a write ends with it, and what a call_all has not sent by then is not sent.
// Reads pass.
[[nodiscard]] std::unique_ptr<Client> fenced_client(Client& inner, const LeaderElector& elector);

}  // namespace basalt::kube
