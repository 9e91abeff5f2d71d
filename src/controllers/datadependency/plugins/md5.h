#pragma once

#include <string>
#include <string_view>

namespace basalt::controllers::datadependency {

// Lower-case hexadecimal digits. Only for Amoro's signatures, which are defined by it.
[[nodiscard]] std::string md5_hex(std::string_view bytes);

}  // namespace basalt::controllers::datadependency
