#pragma once

#include <vector>

#include "workloads/common/keyed_controller.h"
#include "workloads/endpoints/endpoint_plan.h"

namespace basalt::workloads {

// Writes down which pods are behind a Service: Endpoints and EndpointSlices. See README.md.
class EndpointController final : public KeyedController {
 public:
  explicit EndpointController(Context& context);

 private:
  rt::Outcome reconcile(const Object& service, const rt::StopToken& stop) override;
  rt::Outcome gone(const api::ObjectKey& key, const rt::StopToken& stop) override;
  Done write_endpoints(const Object& service, const std::vector<Backend>& backends, const rt::StopToken& stop);
  Done write_slices(const Object& service, const std::vector<Backend>& backends, const rt::StopToken& stop);
  void on_pod(const kube::Change<Pod>& change);
  void add_services_of(const Pod& pod);
};

}  // namespace basalt::workloads
