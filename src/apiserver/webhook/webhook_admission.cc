#include "apiserver/webhook/webhook_admission.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "apiserver/policy/admission_values.h"
#include "apiserver/registry/errors.h"
#include "apiserver/registry/server_impl.h"
#include "base/random_name.h"
#include "base/strings.h"
#include "json/patch.h"

namespace basalt::apiserver {
namespace {

constexpr std::string_view kGroup = "admissionregistration.k8s.io";

// What the server itself must always be able to write, or nobody could repair a broken configuration.
bool is_exempt(const ResourceType& type) { return type.group == kGroup; }

Error denied(const Webhook& webhook, const WebhookAnswer& answer) {
  std::string message = "admission webhook " + base::quote(webhook.name) + " denied the request";
  if (!answer.message.empty()) {
    message += ": " + answer.message;
  } else if (!answer.reason.empty()) {
    message += ": " + answer.reason;
  } else {
    message += " without explanation";
  }
  Error error = Error::make(Reason::BadRequest, std::move(message));
  error.code = answer.code < 400 ? 400 : answer.code;
  error.reason = answer.reason.empty() ? Reason::Unknown : reason_from_string(answer.reason);
  return error;
}

Error failed(const Webhook& webhook, std::string_view what) {
  return Error::make(Reason::InternalError, "Internal error occurred: failed calling webhook " +
                                                base::quote(webhook.name) +
                                                ": failed to call webhook: " + std::string(what));
}

}  // namespace

WebhookAdmission::WebhookAdmission(rt::Runtime& runtime, Logger log, ApiServer& server)
    : runtime_(runtime),
      log_(std::move(log)),
      server_(server),
      caller_(runtime, server),
      table_(std::make_shared<const WebhookTable>()) {}

std::shared_ptr<const WebhookTable> WebhookAdmission::table() const {
  rt::MutexLock lock(mutex_);
  return table_;
}

void WebhookAdmission::refresh() {
  auto table = std::make_shared<WebhookTable>();
  for (const bool is_mutating : {true, false}) {
    kube::ListRequest list;
    list.resource = {std::string(kGroup), "v1",
                     is_mutating ? "mutatingwebhookconfigurations" : "validatingwebhookconfigurations"};
    const auto page = server_.list(list, RequestContext{{"system:apiserver", "", {"system:masters"}}, "", false});
    if (!page.ok()) continue;
    for (const kube::Bytes& text : page->items) {  // sorted by name
      if (Done added = add_configuration(*table, *text, is_mutating); !added.ok())
        log_.warn("admission webhooks", {{"problem", added.error().message}});
    }
  }
  const bool has_any = !table->empty();
  rt::MutexLock lock(mutex_);
  table_ = std::move(table);
  has_any_.store(has_any, std::memory_order_release);
}

bool WebhookAdmission::handles(const AdmissionRequest& request) const {
  if (!has_any_.load(std::memory_order_acquire) || is_exempt(request.type)) return false;
  const auto table = this->table();
  const auto concerns = [&](const Webhook& webhook) { return webhook.concerns(request); };
  return !table->empty() &&
         (std::ranges::any_of(table->mutating, concerns) || std::ranges::any_of(table->validating, concerns));
}

Result<bool> WebhookAdmission::is_wanted(const Webhook& webhook, const AdmissionRequest& request,
                                         const json::Value* object) const {
  const bool is_selected = webhook.concerns(request) && webhook.selects(object, request.old_object) &&
                           selects_namespace(webhook.namespaces, server_, request, object);
  if (!is_selected || !webhook.conditions) return is_selected;
  const AdmissionValues values(server_, request, object);
  cel::Cost cost;
  auto holds = webhook.conditions->hold(values, cost);
  if (holds.ok()) return *holds;
  if (webhook.ignores_failure) return false;
  return forbidden(request.type, request.name, holds.error().message);
}

bool selects_namespace(const api::Selector& selector, ApiServer& server, const AdmissionRequest& request,
                       const json::Value* object) {
  if (selector.is_everything()) return true;
  const bool is_namespace = request.type.group.empty() && request.type.plural == "namespaces";
  if (is_namespace) {
    const json::Value* named = object != nullptr ? object : request.old_object;
    return named != nullptr && selector.matches(labels_of(*named));
  }
  if (request.ns.empty()) return true;
  Store& store = server.store();
  const EntryRef entry = store.get(store.resource("/namespaces"), "", request.ns);
  if (!entry) return true;
  const auto ns = json::Value::parse(*entry->object());
  return !ns.ok() || selector.matches(labels_of(*ns));
}

std::string WebhookAdmission::new_uid() {
  return base::random_uuid([this] { return runtime_.random(); });
}

Done WebhookAdmission::ask(const Webhook& webhook, AdmissionRequest& request, const json::Value* object,
                           json::Value* changeable, bool& changed) {
  if (request.dry_run && webhook.has_side_effects)
    return Error::make(Reason::BadRequest, "admission webhook " + base::quote(webhook.name) +
                                               " does not support dry run: it has side effects");
  auto answer = caller_.ask(webhook, request, object, new_uid());
  if (!answer.ok()) {
    if (!webhook.ignores_failure) return failed(webhook, answer.error().message);
    log_.warn("admission webhook failed and is ignored",
              {{"webhook", webhook.name}, {"error", answer.error().message}});
    return Ok{};
  }
  for (std::string& warning : answer->warnings) request.warnings.push_back(std::move(warning));
  if (!answer->allowed) return denied(webhook, *answer);
  if (answer->patch.empty() || changeable == nullptr) return Ok{};
  auto patched = json::apply_json_patch(*changeable, json::Value(std::move(answer->patch)));
  if (!patched.ok() || !patched->is_object()) {
    if (webhook.ignores_failure) return Ok{};
    return failed(webhook, patched.ok() ? "its patch leaves no object" : patched.error().message);
  }
  if (*patched == *changeable) return Ok{};
  // What it brought in is completed, and what the kind does not know is dropped, before anybody else sees it.
  if (Done fits = prune_unknown(request.type, *patched, nullptr); !fits.ok()) {
    if (webhook.ignores_failure) return Ok{};
    return failed(webhook, "its patch does not fit: " + fits.error().message);
  }
  request.type.strategy->apply_defaults(*patched);
  *changeable = std::move(*patched);
  changed = true;
  return Ok{};
}

Done WebhookAdmission::mutate(AdmissionRequest& request, json::Value& object) {
  const auto table = this->table();
  // The last of them that changed the object; who was asked before it may be asked again.
  std::size_t last_change = 0;
  std::vector<bool> was_asked(table->mutating.size(), false);
  for (std::size_t i = 0; i < table->mutating.size(); ++i) {
    const Webhook& webhook = table->mutating[i];
    BASALT_TRY(const bool wanted, is_wanted(webhook, request, &object));
    if (!wanted) continue;
    was_asked[i] = true;
    bool changed = false;
    BASALT_TRY_DONE(ask(webhook, request, &object, &object, changed));
    if (changed) last_change = i;
  }
  for (std::size_t i = 0; i < last_change; ++i) {
    const Webhook& webhook = table->mutating[i];
    if (!webhook.asked_again || !was_asked[i]) continue;
    BASALT_TRY(const bool wanted, is_wanted(webhook, request, &object));
    if (!wanted) continue;
    bool changed = false;
    BASALT_TRY_DONE(ask(webhook, request, &object, &object, changed));
  }
  return Ok{};
}

Done WebhookAdmission::validate(AdmissionRequest& request, const json::Value* object) {
  const auto table = this->table();
  for (const Webhook& webhook : table->validating) {
    bool changed = false;
    BASALT_TRY(const bool wanted, is_wanted(webhook, request, object));
    if (wanted) BASALT_TRY_DONE(ask(webhook, request, object, nullptr, changed));
  }
  return Ok{};
}

}  // namespace basalt::apiserver
