#include "controllers/jobflow/finished_jobs.h"

#include <utility>

namespace basalt::controllers::jobflow {

void FinishedJobs::keep(const api::ObjectKey& flow, JobPtr job) {
  const rt::MutexLock lock(mutex_);
  if (count_ >= kJobsMax) return;
  const std::string name = job->metadata.name;
  if (jobs_[flow].insert_or_assign(name, std::move(job)).second) ++count_;
}

FinishedJobs::ByName FinishedJobs::of(const api::ObjectKey& flow) const {
  const rt::MutexLock lock(mutex_);
  const auto found = jobs_.find(flow);
  return found == jobs_.end() ? ByName() : found->second;
}

void FinishedJobs::forget(const api::ObjectKey& flow, const ByName& jobs) {
  if (jobs.empty()) return;
  const rt::MutexLock lock(mutex_);
  const auto found = jobs_.find(flow);
  if (found == jobs_.end()) return;
  for (const auto& [name, job] : jobs) {
    const auto kept = found->second.find(name);
    if (kept == found->second.end() || kept->second != job) continue;
    found->second.erase(kept);
    --count_;
  }
  if (found->second.empty()) jobs_.erase(found);
}

void FinishedJobs::forget_all(const api::ObjectKey& flow) {
  const rt::MutexLock lock(mutex_);
  const auto found = jobs_.find(flow);
  if (found == jobs_.end()) return;
  count_ -= found->second.size();
  jobs_.erase(found);
}

}  // namespace basalt::controllers::jobflow
