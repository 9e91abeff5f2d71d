#include "apiserver/store/file/log_check.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>

namespace basalt::apiserver {
namespace {

constexpr std::size_t kHeaderBytes = 32;
constexpr std::size_t kFrameHeaderBytes = 24;
constexpr std::uint32_t kMagic = 0x377f0682;  // the lowest bit says that checksums read words in big-endian order
constexpr std::uint32_t kPageBytesMax = 65536;

std::uint32_t big_endian(std::string_view bytes, std::size_t offset) {
  std::uint32_t word = 0;
  for (std::size_t i = 0; i < 4; ++i) word = word << 8 | static_cast<unsigned char>(bytes[offset + i]);
  return word;
}

std::uint32_t little_endian(std::string_view bytes, std::size_t offset) {
  std::uint32_t word = 0;
  for (std::size_t i = 4; i-- > 0;) word = word << 8 | static_cast<unsigned char>(bytes[offset + i]);
  return word;
}

// Two sums that run through the header and all frames.
struct Checksum {
  bool is_big_endian = false;
  std::uint32_t first = 0;
  std::uint32_t second = 0;

  void add(std::string_view bytes) {
    for (std::size_t i = 0; i + 8 <= bytes.size(); i += 8) {
      first += word(bytes, i) + second;
      second += word(bytes, i + 4) + first;
    }
  }
  [[nodiscard]] bool equals(std::string_view bytes, std::size_t offset) const {
    return big_endian(bytes, offset) == first && big_endian(bytes, offset + 4) == second;
  }

 private:
  [[nodiscard]] std::uint32_t word(std::string_view bytes, std::size_t offset) const {
    return is_big_endian ? big_endian(bytes, offset) : little_endian(bytes, offset);
  }
};

bool is_all_zero(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char c) { return c == 0; });
}

bool read(std::ifstream& file, std::string& buffer, std::size_t bytes) {
  buffer.resize(bytes);
  file.read(buffer.data(), static_cast<std::streamsize>(bytes));
  return static_cast<std::size_t>(file.gcount()) == bytes;
}

}  // namespace

LogCheck check_log(const std::filesystem::path& log) {
  LogCheck check;
  std::ifstream file(log, std::ios::binary);
  std::string header;
  std::string frame;
  if (!file || !read(file, header, kHeaderBytes)) return check;
  if (is_all_zero(header)) {
    check.is_damaged = read(file, frame, kFrameHeaderBytes) && !is_all_zero(frame);
    return check;
  }
  const std::uint32_t magic = big_endian(header, 0);
  const std::uint32_t page_bytes = big_endian(header, 8);
  Checksum checksum;
  checksum.is_big_endian = (magic & 1) != 0;
  checksum.add(std::string_view(header).substr(0, 24));
  if ((magic & ~1U) != kMagic || page_bytes == 0 || page_bytes > kPageBytesMax || !checksum.equals(header, 24)) {
    check.is_damaged = true;
    return check;
  }
  const std::string_view salts = std::string_view(header).substr(16, 8);
  check.good_bytes = kHeaderBytes;
  bool is_broken = false;
  for (std::uint64_t end = kHeaderBytes; read(file, frame, kFrameHeaderBytes + page_bytes);) {
    end += frame.size();
    // Frames of an earlier round through the file have other salts, and space in reserve has none.
    const std::string_view bytes = frame;
    if (bytes.substr(8, 8) != salts) {
      is_broken = true;
      continue;
    }
    const bool is_commit = big_endian(bytes, 4) != 0;
    if (!is_broken) {
      checksum.add(bytes.substr(0, 8));
      checksum.add(bytes.substr(kFrameHeaderBytes));
      is_broken = !checksum.equals(bytes, 16);
    }
    if (!is_commit) continue;
    if (is_broken) {
      ++check.lost_transactions;
    } else {
      check.good_bytes = end;
    }
  }
  check.is_damaged = check.lost_transactions > 1;
  return check;
}

}  // namespace basalt::apiserver
