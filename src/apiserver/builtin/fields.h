#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/registry/errors.h"
#include "apiserver/registry/resource_type.h"
#include "json/value.h"

// What the strategies of built-in kinds share: reading members that may be absent or of the wrong type, and complaining
// about them with the path and the words that Kubernetes uses.

namespace basalt::apiserver {

// Where a value stands in an object: spec.containers[0].name. A chain of stack frames that is turned into text only
// for a complaint, so valid objects pay nothing for it. A path refers to its parent, which must outlive it: that is why
// a temporary has no children.
class FieldPath {
 public:
  constexpr explicit FieldPath(std::string_view root) : name_(root) {}
  [[nodiscard]] constexpr FieldPath child(std::string_view name) const& { return {this, name, kMember}; }
  [[nodiscard]] constexpr FieldPath key(std::string_view name) const& { return {this, name, kKey}; }
  [[nodiscard]] constexpr FieldPath index(std::size_t index) const& { return {this, {}, index}; }
  FieldPath child(std::string_view name) const&& = delete;
  FieldPath key(std::string_view name) const&& = delete;
  FieldPath index(std::size_t index) const&& = delete;

  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::string text(std::string_view member) const;  // of a member below

 private:
  static constexpr std::size_t kMember = static_cast<std::size_t>(-1);
  static constexpr std::size_t kKey = static_cast<std::size_t>(-2);
  constexpr FieldPath(const FieldPath* parent, std::string_view name, std::size_t index)
      : parent_(parent), name_(name), index_(index) {}
  void append_to(std::string& out) const;

  const FieldPath* parent_ = nullptr;
  std::string_view name_;
  std::size_t index_ = kMember;
};

// Members of an object. Null, a wrong type and absence are all the same: nothing.
[[nodiscard]] const json::Value* member(const json::Value& object, std::string_view name);
[[nodiscard]] std::string_view text_at(const json::Value& object, std::string_view name);
[[nodiscard]] std::optional<std::int64_t> int_at(const json::Value& object, std::string_view name);
[[nodiscard]] bool flag_at(const json::Value& object, std::string_view name);
[[nodiscard]] const json::Array& list_at(const json::Value& object, std::string_view name);
[[nodiscard]] const json::Object& map_at(const json::Value& object, std::string_view name);
[[nodiscard]] json::Array* mutable_list(json::Value& object, std::string_view name);
[[nodiscard]] json::Object* mutable_map(json::Value& object, std::string_view name);
// The same further down.
[[nodiscard]] const json::Array& list_at(const json::Value& object, std::initializer_list<std::string_view> path);
[[nodiscard]] const json::Object& map_at(const json::Value& object, std::initializer_list<std::string_view> path);
[[nodiscard]] std::int64_t int_at(const json::Value& object, std::initializer_list<std::string_view> path);

// Sets what is absent or null. For text also what is empty, which the wire does not tell from absent.
void set_default(json::Object& object, std::string_view name, json::Value value);
void set_default_text(json::Object& object, std::string_view name, std::string_view value);
// For numbers that count as unset when zero.
void set_default_int(json::Object& object, std::string_view name, std::int64_t value);
// The member as an object, made if absent; null if it is something else.
json::Object* ensure_map(json::Object& object, std::string_view name);

// Removes what a round through Kubernetes' types would not keep: nulls, empty lists, and empty maps of the names that
// are maps and not objects with optional members ("labels", "nodeSelector", "limits", ...).
void drop_empty(json::Value& value);

// Makes the quantities of a resource list what they are after a round through resource.Quantity: canonical text.
// What is no quantity stays, for validation to refuse.
void normalise_quantities(json::Object& list);
// True for texts like "2", "500m" and "16Gi", which are canonical for sure; most others are not known without parsing.
[[nodiscard]] bool is_plain_quantity(std::string_view text);

// Complaints.
void add_invalid(Causes& causes, std::string field, std::string_view value, std::span<const std::string> complaints);
[[nodiscard]] Cause not_found_value(std::string field, std::string_view value);
[[nodiscard]] Cause immutable_field(std::string field, const json::Value* value);
void check_dns_label(std::string_view value, const FieldPath& path, Causes& causes);
void check_dns_subdomain(std::string_view value, const FieldPath& path, Causes& causes);
void check_qualified_name(std::string_view value, const FieldPath& path, Causes& causes);
void check_label_value(std::string_view value, const FieldPath& path, Causes& causes);
void check_port(std::int64_t port, const FieldPath& path, Causes& causes);
// A port number or the name of one, as in probes and services.
void check_port_or_name(const json::Value* port, const FieldPath& path, Causes& causes);
void check_not_negative(const json::Value& object, std::string_view name, const FieldPath& path, Causes& causes);
// "" is a missing value, everything else must be one of those allowed.
void check_one_of(std::string_view value, const FieldPath& path, std::span<const std::string_view> allowed,
                  Causes& causes);
// Keys and values of a map that is used to select by labels.
void check_label_map(const json::Object& labels, const FieldPath& path, Causes& causes);
void check_label_selector(const json::Value& selector, const FieldPath& path, Causes& causes);
// Whether the object's member differs from the old one's; absent and null are equal.
[[nodiscard]] bool differs(const json::Value& object, const json::Value& old,
                           std::initializer_list<std::string_view> path);
// Complains if it does.
void check_immutable(const json::Value& object, const json::Value& old, std::initializer_list<std::string_view> path,
                     Causes& causes);

// Cells.
[[nodiscard]] std::string label_text(const json::Object& labels);  // "a=b,c=d", "<none>"
// A label selector as kubectl shows it: "a=b,c in (d)", "<none>"
[[nodiscard]] std::string selector_cell(const json::Value* selector);
[[nodiscard]] std::string or_none(std::string_view text);
[[nodiscard]] json::Value age_of(const json::Value& object, api::Time now);
[[nodiscard]] PrinterColumn name_column();
[[nodiscard]] PrinterColumn age_column();
[[nodiscard]] PrinterColumn column(std::string_view name, std::string_view type, std::string_view description,
                                   std::int32_t priority = 0);

}  // namespace basalt::apiserver
