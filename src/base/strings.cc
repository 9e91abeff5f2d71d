#include "base/strings.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace basalt::base {

namespace {

template <class Pieces>
std::string join_pieces(const Pieces& pieces, std::string_view separator) {
  std::size_t size = 0;
  for (const std::string_view piece : pieces) size += piece.size() + separator.size();
  std::string out;
  out.reserve(size);
  bool first = true;
  for (const std::string_view piece : pieces) {
    if (!first) out.append(separator);
    first = false;
    out.append(piece);
  }
  return out;
}

template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value{};
  const char* const end = text.data() + text.size();
  const auto [rest, problem] = std::from_chars(text.data(), end, value);
  if (problem != std::errc() || rest != end) return std::nullopt;
  return value;
}

void append_hex(std::string& out, std::string_view bytes) {
  static constexpr std::string_view kHex = "0123456789abcdef";
  for (const char c : bytes) {
    const auto value = static_cast<unsigned char>(c);
    out.append("\\x");
    out.push_back(kHex[value >> 4]);
    out.push_back(kHex[value & 15]);
  }
}

void append_escaped(std::string& out, std::string_view text, bool quotes_too) {
  while (!text.empty()) {
    const char c = text.front();
    const auto byte = static_cast<unsigned char>(c);
    const std::size_t length = utf8_sequence_length(text);
    // U+0080 to U+009F are controls that terminals obey, too.
    const bool is_c1_control = byte == 0xC2 && length == 2 && static_cast<unsigned char>(text[1]) < 0xA0;
    if (quotes_too && (c == '"' || c == '\\')) {
      out.push_back('\\');
      out.push_back(c);
    } else if (c == '\n') {
      out.append("\\n");
    } else if (c == '\r') {
      out.append("\\r");
    } else if (c == '\t') {
      out.append("\\t");
    } else if (length == 0 || byte < 0x20 || byte == 0x7F || is_c1_control) {
      append_hex(out, text.substr(0, std::max<std::size_t>(length, 1)));
    } else {
      out.append(text.substr(0, length));
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
}

}  // namespace

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  while (true) {
    const std::size_t at = text.find(separator);
    pieces.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return pieces;
    text.remove_prefix(at + 1);
  }
}

std::optional<std::pair<std::string_view, std::string_view>> split_once(std::string_view text, char separator) {
  const std::size_t at = text.find(separator);
  if (at == std::string_view::npos) return std::nullopt;
  return std::pair(text.substr(0, at), text.substr(at + 1));
}

std::vector<std::string_view> split_words(std::string_view text) {
  std::vector<std::string_view> words;
  std::size_t start = 0;
  while (true) {
    while (start < text.size() && is_space(text[start])) ++start;
    if (start == text.size()) return words;
    std::size_t end = start;
    while (end < text.size() && !is_space(text[end])) ++end;
    words.push_back(text.substr(start, end - start));
    start = end;
  }
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t at = text.find('\n');
    std::string_view line = text.substr(0, at);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    lines.push_back(line);
    if (at == std::string_view::npos) break;
    text.remove_prefix(at + 1);
  }
  return lines;
}

std::string_view trim_start(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  return text;
}

std::string_view trim_end(std::string_view text) {
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::string_view trim(std::string_view text) { return trim_start(trim_end(text)); }

std::optional<std::string_view> strip_prefix(std::string_view text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return std::nullopt;
  return text.substr(prefix.size());
}

std::optional<std::string_view> strip_suffix(std::string_view text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return std::nullopt;
  return text.substr(0, text.size() - suffix.size());
}

std::string join(std::span<const std::string> pieces, std::string_view separator) {
  return join_pieces(pieces, separator);
}

std::string join(std::span<const std::string_view> pieces, std::string_view separator) {
  return join_pieces(pieces, separator);
}

std::string join(std::initializer_list<std::string_view> pieces, std::string_view separator) {
  return join_pieces(pieces, separator);
}

std::string to_lower_ascii(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = to_lower(c);
  return out;
}

std::string to_upper_ascii(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = to_upper(c);
  return out;
}

bool equals_ignore_case_ascii(std::string_view a, std::string_view b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) { return to_lower(x) == to_lower(y); });
}

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  if (from.empty()) return std::string(text);
  std::string out;
  out.reserve(text.size());
  while (true) {
    const std::size_t at = text.find(from);
    out.append(text.substr(0, at));
    if (at == std::string_view::npos) return out;
    out.append(to);
    text.remove_prefix(at + from.size());
  }
}

std::optional<std::int64_t> parse_int64(std::string_view text) {
  // from_chars takes no plus sign; "+-1" must not slip through.
  if (text.size() > 1 && text.front() == '+' && is_digit(text[1])) text.remove_prefix(1);
  return parse_number<std::int64_t>(text);
}

std::optional<std::uint64_t> parse_uint64(std::string_view text) { return parse_number<std::uint64_t>(text); }

std::optional<double> parse_double(std::string_view text) {
  if (text.size() > 1 && text.front() == '+' && text[1] != '-') text.remove_prefix(1);
  const std::optional<double> value = parse_number<double>(text);
  if (!value || !std::isfinite(*value)) return std::nullopt;
  return value;
}

std::string human_bytes(std::uint64_t bytes) {
  static constexpr std::array<const char*, 7> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return std::to_string(bytes) + " B";
  double amount = static_cast<double>(bytes);
  std::size_t unit = 0;
  // 999.5 would print as 1000, four digits, so the next unit starts there.
  while (amount >= 999.5 && unit + 1 < kUnits.size()) {
    amount /= 1024;
    ++unit;
  }
  const int decimals = amount < 9.995 ? 2 : (amount < 99.95 ? 1 : 0);
  std::array<char, 32> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.*f", decimals, amount);
  std::string text(buffer.data());
  if (text.find('.') != std::string::npos) {
    while (text.back() == '0') text.pop_back();
    if (text.back() == '.') text.pop_back();
  }
  return text + " " + kUnits[unit];
}

