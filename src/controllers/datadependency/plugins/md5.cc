#include "controllers/datadependency/plugins/md5.h"

#include <array>

#include <openssl/evp.h>

#include "base/encoding.h"

namespace basalt::controllers::datadependency {

std::string md5_hex(std::string_view bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_md5(), nullptr) != 1) return "";
  return base::hex_encode(std::string_view(reinterpret_cast<const char*>(digest.data()), size));
}

}  // namespace basalt::controllers::datadependency
