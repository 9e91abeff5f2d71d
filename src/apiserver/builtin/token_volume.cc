#include "apiserver/builtin/token_volume.h"

#include <string>
#include <utility>

#include "apiserver/builtin/fields.h"
#include "base/random_name.h"
#include "base/strings.h"

namespace basalt::apiserver {
namespace {

constexpr std::string_view kVolumePrefix = "kube-api-access-";
constexpr std::string_view kMirrorAnnotation = "kubernetes.io/config.mirror";
constexpr std::string_view kAutomount = "automountServiceAccountToken";
// An hour and seven seconds: by the odd number the server knows a token that nobody asked for in particular.
constexpr std::int64_t kTokenSeconds = 3607;
constexpr std::int64_t kFileMode = 0644;

json::Value sources() {
  json::Object token{{"expirationSeconds", kTokenSeconds}, {"path", "token"}};
  json::Object authority{{"name", "kube-root-ca.crt"},
                         {"items", json::Array{json::Object{{"key", "ca.crt"}, {"path", "ca.crt"}}}}};
  json::Object own_namespace{
      {"items", json::Array{json::Object{
                    {"path", "namespace"},
                    {"fieldRef", json::Object{{"apiVersion", "v1"}, {"fieldPath", "metadata.namespace"}}}}}}};
  return json::Array{json::Object{{"serviceAccountToken", std::move(token)}},
                     json::Object{{"configMap", std::move(authority)}},
                     json::Object{{"downwardAPI", std::move(own_namespace)}}};
}

bool mounts_account(const json::Value& container) {
  for (const json::Value& mount : list_at(container, "volumeMounts")) {
    if (text_at(mount, "mountPath") == kAccountMountPath) return true;
  }
  return false;
}

class TokenVolumeAdmission final : public AdmissionHook {
 public:
  TokenVolumeAdmission(rt::Runtime& runtime, Store& store)
      : runtime_(runtime),
        store_(store),
        accounts_(store.resource("/serviceaccounts")),
        source_(json::Object{{"projected", json::Object{{"defaultMode", kFileMode}, {"sources", sources()}}}}) {}

  [[nodiscard]] bool handles(const AdmissionRequest& request) const override {
    return request.operation == Operation::Create && request.type.plural == "pods" && request.type.group.empty() &&
           request.subresource.empty();
  }

  Done mutate(AdmissionRequest& request, json::Value& pod) override {
    json::Value* spec = pod.find("spec");
    if (spec == nullptr || !spec->is_object() || is_mirror_pod(pod)) return Ok{};
    if (is_wanted(request.ns, *spec)) add(*spec);
    return Ok{};
  }

  Done validate(AdmissionRequest&, const json::Value*) override { return Ok{}; }

 private:
  // The pod's word counts, then the account's. An account that is about to be made has none.
  [[nodiscard]] bool is_wanted(const std::string& ns, const json::Value& spec) const {
    if (member(spec, kAutomount) != nullptr) return flag_at(spec, kAutomount);
    const EntryRef account = store_.get(accounts_, ns, text_at(spec, "serviceAccountName"));
    if (!account || account->object()->find(kAutomount) == std::string::npos) return true;
    const auto parsed = json::Value::parse(*account->object());
    return !parsed.ok() || member(*parsed, kAutomount) == nullptr || flag_at(*parsed, kAutomount);
  }

  void add(json::Value& spec) {
    // A pod that was copied with its volume has one already.
    std::string name;
    for (const json::Value& volume : list_at(spec, "volumes")) {
      if (text_at(volume, "name").starts_with(kVolumePrefix)) name = text_at(volume, "name");
    }
    const bool has_volume = !name.empty();
    if (!has_volume) {
      name = std::string(kVolumePrefix) +
             base::random_suffix([this](std::size_t n) { return static_cast<std::size_t>(runtime_.random_below(n)); });
    }
    bool is_used = false;
    for (const std::string_view list : {"initContainers", "containers"}) {
      json::Array* containers = mutable_list(spec, list);
      if (containers == nullptr) continue;
      for (json::Value& container : *containers) is_used = mount_in(container, name) || is_used;
    }
    if (!is_used || has_volume) return;
    json::Value& volumes = spec.as_object()["volumes"];
    if (volumes.is_null()) volumes = json::Array();
    if (!volumes.is_array()) return;
    json::Value& volume = volumes.as_array().emplace_back(source_);
    volume.as_object().set("name", std::move(name));
  }

  static bool mount_in(json::Value& container, const std::string& name) {
    if (!container.is_object() || mounts_account(container)) return false;
    json::Value& mounts = container.as_object()["volumeMounts"];
    if (mounts.is_null()) mounts = json::Array();
    if (!mounts.is_array()) return false;
    mounts.as_array().emplace_back(json::Object{{"mountPath", kAccountMountPath}, {"name", name}, {"readOnly", true}});
    return true;
  }

  rt::Runtime& runtime_;
  Store& store_;
  const ResourceId accounts_;
  const json::Value source_;  // the volume without its name
};

}  // namespace

bool is_mirror_pod(const json::Value& pod) {
  const json::Value* annotations = pod.find_path({"metadata", "annotations"});
  return annotations != nullptr && annotations->find(kMirrorAnnotation) != nullptr;
}

std::shared_ptr<AdmissionHook> token_volume_admission(rt::Runtime& runtime, Store& store) {
  return std::make_shared<TokenVolumeAdmission>(runtime, store);
}

}  // namespace basalt::apiserver
