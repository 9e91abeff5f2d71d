#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "kube/client.h"
#include "kube/event_recorder.h"
#include "kube/expectations.h"
#include "kube/metrics.h"
#include "rt/runtime.h"
#include "rt/work_queue.h"
#include "rt/workers.h"
#include "workloads/common/caches.h"
#include "workloads/common/writer.h"

namespace basalt::workloads {

// What every controller of this folder is given. All of it outlives them.
struct Context {
  rt::Runtime& runtime;
  kube::Client& client;
  Logger log;
  kube::EventRecorder& events;
  kube::Metrics& metrics;
  Caches& caches;
};

// A controller: keys of one kind of object, a few workers over them. A derived class adds its handlers and the caches
// that its writes show up in, in its constructor, before the caches start; start() comes once they are filled, stop()
// before destruction. A key is worked on only while the caches show all that its worker has written before.
class KeyedController {
 public:
  virtual ~KeyedController() = default;
  KeyedController(const KeyedController&) = delete;
  KeyedController& operator=(const KeyedController&) = delete;

  void start();
  void stop();  // idempotent

 protected:
  // `kind` is what it is called in events; `name` in logs and threads.
  struct Options {
    std::string name;
    OwnerKind kind;
    kube::Resource resource;
    int workers = 2;
    // The longest pause between two tries: after an outage all is well within two of them.
    rt::Duration backoff_max = std::chrono::seconds(4);
  };
  KeyedController(Context& context, Options options, kube::Informer<Object>& objects);

  virtual rt::Outcome reconcile(const Object& object, const rt::StopToken& stop) = 0;
  // The key's object is gone: what is left of it.
  virtual rt::Outcome gone(const api::ObjectKey&, const rt::StopToken&) { return rt::Outcome::done(); }

  void add(const api::ObjectKey& key) { work_.add(key); }
  // The owner of what changed, if it is one of ours and as we know it.
  template <class Metadata>
  void add_owner(const Metadata& metadata) {
    if (metadata.owner_kind != options_.kind.kind) return;
    const api::ObjectKey key{std::string(std::string_view(metadata.namespace_)),
                             std::string(std::string_view(metadata.owner_name))};
    const auto owner = objects_.get(key);
    if (owner && owner->metadata.uid == std::string_view(metadata.owner_uid)) work_.add(key);
  }
  // Both before and after a change: what is released matters to who had it.
  template <class T>
  void add_owners(const kube::Change<T>& change) {
    if (change.before) add_owner(change.before->metadata);
    if (change.after) add_owner(change.after->metadata);
  }
  // Whoever may want to adopt an object of these labels.
  void add_adopters(std::string_view ns, const api::StringMap& labels);

  // Named after the object (`metadata.generateName` is set here), with an event each; a refusal is told, too.
  Done make_pods(const Object& object, std::vector<json::Value> pods, const rt::StopToken& stop);
  Done remove_pods(const Object& object, const std::vector<PodPtr>& pods, const rt::StopToken& stop);
  void tell(const Object& object, kube::EventType type, std::string_view reason, std::string_view message);
  [[nodiscard]] api::Time time_now() const { return api::Time::from(context_.runtime.wall_now()); }

  // Fixed after construction.
  Context& context_;
  const Options options_;
  const Logger log_;
  kube::Informer<Object>& objects_;

  // Self-locking.
  rt::WorkQueue<api::ObjectKey> work_;
  kube::Expectations expectations_;
  Writer writer_;

 private:
  rt::Outcome work_on(const api::ObjectKey& key, const rt::StopToken& stop);
  void log_outcome(const api::ObjectKey& key, const rt::Outcome& outcome);

  std::optional<rt::Workers<api::ObjectKey>> workers_;  // used only by the owner
};

// An outcome that may have something to wait for.
[[nodiscard]] rt::Outcome done_or_after(const std::optional<rt::Duration>& wait);

}  // namespace basalt::workloads
