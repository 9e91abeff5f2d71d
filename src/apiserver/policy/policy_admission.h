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

// Evaluates ValidatingAdmissionPolicies through their bindings, on the writer's thread; waits for nothing. Thread-safe.
// Each binding of a policy may cost 10,000,000 units together and 1,000,000 an expression; beyond that the policy has
// failed, and its failurePolicy decides.
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
  using Table = std::vector<Bound>;
  struct Verdict {
    std::string message;
    std::string reason;
    bool is_failure = false;  // it could not be evaluated
  };

  [[nodiscard]] std::shared_ptr<const Table> table() const;
  [[nodiscard]] std::vector<json::Value> stored(std::string_view plural) const;
  // All that is wrong with the request by one policy through one binding.
  [[nodiscard]] std::vector<Verdict> judge(const Bound& bound, const AdmissionRequest& request,
                                           const json::Value* object);
  void judge_with(const Bound& bound, AdmissionValues& values, std::vector<Verdict>& verdicts);
  [[nodiscard]] Result<std::vector<json::Value>> params_of(const Bound& bound, const AdmissionRequest& request);

  const Logger log_;
  ApiServer& server_;
  std::atomic<bool> has_any_{false};  // so that a server without policies pays nothing
  mutable rt::Mutex mutex_;
  std::shared_ptr<const Table> table_ BASALT_GUARDED_BY(mutex_);
};

}  // namespace basalt::apiserver
