#include "apiserver/webhook/webhook_conversion.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "apiserver/registry/metadata.h"
#include "base/encoding.h"
#include "base/random_name.h"
#include "base/strings.h"
#include "json/writer.h"

namespace basalt::apiserver {
namespace {

constexpr std::string_view kReviewVersion = "apiextensions.k8s.io/v1";
constexpr std::string_view kReviewKind = "ConversionReview";
// As long as Kubernetes waits for one answer; and for all of a long list, as long as a request may take there.
constexpr rt::Duration kReviewTimeout = std::chrono::seconds(30);
constexpr rt::Duration kConversionTimeout = std::chrono::seconds(60);
// Of one review. An object has at most 3 MiB, so that one always fits.
constexpr std::size_t kReviewObjectsMax = 1000;
constexpr std::size_t kReviewBytesMax = 4u << 20;
constexpr std::size_t kAnswerBytesMax = 16u << 20;

Error broken(std::string what) { return Error::make(Reason::InternalError, std::move(what)); }

// The review of as many of the objects as fit, and how many these are.
std::pair<std::string, std::size_t> review_of(std::span<const json::Value> objects, const std::string& api_version,
                                              const std::string& uid) {
  std::string text;
  json::Writer writer(text);
  writer.begin_object();
  writer.key("apiVersion");
  writer.string(kReviewVersion);
  writer.key("kind");
  writer.string(kReviewKind);
  writer.key("request");
  writer.begin_object();
  writer.key("desiredAPIVersion");
  writer.string(api_version);
  writer.key("objects");
  writer.begin_array();
  std::size_t count = 0;
  while (count < std::min(objects.size(), kReviewObjectsMax) && text.size() < kReviewBytesMax) {
    encode(writer, objects[count++]);
  }
  writer.end_array();
  writer.key("uid");
  writer.string(uid);
  writer.end_object();
  writer.end_object();
  return {std::move(text), count};
}

// The converted objects of an answer, as it has them.
Result<json::Array> answered_objects(std::string_view text, const std::string& uid) {
  auto parsed = json::Value::parse(text);
  if (!parsed.ok()) return broken("its answer is not JSON: " + parsed.error().message);
  const std::string_view version = parsed->string_at({"apiVersion"});
  const std::string_view kind = parsed->string_at({"kind"});
  if (version != kReviewVersion || kind != kReviewKind) {
    return broken("expected webhook response of " + std::string(kReviewVersion) + ", Kind=" + std::string(kReviewKind) +
                  ", got " + base::quote(version) + ", Kind=" + base::quote(kind));
  }
  json::Value* response = parsed->find("response");
  if (response == nullptr || !response->is_object()) return broken("its answer has no response");
  if (const std::string_view answered = response->string_at({"uid"}); answered != uid)
    return broken("expected response.uid=" + base::quote(uid) + ", got " + base::quote(answered));
  if (const std::string_view status = response->string_at({"result", "status"}); status != "Success") {
    const std::string_view message = response->string_at({"result", "message"});
    if (!message.empty()) return broken(std::string(message));
    return broken("it answered with response.result.status=" + base::quote(status) + " and no message");
  }
  json::Value* objects = response->find("convertedObjects");
  if (objects == nullptr || !objects->is_array()) return json::Array();
  return std::move(objects->as_array());
}

// Takes the converted object: what it says, with the metadata that it had; only labels and annotations may be new.
Done accept(json::Value& object, json::Value converted, const std::string& api_version, std::size_t index) {
  const auto complain = [&](std::string_view what, std::string_view wanted, std::string_view got) {
    return broken("response.convertedObjects[" + std::to_string(index) + "] has " + std::string(what) + " " +
                  base::quote(got) + " instead of " + base::quote(wanted));
  };
  if (!converted.is_object())
    return broken("response.convertedObjects[" + std::to_string(index) + "] is not an object");
  if (const std::string_view got = converted.string_at({"apiVersion"}); got != api_version)
    return complain("apiVersion", api_version, got);
  if (converted.string_at({"kind"}) != object.string_at({"kind"}))
    return complain("kind", object.string_at({"kind"}), converted.string_at({"kind"}));
  for (const std::string_view key : {"name", "namespace", "uid"}) {
    if (metadata_text(converted, key) != metadata_text(object, key))
      return complain("metadata." + std::string(key), metadata_text(object, key), metadata_text(converted, key));
  }
  json::Value metadata = std::move(object.as_object()["metadata"]);
  for (const std::string_view key : {"labels", "annotations"}) {
    metadata.as_object().erase(key);
    json::Value* kept = converted.find_path({"metadata", key});
    if (kept == nullptr || kept->is_null()) continue;
    const auto is_text = [](const json::Member& member) { return member.value.is_string(); };
    if (!kept->is_object() || !std::all_of(kept->as_object().begin(), kept->as_object().end(), is_text)) {
      return broken("response.convertedObjects[" + std::to_string(index) + "].metadata." + std::string(key) +
                    " is not a map of strings");
    }
    metadata.as_object().set(key, std::move(*kept));
  }
  converted.as_object().set("metadata", std::move(metadata));
  object = std::move(converted);
  return Ok{};
}

class WebhookConverter final : public VersionConverter {
 public:
  WebhookConverter(rt::Runtime& runtime, std::shared_ptr<WebhookCaller> caller, const json::Value& crd)
      : runtime_(runtime),
        caller_(std::move(caller)),
        crd_name_(metadata_text(crd, "name")),
        kind_(crd.string_at({"spec", "names", "kind"})) {
    const json::Value* config = crd.find_path({"spec", "conversion", "webhook", "clientConfig"});
    if (config == nullptr) return;  // not valid; whoever is asked says so
    endpoint_.url = std::string(config->string_at({"url"}));
    endpoint_.ca_pem = base::base64_decode(config->string_at({"caBundle"})).value_or("");
    endpoint_.service.ns = std::string(config->string_at({"service", "namespace"}));
    endpoint_.service.name = std::string(config->string_at({"service", "name"}));
    endpoint_.service.path = std::string(config->string_at({"service", "path"}));
    if (const json::Value* port = config->find_path({"service", "port"}); port != nullptr && port->is_int())
      endpoint_.service.port = static_cast<std::int32_t>(port->as_int());
  }

