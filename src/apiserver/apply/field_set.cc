#include "apiserver/apply/field_set.h"

#include <utility>

#include "base/strings.h"

namespace basalt::apiserver {
namespace {

// Drops branches without members.
void tidy(FieldSet& set) {
  for (auto at = set.children.begin(); at != set.children.end();) {
    at = at->second.empty() ? set.children.erase(at) : std::next(at);
  }
}

// `[name="a",protocol="TCP"]`
std::string shown_keys(std::string_view text) {
  const auto keys = json::Value::parse(text);
  if (!keys.ok() || !keys->is_object()) return "[" + std::string(text) + "]";
  std::string shown = "[";
  for (const json::Member& member : keys->as_object()) {
    if (shown.size() > 1) shown += ",";
    shown += member.key + "=" + member.value.to_text();
  }
  return shown + "]";
}

std::string shown_element(std::string_view element) {
  const std::string_view rest = element.substr(2);
  if (element.starts_with("f:")) return "." + std::string(rest);
  if (element.starts_with("k:")) return shown_keys(rest);
  return (element.starts_with("v:") ? "[=" : "[") + std::string(rest) + "]";
}

void collect_paths(const FieldSet& set, const std::string& path, std::vector<std::string>& out) {
  if (set.is_member && !path.empty()) out.push_back(path);
  for (const auto& [element, child] : set.children) collect_paths(child, path + shown_element(element), out);
}

bool is_element(std::string_view text) {
  return text.starts_with("f:") || text.starts_with("k:") || text.starts_with("v:") || text.starts_with("i:");
}

}  // namespace

const FieldSet* FieldSet::find(std::string_view element) const {
  const auto found = children.find(element);
  return found == children.end() ? nullptr : &found->second;
}

void FieldSet::add(const FieldSet& other) {
  is_member = is_member || other.is_member;
  for (const auto& [element, child] : other.children) children[element].add(child);
}

void FieldSet::add(FieldSet&& other) {
  is_member = is_member || other.is_member;
  if (children.empty()) {
    children = std::move(other.children);
    return;
  }
  // Takes over whole branches that are not here, without a copy.
  children.merge(other.children);
  for (auto& [element, child] : other.children) children[element].add(std::move(child));
}

void FieldSet::subtract(const FieldSet& other) {
  if (other.is_member) is_member = false;
  for (const auto& [element, child] : other.children) {
    if (const auto mine = children.find(element); mine != children.end()) mine->second.subtract(child);
  }
  tidy(*this);
}

FieldSet FieldSet::intersection(const FieldSet& other) const {
  FieldSet both;
  both.is_member = is_member && other.is_member;
  for (const auto& [element, child] : children) {
    const FieldSet* theirs = other.find(element);
    if (theirs == nullptr) continue;
    FieldSet common = child.intersection(*theirs);
    if (!common.empty()) both.children.emplace(element, std::move(common));
  }
  return both;
}

std::vector<std::string> FieldSet::paths() const {
  std::vector<std::string> out;
  collect_paths(*this, "", out);
  return out;
}

json::Value FieldSet::encode() const {
  // In order as they come: "." stands before everything that begins with a letter.
  std::vector<json::Member> fields;
  fields.reserve(children.size() + 1);
  if (is_member && !children.empty()) fields.push_back({".", json::Object()});
  for (const auto& [element, child] : children) fields.push_back({element, child.encode()});
  return json::Object::of_sorted(std::move(fields));
}

Result<FieldSet> FieldSet::decode(const json::Value& fields) {
  if (!fields.is_object()) return Error::invalid_input("fieldsV1 is " + std::string(fields.type_name()));
  FieldSet set;
  for (const json::Member& member : fields.as_object()) {
    if (member.key == ".") {
      set.is_member = true;
      continue;
    }
    if (!is_element(member.key))
      return Error::invalid_input("fieldsV1 has the element " + base::quote(member.key) + ", which is none");
    BASALT_TRY(FieldSet child, decode(member.value));
    if (child.children.empty()) child.is_member = true;
    set.children.emplace(member.key, std::move(child));
  }
  return set;
}

}  // namespace basalt::apiserver
