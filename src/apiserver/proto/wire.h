#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace basalt::apiserver::proto {

enum class WireType : std::uint8_t { Varint = 0, Fixed64 = 1, Bytes = 2, GroupStart = 3, GroupEnd = 4, Fixed32 = 5 };

struct Tag {
  std::uint32_t number = 0;
  WireType type = WireType::Varint;
};

// Reads the encoding of protobuf from bytes that somebody else keeps. Nothing is trusted: each function gives nothing
// if the bytes end too early or are malformed, and the reader is of no further use then. Never copies, never allocates.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : bytes_(bytes) {}

  [[nodiscard]] bool at_end() const { return bytes_.empty(); }
  [[nodiscard]] std::optional<Tag> tag();
  [[nodiscard]] std::optional<std::uint64_t> varint();
  [[nodiscard]] std::optional<double> fixed64();
  [[nodiscard]] std::optional<std::string_view> bytes();
  // Passes over the value of a field, groups included.
  [[nodiscard]] bool skip(WireType type);

 private:
  [[nodiscard]] bool drop(std::size_t count);

  std::string_view bytes_;
};

// Writes it, behind what it begins with.
class WireWriter {
 public:
  explicit WireWriter(std::string begin = {}) : bytes_(std::move(begin)) {}

  [[nodiscard]] std::string_view bytes() const { return bytes_; }
  [[nodiscard]] std::string take() && { return std::move(bytes_); }
  void varint_field(std::uint32_t number, std::uint64_t value);
  void fixed64_field(std::uint32_t number, double value);
  void bytes_field(std::uint32_t number, std::string_view value);

 private:
  void tag(std::uint32_t number, WireType type);
  void varint(std::uint64_t value);

  std::string bytes_;
};

}  // namespace basalt::apiserver::proto
