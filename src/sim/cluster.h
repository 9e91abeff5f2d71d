#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/registry/api_server.h"
#include "base/log.h"
#include "kube/client.h"
#include "rt/runtime.h"
#include "sim/driver.h"

namespace basalt::sim {

// An API server in memory with all CRDs installed, and the short words of Driver as an administrator. stop() before
// destruction; every client thread has ended by then.
class Cluster : public Driver {
 public:
  struct Options {
    Logger log;
    bool with_default_queue = true;  // creates the queues "root" and "default", the latter Open
    std::vector<std::shared_ptr<apiserver::AdmissionHook>> hooks;
    std::vector<std::string> crds;         // plurals of those to install, to start faster; all if empty
    apiserver::ApiServer::Options server;  // in memory unless said otherwise
  };
  explicit Cluster(rt::Runtime& runtime);
  Cluster(rt::Runtime& runtime, Options options);
  ~Cluster() override;
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;
  void stop();

  [[nodiscard]] apiserver::ApiServer& server() { return *server_; }
  // Another client, as another user.
  [[nodiscard]] std::unique_ptr<kube::Client> make_client(std::string user, std::vector<std::string> groups = {});

 protected:
  [[nodiscard]] std::optional<Kind> find_kind(std::string_view group, std::string_view version,
                                              std::string_view kind) const override;

 private:
  std::unique_ptr<apiserver::ApiServer> server_;
  std::unique_ptr<kube::Client> client_;
};

}  // namespace basalt::sim
