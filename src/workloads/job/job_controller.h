#pragma once

#include <vector>

#include "workloads/common/keyed_controller.h"
#include "workloads/job/job_plan.h"

namespace basalt::workloads {

// Runs the pods of a core Job (batch/v1) to their end. See README.md.
class JobController final : public KeyedController {
 public:
  explicit JobController(Context& context);

 private:
  rt::Outcome reconcile(const Object& job, const rt::StopToken& stop) override;
  rt::Outcome gone(const api::ObjectKey& key, const rt::StopToken& stop) override;
  // A job of a cron job is the proof that its time was run until the cron job's status says so.
  [[nodiscard]] bool is_noted(const Object& job) const;
  Done carry_out(const Object& job, const JobPlan& plan, const rt::StopToken& stop);
  Done create_pods(const Object& job, const std::vector<JobPlan::Create>& creates, const rt::StopToken& stop);
  Done release(const api::ObjectKey& key, const std::vector<PodPtr>& pods, const rt::StopToken& stop);
  // Pods whose job is not there any more wait for nobody.
  Done release_orphans(const api::ObjectKey& key, std::string_view job_uid, const rt::StopToken& stop);
};

// A pod of the job, with the finalizer by which it is counted and, of an Indexed job, its index.
[[nodiscard]] json::Value job_pod(const Object& job, const JobPlan::Create& create);

}  // namespace basalt::workloads
