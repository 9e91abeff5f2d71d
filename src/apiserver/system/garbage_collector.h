#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "apiserver/registry/api_server.h"
#include "apiserver/registry/wake_signal.h"
#include "apiserver/system/owner_index.h"
#include "base/log.h"
#include "kube/client.h"
#include "rt/runtime.h"
#include "rt/stop.h"

namespace basalt::apiserver {

// Deletes what nobody owns any more, and carries out foreground deletion and orphaning, as the garbage collector of
// kube-controller-manager does. One thread; it keeps an index of the objects that have owners, fed by watches on every
// stored resource. It also lets the store forget what is too old, which a quiet store does not do by itself. A failed
// call is tried again with a growing delay, for ever.
class GarbageCollector {
 public:
  // What the store keeps of the past is dropped at the latest this long after it has become too old.
  GarbageCollector(rt::Runtime& runtime, Logger log, ApiServer& server, rt::Duration trim_period);
  ~GarbageCollector();
  void stop();

 private:
  struct Source {
    std::shared_ptr<const ResourceType> type;
    std::unique_ptr<Watcher> watcher;
  };
  void run();
  void follow_new_types();
  void follow(ResourceId resource, Source& source);
  bool take_events();
  void observe(ResourceId resource, const Event& event);
  void forget(const std::string& uid);
  void wake_waiting(const std::vector<std::string>& owner_uids);
  void enqueue(ObjectRef object);
  void retry_later(ObjectRef object);
  void take_due_retries();
  void trim_history();
  void examine(const ObjectRef& object);
  Done collect_if_unowned(const ObjectRef& object, const CollectedMetadata& metadata);
  [[nodiscard]] bool waits(const ObjectRef& object) const;
  [[nodiscard]] static bool waits(const Entry& entry);
  Done finish_foreground(const ObjectRef& object);
  Done stop_blocking(const ObjectRef& object);
  Done orphan_dependents(const ObjectRef& object);
  Done drop_owners(const ObjectRef& object, const std::set<std::string>& owner_uids);
  Done remove_finalizer(const ObjectRef& object, std::string_view finalizer);
  Done remove_object(const ObjectRef& object, kube::Propagation propagation);
  enum class OwnerState { Absent, Waiting, Solid };
  OwnerState state_of(const ObjectRef& object, const OwnerRef& owner) const;
  [[nodiscard]] kube::Request request_for(const ObjectRef& object, kube::Verb verb) const;

  rt::Runtime& runtime_;
  Logger log_;
  ApiServer& server_;
  const rt::Duration trim_period_;
  std::unique_ptr<kube::Client> client_;
  std::shared_ptr<WakeSignal> signal_;
  rt::StopSource stop_;

  // Used by the thread alone.
  std::shared_ptr<const TypeTable> types_;
  std::map<ResourceId, Source> sources_;
  OwnerIndex index_;
  std::map<std::string, ObjectRef> waiting_;  // by UID: deleted in the foreground, and dependents still hold them
  std::deque<ObjectRef> queue_;
  std::set<ObjectRef> queued_;
  std::multimap<rt::Instant, ObjectRef> retries_;
  std::map<std::string, int> failures_;  // by UID

  rt::Instant trim_at_ = rt::kNever;  // never while there is nothing to drop

  rt::Thread thread_;
};

}  // namespace basalt::apiserver
