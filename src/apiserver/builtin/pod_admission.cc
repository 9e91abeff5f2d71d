#include "apiserver/builtin/pod_admission.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "apiserver/builtin/fields.h"
#include "apiserver/builtin/token_volume.h"
#include "apiserver/registry/errors.h"
#include "apiserver/registry/metadata.h"
#include "base/strings.h"
#include "base/thread_annotations.h"
#include "rt/mutex.h"

namespace basalt::apiserver {
namespace {

constexpr std::int64_t kTolerationSeconds = 300;
constexpr std::string_view kNotReady = "node.kubernetes.io/not-ready";
constexpr std::string_view kUnreachable = "node.kubernetes.io/unreachable";
constexpr std::string_view kPriorityClasses = "scheduling.k8s.io/priorityclasses";
constexpr std::string_view kDefaultAccount = "default";

struct PriorityClass {
  std::string name;
  std::int64_t value = 0;
  std::string preemption_policy = "PreemptLowerPriority";
  bool is_default = false;
};

std::optional<PriorityClass> read_class(const Entry& entry) {
  const auto parsed = json::Value::parse(*entry.object());
  if (!parsed.ok()) return std::nullopt;
  PriorityClass result;
  result.name = std::string(entry.name());
  result.value = int_at(*parsed, "value").value_or(0);
  result.is_default = flag_at(*parsed, "globalDefault");
  const std::string_view policy = text_at(*parsed, "preemptionPolicy");
  if (!policy.empty()) result.preemption_policy = policy;
  return result;
}

// The class of pods that name none. Asked for by every pod, so it is remembered until a class changes: of the entries
// of a list, either the number or the newest revision differs then.
class DefaultClass {
 public:
  explicit DefaultClass(Store& store) : store_(store), resource_(store.resource(kPriorityClasses)) {}

  std::optional<PriorityClass> get() {
    ListQuery query;
    query.resource = resource_;
    const auto listing = store_.list(query);
    if (!listing.ok()) return std::nullopt;
    Revision newest = 0;
    for (const EntryRef& entry : listing->entries) newest = std::max(newest, entry->mod_revision());
    {
      rt::MutexLock lock(mutex_);
      if (newest == newest_ && listing->entries.size() == count_) return found_;
    }
    // Should there be several after a race, the lowest is it.
    std::optional<PriorityClass> found;
    for (const EntryRef& entry : listing->entries) {
      auto one = read_class(*entry);
      if (one && one->is_default && (!found || one->value < found->value)) found = std::move(one);
    }
    rt::MutexLock lock(mutex_);
    newest_ = newest;
    count_ = listing->entries.size();
    found_ = found;
    return found;
  }

 private:
  Store& store_;
  const ResourceId resource_;
  rt::Mutex mutex_;
  Revision newest_ BASALT_GUARDED_BY(mutex_) = -1;
  std::size_t count_ BASALT_GUARDED_BY(mutex_) = 0;
  std::optional<PriorityClass> found_ BASALT_GUARDED_BY(mutex_);
};

bool tolerates(const json::Array& tolerations, std::string_view key) {
  return std::any_of(tolerations.begin(), tolerations.end(), [&](const json::Value& toleration) {
    const std::string_view own_key = text_at(toleration, "key");
    const std::string_view effect = text_at(toleration, "effect");
    return (own_key == key || own_key.empty()) && (effect == "NoExecute" || effect.empty());
  });
}

void add_tolerations(json::Object& spec) {
  json::Value& place = spec["tolerations"];
  if (place.is_null()) place = json::Array();
  if (!place.is_array()) return;
  json::Array& tolerations = place.as_array();
  const bool knows_not_ready = tolerates(tolerations, kNotReady);
  const bool knows_unreachable = tolerates(tolerations, kUnreachable);
  tolerations.reserve(tolerations.size() + 2);
  const auto add = [&](std::string_view key) {
    tolerations.emplace_back(json::Object{
        {"effect", "NoExecute"}, {"key", key}, {"operator", "Exists"}, {"tolerationSeconds", kTolerationSeconds}});
  };
  if (!knows_not_ready) add(kNotReady);
  if (!knows_unreachable) add(kUnreachable);
}

class PodAdmission final : public AdmissionHook {
 public:
  explicit PodAdmission(Store& store)
      : store_(store),
        accounts_(store.resource("/serviceaccounts")),
        classes_(store.resource(kPriorityClasses)),
        default_class_(store) {}

  [[nodiscard]] bool handles(const AdmissionRequest& request) const override {
    return request.type.plural == "pods" && request.type.group.empty() && request.subresource.empty() &&
           (request.operation == Operation::Create || request.operation == Operation::Update);
  }

  Done mutate(AdmissionRequest& request, json::Value& pod) override {
    json::Value* spec = pod.find("spec");
    if (spec == nullptr || !spec->is_object()) return Ok{};
    if (request.operation == Operation::Update) {
      keep_priority(spec->as_object(), *request.old_object);
      return Ok{};
    }
    BASALT_TRY_DONE(set_priority(request, *spec));
    if (is_mirror_pod(pod)) {
      if (!text_at(*spec, "serviceAccountName").empty())
        return forbidden(request.type, request.name,
                         "it stands for a static pod of its node, which has no service account");
    } else {
      BASALT_TRY_DONE(set_account(request, *spec));
    }
    add_tolerations(spec->as_object());
    return Ok{};
  }

