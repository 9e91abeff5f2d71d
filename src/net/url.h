#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace basalt::net {

// An absolute http or https URL in its parts. User information ("user:password@") and fragments are refused: neither
// belongs in a request's URL.
struct Url {
  std::string scheme;  // "http" or "https", lower case
  std::string host;    // as written; an IPv6 address without its brackets
  std::uint16_t port = 0;
  std::string path;   // as written, "/" if there was none
  std::string query;  // as written, without '?'

  [[nodiscard]] std::string host_and_port() const;  // "example.org:443", "[::1]:443"
  [[nodiscard]] std::string origin() const;         // "https://example.org:443"
  [[nodiscard]] std::string to_string() const;
};
[[nodiscard]] Result<Url> parse_url(std::string_view text);

// "host:port", "[v6]:port"; InvalidInput without a port. An empty host is allowed (":8080").
struct HostPort {
  std::string host;
  std::uint16_t port = 0;
};
[[nodiscard]] Result<HostPort> parse_host_port(std::string_view text);

// Everything but letters, digits and "-._~" becomes %XX: fits a path segment, a query's name and a query's value.
[[nodiscard]] std::string percent_encode(std::string_view text);
// Nothing if a '%' is not followed by two hexadecimal digits.
[[nodiscard]] std::optional<std::string> percent_decode(std::string_view text);

// Parameters in the order in which they stand; a name may come more than once.
using Query = std::vector<std::pair<std::string, std::string>>;
// Decodes names and values ('+' is a blank). BadRequest for bad escapes and for more than `parameters_max`.
[[nodiscard]] Result<Query> parse_query(std::string_view text, std::size_t parameters_max = 64);
[[nodiscard]] std::string build_query(const Query& query);
// The first value of that name; nothing if there is none.
[[nodiscard]] std::optional<std::string_view> find_parameter(const Query& query, std::string_view name);

}  // namespace basalt::net
