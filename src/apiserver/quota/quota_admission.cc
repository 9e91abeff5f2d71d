#include "apiserver/quota/quota_admission.h"

#include <string>
#include <utility>
#include <vector>

#include "api/resource_list.h"
#include "apiserver/builtin/fields.h"
#include "apiserver/quota/usage.h"
#include "apiserver/registry/errors.h"
#include "apiserver/registry/metadata.h"

namespace basalt::apiserver {
namespace {

using api::ResourceList;

// Others than admission write a quota rarely; each such write costs one more try.
constexpr int kTriesMax = 20;

// Of `list`, what the quota bounds.
ResourceList bounded_part(const ResourceList& list, const ResourceList& hard) {
  ResourceList part;
  for (const auto& [name, amount] : list) {
    if (hard.contains(name)) part.set(name, amount);
  }
  return part;
}

class QuotaAdmission final : public AdmissionHook {
 public:
  QuotaAdmission(rt::Runtime& runtime, ApiServer& server, std::shared_ptr<QuotaLedger> ledger)
      : store_(server.store()),
        quotas_(store_.resource("/resourcequotas")),
        ledger_(std::move(ledger)),
        client_(make_direct_client(
            runtime, server,
            RequestContext{{"system:apiserver", "", {"system:masters"}}, "resource-quota-admission"})) {}

  [[nodiscard]] bool handles(const AdmissionRequest& request) const override {
    return request.subresource.empty() && !request.ns.empty() &&
           (request.operation == Operation::Create || request.operation == Operation::Update) &&
           store_.count(quotas_, request.ns) > 0;
  }

  Done mutate(AdmissionRequest&, json::Value&) override { return Ok{}; }

  Done validate(AdmissionRequest& request, const json::Value* object) override {
    if (object == nullptr) return Ok{};
    const std::string storage = request.type.storage_id();
    ResourceList added = quota_usage(storage, *object);
    if (request.operation == Operation::Update && request.old_object != nullptr) {
      added -= quota_usage(storage, *request.old_object);
    }
    const QuotaLedger::Turn turn(*ledger_, request.ns);
    for (int tries = 1;; ++tries) {
      Done done = charge(request, storage, *object, added);
      if (done.ok() || !done.error().is(Reason::Conflict) || tries == kTriesMax) return done;
    }
  }

 private:
  struct Charge {
    json::Value quota;
    ResourceList used;
  };

  Done charge(const AdmissionRequest& request, const std::string& storage, const json::Value& object,
              const ResourceList& added) {
    ListQuery query;
    query.resource = quotas_;
    query.ns = request.ns;
    BASALT_TRY(const Listing listing, store_.list(query));
    // First ask all of them: what one refuses is charged to none.
    std::vector<Charge> charges;
    for (const EntryRef& entry : listing.entries) {
      auto quota = json::Value::parse(*entry->object());
      if (!quota.ok() || !quota_covers(*quota, storage, object)) continue;
      const ResourceList hard = quantities_at(*quota, {"spec", "hard"});
      if (storage == "/pods" && request.operation == Operation::Create) {
        const std::string missing = unstated_resources(*quota, object);
        if (!missing.empty()) {
          return forbidden(request.type, request.name,
                           "failed quota: " + std::string(entry->name()) + ": must specify " + missing);
        }
      }
      const ResourceList wanted = bounded_part(added, hard);
      if (wanted.is_zero()) continue;
      ResourceList used = bounded_part(quantities_at(*quota, {"status", "used"}), hard);
      BASALT_TRY_DONE(check(request, entry->name(), wanted, used, hard));
      used += wanted;
      charges.push_back({std::move(*quota), std::move(used)});
    }
    if (request.dry_run) return Ok{};
    for (const Charge& one : charges) {
      BASALT_TRY_DONE(write_quota_status(*client_, one.quota, one.used, rt::StopToken()));
      ledger_->note_charge(request.ns);
    }
    return Ok{};
  }

  static Done check(const AdmissionRequest& request, std::string_view quota, const ResourceList& wanted,
                    const ResourceList& used, const ResourceList& hard) {
    ResourceList over;
    for (const auto& [name, amount] : wanted) {
      if (amount.sign() > 0 && used.get(name) + amount > hard.get(name)) over.set(name, amount);
    }
    if (over.empty()) return Ok{};
    ResourceList used_part;
    ResourceList hard_part;
    for (const auto& [name, amount] : over) {
      used_part.set(name, used.get(name));
      hard_part.set(name, hard.get(name));
    }
    return forbidden(request.type, request.name,
                     "exceeded quota: " + std::string(quota) + ", requested: " + over.to_string() +
                         ", used: " + used_part.to_string() + ", limited: " + hard_part.to_string());
  }

  Store& store_;
  const ResourceId quotas_;
  const std::shared_ptr<QuotaLedger> ledger_;
  const std::unique_ptr<kube::Client> client_;
};

}  // namespace

std::shared_ptr<AdmissionHook> quota_admission(rt::Runtime& runtime, ApiServer& server,
                                               std::shared_ptr<QuotaLedger> ledger) {
  return std::make_shared<QuotaAdmission>(runtime, server, std::move(ledger));
}

Done write_quota_status(kube::Client& client, const json::Value& quota, const ResourceList& used,
                        const rt::StopToken& stop) {
  const ResourceList hard = quantities_at(quota, {"spec", "hard"});
  ResourceList shown;  // a name for each that is bounded
  for (const auto& [name, amount] : hard) shown.set(name, used.get(name));
  json::Value status = json::Object{{"hard", quantities_to_json(hard)}, {"used", quantities_to_json(shown)}};
  if (const json::Value* before = quota.find("status"); before != nullptr && *before == status) return Ok{};
  json::Value changed = quota;
  changed.as_object().set("status", std::move(status));
  kube::Request request;
  request.verb = kube::Verb::Update;
  request.resource = {"", "v1", "resourcequotas"};
  request.ns = std::string(metadata_text(quota, "namespace"));
  request.name = std::string(metadata_text(quota, "name"));
  request.subresource = "status";
  request.body = changed.to_text();
  auto written = client.call(request, stop);
  if (!written.ok()) return std::move(written).error();
  return Ok{};
}

}  // namespace basalt::apiserver
