#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/time.h"
#include "base/error.h"
#include "base/result.h"
#include "json/value.h"

namespace basalt::rt {
class StopToken;
}

namespace basalt::apiserver {

// A column of `kubectl get`: a JSON path of a CRD, or the name of a cell that a built-in kind computes.
struct PrinterColumn {
  std::string name;
  std::string type = "string";  // string, integer, number, boolean, date
  std::string format;
  std::string description;
  std::string json_path;      // ".status.state.phase"
  std::int32_t priority = 0;  // above 0: only with -o wide
};

struct ScalePaths {
  std::string spec_replicas;    // ".spec.replicas"
  std::string status_replicas;  // ".status.replicas"
  std::string label_selector;   // "" if none
};

using Causes = std::vector<Cause>;
struct Schema;  // crd/schema.h

// Which part of an object a write is about: everything but the status, the status, or (Internal) what the server itself
// does through a subresource such as binding, which keeps nothing back.
enum class WritePart : std::uint8_t { Main, Status, Internal };

// What a name of the kind must look like.
enum class NameRule : std::uint8_t {
  Subdomain,     // DNS-1123 subdomain; most kinds
  Label,         // DNS-1123 label: namespaces
  Dns1035Label,  // services
  PathSegment,   // anything but "/", "%", "." and "..": RBAC
};

// What is particular to one kind: defaults, what a write may touch, what is valid. Pure and immutable; called from many
// threads at once. Objects have been decoded and have apiVersion, kind and metadata (checked by the caller, as are
// names, labels, annotations, owner references and finalizers, which are the same for all kinds).
class Strategy {
 public:
  virtual ~Strategy() = default;
  // The schema of a custom kind; null for built-in ones.
  [[nodiscard]] virtual const Schema* schema() const { return nullptr; }
  // Drops fields that the kind does not have (CRDs: pruning; built-in kinds: nothing). With `unknown` given, each
  // dropped path is named there, for field validation.
  virtual void prune(json::Value& object, std::vector<std::string>* unknown) const = 0;
  virtual void apply_defaults(json::Value& object) const = 0;
  // Before validation: what a client may not set on create (status, for instance).
  virtual void prepare_for_create(json::Value& object) const = 0;
  // Before validation: keeps from `old` what this write may not change (Main: status; Status: everything else).
  virtual void prepare_for_update(json::Value& object, const json::Value& old, WritePart part) const = 0;
  virtual void validate_create(const json::Value& object, Causes& causes) const = 0;
  virtual void validate_update(const json::Value& object, const json::Value& old, WritePart part,
                               Causes& causes) const = 0;
  // True if this update raises metadata.generation (a change of the spec; for kinds without a status of anything but
  // metadata).
  [[nodiscard]] virtual bool raises_generation(const json::Value& object, const json::Value& old) const = 0;
  // Fields that a field selector may name besides metadata.name and metadata.namespace, with their values.
  [[nodiscard]] virtual std::vector<std::pair<std::string, std::string>> selectable_fields(
      const json::Value& object) const = 0;
  [[nodiscard]] virtual bool is_selectable(std::string_view field) const = 0;
  // Cells of the type's columns, in their order. Times are shown as ages at `now`.
  [[nodiscard]] virtual json::Array table_cells(const json::Value& object, std::span<const PrinterColumn> columns,
                                                api::Time now) const = 0;
  // Seconds between the deletion request and the removal if the request names none (pods: their grace period).
  [[nodiscard]] virtual std::int64_t default_grace_seconds(const json::Value& object) const = 0;
  // The object has just got its deletion time: what else shows it (namespaces: status.phase).
  virtual void mark_deleting(json::Value& object) const = 0;
  // Whether an object that is being deleted and has no finalizers must stay all the same (namespaces: spec.finalizers;
  // pods: their grace period).
  [[nodiscard]] virtual bool holds_deletion(const json::Value& object) const = 0;
};

// Between a served form and the stored one, where they differ in more than apiVersion. Pure; called from many threads.
struct Conversion {
  void (*to_storage)(json::Value& object);
  void (*from_storage)(json::Value& object);
  // A field of selectors, as the stored form names it.
  std::string (*storage_field)(std::string_view field);
};

// Between the versions of a CRD whose conversion is somebody else's business (a webhook). Waits, on the caller's
// thread, for a bounded time; called from many threads.
class VersionConverter {
 public:
  virtual ~VersionConverter() = default;
  // Makes each object one of `api_version`, in their order. None of them is yet; all have metadata.
  [[nodiscard]] virtual Done convert(const std::string& api_version, std::vector<json::Value>& objects,
                                     const rt::StopToken& stop) const = 0;
};

// One served resource in one version. Immutable; a change of a CRD makes a new one.
struct ResourceType {
  std::string group;
  std::string version;
  std::string plural;
  std::string singular;
  std::string kind;
  std::string list_kind;
  std::vector<std::string> short_names;
  std::vector<std::string> categories;
  std::vector<std::string> verbs;  // as discovery lists them
  bool namespaced = true;
  bool has_status = false;
  bool has_generation = true;  // metadata.generation counts the changes of what is asked for
  std::optional<ScalePaths> scale;
  std::vector<std::string> other_subresources;  // "binding", "eviction", "log", ...
  std::vector<PrinterColumn> columns;
  NameRule name_rule = NameRule::Subdomain;
  bool unconditional_update = true;     // a PUT without a resource version is taken (CRDs: refused)
  bool create_on_update = false;        // a PUT of what is not there makes it (leases)
  bool returns_deleted_object = false;  // a DELETE answers with the object instead of a Status (pods)
  bool is_virtual = false;              // only created, never stored: an answer to a question
  bool graceful_deletion = false;       // a DELETE waits for the grace period (pods)
  std::string storage_version;          // the version that objects of this group and plural are stored as
  // The group whose objects these are, too (events of events.k8s.io are those of the core group); nothing: its own.
  std::optional<std::string> storage_group;
  const Conversion* conversion = nullptr;  // null: the stored form differs in apiVersion at most
  // CRDs with a conversion webhook: whoever turns one version into another; null otherwise.
  std::shared_ptr<const VersionConverter> converter;
  std::shared_ptr<const Strategy> storage_strategy;  // with a converter: of the storage version
  std::shared_ptr<const Strategy> strategy;
  std::string crd_name;  // "" for built-in kinds

