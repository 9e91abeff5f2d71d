#include "admission/embedded_admission.h"

#include <utility>

#include "admission/convert.h"
#include "webhooks/admission_rules.h"
#include "webhooks/live_view.h"

namespace basalt::admission {
namespace {

Done told(Done done, const webhooks::ReviewRequest& request, bool is_mutating) {
  if (done.ok()) return done;
  const webhooks::Hook* hook = webhooks::find_hook(request.group, request.resource, is_mutating);
  if (hook == nullptr) return done;
  return denied(std::move(done).error(), *hook);
}

class EmbeddedAdmission final : public apiserver::AdmissionHook {
 public:
  EmbeddedAdmission(rt::Runtime& runtime, apiserver::ApiServer& server, webhooks::RuleOptions options)
      : client_(apiserver::make_direct_client(runtime, server,
                                              {{"system:admission", "", {"system:masters"}}, "admission"})),
        view_(*client_),
        rules_(std::move(options), view_) {}

  Done set_resource_groups(const std::string& yaml) { return rules_.set_resource_groups(yaml); }

  [[nodiscard]] bool handles(const apiserver::AdmissionRequest& request) const override {
    return request.subresource.empty() &&
           rules_.handles(request.type.group, request.type.plural, to_operation(request.operation));
  }

  Done mutate(apiserver::AdmissionRequest& request, json::Value& object) override {
    webhooks::ReviewRequest question = to_review(request);
    return told(rules_.mutate(question, object, request.warnings), question, true);
  }

  Done validate(apiserver::AdmissionRequest& request, const json::Value* object) override {
    webhooks::ReviewRequest question = to_review(request);
    question.object = object;
    return told(rules_.validate(question, request.warnings), question, false);
  }

 private:
  const std::unique_ptr<kube::Client> client_;
  const webhooks::ClientClusterView view_;
  webhooks::AdmissionRules rules_;
};

}  // namespace

std::shared_ptr<apiserver::AdmissionHook> make_admission_hook(rt::Runtime& runtime, apiserver::ApiServer& server,
                                                              webhooks::RuleOptions options) {
  return std::make_shared<EmbeddedAdmission>(runtime, server, std::move(options));
}

Result<std::shared_ptr<apiserver::AdmissionHook>> make_admission_hook(rt::Runtime& runtime,
                                                                      apiserver::ApiServer& server,
                                                                      webhooks::RuleOptions options,
                                                                      const std::string& resource_groups) {
  auto hook = std::make_shared<EmbeddedAdmission>(runtime, server, std::move(options));
  BASALT_TRY_DONE(hook->set_resource_groups(resource_groups));
  return std::shared_ptr<apiserver::AdmissionHook>(std::move(hook));
}

}  // namespace basalt::admission
