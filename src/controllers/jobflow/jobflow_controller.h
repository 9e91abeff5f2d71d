#pragma once

#include <memory>

#include "controllers/common/controller.h"
#include "rt/time.h"

namespace basalt::controllers::jobflow {

struct JobFlowControllerOptions {
  int workers = 1;
  // The longest pause between two tries. After an outage of the API server all is well within two of them.
  rt::Duration backoff_max = std::chrono::seconds(4);
  // The pause after something that only a person can help: a job that admission refuses, a name that is taken.
  rt::Duration refused_pause = std::chrono::seconds(30);
};

// The name is "jobflow-controller". See README.md.
[[nodiscard]] std::unique_ptr<Controller> make_job_flow_controller(ControllerContext& context,
                                                                   JobFlowControllerOptions options = {});

struct JobTemplateControllerOptions {
  int workers = 1;
  rt::Duration backoff_max = std::chrono::seconds(4);
};

// The name is "jobtemplate-controller": keeps status.jobDependsOnList of templates.
[[nodiscard]] std::unique_ptr<Controller> make_job_template_controller(ControllerContext& context,
                                                                       JobTemplateControllerOptions options = {});

}  // namespace basalt::controllers::jobflow
