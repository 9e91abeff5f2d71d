#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "json/reader.h"
#include "kube/informer_core.h"

namespace basalt::kube {

// What happened to one object. `before` is null if it was added, `after` if it was deleted.
template <class T>
struct Change {
  std::shared_ptr<const T> before;
  std::shared_ptr<const T> after;
  [[nodiscard]] bool is_added() const { return !before; }
  [[nodiscard]] bool is_updated() const { return before && after; }
  [[nodiscard]] bool is_deleted() const { return !after; }
  [[nodiscard]] const T& object() const { return after ? *after : *before; }  // the latest state known
};

template <class T>
struct IndexOf {
  std::string name;
  // Adds the values under which the object is to be found; none is fine.
  std::function<void(const T& object, std::vector<std::string>& values)> values;
};

template <class T>
struct InformerOptions {
  ReflectorOptions reflector;  // resource, namespace, selectors
  std::vector<IndexOf<T>> indexes;
};

namespace internal {

template <class Metadata>
std::string_view namespace_of(const Metadata& metadata) {
  if constexpr (requires { metadata.ns; }) {
    return metadata.ns;
  } else if constexpr (requires { metadata.namespace_; }) {
    return metadata.namespace_;
  } else {
    return {};
  }
}

template <class T>
InformerCore::Type informer_type() {
  return {
      [](std::string_view text) -> Result<InformerCore::Object> {
        auto object = std::make_shared<T>();
        json::Reader reader(text, {.keep_unknown = false});
        decode(reader, *object);
        if (Done done = reader.finish(); !done.ok()) return std::move(done).error();
        return InformerCore::Object(std::move(object));
      },
      [](const void* object) -> InformerCore::Meta {
        const auto& metadata = static_cast<const T*>(object)->metadata;
        return {namespace_of(metadata), metadata.name, metadata.uid, metadata.resource_version};
      },
  };
}

template <class T>
std::vector<InformerCore::Index> erase_indexes(std::vector<IndexOf<T>> indexes) {
  std::vector<InformerCore::Index> erased;
  erased.reserve(indexes.size());
  for (auto& index : indexes) {
    erased.push_back({std::move(index.name), [values = std::move(index.values)](const void* object, auto& out) {
                        values(*static_cast<const T*>(object), out);
                      }});
  }
  return erased;
}

}  // namespace internal

// A cache of all objects of one resource type (in a namespace, or by a selector), decoded as T, kept up to date by a
// watch, shared by everybody who reads them. T is usually a projection: it has `metadata` with name, uid,
// resource_version and (unless cluster-scoped) the namespace, and a codec. Objects are immutable. See InformerCore for
// threads and guarantees.
//
//   Informer<core::PodProjection> pods(runtime, client, log, {.reflector = {.resource = kPods}, .indexes = {...}});
//   pods.add_handler([&](const Change<core::PodProjection>& change) { queue.add(owner_of(change.object())); });
//   pods.start();
template <class T>
class Informer {
 public:
  using Ptr = std::shared_ptr<const T>;

  Informer(rt::Runtime& runtime, Client& client, Logger log, InformerOptions<T> options)
      : core_(runtime, client, std::move(log), std::move(options.reflector), internal::informer_type<T>(),
              internal::erase_indexes<T>(std::move(options.indexes))) {}

  void start() { core_.start(); }
  void stop() { core_.stop(); }
  [[nodiscard]] bool has_synced() const { return core_.has_synced(); }
  [[nodiscard]] bool wait_synced(const rt::StopToken& stop, rt::Instant deadline = rt::kNever) {
    return core_.wait_synced(stop, deadline);
  }
  [[nodiscard]] Revision seen_revision() const { return core_.seen_revision(); }
  [[nodiscard]] std::size_t size() const { return core_.size(); }

  // Null if there is none.
  [[nodiscard]] Ptr get(const ObjectKey& key) const { return cast(core_.find(key.ns, key.name)); }
  // Sorted by namespace and name.
  [[nodiscard]] std::vector<Ptr> list() const {
    std::vector<Ptr> all;
    all.reserve(size());
    core_.visit_all([&all](InformerCore::Object&& object) { all.push_back(cast(std::move(object))); });
    return all;
  }
  [[nodiscard]] std::vector<Ptr> list_namespace(std::string_view ns) const {
    std::vector<Ptr> all;
    core_.visit_namespace(ns, [&all](InformerCore::Object&& object) { all.push_back(cast(std::move(object))); });
    return all;
  }
  // Sorted by name (and namespace).
  [[nodiscard]] std::vector<Ptr> by_index(std::string_view index, std::string_view value) const {
    std::vector<Ptr> all;
    core_.visit_index(index, value, [&all](InformerCore::Object&& object) { all.push_back(cast(std::move(object))); });
    return all;
  }
  [[nodiscard]] std::size_t count_by_index(std::string_view index, std::string_view value) const {
    return core_.count_index(index, value);
  }
  // Without building a vector; sorted as list().
  template <class Visit>
  void for_each(Visit&& visit) const {
    core_.visit_all([&visit](InformerCore::Object&& object) { visit(*static_cast<const T*>(object.get())); });
  }

  void add_handler(std::function<void(const Change<T>&)> handler) {
    core_.add_handler([handler = std::move(handler)](const InformerCore::Change& change) {
      handler(Change<T>{cast(change.before), cast(change.after)});
    });
  }

  [[nodiscard]] InformerCore& core() { return core_; }
  [[nodiscard]] const InformerCore& core() const { return core_; }

 private:
  static Ptr cast(InformerCore::Object object) { return std::static_pointer_cast<const T>(std::move(object)); }
  InformerCore core_;
};

}  // namespace basalt::kube
