#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/registry/admission.h"
#include "apiserver/registry/api_server.h"
#include "cel/expression.h"
#include "json/value.h"

namespace basalt::apiserver {

// What the expressions of admission can name. Webhooks see the first four; mutations can make `Object{...}`, too.
enum class AdmissionNames : std::uint8_t { Webhook, Policy, Mutation };

// Compiles an expression of admission. `variables` are the names behind "variables." that stand before it.
[[nodiscard]] Result<cel::Expression> compile_admission(std::string_view text, AdmissionNames names,
                                                        std::span<const std::string> variables = {});

// The values of those names for one request. Used by one thread; the request and the object live longer.
class AdmissionValues {
 public:
  AdmissionValues(ApiServer& server, const AdmissionRequest& request, const json::Value* object);
  AdmissionValues(const AdmissionValues&) = delete;  // the values point into it
  AdmissionValues& operator=(const AdmissionValues&) = delete;

  void set_params(const json::Value* params);
  void set_variables(cel::Value variables);
  [[nodiscard]] std::span<const cel::Value> values() const { return values_; }

 private:
  json::Value request_;
  std::optional<json::Value> namespace_;
  std::vector<cel::Value> values_;
};

// A list of matchConditions, compiled.
class MatchConditions {
 public:
  struct Condition {
    std::string name;
    cel::Expression expression;
  };
  static constexpr std::size_t kConditionsMax = 64;  // as Kubernetes allows

  Done add(std::string name, std::string_view expression, AdmissionNames names);
  [[nodiscard]] bool empty() const { return conditions_.empty(); }
  // False if one is false; an error if none is and one fails.
  [[nodiscard]] Result<bool> hold(const AdmissionValues& values, cel::Cost& cost) const;

 private:
  std::vector<Condition> conditions_;
};

// Complaints about a list of matchConditions in an object, with their paths.
void check_match_conditions(const json::Value& owner, const std::string& path, AdmissionNames names, Causes& causes);

// A value that is asked whether somebody may: authorizer.group('').resource('pods').check('get').allowed().
[[nodiscard]] cel::Value authorizer_value(ApiServer& server, const AdmissionRequest& request);

}  // namespace basalt::apiserver
