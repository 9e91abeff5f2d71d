#include "net/pem_source.h"

#include <sys/stat.h>

#include "net/certificates.h"

namespace basalt::net {
namespace {

constexpr std::size_t kPemBytesMax = 4u << 20;  // a bundle of all public authorities is a quarter of a megabyte

Result<std::string> text_or_file(const std::string& text, const std::string& file) {
  if (!text.empty() || file.empty()) return text;
  return read_file(file, kPemBytesMax);
}

std::string label(const std::string& file, const char* what) { return file.empty() ? what : file; }

}  // namespace

PemSource::PemSource(Options options) : options_(std::move(options)) {}

Done PemSource::load() {
  read_at_ = stamps();
  auto texts = read();
  if (!texts) return std::move(texts).error();
  texts_ = std::move(texts).value();
  return Ok{};
}

bool PemSource::refresh() {
  const Stamps now = stamps();
  if (now == read_at_) return false;
  auto texts = read();
  if (!texts) {
    problem_ = texts.error().message;
    return false;
  }
  problem_.clear();
  read_at_ = now;
  if (*texts == texts_) return false;
  texts_ = std::move(texts).value();
  return true;
}

PemSource::Stamp PemSource::stamp_of(const std::string& file) {
  struct stat info{};
  if (file.empty() || ::stat(file.c_str(), &info) != 0) return {};
  return {
      .seconds = info.st_mtim.tv_sec, .nanoseconds = info.st_mtim.tv_nsec, .inode = info.st_ino, .bytes = info.st_size};
}

PemSource::Stamps PemSource::stamps() const {
  Stamps stamps;
  if (options_.authorities_pem.empty()) stamps.authorities = stamp_of(options_.authorities_file);
  if (options_.certificate_pem.empty()) stamps.certificate = stamp_of(options_.certificate_file);
  if (options_.key_pem.empty()) stamps.key = stamp_of(options_.key_file);
  return stamps;
}

Result<PemSource::Texts> PemSource::read() const {
  Texts texts;
  BASALT_TRY(texts.authorities, text_or_file(options_.authorities_pem, options_.authorities_file));
  BASALT_TRY(texts.certificate, text_or_file(options_.certificate_pem, options_.certificate_file));
  BASALT_TRY(texts.key, text_or_file(options_.key_pem, options_.key_file));
  if (!texts.authorities.empty()) {
    const Done valid = check_certificates(texts.authorities);
    if (!valid) return valid.error().with_context(label(options_.authorities_file, "certificate authorities"));
  }
  if (texts.certificate.empty() != texts.key.empty()) {
    return Error::invalid_input("A certificate and its key must be given together.");
  }
  if (!texts.certificate.empty()) {
    const Done valid = check_key_pair({.certificate_pem = texts.certificate, .key_pem = texts.key});
    if (!valid) return valid.error().with_context(label(options_.certificate_file, "certificate"));
  }
  return texts;
}

}  // namespace basalt::net
