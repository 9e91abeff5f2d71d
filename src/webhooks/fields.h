#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/quantity.h"
#include "base/error.h"
#include "json/value.h"

// What the rules share: reading members that may be absent or of the wrong type (the schema refuses those), naming the
// place of a value, and collecting complaints about it.

namespace basalt::webhooks {

struct ReviewAnswer;

// spec.tasks[0].name as a chain of stack frames that becomes text only for a complaint. Refers to its parent, which
// must outlive it: that is why a temporary has no children.
class Path {
 public:
  constexpr explicit Path(std::string_view root) : name_(root) {}
  [[nodiscard]] constexpr Path child(std::string_view name) const& { return {this, name, kMember}; }
  [[nodiscard]] constexpr Path key(std::string_view name) const& { return {this, name, kKey}; }
  [[nodiscard]] constexpr Path index(std::size_t index) const& { return {this, {}, index}; }
  Path child(std::string_view name) const&& = delete;
  Path key(std::string_view name) const&& = delete;
  Path index(std::size_t index) const&& = delete;
  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::string text(std::string_view member) const;

 private:
  static constexpr std::size_t kMember = static_cast<std::size_t>(-1);
  static constexpr std::size_t kKey = static_cast<std::size_t>(-2);
  constexpr Path(const Path* parent, std::string_view name, std::size_t index)
      : parent_(parent), name_(name), index_(index) {}
  void append_to(std::string& out) const;

  const Path* parent_ = nullptr;
  std::string_view name_;
  std::size_t index_ = kMember;
};

// Members of an object. Null, a wrong type and absence are all the same: nothing.
[[nodiscard]] const json::Value* member(const json::Value& object, std::string_view name);
[[nodiscard]] std::string_view text_at(const json::Value& object, std::string_view name);
[[nodiscard]] std::optional<std::int64_t> int_at(const json::Value& object, std::string_view name);  // 2.0 is 2
[[nodiscard]] bool flag_at(const json::Value& object, std::string_view name);
[[nodiscard]] const json::Array& list_at(const json::Value& object, std::string_view name);
[[nodiscard]] const json::Object& map_at(const json::Value& object, std::string_view name);
[[nodiscard]] const json::Value& spec_of(const json::Value& object);  // an empty object if there is none
// As Kubernetes takes it: a string or a number.
[[nodiscard]] Result<api::Quantity> quantity_of(const json::Value& value);
// The name, or what stands for it where the server will make one from generateName.
[[nodiscard]] std::string name_of(const json::Value& object);

// A value for a message: quoted and at most this long.
inline constexpr std::size_t kShownBytesMax = 120;
[[nodiscard]] std::string shown(std::string_view text);
[[nodiscard]] inline std::string shown(const std::string& text) { return shown(std::string_view(text)); }
[[nodiscard]] std::string shown(const json::Value& value);

// What is wrong with one object. Holds at most kMax complaints and counts the rest.
class Problems {
 public:
  static constexpr std::size_t kMax = 30;  // nobody reads more; the answer stays small

  // `field` may be empty. Types are Kubernetes' (FieldValueInvalid, FieldValueRequired, ...).
  void add(std::string field, std::string message, std::string_view type = "FieldValueInvalid");
  // In Kubernetes' words: `<field>: Invalid value: <value>: <rule>` and its like.
  void invalid(std::string field, std::string value, std::string_view rule);
  void invalid(std::string field, std::string_view value, std::span<const std::string> rules);
  void required(std::string field, std::string_view what = {});
  void duplicate(std::string field, std::string_view value);
  void forbidden(std::string field, std::string_view rule);
  void not_found(std::string field, std::string_view value, std::span<const std::string_view> candidates);
  // "" counts as absent and passes; else it must be one of those.
  void one_of(std::string field, std::string_view value, std::span<const std::string_view> allowed);
  void too_many(std::string field, std::size_t count, std::size_t max);

  [[nodiscard]] bool empty() const { return causes_.empty(); }
  [[nodiscard]] bool is_full() const { return causes_.size() >= kMax; }
  [[nodiscard]] const std::vector<Cause>& causes() const { return causes_; }
  // All of them in one line: "a; b; and 3 more problems".
  [[nodiscard]] std::string text(std::string_view separator = "; ") const;
  // Denies if there is any.
  void deny_if_any(ReviewAnswer& answer) const;

 private:
  std::vector<Cause> causes_;
  std::size_t dropped_ = 0;
};

// JSON patch operations.
[[nodiscard]] json::Value add_operation(std::string path, json::Value value);
// Where the member is absent or null an empty object is added first, so that what follows has a place.
void ensure_object(const json::Value& object, std::string_view name, json::Array& patch);

}  // namespace basalt::webhooks
