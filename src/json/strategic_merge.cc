#include "json/strategic_merge.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace basalt::json {
namespace {

constexpr std::string_view kPatch = "$patch";
constexpr std::string_view kRetainKeys = "$retainKeys";
constexpr std::string_view kSetElementOrder = "$setElementOrder/";
constexpr std::string_view kDeleteFromPrimitiveList = "$deleteFromPrimitiveList/";

bool is_directive(std::string_view key) {
  return key == kPatch || key == kRetainKeys || key.starts_with(kSetElementOrder) ||
         key.starts_with(kDeleteFromPrimitiveList);
}

bool has_directives(const Object& patch) {
  return std::any_of(patch.begin(), patch.end(), [](const Member& member) { return is_directive(member.key); });
}

// Only a scalar identifies an element: an object could be changed by the very patch that names it.
bool has_identity(const Value& element, std::string_view merge_key) {
  const Value* const member = element.find(merge_key);
  return member != nullptr && !member->is_null() && !member->is_object() && !member->is_array();
}

bool is_list_of_objects(const Array& list) { return !list.empty() && list.front().is_object(); }

// A patch's value where there is nothing to merge it with: without null members, and without directives (what is only
// there to be deleted, or to say that a list is replaced, goes as a whole).
Value cleaned(const Value& value) {
  if (value.is_array()) {
    Array array;
    array.reserve(value.as_array().size());
    for (const Value& element : value.as_array()) {
      const Value* const directive = element.find(kPatch);
      if (directive == nullptr || *directive == Value("merge")) array.push_back(cleaned(element));
    }
    return array;
  }
  if (!value.is_object()) return value;
  std::vector<Member> members;
  for (const Member& member : value.as_object()) {
    if (member.value.is_null() || is_directive(member.key)) continue;
    const Value* const directive = member.value.find(kPatch);
    if (directive != nullptr && *directive == Value("delete")) continue;
    members.push_back({member.key, cleaned(member.value)});
  }
  return Object::of_sorted(std::move(members));
}

// Positions of list elements by the text of their identity (merge key value, or the scalar itself).
using Positions = std::map<std::string, std::size_t, std::less<>>;

// Walks live value and patch together. Recursion is bounded by the depth of the two.
class Merger {
 public:
  explicit Merger(const StrategicSchema& schema) : schema_(schema) {}

  Result<Value> merge_objects(Object live, const Object& patch) {
    bool keep_live = true;
    if (const Value* const directive = patch.find(kPatch)) {
      if (*directive == Value("delete")) return Value(Object());
      if (*directive == Value("replace")) {
        keep_live = false;
      } else if (!(*directive == Value("merge"))) {
        return bad("$patch must be replace, delete or merge");
      }
    }
    if (!keep_live) return cleaned(Value(patch));
    BASALT_TRY_DONE(retain_keys(live, patch));

    // One walk over the two sorted lists of members.
    std::vector<Member> merged;
    merged.reserve(live.size() + patch.size());
    const bool directives = has_directives(patch);
    auto old = live.begin();
    auto change = patch.begin();
    while (old != live.end() || change != patch.end()) {
      if (change != patch.end() && is_directive(change->key)) {
        ++change;
        continue;
      }
      const bool takes_old = old != live.end() && (change == patch.end() || old->key <= change->key);
      const bool takes_change = change != patch.end() && (old == live.end() || change->key <= old->key);
      const std::string key = takes_old ? old->key : change->key;
      std::optional<Value> value;
      if (takes_old) value = std::move((old++)->value);
      const Value* const wanted = takes_change ? &(change++)->value : nullptr;
      if (wanted != nullptr || directives) {
        BASALT_TRY(value, merge_field(key, std::move(value), wanted, patch));
      }
      if (value) merged.push_back({key, *std::move(value)});
    }
    return Value(Object::of_sorted(std::move(merged)));
  }

 private:
  // Keeps path_ while a field is worked on.
  class Step {
   public:
    Step(Merger& merger, std::string_view name) : merger_(merger) { merger_.path_.push_back(name); }
    ~Step() { merger_.path_.pop_back(); }
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;

   private:
    Merger& merger_;
  };

  [[nodiscard]] Error bad(std::string_view message) const {
    std::string text;
    for (const std::string_view name : path_) text.append(text.empty() ? "" : ".").append(name);
    if (!text.empty()) text += ": ";
    return Error::make(Reason::BadRequest, text.append(message));
  }

  // Drops live members that the list does not name; the patch may only set what it names.
  Done retain_keys(Object& live, const Object& patch) const {
    const Value* const directive = patch.find(kRetainKeys);
    if (directive == nullptr) return Ok{};
    if (!directive->is_array()) return bad("$retainKeys must be a list of field names");
    std::vector<std::string_view> names;
    for (const Value& name : directive->as_array()) {
      if (!name.is_string()) return bad("$retainKeys must be a list of field names");
      names.push_back(name.as_string());
    }
    std::sort(names.begin(), names.end());
    const auto is_retained = [&names](std::string_view key) {
      return std::binary_search(names.begin(), names.end(), key);
    };
    for (const Member& member : patch) {
      if (!member.value.is_null() && !is_directive(member.key) && !is_retained(member.key)) {
        return bad("$retainKeys does not name \"" + member.key + "\", which the patch sets");
      }
    }
    live.erase_if([&is_retained](const Member& member) { return !is_retained(member.key); });
    return Ok{};
  }

