#include "kube/expectations.h"

#include <algorithm>
#include <utility>

#include "kube/informer_core.h"

namespace basalt::kube {

Expectations::Expectations(rt::Runtime& runtime, Options options, std::function<void(const api::ObjectKey&)> ready)
    : runtime_(runtime), options_(std::move(options)), ready_(std::move(ready)) {
  if (options_.metrics == nullptr) return;
  expired_counter_ =
      options_.metrics->counter("basalt_expectations_expired_total", "Own writes that a cache did not show in time.",
                                {{"controller", options_.name}});
}

void Expectations::connect(InformerCore& informer) {
  ResourceIndex index = 0;
  {
    const rt::MutexLock lock(mutex_);
    index = resources_.size();
    PerResource per;
    per.resource = informer.resource();
    per.seen = informer.seen_revision();
    resources_.push_back(std::move(per));
  }
  informer.add_handler([this, index, &informer](const InformerCore::Change& change) {
    if (!change.after) on_deleted(index, informer.meta_of(change.before).uid);
  });
  informer.add_progress_handler([this, index](Revision revision) { on_progress(index, revision); });
}

std::optional<Expectations::ResourceIndex> Expectations::find_resource(const Resource& resource) const {
  for (ResourceIndex i = 0; i < resources_.size(); ++i) {
    if (resources_[i].resource == resource) return i;
  }
  return std::nullopt;
}

// The key's entry, made if there is none; the first expectation sets when it expires.
Expectations::PerKey& Expectations::entry(const api::ObjectKey& key) {
  const auto found = keys_.find(key);
  if (found != keys_.end()) return found->second;
  if (keys_.size() >= options_.entries_max) {
    const api::ObjectKey oldest = by_expiry_.begin()->second;
    drop(oldest);
    ++expired_;
    expired_counter_.add();
  }
  PerKey& made = keys_[key];
  made.expires = runtime_.now() + options_.expiry;
  by_expiry_.emplace(made.expires, key);
  return made;
}

void Expectations::drop(const api::ObjectKey& key) {
  const auto found = keys_.find(key);
  if (found == keys_.end()) return;
  for (const auto& [index, revision] : found->second.writes) resources_[index].awaited.erase({revision, key});
  for (const auto& [index, uid] : found->second.deletions) resources_[index].deletions.erase(uid);
  by_expiry_.erase({found->second.expires, key});
  keys_.erase(found);
}

bool Expectations::drop_if_expired(const api::ObjectKey& key) {
  const auto found = keys_.find(key);
  if (found == keys_.end() || runtime_.now() < found->second.expires) return false;
  drop(key);
  ++expired_;
  expired_counter_.add();
  return true;
}

void Expectations::note_write(const api::ObjectKey& key, const Resource& resource, std::string_view resource_version) {
  const Revision revision = parse_revision(resource_version);
  if (revision == 0) return;
  const rt::MutexLock lock(mutex_);
  const auto index = find_resource(resource);
  if (!index || resources_[*index].seen >= revision) return;
  (void)drop_if_expired(key);
  PerKey& per = entry(key);
  Revision& awaited = per.writes[*index];
  if (awaited >= revision) return;
  if (awaited != 0) resources_[*index].awaited.erase({awaited, key});
  awaited = revision;
  resources_[*index].awaited.emplace(revision, key);
}

void Expectations::note_delete(const api::ObjectKey& key, const Resource& resource, std::string_view uid) {
  if (uid.empty()) return;
  const rt::MutexLock lock(mutex_);
  const auto index = find_resource(resource);
  if (!index) return;
  PerResource& per_resource = resources_[*index];
  if (per_resource.recent_set.contains(uid)) return;
  (void)drop_if_expired(key);
  entry(key).deletions.emplace(*index, std::string(uid));
  per_resource.deletions.insert_or_assign(std::string(uid), key);
}

void Expectations::note_delete(const api::ObjectKey& key, const Resource& resource, std::string_view uid,
                               const Response& answer) {
  const auto left = identity_of(*answer.body);
  if (left.ok() && left->is_being_deleted) {
    note_write(key, resource, left->resource_version);
  } else {
    note_delete(key, resource, uid);
  }
}

bool Expectations::is_current(const api::ObjectKey& key) {
  const rt::MutexLock lock(mutex_);
  (void)drop_if_expired(key);
  return keys_.find(key) == keys_.end();
}

std::optional<rt::Duration> Expectations::time_left(const api::ObjectKey& key) {
  const rt::MutexLock lock(mutex_);
  if (drop_if_expired(key)) return std::nullopt;
  const auto found = keys_.find(key);
  if (found == keys_.end()) return std::nullopt;
  return found->second.expires - runtime_.now();
}

void Expectations::forget(const api::ObjectKey& key) {
  const rt::MutexLock lock(mutex_);
  drop(key);
}

std::size_t Expectations::size() const {
  const rt::MutexLock lock(mutex_);
  return keys_.size();
}

std::uint64_t Expectations::expired() const {
  const rt::MutexLock lock(mutex_);
  return expired_;
}

void Expectations::on_progress(ResourceIndex index, Revision revision) {
  std::vector<api::ObjectKey> ready;
  {
    const rt::MutexLock lock(mutex_);
    PerResource& per_resource = resources_[index];
    per_resource.seen = revision;
    auto& awaited = per_resource.awaited;
    while (!awaited.empty() && awaited.begin()->first <= revision) {
      const api::ObjectKey key = awaited.begin()->second;
      awaited.erase(awaited.begin());
      PerKey& per = keys_[key];
      per.writes.erase(index);
      if (!per.empty()) continue;
      drop(key);
      ready.push_back(key);
    }
  }
  for (const api::ObjectKey& key : ready) ready_(key);
}

void Expectations::on_deleted(ResourceIndex index, std::string_view uid) {
  std::optional<api::ObjectKey> ready;
  {
    const rt::MutexLock lock(mutex_);
    PerResource& per_resource = resources_[index];
    const auto [entry, is_new] = per_resource.recent_set.emplace(uid);
    if (is_new) per_resource.recent.push_back(&*entry);
    if (per_resource.recent.size() > kRecentMax) {
      per_resource.recent_set.erase(per_resource.recent_set.find(*per_resource.recent.front()));
      per_resource.recent.pop_front();
    }
    const auto found = per_resource.deletions.find(uid);
    if (found == per_resource.deletions.end()) return;
    const api::ObjectKey key = found->second;
    per_resource.deletions.erase(found);
    PerKey& per = keys_[key];
    per.deletions.erase({index, std::string(uid)});
    if (!per.empty()) return;
    drop(key);
    ready = key;
  }
  if (ready) ready_(*ready);
}

}  // namespace basalt::kube
