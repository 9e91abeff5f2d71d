#include "apiserver/http/authentication.h"

#include <openssl/crypto.h>

#include "base/strings.h"
#include "net/certificates.h"

namespace basalt::apiserver {
namespace {

constexpr std::size_t kCertificatesMax = 256;

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

UserInfo with_authenticated_group(UserInfo user) {
  user.groups.emplace_back("system:authenticated");
  return user;
}

}  // namespace

Result<UserInfo> Authenticator::user_of_certificate(const std::string& pem) const {
  {
    rt::MutexLock lock(mutex_);
    if (const auto known = certificates_.find(pem); known != certificates_.end()) return known->second;
  }
  BASALT_TRY(const net::CertificateInfo info, net::read_certificate(pem));
  if (info.subject.common_name.empty()) {
    return Error::make(Reason::Unauthorized, "the client certificate has no common name (CN) to take the user from");
  }
  UserInfo user = with_authenticated_group(UserInfo{info.subject.common_name, "", info.subject.organizations});
  rt::MutexLock lock(mutex_);
  if (certificates_.size() >= kCertificatesMax) certificates_.clear();
  certificates_.emplace(pem, user);
  return user;
}

Result<std::optional<UserInfo>> Authenticator::authenticate(const net::ServerRequest& request) const {
  if (!request.peer_certificate_pem.empty()) {
    BASALT_TRY(UserInfo user, user_of_certificate(request.peer_certificate_pem));
    return std::optional(std::move(user));
  }
  const std::string_view header = net::find_header(request.headers, "authorization");
  if (header.empty()) return std::optional<UserInfo>();
  const auto scheme = base::split_once(header, ' ');
  if (!scheme || !base::equals_ignore_case_ascii(scheme->first, "bearer")) {
    return Error::make(Reason::Unauthorized, "only bearer tokens and client certificates are accepted");
  }
  const std::string_view token = base::trim(scheme->second);
  for (const auto& [known, user] : tokens_) {
    if (equal_in_constant_time(known, token)) return std::optional(with_authenticated_group(user));
  }
  BASALT_TRY(UserInfo account, server_.authenticate_token(token));
  return std::optional(std::move(account));
}

}  // namespace basalt::apiserver