  [[nodiscard]] Done convert(const std::string& api_version, std::vector<json::Value>& objects,
                             const rt::StopToken& stop) const override {
    const rt::Instant deadline = runtime_.now() + kConversionTimeout;
    for (std::size_t done = 0; done < objects.size();) {
      auto converted = ask(std::span(objects).subspan(done), api_version, deadline, stop);
      if (!converted.ok()) {
        return broken("conversion webhook for " + api_version + ", Kind=" + kind_ + " (CustomResourceDefinition " +
                      base::quote(crd_name_) + ") failed: " + converted.error().message);
      }
      done += *converted;
    }
    return Ok{};
  }

 private:
  // Converts as many of the first objects as fit into one review, and returns how many these are.
  [[nodiscard]] Result<std::size_t> ask(std::span<json::Value> objects, const std::string& api_version,
                                        rt::Instant deadline, const rt::StopToken& stop) const {
    const rt::Duration left = deadline - runtime_.now();
    if (left <= rt::Duration::zero())
      return broken("it did not convert all objects within 60 seconds; ask for fewer at once (limit)");
    const std::string uid = base::random_uuid([this] { return runtime_.random(); });
    const auto [body, count] = review_of(objects, api_version, uid);
    BASALT_TRY(const std::string text,
               caller_->post(endpoint_, {"", body, std::min(left, kReviewTimeout), kAnswerBytesMax, stop}));
    BASALT_TRY(json::Array answered, answered_objects(text, uid));
    if (answered.size() != count) {
      return broken("it returned " + std::to_string(answered.size()) + " objects, expected " + std::to_string(count));
    }
    for (std::size_t i = 0; i < answered.size(); ++i) {
      BASALT_TRY_DONE(accept(objects[i], std::move(answered[i]), api_version, i));
    }
    return count;
  }

  rt::Runtime& runtime_;
  const std::shared_ptr<WebhookCaller> caller_;
  const std::string crd_name_;
  const std::string kind_;
  WebhookEndpoint endpoint_;
};

}  // namespace

WebhookConversions::WebhookConversions(rt::Runtime& runtime, ApiServer& server)
    : runtime_(runtime), caller_(std::make_shared<WebhookCaller>(runtime, server)) {}

std::shared_ptr<const VersionConverter> WebhookConversions::converter_of(const json::Value& crd) const {
  if (crd.string_at({"spec", "conversion", "strategy"}) != "Webhook") return nullptr;
  return std::make_shared<WebhookConverter>(runtime_, caller_, crd);
}

}  // namespace basalt::apiserver
