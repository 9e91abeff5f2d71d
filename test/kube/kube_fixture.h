#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace basalt::test {

struct CommandResult {
  int exit = -1;  // what the program returned; 128 + signal if one ended it; -1 if it was not started or took too long
  std::string out;
  std::string err;  // standard error; if exit is -1, the reason
};

struct RealKubeOptions {
  std::vector<std::string> apiserver_args;  // such as "--etcd-compaction-interval=1s"
  std::vector<std::string> etcd_args;
  // For each start of each server. It takes three seconds on an idle machine; tests also run on loaded ones.
  std::chrono::seconds ready_timeout{120};
};

// A real etcd and kube-apiserver of a test's own, started by tools/kube/start in a temporary folder on free loopback
// ports.
//
// The test owns it. Everything stops and the folder goes when it is destroyed, and also when the test process dies in
// whatever way, because the servers' keeper then sees its standard input close. One thread at a time may use it, except
// kubectl(), which any thread may call. Functions that can fail return why they did, or an empty string.
//
// Environment: BASALT_KUBE_DIR is where the binaries are, if not where the build put them; with BASALT_KUBE_KEEP=1 the
// folder stays, for its logs.
class RealKube {
 public:
  struct Started {
    std::unique_ptr<RealKube> kube;  // null if it could not be started
    std::string error;
  };

  // Why a test that needs a cluster may skip itself; empty if it must run. With CI=true nothing is skipped: there
  // start() fails with the same reason.
  [[nodiscard]] static std::string why_skip();

  // Returns when the API server is ready.
  [[nodiscard]] static Started start(const RealKubeOptions& options = {});

  ~RealKube();
  RealKube(const RealKube&) = delete;
  RealKube& operator=(const RealKube&) = delete;

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  [[nodiscard]] const std::string& server_url() const { return server_url_; }  // https://127.0.0.1:PORT
  // The administrator (group system:masters), by client certificate.
  [[nodiscard]] std::filesystem::path kubeconfig() const { return folder_ / "admin.kubeconfig"; }
  [[nodiscard]] std::filesystem::path ca_file() const { return folder_ / "pki/ca.crt"; }
  [[nodiscard]] std::filesystem::path client_certificate_file() const { return folder_ / "pki/admin.crt"; }
  [[nodiscard]] std::filesystem::path client_key_file() const { return folder_ / "pki/admin.key"; }
  // A user without any right, `basalt-test` in the group `basalt-testers`, by bearer token.
  [[nodiscard]] std::filesystem::path user_kubeconfig() const { return folder_ / "user.kubeconfig"; }
  [[nodiscard]] const std::string& user_token() const { return user_token_; }
  [[nodiscard]] std::filesystem::path apiserver_log() const { return folder_ / "apiserver.log"; }

  // Ends the API server in the orderly way and starts it again on the same port. Returns when it is ready.
  [[nodiscard]] std::string restart_apiserver();
  // SIGKILL. Connections break; until start_apiserver() nothing listens on the port.
  [[nodiscard]] std::string kill_apiserver();
  [[nodiscard]] std::string start_apiserver();
  // SIGSTOP and SIGCONT. Meanwhile connections stay open, new ones are accepted by the kernel, and nothing answers.
  [[nodiscard]] std::string pause_apiserver();
  [[nodiscard]] std::string resume_apiserver();
  // The same for etcd: the API server is there and cannot do anything.
  [[nodiscard]] std::string pause_etcd();
  [[nodiscard]] std::string resume_etcd();
  // Makes etcd forget every revision before the present one. The API server still serves old watches, and for
  // some 15 s old lists, from its memory; to have a client see 410 Gone, restart the API server afterwards.
  [[nodiscard]] std::string compact_etcd();

  // Runs kubectl as the administrator (or as `--kubeconfig` among the arguments says), with `input` as standard input.
  [[nodiscard]] CommandResult kubectl(const std::vector<std::string>& args, std::string_view input = {},
                                      std::chrono::seconds timeout = std::chrono::seconds(60)) const;

 private:
  explicit RealKube(std::chrono::seconds ready_timeout) : ready_timeout_(ready_timeout) {}

  // Sends a command line to tools/kube/start and waits for the answer.
  std::string command(std::string_view line);
  // Takes the next line of its standard output; false, and the reason in `line`, if none comes in time.
  bool read_line(std::string& line, std::chrono::seconds timeout);
  void stop();

  // Fixed once start() has returned.
  const std::chrono::seconds ready_timeout_;
  std::filesystem::path folder_;
  std::string server_url_;
  std::string user_token_;

  // Used by the owner's thread only: the process tools/kube/start and the two ends of it that we hold.
  pid_t keeper_ = -1;
  int to_keeper_ = -1;
  int from_keeper_ = -1;
  std::string unread_;
};

}  // namespace basalt::test
