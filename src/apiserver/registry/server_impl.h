#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/registry/admission.h"
#include "apiserver/registry/api_server.h"
#include "apiserver/registry/connections.h"
#include "apiserver/registry/later_calls.h"
#include "apiserver/registry/resource_type.h"
#include "apiserver/registry/stored_form.h"
#include "apiserver/store/later_writes.h"
#include "apiserver/store/store.h"
#include "base/log.h"
#include "base/thread_annotations.h"
#include "rt/mutex.h"

namespace basalt::json {
class StrategicSchema;
}

namespace basalt::apiserver {

class ManagedFields;
class PolicyAdmission;
class QuotaKeeper;
class RbacAuthorizer;
class WebhookAdmission;
class WebhookConversions;
using TypeRef = std::shared_ptr<const ResourceType>;

// The API server. Requests run on the caller's thread; the only lock of its own guards the pointer to the type table.
// Split over files by verb: server_read.cc, server_write.cc, server_patch.cc, server_delete.cc, server_subresource.cc.
class ApiServerImpl final : public ApiServer, public LaterCalls, public Connections {
 public:
  ApiServerImpl(rt::Runtime& runtime, Logger log, Options options, std::unique_ptr<Store> store,
                std::shared_ptr<const TypeTable> types);
  ~ApiServerImpl() override;

  void add_admission_hook(std::shared_ptr<AdmissionHook> hook) override;
  void call_webhooks();  // once, before start()
  Done start() override;
  void stop() override;

  Result<kube::Response> call(const kube::Request& request, const RequestContext& context) override;
  void call_later(const kube::Request& request, const RequestContext& context, LaterCalls::Told told) override;
  Result<kube::ListPage> list(const kube::ListRequest& request, const RequestContext& context) override;
  Result<std::unique_ptr<WatchSession>> watch(const kube::WatchRequest& request,
                                              const RequestContext& context) override;

  Result<json::Value> admit_connection(const kube::Request& request, json::Value options,
                                       const RequestContext& context) override;

  [[nodiscard]] AccessDecision authorize(const AccessRequest& request) const override;
  [[nodiscard]] Result<UserInfo> authenticate_token(std::string_view token) const override;

  [[nodiscard]] std::shared_ptr<const TypeTable> types() const override;
  void set_types(std::shared_ptr<const TypeTable> types) override;
  [[nodiscard]] Store& store() override { return *store_; }
  [[nodiscard]] bool is_durable() const override { return options_.store.durability != Durability::Memory; }

 private:
  // One write on its way through defaulting, admission and validation.
  struct Draft {
    TypeRef type;
    const kube::Request& request;
    const RequestContext& context;
    json::Value object;                // what will be stored
    const json::Value* old = nullptr;  // Update
    WritePart part = WritePart::Main;
    std::vector<std::string> warnings;
    const ManagedFields* applied = nullptr;  // who owns what after an apply; null for other writes
    bool forgets_managers = false;           // the client asked for an empty managedFields
  };

  // An object that is admitted and valid, on its way into the store under a name that may be taken.
  struct Creation {
    TypeRef type;
    std::string ns;
    std::string name;
    std::string prefix;  // of names to draw; "" if the name is given
    int draws = 1;
    json::Value object;
    std::vector<std::string> warnings;
  };

  Result<TypeRef> resolve(const kube::Resource& resource) const;
  Done check_scope(const ResourceType& type, std::string_view ns, std::string_view name, bool needs_name) const;

  Result<kube::Response> get(const TypeRef& type, const kube::Request& request);
  Result<kube::Response> create(const TypeRef& type, const kube::Request& request, const RequestContext& context);
  // What a create does before it writes. An answer if nothing is to be written (a dry run).
  Result<std::optional<kube::Response>> prepare_create(const TypeRef& type, const kube::Request& request,
                                                       const RequestContext& context, Creation& creation);
  void draw_name(Creation& creation);
  // Whether the name was taken and another one is worth a try.
  [[nodiscard]] static bool may_draw_again(const Creation& creation, const Error& error);
  void write_creation(const std::shared_ptr<Creation>& creation, LaterCalls::Told told);
  Result<kube::Response> update(const TypeRef& type, const kube::Request& request, const RequestContext& context);
  Result<kube::Response> patch(const TypeRef& type, const kube::Request& request, const RequestContext& context);
  // server_apply.cc
  Result<kube::Response> apply(const TypeRef& type, const kube::Request& request, const RequestContext& context,
                               json::Value configuration);
  // Before the hooks: who writes owns what it sent and the defaults of it. What hooks add belongs to nobody.
  Done track_fields(Draft& draft) const;
  Result<kube::Response> remove(const TypeRef& type, const kube::Request& request, const RequestContext& context);
  Result<kube::Response> remove_collection(const TypeRef& type, const kube::Request& request,
                                           const RequestContext& context);
  Result<kube::Response> scale(const TypeRef& type, const kube::Request& request, const RequestContext& context);
  Result<kube::Response> bind(const TypeRef& type, const kube::Request& request, const RequestContext& context);
  Result<kube::Response> evict(const TypeRef& type, const kube::Request& request, const RequestContext& context);

