#include "json/merge_patch.h"

#include <utility>

namespace basalt::json {

Value apply_merge_patch(Value target, const Value& patch) {
  if (!patch.is_object()) return patch;
  Object before = target.is_object() ? std::move(target.as_object()) : Object();
  std::vector<Member> merged;
  merged.reserve(before.size() + patch.as_object().size());
  // Both are sorted: one walk over the two, so that many new keys cost no more than their number.
  auto old = before.begin();
  for (const Member& change : patch.as_object()) {
    while (old != before.end() && old->key < change.key) merged.push_back(std::move(*old++));
    Value current;
    if (old != before.end() && old->key == change.key) current = std::move((old++)->value);
    if (!change.value.is_null()) {
      merged.push_back({change.key, apply_merge_patch(std::move(current), change.value)});
    }
  }
  while (old != before.end()) merged.push_back(std::move(*old++));
  return Object::of_sorted(std::move(merged));
}

Value make_merge_patch(const Value& before, const Value& after) {
  if (!before.is_object() || !after.is_object()) return after;
  std::vector<Member> patch;
  const Object& old = before.as_object();
  auto at = old.begin();
  for (const Member& member : after.as_object()) {
    if (member.value.is_null()) continue;
    for (; at != old.end() && at->key < member.key; ++at) patch.push_back({at->key, nullptr});
    if (at == old.end() || at->key != member.key) {
      patch.push_back(member);
      continue;
    }
    const Value& previous = (at++)->value;
    if (previous == member.value) continue;
    patch.push_back({member.key, make_merge_patch(previous, member.value)});
  }
  for (; at != old.end(); ++at) patch.push_back({at->key, nullptr});
  return Object::of_sorted(std::move(patch));
}

}  // namespace basalt::json
