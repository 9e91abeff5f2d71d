#include "apiserver/registry/server_impl.h"

#include <utility>

#include "api/time.h"
#include "apiserver/access/rbac.h"
#include "apiserver/builtin/token_volume.h"
#include "apiserver/crd/crd_types.h"
#include "apiserver/policy/policy_admission.h"
#include "apiserver/quota/quota_admission.h"
#include "apiserver/quota/quota_keeper.h"
#include "apiserver/registry/errors.h"
#include "apiserver/registry/selection.h"
#include "apiserver/webhook/webhook_admission.h"
#include "apiserver/webhook/webhook_conversion.h"
#include "base/random_name.h"
#include "json/value.h"

namespace basalt::apiserver {
namespace {

// Raised whenever what index_object packs changes for objects that may be in a file already.
constexpr int kAttributesScheme = 1;
constexpr std::string_view kCrdStorage = "apiextensions.k8s.io/customresourcedefinitions";

}  // namespace

Result<std::unique_ptr<ApiServer>> ApiServer::open(rt::Runtime& runtime, Logger log, Options options) {
  options.store.attributes_scheme = kAttributesScheme;
  BASALT_TRY(auto store, Store::open(runtime, options.store));
  const std::string service_ip_range = options.service_ip_range;
  const bool makes_tokens = !options.token_key.empty();
  auto server =
      std::make_unique<ApiServerImpl>(runtime, std::move(log), std::move(options), std::move(store), builtin_types());
  for (auto& hook : builtin_admission(*server, service_ip_range)) server->add_admission_hook(std::move(hook));
  if (makes_tokens) server->add_admission_hook(token_volume_admission(runtime, server->store()));
  server->call_webhooks();
  return std::unique_ptr<ApiServer>(std::move(server));
}

ApiServerImpl::ApiServerImpl(rt::Runtime& runtime, Logger log, Options options, std::unique_ptr<Store> store,
                             std::shared_ptr<const TypeTable> types)
    : runtime_(runtime),
      log_(std::move(log)),
      options_(std::move(options)),
      store_(std::move(store)),
      later_(dynamic_cast<LaterWrites*>(store_.get())),
      conversions_(std::make_unique<WebhookConversions>(runtime_, *this)),
      types_(std::move(types)) {}

ApiServerImpl::~ApiServerImpl() { stop(); }

void ApiServerImpl::call_webhooks() {
  policies_ = std::make_shared<PolicyAdmission>(log_, *this);
  add_admission_hook(policies_);
  webhooks_ = std::make_shared<WebhookAdmission>(runtime_, log_, *this);
  add_admission_hook(webhooks_);
}

void ApiServerImpl::add_admission_hook(std::shared_ptr<AdmissionHook> hook) { hooks_.push_back(std::move(hook)); }

Done ApiServerImpl::start() {
  ListQuery crds;
  crds.resource = store_->resource(kCrdStorage);
  BASALT_TRY(const Listing listing, store_->list(crds));
  for (const EntryRef& entry : listing.entries) refresh_crd(std::string(entry->name()));
  if (policies_) policies_->refresh();
  if (webhooks_) webhooks_->refresh();
  if (options_.rbac) {
    access_ = std::make_unique<RbacAuthorizer>(log_, *this);
    BASALT_TRY_DONE(create_bootstrap_roles());
    access_->refresh();
  }
  const auto ledger = std::make_shared<QuotaLedger>(runtime_);
  add_admission_hook(quota_admission(runtime_, *this, ledger));
  BASALT_TRY(controllers_, start_system_controllers(runtime_, log_, *this, options_));
  quotas_ = std::make_unique<QuotaKeeper>(runtime_, log_.with({{"controller", "resource-quota"}}), *this, ledger);
  return Ok{};
}

void ApiServerImpl::stop() {
  quotas_.reset();
  if (controllers_) controllers_->stop();
  controllers_.reset();
  if (!store_) return;
  if (Done done = store_->close(); !done.ok()) log_.error("closing the store failed", {{"error", done.error()}});
  store_.reset();
}

std::shared_ptr<const TypeTable> ApiServerImpl::types() const {
  rt::MutexLock lock(mutex_);
  return types_;
}

void ApiServerImpl::set_types(std::shared_ptr<const TypeTable> types) {
  rt::MutexLock lock(mutex_);
  types_.swap(types);
}

bool ApiServerImpl::needs_refresh(const ResourceType& type) {
  return type.group == "apiextensions.k8s.io" || type.group == "admissionregistration.k8s.io" ||
         type.group == "rbac.authorization.k8s.io";
}

void ApiServerImpl::refresh_after_write(const ResourceType& type, const std::string& name) {
  if (type.group == "apiextensions.k8s.io" && type.storage_id() == kCrdStorage) refresh_crd(name);
  if (type.group == "admissionregistration.k8s.io" && policies_) policies_->refresh();
  if (type.group == "admissionregistration.k8s.io" && webhooks_) webhooks_->refresh();
  if (type.group == "rbac.authorization.k8s.io" && access_) access_->refresh();
}

void ApiServerImpl::refresh_crd(const std::string& name) {
  // Read before the object, so that an absence is never newer than it really is.
  const Revision absent_at = store_->revision();
  const EntryRef entry = store_->get(store_->resource(kCrdStorage), "", name);
  std::vector<TypeRef> served;
  if (entry) {
    auto crd = json::Value::parse(*entry->object());
    auto types =
        crd.ok() ? types_of_crd(*crd, conversions_->converter_of(*crd)) : Result<std::vector<TypeRef>>(crd.error());
    if (!types.ok()) {
      log_.error("a stored CRD cannot be served", {{"crd", name}, {"error", types.error()}});
      return;
    }
    served = std::move(*types);
  }
  const Revision revision = entry ? entry->mod_revision() : absent_at;
  rt::MutexLock lock(mutex_);
  Revision& known = crd_revisions_[name];
  if (revision < known) return;
  known = revision;
  types_ = types_->without_crd(name)->with(std::move(served));
}

Result<TypeRef> ApiServerImpl::resolve(const kube::Resource& resource) const {
  TypeRef type = types()->find(resource.group, resource.version, resource.plural);
  if (!type) return no_such_resource();
  return type;
}

Done ApiServerImpl::check_scope(const ResourceType& type, std::string_view ns, std::string_view name,
                                bool needs_name) const {
  if (type.namespaced && ns.empty() && needs_name) return no_such_resource();
  if (!type.namespaced && !ns.empty()) return no_such_resource();
  if (needs_name && name.empty()) return bad_request("name is required");
  return Ok{};
}

Result<kube::Response> ApiServerImpl::call(const kube::Request& request, const RequestContext& context) {
  BASALT_TRY(const TypeRef type, resolve(request.resource));
  const bool needs_name = request.verb != kube::Verb::DeleteCollection &&
                          (request.verb != kube::Verb::Create || !request.subresource.empty());
  BASALT_TRY_DONE(check_scope(*type, request.ns, request.name, needs_name));
  if (type->is_virtual) return answer_review(type, request, context);
  if (request.subresource == "token" && type->plural == "serviceaccounts") return request_token(type, request);
  if (request.subresource == "scale" && type->scale) return scale(type, request, context);
  if (request.subresource == "binding" && type->plural == "pods") return bind(type, request, context);
  if (request.subresource == "eviction" && type->plural == "pods") return evict(type, request, context);
  if (!request.subresource.empty() && !(request.subresource == "status" && type->has_status)) {
    bool known = false;
    for (const std::string& other : type->other_subresources) known = known || other == request.subresource;
    if (!known) return no_such_resource();
  }
  switch (request.verb) {
    case kube::Verb::Get:
      return get(type, request);
    case kube::Verb::Create:
      return create(type, request, context);
    case kube::Verb::Update:
      return update(type, request, context);
    case kube::Verb::Patch:
      return patch(type, request, context);
    case kube::Verb::Delete:
      if (!request.subresource.empty()) return method_not_allowed(*type, "delete");
      return remove(type, request, context);
    case kube::Verb::DeleteCollection:
      return remove_collection(type, request, context);
  }
  return method_not_allowed(*type, "");
}

std::string ApiServerImpl::new_uid() {
  return base::random_uuid([this] { return runtime_.random(); });
}

std::string ApiServerImpl::timestamp() const { return api::Time::from(runtime_.wall_now()).to_string(); }

Result<kube::Response> ApiServerImpl::respond(int code, const ResourceType& type, const Entry& entry,
                                              std::vector<std::string> warnings) const {
  BASALT_TRY(Bytes body, present(type, entry));
  return kube::Response{code, std::move(body), std::move(warnings)};
}

}  // namespace basalt::apiserver