  // server_review.cc: questions about access and identity; server_tokens.cc: tokens.
  Result<kube::Response> answer_review(const TypeRef& type, const kube::Request& request,
                                       const RequestContext& context);
  Result<kube::Response> request_token(const TypeRef& type, const kube::Request& request);
  struct TokenHolder {
    UserInfo user;
    std::vector<std::string> audiences;  // those that were asked for and that it is good for
    json::Object extra;                  // what else it says, for reviews: lists of texts by name
  };
  // `audiences`: one of which the token must be for; this server if there is none.
  [[nodiscard]] Result<TokenHolder> authenticate_for(std::string_view token, std::vector<std::string> audiences) const;
  Done create_bootstrap_roles();

  // Makes the new object from the stored one; called again if somebody else was faster and the request names no
  // version. The change may refuse with an error.
  using Change = std::function<Result<json::Value>(const json::Value& old)>;
  Result<kube::Response> change_stored(const TypeRef& type, const kube::Request& request, const RequestContext& context,
                                       const Change& change, const ManagedFields* applied = nullptr);
  Result<kube::Response> store_update(Draft& draft, const EntryRef& stored);

  // Steps of a write.
  Result<json::Value> decode_body(const ResourceType& type, const kube::Request& request,
                                  std::vector<std::string>& warnings) const;
  Done check_namespace(const Draft& draft) const;
  [[nodiscard]] static AdmissionRequest admission_of(const Draft& draft, Operation operation, const json::Value& named);
  [[nodiscard]] bool has_hooks_for(const Draft& draft, Operation operation) const;
  Done run_mutating_hooks(Draft& draft, Operation operation);
  Done run_validating_hooks(Draft& draft, Operation operation, const json::Value* object);
  // Makes a write of the parts and hands it to `use` while they live.
  Done with_write(WriteKind kind, const ResourceType& type, const json::Value& object, std::string_view ns,
                  std::string_view name, Revision expected, const std::function<void(const Write&)>& use);
  Result<EntryRef> commit(WriteKind kind, const ResourceType& type, const json::Value& object, std::string_view ns,
                          std::string_view name, Revision expected);

  // After a write of a CRD: serves what it says now. Called by every writer of CRDs, so the last one wins.
  void refresh_after_write(const ResourceType& type, const std::string& name);
  [[nodiscard]] static bool needs_refresh(const ResourceType& type);
  void refresh_crd(const std::string& name);

  [[nodiscard]] std::string new_uid();
  [[nodiscard]] std::string timestamp() const;  // now, RFC 3339, whole seconds
  [[nodiscard]] Result<kube::Response> respond(int code, const ResourceType& type, const Entry& entry,
                                               std::vector<std::string> warnings) const;

  // Fixed after construction.
  rt::Runtime& runtime_;
  Logger log_;
  Options options_;
  std::unique_ptr<Store> store_;
  LaterWrites* const later_;                           // of the store; null if its writes wait for nothing
  std::vector<std::shared_ptr<AdmissionHook>> hooks_;  // complete before start()
  std::shared_ptr<PolicyAdmission> policies_;
  std::shared_ptr<WebhookAdmission> webhooks_;
  std::unique_ptr<WebhookConversions> conversions_;
  const std::shared_ptr<std::atomic<int>> converting_watches_ = std::make_shared<std::atomic<int>>(0);
  std::unique_ptr<QuotaKeeper> quotas_;
  std::unique_ptr<RbacAuthorizer> access_;  // null: everybody may do everything
  // The controllers that belong to an API server; made by start().
  std::unique_ptr<SystemControllers> controllers_;

  mutable rt::Mutex mutex_;
  std::shared_ptr<const TypeTable> types_ BASALT_GUARDED_BY(mutex_);
  std::map<std::string, Revision> crd_revisions_ BASALT_GUARDED_BY(mutex_);  // the state of a CRD that is served
};

// The object after a patch of one of the three kinds; without a schema there is no strategic merge patch.
[[nodiscard]] Result<json::Value> patched(json::Value object, const json::Value& patch, kube::PatchType patch_type,
                                          const json::StrategicSchema* schema);

// Whether the client sent a list of managers that holds nothing but an empty entry.
[[nodiscard]] bool asks_to_forget_managers(const json::Value& object);

// Drops what the kind does not know; with `unknown` given, the path of each such field is added there.
[[nodiscard]] Done prune_unknown(const ResourceType& type, json::Value& object, std::vector<std::string>* unknown);

// The same as field validation says: silently, with warnings, or as an error; `duplicates` are complaints of that sort
// from the text.
[[nodiscard]] Done prune_unknown(const ResourceType& type, const kube::Request& request, json::Value& object,
                                 std::vector<std::string> duplicates, std::vector<std::string>& warnings);

}  // namespace basalt::apiserver
