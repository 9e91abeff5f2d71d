#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/certificates.h"
#include "net/http_client.h"
#include "net/http_server.h"
#include "net/test_server.h"
#include "net/test_support.h"

// Who trusts whom: our client and our server with certificates that fit and certificates that do not.

namespace basalt::net {
namespace {

using ::testing::HasSubstr;
using testing::kPatience;
using testing::RawConnection;
using testing::TemporaryFolder;
using testing::TestCertificates;
using testing::TestServer;
using namespace std::chrono_literals;

class TlsTest : public ::testing::Test {
 protected:
  HttpServerOptions server_with(const KeyPair& pair) const {
    HttpServerOptions options;
    options.tls = TlsServerOptions{.certificate_pem = pair.certificate_pem, .key_pem = pair.key_pem};
    return options;
  }
  TlsClientOptions trusting() const { return {.ca_pem = certificates_.authority.certificate_pem}; }
  Result<HttpResponse> call(const std::string& url, TlsClientOptions tls) {
    const auto client = make_http_client(*runtime_, {.tls = std::move(tls)});
    if (!client) return client.error();
    return (*client)->call({.url = url, .timeout = kPatience}, {});
  }
  // The error of a call that cannot have been carried out.
  std::string refusal(const std::string& url, TlsClientOptions tls) {
    const auto response = call(url, std::move(tls));
    if (response.ok()) return "no refusal";
    EXPECT_EQ(Reason::Unreachable, response.error().reason) << response.error().message;
    return response.error().message;
  }

