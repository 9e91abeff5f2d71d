#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "api/gen/karmada_binding.h"
#include "api/object_key.h"
#include "api/resource_list.h"
#include "federation/placement.h"
#include "rt/mutex.h"

namespace basalt::federation {

// What the unfinished jobs of the federation take in each cluster, so that two choices at one moment see each other.
// Finished jobs take nothing. Thread-safe.
class Ledger {
 public:
  // Fills in what is left of `candidates`, makes the choice and books it, in one step. What the job had is released.
  Choice choose(const api::ObjectKey& job, const Wish& wish, std::vector<Candidate> candidates);
  // What a binding says; for those that were chosen by an earlier process.
  void book(const api::ObjectKey& job, const std::vector<api::karmada::TargetCluster>& clusters,
            const api::ResourceList& request);
  void release(const api::ObjectKey& job);
  [[nodiscard]] std::int64_t jobs_in(const std::string& cluster) const;

 private:
  struct Booking {
    std::vector<api::karmada::TargetCluster> clusters;
    api::ResourceList request;
  };
  struct Usage {
    api::ResourceList used;
    std::int64_t jobs = 0;
  };
  void add(const api::ObjectKey& job, Booking booking) BASALT_REQUIRES(mutex_);
  void remove(const api::ObjectKey& job) BASALT_REQUIRES(mutex_);

  mutable rt::Mutex mutex_;
  std::map<api::ObjectKey, Booking> bookings_ BASALT_GUARDED_BY(mutex_);
  std::map<std::string, Usage> usage_ BASALT_GUARDED_BY(mutex_);  // by cluster
};

}  // namespace basalt::federation