  // One field; `wanted` is null if the patch does not name it. `patch` holds the directives about it. Nothing if the
  // field is absent afterwards.
  Result<std::optional<Value>> merge_field(const std::string& key, std::optional<Value> live, const Value* wanted,
                                           const Object& patch) {
    const Step step(*this, key);
    const Value* const order = patch.find(std::string(kSetElementOrder) + key);
    const Value* const deletions = patch.find(std::string(kDeleteFromPrimitiveList) + key);
    if (wanted != nullptr && wanted->is_null()) return std::optional<Value>();

    if (deletions != nullptr && live) {
      if (!deletions->is_array()) return bad("$deleteFromPrimitiveList must be a list");
      if (live->is_array() && !is_list_of_objects(live->as_array())) {
        const Positions gone = positions_of(deletions->as_array(), "");
        std::erase_if(live->as_array(), [&gone](const Value& element) { return gone.contains(element.to_text()); });
      }
    }

    const FieldStrategy strategy = schema_.strategy_of(path_);
    if (wanted != nullptr) {
      BASALT_TRY(live, merge_values(std::move(live), *wanted, strategy));
    }
    if (order != nullptr && live) {
      BASALT_TRY_DONE(check_order(*order, wanted, strategy));
      BASALT_TRY(live, ordered(*std::move(live), order->as_array(), strategy));
    }
    return live;
  }

  Result<std::optional<Value>> merge_values(std::optional<Value> live, const Value& wanted,
                                            const FieldStrategy& strategy) {
    if (live && live->is_object() && wanted.is_object()) {
      if (strategy.kind == FieldStrategy::Kind::Replace) return std::optional(cleaned(wanted));
      BASALT_TRY(Value merged, merge_objects(std::move(live->as_object()), wanted.as_object()));
      return std::optional(std::move(merged));
    }
    if (live && live->is_array() && wanted.is_array()) {
      if (strategy.kind == FieldStrategy::Kind::MergeByKey) {
        BASALT_TRY(Array merged, merge_keyed_lists(std::move(live->as_array()), wanted.as_array(), strategy.merge_key));
        return std::optional<Value>(std::move(merged));
      }
      if (strategy.kind == FieldStrategy::Kind::MergePrimitives) {
        BASALT_TRY(Array merged, merge_sets(live->as_array(), wanted.as_array()));
        return std::optional<Value>(std::move(merged));
      }
    }
    // Nothing to merge with.
    if (const Value* const directive = wanted.find(kPatch); directive != nullptr && *directive == Value("delete")) {
      return std::optional<Value>();
    }
    return std::optional(cleaned(wanted));
  }

  Result<Array> merge_sets(const Array& live, const Array& wanted) const {
    Positions known;
    Array merged;
    for (const Array* const list : {&live, &wanted}) {
      for (const Value& element : *list) {
        if (element.is_object() || element.is_array()) return bad("an element is no scalar");
        if (known.emplace(element.to_text(), merged.size()).second) merged.push_back(element);
      }
    }
    return interleave(std::move(merged), positions_of(wanted, ""), positions_of(live, ""), "");
  }

  Result<Array> merge_keyed_lists(Array live, const Array& wanted, std::string_view merge_key) {
    bool replaces = false;
    Positions deleted;
    std::vector<const Value*> changes;
    for (const Value& element : wanted) {
      if (!element.is_object()) return bad("an element of the patch is no object");
      const Value* const directive = element.find(kPatch);
      if (directive != nullptr && *directive == Value("replace")) {
        replaces = true;
        continue;
      }
      if (!has_identity(element, merge_key)) {
        return bad("an element of the patch lacks the merge key \"" + std::string(merge_key) + "\"");
      }
      if (directive == nullptr || *directive == Value("merge")) {
        changes.push_back(&element);
      } else if (*directive == Value("delete")) {
        deleted.emplace(element.find(merge_key)->to_text(), 0);
      } else {
        return bad("$patch must be replace, delete or merge");
      }
    }
    if (replaces) {
      live.clear();
      deleted.clear();
    }
    for (const Value& element : live) {
      if (!has_identity(element, merge_key)) {
        return bad("an element of the live list lacks the merge key \"" + std::string(merge_key) + "\"");
      }
    }
    std::erase_if(live, [&](const Value& element) { return deleted.contains(element.find(merge_key)->to_text()); });

    const Positions live_order = positions_of(live, merge_key);
    Positions places = live_order;  // grows as elements are added
    Array merged = std::move(live);
    Positions patch_order;
    for (const Value* const change : changes) {
      const std::string identity = change->find(merge_key)->to_text();
      patch_order.emplace(identity, patch_order.size());
      const auto [place, is_new] = places.emplace(identity, merged.size());
      if (is_new) {
        merged.push_back(cleaned(*change));
        continue;
      }
      Value& target = merged[place->second];
      BASALT_TRY(target, merge_objects(std::move(target.as_object()), change->as_object()));
    }
    return interleave(std::move(merged), patch_order, live_order, merge_key);
  }

