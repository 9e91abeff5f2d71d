#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "api/object_key.h"
#include "kube/client.h"
#include "kube/expectations.h"
#include "rt/mutex.h"
#include "rt/stop.h"
#include "workloads/common/object.h"

namespace basalt::workloads {

// The calls of one controller. Each is made for a key, whose worker makes it; what it wrote is noted with the
// expectations, so that the key is not worked on before the caches show it. Thread-safe; one worker a key.
//
// A create whose outcome is unknown is remembered: settle() asks whether the object is there before the key is worked
// on again, so that nothing is made twice. The names of what is created are therefore chosen here, never by the server.
class Writer {
 public:
  static constexpr int kInFlightMax = 32;

  Writer(kube::Client& client, kube::Expectations& expectations) : client_(client), expectations_(expectations) {}

  // Finds out what became of earlier creates. An error: the API did not say, try again later.
  [[nodiscard]] Done settle(const api::ObjectKey& key, const rt::StopToken& stop);
  void forget(const api::ObjectKey& key);

  [[nodiscard]] Result<kube::Response> create(const api::ObjectKey& key, const kube::Resource& resource,
                                              const json::Value& object, const rt::StopToken& stop);
  // After the first failure no more are sent; those not sent are Cancelled.
  [[nodiscard]] std::vector<Result<kube::Response>> create_all(const api::ObjectKey& key,
                                                               const kube::Resource& resource,
                                                               const std::vector<json::Value>& objects,
                                                               const rt::StopToken& stop);

  struct Target {
    std::string name;
    std::string uid;  // only this very object
  };
  struct Patch {
    Target target;
    json::Value body;
    kube::PatchType type = kube::PatchType::Merge;
  };
  // With `gone_is_fine` an object that is not there is a success.
  [[nodiscard]] Done patch(const api::ObjectKey& key, const kube::Resource& resource, const Patch& patch,
                           bool gone_is_fine, const rt::StopToken& stop);
  // An object that is not there is a success.
  [[nodiscard]] Done patch_all(const api::ObjectKey& key, const kube::Resource& resource,
                               const std::vector<Patch>& patches, const rt::StopToken& stop);
  // What is gone already is a success.
  [[nodiscard]] Done remove_all(const api::ObjectKey& key, const kube::Resource& resource,
                                const std::vector<Target>& targets, const rt::StopToken& stop,
                                kube::Propagation propagation = kube::Propagation::Background);
  // Nothing is written if the status is what the object has. Conflict if the object has changed since.
  [[nodiscard]] Done write_status(const api::ObjectKey& key, const kube::Resource& resource, const Object& object,
                                  const json::Value& status, const rt::StopToken& stop);
  // An object that was read, not written: the key is not worked on before the caches show it.
  void note_seen(const api::ObjectKey& key, const kube::Resource& resource, const Object& object);
  [[nodiscard]] Result<kube::Response> get(const kube::Resource& resource, const api::ObjectKey& target,
                                           const rt::StopToken& stop);

 private:
  struct Unknown {
    kube::Resource resource;
    api::ObjectKey object;
  };
  void note_created(const api::ObjectKey& key, const kube::Request& request, const Result<kube::Response>& result);
  [[nodiscard]] kube::Request patch_request(const api::ObjectKey& key, const kube::Resource& resource,
                                            const Patch& patch) const;

  kube::Client& client_;
  kube::Expectations& expectations_;

  rt::Mutex mutex_;
  std::map<api::ObjectKey, std::vector<Unknown>> unknown_ BASALT_GUARDED_BY(mutex_);
};

}  // namespace basalt::workloads
