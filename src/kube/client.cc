#include "kube/client.h"

namespace basalt::kube {

std::string Resource::to_string() const {
  std::string text = plural;
  if (!group.empty()) text += "." + group;
  return text + "/" + version;
}

std::string_view to_string(Verb verb) {
  switch (verb) {
    case Verb::Get:
      return "Get";
    case Verb::Create:
      return "Create";
    case Verb::Update:
      return "Update";
    case Verb::Patch:
      return "Patch";
    case Verb::Delete:
      return "Delete";
    case Verb::DeleteCollection:
      return "DeleteCollection";
  }
  return "";
}

std::string_view content_type_of(PatchType type) {
  switch (type) {
    case PatchType::Json:
      return "application/json-patch+json";
    case PatchType::Merge:
      return "application/merge-patch+json";
    case PatchType::StrategicMerge:
      return "application/strategic-merge-patch+json";
    case PatchType::Apply:
      return "application/apply-patch+yaml";  // JSON is YAML
  }
  return "";
}

}  // namespace basalt::kube
