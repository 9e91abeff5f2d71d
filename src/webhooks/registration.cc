#include "webhooks/registration.h"

#include "base/encoding.h"
#include "json/value.h"
#include "webhooks/fields.h"

namespace basalt::webhooks {

Result<bool> register_ca_bundle(kube::Client& client, const Hook& hook, std::string_view ca_pem,
                                const rt::StopToken& stop) {
  constexpr int kTriesMax = 5;  // other replicas write the same; one of them wins
  kube::Request get;
  get.resource = {"admissionregistration.k8s.io", "v1",
                  hook.is_mutating ? "mutatingwebhookconfigurations" : "validatingwebhookconfigurations"};
  get.name = hook.configuration_name();
  get.timeout = std::chrono::seconds(5);
  const std::string bundle = base::base64_encode(ca_pem);
  for (int attempt = 1;; ++attempt) {
    BASALT_TRY(const kube::Response response, client.call(get, stop));
    BASALT_TRY(json::Value configuration, json::Value::parse(*response.body));
    bool differs = false;
    if (json::Value* entries = configuration.find("webhooks"); entries != nullptr && entries->is_array()) {
      for (json::Value& entry : entries->as_array()) {
        if (!entry.is_object()) continue;
        if (entry.string_at({"clientConfig", "caBundle"}) == bundle) continue;
        entry.ensure_path({"clientConfig", "caBundle"}) = bundle;
        differs = true;
      }
    }
    if (!differs) return false;
    kube::Request put = get;
    put.verb = kube::Verb::Update;
    put.field_manager = "vc-webhook-manager";
    put.body = configuration.to_text();
    const auto written = client.call(put, stop);
    if (written.ok()) return true;
    if (!written.error().is(Reason::Conflict) || attempt == kTriesMax) {
      return written.error().with_context("writing the authority into " + get.resource.plural + " " + get.name);
    }
  }
}

}  // namespace basalt::webhooks
