#include "apiserver/apply/field_walk.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "apiserver/apply/list_items.h"
#include "base/strings.h"

namespace basalt::apiserver {
namespace {

// Nobody owns what the server writes or what names the object.
constexpr std::array<std::string_view, 12> kUnownedMetadata = {"name",
                                                               "namespace",
                                                               "creationTimestamp",
                                                               "selfLink",
                                                               "uid",
                                                               "clusterName",
                                                               "generation",
                                                               "managedFields",
                                                               "resourceVersion",
                                                               "generateName",
                                                               "deletionTimestamp",
                                                               "deletionGracePeriodSeconds"};

bool is_unowned_metadata(std::string_view name) {
  return std::ranges::find(kUnownedMetadata, name) != kUnownedMetadata.end();
}

// Whether the member of the object where the shape stands has an owner.
bool is_owned(const json::Member& member, const MergeShape& shape) {
  const auto& path = shape.path();
  if (path.size() == 1) return path.front() != "metadata" || !is_unowned_metadata(member.key);
  if (!path.empty()) return true;
  if (member.key == "apiVersion" || member.key == "kind") return false;
  if (member.key != "metadata" || !member.value.is_object()) return true;
  return !std::ranges::all_of(member.value.as_object(), [](const auto& one) { return is_unowned_metadata(one.key); });
}

const json::Value* find_owned(const json::Object& object, std::string_view key, const MergeShape& shape) {
  const auto found = std::ranges::find(object, key, &json::Member::key);
  return found == object.end() || !is_owned(*found, shape) ? nullptr : &found->value;
}

std::string field_element(std::string_view name) {
  std::string element;
  element.reserve(name.size() + 2);
  return element.append("f:").append(name);
}

bool is_empty_container(const json::Value& value) {
  return value.is_null() || (value.is_object() && value.as_object().empty()) ||
         (value.is_array() && value.as_array().empty());
}

// Whether the value is looked into; otherwise it is one field.
bool has_parts(const json::Value& value, const MergeShape& shape) {
  if (value.is_object()) return !value.as_object().empty() && !shape.is_atomic_object();
  return value.is_array() && !value.as_array().empty() && shape.list() != ListMerge::Atomic;
}

// The path is as before when this returns Ok.
Done collect(const json::Value& value, MergeShape& shape, std::string& path, FieldSet& set) {
  if (!has_parts(value, shape)) {
    set.is_member = true;
    return Ok{};
  }
  if (value.is_object()) {
    const bool is_free = shape.is_free_map();
    const std::size_t path_size = path.size();
    for (const json::Member& member : value.as_object()) {
      if (!is_owned(member, shape)) continue;
      // Members are in order, so each goes to the end.
      FieldSet& child = set.children.try_emplace(set.children.end(), field_element(member.key))->second;
      shape.enter_field(member.key);
      path.append(1, '.').append(member.key);
      const Done done = collect(member.value, shape, path, child);
      shape.leave_field();
      if (!done.ok()) return done;
      path.resize(path_size);
      if (is_free) child.is_member = true;
    }
    return Ok{};
  }
  BASALT_TRY(const ListItems items, ListItems::of(value.as_array(), shape, path));
  for (std::size_t i = 0; i < items.elements.size(); ++i) {
    FieldSet& child = set.children[items.elements[i]];
    shape.enter_item();
    const Done done = shape_is_set(items) ? Done(Ok{}) : collect(value.as_array()[i], shape, path, child);
    shape.leave_item();
    if (!done.ok()) return done;
    child.is_member = true;
  }
  return Ok{};
}

// The fields of a value whose items may be malformed: then it is one field.
void collect_leniently(const json::Value& value, MergeShape& shape, FieldSet& set) {
  FieldSet found;
  std::string path;
  if (collect(value, shape, path, found).ok()) {
    set = std::move(found);
  } else {
    set = FieldSet{true, {}};
  }
}

void compare(const json::Value& old, const json::Value& now, MergeShape& shape, FieldChanges& changes);

// One part of a container; null where it is absent on that side.
void compare_part(const json::Value* old, const json::Value* now, MergeShape& shape, FieldChanges& changes) {
  if (old != nullptr && now != nullptr) return compare(*old, *now, shape, changes);
  FieldSet& target = now != nullptr ? changes.added : changes.removed;
  collect_leniently(now != nullptr ? *now : *old, shape, target);
  target.is_member = true;
}

void put(FieldSet& parent, const std::string& element, FieldSet child) {
  if (!child.empty()) parent.children[element].add(std::move(child));
}

void put(FieldChanges& parent, const std::string& element, FieldChanges child) {
  put(parent.added, element, std::move(child.added));
  put(parent.modified, element, std::move(child.modified));
  put(parent.removed, element, std::move(child.removed));
}

void compare_objects(const json::Object& old, const json::Object& now, MergeShape& shape, FieldChanges& changes) {
  const auto visit = [&](std::string_view key, const json::Value* before, const json::Value* after) {
    FieldChanges child;
    shape.enter_field(key);
    compare_part(before, after, shape, child);
    shape.leave_field();
    put(changes, field_element(key), std::move(child));
  };
  for (const json::Member& member : old) {
    if (is_owned(member, shape)) visit(member.key, &member.value, find_owned(now, member.key, shape));
  }
  for (const json::Member& member : now) {
    if (is_owned(member, shape) && find_owned(old, member.key, shape) == nullptr)
      visit(member.key, nullptr, &member.value);
  }
}

void compare_lists(const json::Array& old, const json::Array& now, MergeShape& shape, FieldChanges& changes) {
  const auto before = ListItems::of(old, shape, "");
  const auto after = ListItems::of(now, shape, "");
  if (!before.ok() || !after.ok()) {
    changes.modified.is_member = true;
    return;
  }
  const auto visit = [&](const std::string& element, const json::Value* was, const json::Value* is) {
    FieldChanges child;
    shape.enter_item();
    if (shape_is_set(*before)) {
      (is != nullptr ? child.added : child.removed).is_member = was == nullptr || is == nullptr;
    } else {
      compare_part(was, is, shape, child);
    }
    shape.leave_item();
    put(changes, element, std::move(child));
  };
  for (std::size_t i = 0; i < old.size(); ++i) {
    const auto place = after->place_of(before->elements[i]);
    visit(before->elements[i], &old[i], place ? &now[*place] : nullptr);
  }
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (!before->place_of(after->elements[i])) visit(after->elements[i], nullptr, &now[i]);
  }
}

void compare(const json::Value& old, const json::Value& now, MergeShape& shape, FieldChanges& changes) {
  if (old == now) return;
  const bool both_objects = old.is_object() && now.is_object() && !shape.is_atomic_object();
  const bool both_lists = old.is_array() && now.is_array() && shape.list() != ListMerge::Atomic;
  if (both_objects) {
    compare_objects(old.as_object(), now.as_object(), shape, changes);
  } else if (both_lists) {
    compare_lists(old.as_array(), now.as_array(), shape, changes);
  } else {
    changes.modified.is_member = true;
  }
}

void remove_parts(json::Value& value, const FieldSet& dropped, const FieldSet* owned, MergeShape& shape);

// True if the part is to go.
bool remove_part(json::Value& part, const FieldSet& dropped, const FieldSet* owned, MergeShape& shape) {
  if (!dropped.children.empty()) remove_parts(part, dropped, owned, shape);
  if (owned != nullptr && !owned->empty()) return false;
  return dropped.is_member || is_empty_container(part);
}

void remove_parts(json::Value& value, const FieldSet& dropped, const FieldSet* owned, MergeShape& shape) {
  const auto owned_below = [&](std::string_view element) { return owned == nullptr ? nullptr : owned->find(element); };
  if (value.is_object()) {
    json::Object& members = value.as_object();
    for (const auto& [element, child] : dropped.children) {
      if (!element.starts_with("f:")) continue;
      const std::string_view name = std::string_view(element).substr(2);
      json::Value* part = members.find(name);
      if (part == nullptr) continue;
      shape.enter_field(name);
      const bool goes = remove_part(*part, child, owned_below(element), shape);
      shape.leave_field();
      if (goes) members.erase(name);
    }
    return;
  }
  if (!value.is_array()) return;
  json::Array& list = value.as_array();
  const auto items = ListItems::of(list, shape, "");
  if (!items.ok()) return;
  json::Array kept;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const FieldSet* child = dropped.find(items->elements[i]);
    shape.enter_item();
    const bool goes = child != nullptr && remove_part(list[i], *child, owned_below(items->elements[i]), shape);
    shape.leave_item();
    if (!goes) kept.push_back(std::move(list[i]));
  }
  list = std::move(kept);
}

}  // namespace

