#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "json/value.h"
#include "webhooks/review.h"

// AdmissionReview of admission.k8s.io/v1 as text.

namespace basalt::webhooks {

// A question as it came. The request's objects are parts of the document.
struct DecodedReview {
  std::unique_ptr<json::Value> document;
  std::string uid;
  ReviewRequest request;
};

// Objects nest about 20 levels deep; the rules recurse once per level.
inline constexpr int kReviewDepthMax = 200;

// BadRequest, with what is wrong, for anything that is not a question of this version.
[[nodiscard]] Result<DecodedReview> decode_review(std::string_view body);

// The answer to the question with this uid.
[[nodiscard]] std::string encode_answer(std::string_view uid, const ReviewAnswer& answer);

// The other side, for whoever calls such a server: a question, and what its answer says. BadRequest if the answer is
// none, or is for another question.
[[nodiscard]] std::string encode_review(std::string_view uid, const ReviewRequest& request);
[[nodiscard]] Result<ReviewAnswer> decode_answer(std::string_view body, std::string_view uid);

}  // namespace basalt::webhooks
