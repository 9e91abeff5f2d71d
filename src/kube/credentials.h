#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "rt/runtime.h"
#include "rt/stop.h"

namespace basalt::kube {

// A program that makes credentials, as `users[].user.exec` of a kubeconfig describes it.
struct ExecConfig {
  std::string api_version;  // client.authentication.k8s.io/v1 or /v1beta1
  std::string command;      // a relative path with a slash is relative to the kubeconfig; resolved when that is read
  std::vector<std::string> args;
  std::vector<std::pair<std::string, std::string>> env;
  std::string install_hint;
  bool provide_cluster_info = false;
  std::string interactive_mode;  // Never, IfAvailable, Always
  std::string origin;            // "user \"dev\" in /home/me/.kube/config", for messages
};

struct ClusterInfo {  // what a program that asks for it is told
  std::string server;
  std::string tls_server_name;
  bool insecure_skip_tls_verify = false;
  std::string ca_pem;
  std::string proxy_url;
};

// What to show a server.
struct Credential {
  std::string authorization;    // the header's value, "" for none
  std::string certificate_pem;  // "" unless a program made one
  std::string key_pem;
  bool operator==(const Credential&) const = default;
};

// Where a client gets its credential for each call. Thread-safe. get() is cheap once cached; it may run a program or
// read a file.
class Credentials {
 public:
  virtual ~Credentials() = default;
  virtual Result<Credential> get(const rt::StopToken& stop) = 0;
  // The server refused `refused`. True if get() may now give something else.
  virtual bool refresh(const Credential& refused) = 0;
};

struct ProcessResult {
  int exit_code = -1;  // 128 + signal if one ended it
  std::string out;
  std::string err;
};
// Runs a program to its end. Replaced in tests.
using ProcessRunner = std::function<Result<ProcessResult>(const std::vector<std::string>& argv,
                                                          const std::vector<std::pair<std::string, std::string>>& env,
                                                          const rt::StopToken& stop)>;
// The operating system's: at most 60 s and 1 MiB of output; standard input is closed.
[[nodiscard]] ProcessRunner make_process_runner(rt::Runtime& runtime);

[[nodiscard]] std::shared_ptr<Credentials> no_credentials();
[[nodiscard]] std::shared_ptr<Credentials> bearer_token(std::string token);
// Read again at most once a minute, and at once after a refusal: service account tokens rotate. While the file cannot
// be read the last good token stays.
[[nodiscard]] std::shared_ptr<Credentials> bearer_token_file(rt::Runtime& runtime, std::string path);
[[nodiscard]] std::shared_ptr<Credentials> basic_auth(const std::string& username, const std::string& password);
// Cached until the expirationTimestamp that the program gave (less a little), else until refused.
[[nodiscard]] std::shared_ptr<Credentials> exec_credentials(rt::Runtime& runtime, ExecConfig config,
                                                            std::optional<ClusterInfo> cluster, ProcessRunner runner);

}  // namespace basalt::kube
