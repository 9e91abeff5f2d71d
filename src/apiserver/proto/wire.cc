#include "apiserver/proto/wire.h"

#include <bit>

namespace basalt::apiserver::proto {
namespace {

constexpr int kVarintBytesMax = 10;                        // 64 bits by sevens
constexpr std::uint64_t kFieldNumberMax = (1u << 29) - 1;  // what protobuf allows
constexpr int kGroupDepthMax = 100;

}  // namespace

std::optional<std::uint64_t> WireReader::varint() {
  std::uint64_t value = 0;
  for (int i = 0; i < kVarintBytesMax && static_cast<std::size_t>(i) < bytes_.size(); ++i) {
    const auto byte = static_cast<std::uint8_t>(bytes_[static_cast<std::size_t>(i)]);
    if (i == kVarintBytesMax - 1 && byte > 1) return std::nullopt;  // more than 64 bits
    value |= static_cast<std::uint64_t>(byte & 0x7Fu) << (7 * i);
    if (byte < 0x80) {
      bytes_.remove_prefix(static_cast<std::size_t>(i) + 1);
      return value;
    }
  }
  return std::nullopt;
}

std::optional<Tag> WireReader::tag() {
  const auto key = varint();
  if (!key) return std::nullopt;
  const std::uint64_t number = *key >> 3;
  const auto type = static_cast<std::uint8_t>(*key & 7);
  if (number == 0 || number > kFieldNumberMax || type > static_cast<std::uint8_t>(WireType::Fixed32)) {
    return std::nullopt;
  }
  return Tag{static_cast<std::uint32_t>(number), static_cast<WireType>(type)};
}

std::optional<double> WireReader::fixed64() {
  if (bytes_.size() < sizeof(std::uint64_t)) return std::nullopt;
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < sizeof(bits); ++i) {
    bits |= static_cast<std::uint64_t>(static_cast<std::uint8_t>(bytes_[i])) << (8 * i);
  }
  bytes_.remove_prefix(sizeof(bits));
  return std::bit_cast<double>(bits);
}

std::optional<std::string_view> WireReader::bytes() {
  const auto length = varint();
  if (!length || *length > bytes_.size()) return std::nullopt;
  const std::string_view found = bytes_.substr(0, static_cast<std::size_t>(*length));
  bytes_.remove_prefix(found.size());
  return found;
}

bool WireReader::drop(std::size_t count) {
  if (bytes_.size() < count) return false;
  bytes_.remove_prefix(count);
  return true;
}

bool WireReader::skip(WireType type) {
  int open_groups = 0;
  for (;;) {
    switch (type) {
      case WireType::Varint:
        if (!varint()) return false;
        break;
      case WireType::Fixed64:
        if (!drop(8)) return false;
        break;
      case WireType::Bytes:
        if (!bytes()) return false;
        break;
      case WireType::Fixed32:
        if (!drop(4)) return false;
        break;
      case WireType::GroupStart:
        if (++open_groups > kGroupDepthMax) return false;
        break;
      case WireType::GroupEnd:
        if (--open_groups < 0) return false;
        break;
    }
    if (open_groups == 0) return true;
    const auto next = tag();
    if (!next) return false;
    type = next->type;
  }
}

void WireWriter::varint(std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80u);
  bytes_ += static_cast<char>(value);
}

void WireWriter::tag(std::uint32_t number, WireType type) {
  varint(static_cast<std::uint64_t>(number) << 3 | static_cast<std::uint64_t>(type));
}

void WireWriter::varint_field(std::uint32_t number, std::uint64_t value) {
  tag(number, WireType::Varint);
  varint(value);
}

void WireWriter::fixed64_field(std::uint32_t number, double value) {
  tag(number, WireType::Fixed64);
  const auto bits = std::bit_cast<std::uint64_t>(value);
  for (int i = 0; i < 64; i += 8) bytes_ += static_cast<char>(bits >> i & 0xFFu);
}

void WireWriter::bytes_field(std::uint32_t number, std::string_view value) {
  tag(number, WireType::Bytes);
  varint(value.size());
  bytes_ += value;
}

}  // namespace basalt::apiserver::proto
