#include "apiserver/builtin/crd_conversion.h"

#include <set>

#include "api/names.h"
#include "apiserver/builtin/client_config.h"
#include "apiserver/builtin/fields.h"
#include "base/strings.h"

namespace basalt::apiserver {
namespace {

// Of ConversionReview. Webhooks that know only v1beta1, which Kubernetes 1.22 gave up for CRDs, are refused here and
// not when the first object is read.
constexpr std::string_view kReviewVersion = "v1";

void check_review_versions(const json::Value& webhook, const FieldPath& path, Causes& causes) {
  const json::Array& versions = list_at(webhook, "conversionReviewVersions");
  if (versions.empty()) {
    causes.push_back(required(path.text(), "must specify one of v1"));
    return;
  }
  std::set<std::string_view> seen;
  for (std::size_t i = 0; i < versions.size(); ++i) {
    const std::string_view version = versions[i].is_string() ? std::string_view(versions[i].as_string()) : "";
    if (!seen.insert(version).second) causes.push_back(duplicate_value(path.index(i).text(), base::quote(version)));
    for (const std::string& complaint : api::dns1035_label_complaints(version))
      causes.push_back(invalid_value(path.index(i).text(), base::quote(version), complaint));
  }
  if (!seen.contains(kReviewVersion))
    causes.push_back(invalid_value(path.text(), shown(json::Value(versions)), "must include at least one of v1"));
}

}  // namespace

void default_crd_conversion(json::Value& crd) {
  json::Value& conversion = crd.ensure_path({"spec", "conversion"});
  if (!conversion.is_object()) conversion = json::Object{{"strategy", "None"}};
  set_default_text(conversion.as_object(), "strategy", "None");
  if (json::Value* webhook = conversion.find("webhook")) default_client_config(*webhook);
}

void validate_crd_conversion(const json::Value& crd, Causes& causes) {
  const json::Value* conversion = crd.find_path({"spec", "conversion"});
  if (conversion == nullptr) return;
  const FieldPath spec("spec");
  const FieldPath path = spec.child("conversion");
  constexpr std::string_view kStrategies[] = {"None", "Webhook"};
  const std::string_view strategy = text_at(*conversion, "strategy");
  const json::Value* webhook = member(*conversion, "webhook");
  const FieldPath webhook_path = path.child("webhook");
  if (strategy == "None") {
    if (webhook != nullptr)
      causes.push_back(forbidden_field(webhook_path.text(), "should not be set when strategy is not set to Webhook"));
  } else if (strategy != "Webhook") {
    causes.push_back(not_supported(path.text("strategy"), base::quote(strategy), kStrategies));
  } else if (webhook == nullptr || !webhook->is_object()) {
    causes.push_back(required(webhook_path.text(), "required when strategy is set to Webhook"));
  } else {
    if (member(*webhook, "clientConfig") == nullptr) {
      causes.push_back(required(webhook_path.text("clientConfig"), "required when strategy is set to Webhook"));
    } else {
      check_client_config(*webhook, webhook_path, causes);
    }
    check_review_versions(*webhook, webhook_path.child("conversionReviewVersions"), causes);
  }
}

}  // namespace basalt::apiserver
