#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

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

}  // namespace basalt::apiserver::proto
