#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kube/client.h"
#include "rt/stop.h"
#include "sim/driver.h"

namespace basalt::test {

inline bool is_of_the_server(const json::Value& object) {
  const std::string_view ns = object.string_at({"metadata", "namespace"});
  return ns.starts_with("kube-") || object.string_at({"metadata", "name"}) == "kubernetes";
}

// Deletes what has lost all its owners, and finishes deletions that wait for what is owned (in the foreground) or leave
// it behind (orphans), as Kubernetes' collector does. For tests on a server without one.
class PlayedCollector {
 public:
  struct Kinds {
    std::vector<kube::Resource> owners;
    std::vector<kube::Resource> owned;
  };
  PlayedCollector(rt::Runtime& runtime, kube::Client& client, Kinds kinds)
      : driver_(runtime, client), kinds_(std::move(kinds)), stop_(runtime) {
    thread_ = rt::Thread(runtime, "collector", [this, &runtime] {
      while (!stop_.token().wait_for(runtime, std::chrono::milliseconds(100))) collect();
    });
  }
  ~PlayedCollector() {
    stop_.request_stop();
    thread_.join();
  }

 private:
  struct Owned {
    kube::Resource resource;
    std::string ns, name, uid;
    std::vector<std::string> owners;
  };

  void collect() {
    // Those that are owned first: an owner that is made later is not taken for one that is gone.
    std::vector<Owned> all;
    for (const kube::Resource& resource : kinds_.owned) {
      for (const json::Value& object : driver_.list(resource)) {
        const json::Value* owners = object.find_path({"metadata", "ownerReferences"});
        if (owners == nullptr || is_of_the_server(object)) continue;
        Owned one{resource,
                  std::string(object.string_at({"metadata", "namespace"})),
                  std::string(object.string_at({"metadata", "name"})),
                  std::string(object.string_at({"metadata", "uid"})),
                  {}};
        for (const json::Value& owner : owners->as_array()) one.owners.emplace_back(owner.string_at({"uid"}));
        all.push_back(std::move(one));
      }
    }
    std::set<std::string> live;
    for (const kube::Resource& resource : kinds_.owners) {
      for (const json::Value& object : driver_.list(resource)) {
        const std::string uid(object.string_at({"metadata", "uid"}));
        if (is_waiting_for(object, "foregroundDeletion")) {
          finish(resource, object, all);
        } else if (is_waiting_for(object, "orphan")) {
          leave_behind(resource, object, all);
          live.insert(uid);  // until it is gone they are its own
        } else {
          live.insert(uid);
        }
      }
    }
    for (const Owned& one : all) {
      const bool has_owner =
          std::any_of(one.owners.begin(), one.owners.end(), [&](const std::string& uid) { return live.contains(uid); });
      if (!has_owner) remove(one);
    }
  }

  static bool is_waiting_for(const json::Value& object, std::string_view finalizer) {
    const json::Value* finalizers = object.find_path({"metadata", "finalizers"});
    if (finalizers == nullptr || object.string_at({"metadata", "deletionTimestamp"}).empty()) return false;
    const auto& all = finalizers->as_array();
    return std::any_of(all.begin(), all.end(), [&](const auto& one) { return one.as_string() == finalizer; });
  }

  void finish(const kube::Resource& resource, const json::Value& owner, const std::vector<Owned>& all) {
    const std::string uid(owner.string_at({"metadata", "uid"}));
    for (const Owned& one : all) {
      if (std::find(one.owners.begin(), one.owners.end(), uid) != one.owners.end()) return;
    }
    (void)driver_.try_patch(resource, owner.string_at({"metadata", "namespace"}), owner.string_at({"metadata", "name"}),
                            R"({"metadata":{"finalizers":null}})");
  }

  void leave_behind(const kube::Resource& resource, const json::Value& owner, const std::vector<Owned>& all) {
    const std::string uid(owner.string_at({"metadata", "uid"}));
    for (const Owned& one : all) {
      if (std::find(one.owners.begin(), one.owners.end(), uid) != one.owners.end())
        (void)driver_.try_patch(one.resource, one.ns, one.name, R"({"metadata":{"ownerReferences":null}})");
    }
    (void)driver_.try_patch(resource, owner.string_at({"metadata", "namespace"}), owner.string_at({"metadata", "name"}),
                            R"({"metadata":{"finalizers":null}})");
  }

  void remove(const Owned& one) {
    kube::Request request;
    request.verb = kube::Verb::Delete;
    request.resource = one.resource;
    request.ns = one.ns;
    request.name = one.name;
    request.precondition_uid = one.uid;
    (void)driver_.client().call(request, {});
  }

  sim::Driver driver_;
  const Kinds kinds_;
  rt::StopSource stop_;
  rt::Thread thread_;
};

}  // namespace basalt::test
