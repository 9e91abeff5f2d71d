#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "apiserver/registry/api_server.h"
#include "apiserver/registry/wake_signal.h"
#include "base/log.h"
#include "json/value.h"
#include "kube/client.h"
#include "rt/runtime.h"
#include "rt/stop.h"

namespace basalt::apiserver {

// Looks after namespaces and CRDs: gives every namespace its default service account and the cluster's root CA, and
// again if somebody takes them away; empties what is being deleted and lets it go when nothing is left. One thread;
// failures are tried again, for ever.
class NamespaceKeeper {
 public:
  NamespaceKeeper(rt::Runtime& runtime, Logger log, ApiServer& server, std::string cluster_ca_pem);
  ~NamespaceKeeper();
  void stop();

 private:
  void run();
  bool take_changes(Watcher& watcher, std::set<std::string>& names);
  // What every namespace has.
  struct Furniture {
    std::unique_ptr<Watcher> accounts;
    std::unique_ptr<Watcher> config_maps;
  };
  // False if they begin anew, and all namespaces have to be looked at.
  bool watch_furniture(Furniture& furniture);
  static void take_furniture(Furniture& furniture, std::set<std::string>& namespaces);
  // True if it is done with, false if it has to be looked at again soon.
  bool keep_namespace(const std::string& name);
  bool keep_crd(const std::string& name);
  Done furnish(const std::string& ns);
  // What is left of the objects in a namespace that is being deleted: pods go first, the rest when none is left.
  struct Rest {
    std::map<std::string, std::size_t> objects;     // by "plural.group"
    std::map<std::string, std::size_t> finalizers;  // how many objects wait for each
    bool has_failed = false;
  };
  [[nodiscard]] Rest empty_namespace(const std::string& ns);
  void tell(const json::Value& ns, const Rest& rest);
  Result<std::size_t> empty_of(const ResourceType& type, const std::string& ns);
  Done ensure(const kube::Resource& resource, const std::string& ns, const std::string& name, std::string body);

  rt::Runtime& runtime_;
  Logger log_;
  ApiServer& server_;
  std::string cluster_ca_pem_;
  std::unique_ptr<kube::Client> client_;
  std::shared_ptr<WakeSignal> signal_;
  rt::StopSource stop_;
  rt::Thread thread_;
};

}  // namespace basalt::apiserver
