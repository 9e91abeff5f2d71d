#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "apiserver/store/attributes.h"

namespace basalt::apiserver {

// One serialised object; the same type as kube::Bytes.
using Bytes = std::shared_ptr<const std::string>;

// Counts the writes of a store's life: 1 when it is new, one more with each write. It is what clients see as
// resourceVersion. 0 means "none given".
using Revision = std::int64_t;

// A resource type ("group/plural", "/pods"), interned by Store::resource(). Valid for that store only.
enum class ResourceId : std::uint32_t {};

class Entry;
using EntryRef = std::shared_ptr<const Entry>;

// One version of one object: immutable, shared by lists, watches and caches. Made by the store alone.
class Entry {
 public:
  // The object's text with its resource version in it. For a deleted entry the last state with the revision of the
  // deletion, as Kubernetes sends it in a Deleted event.
  [[nodiscard]] const Bytes& object() const { return object_; }
  [[nodiscard]] Attributes attributes() const { return Attributes(std::string_view(text_).substr(key_size_)); }

  // "namespace/name", or "name" for cluster-scoped objects. The order of these texts is the order of lists, which is
  // etcd's.
  [[nodiscard]] std::string_view key() const { return std::string_view(text_).substr(0, key_size_); }
  [[nodiscard]] std::string_view ns() const { return key().substr(0, name_offset_ == 0 ? 0 : name_offset_ - 1); }
  [[nodiscard]] std::string_view name() const { return key().substr(name_offset_); }

  [[nodiscard]] ResourceId resource() const { return resource_; }
  [[nodiscard]] Revision create_revision() const { return create_revision_; }
  [[nodiscard]] Revision mod_revision() const { return mod_revision_; }
  [[nodiscard]] bool is_deleted() const { return is_deleted_; }
  // What the entry costs in memory, roughly.
  [[nodiscard]] std::size_t bytes() const;

  class Key {};  // only the store's own code makes entries
  explicit Entry(const Key&) {}

 private:
  friend class EntryMaker;

  // The version before, while the history holds it. Guarded by the store's lock; nobody but the store reads it.
  mutable EntryRef previous_;
  // Fixed before the entry is shared.
  Bytes object_;
  std::string text_;  // the key, then the packed attributes: one allocation
  Revision create_revision_ = 0;
  Revision mod_revision_ = 0;
  ResourceId resource_{};
  std::uint32_t key_size_ = 0;
  std::uint32_t name_offset_ = 0;
  std::uint32_t revision_offset_ = 0;  // where the digits of the resource version stand in object_
  bool is_deleted_ = false;
};

}  // namespace basalt::apiserver
