#include "apiserver/builtin/client_config.h"

#include "base/encoding.h"
#include "base/strings.h"
#include "net/url.h"

namespace basalt::apiserver {
namespace {

constexpr std::int64_t kPortMax = 65535;

void check_url(std::string_view url, const FieldPath& path, Causes& causes) {
  const auto parsed = net::parse_url(url);
  if (!parsed.ok()) {
    causes.push_back(invalid_value(path.text(), base::quote(url), parsed.error().message));
    return;
  }
  if (parsed->scheme != "https")
    causes.push_back(invalid_value(path.text(), base::quote(url), "'https' is the only allowed URL scheme"));
  if (!parsed->query.empty())
    causes.push_back(invalid_value(path.text(), base::quote(url), "query parameters are not permitted in the URL"));
}

void check_service(const json::Value& service, const FieldPath& path, Causes& causes) {
  for (const std::string_view name : {"namespace", "name"}) {
    if (text_at(service, name).empty())
      causes.push_back(required(path.text(name), "service " + std::string(name) + " is required"));
  }
  if (const std::string_view url_path = text_at(service, "path"); !url_path.empty() && !url_path.starts_with("/"))
    causes.push_back(invalid_value(path.text("path"), base::quote(url_path), "must start with a '/'"));
  const std::int64_t port = int_at(service, "port").value_or(443);
  if (port < 1 || port > kPortMax)
    causes.push_back(invalid_value(path.text("port"), std::to_string(port), "must be between 1 and 65535, inclusive"));
}

}  // namespace

void default_client_config(json::Value& owner) {
  json::Value* service = owner.find_path({"clientConfig", "service"});
  if (service != nullptr && service->is_object()) set_default(service->as_object(), "port", 443);
}

void check_client_config(const json::Value& owner, const FieldPath& path, Causes& causes) {
  const FieldPath at = path.child("clientConfig");
  const std::string_view url = owner.string_at({"clientConfig", "url"});
  const json::Value* service = owner.find_path({"clientConfig", "service"});
  const bool has_service = service != nullptr && service->is_object();
  if (!url.empty() == has_service) {
    causes.push_back(required(at.text(), "exactly one of url or service is required"));
    return;
  }
  if (!url.empty()) {
    check_url(url, at.child("url"), causes);
  } else {
    check_service(*service, at.child("service"), causes);
  }
  const std::string_view bundle = owner.string_at({"clientConfig", "caBundle"});
  if (!bundle.empty() && !base::base64_decode(bundle))
    causes.push_back(invalid_value(at.text("caBundle"), "\"<bytes>\"", "must be certificates in PEM, as base64"));
}

}  // namespace basalt::apiserver
