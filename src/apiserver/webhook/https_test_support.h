#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/encoding.h"
#include "net/certificates.h"
#include "net/http_server.h"
#include "rt/runtime.h"

namespace basalt::apiserver {

// An HTTPS server of a test on 127.0.0.1, with an authority of its own.
class TestHttps {
 public:
  TestHttps(rt::Runtime& runtime, net::Handler handler) {
    net::CertificateOptions certificate;
    certificate.subject.common_name = "webhook";
    certificate.ip_addresses = {"127.0.0.1"};
    certificate.is_for_servers = true;
    certificate.not_before = runtime.wall_now() - std::chrono::hours(1);
    certificate.not_after = runtime.wall_now() + std::chrono::hours(1);
    authority_ = *net::make_authority(certificate);
    const net::KeyPair server = *net::issue_certificate(authority_, certificate);
    net::HttpServerOptions options;
    options.tls.emplace();
    options.tls->certificate_pem = server.certificate_pem;
    options.tls->key_pem = server.key_pem;
    http_ = *net::start_http_server(runtime, Logger(), options, std::move(handler));
  }
  ~TestHttps() { http_->stop(std::chrono::seconds(1)); }

  [[nodiscard]] std::string url(const std::string& path) const {
    return "https://127.0.0.1:" + std::to_string(http_->port()) + path;
  }
  [[nodiscard]] std::string ca_bundle() const { return base::base64_encode(authority_.certificate_pem); }

 private:
  net::KeyPair authority_;
  std::unique_ptr<net::HttpServer> http_;
};

}  // namespace basalt::apiserver
