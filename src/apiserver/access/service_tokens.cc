#include "apiserver/access/service_tokens.h"

#include <array>
#include <utility>

#include "base/encoding.h"
#include "base/hash.h"
#include "json/value.h"

namespace basalt::apiserver {
namespace {

constexpr std::size_t kBlockBytes = 64;
constexpr std::size_t kTokenBytesMax = 8192;

// HMAC-SHA-256 (RFC 2104).
std::string hmac(std::string_view key, std::string_view text) {
  std::string block(key.size() > kBlockBytes ? base::as_bytes(base::sha256(key)) : key);
  block.resize(kBlockBytes, '\0');
  std::string inner = block;
  std::string outer = block;
  for (char& c : inner) c = static_cast<char>(c ^ 0x36);
  for (char& c : outer) c = static_cast<char>(c ^ 0x5c);
  const base::Sha256Digest first = base::sha256(inner + std::string(text));
  const base::Sha256Digest second = base::sha256(outer + std::string(base::as_bytes(first)));
  return std::string(base::as_bytes(second));
}

// Takes the same time wherever they differ.
bool is_same(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  return difference == 0;
}

Error refused() { return Error::make(Reason::Unauthorized, "Unauthorized"); }

}  // namespace

std::string sign_token(const ServiceToken& token, std::string_view key) {
  json::Array audiences(token.audiences.begin(), token.audiences.end());
  const json::Value header = json::Object{{"alg", "HS256"}, {"typ", "JWT"}};
  const json::Value claims = json::Object{
      {"iss", kTokenIssuer},
      {"sub", "system:serviceaccount:" + token.ns + ":" + token.name},
      {"aud", std::move(audiences)},
      {"iat", token.issued},
      {"nbf", token.issued},
      {"exp", token.expires},
      {"kubernetes.io", json::Object{{"namespace", token.ns},
                                     {"serviceaccount", json::Object{{"name", token.name}, {"uid", token.uid}}}}}};
  const std::string signed_part =
      base::base64url_encode(header.to_text()) + "." + base::base64url_encode(claims.to_text());
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
