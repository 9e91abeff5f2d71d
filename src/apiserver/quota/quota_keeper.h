#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "apiserver/quota/quota_ledger.h"
#include "apiserver/registry/api_server.h"
#include "apiserver/registry/wake_signal.h"
#include "base/log.h"
#include "kube/client.h"
#include "rt/runtime.h"
#include "rt/stop.h"

namespace basalt::apiserver {

// Counts what the quotas of a namespace are about whenever one of them, or something that they count, has changed, and
// writes it to their status. Without quotas it sleeps. One thread; failures are tried again, for ever.
class QuotaKeeper {
 public:
  QuotaKeeper(rt::Runtime& runtime, Logger log, ApiServer& server, std::shared_ptr<QuotaLedger> ledger);
  ~QuotaKeeper();
  void stop();

 private:
  struct Dirty {
    rt::Instant since;
    rt::Instant not_before;
  };

  void run();
  // Follows quotas, and what they are about; what changed makes its namespace dirty.
  void follow_all();
  void take_changes(const std::string& storage);
  void mark(const std::string& ns);
  // When the next namespace is due; kNever if none is dirty.
  rt::Instant count_what_is_due();
  Done count_namespace(const std::string& ns);

  rt::Runtime& runtime_;
  Logger log_;
  ApiServer& server_;
  const std::shared_ptr<QuotaLedger> ledger_;
  std::unique_ptr<kube::Client> client_;
  std::shared_ptr<WakeSignal> signal_;
  rt::StopSource stop_;
  // Of the keeper's thread alone.
  std::map<std::string, std::unique_ptr<Watcher>> watchers_;  // by "group/plural"
  std::map<std::string, Dirty> dirty_;                        // by namespace
  std::map<std::string, rt::Instant> rest_until_;             // by namespace: the next count comes then at the earliest
  rt::Thread thread_;
};

}  // namespace basalt::apiserver
