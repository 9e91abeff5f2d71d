#include "net/certificates.h"

#include <array>
#include <cstdint>
#include <ctime>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/rand.h>

#include "net/openssl_util.h"

namespace basalt::net {
namespace {

constexpr std::size_t kNameBytesMax = 64;      // of CN and O, as X.520 bounds them
constexpr std::size_t kDnsNameBytesMax = 253;  // RFC 1035

struct Signer {
  X509* certificate = nullptr;  // null: the new certificate signs itself
  EVP_PKEY* key = nullptr;
};

std::time_t to_seconds(rt::WallTime time) {
  return std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
}

Done add_name_entry(X509_NAME* name, const char* field, const std::string& value) {
  if (value.empty() || value.size() > kNameBytesMax) {
    return Error::invalid_input(
        fmt::format("\"{}\" does not fit the field {} of a certificate (1 to {} bytes).", value, field, kNameBytesMax));
  }
  const auto* bytes = reinterpret_cast<const unsigned char*>(value.data());
  if (X509_NAME_add_entry_by_txt(name, field, MBSTRING_UTF8, bytes, static_cast<int>(value.size()), -1, 0) != 1) {
    return openssl_failure(fmt::format("\"{}\" does not fit a certificate", value));
  }
  return Ok{};
}

Done set_subject(X509* certificate, const CertificateSubject& subject) {
  X509_NAME* name = X509_get_subject_name(certificate);
  for (const std::string& organization : subject.organizations) {
    BASALT_TRY_DONE(add_name_entry(name, "O", organization));
  }
  return add_name_entry(name, "CN", subject.common_name);
}

Done set_serial(X509* certificate) {
  std::array<unsigned char, 16> bytes{};
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) return openssl_failure("No random number");
  bytes[0] &= 0x7f;  // a positive number
  bytes[0] |= 0x40;  // of full length
  BIGNUM* number = BN_bin2bn(bytes.data(), static_cast<int>(bytes.size()), nullptr);
  const bool is_set = number != nullptr && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) != nullptr;
  BN_free(number);
  if (!is_set) return openssl_failure("The serial number cannot be set");
  return Ok{};
}

Done set_lifetime(X509* certificate, const CertificateOptions& options) {
  if (options.not_after <= options.not_before) {
    return Error::invalid_input("The certificate would expire before it becomes valid.");
  }
  if (ASN1_TIME_set(X509_getm_notBefore(certificate), to_seconds(options.not_before)) == nullptr ||
      ASN1_TIME_set(X509_getm_notAfter(certificate), to_seconds(options.not_after)) == nullptr) {
    return openssl_failure("The certificate's lifetime cannot be set");
  }
  return Ok{};
}

Done add_extension(X509* certificate, X509* issuer, int nid, const char* value) {
  X509V3_CTX context{};
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value);
  const bool is_added = extension != nullptr && X509_add_ext(certificate, extension, -1) == 1;
  X509_EXTENSION_free(extension);
  if (!is_added) return openssl_failure(fmt::format("The extension {} cannot be set", OBJ_nid2sn(nid)));
  return Ok{};
}

bool is_dns_name(const std::string& name) {
  if (name.empty() || name.size() > kDnsNameBytesMax) return false;
  for (const char c : name) {
    const bool is_allowed = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                            c == '.' || c == '_' || c == '*';
    if (!is_allowed) return false;
  }
  return true;
}

bool is_ip_address(const std::string& text) {
  std::array<unsigned char, 16> bytes{};
  return ::inet_pton(AF_INET, text.c_str(), bytes.data()) == 1 ||
         ::inet_pton(AF_INET6, text.c_str(), bytes.data()) == 1;
}

// "DNS:a,IP:1.2.3.4". The checks keep separators out of the values.
Result<std::string> alternative_names(const CertificateOptions& options) {
  std::string names;
  for (const std::string& name : options.dns_names) {
    if (!is_dns_name(name)) return Error::invalid_input(fmt::format("\"{}\" is not a DNS name.", name));
    names += (names.empty() ? "DNS:" : ",DNS:") + name;
  }
  for (const std::string& address : options.ip_addresses) {
    if (!is_ip_address(address)) return Error::invalid_input(fmt::format("\"{}\" is not an IP address.", address));
    names += (names.empty() ? "IP:" : ",IP:") + address;
  }
  return names;
}

