#include "apiserver/crd/json_path.h"

#include "base/strings.h"

namespace basalt::apiserver {
namespace {

constexpr std::size_t kStepsMax = 32;
constexpr std::size_t kResultsMax = 1000;

Error bad_path(std::string_view text, std::string_view why) {
  return Error::make(Reason::Invalid, "JSON path " + base::quote(text) + ": " + std::string(why));
}

std::string_view unquoted(std::string_view text) {
  if (text.size() >= 2 && (text.front() == '\'' || text.front() == '"') && text.back() == text.front()) {
    return text.substr(1, text.size() - 2);
  }
  return text;
}

}  // namespace

Result<std::size_t> JsonPath::parse_bracket(std::string_view text, std::size_t at, Step& step) {
  const std::size_t end = text.find(']', at);
  if (end == std::string_view::npos) return bad_path(text, "a bracket is not closed");
  const std::string_view inside = base::trim(text.substr(at + 1, end - at - 1));
  if (inside == "*") {
    step.kind = Step::Kind::All;
  } else if (const auto index = base::parse_int64(inside)) {
    step.kind = Step::Kind::Index;
    step.index = *index;
  } else if (inside.starts_with("?(") && inside.ends_with(")")) {
    const std::string_view test = inside.substr(2, inside.size() - 3);
    const std::size_t equals = test.find("==");
    const std::string_view left = base::trim(test.substr(0, equals));
    if (equals == std::string_view::npos || !left.starts_with("@.")) {
      return bad_path(text, "only filters of the form [?(@.member==\"value\")] are understood");
    }
    step.kind = Step::Kind::Filter;
    for (const std::string_view part : base::split(left.substr(2), '.')) step.path.emplace_back(part);
    const std::string_view right = base::trim(test.substr(equals + 2));
    if (right != unquoted(right)) {
      step.equals = json::Value(unquoted(right));
    } else {
      auto value = json::Value::parse(right);
      if (!value.ok()) return bad_path(text, "the value of a filter is neither quoted nor JSON");
      step.equals = std::move(*value);
    }
  } else if (inside != unquoted(inside)) {
    step.name = std::string(unquoted(inside));
  } else {
    return bad_path(text, "a bracket holds neither an index, *, a filter nor a quoted name");
  }
  return end + 1;
}

Result<JsonPath> JsonPath::parse(std::string_view text) {
  std::string_view rest = text;
  if (rest.starts_with("{") && rest.ends_with("}")) rest = rest.substr(1, rest.size() - 2);
  if (rest.starts_with("$")) rest = rest.substr(1);
  JsonPath path;
  std::size_t at = 0;
  while (at < rest.size()) {
    if (path.steps_.size() >= kStepsMax) return bad_path(text, "too many steps");
    Step step;
    if (rest[at] == '[') {
      BASALT_TRY(at, parse_bracket(rest, at, step));
    } else if (rest[at] == '.') {
      ++at;
      if (at < rest.size() && rest[at] == '[') continue;
      while (at < rest.size() && rest[at] != '.' && rest[at] != '[') {
        if (rest[at] == '\\' && at + 1 < rest.size()) ++at;
        step.name.push_back(rest[at++]);
      }
      if (step.name.empty()) return bad_path(text, "a name is missing");
      if (step.name == "*") step.kind = Step::Kind::All;
    } else {
      return bad_path(text, "it must start with a dot");
    }
    path.steps_.push_back(std::move(step));
  }
  if (path.steps_.empty()) return bad_path(text, "it is empty");
  return path;
}

void JsonPath::apply(const Step& step, const json::Value& value, std::vector<const json::Value*>& out) {
  switch (step.kind) {
    case Step::Kind::Member:
      if (const json::Value* member = value.find(step.name)) out.push_back(member);
      return;
    case Step::Kind::Index: {
      if (!value.is_array()) return;
      const auto size = static_cast<std::int64_t>(value.as_array().size());
      const std::int64_t index = step.index < 0 ? size + step.index : step.index;
      if (index >= 0 && index < size) out.push_back(&value.as_array()[static_cast<std::size_t>(index)]);
      return;
    }
    case Step::Kind::All:
      if (value.is_array()) {
        for (const json::Value& item : value.as_array()) out.push_back(&item);
      } else if (value.is_object()) {
        for (const json::Member& member : value.as_object()) out.push_back(&member.value);
      }
      return;
    case Step::Kind::Filter:
      if (!value.is_array()) return;
      for (const json::Value& item : value.as_array()) {
        const json::Value* at = &item;
        for (const std::string& name : step.path) {
          if (at != nullptr) at = at->find(name);
        }
        if (at != nullptr && *at == step.equals) out.push_back(&item);
      }
      return;
  }
}

std::vector<const json::Value*> JsonPath::find(const json::Value& root) const {
  std::vector<const json::Value*> found{&root};
  for (const Step& step : steps_) {
    std::vector<const json::Value*> next;
    for (const json::Value* value : found) {
      apply(step, *value, next);
      if (next.size() > kResultsMax) {
        next.resize(kResultsMax);
        break;
      }
    }
    found = std::move(next);
  }
  return found;
}

}  // namespace basalt::apiserver
