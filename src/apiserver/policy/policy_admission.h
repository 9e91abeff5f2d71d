#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "apiserver/policy/policy_table.h"
#include "apiserver/registry/admission.h"
#include "apiserver/registry/api_server.h"
#include "base/log.h"
#include "rt/mutex.h"

namespace basalt::apiserver {

// Evaluates admission policies, mutating and validating ones, through their bindings, on the writer's thread; waits for
// nothing. Thread-safe. Each binding of a policy may cost 10,000,000 units together and 1,000,000 an expression; beyond
// that the policy has failed, and its failurePolicy decides.
class PolicyAdmission final : public AdmissionHook {
 public:
  PolicyAdmission(Logger log, ApiServer& server);

  // Reads the stored policies and bindings anew; called after each write of one.
  void refresh();

  [[nodiscard]] bool handles(const AdmissionRequest& request) const override;
  Done mutate(AdmissionRequest& request, json::Value& object) override;
  Done validate(AdmissionRequest& request, const json::Value* object) override;

 private:
  struct Bound {
    std::shared_ptr<const Policy> policy;
    PolicyBinding binding;
  };
  struct Table {
    std::vector<Bound> validating;
    std::vector<Bound> mutating;  // by the names of the policies
  };
  struct Verdict {
    std::string message;
    std::string reason;
    bool is_failure = false;     // it could not be evaluated
    std::size_t expression = 0;  // which of the validations
  };
  // What one binding has to say about a request.
  struct Judgement {
    std::vector<Verdict> verdicts;
    AuditAnnotations annotations;
  };

  [[nodiscard]] std::shared_ptr<const Table> table() const;
  [[nodiscard]] std::vector<json::Value> stored(std::string_view plural) const;
  [[nodiscard]] std::vector<Bound> bound_of(std::string_view policies_plural, std::string_view bindings_plural) const;
  [[nodiscard]] bool matches(const Bound& bound, const AdmissionRequest& request, const json::Value* object) const;
  // policy_mutation.cc: what one policy through one binding makes of the object; nothing if it does not concern it.
  Done mutate_by(const Bound& bound, AdmissionRequest& request, json::Value& object, bool& changed);
  [[nodiscard]] Result<json::Value> mutated(const Bound& bound, const AdmissionRequest& request,
                                            const json::Value& object, const json::Value* param);
  // All that is wrong with the request by one policy through one binding.
  [[nodiscard]] Judgement judge(const Bound& bound, const AdmissionRequest& request, const json::Value* object);
  void judge_with(const Bound& bound, AdmissionValues& values, Judgement& judgement);
  [[nodiscard]] static json::Value audit_entry(const Bound& bound, const Verdict& verdict);
  [[nodiscard]] Result<std::vector<json::Value>> params_of(const Bound& bound, const AdmissionRequest& request);

  const Logger log_;
  ApiServer& server_;
  std::atomic<bool> has_any_{false};  // so that a server without policies pays nothing
  mutable rt::Mutex mutex_;
  std::shared_ptr<const Table> table_ BASALT_GUARDED_BY(mutex_);
};

}  // namespace basalt::apiserver