std::optional<std::uint64_t> parse_bytes(std::string_view text) {
  struct Unit {
    std::string_view suffix;
    double factor;
  };
  static constexpr std::array<Unit, 13> kUnits = {{{"Ki", 0x1p10},
                                                   {"Mi", 0x1p20},
                                                   {"Gi", 0x1p30},
                                                   {"Ti", 0x1p40},
                                                   {"Pi", 0x1p50},
                                                   {"Ei", 0x1p60},
                                                   {"k", 1e3},
                                                   {"K", 1e3},
                                                   {"M", 1e6},
                                                   {"G", 1e9},
                                                   {"T", 1e12},
                                                   {"P", 1e15},
                                                   {"E", 1e18}}};
  text = trim(text);
  if (const auto without_b = strip_suffix(text, "B")) text = *without_b;
  double factor = 1;
  for (const Unit& unit : kUnits) {
    if (const auto number = strip_suffix(text, unit.suffix)) {
      text = *number;
      factor = unit.factor;
      break;
    }
  }
  text = trim_end(text);
  if (text.empty() || !(is_digit(text.front()) || text.front() == '.')) return std::nullopt;
  if (factor == 1) return parse_uint64(text);
  if (text.find_first_not_of("0123456789.") != std::string_view::npos) return std::nullopt;
  const std::optional<double> amount = parse_double(text);
  if (!amount) return std::nullopt;
  const double bytes = std::ceil(*amount * factor);
  if (!(bytes < 0x1p64)) return std::nullopt;
  return static_cast<std::uint64_t>(bytes);
}

std::size_t utf8_sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  std::size_t length = 0;
  unsigned char second_min = 0x80;
  unsigned char second_max = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    if (lead == 0xE0) second_min = 0xA0;
    if (lead == 0xED) second_max = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    if (lead == 0xF0) second_min = 0x90;
    if (lead == 0xF4) second_max = 0x8F;
  }
  if (length == 0 || text.size() < length) return 0;
  if (byte(1) < second_min || byte(1) > second_max) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  return length;
}

std::string quote(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 2);
  out.push_back('"');
  append_escaped(out, text, true);
  out.push_back('"');
  return out;
}

std::string escape_controls(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  append_escaped(out, text, false);
  return out;
}

std::string ellipsize(std::string_view text, std::size_t bytes_max) {
  static constexpr std::string_view kDots = "...";
  if (text.size() <= bytes_max) return std::string(text);
  if (bytes_max <= kDots.size()) return std::string(kDots.substr(0, bytes_max));
  std::size_t keep = bytes_max - kDots.size();
  // Back to the start of a sequence; at most three steps in well-formed text, and no more in any.
  for (int i = 0; i < 3 && keep > 0 && (static_cast<unsigned char>(text[keep]) & 0xC0) == 0x80; ++i) --keep;
  return std::string(text.substr(0, keep)).append(kDots);
}

bool is_valid_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_sequence_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::size_t edit_distance(std::string_view a, std::string_view b, std::size_t limit) {
  if (a.size() > b.size()) std::swap(a, b);
  if (b.size() - a.size() > limit) return limit + 1;
  // Rows of the table of distances between prefixes: row i is of b's first i bytes against all prefixes of a.
  std::vector<std::size_t> row(a.size() + 1);
  std::vector<std::size_t> above(a.size() + 1);
  std::vector<std::size_t> above_that(a.size() + 1);
  for (std::size_t j = 0; j <= a.size(); ++j) above[j] = j;
  for (std::size_t i = 1; i <= b.size(); ++i) {
    row[0] = i;
    std::size_t best = i;
    for (std::size_t j = 1; j <= a.size(); ++j) {
      const bool same = a[j - 1] == b[i - 1];
      row[j] = std::min({above[j - 1] + (same ? 0 : 1), above[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[j - 1] == b[i - 2] && a[j - 2] == b[i - 1]) {
        row[j] = std::min(row[j], above_that[j - 2] + 1);
      }
      best = std::min(best, row[j]);
    }
    if (best > limit) {
      // A swap may still reach back one row, so one more row above the limit is needed to be sure.
      const std::size_t best_above = *std::min_element(above.begin(), above.end());
      if (best_above > limit) return limit + 1;
    }
    std::swap(above_that, above);
    std::swap(above, row);
  }
  return std::min(above[a.size()], limit + 1);
}

std::string_view closest_match(std::string_view word, std::span<const std::string_view> candidates) {
  // Quadratic in the word, which may come from anybody.
  if (word.size() > 128) return {};
  const std::string lower = to_lower_ascii(word);
  std::size_t limit = std::min<std::size_t>(3, (word.size() + 2) / 3);
  std::string_view best;
  for (const std::string_view candidate : candidates) {
    const std::size_t distance = edit_distance(lower, to_lower_ascii(candidate), limit);
    if (distance > limit || (distance == limit && !best.empty())) continue;
    best = candidate;
    limit = distance;
    if (distance == 0) break;
  }
  return best;
}

std::string_view closest_match(std::string_view word, std::initializer_list<std::string_view> candidates) {
  return closest_match(word, std::span<const std::string_view>(candidates.begin(), candidates.size()));
}

std::string did_you_mean(std::string_view word, std::span<const std::string_view> candidates) {
  const std::string_view match = closest_match(word, candidates);
  if (match.empty()) return {};
  return "; did you mean " + quote(match) + "?";
}

}  // namespace basalt::base
