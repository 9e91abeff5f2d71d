#include "net/openssl_util.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/pem.h>

namespace basalt::net {
namespace {

constexpr std::size_t kCertificatesMax = 2000;  // all public authorities are about 150

int refuse_passphrase(char* /*buffer*/, int /*size*/, int /*for_writing*/, void* /*user*/) { return -1; }

}  // namespace

std::string take_openssl_error(std::string_view fallback) {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  const char* text = code == 0 ? nullptr : ERR_reason_error_string(code);
  return text == nullptr ? std::string(fallback) : std::string(text);
}

Error openssl_failure(std::string_view what) {
  return Error::invalid_input(fmt::format("{}: {}.", what, take_openssl_error("unknown reason")));
}

BioPtr bio_over(std::string_view text) { return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))); }

std::string bio_content(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return size > 0 ? std::string(data, static_cast<std::size_t>(size)) : std::string();
}

Result<std::vector<X509Ptr>> parse_certificates(std::string_view pem) {
  std::vector<X509Ptr> certificates;
  const BioPtr bio = bio_over(pem);
  while (certificates.size() < kCertificatesMax) {
    X509Ptr certificate(PEM_read_bio_X509(bio.get(), nullptr, refuse_passphrase, nullptr));
    if (!certificate) break;
    certificates.push_back(std::move(certificate));
  }
  const unsigned long error = ERR_peek_last_error();
  const bool is_at_end = ERR_GET_LIB(error) == ERR_LIB_PEM && ERR_GET_REASON(error) == PEM_R_NO_START_LINE;
  if (!is_at_end && error != 0) return openssl_failure("The certificate cannot be read");
  ERR_clear_error();
  if (certificates.empty()) return Error::invalid_input("There is no certificate in the PEM text.");
  return certificates;
}

Result<KeyPtr> parse_private_key(std::string_view pem) {
  const BioPtr bio = bio_over(pem);
  KeyPtr key(PEM_read_bio_PrivateKey(bio.get(), nullptr, refuse_passphrase, nullptr));
  if (!key) return openssl_failure("The private key cannot be read");
  return key;
}

Result<std::string> certificate_to_pem(X509* certificate) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_X509(bio.get(), certificate) != 1) return openssl_failure("The certificate cannot be written");
  return bio_content(bio.get());
}

}  // namespace basalt::net
