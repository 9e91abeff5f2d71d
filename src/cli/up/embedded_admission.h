#pragma once

#include <memory>

#include "apiserver/registry/admission.h"
#include "kube/client.h"
#include "rt/mutex.h"
#include "webhooks/admission_rules.h"
#include "webhooks/live_view.h"

namespace basalt::cli {

// The webhooks' rules as an admission hook of the embedded API server: the same code, without a server in between.
// Lets everything pass until it is given a client to ask about queues and namespaces.
class EmbeddedAdmission final : public apiserver::AdmissionHook {
 public:
  // `client` outlives the use; forget() ends it.
  void use(kube::Client& client);
  void forget();

  [[nodiscard]] bool handles(const apiserver::AdmissionRequest& request) const override;
  Done mutate(apiserver::AdmissionRequest& request, json::Value& object) override;
  Done validate(apiserver::AdmissionRequest& request, const json::Value* object) override;

 private:
  struct Active {
    explicit Active(kube::Client& client) : view(client), rules({}, view) {}
    webhooks::ClientClusterView view;
    webhooks::AdmissionRules rules;
  };
  [[nodiscard]] std::shared_ptr<const Active> active() const;

  mutable rt::Mutex mutex_;
  std::shared_ptr<const Active> active_ BASALT_GUARDED_BY(mutex_);
};

}  // namespace basalt::cli
