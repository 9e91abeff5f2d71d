#pragma once

#include <map>
#include <memory>
#include <string>

#include "apiserver/http/api_path.h"
#include "apiserver/registry/access.h"
#include "apiserver/registry/api_server.h"
#include "kube/metrics.h"
#include "net/http_server.h"
#include "rt/mutex.h"
#include "rt/runtime.h"

namespace basalt::apiserver {

// What a request is counted under; filled in as it becomes known. Used by one thread until the answer begins.
struct RequestLabels {
  std::string verb;  // as kube-apiserver calls it: GET, LIST, WATCH, POST, APPLY, ...
  std::string group;
  std::string version;
  std::string resource;
  std::string subresource;
  std::string scope;  // resource, namespace, cluster; "" if it is about no resource
  bool is_dry_run = false;
  bool is_reading = true;  // of the method: GET, HEAD

  // Only resources that are served are named: strangers could fill the memory otherwise.
  void set_method(std::string_view method);
  void set(const ResourceType& type, const AccessRequest& access, bool is_apply, bool dry_run);
};

// Counts requests under the names that kube-apiserver has for them: apiserver_request_total,
// apiserver_request_duration_seconds (not of watches), apiserver_current_inflight_requests,
// apiserver_longrunning_requests, apiserver_storage_objects, apiserver_storage_size_bytes. Any thread.
class RequestMetrics : public std::enable_shared_from_this<RequestMetrics> {
 public:
  explicit RequestMetrics(rt::Runtime& runtime);

  // The same responder, with the request counted when it is answered, which may be after the server's end.
  [[nodiscard]] std::shared_ptr<net::Responder> counted(std::shared_ptr<net::Responder> responder,
                                                        std::shared_ptr<RequestLabels> labels);
  // All of it in Prometheus' text format, with what the store holds now.
  [[nodiscard]] std::string to_text(ApiServer& server);

 private:
  friend class CountedResponder;
  struct Series {
    kube::Counter requests;
    kube::Histogram seconds;
  };
  void observe(const RequestLabels& labels, int code, rt::Duration took);
  [[nodiscard]] const kube::Gauge& in_flight(const RequestLabels& labels) const;
  void long_running(const RequestLabels& labels, double amount);

  rt::Runtime& runtime_;
  kube::Metrics metrics_;
  const kube::Gauge reading_;
  const kube::Gauge writing_;
  rt::Mutex mutex_;
  std::map<std::string, Series> series_ BASALT_GUARDED_BY(mutex_);  // by all labels and the code
};

}  // namespace basalt::apiserver