  Done validate(AdmissionRequest&, const json::Value*) override { return Ok{}; }

 private:
  static void keep_priority(json::Object& spec, const json::Value& old) {
    for (const std::string_view name : {"priority", "preemptionPolicy"}) {
      const json::Value* before = old.find_path({"spec", name});
      if (before != nullptr) set_default(spec, name, *before);
    }
  }

  Done set_priority(AdmissionRequest& request, json::Value& spec) {
    PriorityClass found;
    if (const std::string_view name = text_at(spec, "priorityClassName"); !name.empty()) {
      const EntryRef entry = store_.get(classes_, "", name);
      const auto read = entry ? read_class(*entry) : std::nullopt;
      if (!read) {
        return forbidden(request.type, request.name, "no PriorityClass with name " + std::string(name) + " was found");
      }
      found = *read;
    } else if (auto by_default = default_class_.get()) {
      found = std::move(*by_default);
      spec.as_object().set("priorityClassName", found.name);
    }
    if (const auto given = int_at(spec, "priority"); given && *given != found.value) {
      return forbidden(request.type, request.name,
                       "the integer value of priority (" + std::to_string(*given) +
                           ") must not be provided in pod spec; priority admission controller computed " +
                           std::to_string(found.value) + " from the given PriorityClass name");
    }
    const std::string_view policy = text_at(spec, "preemptionPolicy");
    if (!policy.empty() && policy != found.preemption_policy) {
      return forbidden(request.type, request.name,
                       "the string value of PreemptionPolicy (" + std::string(policy) +
                           ") must not be provided in pod spec; priority admission controller computed " +
                           found.preemption_policy + " from the given PriorityClass name");
    }
    spec.as_object().set("priority", found.value);
    spec.as_object().set("preemptionPolicy", std::move(found.preemption_policy));
    return Ok{};
  }

  Done set_account(AdmissionRequest& request, json::Value& spec) {
    json::Object& members = spec.as_object();
    std::string name(text_at(spec, "serviceAccountName"));
    if (name.empty()) {
      name = kDefaultAccount;
      members.set("serviceAccountName", name);
      members.set("serviceAccount", name);
    }
    const EntryRef account = store_.get(accounts_, request.ns, name);
    if (!account) {
      // The default one of a new namespace is made a moment after it; a pod need not wait for that.
      if (name == kDefaultAccount) return Ok{};
      return forbidden(request.type, request.name,
                       "error looking up service account " + request.ns + "/" + name + ": serviceaccount " +
                           base::quote(name) + " not found");
    }
    if (!list_at(spec, "imagePullSecrets").empty() ||
        account->object()->find("\"imagePullSecrets\"") == std::string::npos) {
      return Ok{};
    }
    const auto parsed = json::Value::parse(*account->object());
    if (!parsed.ok()) return Ok{};
    const json::Array& secrets = list_at(*parsed, "imagePullSecrets");
    if (!secrets.empty()) members.set("imagePullSecrets", secrets);
    return Ok{};
  }

  Store& store_;
  const ResourceId accounts_;
  const ResourceId classes_;
  DefaultClass default_class_;
};

class PriorityClassAdmission final : public AdmissionHook {
 public:
  explicit PriorityClassAdmission(Store& store) : default_class_(store) {}

  [[nodiscard]] bool handles(const AdmissionRequest& request) const override {
    return request.type.plural == "priorityclasses" && request.operation != Operation::Delete;
  }

  Done mutate(AdmissionRequest&, json::Value&) override { return Ok{}; }

  Done validate(AdmissionRequest& request, const json::Value* object) override {
    if (object == nullptr || !flag_at(*object, "globalDefault")) return Ok{};
    const auto other = default_class_.get();
    if (!other || (request.operation == Operation::Update && other->name == request.name)) return Ok{};
    return forbidden(request.type, request.name,
                     "PriorityClass " + other->name + " is already marked as default. Only one default can exist");
  }

 private:
  DefaultClass default_class_;
};

class NamespaceAdmission final : public AdmissionHook {
 public:
  [[nodiscard]] bool handles(const AdmissionRequest& request) const override {
    return request.operation == Operation::Delete && request.type.plural == "namespaces" && request.type.group.empty();
  }

  Done mutate(AdmissionRequest&, json::Value&) override { return Ok{}; }

  Done validate(AdmissionRequest& request, const json::Value*) override {
    for (const std::string_view name : {"default", "kube-system", "kube-public"}) {
      if (request.name == name) return forbidden(request.type, name, "this namespace may not be deleted");
    }
    return Ok{};
  }
};

}  // namespace

std::shared_ptr<AdmissionHook> pod_admission(Store& store) { return std::make_shared<PodAdmission>(store); }

std::shared_ptr<AdmissionHook> priority_class_admission(Store& store) {
  return std::make_shared<PriorityClassAdmission>(store);
}

std::shared_ptr<AdmissionHook> namespace_admission() { return std::make_shared<NamespaceAdmission>(); }

}  // namespace basalt::apiserver
