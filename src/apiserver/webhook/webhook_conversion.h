#pragma once

#include <memory>

#include "apiserver/registry/api_server.h"
#include "apiserver/registry/resource_type.h"
#include "apiserver/webhook/webhook_caller.h"
#include "rt/runtime.h"

namespace basalt::apiserver {

// Makes converters for CRDs whose versions a webhook converts (spec.conversion.strategy: Webhook). Owned by the API
// server; thread-safe.
class WebhookConversions {
 public:
  WebhookConversions(rt::Runtime& runtime, ApiServer& server);

  // Null if the versions of the CRD differ in apiVersion alone. The converter asks with ConversionReviews of version
  // v1, many objects at once, and checks what it is answered.
  [[nodiscard]] std::shared_ptr<const VersionConverter> converter_of(const json::Value& crd) const;

 private:
  rt::Runtime& runtime_;
  std::shared_ptr<WebhookCaller> caller_;
};

}  // namespace basalt::apiserver