  // $setElementOrder must agree with the list of the patch: each of its elements is named, in the same order.
  Done check_order(const Value& order, const Value* wanted, const FieldStrategy& strategy) const {
    if (!order.is_array()) return bad("$setElementOrder must be a list");
    const bool is_keyed = strategy.kind == FieldStrategy::Kind::MergeByKey;
    if (!is_keyed && strategy.kind != FieldStrategy::Kind::MergePrimitives) {
      return bad("$setElementOrder names a list that is not merged");
    }
    if (is_keyed) {
      for (const Value& element : order.as_array()) {
        if (!has_identity(element, strategy.merge_key)) {
          return bad("$setElementOrder lacks the merge key \"" + std::string(strategy.merge_key) + "\"");
        }
      }
    }
    if (wanted == nullptr || !wanted->is_array() || order.as_array().empty()) return Ok{};
    const Positions positions = positions_of(order.as_array(), is_keyed ? strategy.merge_key : "");
    std::size_t least = 0;
    for (const Value& element : wanted->as_array()) {
      if (is_keyed && element.find(kPatch) != nullptr) continue;
      const auto place = positions.find(identity_of(element, is_keyed ? strategy.merge_key : ""));
      if (place == positions.end() || place->second < least) {
        return bad("$setElementOrder does not agree with the order of the patch's list");
      }
      least = place->second;
    }
    return Ok{};
  }

  Result<std::optional<Value>> ordered(Value live, const Array& order, const FieldStrategy& strategy) const {
    if (!live.is_array()) return std::optional(std::move(live));
    const bool is_keyed = strategy.kind == FieldStrategy::Kind::MergeByKey;
    const std::string_view merge_key = is_keyed ? strategy.merge_key : "";
    if (is_keyed) {
      for (const Value& element : live.as_array()) {
        if (!has_identity(element, merge_key)) {
          return bad("an element of the live list lacks the merge key \"" + std::string(merge_key) + "\"");
        }
      }
    }
    const Positions live_order = positions_of(live.as_array(), merge_key);
    return std::optional<Value>(
        interleave(std::move(live.as_array()), positions_of(order, merge_key), live_order, merge_key));
  }

  static std::string identity_of(const Value& element, std::string_view merge_key) {
    if (merge_key.empty()) return element.to_text();
    const Value* const value = element.find(merge_key);
    return value != nullptr ? value->to_text() : std::string();
  }

  static Positions positions_of(const Array& list, std::string_view merge_key) {
    Positions positions;
    for (std::size_t i = 0; i < list.size(); ++i) positions.emplace(identity_of(list[i], merge_key), i);
    return positions;
  }

  // Elements that `first` names come in its order, the others in the order of `live`. An other one goes before the next
  // named one only if it stood before it in the live list.
  static Array interleave(Array list, const Positions& first, const Positions& live, std::string_view merge_key) {
    struct Item {
      Value* value;
      std::size_t rank;
      std::optional<std::size_t> live_rank;
    };
    std::vector<Item> named;
    std::vector<Item> others;
    for (Value& element : list) {
      const std::string identity = identity_of(element, merge_key);
      const auto live_place = live.find(identity);
      const auto live_rank = live_place != live.end() ? std::optional(live_place->second) : std::nullopt;
      if (const auto place = first.find(identity); place != first.end()) {
        named.push_back({&element, place->second, live_rank});
      } else {
        others.push_back({&element, live_rank.value_or(list.size()), live_rank});
      }
    }
    // Elements of equal rank keep their order in the list.
    const auto by_rank = [](const Item& a, const Item& b) {
      return a.rank != b.rank ? a.rank < b.rank : a.value < b.value;
    };
    std::sort(named.begin(), named.end(), by_rank);
    std::sort(others.begin(), others.end(), by_rank);
    Array merged;
    merged.reserve(list.size());
    auto other = others.begin();
    for (const Item& item : named) {
      while (other != others.end() && item.live_rank && other->live_rank && *other->live_rank < *item.live_rank) {
        merged.push_back(std::move(*(other++)->value));
      }
      merged.push_back(std::move(*item.value));
    }
    for (; other != others.end(); ++other) merged.push_back(std::move(*other->value));
    return merged;
  }

  const StrategicSchema& schema_;
  std::vector<std::string_view> path_;
};

}  // namespace

Result<Value> apply_strategic_merge(Value live, const Value& patch, const StrategicSchema& schema) {
  if (!patch.is_object()) return Error::make(Reason::BadRequest, "a strategic merge patch must be an object");
  Object before = live.is_object() ? std::move(live.as_object()) : Object();
  return Merger(schema).merge_objects(std::move(before), patch.as_object());
}

}  // namespace basalt::json
