#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "base/result.h"
#include "rt/time.h"

namespace basalt::net {

// Keys and X.509 certificates as PEM text. Everything here is pure or touches only the named file; any thread may call.
// Keys are ECDSA P-256 (every TLS stack in use takes them), signatures SHA-256.

struct KeyPair {
  std::string certificate_pem;  // may hold a chain: the leaf first
  std::string key_pem;
};

// In client certificates Kubernetes reads the user from CN and the groups from O.
struct CertificateSubject {
  std::string common_name;
  std::vector<std::string> organizations;
  bool operator==(const CertificateSubject&) const = default;
};

struct CertificateOptions {
  CertificateSubject subject;
  std::vector<std::string> dns_names;
  std::vector<std::string> ip_addresses;
  bool is_for_servers = false;
  bool is_for_clients = false;
  rt::WallTime not_before;
  rt::WallTime not_after;
};

// A self-signed authority that may sign leaves but no further authorities.
[[nodiscard]] Result<KeyPair> make_authority(const CertificateOptions& options);
// A leaf signed by `authority`. InvalidInput for an address or a name that does not fit a certificate.
[[nodiscard]] Result<KeyPair> issue_certificate(const KeyPair& authority, const CertificateOptions& options);
// A leaf that signs itself: whoever trusts it names it as its authority.
[[nodiscard]] Result<KeyPair> make_self_signed(const CertificateOptions& options);

struct CertificateInfo {
  CertificateSubject subject;
  CertificateSubject issuer;
  std::vector<std::string> dns_names;
  std::vector<std::string> ip_addresses;
  rt::WallTime not_before;
  rt::WallTime not_after;
  bool is_authority = false;
  std::string serial_hex;
};
// Of the first certificate in the text.
[[nodiscard]] Result<CertificateInfo> read_certificate(std::string_view pem);

// InvalidInput if either text is no PEM or the key does not belong to the (first) certificate.
[[nodiscard]] Done check_key_pair(const KeyPair& pair);
// InvalidInput unless the text holds at least one certificate and nothing broken.
[[nodiscard]] Done check_certificates(std::string_view pem);
// Is the (first) certificate signed, through the others in its text, by one of `authorities_pem`, and valid at `now`?
[[nodiscard]] Done verify_certificate(std::string_view certificate_pem, std::string_view authorities_pem,
                                      rt::WallTime now);

// A new RSA key in the traditional PEM form ("BEGIN RSA PRIVATE KEY") that sshd and older tools read.
[[nodiscard]] Result<std::string> make_rsa_key(int bits);
// "ssh-rsa AAAA...", without a comment and without a line end.
[[nodiscard]] Result<std::string> openssh_public_key(std::string_view rsa_key_pem);

// Either the old file or the whole new one, also after a crash: written beside it, synced, renamed.
[[nodiscard]] Done write_file_atomically(const std::string& path, std::string_view content, mode_t mode);
// InvalidInput if it cannot be read or is larger than `bytes_max`.
[[nodiscard]] Result<std::string> read_file(const std::string& path, std::size_t bytes_max);

}  // namespace basalt::net
