#include <algorithm>
#include <tuple>

#include "apiserver/registry/resource_type.h"
#include "base/sort.h"

namespace basalt::apiserver {
namespace {

std::string table_key(std::string_view group, std::string_view version, std::string_view last) {
  std::string key;
  key.reserve(group.size() + version.size() + last.size() + 2);
  key.append(group).append("/").append(version).append("/").append(last);
  return key;
}

}  // namespace

std::shared_ptr<const ResourceType> TypeTable::find(std::string_view group, std::string_view version,
                                                    std::string_view plural) const {
  const auto it = by_plural_.find(table_key(group, version, plural));
  return it == by_plural_.end() ? nullptr : it->second;
}

std::shared_ptr<const ResourceType> TypeTable::find_kind(std::string_view group, std::string_view version,
                                                         std::string_view kind) const {
  const auto it = by_kind_.find(table_key(group, version, kind));
  return it == by_kind_.end() ? nullptr : it->second;
}

std::shared_ptr<const TypeTable> TypeTable::with(std::vector<std::shared_ptr<const ResourceType>> added) const {
  auto table = std::make_shared<TypeTable>(*this);
  for (auto& type : added) {
    std::erase_if(table->types_, [&](const auto& old) {
      return old->group == type->group && old->version == type->version && old->plural == type->plural;
    });
    table->types_.push_back(type);
  }
  // Versions stay in the order in which they were added: a CRD lists its preferred version first.
  base::stable_sort(table->types_, [](const auto& a, const auto& b) {
    return std::tie(a->group, a->plural) < std::tie(b->group, b->plural);
  });
  table->by_plural_.clear();
  table->by_kind_.clear();
  for (const auto& type : table->types_) {
    table->by_plural_[table_key(type->group, type->version, type->plural)] = type;
    table->by_kind_[table_key(type->group, type->version, type->kind)] = type;
  }
  return table;
}

std::shared_ptr<const TypeTable> TypeTable::without_crd(std::string_view crd_name) const {
  auto table = std::make_shared<TypeTable>(*this);
  const auto is_of_crd = [&](const auto& entry) { return entry.second->crd_name == crd_name; };
  std::erase_if(table->types_, [&](const auto& type) { return type->crd_name == crd_name; });
  std::erase_if(table->by_plural_, is_of_crd);
  std::erase_if(table->by_kind_, is_of_crd);
  return table;
}

}  // namespace basalt::apiserver
