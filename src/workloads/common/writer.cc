#include "workloads/common/writer.h"

#include <optional>
#include <utility>

#include "json/merge_patch.h"
#include "kube/identity.h"
#include "kube/typed.h"

namespace basalt::workloads {
namespace {

kube::Request create_request(const kube::Resource& resource, const json::Value& object) {
  kube::Request request;
  request.verb = kube::Verb::Create;
  request.resource = resource;
  request.ns = object.string_at({"metadata", "namespace"});
  request.name = object.string_at({"metadata", "name"});
  request.body = object.to_text();
  return request;
}

// What was cancelled was not sent, or its sender is about to end and will not ask.
bool may_have_happened(const Error& error) { return error.outcome_is_unknown() && !error.is(Reason::Cancelled); }

}  // namespace

Done Writer::settle(const api::ObjectKey& key, const rt::StopToken& stop) {
  std::vector<Unknown> open;
  {
    const rt::MutexLock lock(mutex_);
    const auto found = unknown_.find(key);
    if (found == unknown_.end()) return Ok{};
    open = found->second;
  }
  for (const Unknown& unknown : open) {
    const auto read = get(unknown.resource, unknown.object, stop);
    if (read.ok()) {
      expectations_.note_write(key, unknown.resource, kube::resource_version_of(*read));
    } else if (!read.error().is(Reason::NotFound)) {
      return read.error().with_context("whether " + unknown.object.to_string() + " was made is not known");
    }
  }
  forget(key);
  return Ok{};
}

void Writer::forget(const api::ObjectKey& key) {
  const rt::MutexLock lock(mutex_);
  unknown_.erase(key);
}

void Writer::note_created(const api::ObjectKey& key, const kube::Request& request,
                          const Result<kube::Response>& result) {
  if (result.ok()) {
    expectations_.note_write(key, request.resource, kube::resource_version_of(*result));
  } else if (may_have_happened(result.error())) {
    const rt::MutexLock lock(mutex_);
    unknown_[key].push_back({request.resource, {request.ns, request.name}});
  }
}

Result<kube::Response> Writer::create(const api::ObjectKey& key, const kube::Resource& resource,
                                      const json::Value& object, const rt::StopToken& stop) {
  const kube::Request request = create_request(resource, object);
  auto result = client_.call(request, stop);
  note_created(key, request, result);
  return result;
}

std::vector<Result<kube::Response>> Writer::create_all(const api::ObjectKey& key, const kube::Resource& resource,
                                                       const std::vector<json::Value>& objects,
                                                       const rt::StopToken& stop) {
  std::vector<kube::Request> requests;
  requests.reserve(objects.size());
  for (const json::Value& object : objects) requests.push_back(create_request(resource, object));
  auto results = client_.call_all(requests, {.in_flight_max = kInFlightMax, .failures_max = 1}, stop);
  for (std::size_t i = 0; i < results.size(); ++i) note_created(key, requests[i], results[i]);
  return results;
}

kube::Request Writer::patch_request(const api::ObjectKey& key, const kube::Resource& resource,
                                    const Patch& patch) const {
  kube::Request request;
  request.verb = kube::Verb::Patch;
  request.resource = resource;
  request.ns = key.ns;
  request.name = patch.target.name;
  request.patch_type = patch.type;
  json::Value body = patch.body;
  if (!patch.target.uid.empty()) body.ensure_path({"metadata", "uid"}) = patch.target.uid;
  request.body = body.to_text();
  return request;
}

Done Writer::patch(const api::ObjectKey& key, const kube::Resource& resource, const Patch& patch, bool gone_is_fine,
                   const rt::StopToken& stop) {
  auto result = client_.call(patch_request(key, resource, patch), stop);
  if (result.ok()) {
    expectations_.note_write(key, resource, kube::resource_version_of(*result));
  } else if (!gone_is_fine || !result.error().is(Reason::NotFound)) {
    return std::move(result).error().with_context(resource.plural + " " + patch.target.name + " could not be patched");
  }
  return Ok{};
}

Done Writer::patch_all(const api::ObjectKey& key, const kube::Resource& resource, const std::vector<Patch>& patches,
                       const rt::StopToken& stop) {
  if (patches.empty()) return Ok{};
  std::vector<kube::Request> requests;
  requests.reserve(patches.size());
  for (const Patch& patch : patches) requests.push_back(patch_request(key, resource, patch));
  const auto results = client_.call_all(requests, {.in_flight_max = kInFlightMax}, stop);
  std::optional<Error> error;
  for (const auto& result : results) {
    if (result.ok()) {
      expectations_.note_write(key, resource, kube::resource_version_of(*result));
    } else if (!result.error().is(Reason::NotFound) && !error) {
      error = result.error();
    }
  }
  if (error) return error->with_context("one of the " + resource.plural + " could not be patched");
  return Ok{};
}

Done Writer::remove_all(const api::ObjectKey& key, const kube::Resource& resource, const std::vector<Target>& targets,
                        const rt::StopToken& stop, kube::Propagation propagation) {
  if (targets.empty()) return Ok{};
  std::vector<kube::Request> requests;
  requests.reserve(targets.size());
  for (const Target& target : targets) {
    kube::Request request;
    request.verb = kube::Verb::Delete;
    request.resource = resource;
    request.ns = key.ns;
    request.name = target.name;
    request.precondition_uid = target.uid;
    request.propagation = propagation;
    requests.push_back(std::move(request));
  }
  const auto results = client_.call_all(requests, {.in_flight_max = kInFlightMax}, stop);
  std::optional<Error> error;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!results[i].ok()) {
      if (results[i].error().is(Reason::NotFound)) {
        expectations_.note_delete(key, resource, targets[i].uid);
      } else if (!error) {
        error = results[i].error();
      }
      continue;
    }
    expectations_.note_delete(key, resource, targets[i].uid, *results[i]);
  }
  if (error) return error->with_context("one of the " + resource.plural + " could not be deleted");
  return Ok{};
}

Done Writer::write_status(const api::ObjectKey& key, const kube::Resource& resource, const Object& object,
                          const json::Value& status, const rt::StopToken& stop) {
  const json::Value patch = json::make_merge_patch(object_at(object.json, {"status"}), status);
  if (patch.is_object() && patch.as_object().empty()) return Ok{};
  auto written =
      kube::patch_status(client_, resource, object.key(), patch.to_text(), object.metadata.resource_version, stop);
  if (!written.ok()) {
    if (written.error().is(Reason::NotFound)) return Ok{};
    return std::move(written).error().with_context("the status could not be written");
  }
  expectations_.note_write(key, resource, kube::resource_version_of(*written));
  return Ok{};
}

void Writer::note_seen(const api::ObjectKey& key, const kube::Resource& resource, const Object& object) {
  expectations_.note_write(key, resource, object.metadata.resource_version);
}

Result<kube::Response> Writer::get(const kube::Resource& resource, const api::ObjectKey& target,
                                   const rt::StopToken& stop) {
  kube::Request request;
  request.resource = resource;
  request.ns = target.ns;
  request.name = target.name;
  return client_.call(request, stop);
}

}  // namespace basalt::workloads
