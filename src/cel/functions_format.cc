// "...".format([...]): the clauses %s %d %f %e %x %X %o %b and %%, with a precision for %f and %e.

#include <charconv>
#include <cmath>

#include "base/encoding.h"
#include "base/strings.h"
#include "cel/function.h"
#include "cel/time_values.h"

namespace basalt::cel {
namespace {

constexpr int kPrecisionMax = 100;
constexpr int kPrecisionDefault = 6;

Error bad_clause(char clause, const Value& value) {
  return Error::invalid_input(std::string("error during formatting: %") + clause + " cannot show a value of type " +
                              std::string(value.type_name()));
}

// Charges for what it writes, and ends when there is nothing left to pay with.
Done append_shown(const Call& call, const Value& value, bool is_inner, std::string& out) {
  BASALT_TRY_DONE(call.cost.spend(1));
  if (const auto* text = value.get<Text>()) {
    BASALT_TRY_DONE(call.cost.spend(text->view.size() / 10));
    is_inner ? out.append("\"").append(text->view).append("\"") : out.append(text->view);
    return Ok{};
  }
  if (const auto* list = value.get<List>()) {
    out += "[";
    for (std::size_t i = 0; i < list->size(); ++i) {
      if (i > 0) out += ", ";
      BASALT_TRY_DONE(append_shown(call, list->at(i), true, out));
    }
    out += "]";
    return Ok{};
  }
  if (const auto* map = value.get<Map>()) {
    out += "{";
    for (std::size_t i = 0; i < map->size(); ++i) {
      if (i > 0) out += ", ";
      const auto [key, item] = map->entry(i);
      BASALT_TRY_DONE(append_shown(call, key, true, out));
      out += ":";
      BASALT_TRY_DONE(append_shown(call, item, true, out));
    }
    out += "}";
    return Ok{};
  }
  if (value.is_null()) {
    out += "null";
    return Ok{};
  }
  if (const auto* type = value.get<TypeName>()) {
    out += type->name;
    return Ok{};
  }
  const Value one[] = {value};
  auto text = to_text(Call{"string", one, call.cost});
  if (!text.ok()) return bad_clause('s', value);
  out += text->get<Text>()->view;
  return Ok{};
}

template <class Int>
void append_whole(std::string& out, Int value, int base) {
  char buffer[80];
  const auto end = std::to_chars(std::begin(buffer), std::end(buffer), value, base).ptr;
  out.append(buffer, end);
}

Done append_integer(const Value& value, char clause, std::string& out) {
  const int base = clause == 'd' ? 10 : clause == 'o' ? 8 : clause == 'b' ? 2 : 16;
  std::string text;
  if (const auto* number = value.get<std::int64_t>()) {
    append_whole(text, *number, base);
  } else if (const auto* positive = value.get<std::uint64_t>()) {
    append_whole(text, *positive, base);
  } else if (const auto* flag = value.get<bool>(); flag != nullptr && clause == 'b') {
    text = *flag ? "1" : "0";
  } else if (const auto* letters = value.get<Text>(); letters != nullptr && base == 16) {
    text = base::hex_encode(letters->view);
  } else if (const auto* bytes = value.get<Bytes>(); bytes != nullptr && base == 16) {
    text = base::hex_encode(bytes->text.view);
  } else {
    return bad_clause(clause, value);
  }
  out += clause == 'X' ? base::to_upper_ascii(text) : text;
  return Ok{};
}

Done append_fraction(const Value& value, char clause, int precision, std::string& out) {
  double number = 0;
  if (const auto* given = value.get<double>()) {
    number = *given;
  } else if (const auto* whole = value.get<std::int64_t>()) {
    number = static_cast<double>(*whole);
  } else {
    return bad_clause(clause, value);
  }
  if (!std::isfinite(number)) {
    out += std::isnan(number) ? "NaN" : number > 0 ? "Infinity" : "-Infinity";
    return Ok{};
  }
  char buffer[512];  // the largest double has 309 digits before the point
  const auto format = clause == 'f' ? std::chars_format::fixed : std::chars_format::scientific;
  const auto end = std::to_chars(std::begin(buffer), std::end(buffer), number, format, precision).ptr;
  out.append(buffer, end);
  return Ok{};
}

}  // namespace

Result<Value> format_text(const Call& call) {
  const auto pattern = call.text(0);
  const auto* values = call.get<List>(1);
  if (!pattern || values == nullptr) return no_overload();
  BASALT_TRY_DONE(call.cost.spend(pattern->size() / 10 + 1));
  std::string out;
  std::size_t used = 0;
  for (std::size_t i = 0; i < pattern->size(); ++i) {
    if ((*pattern)[i] != '%') {
      out += (*pattern)[i];
      continue;
    }
    int precision = kPrecisionDefault;
    ++i;
    if (i < pattern->size() && (*pattern)[i] == '.') {
      precision = 0;
      while (++i < pattern->size() && base::is_digit((*pattern)[i]) && precision <= kPrecisionMax) {
        precision = precision * 10 + ((*pattern)[i] - '0');
      }
      if (precision > kPrecisionMax) return Error::invalid_input("error during formatting: a precision above 100");
    }
    const char clause = i < pattern->size() ? (*pattern)[i] : '\0';
    if (clause == '%') {
      out += '%';
      continue;
    }
    if (clause == '\0' || std::string_view("sdfexXob").find(clause) == std::string_view::npos) {
      return Error::invalid_input(
          "error during formatting: could not parse formatting clause: unrecognized formatting clause");
    }
    if (used >= values->size()) {
      return Error::invalid_input("error during formatting: index " + std::to_string(used) + " out of range");
    }
    const Value value = values->at(used++);
    BASALT_TRY_DONE(call.cost.spend(1));
    if (clause == 's') {
      BASALT_TRY_DONE(append_shown(call, value, false, out));
    } else if (clause == 'f' || clause == 'e') {
      BASALT_TRY_DONE(append_fraction(value, clause, precision, out));
    } else {
      BASALT_TRY_DONE(append_integer(value, clause, out));
    }
  }
  return Value::of_text(std::move(out));
}

}  // namespace basalt::cel
