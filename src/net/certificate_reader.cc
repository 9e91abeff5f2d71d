#include <array>
#include <cstdint>
#include <ctime>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <openssl/core_names.h>
#include <openssl/err.h>

#include "base/encoding.h"
#include "net/certificates.h"
#include "net/openssl_util.h"

namespace basalt::net {
namespace {

using StoreContextPtr = std::unique_ptr<X509_STORE_CTX, OpensslDelete<X509_STORE_CTX_free>>;

std::string to_utf8(const ASN1_STRING* text) {
  unsigned char* bytes = nullptr;
  const int size = ASN1_STRING_to_UTF8(&bytes, text);
  if (size < 0) return {};
  std::string out(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
  OPENSSL_free(bytes);
  return out;
}

std::vector<std::string> name_entries(const X509_NAME* name, int nid) {
  std::vector<std::string> values;
  for (int at = X509_NAME_get_index_by_NID(name, nid, -1); at >= 0; at = X509_NAME_get_index_by_NID(name, nid, at)) {
    values.push_back(to_utf8(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, at))));
  }
  return values;
}

CertificateSubject to_subject(const X509_NAME* name) {
  CertificateSubject subject;
  const auto common_names = name_entries(name, NID_commonName);
  // Of several the last counts, as Go's x509 package reads it and with it Kubernetes.
  if (!common_names.empty()) subject.common_name = common_names.back();
  subject.organizations = name_entries(name, NID_organizationName);
  return subject;
}

rt::WallTime to_wall_time(const ASN1_TIME* time) {
  std::tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return {};
  return rt::WallTime(std::chrono::seconds(::timegm(&parts)));
}

std::string ip_text(const ASN1_OCTET_STRING* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const int size = ASN1_STRING_length(address);
  const int family = size == 4 ? AF_INET : AF_INET6;
  if (size != 4 && size != 16) return {};
  return ::inet_ntop(family, ASN1_STRING_get0_data(address), text.data(), text.size()) == nullptr ? "" : text.data();
}

void read_alternative_names(const X509* certificate, CertificateInfo& info) {
  auto* names = static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; i < sk_GENERAL_NAME_num(names); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names, i);
    if (name->type == GEN_DNS) info.dns_names.push_back(to_utf8(name->d.dNSName));
    if (name->type == GEN_IPADD) info.ip_addresses.push_back(ip_text(name->d.iPAddress));
  }
  GENERAL_NAMES_free(names);
}

std::string serial_text(const X509* certificate) {
  BIGNUM* number = ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), nullptr);
  char* text = number == nullptr ? nullptr : BN_bn2hex(number);
  std::string serial = text == nullptr ? "" : text;
  OPENSSL_free(text);
  BN_free(number);
  return serial;
}

// One field of OpenSSH's binary form: its length in four bytes, then the bytes.
void append_ssh_field(std::string& out, std::string_view bytes) {
  const auto size = static_cast<std::uint32_t>(bytes.size());
  for (const int shift : {24, 16, 8, 0}) out.push_back(static_cast<char>((size >> shift) & 0xff));
  out.append(bytes);
}

// A number without leading zeros, but one if the first bit is set, because the form is signed.
Result<std::string> ssh_number(const EVP_PKEY* key, const char* parameter) {
  BIGNUM* number = nullptr;
  if (EVP_PKEY_get_bn_param(key, parameter, &number) != 1) return openssl_failure("The key is not an RSA key");
  std::string bytes(static_cast<std::size_t>(BN_num_bytes(number)), '\0');
  BN_bn2bin(number, reinterpret_cast<unsigned char*>(bytes.data()));
  BN_free(number);
  if (!bytes.empty() && (static_cast<unsigned char>(bytes.front()) & 0x80) != 0) bytes.insert(bytes.begin(), '\0');
  return bytes;
}

}  // namespace

Result<CertificateInfo> read_certificate(std::string_view pem) {
  BASALT_TRY(const auto chain, parse_certificates(pem));
  X509* certificate = chain.front().get();
  CertificateInfo info;
  info.subject = to_subject(X509_get_subject_name(certificate));
  info.issuer = to_subject(X509_get_issuer_name(certificate));
  info.not_before = to_wall_time(X509_get0_notBefore(certificate));
  info.not_after = to_wall_time(X509_get0_notAfter(certificate));
  info.is_authority = X509_check_ca(certificate) == 1;
  info.serial_hex = serial_text(certificate);
  read_alternative_names(certificate, info);
  ERR_clear_error();
  return info;
}

Done check_key_pair(const KeyPair& pair) {
  BASALT_TRY(const auto chain, parse_certificates(pair.certificate_pem));
  BASALT_TRY(const KeyPtr key, parse_private_key(pair.key_pem));
  if (X509_check_private_key(chain.front().get(), key.get()) != 1) {
    ERR_clear_error();
    return Error::invalid_input("The private key does not belong to the certificate.");
  }
  return Ok{};
}

Done check_certificates(std::string_view pem) {
  BASALT_TRY([[maybe_unused]] const auto certificates, parse_certificates(pem));
  return Ok{};
}

Done verify_certificate(std::string_view certificate_pem, std::string_view authorities_pem, rt::WallTime now) {
  BASALT_TRY(const auto chain, parse_certificates(certificate_pem));
  BASALT_TRY(const auto authorities, parse_certificates(authorities_pem));
  const X509StorePtr store(X509_STORE_new());
  const StoreContextPtr context(X509_STORE_CTX_new());
  STACK_OF(X509)* others = sk_X509_new_null();
  if (!store || !context || others == nullptr) return openssl_failure("The certificate cannot be verified");
  for (const X509Ptr& authority : authorities) X509_STORE_add_cert(store.get(), authority.get());
  for (std::size_t i = 1; i < chain.size(); ++i) sk_X509_push(others, chain[i].get());

  int verified = X509_STORE_CTX_init(context.get(), store.get(), chain.front().get(), others);
  if (verified == 1) {
    X509_VERIFY_PARAM* parameters = X509_STORE_CTX_get0_param(context.get());
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count();
    X509_VERIFY_PARAM_set_time(parameters, seconds);
    // A leaf that signed itself is trusted if it is named as an authority.
    X509_VERIFY_PARAM_set_flags(parameters, X509_V_FLAG_PARTIAL_CHAIN);
    verified = X509_verify_cert(context.get());
  }
  const int code = X509_STORE_CTX_get_error(context.get());
  sk_X509_free(others);
  ERR_clear_error();
  if (verified == 1) return Ok{};
  return Error::invalid_input(fmt::format("The certificate of \"{}\" is not accepted: {}.",
                                          to_subject(X509_get_subject_name(chain.front().get())).common_name,
                                          X509_verify_cert_error_string(code)));
}

Result<std::string> openssh_public_key(std::string_view rsa_key_pem) {
  BASALT_TRY(const KeyPtr key, parse_private_key(rsa_key_pem));
  BASALT_TRY(const std::string exponent, ssh_number(key.get(), OSSL_PKEY_PARAM_RSA_E));
  BASALT_TRY(const std::string modulus, ssh_number(key.get(), OSSL_PKEY_PARAM_RSA_N));
  std::string blob;
  append_ssh_field(blob, "ssh-rsa");
  append_ssh_field(blob, exponent);
  append_ssh_field(blob, modulus);
  return "ssh-rsa " + base::base64_encode(blob);
}

}  // namespace basalt::net
