#include "api/packed_resources.h"

#include <string>
#include <utility>
#include <vector>

#include "json/reader.h"

namespace basalt::api {
namespace {

StringMap pack(const ResourceList& list) {
  std::vector<std::string> amounts;
  amounts.reserve(list.size());
  std::vector<StringMap::value_type> entries;
  entries.reserve(list.size());
  for (const auto& [name, quantity] : list) entries.emplace_back(name, amounts.emplace_back(quantity.to_string()));
  return StringMap::of(std::move(entries));
}

}  // namespace

PackedResources::PackedResources(const ResourceList& list) : text_(pack(list)) {}

Quantity PackedResources::get(std::string_view name) const {
  const auto text = text_.find(name);
  return text ? Quantity::parse(*text).value_or(Quantity()) : Quantity();
}

ResourceList PackedResources::to_list() const {
  ResourceList list;
  for (const auto [name, text] : text_) list.set(name, Quantity::parse(text).value_or(Quantity()));
  return list;
}

void decode(json::Reader& reader, PackedResources& resources) {
  ResourceList list;
  decode(reader, list);
  resources.text_ = pack(list);
}

}  // namespace basalt::api
