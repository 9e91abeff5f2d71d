#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "net/certificates.h"
#include "rt/runtime.h"

namespace basalt::apiserver {

// What a cluster in a folder keeps beside its objects: its authority, the server's and the administrator's
// certificates, the administrator's token, the port it last had, and the kubeconfig. Everything secret has mode 0600,
// the folder 0700.
struct ClusterFiles {
  std::string folder;
  net::KeyPair authority;
  net::KeyPair server;
  net::KeyPair admin;
  std::string admin_token;
  std::string service_token_key;  // signs the tokens of service accounts
  std::uint16_t port = 0;         // the port it had last time, 0 if there was none

  [[nodiscard]] std::string kubeconfig_path() const { return folder + "/kubeconfig"; }
};

// Reads them, or makes those that are missing or about to expire. Errors name the file.
[[nodiscard]] Result<ClusterFiles> open_cluster_files(rt::Runtime& runtime, const std::string& folder,
                                                      const std::string& address);
// Writes the kubeconfig for the server at this URL and remembers the port.
[[nodiscard]] Done write_kubeconfig(const ClusterFiles& files, const std::string& server_url, std::uint16_t port);

}  // namespace basalt::apiserver
