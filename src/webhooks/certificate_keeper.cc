#include "webhooks/certificate_keeper.h"

#include <algorithm>
#include <filesystem>

#include "base/encoding.h"
#include "json/value.h"
#include "net/certificates.h"
#include "webhooks/fields.h"

namespace basalt::webhooks {
namespace {

constexpr int kTriesMax = 5;
// Clocks of API servers may be a little behind ours.
constexpr auto kClockSkew = std::chrono::hours(1);

std::string data_of(const json::Value& secret, std::string_view key) {
  return base::base64_decode(secret.string_at({"data", key})).value_or("");
}

}  // namespace

CertificateKeeper::CertificateKeeper(rt::Runtime& runtime, kube::Client& client, Logger log,
                                     CertificateKeeperOptions options)
    : runtime_(runtime), client_(client), log_(std::move(log)), options_(std::move(options)) {}

std::vector<std::string> CertificateKeeper::dns_names(const std::string& service, const std::string& ns) {
  return {service, service + "." + ns, service + "." + ns + ".svc", service + "." + ns + ".svc.cluster.local"};
}

bool CertificateKeeper::needs_authority(const Material& material) const {
  if (!net::check_key_pair({material.authorities, material.authority_key}).ok()) return true;
  const auto info = net::read_certificate(material.authorities);
  // It must outlive the certificates that it signs.
  return !info.ok() || info->not_after < runtime_.wall_now() + 2 * options_.certificate_lifetime;
}

bool CertificateKeeper::needs_certificate(const Material& material) const {
  if (!net::check_key_pair({material.certificate, material.key}).ok()) return true;
  const rt::WallTime now = runtime_.wall_now();
  const auto info = net::read_certificate(material.certificate);
  if (!info.ok() || info->not_after < now + options_.certificate_lifetime / 3) return true;
  // Others make such Secrets, too; the name that API servers ask for is what counts.
  const std::string called = options_.service + "." + options_.ns + ".svc";
  if (std::find(info->dns_names.begin(), info->dns_names.end(), called) == info->dns_names.end()) return true;
  return !net::verify_certificate(material.certificate, material.authorities, now).ok();
}

Done CertificateKeeper::renew(Material& material) const {
  const rt::WallTime now = runtime_.wall_now();
  net::CertificateOptions options;
  options.not_before = now - kClockSkew;
  if (needs_authority(material)) {
    options.subject.common_name = options_.service + "-ca";
    options.not_after = now + options_.authority_lifetime;
    BASALT_TRY(net::KeyPair authority, net::make_authority(options));
    // The one before stays trusted: replicas that have not yet read the Secret still show certificates of it.
    const bool keeps_old = net::check_certificates(material.authorities).ok();
    const auto first = keeps_old ? material.authorities.find("-----END CERTIFICATE-----") : std::string::npos;
    std::string old =
        first == std::string::npos ? "" : material.authorities.substr(0, first) + "-----END CERTIFICATE-----\n";
    material.authorities = authority.certificate_pem + old;
    material.authority_key = authority.key_pem;
  }
  options.subject.common_name = options_.service + "." + options_.ns + ".svc";
  options.dns_names = dns_names(options_.service, options_.ns);
  options.is_for_servers = true;
  options.not_after = now + options_.certificate_lifetime;
  BASALT_TRY(net::KeyPair pair, net::issue_certificate({material.authorities, material.authority_key}, options));
  material.certificate = std::move(pair.certificate_pem);
  material.key = std::move(pair.key_pem);
  return Ok{};
}

Done CertificateKeeper::write_files(const Material& material) {
  const std::string content = material.certificate + material.key + material.authorities;
  if (content == written_) return Ok{};
  ca_pem_ = material.authorities;
  if (options_.folder.empty()) {
    written_ = content;
    return Ok{};
  }
  std::error_code problem;
  std::filesystem::create_directories(options_.folder, problem);
  if (problem) {
    return Error::invalid_input("the folder " + options_.folder + " cannot be made: " + problem.message());
  }
  // The key first: the server takes a pair only when both fit.
  BASALT_TRY_DONE(net::write_file_atomically(key_file(), material.key, 0600));
  BASALT_TRY_DONE(net::write_file_atomically(certificate_file(), material.certificate, 0644));
  BASALT_TRY_DONE(net::write_file_atomically(options_.folder + "/ca.crt", material.authorities, 0644));
  written_ = content;
  log_.info("certificates are in place",
            {{"folder", options_.folder}, {"secret", options_.ns + "/" + options_.secret}});
  return Ok{};
}

Done CertificateKeeper::refresh(const rt::StopToken& stop) {
  kube::Request get;
  get.resource = {"", "v1", "secrets"};
  get.ns = options_.ns;
  get.name = options_.secret;
  const std::string context = "secret " + options_.ns + "/" + options_.secret;
  for (int attempt = 1;; ++attempt) {
    const auto response = client_.call(get, stop);
    if (!response.ok() && !response.error().is(Reason::NotFound)) return response.error().with_context(context);
    json::Value secret = json::Object();
    const bool exists = response.ok();
    if (exists) {
      BASALT_TRY(secret, json::Value::parse(*response->body));
    }
    Material material{data_of(secret, "tls.crt"), data_of(secret, "tls.key"), data_of(secret, "ca.crt"),
                      data_of(secret, "ca.key")};
    if (exists && !needs_certificate(material)) return write_files(material);

    BASALT_TRY_DONE(renew(material));
    json::Object data{{"tls.crt", base::base64_encode(material.certificate)},
                      {"tls.key", base::base64_encode(material.key)},
                      {"ca.crt", base::base64_encode(material.authorities)},
                      {"ca.key", base::base64_encode(material.authority_key)}};
    kube::Request put = get;
    put.field_manager = "vc-webhook-manager";
    if (exists) {
      // A patch: the right to it is what Volcano's installation gives. The version makes it fail if somebody was
      // faster.
      put.verb = kube::Verb::Patch;
      put.body = json::Value(json::Object{
                                 {"metadata",
                                  json::Object{{"resourceVersion", secret.string_at({"metadata", "resourceVersion"})}}},
                                 {"data", std::move(data)}})
                     .to_text();
    } else {
      put.verb = kube::Verb::Create;
      put.name.clear();
      put.body =
          json::Value(json::Object{{"apiVersion", "v1"},
                                   {"kind", "Secret"},
                                   {"type", "Opaque"},
                                   {"metadata", json::Object{{"name", options_.secret}, {"namespace", options_.ns}}},
                                   {"data", std::move(data)}})
              .to_text();
    }
    const auto written = client_.call(put, stop);
    if (written.ok()) return write_files(material);
    const bool was_faster = written.error().is(Reason::Conflict) || written.error().is(Reason::AlreadyExists);
    if (!was_faster || attempt == kTriesMax) return written.error().with_context(context);
  }
}

}  // namespace basalt::webhooks
