#include "apiserver/system/namespaces.h"

#include <utility>

#include "api/time.h"
#include "apiserver/builtin/crd_definition.h"
#include "apiserver/registry/metadata.h"
#include "apiserver/system/owner_index.h"
#include "json/value.h"

namespace basalt::apiserver {
namespace {

constexpr std::size_t kEventsPerPoll = 256;
constexpr std::string_view kDefaultAccount = "default";
constexpr std::string_view kRootAuthority = "kube-root-ca.crt";
// How soon something that is being emptied is looked at again: its objects may wait for their own finalizers.
constexpr rt::Duration kAgainAfter = std::chrono::milliseconds(100);

const kube::Resource kConfigMaps{"", "v1", "configmaps"};
const kube::Resource kNamespaces{"", "v1", "namespaces"};
const kube::Resource kServiceAccounts{"", "v1", "serviceaccounts"};
const kube::Resource kCrds{"apiextensions.k8s.io", "v1", "customresourcedefinitions"};

// The finalizers of what waits for them, at most of this many objects of a kind.
constexpr std::size_t kFinalizersLookedAtMax = 100;

void count_finalizers(Store& store, const ResourceType& type, const std::string& ns,
                      std::map<std::string, std::size_t>& counts) {
  ListQuery list;
  list.resource = store.resource(type.storage_id());
  list.ns = ns;
  list.limit = kFinalizersLookedAtMax;
  const auto listing = store.list(list);
  if (!listing.ok()) return;
  for (const EntryRef& entry : listing->entries) {
    const auto metadata = read_collected_metadata(*entry->object());
    if (!metadata.ok()) continue;
    for (const std::string& finalizer : metadata->finalizers) ++counts[finalizer];
  }
}

std::string listed(const std::map<std::string, std::size_t>& counts, std::string_view between, std::string_view start) {
  std::string text;
  for (const auto& [name, count] : counts) {
    text.append(text.empty() ? start : ", ").append(name).append(between).append(std::to_string(count));
    text.append(" resource instances");
  }
  return text;
}

json::Value condition(std::string_view type, bool holds, std::string_view reason, std::string_view message) {
  return json::Object{{"type", type}, {"status", holds ? "True" : "False"}, {"reason", reason}, {"message", message}};
}

const json::Value* condition_of(const json::Value& object, std::string_view type) {
  const json::Value* conditions = object.find_path({"status", "conditions"});
  if (conditions == nullptr || !conditions->is_array()) return nullptr;
  for (const json::Value& one : conditions->as_array()) {
    if (one.string_at({"type"}) == type) return &one;
  }
  return nullptr;
}

}  // namespace

NamespaceKeeper::NamespaceKeeper(rt::Runtime& runtime, Logger log, ApiServer& server, std::string cluster_ca_pem)
    : runtime_(runtime),
      log_(std::move(log)),
      server_(server),
      cluster_ca_pem_(std::move(cluster_ca_pem)),
      client_(make_direct_client(
          runtime, server,
          RequestContext{{"system:serviceaccount:kube-system:namespace-controller", "", {}}, "namespace-controller"})),
      signal_(std::make_shared<WakeSignal>(runtime)),
      stop_(runtime) {
  thread_ = rt::Thread(runtime_, "namespaces", [this] { run(); });
}

NamespaceKeeper::~NamespaceKeeper() { stop(); }

void NamespaceKeeper::stop() {
  stop_.request_stop();
  signal_->end();
  if (thread_.joinable()) thread_.join();
}

void NamespaceKeeper::run() {
  Store& store = server_.store();
  std::set<std::string> namespaces;
  std::set<std::string> crds;
  const auto follow = [&](const char* resource, std::set<std::string>& names) -> std::unique_ptr<Watcher> {
    ListQuery list;
    list.resource = store.resource(resource);
    auto listing = store.list(list);
    if (!listing.ok()) return nullptr;
    for (const EntryRef& entry : listing->entries) names.emplace(entry->name());
    WatchQuery query;
    query.resource = list.resource;
    query.after = listing->revision;
    query.on_ready = [signal = signal_] { signal->fire(); };
    auto watcher = store.watch(std::move(query));
    return watcher.ok() ? std::move(*watcher) : nullptr;
  };
  std::unique_ptr<Watcher> namespace_watcher;
  std::unique_ptr<Watcher> crd_watcher;
  Furniture furniture;
  while (!stop_.token().stop_requested()) {
    // Namespaces are listed after these have begun: what changes from then on is seen.
    if (!watch_furniture(furniture)) namespace_watcher.reset();
    if (!namespace_watcher) namespace_watcher = follow("/namespaces", namespaces);
    if (!crd_watcher) crd_watcher = follow("apiextensions.k8s.io/customresourcedefinitions", crds);
    if (namespace_watcher && !take_changes(*namespace_watcher, namespaces)) namespace_watcher.reset();
    if (crd_watcher && !take_changes(*crd_watcher, crds)) crd_watcher.reset();
    take_furniture(furniture, namespaces);
    std::erase_if(namespaces, [&](const std::string& name) { return keep_namespace(name); });
    std::erase_if(crds, [&](const std::string& name) { return keep_crd(name); });
    const bool is_blind = !cluster_ca_pem_.empty() && (!furniture.accounts || !furniture.config_maps);
    const bool again = !namespaces.empty() || !crds.empty() || !namespace_watcher || !crd_watcher || is_blind;
    if (signal_->wait_until(again ? runtime_.now() + kAgainAfter : rt::kNever)) return;
  }
}

bool NamespaceKeeper::watch_furniture(Furniture& furniture) {
  // Without an authority pods have no use for either.
  if (cluster_ca_pem_.empty() || (furniture.accounts && furniture.config_maps)) return true;
  Store& store = server_.store();
  const auto watch = [&](const char* resource) -> std::unique_ptr<Watcher> {
    WatchQuery query;
    query.resource = store.resource(resource);
    query.after = store.revision();
    query.on_ready = [signal = signal_] { signal->fire(); };
    auto watcher = store.watch(std::move(query));
    return watcher.ok() ? std::move(*watcher) : nullptr;
  };
  furniture.accounts = watch("/serviceaccounts");
  furniture.config_maps = watch("/configmaps");
  return false;
}

// Namespaces that somebody has taken the account or the authority from, or changed the latter.
void NamespaceKeeper::take_furniture(Furniture& furniture, std::set<std::string>& namespaces) {
  const auto take = [&](std::unique_ptr<Watcher>& watcher, std::string_view name) {
    std::vector<Event> events;
    while (watcher) {
      events.clear();
      const auto count = watcher->poll(events, kEventsPerPoll);
      if (!count.ok()) watcher.reset();
      if (!count.ok() || *count == 0) return;
      for (const Event& event : events) {
        if (event.entry->name() == name) namespaces.emplace(event.entry->ns());
      }
    }
  };
  take(furniture.accounts, kDefaultAccount);
  take(furniture.config_maps, kRootAuthority);
}

bool NamespaceKeeper::take_changes(Watcher& watcher, std::set<std::string>& names) {
  std::vector<Event> events;
  while (true) {
    auto count = watcher.poll(events, kEventsPerPoll);
    if (!count.ok()) return false;
    if (*count == 0) break;
  }
  for (const Event& event : events) {
    if (event.type != EventType::Deleted) names.emplace(event.entry->name());
  }
  return true;
}

bool NamespaceKeeper::keep_namespace(const std::string& name) {
  const EntryRef entry = server_.store().get(server_.store().resource("/namespaces"), "", name);
  if (!entry) return true;
  auto object = json::Value::parse(*entry->object());
  if (BASALT_BUG(!object.ok())) return true;
  if (!is_being_deleted(*object)) return furnish(name).ok();
  if (const Rest rest = empty_namespace(name); rest.has_failed || !rest.objects.empty()) {
    tell(*object, rest);
    return false;
  }
  // Nothing is left, so the namespace may go.
  json::Value& spec = object->ensure_path({"spec"});
  spec = json::Object{{"finalizers", json::Array()}};
  kube::Request request;
  request.verb = kube::Verb::Update;
  request.resource = kNamespaces;
  request.name = name;
  request.subresource = "finalize";
  request.body = object->to_text();
  auto finalized = client_->call(request, stop_.token());
  return finalized.ok() || finalized.error().is(Reason::NotFound);
}

NamespaceKeeper::Rest NamespaceKeeper::empty_namespace(const std::string& ns) {
  Rest rest;
  std::set<std::string> seen;
  const auto types = server_.types();  // kept: a CRD that comes meanwhile makes a new table
  for (const bool is_for_pods : {true, false}) {
    for (const auto& type : types->all()) {
      const bool is_pods = type->storage_id() == "/pods";
      if (!type->namespaced || is_pods != is_for_pods || !seen.insert(type->storage_id()).second) continue;
      auto remaining = empty_of(*type, ns);
      rest.has_failed = rest.has_failed || !remaining.ok();
      if (!remaining.ok() || *remaining == 0) continue;
      rest.objects[type->plural + "." + type->group] = *remaining;
      count_finalizers(server_.store(), *type, ns, rest.finalizers);
    }
    if (rest.has_failed || !rest.objects.empty()) break;
  }
  return rest;
}

// Conditions as the namespace controller of Kubernetes sets them; nothing is written while they stay the same.
void NamespaceKeeper::tell(const json::Value& ns, const Rest& rest) {
  const std::string remaining = listed(rest.objects, " has ", "Some resources are remaining: ");
  const std::string held = listed(rest.finalizers, " in ", "Some content in the namespace has finalizers remaining: ");
  const json::Array wanted = {
      condition("NamespaceDeletionDiscoveryFailure", false, "ResourcesDiscovered",
                "All resources successfully discovered"),
      condition("NamespaceDeletionGroupVersionParsingFailure", false, "ParsedGroupVersions",
                "All legacy kube types successfully parsed"),
      condition("NamespaceDeletionContentFailure", rest.has_failed,
                rest.has_failed ? "ContentDeletionFailed" : "ContentDeleted",
                rest.has_failed ? "Some content could not be deleted and is tried again"
                                : "All content successfully deleted, may be waiting on finalization"),
      condition("NamespaceContentRemaining", !rest.objects.empty(),
                rest.objects.empty() ? "ContentRemoved" : "SomeResourcesRemain",
                rest.objects.empty() ? "All content successfully removed" : remaining),
      condition("NamespaceFinalizersRemaining", !rest.finalizers.empty(),
                rest.finalizers.empty() ? "ContentHasNoFinalizers" : "SomeFinalizersRemain",
                rest.finalizers.empty() ? "All content-preserving finalizers finished" : held)};
  json::Array conditions = wanted;
  bool is_same = true;
  for (json::Value& one : conditions) {
    const json::Value* old = condition_of(ns, one.string_at({"type"}));
    json::Value timeless = old != nullptr ? *old : json::Value(json::Object());
    timeless.as_object().erase("lastTransitionTime");
    is_same = is_same && timeless == one;
    const bool keeps_time = old != nullptr && old->string_at({"status"}) == one.string_at({"status"});
    one.as_object().set("lastTransitionTime", keeps_time ? std::string(old->string_at({"lastTransitionTime"}))
                                                         : api::Time::from(runtime_.wall_now()).to_string());
  }
  if (is_same) return;
  kube::Request request;
  request.verb = kube::Verb::Patch;
  request.resource = kNamespaces;
  request.name = std::string(metadata_text(ns, "name"));
  request.subresource = "status";
  request.patch_type = kube::PatchType::Merge;
  request.body = json::Value(json::Object{{"status", json::Object{{"conditions", std::move(conditions)}}}}).to_text();
  // Only words: what matters is tried again anyway.
  (void)client_->call(request, stop_.token());
}

bool NamespaceKeeper::keep_crd(const std::string& name) {
  const EntryRef entry =
      server_.store().get(server_.store().resource("apiextensions.k8s.io/customresourcedefinitions"), "", name);
  if (!entry) return true;
  auto object = json::Value::parse(*entry->object());
  if (BASALT_BUG(!object.ok())) return true;
  if (!is_being_deleted(*object) || !has_finalizer(*object, kCrdCleanupFinalizer)) return true;
  std::size_t left = 0;
  const auto types = server_.types();
  for (const auto& type : types->all()) {
    if (type->crd_name != name) continue;
    auto remaining = empty_of(*type, "");
    left += remaining.ok() ? *remaining : 1;
  }
  if (left > 0) return false;
  json::Array finalizers;
  for (const json::Value& one : object->find_path({"metadata", "finalizers"})->as_array()) {
    if (one != json::Value(kCrdCleanupFinalizer)) finalizers.push_back(one);
  }
  object->ensure_path({"metadata", "finalizers"}) = std::move(finalizers);
  kube::Request request;
  request.verb = kube::Verb::Update;
  request.resource = kCrds;
  request.name = name;
  request.body = object->to_text();
  auto updated = client_->call(request, stop_.token());
  return updated.ok() || updated.error().is(Reason::NotFound);
}

Result<std::size_t> NamespaceKeeper::empty_of(const ResourceType& type, const std::string& ns) {
  ListQuery list;
  list.resource = server_.store().resource(type.storage_id());
  list.ns = ns;
  BASALT_TRY(const Listing listing, server_.store().list(list));
  for (const EntryRef& entry : listing.entries) {
    kube::Request request;
    request.verb = kube::Verb::Delete;
    request.resource = {type.group, type.version, type.plural};
    request.ns = std::string(entry->ns());
    request.name = std::string(entry->name());
    request.precondition_uid = std::string(entry->attributes().uid());
    request.propagation = kube::Propagation::Background;
    auto removed = client_->call(request, stop_.token());
    if (!removed.ok() && removed.error().is(Reason::Cancelled)) return std::move(removed).error();
  }
  return server_.store().count(list.resource, ns);
}

Done NamespaceKeeper::ensure(const kube::Resource& resource, const std::string& ns, const std::string& name,
                             std::string body) {
  const std::string storage = resource.group + "/" + resource.plural;
  if (server_.store().get(server_.store().resource(storage), ns, name)) return Ok{};
  kube::Request request;
  request.verb = kube::Verb::Create;
  request.resource = resource;
  request.ns = ns;
  request.body = std::move(body);
  auto created = client_->call(request, stop_.token());
  if (!created.ok() && !created.error().is(Reason::AlreadyExists)) return std::move(created).error();
  return Ok{};
}

Done NamespaceKeeper::furnish(const std::string& ns) {
  const json::Value account = json::Object{{"metadata", json::Object{{"name", kDefaultAccount}}}};
  BASALT_TRY_DONE(ensure(kServiceAccounts, ns, std::string(kDefaultAccount), account.to_text()));
  const json::Value data = json::Object{{"ca.crt", cluster_ca_pem_}};
  const json::Value ca = json::Object{{"metadata", json::Object{{"name", kRootAuthority}}}, {"data", data}};
  BASALT_TRY_DONE(ensure(kConfigMaps, ns, std::string(kRootAuthority), ca.to_text()));
  if (cluster_ca_pem_.empty()) return Ok{};
  const EntryRef entry = server_.store().get(server_.store().resource("/configmaps"), ns, kRootAuthority);
  if (!entry) return Ok{};  // the watch says so, too
  BASALT_TRY(json::Value stored, json::Value::parse(*entry->object()));
  const json::Value* shown = stored.find("data");
  if (is_being_deleted(stored) || (shown != nullptr && *shown == data)) return Ok{};
  stored.as_object().set("data", data);
  kube::Request request;
  request.verb = kube::Verb::Update;
  request.resource = kConfigMaps;
  request.ns = ns;
  request.name = kRootAuthority;
  request.body = stored.to_text();
  auto updated = client_->call(request, stop_.token());
  if (!updated.ok() && !updated.error().is(Reason::NotFound)) return std::move(updated).error();
  return Ok{};
}

}  // namespace basalt::apiserver
