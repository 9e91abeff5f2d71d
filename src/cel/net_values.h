#pragma once

#include <string_view>

#include "cel/value.h"

namespace basalt::cel {

// Kubernetes' values of addresses: net.IP, net.CIDR, URL. Errors say what is wrong with the text.
[[nodiscard]] Result<Value> parse_ip(std::string_view text);
[[nodiscard]] Result<Value> parse_cidr(std::string_view text);
// An absolute URL or an absolute path.
[[nodiscard]] Result<Value> parse_url(std::string_view text);

}  // namespace basalt::cel
