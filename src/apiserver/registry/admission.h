#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "apiserver/registry/resource_type.h"
#include "base/result.h"
#include "json/value.h"

namespace basalt::apiserver {

struct UserInfo {
  std::string name;
  std::string uid;
  std::vector<std::string> groups;
};

enum class Operation : std::uint8_t { Create, Update, Delete, Connect };

// What admission has to say about a request in the audit log: "policy.example.com/reason" -> text.
using AuditAnnotations = std::map<std::string, std::string>;

// What an admission hook is told about a write, as in AdmissionReview.
struct AdmissionRequest {
  Operation operation = Operation::Create;
  const ResourceType& type;
  std::string ns;
  std::string name;
  std::string subresource;
  const UserInfo& user;
  bool dry_run = false;
  const json::Value* old_object = nullptr;  // Update, Delete
  std::vector<std::string> warnings;        // hooks append; sent to the client
  AuditAnnotations* audit = nullptr;        // hooks add; null if nobody keeps an audit log
  std::string object_kind;                  // of what a Connect carries ("PodExecOptions"); "": the type's
};

// Our own rules, in process (priority classes, service account defaults, Volcano's admission when it is linked in).
// Called on the writer's thread, without a lock; must not wait. Mutating hooks run first, in the order they were added,
// then defaulting and validation of the kind, then the validating hooks.
class AdmissionHook {
 public:
  virtual ~AdmissionHook() = default;
  [[nodiscard]] virtual bool handles(const AdmissionRequest& request) const = 0;
  virtual Done mutate(AdmissionRequest& request, json::Value& object) = 0;
  // `object` is null for Delete.
  virtual Done validate(AdmissionRequest& request, const json::Value* object) = 0;
};

}  // namespace basalt::apiserver
