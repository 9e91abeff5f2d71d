#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "api/object_key.h"
#include "json/reader.h"
#include "json/writer.h"
#include "kube/client.h"
#include "kube/identity.h"

// Thin typed helpers over Client. T needs a codec (decode, encode). What is read this way keeps unknown fields, so it
// may be written back whole; a projection may not (see Informer).

namespace basalt::kube {

// Where objects of a generated kind (or projection) live.
template <class T>
[[nodiscard]] Resource resource_of() {
  return {std::string(T::kind_info().group), std::string(T::kind_info().version), std::string(T::kind_info().plural)};
}

template <class T>
[[nodiscard]] Result<T> decode_object(const Response& response) {
  return json::from_text<T>(*response.body);
}

template <class T>
[[nodiscard]] Result<T> get_object(Client& client, const api::ObjectKey& key, const rt::StopToken& stop) {
  BASALT_TRY(Response response,
             client.call({.verb = Verb::Get, .resource = resource_of<T>(), .ns = key.ns, .name = key.name}, stop));
  return decode_object<T>(response);
}

// Whatever encodes: a whole object.
template <class T>
[[nodiscard]] Result<Response> create_object(Client& client, std::string_view ns, const T& object,
                                             const rt::StopToken& stop) {
  return client.call(
      {.verb = Verb::Create, .resource = resource_of<T>(), .ns = std::string(ns), .body = json::to_text(object)}, stop);
}

template <class T>
[[nodiscard]] Result<Response> update_object(Client& client, const api::ObjectKey& key, const T& object,
                                             const rt::StopToken& stop) {
  return client.call({.verb = Verb::Update,
                      .resource = resource_of<T>(),
                      .ns = key.ns,
                      .name = key.name,
                      .body = json::to_text(object)},
                     stop);
}

// `patch` is the JSON text of a merge patch.
[[nodiscard]] Result<Response> patch_object(Client& client, const Resource& resource, const api::ObjectKey& key,
                                            std::string patch, const rt::StopToken& stop);
// A merge patch of the status subresource. `status` is the JSON text of the status' changed members. With a resource
// version the patch fails (Conflict) unless the object is still at it.
[[nodiscard]] Result<Response> patch_status(Client& client, const Resource& resource, const api::ObjectKey& key,
                                            std::string_view status, std::string_view resource_version,
                                            const rt::StopToken& stop);

struct DeleteOptions {
  std::string uid;  // only this very object
  std::string resource_version;
  Propagation propagation = Propagation::Default;
  std::optional<std::int64_t> grace_period_seconds;
};
// An object that is not there is a success (its body is then empty).
[[nodiscard]] Result<Response> delete_object(Client& client, const Resource& resource, const api::ObjectKey& key,
                                             const DeleteOptions& options, const rt::StopToken& stop);

}  // namespace basalt::kube
