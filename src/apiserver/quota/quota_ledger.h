#pragma once

#include <map>
#include <set>
#include <string>

#include "base/thread_annotations.h"
#include "rt/mutex.h"
#include "rt/runtime.h"

namespace basalt::apiserver {

// Who charges the quotas of a namespace now, and when that was done last. Shared by admission and the keeper.
class QuotaLedger {
 public:
  explicit QuotaLedger(rt::Runtime& runtime) : runtime_(runtime), condition_(runtime) {}

  // Holds a namespace while it exists; others wait for their turn.
  class Turn {
   public:
    Turn(QuotaLedger& ledger, std::string ns) : ledger_(ledger), ns_(std::move(ns)) { ledger_.enter(ns_); }
    ~Turn() { ledger_.leave(ns_); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    QuotaLedger& ledger_;
    const std::string ns_;
  };

  void note_charge(const std::string& ns) {
    rt::MutexLock lock(mutex_);
    charged_[ns] = runtime_.now();
  }
  // When a namespace was charged last; the distant past if never.
  [[nodiscard]] rt::Instant last_charge(const std::string& ns) {
    rt::MutexLock lock(mutex_);
    const auto found = charged_.find(ns);
    return found == charged_.end() ? rt::Instant() : found->second;
  }
  void forget(const std::string& ns) {
    rt::MutexLock lock(mutex_);
    charged_.erase(ns);
  }

 private:
  void enter(const std::string& ns) {
    rt::MutexLock lock(mutex_);
    while (held_.contains(ns)) condition_.wait(mutex_);
    held_.insert(ns);
  }
  void leave(const std::string& ns) {
    rt::MutexLock lock(mutex_);
    held_.erase(ns);
    condition_.notify_all();
  }

  rt::Runtime& runtime_;
  rt::Mutex mutex_;
  rt::Condition condition_;
  std::set<std::string> held_ BASALT_GUARDED_BY(mutex_);
  std::map<std::string, rt::Instant> charged_ BASALT_GUARDED_BY(mutex_);  // of namespaces that have quotas
};

}  // namespace basalt::apiserver
