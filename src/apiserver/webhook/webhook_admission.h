#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "apiserver/registry/admission.h"
#include "apiserver/registry/api_server.h"
#include "apiserver/webhook/webhook_caller.h"
#include "apiserver/webhook/webhook_table.h"
#include "base/log.h"
#include "rt/mutex.h"
#include "rt/runtime.h"

namespace basalt::apiserver {

// Whether the namespace of a request is selected. A cluster-wide object is in none and always is; a namespace is in
// itself.
[[nodiscard]] bool selects_namespace(const api::Selector& selector, ApiServer& server, const AdmissionRequest& request,
                                     const json::Value* object);

// Calls the webhooks that are configured. Unlike other hooks it waits, on the writer's thread, for at most the timeouts
// of the webhooks. Thread-safe.
class WebhookAdmission final : public AdmissionHook {
 public:
  WebhookAdmission(rt::Runtime& runtime, Logger log, ApiServer& server);

  // Reads the stored configurations anew; called after each write of one.
  void refresh();

  [[nodiscard]] bool handles(const AdmissionRequest& request) const override;
  Done mutate(AdmissionRequest& request, json::Value& object) override;
  Done validate(AdmissionRequest& request, const json::Value* object) override;

 private:
  [[nodiscard]] std::shared_ptr<const WebhookTable> table() const;
  // An error if its conditions cannot be evaluated and it does not ignore that.
  [[nodiscard]] Result<bool> is_wanted(const Webhook& webhook, const AdmissionRequest& request,
                                       const json::Value* object) const;
  // Asks, and says whether the write may go on; `changed` if the object did.
  Done ask(const Webhook& webhook, AdmissionRequest& request, const json::Value* object, json::Value* changeable,
           bool& changed);
  [[nodiscard]] std::string new_uid();

  rt::Runtime& runtime_;
  const Logger log_;
  ApiServer& server_;
  WebhookCaller caller_;
  std::atomic<bool> has_any_{false};  // so that a server without webhooks pays nothing
  mutable rt::Mutex mutex_;
  std::shared_ptr<const WebhookTable> table_ BASALT_GUARDED_BY(mutex_);
};

}  // namespace basalt::apiserver
