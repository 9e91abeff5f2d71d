#include "federation/federation.h"

#include <atomic>
#include <optional>
#include <utility>

#include "api/conditions.h"
#include "api/gen/names.h"
#include "federation/ledger.h"
#include "kube/typed.h"
#include "rt/work_queue.h"
#include "rt/workers.h"

namespace basalt::federation {

using api::ObjectKey;
using api::batch::Job;
using api::karmada::Cluster;
using api::karmada::PropagationPolicy;
using api::karmada::PropagationSpec;
using api::karmada::ResourceBinding;
using rt::Outcome;

namespace {

template <class T>
kube::InformerOptions<T> informer_options() {
  kube::InformerOptions<T> options;
  options.reflector.resource = kube::resource_of<T>();
  options.reflector.backoff_max = std::chrono::seconds(4);
  return options;
}

// With ten thousand policies in a namespace a job looks at those that may mean it.
kube::InformerOptions<PropagationPolicy> policy_options() {
  auto options = informer_options<PropagationPolicy>();
  options.indexes = {
      {std::string(kPolicyTargets), [](const PropagationPolicy& policy, std::vector<std::string>& values) {
         for (const auto& selector : policy.spec.resource_selectors)
           values.push_back(policy_target(policy.metadata.namespace_, selector.name));
       }}};
  return options;
}

bool is_ready_cluster(const Cluster& cluster) {
  return api::is_condition_true(cluster.status.conditions, api::condition_types::kReady);
}

bool is_over(const ResourceBinding& binding) {
  if (binding.status.aggregated_status.size() != binding.spec.clusters.size()) return false;
  for (const auto& item : binding.status.aggregated_status) {
    if (!is_finished(item.status.value().string_at({"state", "phase"}))) return false;
  }
  return !binding.spec.clusters.empty();
}

}  // namespace

class Federation::State {
 public:
  State(rt::Runtime& runtime, kube::Client& host, const std::map<std::string, kube::Client*>& members, Logger log,
        const FederationOptions& options)
      : runtime_(runtime),
        options_(options),
        log_(log.with({{"component", "federation"}})),
        jobs_(runtime, host, log_, informer_options<Job>()),
        policies_(runtime, host, log_, policy_options()),
        cluster_policies_(runtime, host, log_, informer_options<ClusterPropagationPolicy>()),
        bindings_(runtime, host, log_, informer_options<ResourceBinding>()),
        clusters_(runtime, host, log_, informer_options<Cluster>()),
        work_(runtime, {.name = "federation", .backoff = {.cap = options.backoff_max}},
              [](const ObjectKey& key) { return std::hash<std::string>()(key.ns); }),
        expectations_(runtime, {.expiry = std::chrono::seconds(30), .name = "federation"},
                      [this](const ObjectKey& key) { work_.add(key); }),
        propagator_(runtime, host, log_, {jobs_, policies_, cluster_policies_, bindings_, clusters_}, members_,
                    expectations_, ledger_, options.propagator),
        stop_(runtime) {
    for (const auto& [name, client] : members) {
      members_.emplace(name, std::make_unique<Member>(
                                 runtime, host, name, *client, log_, options.member,
                                 [this](const kube::Change<Job>& change) { on_member_job(change); },
                                 [this](const ObjectKey& key) { work_.add(key); }));
    }
    expectations_.connect(jobs_.core());
    expectations_.connect(bindings_.core());
    jobs_.add_handler([this](const kube::Change<Job>& change) { on_job(change); });
    policies_.add_handler([this](const kube::Change<PropagationPolicy>& change) {
      mark_selected(change.object().spec, change.object().metadata.namespace_);
    });
    cluster_policies_.add_handler([this](const kube::Change<ClusterPropagationPolicy>&) { mark_all(); });
    bindings_.add_handler([this](const kube::Change<ResourceBinding>& change) { on_binding(change); });
    clusters_.add_handler([this](const kube::Change<Cluster>& change) {
      if (!change.is_updated() || is_ready_cluster(*change.before) != is_ready_cluster(*change.after) ||
          change.before->metadata.labels != change.after->metadata.labels)
        mark_all();
    });
  }

  void start() {
    for (kube::InformerCore* informer : host_informers()) informer->start();
    for (const auto& [name, member] : members_) member->start();
    starter_ = rt::Thread(runtime_, "federation", [this] { run(); });
  }

  void stop() {
    stop_.request_stop();
    if (starter_.joinable()) starter_.join();
    for (const auto& [name, member] : members_) member->stop();
    for (kube::InformerCore* informer : host_informers()) informer->stop();
  }

  [[nodiscard]] bool is_ready() const { return is_ready_.load(); }

 private:
  std::vector<kube::InformerCore*> host_informers() {
    return {&policies_.core(), &cluster_policies_.core(), &clusters_.core(), &bindings_.core(), &jobs_.core()};
  }

