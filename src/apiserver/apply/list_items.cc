#include "apiserver/apply/list_items.h"

#include <utility>

#include "base/strings.h"

namespace basalt::apiserver {
namespace {

Result<std::string> keyed_element(const json::Value& item, const std::vector<std::string>& keys,
                                  const MergeShape& shape, const std::string& path) {
  if (!item.is_object())
    return Error::make(Reason::Invalid,
                       path + ": an item of a list with keys must be an object, not " + std::string(item.type_name()));
  json::Object element;
  for (const std::string& key : keys) {
    const json::Value* value = item.find(key);
    if (value != nullptr && !value->is_null()) {
      element.set(key, *value);
    } else if (auto fallback = shape.key_default(key)) {
      element.set(key, std::move(*fallback));
    } else if (keys.size() == 1) {
      return Error::make(Reason::Invalid, path +
                                              ": element 0: associative list with keys has an element that omits "
                                              "key field " +
                                              base::quote(key) + " (and doesn't have default value)");
    }
  }
  if (element.empty())
    return Error::make(Reason::Invalid, path + ": an item has none of the keys " + base::join(keys, ", "));
  return "k:" + json::Value(std::move(element)).to_text();
}

}  // namespace

std::optional<std::size_t> ListItems::place_of(std::string_view element) const {
  const auto found = places_.find(element);
  return found == places_.end() ? std::nullopt : std::optional(found->second);
}

Result<ListItems> ListItems::of(const json::Array& list, const MergeShape& shape, const std::string& path) {
  ListItems items;
  items.kind = shape.list();
  const std::vector<std::string> keys = items.kind == ListMerge::Map ? shape.list_keys() : std::vector<std::string>();
  items.elements.reserve(list.size());
  for (const json::Value& item : list) {
    std::string element;
    if (items.kind == ListMerge::Map) {
      BASALT_TRY(element, keyed_element(item, keys, shape, path));
    } else {
      element = "v:" + item.to_text();
    }
    if (!items.places_.emplace(element, items.elements.size()).second)
      return Error::make(Reason::Invalid, path + ": duplicate entries for key " + element.substr(2));
    items.elements.push_back(std::move(element));
  }
  return items;
}

}  // namespace basalt::apiserver
