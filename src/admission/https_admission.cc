#include "admission/https_admission.h"

#include <atomic>
#include <utility>

#include "admission/convert.h"
#include "json/patch.h"
#include "net/http_client.h"
#include "webhooks/admission_rules.h"
#include "webhooks/review_codec.h"

namespace basalt::admission {
namespace {

class HttpsAdmission final : public apiserver::AdmissionHook {
 public:
  HttpsAdmission(HttpsAdmissionOptions options, std::unique_ptr<net::HttpClient> client)
      : options_(std::move(options)), client_(std::move(client)) {}

  [[nodiscard]] bool handles(const apiserver::AdmissionRequest& request) const override {
    return request.subresource.empty() && (find(request, true) != nullptr || find(request, false) != nullptr);
  }

  Done mutate(apiserver::AdmissionRequest& request, json::Value& object) override {
    const webhooks::Hook* hook = find(request, true);
    if (hook == nullptr) return Ok{};
    BASALT_TRY(const webhooks::ReviewAnswer answer, ask(*hook, request, &object));
    if (answer.patch.empty()) return Ok{};
    BASALT_TRY(object, json::apply_json_patch(std::move(object), json::Value(answer.patch)));
    return Ok{};
  }

  Done validate(apiserver::AdmissionRequest& request, const json::Value* object) override {
    const webhooks::Hook* hook = find(request, false);
    if (hook == nullptr) return Ok{};
    BASALT_TRY_DONE(ask(*hook, request, object));
    return Ok{};
  }

 private:
  [[nodiscard]] const webhooks::Hook* find(const apiserver::AdmissionRequest& request, bool is_mutating) const {
    for (const webhooks::Hook* hook : options_.hooks) {
      if (hook->is_mutating == is_mutating && hook->group == request.type.group &&
          hook->resource == request.type.plural && hook->takes(to_operation(request.operation))) {
        return hook;
      }
    }
    return nullptr;
  }

  // An error if the answer is no, or there is none.
  Result<webhooks::ReviewAnswer> ask(const webhooks::Hook& hook, apiserver::AdmissionRequest& request,
                                     const json::Value* object) {
    webhooks::ReviewRequest question = to_review(request);
    question.object = object;
    const std::string uid = "review-" + std::to_string(++asked_);
    const std::string body = webhooks::encode_review(uid, question);
    net::HttpRequest post;
    post.method = "POST";
    post.url = options_.url + std::string(hook.path);
    post.headers = {{"Content-Type", "application/json"}};
    post.body = body;
    post.timeout = options_.timeout;
    const auto response = client_->call(post, {});
    const auto failed = [&hook](const std::string& why) {
      return Error::make(Reason::InternalError,
                         "failed calling webhook \"" + std::string(hook.webhook_name) + "\": " + why);
    };
    if (!response.ok()) return failed(response.error().message);
    if (response->status != 200) return failed("it answered with " + std::to_string(response->status));
    BASALT_TRY(webhooks::ReviewAnswer answer, webhooks::decode_answer(response->body, uid));
    for (const std::string& warning : answer.warnings) request.warnings.push_back(warning);
    if (!answer.allowed) return denied(webhooks::to_error(answer), hook);
    return answer;
  }

  const HttpsAdmissionOptions options_;
  const std::unique_ptr<net::HttpClient> client_;
  std::atomic<std::uint64_t> asked_{0};
};

}  // namespace

Result<std::shared_ptr<apiserver::AdmissionHook>> make_https_admission(rt::Runtime& runtime,
                                                                       HttpsAdmissionOptions options) {
  net::HttpClientOptions http;
  http.tls.ca_pem = options.ca_pem;
  http.tls.server_name = options.server_name;
  BASALT_TRY(auto client, net::make_http_client(runtime, http));
  return std::shared_ptr<apiserver::AdmissionHook>(
      std::make_shared<HttpsAdmission>(std::move(options), std::move(client)));
}

}  // namespace basalt::admission
