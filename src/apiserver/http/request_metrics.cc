#include "apiserver/http/request_metrics.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

#include "apiserver/http/observed_responder.h"
#include "base/strings.h"

namespace basalt::apiserver {
namespace {

double seconds_of(rt::Duration duration) { return std::chrono::duration<double>(duration).count(); }

bool is_watch(const RequestLabels& labels) { return labels.verb == "WATCH"; }

kube::Gauge in_flight_gauge(kube::Metrics& metrics, std::string_view kind) {
  return metrics.gauge("apiserver_current_inflight_requests", "Requests that are being answered now, watches aside.",
                       {{"request_kind", std::string(kind)}});
}

std::string verb_of(const AccessRequest& access, bool is_apply) {
  if (access.verb == "create") return "POST";
  if (access.verb == "update") return "PUT";
  if (access.verb == "patch") return is_apply ? "APPLY" : "PATCH";
  constexpr std::pair<std::string_view, std::string_view> kVerbs[] = {{"get", "GET"},
                                                                      {"list", "LIST"},
                                                                      {"watch", "WATCH"},
                                                                      {"delete", "DELETE"},
                                                                      {"deletecollection", "DELETECOLLECTION"}};
  for (const auto& [name, shown] : kVerbs) {
    if (access.verb == name) return std::string(shown);
  }
  return "other";
}

}  // namespace

void RequestLabels::set_method(std::string_view method) {
  constexpr std::string_view kMethods[] = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"};
  verb =
      std::find(std::begin(kMethods), std::end(kMethods), method) != std::end(kMethods) ? std::string(method) : "other";
  is_reading = method == "GET" || method == "HEAD";
}

void RequestLabels::set(const ResourceType& type, const AccessRequest& access, bool is_apply, bool dry_run) {
  verb = verb_of(access, is_apply);
  group = type.group;
  version = type.version;
  resource = type.plural;
  subresource = access.subresource == "status" || access.subresource == "scale" || access.subresource == "log" ||
                        access.subresource == "binding" || access.subresource == "eviction" ||
                        access.subresource == "token"
                    ? access.subresource
                    : "";
  scope = !access.name.empty() ? "resource" : !access.ns.empty() ? "namespace" : "cluster";
  is_dry_run = dry_run;
}

// Counts once, at the end of the answer.
class CountedResponder final : public ObservedResponder {
 public:
  CountedResponder(std::shared_ptr<RequestMetrics> metrics, rt::Runtime& runtime, std::shared_ptr<net::Responder> inner,
                   std::shared_ptr<RequestLabels> labels)
      : ObservedResponder(std::move(inner)),
        metrics_(std::move(metrics)),
        runtime_(runtime),
        labels_(std::move(labels)),
        begun_(runtime.now()) {
    metrics_->in_flight(*labels_).add(1);
  }
  ~CountedResponder() override { end(500); }

 private:
  void on_start(int /*code*/) override {
    if (!is_watch(*labels_)) return;
    is_long_ = true;
    metrics_->in_flight(*labels_).add(-1);
    metrics_->long_running(*labels_, 1);
  }
  void on_end(int code) override {
    metrics_->observe(*labels_, code, runtime_.now() - begun_);
    if (is_long_) {
      metrics_->long_running(*labels_, -1);
    } else {
      metrics_->in_flight(*labels_).add(-1);
    }
  }

  const std::shared_ptr<RequestMetrics> metrics_;
  rt::Runtime& runtime_;
  const std::shared_ptr<RequestLabels> labels_;
  const rt::Instant begun_;
  std::atomic<bool> is_long_{false};
};

RequestMetrics::RequestMetrics(rt::Runtime& runtime)
    : runtime_(runtime),
      reading_(in_flight_gauge(metrics_, "readOnly")),
      writing_(in_flight_gauge(metrics_, "mutating")) {}

std::shared_ptr<net::Responder> RequestMetrics::counted(std::shared_ptr<net::Responder> responder,
                                                        std::shared_ptr<RequestLabels> labels) {
  return std::make_shared<CountedResponder>(shared_from_this(), runtime_, std::move(responder), std::move(labels));
}

void RequestMetrics::observe(const RequestLabels& labels, int code, rt::Duration took) {
  std::string key;
  for (const std::string* part :
       {&labels.verb, &labels.group, &labels.version, &labels.resource, &labels.subresource, &labels.scope}) {
    key.append(*part).push_back('|');
  }
  key.append(std::to_string(code)).append(labels.is_dry_run ? "d" : "");
  Series series;
  {
    rt::MutexLock lock(mutex_);
    auto found = series_.find(key);
    if (found == series_.end()) {
      kube::MetricLabels common = {{"verb", labels.verb},
                                   {"group", labels.group},
                                   {"version", labels.version},
                                   {"resource", labels.resource},
                                   {"subresource", labels.subresource},
                                   {"scope", labels.scope},
                                   {"component", "apiserver"},
                                   {"dry_run", labels.is_dry_run ? "All" : ""}};
      Series made;
      if (!is_watch(labels)) {
        made.seconds = metrics_.histogram("apiserver_request_duration_seconds",
                                          "How long requests took until they were answered, watches aside.",
                                          kube::Metrics::seconds_bounds(), common);
      }
      common.emplace_back("code", std::to_string(code));
      made.requests = metrics_.counter("apiserver_request_total", "Requests that were answered.", common);
      found = series_.emplace(key, made).first;
    }
    series = found->second;
  }
  series.requests.add();
  series.seconds.observe(seconds_of(took));
}

const kube::Gauge& RequestMetrics::in_flight(const RequestLabels& labels) const {
  return labels.is_reading ? reading_ : writing_;
}

void RequestMetrics::long_running(const RequestLabels& labels, double amount) {
  metrics_
      .gauge("apiserver_longrunning_requests", "Watches that are open now.",
             {{"verb", labels.verb},
              {"group", labels.group},
              {"version", labels.version},
              {"resource", labels.resource},
              {"subresource", labels.subresource},
              {"scope", labels.scope},
              {"component", "apiserver"}})
      .add(amount);
}

std::string RequestMetrics::to_text(ApiServer& server) {
  Store& store = server.store();
  for (const ResourceId id : store.resources()) {
    const std::string name = store.resource_name(id);  // "group/plural"
    const auto parts = base::split_once(name, '/');
    if (!parts) continue;
    metrics_
        .gauge("apiserver_storage_objects", "Objects that are stored, by resource.",
               {{"group", std::string(parts->first)}, {"resource", std::string(parts->second)}})
        .set(static_cast<double>(store.count(id, "")));
  }
  const StoreStats stats = store.stats();
  metrics_
      .gauge("apiserver_storage_size_bytes", "Size of the store's file, or of the objects where there is none.",
             {{"storage_cluster_id", "basalt"}})
      .set(static_cast<double>(stats.file_bytes > 0 ? stats.file_bytes : stats.object_bytes));
  return metrics_.to_text();
}

}  // namespace basalt::apiserver