  // Versions of a group and plural share their objects.
  [[nodiscard]] std::string storage_id() const { return storage_group.value_or(group) + "/" + plural; }
  [[nodiscard]] std::string api_version() const { return group.empty() ? version : group + "/" + version; }
};

// All resources served at one moment. Immutable; replaced as a whole when CRDs come and go.
class TypeTable {
 public:
  [[nodiscard]] std::shared_ptr<const ResourceType> find(std::string_view group, std::string_view version,
                                                         std::string_view plural) const;
  [[nodiscard]] std::shared_ptr<const ResourceType> find_kind(std::string_view group, std::string_view version,
                                                              std::string_view kind) const;
  // In order of group, preferred version first, plural.
  [[nodiscard]] std::span<const std::shared_ptr<const ResourceType>> all() const { return types_; }
  [[nodiscard]] std::shared_ptr<const TypeTable> with(std::vector<std::shared_ptr<const ResourceType>> added) const;
  [[nodiscard]] std::shared_ptr<const TypeTable> without_crd(std::string_view crd_name) const;

 private:
  std::vector<std::shared_ptr<const ResourceType>> types_;
  std::map<std::string, std::shared_ptr<const ResourceType>, std::less<>> by_plural_;  // "group/version/plural"
  std::map<std::string, std::shared_ptr<const ResourceType>, std::less<>> by_kind_;    // "group/version/kind"
};

}  // namespace basalt::apiserver