  std::unique_ptr<rt::Runtime> runtime_ = rt::make_real_runtime();
  const TestCertificates certificates_{*runtime_};
  TemporaryFolder folder_;
};

TEST_F(TlsTest, UnknownAuthorityIsRefused) {
  TestServer server(*runtime_, server_with(certificates_.server));
  const TestCertificates others(*runtime_);
  const std::string message = refusal(server.url("/echo"), {.ca_pem = others.authority.certificate_pem});
  EXPECT_THAT(message, HasSubstr("Cannot connect to https://127.0.0.1:"));
  EXPECT_THAT(message, HasSubstr("certificate"));
  // Nor does the system know ours.
  EXPECT_THAT(refusal(server.url("/echo"), {}), HasSubstr("certificate"));
}

TEST_F(TlsTest, WrongNameIsRefused) {
  CertificateOptions options;
  options.subject.common_name = "elsewhere.example";
  options.dns_names = {"elsewhere.example"};
  options.is_for_servers = true;
  options.not_before = runtime_->wall_now() - 1h;
  options.not_after = runtime_->wall_now() + 1h;
  TestServer server(*runtime_, server_with(issue_certificate(certificates_.authority, options).value()));
  EXPECT_THAT(refusal(server.url("/echo"), trusting()), HasSubstr("127.0.0.1"));

  // With the name that it has it is taken, and the request still goes to the address.
  TlsClientOptions named = trusting();
  named.server_name = "elsewhere.example";
  const auto response = call(server.url("/echo"), named);
  ASSERT_TRUE(response.ok()) << response.error().message;
  EXPECT_THAT(response->body, HasSubstr("Host=127.0.0.1:" + std::to_string(server.port()) + "\n"));
  named.server_name = "another.example";
  EXPECT_THAT(refusal(server.url("/echo"), named), HasSubstr("another.example"));
}

TEST_F(TlsTest, ServerNameMayBeAnAddress) {
  TestServer server(*runtime_, server_with(certificates_.server));
  TlsClientOptions named = trusting();
  named.server_name = "::1";
  EXPECT_TRUE(call(server.url("/echo"), named).ok());
  named.server_name = "localhost";
  EXPECT_TRUE(call(server.url("/echo"), named).ok());
}

TEST_F(TlsTest, ExpiredCertificateIsRefused) {
  TestServer server(*runtime_, server_with(certificates_.make_server("localhost", -1min)));
  EXPECT_THAT(refusal(server.url("/echo"), trusting()), HasSubstr("expired"));
}

TEST_F(TlsTest, CheckCanBeSwitchedOff) {
  TestServer server(*runtime_, server_with(certificates_.make_server("localhost", -1min)));
  EXPECT_TRUE(call(server.url("/echo"), {.insecure_skip_verify = true}).ok());
}

TEST_F(TlsTest, ShowsTheClientsCertificate) {
  HttpServerOptions options = server_with(certificates_.server);
  options.tls->client_ca_pem = certificates_.authority.certificate_pem;
  TestServer server(*runtime_, options);
  TlsClientOptions tls = trusting();
  EXPECT_THAT(call(server.url("/echo"), tls)->body, HasSubstr("certificate=-\n"));
  tls.certificate_pem = certificates_.client.certificate_pem;
  tls.key_pem = certificates_.client.key_pem;
  EXPECT_THAT(call(server.url("/echo"), tls)->body, HasSubstr("certificate=jane\n"));
  // One that the server's authority did not sign does not get in.
  const TestCertificates others(*runtime_);
  tls.certificate_pem = others.client.certificate_pem;
  tls.key_pem = others.client.key_pem;
  EXPECT_FALSE(call(server.url("/echo"), tls).ok());
}

TEST_F(TlsTest, CanRequireAClientCertificate) {
  HttpServerOptions options = server_with(certificates_.server);
  options.tls->client_ca_pem = certificates_.authority.certificate_pem;
  options.tls->client_certificate_required = true;
  TestServer server(*runtime_, options);
  const auto without = call(server.url("/echo"), trusting());
  ASSERT_FALSE(without.ok());
  EXPECT_THAT(without.error().message, HasSubstr("certificate required"));
  EXPECT_EQ(0, server.handled());
  TlsClientOptions tls = trusting();
  tls.certificate_pem = certificates_.client.certificate_pem;
  tls.key_pem = certificates_.client.key_pem;
  EXPECT_TRUE(call(server.url("/echo"), tls).ok());
}

TEST_F(TlsTest, ServerReadsRenewedFiles) {
  const auto write = [&](const KeyPair& pair) {
    ASSERT_TRUE(write_file_atomically(folder_.file("tls.crt"), pair.certificate_pem, 0644).ok());
    ASSERT_TRUE(write_file_atomically(folder_.file("tls.key"), pair.key_pem, 0600).ok());
  };
  write(certificates_.make_server("old.example", 1h));
  HttpServerOptions options;
  options.tls = TlsServerOptions{.certificate_file = folder_.file("tls.crt"), .key_file = folder_.file("tls.key")};
  TestServer server(*runtime_, options);
  TlsClientOptions old_name = trusting();
  old_name.server_name = "old.example";
  const auto client = make_http_client(*runtime_, {.tls = old_name}).value();
  EXPECT_TRUE(client->call({.url = server.url("/echo")}, {}).ok());

  write(certificates_.make_server("new.example", 1h));
  TlsClientOptions new_name = trusting();
  new_name.server_name = "new.example";
  const rt::Instant deadline = runtime_->now() + kPatience;
  while (!call(server.url("/echo"), new_name).ok()) {
    ASSERT_LT(runtime_->now(), deadline);
    runtime_->sleep_for(20ms);
  }
  // The connection from before goes on.
  EXPECT_TRUE(client->call({.url = server.url("/echo")}, {}).ok());
}

TEST_F(TlsTest, ClientReadsRenewedFiles) {
  HttpServerOptions options = server_with(certificates_.server);
  options.tls->client_ca_pem = certificates_.authority.certificate_pem;
  TestServer server(*runtime_, options);
  const auto write = [&](const KeyPair& pair) {
    ASSERT_TRUE(write_file_atomically(folder_.file("client.crt"), pair.certificate_pem, 0644).ok());
    ASSERT_TRUE(write_file_atomically(folder_.file("client.key"), pair.key_pem, 0600).ok());
  };
  write(certificates_.client);
  TlsClientOptions tls = trusting();
  tls.certificate_file = folder_.file("client.crt");
  tls.key_file = folder_.file("client.key");
  const auto client = make_http_client(*runtime_, {.tls = tls}).value();
  const auto user = [&] { return client->call({.url = server.url("/echo"), .timeout = kPatience}, {}).value().body; };
  EXPECT_THAT(user(), HasSubstr("certificate=jane\n"));

  CertificateOptions renewed;
  renewed.subject.common_name = "joan";
  renewed.is_for_clients = true;
  renewed.not_before = runtime_->wall_now() - 1h;
  renewed.not_after = runtime_->wall_now() + 1h;
  write(issue_certificate(certificates_.authority, renewed).value());
  const rt::Instant deadline = runtime_->now() + kPatience;
  while (user().find("certificate=joan\n") == std::string::npos) {
    ASSERT_LT(runtime_->now(), deadline);
    runtime_->sleep_for(20ms);
  }
}

TEST_F(TlsTest, SurvivesWhoeverDoesNotSpeakTls) {
  HttpServerOptions options = server_with(certificates_.server);
  options.header_timeout = 100ms;
  TestServer server(*runtime_, options);
  auto plain = RawConnection::connect(server.port());
  ASSERT_TRUE(plain.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
  EXPECT_TRUE(plain.is_closed_by_peer());
  auto silent = RawConnection::connect(server.port());
  EXPECT_TRUE(silent.is_closed_by_peer());
  auto half = RawConnection::connect(server.port());
  ASSERT_TRUE(half.send("\x16\x03\x01"));
  EXPECT_TRUE(half.is_closed_by_peer());
  EXPECT_TRUE(call(server.url("/echo"), trusting()).ok());
}

}  // namespace
}  // namespace basalt::net
