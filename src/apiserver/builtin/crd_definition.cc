#include "apiserver/builtin/crd_definition.h"

#include <algorithm>
#include <utility>

#include "apiserver/builtin/builtin_types.h"
#include "apiserver/builtin/crd_conversion.h"
#include "apiserver/crd/crd_types.h"
#include "apiserver/registry/generic_strategy.h"
#include "apiserver/registry/metadata.h"

namespace basalt::apiserver {
namespace {

json::Value condition(std::string_view type, std::string_view reason, std::string_view message,
                      std::string_view timestamp) {
  return json::Object{
      {"lastTransitionTime", timestamp}, {"message", message}, {"reason", reason}, {"status", "True"}, {"type", type}};
}

std::string storage_version_of(const json::Value& crd) {
  const json::Value* versions = crd.find_path({"spec", "versions"});
  if (versions == nullptr || !versions->is_array()) return "";
  for (const json::Value& version : versions->as_array()) {
    const json::Value* storage = version.find("storage");
    if (storage != nullptr && *storage == json::Value(true)) return std::string(version.string_at({"name"}));
  }
  return "";
}

class CrdDefinitionStrategy final : public GenericStrategy {
 public:
  CrdDefinitionStrategy() : GenericStrategy(true) {}

  void apply_defaults(json::Value& object) const override {
    default_crd(object);
    default_crd_conversion(object);
  }

  void prepare_for_create(json::Value& object) const override {
    GenericStrategy::prepare_for_create(object);
    const std::string_view now = metadata_text(object, "creationTimestamp");
    const json::Value* names = object.find_path({"spec", "names"});
    json::Object status;
    status.set("acceptedNames", names != nullptr ? *names : json::Value(json::Object()));
    status.set("conditions", json::Array{condition("NamesAccepted", "NoConflicts", "no conflicts found", now),
                                         condition("Established", "InitialNamesAccepted",
                                                   "the initial names have been accepted", now)});
    status.set("storedVersions", json::Array{json::Value(storage_version_of(object))});
    object.as_object().set("status", std::move(status));
    json::Value& finalizers = object.ensure_path({"metadata", "finalizers"});
    if (!finalizers.is_array()) finalizers = json::Array();
    if (!has_finalizer(object, kCrdCleanupFinalizer)) finalizers.as_array().emplace_back(kCrdCleanupFinalizer);
  }

  void prepare_for_update(json::Value& object, const json::Value& old, WritePart part) const override {
    GenericStrategy::prepare_for_update(object, old, part);
    if (part != WritePart::Main) return;
    // What is accepted and stored follows the specification.
    if (const json::Value* names = object.find_path({"spec", "names"})) {
      object.ensure_path({"status", "acceptedNames"}) = *names;
    }
    json::Value& stored = object.ensure_path({"status", "storedVersions"});
    if (!stored.is_array()) stored = json::Array();
    const json::Value version(storage_version_of(object));
    json::Array& list = stored.as_array();
    if (std::find(list.begin(), list.end(), version) == list.end()) list.push_back(version);
  }

  void validate_create(const json::Value& object, Causes& causes) const override {
    validate_crd(object, nullptr, causes);
    validate_crd_conversion(object, causes);
  }

  void validate_update(const json::Value& object, const json::Value& old, WritePart part,
                       Causes& causes) const override {
    if (part != WritePart::Main) return;
    validate_crd(object, &old, causes);
    validate_crd_conversion(object, causes);
  }
};

}  // namespace

std::shared_ptr<const ResourceType> crd_definition_type() {
  ResourceType type =
      basic_type("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", false);
  type.short_names = {"crd", "crds"};
  type.categories = {"api-extensions"};
  type.has_status = true;
  type.has_generation = true;
  type.strategy = std::make_shared<CrdDefinitionStrategy>();
  type.columns[1] = {"Created At", "date", "", "When the object was created.", "", 0};
  return std::make_shared<const ResourceType>(std::move(type));
}

}  // namespace basalt::apiserver
