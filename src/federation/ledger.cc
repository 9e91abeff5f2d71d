#include "federation/ledger.h"

#include <utility>

namespace basalt::federation {

using api::ObjectKey;

Choice Ledger::choose(const ObjectKey& job, const Wish& wish, std::vector<Candidate> candidates) {
  const rt::MutexLock lock(mutex_);
  remove(job);
  for (Candidate& candidate : candidates) {
    const auto found = usage_.find(candidate.name);
    if (found == usage_.end()) continue;
    if (candidate.free) *candidate.free -= found->second.used;
    candidate.jobs = found->second.jobs;
  }
  Choice choice = choose_clusters(wish, candidates);
  if (!choice.clusters.empty()) add(job, {choice.clusters, wish.request});
  return choice;
}

void Ledger::book(const ObjectKey& job, const std::vector<api::karmada::TargetCluster>& clusters,
                  const api::ResourceList& request) {
  const rt::MutexLock lock(mutex_);
  remove(job);
  if (!clusters.empty()) add(job, {clusters, request});
}

void Ledger::release(const ObjectKey& job) {
  const rt::MutexLock lock(mutex_);
  remove(job);
}

std::int64_t Ledger::jobs_in(const std::string& cluster) const {
  const rt::MutexLock lock(mutex_);
  const auto found = usage_.find(cluster);
  return found == usage_.end() ? 0 : found->second.jobs;
}

void Ledger::add(const ObjectKey& job, Booking booking) {
  for (const auto& target : booking.clusters) {
    Usage& usage = usage_[target.name];
    usage.used += booking.request * target.replicas;
    ++usage.jobs;
  }
  bookings_[job] = std::move(booking);
}

void Ledger::remove(const ObjectKey& job) {
  const auto found = bookings_.find(job);
  if (found == bookings_.end()) return;
  for (const auto& target : found->second.clusters) {
    Usage& usage = usage_[target.name];
    usage.used -= found->second.request * target.replicas;
    --usage.jobs;
  }
  bookings_.erase(found);
}

}  // namespace basalt::federation
