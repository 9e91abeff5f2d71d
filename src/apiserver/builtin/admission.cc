// Admission that Kubernetes has built in.

#include "apiserver/builtin/pod_admission.h"
#include "apiserver/builtin/service_admission.h"
#include "apiserver/quota/limit_ranges.h"
#include "apiserver/registry/api_server.h"

namespace basalt::apiserver {

std::vector<std::shared_ptr<AdmissionHook>> builtin_admission(ApiServer& server, std::string service_ip_range) {
  Store& store = server.store();
  return {pod_admission(store), service_admission(store, std::move(service_ip_range)), priority_class_admission(store),
          namespace_admission(), limit_range_admission(store)};
}

}  // namespace basalt::apiserver
