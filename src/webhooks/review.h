#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "json/value.h"

// The pure core of admission: a write in, an answer out. No sockets, no clock; rules/ holds one file per kind and
// direction. The server (server.h) and the embedded API server (admission_rules.h) are its users.

namespace basalt::webhooks {

enum class Operation : std::uint8_t { Create = 1, Update = 2, Delete = 4, Connect = 8 };
[[nodiscard]] std::string_view to_string(Operation operation);  // "CREATE", ...

// Who writes.
struct ReviewUser {
  std::string name;
  std::string uid;
  std::vector<std::string> groups;
  const json::Value* extra = nullptr;  // map of lists of strings
};

// A write, as in AdmissionReview. Objects are borrowed.
struct ReviewRequest {
  Operation operation = Operation::Create;
  std::string group;
  std::string version;
  std::string kind;
  std::string resource;  // plural
  std::string subresource;
  std::string ns;
  std::string name;  // "" where the server makes one
  ReviewUser user;
  bool dry_run = false;
  const json::Value* object = nullptr;      // null for Delete
  const json::Value* old_object = nullptr;  // Update, Delete
};

struct ReviewAnswer {
  bool allowed = true;
  std::string message;  // why not
  int code = 0;         // HTTP code that the client gets; 400 for a broken rule
  std::string reason;   // Kubernetes' word for it; "" for a broken rule, as other servers leave it
  std::vector<Cause> causes;
  json::Array patch;  // JSON patch operations
  std::vector<std::string> warnings;

  // A rule is broken: code 400, no reason.
  void deny(std::string why);
  // Not the user's fault: the same write may be accepted later.
  void refuse_for_now(const Error& error);
};

struct RuleContext;  // rule_context.h
using Rule = void (*)(const RuleContext& context, const ReviewRequest& request, ReviewAnswer& answer);

// One path of the server.
struct Hook {
  std::string_view path;  // "/jobs/mutate"
  bool is_mutating = false;
  std::string_view group;
  std::string_view version;
  std::string_view resource;
  std::uint8_t operations = 0;    // those that its configuration sends; a set of Operation
  std::string_view webhook_name;  // of the entry in its configuration: "mutatejob.volcano.sh"
  Rule rule = nullptr;

  [[nodiscard]] bool takes(Operation operation) const {
    return (operations & static_cast<std::uint8_t>(operation)) != 0;
  }
  // "volcano-admission-service-jobs-mutate"
  [[nodiscard]] std::string configuration_name() const;
};

[[nodiscard]] std::span<const Hook> all_hooks();
[[nodiscard]] const Hook* find_hook(std::string_view path);  // null if there is none
// The one for a resource; null if there is none.
[[nodiscard]] const Hook* find_hook(std::string_view group, std::string_view resource, bool is_mutating);

// Checks that the hook is meant for this resource, then applies its rule.
[[nodiscard]] ReviewAnswer review(const Hook& hook, const RuleContext& context, const ReviewRequest& request);

}  // namespace basalt::webhooks
