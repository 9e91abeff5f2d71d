#pragma once

#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/client/terminal.h"
#include "kube/client.h"
#include "rt/mutex.h"
#include "rt/runtime.h"
#include "rt/stop.h"

namespace basalt::cli {

// Where and as whom to connect; "" = as the kubeconfig says.
struct ConnectionFlags {
  std::string master;      // -s, --master: the address of the API server
  std::string kubeconfig;  // -k, --kubeconfig
  std::string context;     // --context
};

// Plain GETs beside the typed API: /version, /readyz, logs.
class RawApi {
 public:
  virtual ~RawApi() = default;
  // The body of an answer with a code below 300; any other is an error.
  virtual Result<std::string> get(const std::string& path_and_query, const rt::StopToken& stop) = 0;
};

// Ctrl-C. The first one stops what holds the token; whoever wants to go on takes a new token by rearm(). Thread-safe.
class Interrupts {
 public:
  explicit Interrupts(rt::Runtime& runtime);
  [[nodiscard]] rt::StopToken token();
  // False if the last token had been stopped already: nobody deals with interrupts, the process may end.
  bool interrupt();
  void rearm();

 private:
  rt::Runtime& runtime_;
  rt::Mutex mutex_;
  std::shared_ptr<rt::StopSource> source_;  // guarded by mutex_
};

struct Connection {
  kube::Client* client = nullptr;  // lives as long as the host
  RawApi* raw = nullptr;
  std::string ns = "default";  // of the context
  std::string server;
  std::string context;
};

// Everything of the process that a command may touch. One implementation is the process itself (process_host.h),
// another a simulated cluster in tests.
class Host {
 public:
  virtual ~Host() = default;
  virtual rt::Runtime& runtime() = 0;
  virtual Interrupts& interrupts() = 0;
  virtual Result<Connection> connect(const ConnectionFlags& flags) = 0;
  // Whether anything says which cluster is meant: a flag, a kubeconfig, a pod's service account.
  [[nodiscard]] virtual bool is_configured(const ConnectionFlags& flags) const = 0;
  // Starts a cluster in this process that ends with the host. What is worth telling goes to `err`.
  virtual Result<Connection> start_local(std::ostream& err) = 0;
  [[nodiscard]] virtual Terminal terminal() const = 0;
  [[nodiscard]] virtual std::optional<std::string> variable(std::string_view name) const = 0;
  // "-" is the standard input. Errors name the file.
  virtual Result<std::string> read_file(const std::string& path) = 0;
  // A line that the user types; nothing at the end of input or on an interrupt.
  virtual std::optional<std::string> read_answer() = 0;
};

// A command at work.
struct Session {
  Host& host;
  rt::Runtime& runtime;
  kube::Client& client;
  RawApi& raw;
  std::string ns;  // where objects are looked for if no flag says otherwise
  std::string server;
  std::string context;
  std::ostream& out;
  std::ostream& err;
  rt::StopToken stop;
  bool suggests = true;   // whether errors may say more than the server did (vcctl's scripts compare them)
  bool is_local = false;  // the cluster was started for this command and ends with it
};

}  // namespace basalt::cli
