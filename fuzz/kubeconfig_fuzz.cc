#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "kube/kubeconfig.h"

// Any text is either refused with a message that names the file, or read; what was read can be resolved in every
// context without a crash.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace basalt;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto config = kube::parse_kubeconfig(text, "/folder/config");
  if (!config.ok()) {
    BASALT_CHECK(config.error().message.find("/folder/config") != std::string::npos);
    return 0;
  }
  (void)kube::resolve_config(*config, {});
  for (const auto& context : config->contexts) (void)kube::resolve_config(*config, {.context = context.name});
  for (const auto& user : config->users)
    (void)kube::resolve_config(*config, {.user = user.name, .server = "https://x"});
  return 0;
}
