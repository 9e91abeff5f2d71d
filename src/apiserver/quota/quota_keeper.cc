#include "apiserver/quota/quota_keeper.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "api/resource_list.h"
#include "apiserver/quota/quota_admission.h"
#include "apiserver/quota/usage.h"
#include "json/value.h"

namespace basalt::apiserver {
namespace {

constexpr std::size_t kEventsPerPoll = 256;
constexpr std::string_view kQuotas = "/resourcequotas";
// Changes come in bursts; one count serves those of this time.
constexpr rt::Duration kGather = std::chrono::milliseconds(50);
// Objects that were charged a moment ago may still be on their way to the store.
constexpr rt::Duration kAfterCharge = std::chrono::seconds(1);
constexpr rt::Duration kAfterChargeMax = std::chrono::seconds(5);
constexpr rt::Duration kAgainAfter = std::chrono::milliseconds(500);
// A count that takes long is made the more seldom.
constexpr int kRestPerCount = 10;

}  // namespace

QuotaKeeper::QuotaKeeper(rt::Runtime& runtime, Logger log, ApiServer& server, std::shared_ptr<QuotaLedger> ledger)
    : runtime_(runtime),
      log_(std::move(log)),
      server_(server),
      ledger_(std::move(ledger)),
      client_(make_direct_client(runtime, server,
                                 RequestContext{{"system:serviceaccount:kube-system:resourcequota-controller", "", {}},
                                                "resourcequota-controller"})),
      signal_(std::make_shared<WakeSignal>(runtime)),
      stop_(runtime) {
  thread_ = rt::Thread(runtime_, "quotas", [this] { run(); });
}

QuotaKeeper::~QuotaKeeper() { stop(); }

void QuotaKeeper::stop() {
  stop_.request_stop();
  signal_->end();
  if (thread_.joinable()) thread_.join();
}

void QuotaKeeper::run() {
  while (!stop_.token().stop_requested()) {
    follow_all();
    std::vector<std::string> followed;
    for (const auto& [storage, watcher] : watchers_) followed.push_back(storage);
    for (const std::string& storage : followed) take_changes(storage);
    rt::Instant next = count_what_is_due();
    if (!watchers_.contains(std::string(kQuotas))) next = std::min(next, runtime_.now() + kAgainAfter);
    if (signal_->wait_until(next)) return;
  }
}

void QuotaKeeper::follow_all() {
  Store& store = server_.store();
  ListQuery query;
  query.resource = store.resource(kQuotas);
  const auto quotas = store.list(query);
  if (!quotas.ok()) return;
  std::map<std::string, std::set<std::string>> wanted;  // resource -> namespaces that count it
  wanted[std::string(kQuotas)];
  for (const EntryRef& entry : quotas->entries) {
    const auto quota = json::Value::parse(*entry->object());
    if (!quota.ok()) continue;
    for (std::string& storage : quota_subjects(*quota)) wanted[std::move(storage)].emplace(entry->ns());
  }
  std::erase_if(watchers_, [&](const auto& one) { return !wanted.contains(one.first); });
  for (const auto& [storage, namespaces] : wanted) {
    if (watchers_.contains(storage)) continue;
    WatchQuery watch;
    watch.resource = store.resource(storage);
    watch.after = quotas->revision;
    watch.on_ready = [signal = signal_] { signal->fire(); };
    auto watcher = store.watch(std::move(watch));
    if (!watcher.ok()) continue;
    watchers_[storage] = std::move(*watcher);
    for (const std::string& ns : namespaces) mark(ns);
    if (storage != kQuotas) continue;
    for (const EntryRef& entry : quotas->entries) mark(std::string(entry->ns()));
  }
}

void QuotaKeeper::take_changes(const std::string& storage) {
  std::vector<Event> events;
  while (true) {
    auto count = watchers_[storage]->poll(events, kEventsPerPoll);
    if (!count.ok()) {
      watchers_.erase(storage);  // follow_all() begins anew and counts everything
      signal_->fire();
      return;
    }
    for (const Event& event : events) mark(std::string(event.entry->ns()));
    events.clear();
    if (*count == 0) return;
  }
}

void QuotaKeeper::mark(const std::string& ns) {
  if (dirty_.contains(ns)) return;
  Store& store = server_.store();
  if (store.count(store.resource(kQuotas), ns) == 0) return;
  const rt::Instant now = runtime_.now();
  const auto rests = rest_until_.find(ns);
  dirty_[ns] = {now, std::max(now + kGather, rests == rest_until_.end() ? now : rests->second)};
}

rt::Instant QuotaKeeper::count_what_is_due() {
  rt::Instant next = rt::kNever;
  for (auto one = dirty_.begin(); one != dirty_.end();) {
    const std::string ns = one->first;
    Dirty& dirty = one->second;
    const rt::Instant charged = ledger_->last_charge(ns);
    const rt::Instant settled =
        charged == rt::Instant() ? charged : std::min(charged + kAfterCharge, dirty.since + kAfterChargeMax);
    const rt::Instant due = std::max(dirty.not_before, settled);
    const rt::Instant began = runtime_.now();
    if (due > began) {
      next = std::min(next, due);
      ++one;
      continue;
    }
    one = dirty_.erase(one);
    const Done counted = count_namespace(ns);
    const rt::Instant now = runtime_.now();
    if (!counted.ok()) {
      if (counted.error().is(Reason::Cancelled)) return rt::kNever;
      if (!counted.error().is(Reason::Conflict)) {
        log_.warn("counting for quotas is tried again", {{"namespace", ns}, {"error", counted.error()}});
      }
      dirty_[ns] = {now, now + kAgainAfter};
      next = std::min(next, now + kAgainAfter);
    } else {
      rest_until_[ns] = now + (now - began) * kRestPerCount;
    }
  }
  return next;
}

Done QuotaKeeper::count_namespace(const std::string& ns) {
  Store& store = server_.store();
  ListQuery query;
  query.resource = store.resource(kQuotas);
  query.ns = ns;
  BASALT_TRY(const Listing listing, store.list(query));
  if (listing.entries.empty()) {
    ledger_->forget(ns);
    rest_until_.erase(ns);
    return Ok{};
  }
  struct Count {
    json::Value quota;
    api::ResourceList used;
  };
  std::vector<Count> counts;
  std::set<std::string> subjects;
  for (const EntryRef& entry : listing.entries) {
    auto quota = json::Value::parse(*entry->object());
    if (!quota.ok()) continue;
    for (std::string& subject : quota_subjects(*quota)) subjects.insert(std::move(subject));
    counts.push_back({std::move(*quota), {}});
  }
  for (const std::string& subject : subjects) {
    ListQuery objects;
    objects.resource = store.resource(subject);
    objects.ns = ns;
    BASALT_TRY(const Listing found, store.list(objects));
    for (const EntryRef& entry : found.entries) {
      const auto object = json::Value::parse(*entry->object());
      if (!object.ok()) continue;
      const api::ResourceList usage = quota_usage(subject, *object);
      for (Count& count : counts) {
        if (quota_covers(count.quota, subject, *object)) count.used += usage;
      }
    }
  }
  for (const Count& count : counts) {
    Done done = write_quota_status(*client_, count.quota, count.used, stop_.token());
    if (!done.ok() && !done.error().is(Reason::NotFound)) return done;
  }
  return Ok{};
}

}  // namespace basalt::apiserver
