#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace basalt::base {

// Bytes as text and back (RFC 4648). Decoders are strict: a foreign character, wrong padding or left-over bits that are
// not zero give nothing. Linear time.

[[nodiscard]] std::string base64_encode(std::string_view bytes);  // with padding, as in Secrets
[[nodiscard]] std::optional<std::string> base64_decode(std::string_view text);
[[nodiscard]] std::string base64url_encode(std::string_view bytes);  // without padding, as in JSON web tokens
[[nodiscard]] std::optional<std::string> base64url_decode(std::string_view text);

[[nodiscard]] std::string hex_encode(std::string_view bytes);                // lower case
[[nodiscard]] std::optional<std::string> hex_decode(std::string_view text);  // either case

// Lower case a-z2-7 without padding: fit for names and label values.
[[nodiscard]] std::string base32_encode(std::string_view bytes);
[[nodiscard]] std::optional<std::string> base32_decode(std::string_view text);

}  // namespace basalt::base
