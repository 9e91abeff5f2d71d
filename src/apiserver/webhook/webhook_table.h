#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/labels.h"
#include "api/string_map.h"
#include "apiserver/registry/admission.h"
#include "base/result.h"
#include "json/value.h"
#include "rt/time.h"

namespace basalt::apiserver {

class MatchConditions;  // policy/admission_values.h

// Where somebody is asked over HTTPS.
struct WebhookEndpoint {
  struct Service {
    std::string ns;
    std::string name;
    std::string path;
    std::int32_t port = 443;
  };
  std::string url;  // "" if it is a service
  Service service;
  std::string ca_pem;
};

// One webhook of one configuration.
struct Webhook : WebhookEndpoint {
  struct Rule {
    std::vector<std::string> operations;
    std::vector<std::string> groups;
    std::vector<std::string> versions;
    std::vector<std::string> resources;  // "pods", "pods/status", "*/*", ...
    std::string scope = "*";
  };
  std::string configuration;
  std::string name;
  std::vector<Rule> rules;
  bool ignores_failure = false;
  bool asked_again = false;  // reinvocationPolicy: IfNeeded
  bool has_side_effects = false;
  api::Selector namespaces;
  api::Selector objects;
  rt::Duration timeout = std::chrono::seconds(10);
  std::shared_ptr<const MatchConditions> conditions;  // null if there are none

  [[nodiscard]] bool concerns(const AdmissionRequest& request) const;
  // By the labels of either object.
  [[nodiscard]] bool selects(const json::Value* object, const json::Value* old_object) const;
};

// "CREATE", "UPDATE", ...: as rules and reviews name operations.
[[nodiscard]] std::string_view admission_name(Operation operation);
// The labels of an object.
[[nodiscard]] api::StringMap labels_of(const json::Value& object);

// All webhooks at one moment, in the order in which they are called. Immutable.
struct WebhookTable {
  static constexpr std::size_t kWebhooksMax = 64;
  std::vector<Webhook> mutating;
  std::vector<Webhook> validating;
  [[nodiscard]] bool empty() const { return mutating.empty() && validating.empty(); }
};

// Adds the webhooks of one stored configuration; at most kWebhooksMax of each kind are kept.
[[nodiscard]] Done add_configuration(WebhookTable& table, std::string_view text, bool is_mutating);

}  // namespace basalt::apiserver