Done set_extensions(X509* certificate, X509* issuer, const CertificateOptions& options, bool is_authority) {
  BASALT_TRY_DONE(add_extension(certificate, issuer, NID_basic_constraints,
                                is_authority ? "critical,CA:TRUE,pathlen:0" : "critical,CA:FALSE"));
  BASALT_TRY_DONE(
      add_extension(certificate, issuer, NID_key_usage,
                    is_authority ? "critical,keyCertSign,cRLSign,digitalSignature" : "critical,digitalSignature"));
  BASALT_TRY_DONE(add_extension(certificate, issuer, NID_subject_key_identifier, "hash"));
  if (issuer != certificate) {
    BASALT_TRY_DONE(add_extension(certificate, issuer, NID_authority_key_identifier, "keyid:always"));
  }
  if (options.is_for_servers || options.is_for_clients) {
    const char* usage = !options.is_for_clients   ? "serverAuth"
                        : !options.is_for_servers ? "clientAuth"
                                                  : "serverAuth,clientAuth";
    BASALT_TRY_DONE(add_extension(certificate, issuer, NID_ext_key_usage, usage));
  }
  BASALT_TRY(const std::string names, alternative_names(options));
  if (!names.empty()) BASALT_TRY_DONE(add_extension(certificate, issuer, NID_subject_alt_name, names.c_str()));
  return Ok{};
}

Result<std::string> key_to_pem(EVP_PKEY* key) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  // The traditional form ("BEGIN EC PRIVATE KEY") is what Kubernetes tools write, and all of them read it.
  if (PEM_write_bio_PrivateKey_traditional(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return openssl_failure("The key cannot be written");
  }
  return bio_content(bio.get());
}

Result<KeyPair> make_certificate(const CertificateOptions& options, Signer signer, bool is_authority) {
  const KeyPtr key(EVP_EC_gen("P-256"));
  if (!key) return openssl_failure("No key could be made");
  const X509Ptr certificate(X509_new());
  if (!certificate || X509_set_version(certificate.get(), X509_VERSION_3) != 1) {
    return openssl_failure("No certificate could be made");
  }
  X509* issuer = signer.certificate == nullptr ? certificate.get() : signer.certificate;
  EVP_PKEY* signing_key = signer.key == nullptr ? key.get() : signer.key;

  BASALT_TRY_DONE(set_serial(certificate.get()));
  BASALT_TRY_DONE(set_lifetime(certificate.get(), options));
  BASALT_TRY_DONE(set_subject(certificate.get(), options.subject));
  if (X509_set_issuer_name(certificate.get(), X509_get_subject_name(issuer)) != 1 ||
      X509_set_pubkey(certificate.get(), key.get()) != 1) {
    return openssl_failure("The certificate cannot be filled in");
  }
  BASALT_TRY_DONE(set_extensions(certificate.get(), issuer, options, is_authority));
  if (X509_sign(certificate.get(), signing_key, EVP_sha256()) == 0) {
    return openssl_failure("The certificate cannot be signed");
  }
  KeyPair pair;
  BASALT_TRY(pair.certificate_pem, certificate_to_pem(certificate.get()));
  BASALT_TRY(pair.key_pem, key_to_pem(key.get()));
  return pair;
}

}  // namespace

Result<KeyPair> make_authority(const CertificateOptions& options) {
  return make_certificate(options, {}, /*is_authority=*/true);
}

Result<KeyPair> issue_certificate(const KeyPair& authority, const CertificateOptions& options) {
  BASALT_TRY_DONE(check_key_pair(authority));
  BASALT_TRY(const auto chain, parse_certificates(authority.certificate_pem));
  BASALT_TRY(const KeyPtr key, parse_private_key(authority.key_pem));
  return make_certificate(options, {.certificate = chain.front().get(), .key = key.get()}, /*is_authority=*/false);
}

Result<KeyPair> make_self_signed(const CertificateOptions& options) {
  return make_certificate(options, {}, /*is_authority=*/false);
}

Result<std::string> make_rsa_key(int bits) {
  if (bits < 2048 || bits > 8192) {
    return Error::invalid_input(fmt::format("An RSA key of {} bits is not made: 2048 to 8192 are.", bits));
  }
  const KeyPtr key(EVP_RSA_gen(static_cast<std::size_t>(bits)));
  if (!key) return openssl_failure("No RSA key could be made");
  return key_to_pem(key.get());
}

}  // namespace basalt::net
