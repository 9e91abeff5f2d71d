#include "apiserver/store/attributes.h"

#include <cstdint>

namespace basalt::apiserver {
namespace {

constexpr char kUid = 'u';
constexpr char kLabel = 'l';
constexpr char kField = 'f';

struct Record {
  char kind = 0;
  std::string_view key;
  std::string_view value;
};

// Takes a number of seven bits a byte, lowest first, the last byte without the high bit.
std::optional<std::size_t> take_number(std::string_view& text) {
  std::uint64_t number = 0;
  for (unsigned shift = 0; shift < 35; shift += 7) {
    if (text.empty()) return std::nullopt;
    const auto byte = static_cast<unsigned char>(text.front());
    text.remove_prefix(1);
    number |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) return number;
  }
  return std::nullopt;
}

std::optional<std::string_view> take_text(std::string_view& text) {
  const auto size = take_number(text);
  if (!size || *size > text.size()) return std::nullopt;
  const std::string_view taken = text.substr(0, *size);
  text.remove_prefix(*size);
  return taken;
}

// False at the end, and where the text makes no sense.
bool take_record(std::string_view& text, Record& record) {
  if (text.empty()) return false;
  record.kind = text.front();
  text.remove_prefix(1);
  const auto key = take_text(text);
  if (!key) return false;
  const auto value = take_text(text);
  if (!value) return false;
  record.key = *key;
  record.value = *value;
  return true;
}

std::optional<std::string_view> find(std::string_view packed, char kind, std::string_view key) {
  Record record;
  while (take_record(packed, record)) {
    if (record.kind == kind && record.key == key) return record.value;
  }
  return std::nullopt;
}

std::vector<std::pair<std::string_view, std::string_view>> all(std::string_view packed, char kind) {
  std::vector<std::pair<std::string_view, std::string_view>> found;
  Record record;
  while (take_record(packed, record)) {
    if (record.kind == kind) found.emplace_back(record.key, record.value);
  }
  return found;
}

void append_number(std::string& buffer, std::size_t number) {
  while (number >= 0x80) {
    buffer.push_back(static_cast<char>((number & 0x7f) | 0x80));
    number >>= 7;
  }
  buffer.push_back(static_cast<char>(number));
}

}  // namespace

std::string_view Attributes::uid() const { return find(packed_, kUid, "").value_or(std::string_view()); }

std::optional<std::string_view> Attributes::label(std::string_view key) const { return find(packed_, kLabel, key); }

std::optional<std::string_view> Attributes::field(std::string_view path) const { return find(packed_, kField, path); }

std::vector<std::pair<std::string_view, std::string_view>> Attributes::labels() const { return all(packed_, kLabel); }

std::vector<std::pair<std::string_view, std::string_view>> Attributes::fields() const { return all(packed_, kField); }

void AttributesWriter::reset(std::string_view uid) {
  buffer_.clear();
  append(kUid, "", uid);
}

void AttributesWriter::add_label(std::string_view key, std::string_view value) { append(kLabel, key, value); }

void AttributesWriter::add_field(std::string_view path, std::string_view value) { append(kField, path, value); }

void AttributesWriter::append(char kind, std::string_view key, std::string_view value) {
  buffer_.push_back(kind);
  append_number(buffer_, key.size());
  buffer_.append(key);
  append_number(buffer_, value.size());
  buffer_.append(value);
}

}  // namespace basalt::apiserver
