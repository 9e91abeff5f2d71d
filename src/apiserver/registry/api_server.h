#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apiserver/registry/access.h"
#include "apiserver/registry/admission.h"
#include "apiserver/registry/resource_type.h"
#include "apiserver/store/store.h"
#include "base/log.h"
#include "base/result.h"
#include "kube/client.h"
#include "rt/runtime.h"

namespace basalt::apiserver {

// Who asks, and how.
struct RequestContext {
  UserInfo user;
  std::string user_agent;
  // Whether metadata.managedFields is kept from the first write on. Without it an object gets the list when somebody
  // who tracks, or applies, writes it.
  bool tracks_fields = false;
  // Where admission writes what the audit log is to say; null if there is none. Used by one thread at a time.
  std::shared_ptr<AuditAnnotations> audit = nullptr;
};

// A watch without a thread: the HTTP front and the in-process client pull from it when it says that there is something.
class WatchSession {
 public:
  virtual ~WatchSession() = default;
  // The next event if there is one now; nothing otherwise; Expired if the reader fell behind the history. Bookmarks
  // come when asked for. Events carry the shared bytes of the store, already selected by labels and fields.
  virtual Result<std::optional<kube::WatchEvent>> poll() = 0;
  // When poll() should be called again even if nothing happens, because a bookmark will be due.
  [[nodiscard]] virtual rt::Instant wake_at() const = 0;
  // Called (from any thread, shortly) whenever poll() may have something after it had nothing. One callback.
  virtual void on_ready(std::function<void()> callback) = 0;
};

// The API in process: everything but HTTP. Thread-safe. Requests follow Kubernetes' semantics for versions, selectors,
// preconditions, finalizers, subresources and errors.
class ApiServer {
 public:
  struct Options {
    StoreOptions store;
    std::size_t object_bytes_max = 3u << 20;  // as etcd's default request limit with room, see docs
    int depth_max = 100;
    std::string cluster_ca_pem;  // for the kube-root-ca.crt ConfigMap of each namespace
    std::string service_ip_range = "10.96.0.0/16";
    rt::Duration bookmark_period = std::chrono::seconds(60);
    bool rbac = false;      // authorize() goes by roles and bindings; without it everybody may do everything
    std::string token_key;  // signs the tokens of service accounts; without it there are none
  };
  static Result<std::unique_ptr<ApiServer>> open(rt::Runtime& runtime, Logger log, Options options);
  virtual ~ApiServer() = default;

  // Before start().
  virtual void add_admission_hook(std::shared_ptr<AdmissionHook> hook) = 0;
  // Creates the system namespaces and objects, starts the controllers that belong to an API server (garbage collection,
  // namespaces, CRDs, service accounts' default, root CA). stop() ends them and flushes; called before destruction.
  virtual Done start() = 0;
  virtual void stop() = 0;

  virtual Result<kube::Response> call(const kube::Request& request, const RequestContext& context) = 0;
  virtual Result<kube::ListPage> list(const kube::ListRequest& request, const RequestContext& context) = 0;
  virtual Result<std::unique_ptr<WatchSession>> watch(const kube::WatchRequest& request,
                                                      const RequestContext& context) = 0;

  // Whether somebody from outside may; calls of this interface itself are trusted.
  [[nodiscard]] virtual AccessDecision authorize(const AccessRequest& request) const = 0;
  // The service account that a token is for. Unauthorized if there is none (any more).
  [[nodiscard]] virtual Result<UserInfo> authenticate_token(std::string_view token) const = 0;

  [[nodiscard]] virtual std::shared_ptr<const TypeTable> types() const = 0;
  // For the controller of CRDs: what is served from now on.
  virtual void set_types(std::shared_ptr<const TypeTable> types) = 0;
  [[nodiscard]] virtual Store& store() = 0;
  // Whether a write waits for a disk, so that several at once are worth while.
  [[nodiscard]] virtual bool is_durable() const = 0;
};

// The controllers that an API server brings along: garbage collection, namespaces, CRDs, the default service account
// and root CA of each namespace. Made by ApiServer::start() (system/), stopped before destruction.
class SystemControllers {
 public:
  virtual ~SystemControllers() = default;
  virtual void stop() = 0;
};
[[nodiscard]] Result<std::unique_ptr<SystemControllers>> start_system_controllers(rt::Runtime& runtime, Logger log,
                                                                                  ApiServer& server,
                                                                                  const ApiServer::Options& options);
// The kinds that are served without a CRD (builtin/).
[[nodiscard]] std::shared_ptr<const TypeTable> builtin_types();
// Admission that Kubernetes has built in: priority classes, service account names, service addresses (builtin/).
[[nodiscard]] std::vector<std::shared_ptr<AdmissionHook>> builtin_admission(ApiServer& server,
                                                                            std::string service_ip_range);

// kube::Client on the API server of the same process: no HTTP, no copies.
[[nodiscard]] std::unique_ptr<kube::Client> make_direct_client(rt::Runtime& runtime, ApiServer& server,
                                                               RequestContext context);

}  // namespace basalt::apiserver
