#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/log.h"
#include "federation/member.h"
#include "federation/propagator.h"
#include "kube/client.h"
#include "rt/runtime.h"

namespace basalt::federation {

struct FederationOptions {
  int workers = 8;
  rt::Duration backoff_max = std::chrono::seconds(10);
  rt::Duration gather = std::chrono::milliseconds(10);  // status changes of members within this are told once
  MemberOptions member;
  PropagatorOptions propagator;
};

// The stand-in for Karmada in embedded use and in tests: one host API (the control plane, where hyper jobs, policies
// and bindings live) and the APIs of its members. It is NOT Karmada: see README.md for what it leaves out.
//
//   crds::install_karmada(runtime, host, stop);
//   Federation federation(runtime, host, {{"c1", &client1}, {"c2", &client2}}, log);
//   federation.start(); ... federation.stop();
//
// The clients outlive it. start() never waits and never fails: a host or member that is away is waited for.
class Federation {
 public:
  Federation(rt::Runtime& runtime, kube::Client& host, const std::map<std::string, kube::Client*>& members, Logger log,
             FederationOptions options = {});
  ~Federation();  // stop() has been called if start() was
  Federation(const Federation&) = delete;
  Federation& operator=(const Federation&) = delete;

  void start();
  void stop();
  // Whether the caches of the host are filled and work has begun.
  [[nodiscard]] bool is_ready() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace basalt::federation
