#include "apiserver/registry/continue_token.h"

#include "apiserver/registry/errors.h"
#include "base/encoding.h"
#include "json/value.h"

namespace basalt::apiserver {
namespace {

constexpr std::size_t kTokenBytesMax = 4096;  // names are short; anything longer was not made by us
constexpr std::string_view kVersion = "basalt/v1";

}  // namespace

std::string ContinueToken::encode() const {
  const json::Value value = json::Object{{"v", kVersion}, {"rv", revision}, {"after", after},
                                         {"seen", seen},  {"total", total}, {"begun", begun}};
  return base::base64url_encode(value.to_text());
}

Result<ContinueToken> ContinueToken::decode(std::string_view text) {
  const Error bad = bad_request("continue key is not valid: it was not issued by this server");
  if (text.size() > kTokenBytesMax) return bad;
  const auto plain = base::base64url_decode(text);
  if (!plain) return bad;
  const auto value = json::Value::parse(*plain);
  if (!value.ok() || value->string_at({"v"}) != kVersion) return bad;
  ContinueToken token;
  token.after = std::string(value->string_at({"after"}));
  const auto number = [&](std::string_view key) {
    const json::Value* found = value->find(key);
    return found != nullptr && found->is_int() ? found->as_int() : -2;
  };
  token.revision = number("rv");
  token.seen = number("seen");
  token.total = number("total");
  token.begun = number("begun");
  if (token.after.empty() || (token.revision <= 0 && token.revision != kNewest)) return bad;
  if (token.seen < 0 || token.total < 0 || token.begun < 0) return bad;
  return token;
}

}  // namespace basalt::apiserver