  void run() {
    for (kube::InformerCore* informer : host_informers()) {
      if (!informer->wait_synced(stop_.token())) return;
    }
    rt::Workers<ObjectKey> workers(
        runtime_, work_, rt::WorkersOptions{.name = "federation", .count = options_.workers},
        [this](const ObjectKey& key, const rt::StopToken& stop) {
          if (work_.take_overflowed()) mark_all();
          return propagator_.reconcile(key, stop);
        },
        [this](const ObjectKey& key, const Outcome& outcome, rt::Duration) { log_outcome(key, outcome); });
    is_ready_.store(true);
    // Clusters that are away for long are noticed by time, not by an event.
    while (!stop_.token().wait_for(runtime_, options_.propagator.eviction_after / 5)) mark_lost();
    workers.stop();
  }

  void on_job(const kube::Change<Job>& change) {
    const auto& metadata = change.object().metadata;
    if (change.is_updated() && change.before->metadata.generation == metadata.generation &&
        change.before->metadata.labels == metadata.labels &&
        change.before->metadata.deletion_timestamp == metadata.deletion_timestamp &&
        change.before->metadata.uid == metadata.uid) {
      // Only its status changed, which comes from us; somebody else's hand is corrected.
      if (change.before->status != change.after->status)
        work_.add_after({metadata.namespace_, metadata.name}, options_.gather);
      return;
    }
    work_.add({metadata.namespace_, metadata.name});
  }

  void on_member_job(const kube::Change<Job>& change) {
    const auto& metadata = change.object().metadata;
    const ObjectKey key{metadata.namespace_, metadata.name};
    if (change.is_updated() && change.before->status == change.after->status &&
        change.before->metadata.deletion_timestamp == metadata.deletion_timestamp &&
        change.before->metadata.labels == metadata.labels &&
        change.before->metadata.annotations == metadata.annotations)
      return;
    if (change.is_updated()) {
      work_.add_after(key, options_.gather);
    } else {
      work_.add(key);
    }
  }

  void on_binding(const kube::Change<ResourceBinding>& change) {
    const ResourceBinding& binding = change.object();
    const ObjectKey key{binding.metadata.namespace_, binding.spec.resource.name};
    if (change.is_added() && !is_over(binding)) {
      ledger_.book(key, binding.spec.clusters, request_of(binding));
    }
    if (change.is_updated() && change.before->metadata.generation == binding.metadata.generation) return;
    work_.add(key);
  }

  void mark_selected(const PropagationSpec& spec, const std::string& ns) {
    for (const auto& selector : spec.resource_selectors) {
      if (selector.name.empty()) return mark_all();
      work_.add({ns, selector.name});
    }
  }

  void mark_all() {
    jobs_.for_each([this](const Job& job) { work_.add({job.metadata.namespace_, job.metadata.name}); });
    for (const auto& [name, member] : members_) {
      member->jobs().for_each([this](const Job& job) { work_.add({job.metadata.namespace_, job.metadata.name}); });
    }
  }

  void mark_lost() {
    bool is_any_away = false;
    clusters_.for_each([&](const Cluster& cluster) { is_any_away |= !is_ready_cluster(cluster); });
    if (is_any_away) mark_all();
  }

  void log_outcome(const ObjectKey& key, const Outcome& outcome) {
    if (!outcome.error || outcome.error->is(Reason::Cancelled)) return;
    const bool is_news = work_.retries(key) == 0 && !outcome.error->is(Reason::Conflict);
    log_.log(is_news ? LogLevel::Warn : LogLevel::Debug, "job is tried again",
             {{"job", key.to_string()}, {"error", *outcome.error}});
  }

  // Fixed after construction.
  rt::Runtime& runtime_;
  const FederationOptions options_;
  const Logger log_;

  // Self-locking.
  kube::Informer<Job> jobs_;
  kube::Informer<PropagationPolicy> policies_;
  kube::Informer<ClusterPropagationPolicy> cluster_policies_;
  kube::Informer<ResourceBinding> bindings_;
  kube::Informer<Cluster> clusters_;
  rt::WorkQueue<ObjectKey> work_;
  kube::Expectations expectations_;
  Ledger ledger_;
  Members members_;  // fixed after construction
  Propagator propagator_;
  std::atomic<bool> is_ready_ = false;

  rt::StopSource stop_;
  rt::Thread starter_;
};

Federation::Federation(rt::Runtime& runtime, kube::Client& host, const std::map<std::string, kube::Client*>& members,
                       Logger log, FederationOptions options)
    : state_(std::make_unique<State>(runtime, host, members, std::move(log), options)) {}

Federation::~Federation() = default;

void Federation::start() { state_->start(); }
void Federation::stop() { state_->stop(); }
bool Federation::is_ready() const { return state_->is_ready(); }

}  // namespace basalt::federation
