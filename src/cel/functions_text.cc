// Functions of strings: the language's own, and those that Kubernetes adds. Places are counted in code points.

#include <algorithm>

#include <re2/re2.h>

#include "base/strings.h"
#include "cel/function.h"

namespace basalt::cel {
namespace {

constexpr std::size_t kPatternBytesMax = 4096;

bool starts_code_point(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

std::int64_t length_of(std::string_view text) { return std::ranges::count_if(text, starts_code_point); }

// Where the code point with that number starts; the end if there are just as many; nothing if there are fewer.
std::optional<std::size_t> offset_of(std::string_view text, std::int64_t place) {
  if (place < 0) return std::nullopt;
  std::size_t at = 0;
  for (; at < text.size(); ++at) {
    if (!starts_code_point(text[at])) continue;
    if (place == 0) return at;
    --place;
  }
  return place == 0 ? std::optional(at) : std::nullopt;
}

Done pay(const Call& call, std::uint64_t bytes) { return call.cost.spend(bytes / 10 + 1); }

Error out_of_range(std::int64_t place) { return Error::invalid_input("index out of range: " + std::to_string(place)); }

Result<Value> size(const Call& call) {
  if (const auto text = call.text(0)) {
    BASALT_TRY_DONE(pay(call, text->size()));
    return Value::of_int(length_of(*text));
  }
  if (const auto* bytes = call.get<Bytes>(0)) return Value::of_int(static_cast<std::int64_t>(bytes->text.view.size()));
  if (const auto* list = call.get<List>(0)) return Value::of_int(static_cast<std::int64_t>(list->size()));
  if (const auto* map = call.get<Map>(0)) return Value::of_int(static_cast<std::int64_t>(map->size()));
  return no_overload();
}

Result<Value> test(const Call& call) {
  const auto text = call.text(0);
  const auto part = call.text(1);
  if (!text || !part) return no_overload();
  BASALT_TRY_DONE(pay(call, text->size() + part->size()));
  if (call.name == "contains") return Value::of_bool(text->find(*part) != std::string_view::npos);
  return Value::of_bool(call.name == "startsWith" ? text->starts_with(*part) : text->ends_with(*part));
}

// The pattern that was compiled with the expression, or one compiled now into `own`.
Result<const RE2*> pattern_of(const Call& call, std::optional<RE2>& own) {
  const auto text = call.text(0);
  const auto pattern = call.text(1);
  if (!text || !pattern) return no_overload();
  if (pattern->size() > kPatternBytesMax) return Error::invalid_input("a pattern is longer than 4096 bytes");
  const std::uint64_t pattern_cost = pattern->size() / 4 + 1;
  BASALT_TRY_DONE(call.cost.spend((text->size() / 10 + 1) * pattern_cost));
  if (call.regex != nullptr) return call.regex;
  constexpr std::uint64_t kCompileCost = 100;
  BASALT_TRY_DONE(call.cost.spend(kCompileCost * pattern_cost));
  own.emplace(*pattern, RE2::Options(RE2::Quiet));
  if (!own->ok()) return Error::invalid_input("error parsing regexp: " + own->error());
  return &*own;
}

Result<Value> matches(const Call& call) {
  std::optional<RE2> own;
  BASALT_TRY(const RE2* regex, pattern_of(call, own));
  return Value::of_bool(RE2::PartialMatch(*call.text(0), *regex));
}

Result<Value> find_first(const Call& call) {
  std::optional<RE2> own;
  BASALT_TRY(const RE2* regex, pattern_of(call, own));
  const std::string_view text = *call.text(0);
  re2::StringPiece found;
  if (!regex->Match(text, 0, text.size(), RE2::UNANCHORED, &found, 1)) return Value::of_text("");
  return Value::of_text(std::string(found.data(), found.size()));
}

Result<Value> find_all(const Call& call) {
  std::optional<RE2> own;
  BASALT_TRY(const RE2* regex, pattern_of(call, own));
  std::int64_t limit = -1;
  if (call.size() == 3) {
    const auto* given = call.get<std::int64_t>(2);
    if (given == nullptr) return no_overload();
    limit = *given;
  }
  const std::string_view text = *call.text(0);
  std::vector<Value> values;
  std::size_t at = 0;
  std::size_t last_end = std::string_view::npos;
  while (at <= text.size() && (limit < 0 || static_cast<std::int64_t>(values.size()) < limit)) {
    re2::StringPiece found;
    BASALT_TRY_DONE(pay(call, text.size() - at));
    if (!regex->Match(text, at, text.size(), RE2::UNANCHORED, &found, 1)) break;
    const auto start = static_cast<std::size_t>(found.data() - text.data());
    const std::size_t end = start + found.size();
    // As Go does: an empty match right behind another match does not count.
    if (!found.empty() || start != last_end) values.push_back(Value::of_text(std::string(found.data(), found.size())));
    last_end = end;
    at = end;
    if (found.empty()) {
      ++at;
      while (at < text.size() && !starts_code_point(text[at])) ++at;
    }
  }
  return Value::of_list(std::move(values));
}

Result<Value> change(const Call& call) {
  const auto text = call.text(0);
  if (!text) return no_overload();
  BASALT_TRY_DONE(pay(call, text->size()));
  if (call.name == "lowerAscii") return Value::of_text(base::to_lower_ascii(*text));
  if (call.name == "upperAscii") return Value::of_text(base::to_upper_ascii(*text));
  // Unicode's white space beside ASCII's.
  constexpr std::string_view kSpaces[] = {" ",      "\t",     "\n",     "\v",     "\f",     "\r",     "\u0085",
                                          "\u00a0", "\u1680", "\u2000", "\u2001", "\u2002", "\u2003", "\u2004",
                                          "\u2005", "\u2006", "\u2007", "\u2008", "\u2009", "\u200a", "\u2028",
                                          "\u2029", "\u202f", "\u205f", "\u3000"};
  std::string_view rest = *text;
  for (bool again = true; again;) {
    again = false;
    for (const std::string_view space : kSpaces) {
      if (rest.starts_with(space)) {
        rest.remove_prefix(space.size());
        again = true;
      } else if (rest.ends_with(space)) {
        rest.remove_suffix(space.size());
        again = true;
      }
    }
  }
  return Value::of_text(std::string(rest));
}

Result<Value> char_at(const Call& call) {
  const auto text = call.text(0);
  const auto* place = call.get<std::int64_t>(1);
  if (!text || place == nullptr) return no_overload();
  BASALT_TRY_DONE(pay(call, text->size()));
  const auto at = offset_of(*text, *place);
  if (!at) return out_of_range(*place);
  if (*at == text->size()) return Value::of_text("");
  const auto next = offset_of(text->substr(*at), 1);
  return Value::of_text(std::string(text->substr(*at, next.value_or(1))));
}

Result<Value> index_of(const Call& call) {
  const auto text = call.text(0);
  const auto part = call.text(1);
  if (!text || !part) return no_overload();
  BASALT_TRY_DONE(pay(call, text->size() + part->size()));
  const bool from_end = call.name == "lastIndexOf";
  std::size_t start = from_end ? text->size() : 0;
  if (call.size() == 3) {
    const auto* place = call.get<std::int64_t>(2);
    if (place == nullptr) return no_overload();
    const auto at = offset_of(*text, *place);
    if (!at) return out_of_range(*place);
    start = *at;
  }
  const std::size_t found = from_end ? text->rfind(*part, start) : text->find(*part, start);
  if (found == std::string_view::npos) return Value::of_int(-1);
  return Value::of_int(length_of(text->substr(0, found)));
}

Result<Value> substring(const Call& call) {
  const auto text = call.text(0);
  const auto* from = call.get<std::int64_t>(1);
  const auto* to = call.get<std::int64_t>(2);
  if (!text || from == nullptr || (call.size() == 3 && to == nullptr)) return no_overload();
  BASALT_TRY_DONE(pay(call, text->size()));
  const auto start = offset_of(*text, *from);
  if (!start) return out_of_range(*from);
  const auto end = to == nullptr ? std::optional(text->size()) : offset_of(*text, *to);
  if (!end) return out_of_range(*to);
  if (*end < *start) {
    return Error::invalid_input("invalid substring range. start: " + std::to_string(*from) +
                                ", end: " + std::to_string(*to));
  }
  return Value::of_text(std::string(text->substr(*start, *end - *start)));
}

Result<Value> replace(const Call& call) {
  const auto text = call.text(0);
  const auto from = call.text(1);
  const auto to = call.text(2);
  const auto* limit = call.get<std::int64_t>(3);
  if (!text || !from || !to || (call.size() == 4 && limit == nullptr)) return no_overload();
  std::int64_t left = limit == nullptr || *limit < 0 ? INT64_MAX : *limit;
  BASALT_TRY_DONE(pay(call, text->size()));
  std::string out;
  std::size_t at = 0;
  while (left-- > 0) {
    // An empty text is found before each code point and at the end.
    const std::size_t found = text->find(*from, at);
    if (found == std::string_view::npos) break;
    BASALT_TRY_DONE(pay(call, to->size()));
    out.append(text->substr(at, found - at)).append(*to);
    at = found + from->size();
    if (!from->empty()) continue;
    if (at >= text->size()) return Value::of_text(std::move(out));
    const std::size_t next = at + offset_of(text->substr(at), 1).value_or(1);
    out.append(text->substr(at, next - at));
    at = next;
  }
  return Value::of_text(std::move(out.append(text->substr(at))));
}

Result<Value> split(const Call& call) {
  const auto text = call.text(0);
  const auto separator = call.text(1);
  const auto* limit = call.get<std::int64_t>(2);
  if (!text || !separator || (call.size() == 3 && limit == nullptr)) return no_overload();
  const std::int64_t max = limit == nullptr || *limit < 0 ? INT64_MAX : *limit;
  BASALT_TRY_DONE(pay(call, text->size()));
  std::vector<Value> values;
  if (max == 0) return Value::of_list({});
  std::string_view rest = *text;
  while (static_cast<std::int64_t>(values.size()) + 1 < max) {
    const std::size_t found =
        separator->empty() ? offset_of(rest, 1).value_or(std::string_view::npos) : rest.find(*separator);
    if (found == std::string_view::npos || (separator->empty() && found >= rest.size())) break;
    BASALT_TRY_DONE(call.cost.spend(1));
    values.push_back(Value::of_text(std::string(rest.substr(0, found))));
    rest.remove_prefix(found + separator->size());
  }
  if (!separator->empty() || !rest.empty()) values.push_back(Value::of_text(std::string(rest)));
  return Value::of_list(std::move(values));
}

Result<Value> join(const Call& call) {
  const auto* list = call.get<List>(0);
  const auto separator = call.size() == 2 ? call.text(1) : std::optional(std::string_view());
  if (list == nullptr || !separator) return no_overload();
  std::string out;
  for (std::size_t i = 0; i < list->size(); ++i) {
    const Value item = list->at(i);
    const auto* text = item.get<Text>();
    if (text == nullptr) return no_overload();
    BASALT_TRY_DONE(pay(call, text->view.size() + separator->size()));
    if (i > 0) out += *separator;
    out += text->view;
  }
  return Value::of_text(std::move(out));
}

Result<Value> quote(const Call& call) {
  const auto text = call.text(0);
  if (!text) return no_overload();
  BASALT_TRY_DONE(pay(call, text->size()));
  constexpr std::string_view kEscaped = "\a\b\f\n\r\t\v\\\"";
  constexpr std::string_view kNames = "abfnrtv\\\"";
  std::string out = "\"";
  for (const char c : *text) {
    const std::size_t found = kEscaped.find(c);
    if (found != std::string_view::npos) out += '\\';
    out += found == std::string_view::npos ? c : kNames[found];
  }
  return Value::of_text(out + "\"");
}

// A key as a part of a JSON pointer.
Result<Value> escape_key(const Call& call) {
  const auto text = call.text(0);
  if (!text) return no_overload();
  BASALT_TRY_DONE(call.cost.spend(text->size() / 10));
  std::string escaped;
  for (const char c : *text) {
    if (c == '~') {
      escaped += "~0";
    } else if (c == '/') {
      escaped += "~1";
    } else {
      escaped += c;
    }
  }
  return Value::of_text(std::move(escaped));
}

constexpr Function kTextFunctions[] = {
    {"size", false, 1, 1, size, "int"},
    {"size", true, 0, 0, size, "int"},
    {"contains", true, 1, 1, test, "bool", false, "string"},
    {"startsWith", true, 1, 1, test, "bool", false, "string"},
    {"endsWith", true, 1, 1, test, "bool", false, "string"},
    {"matches", true, 1, 1, matches, "bool", true, "string"},
    {"matches", false, 2, 2, matches, "bool", true},
    {"find", true, 1, 1, find_first, "string", true, "string"},
    {"findAll", true, 1, 2, find_all, "list", true, "string"},
    {"lowerAscii", true, 0, 0, change, "string", false, "string"},
    {"upperAscii", true, 0, 0, change, "string", false, "string"},
    {"trim", true, 0, 0, change, "string", false, "string"},
    {"charAt", true, 1, 1, char_at, "string", false, "string"},
    {"substring", true, 1, 2, substring, "string", false, "string"},
    {"replace", true, 2, 3, replace, "string", false, "string"},
    {"split", true, 1, 2, split, "list", false, "string"},
    {"join", true, 0, 1, join, "string", false, "list"},
    {"format", true, 1, 1, format_text, "string", false, "string"},
    {"strings.quote", false, 1, 1, quote, "string"},
    {"jsonpatch.escapeKey", false, 1, 1, escape_key, "string"},
};

}  // namespace

std::span<const Function> text_functions() { return kTextFunctions; }

// Of lists this is in functions_list.cc, which calls it for texts.
Result<Value> text_index_of(const Call& call) { return index_of(call); }

}  // namespace basalt::cel
