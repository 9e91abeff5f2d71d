#include "apiserver/access/service_tokens.h"

#include <array>
#include <utility>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/check.h"
#include "base/encoding.h"
#include "json/value.h"

namespace basalt::apiserver {
namespace {

constexpr std::size_t kTokenBytesMax = 8192;

std::string hmac(std::string_view key, std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  const unsigned char* made =
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), bytes, text.size(), digest.data(), &size);
  BASALT_CHECK(made != nullptr);
  return std::string(reinterpret_cast<const char*>(digest.data()), size);
}

bool is_same(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

Error refused() { return Error::make(Reason::Unauthorized, "Unauthorized"); }

}  // namespace

std::string sign_token(const ServiceToken& token, std::string_view key) {
  json::Array audiences(token.audiences.begin(), token.audiences.end());
  json::Object about{{"namespace", token.ns},
                     {"serviceaccount", json::Object{{"name", token.name}, {"uid", token.uid}}}};
  for (const ServiceToken::Bound& one : {token.bound, token.node}) {
    if (!one.kind.empty()) about.set(one.kind, json::Object{{"name", one.name}, {"uid", one.uid}});
  }
  if (token.warn_after != 0) about.set("warnafter", token.warn_after);
  const json::Value header = json::Object{{"alg", "HS256"}, {"typ", "JWT"}};
  json::Object claims{{"iss", kTokenIssuer},
                      {"sub", "system:serviceaccount:" + token.ns + ":" + token.name},
                      {"aud", std::move(audiences)},
                      {"iat", token.issued},
                      {"nbf", token.issued},
                      {"exp", token.expires},
                      {"kubernetes.io", std::move(about)}};
  if (!token.id.empty()) claims.set("jti", token.id);
  const std::string signed_part =
      base::base64url_encode(header.to_text()) + "." + base::base64url_encode(json::Value(std::move(claims)).to_text());
  return signed_part + "." + base::base64url_encode(hmac(key, signed_part));
}

Result<ServiceToken> check_token(std::string_view text, std::string_view key, std::int64_t now) {
  const std::size_t first = text.find('.');
  const std::size_t last = text.rfind('.');
  if (text.size() > kTokenBytesMax || first == std::string_view::npos || first == last) return refused();
  const auto signature = base::base64url_decode(text.substr(last + 1));
  if (!signature || !is_same(*signature, hmac(key, text.substr(0, last)))) return refused();
  const auto decoded = base::base64url_decode(text.substr(first + 1, last - first - 1));
  if (!decoded) return refused();
  const auto claims = json::Value::parse(*decoded);
  if (!claims.ok()) return refused();
  ServiceToken token;
  token.ns = std::string(claims->string_at({"kubernetes.io", "namespace"}));
  token.name = std::string(claims->string_at({"kubernetes.io", "serviceaccount", "name"}));
  token.uid = std::string(claims->string_at({"kubernetes.io", "serviceaccount", "uid"}));
  token.id = std::string(claims->string_at({"jti"}));
  // A pod's token names its node as well; the pod is what counts.
  for (const std::string_view kind : {"node", "secret", "pod"}) {
    const json::Value* bound = claims->find_path({"kubernetes.io", kind});
    if (bound == nullptr) continue;
    if (kind == "pod") token.node = token.bound;
    token.bound = {std::string(kind), std::string(bound->string_at({"name"})), std::string(bound->string_at({"uid"}))};
  }
  if (const json::Value* audiences = claims->find("aud"); audiences != nullptr && audiences->is_array()) {
    for (const json::Value& one : audiences->as_array()) {
      if (one.is_string()) token.audiences.push_back(one.as_string());
    }
  }
  const json::Value* expires = claims->find("exp");
  const json::Value* issued = claims->find("iat");
  if (expires == nullptr || !expires->is_int() || issued == nullptr || !issued->is_int()) return refused();
  token.expires = expires->as_int();
  token.issued = issued->as_int();
  if (token.expires <= now || token.name.empty()) return refused();
  return token;
}

}  // namespace basalt::apiserver
