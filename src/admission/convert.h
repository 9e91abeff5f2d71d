#pragma once

#include "apiserver/registry/admission.h"
#include "base/error.h"
#include "webhooks/review.h"

// Between the words of the API server and those of the rules.

namespace basalt::admission {

[[nodiscard]] webhooks::Operation to_operation(apiserver::Operation operation);
// Without the object.
[[nodiscard]] webhooks::ReviewRequest to_review(const apiserver::AdmissionRequest& request);
// A denial as an API server tells it that called a webhook.
[[nodiscard]] Error denied(Error error, const webhooks::Hook& hook);

}  // namespace basalt::admission
