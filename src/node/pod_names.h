#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "api/gen/core_pod.h"
#include "base/log.h"
#include "base/result.h"
#include "kube/client.h"
#include "kube/informer.h"
#include "rt/workers.h"

namespace basalt::node {

// Gives each pod an address of its own from a range of the loopback network: by its UID, the next free one if another
// pod has that. Thread-safe.
class AddressPool {
 public:
  // "127.64.0.0/10"; prefixes from /8 to /24.
  static Result<std::unique_ptr<AddressPool>> make(std::string_view range);

  // The pod's address; the same for every call until it is released. `wanted` is taken if it is free and in the range.
  // "" if all are taken.
  std::string take(const std::string& uid, std::string_view wanted = {});
  void release(const std::string& uid);

 private:
  AddressPool(std::uint32_t base, std::uint32_t count) : base_(base), count_(count) {}

  // Fixed after construction.
  const std::uint32_t base_;
  const std::uint32_t count_;

  rt::Mutex mutex_;
  std::map<std::string, std::uint32_t, std::less<>> by_uid_ BASALT_GUARDED_BY(mutex_);
  std::set<std::uint32_t> taken_ BASALT_GUARDED_BY(mutex_);
};

// What is kept of every pod of the cluster.
struct NamedPod {
  struct Metadata {
    std::string name;
    std::string namespace_;
    std::string uid;
    std::string resource_version;
  } metadata;
  std::string hostname;
  std::string subdomain;
  std::string pod_ip;
};
void decode(json::Reader& reader, NamedPod& pod);

// Hosts files: one for all pods of a namespace that share a subdomain (the tasks of a job), rewritten as pods come and
// go, so that `hostname.subdomain` leads to the pod. Watches all pods; one object serves all nodes of a process.
// Thread-safe; stop() before destruction.
class PodNames {
 public:
  PodNames(rt::Runtime& runtime, kube::Client& client, Logger log, std::string folder);
  ~PodNames();

  void start();
  void stop();

  // The hosts file for this pod; written before this returns. Known with this address even before the API shows it.
  Result<std::string> hosts_file(const api::core::Pod& pod, const std::string& hostname, const std::string& address);
  void forget(const api::core::Pod& pod);

 private:
  struct Entry {
    std::string name;  // of the pod
    std::string hostname;
    std::string address;
  };
  using GroupKey = std::string;  // "namespace/subdomain"

  [[nodiscard]] std::string group_text(const GroupKey& group);
  [[nodiscard]] std::string group_path(const GroupKey& group) const;
  Done write_group(const GroupKey& group);

  // Fixed after construction.
  const std::string folder_;
  const std::string host_lines_;  // what the machine's own file says

  // Self-locking.
  kube::Informer<NamedPod> pods_;
  rt::WorkQueue<GroupKey> queue_;
  std::unique_ptr<rt::Workers<GroupKey>> worker_;

  rt::Mutex mutex_;
  std::map<GroupKey, std::map<std::string, Entry>> local_ BASALT_GUARDED_BY(mutex_);  // by UID; groups in use here
};

// The name of the pod inside it: spec.hostname, else its own, cut to what a hostname may be.
[[nodiscard]] std::string hostname_of(const api::core::Pod& pod);

}  // namespace basalt::node
