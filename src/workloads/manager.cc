#include "workloads/manager.h"

#include "workloads/cronjob/cron_job_controller.h"
#include "workloads/daemonset/daemon_set_controller.h"
#include "workloads/deployment/deployment_controller.h"
#include "workloads/disruption/budget_controller.h"
#include "workloads/endpoints/endpoint_controller.h"
#include "workloads/job/job_controller.h"
#include "workloads/replicaset/replica_set_controller.h"
#include "workloads/statefulset/stateful_set_controller.h"

namespace basalt::workloads {

WorkloadManager::WorkloadManager(rt::Runtime& runtime, kube::Client& client, const Logger& log, kube::Metrics& metrics)
    : runtime_(runtime),
      events_(runtime, client, log, {.component = "basalt-workloads", .host = "", .metrics = &metrics}),
      caches_(runtime, client, log, &metrics),
      context_{runtime, client, log, events_, metrics, caches_},
      stop_(runtime),
      changed_(runtime) {
  for (kube::Informer<Object>* cache :
       {&caches_.deployments, &caches_.replica_sets, &caches_.replication_controllers, &caches_.stateful_sets,
        &caches_.daemon_sets, &caches_.jobs, &caches_.cron_jobs, &caches_.services, &caches_.budgets})
    cache->add_handler([this](const kube::Change<Object>&) { wake(); });
  controllers_.push_back(std::make_unique<DeploymentController>(context_));
  controllers_.push_back(std::make_unique<ReplicaSetController>(context_, kReplicaSetKind));
  controllers_.push_back(std::make_unique<ReplicaSetController>(context_, kReplicationControllerKind));
  controllers_.push_back(std::make_unique<StatefulSetController>(context_));
  controllers_.push_back(std::make_unique<DaemonSetController>(context_));
  controllers_.push_back(std::make_unique<JobController>(context_));
  controllers_.push_back(std::make_unique<CronJobController>(context_));
  controllers_.push_back(std::make_unique<EndpointController>(context_));
  controllers_.push_back(std::make_unique<BudgetController>(context_));
}

WorkloadManager::~WorkloadManager() { stop(); }

void WorkloadManager::start() {
  has_started_ = true;
  events_.start();
  main_ = rt::Thread(runtime_, "workloads", [this] { run(); });
}

void WorkloadManager::stop() {
  if (!has_started_) return;
  has_started_ = false;
  stop_.request_stop();
  wake();
  main_.join();
  for (const auto& controller : controllers_) controller->stop();
  caches_.stop();
  events_.stop();
}

void WorkloadManager::wake() {
  {
    const rt::MutexLock lock(mutex_);
    if (has_news_) return;
    has_news_ = true;
  }
  changed_.notify_all();
}

bool WorkloadManager::wait_for_work() {
  while (!stop_.token().stop_requested()) {
    if (caches_.has_work()) return true;
    const rt::MutexLock lock(mutex_);
    while (!has_news_ && !stop_.token().stop_requested()) changed_.wait(mutex_);
    has_news_ = false;
  }
  return false;
}

void WorkloadManager::run() {
  caches_.start();
  if (!caches_.wait_synced(stop_.token()) || !wait_for_work()) return;
  caches_.start_rest();
  if (!caches_.wait_synced(stop_.token())) return;
  for (const auto& controller : controllers_) controller->start();
}

}  // namespace basalt::workloads
