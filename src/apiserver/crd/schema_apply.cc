// Pruning and defaulting by a compiled schema. Depth is bounded by the decoder's limit on the object.

#include <algorithm>
#include <iterator>

#include "apiserver/crd/schema.h"

namespace basalt::apiserver {
namespace {

// What the metadata of every object may have.
constexpr std::string_view kMetadataFields[] = {"annotations",
                                                "creationTimestamp",
                                                "deletionGracePeriodSeconds",
                                                "deletionTimestamp",
                                                "finalizers",
                                                "generateName",
                                                "generation",
                                                "labels",
                                                "managedFields",
                                                "name",
                                                "namespace",
                                                "ownerReferences",
                                                "resourceVersion",
                                                "selfLink",
                                                "uid"};
bool is_metadata_field(std::string_view key) {
  return std::binary_search(std::begin(kMetadataFields), std::end(kMetadataFields), key);
}

bool is_type_or_metadata(std::string_view key) { return key == "apiVersion" || key == "kind" || key == "metadata"; }

class Pruner {
 public:
  explicit Pruner(std::vector<std::string>* unknown) : unknown_(unknown) {}

  void prune(const Schema& schema, json::Value& value, bool keeps_type_and_metadata) {
    if (value.is_array()) {
      if (!schema.items) return;
      std::size_t index = 0;
      for (json::Value& item : value.as_array()) {
        Step step(*this, "[" + (unknown_ != nullptr ? std::to_string(index++) : std::string()) + "]");
        prune(*schema.items, item, schema.items->embedded_resource);
      }
      return;
    }
    if (!value.is_object()) return;
    value.as_object().erase_if([&](json::Member& member) {
      const Schema* child = schema.property(member.key);
      if (child == nullptr && schema.additional_properties) child = schema.additional_properties.get();
      const bool stays = child != nullptr || schema.preserve_unknown || schema.any_additional_property ||
                         (keeps_type_and_metadata && is_type_or_metadata(member.key));
      Step step(*this, unknown_ != nullptr ? "." + member.key : std::string());
      if (!stays) {
        if (unknown_ != nullptr) unknown_->push_back(path_.substr(1));
        return true;
      }
      // The metadata of a resource is not the schema's business: it is the same for all kinds.
      if (keeps_type_and_metadata && is_type_or_metadata(member.key)) {
        if (member.key == "metadata") prune_metadata(member.value);
        return false;
      }
      if (child != nullptr) prune(*child, member.value, child->embedded_resource);
      return false;
    });
  }

 private:
  void prune_metadata(json::Value& metadata) {
    if (!metadata.is_object()) return;
    metadata.as_object().erase_if([&](const json::Member& member) {
      if (is_metadata_field(member.key)) return false;
      if (unknown_ != nullptr) unknown_->push_back(path_.substr(1) + "." + member.key);
      return true;
    });
  }

  struct Step {
    Step(Pruner& pruner, const std::string& part) : pruner_(pruner), size_(pruner.path_.size()) {
      if (pruner.unknown_ != nullptr) pruner.path_ += part;
    }
    ~Step() { pruner_.path_.resize(size_); }
    Pruner& pruner_;
    std::size_t size_;
  };

  std::vector<std::string>* unknown_;
  std::string path_;
};

}  // namespace

void prune_object(const Schema& schema, json::Value& object, bool is_root, std::vector<std::string>* unknown) {
  Pruner(unknown).prune(schema, object, is_root || schema.embedded_resource);
}

bool has_defaults(const Schema& schema) {
  if (schema.default_value) return true;
  const auto is_in = [](const std::unique_ptr<Schema>& part) { return part && has_defaults(*part); };
  return is_in(schema.items) || is_in(schema.additional_properties) ||
         std::any_of(schema.properties.begin(), schema.properties.end(),
                     [&](const auto& property) { return is_in(property.second); });
}

void default_object(const Schema& schema, json::Value& object) {
  if (object.is_array()) {
    if (!schema.items) return;
    for (json::Value& item : object.as_array()) {
      // A null that may not be null is replaced by the default, as Kubernetes does for items and members alike.
      if (item.is_null() && !schema.items->nullable && schema.items->default_value) item = *schema.items->default_value;
      default_object(*schema.items, item);
    }
    return;
  }
  if (!object.is_object()) return;
  json::Object& members = object.as_object();
  for (const auto& [name, child] : schema.properties) {
    json::Value* value = members.find(name);
    if (value != nullptr && value->is_null() && !child->nullable) {
      if (child->default_value) {
        *value = *child->default_value;
      } else {
        // An absent member and a null one mean the same where null is not allowed.
        members.erase(name);
        continue;
      }
    }
    if (value == nullptr) {
      if (!child->default_value) continue;
      value = &members.set(name, *child->default_value);
    }
    default_object(*child, *value);
  }
  if (!schema.additional_properties) return;
  for (json::Member& member : members) {
    if (schema.property(member.key) == nullptr) default_object(*schema.additional_properties, member.value);
  }
}

}  // namespace basalt::apiserver