Result<FieldSet> fields_of(const json::Value& object, MergeShape& shape) {
  FieldSet set;
  std::string path;
  BASALT_TRY_DONE(collect(object, shape, path, set));
  if (set.children.empty()) set.is_member = true;  // as any object without parts
  return set;
}

FieldChanges changes_between(const json::Value& old, const json::Value& now, MergeShape& shape) {
  FieldChanges changes;
  compare(old, now, shape, changes);
  return changes;
}

void remove_unowned(json::Value& object, const FieldSet& dropped, const FieldSet& owned, MergeShape& shape) {
  remove_parts(object, dropped, &owned, shape);
}

json::Value merge_configuration(const json::Value& live, const json::Value& configuration, MergeShape& shape) {
  if (live.is_object() && configuration.is_object() && !shape.is_atomic_object()) {
    json::Value merged = live;
    json::Object& members = merged.as_object();
    for (const json::Member& member : configuration.as_object()) {
      json::Value* there = members.find(member.key);
      if (there == nullptr) {
        members.set(member.key, member.value);
        continue;
      }
      shape.enter_field(member.key);
      *there = merge_configuration(*there, member.value, shape);
      shape.leave_field();
    }
    return merged;
  }
  if (!live.is_array() || !configuration.is_array() || shape.list() == ListMerge::Atomic) return configuration;
  const auto there = ListItems::of(live.as_array(), shape, "");
  const auto wanted = ListItems::of(configuration.as_array(), shape, "");
  if (!there.ok() || !wanted.ok()) return configuration;
  // What is there keeps its order as far as the configuration does not order it otherwise.
  json::Array merged;
  std::size_t next = 0;
  const auto take_live_until = [&](std::size_t end) {
    for (; next < end; ++next) {
      if (!wanted->place_of(there->elements[next])) merged.push_back(live.as_array()[next]);
    }
  };
  for (std::size_t i = 0; i < configuration.as_array().size(); ++i) {
    const json::Value& item = configuration.as_array()[i];
    const auto place = there->place_of(wanted->elements[i]);
    if (!place) {
      merged.push_back(item);
      continue;
    }
    take_live_until(*place);
    shape.enter_item();
    merged.push_back(shape_is_set(*wanted) ? item : merge_configuration(live.as_array()[*place], item, shape));
    shape.leave_item();
  }
  take_live_until(live.as_array().size());
  return merged;
}

}  // namespace basalt::apiserver
