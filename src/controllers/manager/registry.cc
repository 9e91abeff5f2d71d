#include "controllers/manager/registry.h"

#include <array>
#include <cstdlib>

#include "controllers/cronjob/cronjob_controller.h"
#include "controllers/datadependency/data_controller.h"
#include "controllers/gc/gc_controller.h"
#include "controllers/hyperjob/hyper_job_controller.h"
#include "controllers/job/job_controller.h"
#include "controllers/jobflow/jobflow_controller.h"
#include "controllers/podgroup/pod_group_controller.h"
#include "controllers/queue/queue_controller.h"
#include "controllers/sharding/sharding_controller.h"

namespace basalt::controllers {
namespace {

std::unique_ptr<Controller> make_queue(ControllerContext& context, const ManagerOptions& options) {
  queue::QueueControllerOptions own;
  own.workers = options.workers_queue;
  own.retries_max = options.requeues_max;
  own.sync_commands = options.gates.queue_command_sync;
  own.create_missing_queues = options.ensure_queues;
  return queue::make_queue_controller(context, std::move(own));
}

std::unique_ptr<Controller> make_pod_group(ControllerContext& context, const ManagerOptions& options) {
  podgroup::PodGroupControllerOptions own;
  own.workers = options.workers_podgroup;
  own.scheduler_names = options.scheduler_names;
  own.inherit_owner_annotations = options.inherit_owner_annotations;
  own.workload_support = options.gates.workload_support;
  return podgroup::make_pod_group_controller(context, std::move(own));
}

std::unique_ptr<Controller> make_gc(ControllerContext& context, const ManagerOptions& options) {
  gc::GcControllerOptions own;
  own.workers = options.workers_gc;
  return gc::make_gc_controller(context, own);
}

std::unique_ptr<Controller> make_job(ControllerContext& context, const ManagerOptions& options) {
  job::JobControllerOptions own;
  own.workers = options.workers_job;
  own.plan.missing_claim =
      options.missing_claim == MissingClaim::EmptyDir ? job::MissingClaim::EmptyDir : job::MissingClaim::Wait;
  return job::make_job_controller(context, own);
}

std::unique_ptr<Controller> make_job_flow(ControllerContext& context, const ManagerOptions&) {
  return jobflow::make_job_flow_controller(context);
}

std::unique_ptr<Controller> make_job_template(ControllerContext& context, const ManagerOptions&) {
  return jobflow::make_job_template_controller(context);
}

std::unique_ptr<Controller> make_cron_job(ControllerContext& context, const ManagerOptions& options) {
  if (!options.gates.cron_volcano_job_support || !options.gates.volcano_job_support) return nullptr;
  cronjob::CronJobControllerOptions own;
  own.workers = options.workers_cronjob;
  own.zone = kube::TimeZone::of_this_process();
  return cronjob::make_cron_job_controller(context, std::move(own));
}

std::unique_ptr<Controller> make_sharding(ControllerContext& context, const ManagerOptions& options) {
  return sharding::make_sharding_controller(context, options.sharding);
}

std::unique_ptr<Controller> make_hyper_job(ControllerContext& context, const ManagerOptions& options) {
  hyperjob::HyperJobControllerOptions own;
  own.workers = options.workers_job;
  return hyperjob::make_hyper_job_controller(context, own);
}

std::unique_ptr<Controller> make_data(ControllerContext& context, const ManagerOptions&) {
  datadependency::DataControllerOptions options;
  if (const char* folder = std::getenv("PLUGIN_CONFIG_PATH"); folder != nullptr) options.config_folder = folder;
  return datadependency::make_data_controller(context, std::move(options));
}

constexpr std::array kControllers = {
    RegisteredController{"queue-controller", &make_queue},
    RegisteredController{"pg-controller", &make_pod_group},
    RegisteredController{"gc-controller", &make_gc},
    RegisteredController{"job-controller", &make_job},
    RegisteredController{"jobflow-controller", &make_job_flow},
    RegisteredController{"jobtemplate-controller", &make_job_template},
    RegisteredController{"cronjob-controller", &make_cron_job},
    RegisteredController{"sharding-controller", &make_sharding},
    // It lives on a Karmada control plane: elsewhere its kinds are not served, and its caches would never fill.
    RegisteredController{"hyperjob-controller", &make_hyper_job, true},
    RegisteredController{"datadependency-controller", &make_data, true},
};

}  // namespace

std::span<const RegisteredController> registered_controllers() { return kControllers; }

}  // namespace basalt::controllers
