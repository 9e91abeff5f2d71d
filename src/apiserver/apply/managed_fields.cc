#include "apiserver/apply/managed_fields.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "apiserver/apply/field_walk.h"
#include "apiserver/apply/merge_shape.h"

namespace basalt::apiserver {
namespace {

// Of managers that do not apply, so many are kept apart; the oldest are merged beyond.
constexpr std::size_t kUpdateManagersMax = 10;
constexpr std::string_view kBeforeFirstApply = "before-first-apply";
constexpr std::string_view kAncientChanges = "ancient-changes";

}  // namespace

ManagedFields ManagedFields::of(const json::Value& object) {
  ManagedFields managed;
  const json::Value* list = object.find_path({"metadata", "managedFields"});
  if (list == nullptr || !list->is_array()) return managed;
  for (const json::Value& entry : list->as_array()) {
    FieldManager manager{std::string(entry.string_at({"manager"})), entry.string_at({"operation"}) == "Apply",
                         std::string(entry.string_at({"apiVersion"})), std::string(entry.string_at({"subresource"}))};
    const json::Value* fields = entry.find("fieldsV1");
    if (fields == nullptr) continue;
    auto set = FieldSet::decode(*fields);
    if (!set.ok()) return {};
    set->is_member = false;
    managed.managers_[std::move(manager)] = Owned{std::move(*set), std::string(entry.string_at({"time"}))};
  }
  managed.drop_empty();
  return managed;
}

void ManagedFields::write_to(json::Value& object) const {
  json::Object& metadata = object.ensure_path({"metadata"}).as_object();
  if (managers_.empty()) {
    metadata.erase("managedFields");
    return;
  }
  std::vector<const std::pair<const FieldManager, Owned>*> order;
  order.reserve(managers_.size());
  for (const auto& entry : managers_) order.push_back(&entry);
  // Who applies comes first; then by time.
  std::ranges::sort(order, [](const auto* a, const auto* b) {
    if (a->first.is_apply != b->first.is_apply) return a->first.is_apply;
    return std::tie(a->second.time, a->first) < std::tie(b->second.time, b->first);
  });
  json::Array list;
  for (const auto* entry : order) {
    json::Object item{{"manager", entry->first.name},
                      {"operation", entry->first.is_apply ? "Apply" : "Update"},
                      {"apiVersion", entry->first.api_version},
                      {"fieldsType", "FieldsV1"},
                      {"fieldsV1", entry->second.fields.encode()}};
    if (!entry->second.time.empty()) item.set("time", entry->second.time);
    if (!entry->first.subresource.empty()) item.set("subresource", entry->first.subresource);
    list.emplace_back(std::move(item));
  }
  metadata.set("managedFields", std::move(list));
}

void ManagedFields::drop_empty() {
  std::erase_if(managers_, [](const auto& entry) { return entry.second.fields.empty(); });
}

void ManagedFields::merge_oldest() {
  for (;;) {
    std::vector<std::pair<std::string, FieldManager>> updates;
    for (const auto& [manager, owned] : managers_) {
      if (!manager.is_apply) updates.emplace_back(owned.time, manager);
    }
    if (updates.size() <= kUpdateManagersMax) return;
    std::ranges::sort(updates);
    Owned merged = managers_[updates[0].second];
    merged.fields.add(managers_[updates[1].second].fields);
    merged.time = updates[1].first;
    const FieldManager ancient{std::string(kAncientChanges), false, updates[0].second.api_version, ""};
    managers_.erase(updates[0].second);
    managers_.erase(updates[1].second);
    merged.fields.add(managers_[ancient].fields);
    managers_[ancient] = std::move(merged);
  }
}

void ManagedFields::claim_all(const json::Value& object, const ResourceType& type, std::string_view now) {
  MergeShape shape(type);
  auto fields = fields_of(object, shape);
  if (!fields.ok()) return;
  managers_[FieldManager{std::string(kBeforeFirstApply), false, type.api_version(), ""}] =
      Owned{std::move(*fields), std::string(now)};
  drop_empty();
}

void ManagedFields::record_write(const json::Value& old, const json::Value& now_object, const ResourceType& type,
                                 const FieldManager& manager, std::string_view now) {
  MergeShape shape(type);
  FieldChanges changes = changes_between(old, now_object, shape);
  if (changes.empty()) return;
  FieldSet taken = std::move(changes.added);
  taken.add(std::move(changes.modified));
  for (auto& [other, owned] : managers_) {
    if (other == manager) continue;
    owned.fields.subtract(taken);
    owned.fields.subtract(changes.removed);
  }
  Owned& mine = managers_[manager];
  FieldSet fields = mine.fields;
  fields.subtract(changes.removed);
  fields.add(std::move(taken));
  fields.is_member = false;
  if (fields != mine.fields || mine.time.empty()) mine.time = now;
  mine.fields = std::move(fields);
  drop_empty();
  merge_oldest();
}

Result<ManagedFields::Applied> ManagedFields::apply(const json::Value& live, const json::Value& configuration,
                                                    const ResourceType& type, const FieldManager& manager, bool force,
                                                    std::string_view now) {
  MergeShape shape(type);
  BASALT_TRY(FieldSet wanted, fields_of(configuration, shape));
  wanted.is_member = false;
  json::Value merged = merge_configuration(live, configuration, shape);

  const auto mine = managers_.find(manager);
  const FieldSet last = mine == managers_.end() ? FieldSet() : mine->second.fields;
  FieldSet owned = wanted;
  for (const auto& [other, theirs] : managers_) {
    if (other != manager) owned.add(theirs.fields);
  }
  remove_unowned(merged, last, owned, shape);

  FieldChanges changes = changes_between(live, merged, shape);
  FieldSet taken = std::move(changes.added);
  taken.add(std::move(changes.modified));
  Applied applied;
  for (const auto& [other, theirs] : managers_) {
    if (other == manager) continue;
    FieldSet contested = theirs.fields.intersection(taken);
    if (!contested.empty()) applied.conflicts.push_back({other, contested.paths()});
  }
  if (!applied.conflicts.empty() && !force) return applied;
  applied.conflicts.clear();
  for (auto& [other, theirs] : managers_) {
    if (other == manager) continue;
    theirs.fields.subtract(taken);
    theirs.fields.subtract(changes.removed);
  }
  Owned& entry = managers_[manager];
  if (entry.fields != wanted || entry.time.empty()) entry.time = now;
  entry.fields = std::move(wanted);
  drop_empty();
  applied.object = std::move(merged);
  return applied;
}

}  // namespace basalt::apiserver
