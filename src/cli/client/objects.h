#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/object_key.h"
#include "cli/client/host.h"
#include "json/reader.h"
#include "json/value.h"
#include "kube/client.h"
#include "kube/typed.h"

namespace basalt::cli {

// An object and the bytes that it was read from, for `-o json`.
template <class T>
struct Listed {
  T object;
  kube::Bytes bytes;
};

struct ListOptions {
  std::string ns;  // "" = all
  std::string label_selector;
  std::string field_selector;
  std::size_t items_max = 1'000'000;  // what comes after is not read; `is_cut` says so
  bool* is_cut = nullptr;
};

// All pages. A list that changes too much while it is read starts over once, in one piece.
[[nodiscard]] Result<std::vector<kube::Bytes>> list_bytes(Session& session, const kube::Resource& resource,
                                                          const ListOptions& options);

template <class T>
[[nodiscard]] Result<std::vector<Listed<T>>> list_objects(Session& session, const ListOptions& options) {
  BASALT_TRY(auto items, list_bytes(session, kube::resource_of<T>(), options));
  std::vector<Listed<T>> objects;
  objects.reserve(items.size());
  for (kube::Bytes& bytes : items) {
    BASALT_TRY(T object, json::from_text<T>(*bytes));
    objects.push_back({std::move(object), std::move(bytes)});
  }
  return objects;
}

[[nodiscard]] Result<kube::Bytes> get_bytes(Session& session, const kube::Resource& resource,
                                            const api::ObjectKey& key);

// The object. If there is none, the error names one of similar name, or the namespace where one of this name is.
template <class T>
[[nodiscard]] Result<Listed<T>> get_object(Session& session, const api::ObjectKey& key);

// Adds to a NotFound what the user may have meant.
[[nodiscard]] Error with_suggestion(Session& session, const kube::Resource& resource, const api::ObjectKey& key,
                                    Error error);

template <class T>
Result<Listed<T>> get_object(Session& session, const api::ObjectKey& key) {
  auto bytes = get_bytes(session, kube::resource_of<T>(), key);
  if (!bytes.ok()) return with_suggestion(session, kube::resource_of<T>(), key, std::move(bytes).error());
  BASALT_TRY(T object, json::from_text<T>(**bytes));
  return Listed<T>{std::move(object), *bytes};
}

// Why the server cannot do its work now (its disk is full), as it says itself; "" if it is well, or does not tell.
[[nodiscard]] std::string server_problem(Session& session, const rt::StopToken& stop);

// Follows one object: its state, then each change of it. Reconnects by itself; built on list and watch.
class ObjectWatch {
 public:
  ObjectWatch(Session& session, kube::Resource resource, api::ObjectKey key);
  struct Change {
    kube::Bytes object;  // null: it was deleted, or there is none
  };
  // Waits for the next change until the deadline; nothing if there was none. Errors that pass are retried inside.
  [[nodiscard]] Result<std::optional<Change>> next(rt::Instant deadline, const rt::StopToken& stop);

 private:
  Session& session_;
  const kube::Resource resource_;
  const api::ObjectKey key_;
  std::unique_ptr<kube::WatchStream> stream_;
  std::string last_version_;  // of the object that was handed out
  bool is_known_absent_ = false;
};

}  // namespace basalt::cli
