#include "controllers/jobflow/finished_jobs.h"

#include <string_view>
#include <utility>

namespace basalt::controllers::jobflow {

void FinishedJobs::note_alive(const api::ObjectKey& flow, const std::string& flow_uid, const std::string& job_uid) {
  const rt::MutexLock lock(mutex_);
  const auto known = owner_of_.find(job_uid);
  if (known != owner_of_.end() && known->second.uid == flow_uid && known->second.flow == flow) return;
  drop_alive(job_uid);
  owner_of_.emplace(job_uid, Owner{flow, flow_uid});
  alive_[flow].insert(job_uid);
}

void FinishedJobs::note_gone(const std::string& job_uid) {
  const rt::MutexLock lock(mutex_);
  drop_alive(job_uid);
}

void FinishedJobs::drop_alive(const std::string& job_uid) {
  const auto known = owner_of_.find(job_uid);
  if (known == owner_of_.end()) return;
  const auto jobs = alive_.find(known->second.flow);
  jobs->second.erase(job_uid);
  if (jobs->second.empty()) alive_.erase(jobs);
  owner_of_.erase(known);
}

void FinishedJobs::keep(const api::ObjectKey& flow, JobPtr job) {
  const rt::MutexLock lock(mutex_);
  drop_alive(job->metadata.uid);
  if (count_ >= kJobsMax) return;
  const std::string name = job->metadata.name;
  if (jobs_[flow].insert_or_assign(name, std::move(job)).second) ++count_;
}

bool FinishedJobs::misses(const api::ObjectKey& flow, const std::string& flow_uid,
                          const std::vector<JobPtr>& jobs) const {
  std::set<std::string_view> shown;
  for (const JobPtr& job : jobs) shown.insert(job->metadata.uid);
  const rt::MutexLock lock(mutex_);
  const auto found = alive_.find(flow);
  if (found == alive_.end()) return false;
  for (const std::string& job : found->second) {
    if (!shown.contains(job) && owner_of_.at(job).uid == flow_uid) return true;
  }
  return false;
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
