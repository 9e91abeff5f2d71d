#include "apiserver/apply/merge_shape.h"

#include <algorithm>
#include <array>

#include "json/strategic_core.h"

namespace basalt::apiserver {
namespace {

// Objects of built-in kinds that have one owner as a whole: references and selectors.
constexpr std::array<std::string_view, 22> kAtomicObjects = {"selector",
                                                             "nodeSelector",
                                                             "labelSelector",
                                                             "namespaceSelector",
                                                             "secretKeyRef",
                                                             "configMapKeyRef",
                                                             "fieldRef",
                                                             "resourceFieldRef",
                                                             "secretRef",
                                                             "nodePublishSecretRef",
                                                             "nodeStageSecretRef",
                                                             "controllerPublishSecretRef",
                                                             "controllerExpandSecretRef",
                                                             "nodeExpandSecretRef",
                                                             "dataSource",
                                                             "involvedObject",
                                                             "scopeSelector",
                                                             "preference",
                                                             "objectSelector",
                                                             "podSelector",
                                                             "fileKeyRef",
                                                             "target"};

// Lists whose items need more than one member to be told apart.
struct KeyedList {
  std::string_view field;
  std::string_view first_key;
  std::string_view second_key;
};
constexpr std::array<KeyedList, 3> kTwoKeys = {{{"ports", "containerPort", "protocol"},
                                                {"ports", "port", "protocol"},
                                                {"topologySpreadConstraints", "topologyKey", "whenUnsatisfiable"}}};

}  // namespace

std::vector<std::string> list_map_keys(std::string_view field, std::string_view merge_key) {
  for (const KeyedList& list : kTwoKeys) {
    if (list.field == field && list.first_key == merge_key)
      return {std::string(list.first_key), std::string(list.second_key)};
  }
  return {std::string(merge_key)};
}

MergeShape::MergeShape(const ResourceType& type)
    : core_(type.crd_name.empty() ? json::core_strategic_schema(type.group, type.kind)
                                  : json::core_strategic_schema("", "Pod")),
      schema_root_(type.strategy->schema()),
      schemas_{schema_root_} {}

ListMerge MergeShape::list() const {
  if (!is_by_path()) {
    const Schema* schema = schemas_.back();
    if (schema == nullptr) return ListMerge::Atomic;
    switch (schema->list_type) {
      case Schema::ListType::Atomic:
        return ListMerge::Atomic;
      case Schema::ListType::Set:
        return ListMerge::Set;
      case Schema::ListType::Map:
        return ListMerge::Map;
    }
  }
  if (core_ == nullptr) return ListMerge::Atomic;
  switch (core_->strategy_of(path_).kind) {
    case json::FieldStrategy::Kind::MergeByKey:
      return ListMerge::Map;
    case json::FieldStrategy::Kind::MergePrimitives:
      return ListMerge::Set;
    default:
      return ListMerge::Atomic;
  }
}

std::vector<std::string> MergeShape::list_keys() const {
  if (!is_by_path()) return schemas_.back() == nullptr ? std::vector<std::string>() : schemas_.back()->list_map_keys;
  if (core_ == nullptr || path_.empty()) return {};
  return list_map_keys(path_.back(), core_->strategy_of(path_).merge_key);
}

std::optional<json::Value> MergeShape::key_default(std::string_view key) const {
  if (is_by_path()) return key == "protocol" ? std::optional<json::Value>("TCP") : std::nullopt;
  const Schema* list = schemas_.back();
  if (list == nullptr || !list->items) return std::nullopt;
  const Schema* member = list->items->property(key);
  return member == nullptr ? std::nullopt : member->default_value;
}

bool MergeShape::is_atomic_object() const {
  if (!is_by_path()) return schemas_.back() != nullptr && schemas_.back()->is_atomic_map;
  if (path_.empty()) return false;
  return std::ranges::find(kAtomicObjects, path_.back()) != kAtomicObjects.end();
}

bool MergeShape::is_free_map() const {
  if (is_by_path()) return false;
  const Schema* schema = schemas_.back();
  return schema == nullptr || schema->properties.empty();
}

void MergeShape::enter_field(std::string_view name) {
  path_.push_back(name);
  const Schema* here = schemas_.back();
  const Schema* next = nullptr;
  if (here != nullptr) {
    next = here->property(name);
    if (next == nullptr) next = here->additional_properties.get();
  }
  schemas_.push_back(next);
}

void MergeShape::leave_field() {
  path_.pop_back();
  schemas_.pop_back();
}

void MergeShape::enter_item() {
  const Schema* here = schemas_.back();
  schemas_.push_back(here == nullptr ? nullptr : here->items.get());
}

void MergeShape::leave_item() { schemas_.pop_back(); }

}  // namespace basalt::apiserver
