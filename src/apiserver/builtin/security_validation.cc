// Security contexts of pods and containers.

#include <limits>

#include "apiserver/builtin/pod_validation.h"
#include "base/strings.h"

namespace basalt::apiserver {
namespace {

void check_id(const json::Value& id, const FieldPath& path, Causes& causes) {
  constexpr std::int64_t kIdMax = std::numeric_limits<std::int32_t>::max();
  if (!id.is_int() || (id.as_int() >= 0 && id.as_int() <= kIdMax)) return;
  causes.push_back(invalid_value(path.text(), shown(id), "must be between 0 and 2147483647, inclusive"));
}

void check_ids(const json::Value& context, const FieldPath& path, Causes& causes) {
  for (const std::string_view name : {"fsGroup", "runAsUser", "runAsGroup"}) {
    if (const json::Value* id = member(context, name)) check_id(*id, path.child(name), causes);
  }
}

void check_seccomp(const json::Value& context, const FieldPath& path, Causes& causes) {
  const json::Value* profile = member(context, "seccompProfile");
  if (profile == nullptr) return;
  const FieldPath at = path.child("seccompProfile");
  constexpr std::string_view kTypes[] = {"Localhost", "RuntimeDefault", "Unconfined"};
  const std::string_view type = text_at(*profile, "type");
  if (type.empty()) {
    causes.push_back(required(at.text("type"), "type is required when seccompProfile is set"));
  } else {
    check_one_of(type, at.child("type"), kTypes, causes);
  }
  const json::Value* local = member(*profile, "localhostProfile");
  if (type == "Localhost") {
    if (local == nullptr || !local->is_string()) {
      causes.push_back(required(at.text("localhostProfile"), "must be set when seccomp type is Localhost"));
    } else {
      check_relative_path(local->as_string(), at.child("localhostProfile"), causes);
    }
  } else if (local != nullptr) {
    causes.push_back(
        invalid_value(at.text("localhostProfile"), shown(*profile), "can only be set when seccomp type is Localhost"));
  }
}

void check_sysctls(const json::Value& context, const FieldPath& path, Causes& causes) {
  const FieldPath sysctls_path = path.child("sysctls");
  const json::Array& sysctls = list_at(context, "sysctls");
  for (std::size_t i = 0; i < sysctls.size(); ++i) {
    const FieldPath at = sysctls_path.index(i);
    const std::string_view name = text_at(sysctls[i], "name");
    if (name.empty()) causes.push_back(required(at.text("name")));
    for (std::size_t j = 0; j < i && !name.empty(); ++j) {
      if (text_at(sysctls[j], "name") != name) continue;
      causes.push_back(duplicate_value(at.text("name"), base::quote(name)));
      break;
    }
  }
}

}  // namespace

void validate_pod_security(const json::Value& spec, const FieldPath& spec_path, Causes& causes) {
  const json::Value* context = member(spec, "securityContext");
  if (context == nullptr || !context->is_object() || context->as_object().empty()) return;
  const FieldPath path = spec_path.child("securityContext");
  check_ids(*context, path, causes);
  const FieldPath groups_path = path.child("supplementalGroups");
  const json::Array& groups = list_at(*context, "supplementalGroups");
  for (std::size_t i = 0; i < groups.size(); ++i) check_id(groups[i], groups_path.index(i), causes);
  if (flag_at(spec, "shareProcessNamespace") && flag_at(spec, "hostPID")) {
    causes.push_back(invalid_value(path.text("shareProcessNamespace"), "true",
                                   "ShareProcessNamespace and HostPID cannot both be enabled"));
  }
  check_sysctls(*context, path, causes);
  if (member(*context, "fsGroupChangePolicy") != nullptr) {
    constexpr std::string_view kPolicies[] = {"Always", "OnRootMismatch"};
    check_one_of(text_at(*context, "fsGroupChangePolicy"), path.child("fsGroupChangePolicy"), kPolicies, causes);
  }
  check_seccomp(*context, path, causes);
}

void validate_container_security(const json::Value& container, const FieldPath& path, Causes& causes) {
  const json::Value& context = *container.find("securityContext");
  check_ids(context, path, causes);
  if (member(context, "procMount") != nullptr) {
    constexpr std::string_view kMounts[] = {"Default", "Unmasked"};
    check_one_of(text_at(context, "procMount"), path.child("procMount"), kMounts, causes);
  }
  check_seccomp(context, path, causes);
  const json::Value* escalation = member(context, "allowPrivilegeEscalation");
  if (escalation == nullptr || *escalation != json::Value(false)) return;
  if (flag_at(context, "privileged")) {
    causes.push_back(invalid_value(path.text(), shown(context),
                                   "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"));
  }
  for (const json::Value& capability : list_at(context, {"capabilities", "add"})) {
    if (capability != json::Value("CAP_SYS_ADMIN")) continue;
    causes.push_back(
        invalid_value(path.text(), shown(context),
                      "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"));
  }
}

}  // namespace basalt::apiserver
