#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Text helpers. All are ASCII-minded and free of locales: bytes above 127 are never changed or classified.

namespace basalt::base {

// Always one piece more than there are separators: split("", ',') is {""}.
[[nodiscard]] std::vector<std::string_view> split(std::string_view text, char separator);
// The pieces are views: those of a temporary would be gone before anybody looks.
template <class Text>
  requires std::same_as<Text, std::string>
std::vector<std::string_view> split(Text&& text, char separator) = delete;
// At the first separator; nothing if there is none.
[[nodiscard]] std::optional<std::pair<std::string_view, std::string_view>> split_once(std::string_view text,
                                                                                      char separator);
// Pieces between runs of white space; no empty ones.
[[nodiscard]] std::vector<std::string_view> split_words(std::string_view text);
// Lines without their end ("\n" or "\r\n"); a final line end adds no empty line.
[[nodiscard]] std::vector<std::string_view> split_lines(std::string_view text);

// White space is space, \t, \n, \v, \f, \r.
[[nodiscard]] std::string_view trim(std::string_view text);
[[nodiscard]] std::string_view trim_start(std::string_view text);
[[nodiscard]] std::string_view trim_end(std::string_view text);

// Removes the prefix or suffix; nothing if it is not there.
[[nodiscard]] std::optional<std::string_view> strip_prefix(std::string_view text, std::string_view prefix);
[[nodiscard]] std::optional<std::string_view> strip_suffix(std::string_view text, std::string_view suffix);

[[nodiscard]] std::string join(std::span<const std::string> pieces, std::string_view separator);
[[nodiscard]] std::string join(std::span<const std::string_view> pieces, std::string_view separator);
[[nodiscard]] std::string join(std::initializer_list<std::string_view> pieces, std::string_view separator);

[[nodiscard]] std::string to_lower_ascii(std::string_view text);
[[nodiscard]] std::string to_upper_ascii(std::string_view text);
[[nodiscard]] bool equals_ignore_case_ascii(std::string_view a, std::string_view b);
[[nodiscard]] std::string replace_all(std::string_view text, std::string_view from, std::string_view to);

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
constexpr bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
constexpr bool is_alpha(char c) { return is_lower(c) || is_upper(c); }
constexpr bool is_alphanumeric(char c) { return is_alpha(c) || is_digit(c); }
constexpr bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
constexpr char to_lower(char c) { return is_upper(c) ? static_cast<char>(c + ('a' - 'A')) : c; }
constexpr char to_upper(char c) { return is_lower(c) ? static_cast<char>(c - ('a' - 'A')) : c; }

// The whole text as a decimal number with an optional sign; nothing if it is anything else or does not fit.
[[nodiscard]] std::optional<std::int64_t> parse_int64(std::string_view text);
[[nodiscard]] std::optional<std::uint64_t> parse_uint64(std::string_view text);  // no sign
[[nodiscard]] std::optional<double> parse_double(std::string_view text);         // finite

// "0 B", "999 B", "1.5 KiB", "12 MiB": at most three significant digits, for people.
[[nodiscard]] std::string human_bytes(std::uint64_t bytes);
// "1.5 KiB", "64Ki", "10M", "512" -> bytes. Suffixes as in quantities, an optional space and "B"; nothing if malformed,
// negative or too large.
[[nodiscard]] std::optional<std::uint64_t> parse_bytes(std::string_view text);

// In double quotes, with \n, \t, \", \\ and \xNN for control characters and for bytes that are not UTF-8: safe in a
// one-line message whatever the text is.
[[nodiscard]] std::string quote(std::string_view text);
// The same without the quotes, leaving " and \\ as they are.
[[nodiscard]] std::string escape_controls(std::string_view text);
// At most `bytes_max` bytes, cut at a UTF-8 boundary, with "..." in place of the rest.
[[nodiscard]] std::string ellipsize(std::string_view text, std::size_t bytes_max);
[[nodiscard]] bool is_valid_utf8(std::string_view text);
// Bytes of the sequence that a text, which is not empty, begins with; 0 if it is malformed (overlong, a surrogate,
// ...).
[[nodiscard]] std::size_t utf8_sequence_length(std::string_view text);

// Insertions, deletions, substitutions and swaps of neighbours. Gives up early: a result above `limit` is limit + 1.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b, std::size_t limit);
// The candidate that the user most likely meant, or "" if none is near (a third of the word's length, at most three
// edits, letter case counts for nothing). Of equals the first wins.
[[nodiscard]] std::string_view closest_match(std::string_view word, std::span<const std::string_view> candidates);
[[nodiscard]] std::string_view closest_match(std::string_view word, std::initializer_list<std::string_view> candidates);
// "; did you mean \"x\"?" or "", to be appended to an error.
[[nodiscard]] std::string did_you_mean(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace basalt::base
