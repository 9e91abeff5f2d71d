#include "apiserver/builtin/namespace_strategy.h"

#include "apiserver/registry/metadata.h"

namespace basalt::apiserver {

void NamespaceStrategy::apply_defaults(json::Value& object) const {
  // Every namespace can be selected by its name (the label that Kubernetes sets, too).
  json::Value& labels = object.ensure_path({"metadata", "labels"});
  if (!labels.is_object()) labels = json::Object();
  if (const std::string_view name = metadata_text(object, "name"); !name.empty()) {
    labels.as_object().set("kubernetes.io/metadata.name", name);
  }
}

void NamespaceStrategy::prepare_for_create(json::Value& object) const {
  GenericStrategy::prepare_for_create(object);
  object.ensure_path({"status", "phase"}) = "Active";
  json::Value& finalizers = object.ensure_path({"spec", "finalizers"});
  if (!finalizers.is_array()) finalizers = json::Array();
  json::Array& list = finalizers.as_array();
  for (const json::Value& item : list) {
    if (item == json::Value("kubernetes")) return;
  }
  list.emplace_back("kubernetes");
}

void NamespaceStrategy::prepare_for_update(json::Value& object, const json::Value& old, WritePart part) const {
  GenericStrategy::prepare_for_update(object, old, part);
  // Finalizers of the specification change through the subresource `finalize` only.
  if (part != WritePart::Main) return;
  if (const json::Value* spec = old.find("spec")) object.as_object().set("spec", *spec);
}

std::vector<std::pair<std::string, std::string>> NamespaceStrategy::selectable_fields(const json::Value& object) const {
  return {{"status.phase", std::string(object.string_at({"status", "phase"}))}};
}

json::Array NamespaceStrategy::table_cells(const json::Value& object, std::span<const PrinterColumn>,
                                           api::Time now) const {
  return {metadata_text(object, "name"), object.string_at({"status", "phase"}),
          age_cell(metadata_text(object, "creationTimestamp"), now)};
}

void NamespaceStrategy::mark_deleting(json::Value& object) const {
  object.ensure_path({"status", "phase"}) = "Terminating";
}

bool NamespaceStrategy::holds_deletion(const json::Value& object) const {
  const json::Value* finalizers = object.find_path({"spec", "finalizers"});
  return finalizers != nullptr && finalizers->is_array() && !finalizers->as_array().empty();
}

}  // namespace basalt::apiserver
