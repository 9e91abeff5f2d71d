#include "net/certificates.h"

#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/encoding.h"
#include "net/pem_source.h"
#include "net/test_support.h"

namespace basalt::net {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using testing::TemporaryFolder;
using testing::TestCertificates;
using namespace std::chrono_literals;

class CertificatesTest : public ::testing::Test {
 protected:
  std::unique_ptr<rt::Runtime> runtime_ = rt::make_real_runtime();
  TestCertificates certificates_{*runtime_};
  TemporaryFolder folder_;
};

TEST_F(CertificatesTest, ReadsBackWhatItIssued) {
  const CertificateInfo client = read_certificate(certificates_.client.certificate_pem).value();
  EXPECT_EQ("jane", client.subject.common_name);
  EXPECT_THAT(client.subject.organizations, ElementsAre("developers", "admins"));
  EXPECT_EQ("test authority", client.issuer.common_name);
  EXPECT_FALSE(client.is_authority);
  EXPECT_EQ(32u, client.serial_hex.size());

  const CertificateInfo server = read_certificate(certificates_.server.certificate_pem).value();
  EXPECT_THAT(server.dns_names, ElementsAre("localhost"));
  EXPECT_THAT(server.ip_addresses, ElementsAre("127.0.0.1", "::1"));
  EXPECT_LE(server.not_before, runtime_->wall_now());
  EXPECT_GT(server.not_after, runtime_->wall_now() + 50min);
  EXPECT_TRUE(read_certificate(certificates_.authority.certificate_pem).value().is_authority);
}

TEST_F(CertificatesTest, VerifiesSignatureAndLifetime) {
  const auto& authority = certificates_.authority.certificate_pem;
  const auto& leaf = certificates_.client.certificate_pem;
  const auto now = runtime_->wall_now();
  EXPECT_TRUE(verify_certificate(leaf, authority, now).ok());
  EXPECT_THAT(verify_certificate(leaf, authority, now + 2h).error().message, HasSubstr("expired"));
  EXPECT_THAT(verify_certificate(leaf, authority, now - 2h).error().message, HasSubstr("not yet valid"));
  const TestCertificates other(*runtime_);
  EXPECT_FALSE(verify_certificate(leaf, other.authority.certificate_pem, now).ok());
  EXPECT_TRUE(verify_certificate(leaf, other.authority.certificate_pem + authority, now).ok());
}

TEST_F(CertificatesTest, SignsItself) {
  CertificateOptions options;
  options.subject.common_name = "alone";
  options.dns_names = {"alone.example"};
  options.is_for_servers = true;
  options.not_before = runtime_->wall_now();
  options.not_after = runtime_->wall_now() + 1h;
  const KeyPair pair = make_self_signed(options).value();
  EXPECT_TRUE(check_key_pair(pair).ok());
  EXPECT_TRUE(verify_certificate(pair.certificate_pem, pair.certificate_pem, runtime_->wall_now() + 1s).ok());
}

TEST_F(CertificatesTest, RefusesWhatDoesNotFit) {
  CertificateOptions options;
  options.subject.common_name = "x";
  options.not_before = runtime_->wall_now();
  options.not_after = runtime_->wall_now() + 1h;
  auto bad = options;
  bad.dns_names = {"a,IP:1.2.3.4"};
  EXPECT_EQ(Reason::InvalidInput, make_self_signed(bad).error().reason);
  bad = options;
  bad.ip_addresses = {"1.2.3"};
  EXPECT_FALSE(make_self_signed(bad).ok());
  bad = options;
  bad.subject.common_name = std::string(65, 'x');
  EXPECT_FALSE(make_self_signed(bad).ok());
  bad = options;
  bad.not_after = bad.not_before;
  EXPECT_FALSE(make_self_signed(bad).ok());
  EXPECT_FALSE(read_certificate("").ok());
  EXPECT_FALSE(read_certificate("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").ok());
  EXPECT_FALSE(check_certificates(certificates_.authority.certificate_pem +
                                  "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
                   .ok());
  const KeyPair mixed{.certificate_pem = certificates_.server.certificate_pem, .key_pem = certificates_.client.key_pem};
  EXPECT_THAT(check_key_pair(mixed).error().message, HasSubstr("does not belong"));
}

TEST_F(CertificatesTest, MakesRsaKeysForSsh) {
  const std::string key = make_rsa_key(2048).value();
  EXPECT_THAT(key, StartsWith("-----BEGIN RSA PRIVATE KEY-----\n"));
  const std::string line = openssh_public_key(key).value();
  ASSERT_THAT(line, StartsWith("ssh-rsa AAAAB3NzaC1yc2EAAAADAQAB"));
  const std::string blob = base::base64_decode(line.substr(8)).value();
  // Name, exponent 65537, then 256 bytes of modulus and a zero before them.
  EXPECT_EQ(4u + 7 + 4 + 3 + 4 + 257, blob.size());
  EXPECT_EQ(line, openssh_public_key(key).value());
  EXPECT_FALSE(make_rsa_key(512).ok());
  EXPECT_FALSE(openssh_public_key(certificates_.server.key_pem).ok());
}

TEST_F(CertificatesTest, WritesFilesAtomicallyWithTheirMode) {
  const std::string path = folder_.file("key");
  ASSERT_TRUE(write_file_atomically(path, "one", 0600).ok());
  ASSERT_TRUE(write_file_atomically(path, "two", 0640).ok());
  EXPECT_EQ("two", read_file(path, 100).value());
  struct stat info{};
  ASSERT_EQ(0, ::stat(path.c_str(), &info));
  EXPECT_EQ(0640u, info.st_mode & 0777);
  EXPECT_EQ(Reason::InvalidInput, read_file(path, 2).error().reason);
  EXPECT_THAT(read_file(folder_.file("none"), 2).error().message, HasSubstr("No such file"));
  EXPECT_FALSE(write_file_atomically(folder_.file("no/folder"), "x", 0600).ok());
}

TEST_F(CertificatesTest, PemSourceFollowsFiles) {
  const auto write = [&](const char* name, const std::string& text) {
    ASSERT_TRUE(write_file_atomically(folder_.file(name), text, 0600).ok());
  };
  write("tls.crt", certificates_.server.certificate_pem);
  write("tls.key", certificates_.server.key_pem);
  PemSource source({.certificate_file = folder_.file("tls.crt"), .key_file = folder_.file("tls.key")});
  ASSERT_TRUE(source.load().ok());
  EXPECT_FALSE(source.refresh());

  // Half of the renewal: the pair does not fit, the old one stays.
  const KeyPair renewed = certificates_.make_server("localhost", 2h);
  write("tls.crt", renewed.certificate_pem);
  EXPECT_FALSE(source.refresh());
  EXPECT_THAT(source.problem(), HasSubstr("does not belong"));
  EXPECT_EQ(certificates_.server.certificate_pem, source.texts().certificate);
  write("tls.key", renewed.key_pem);
  EXPECT_TRUE(source.refresh());
  EXPECT_EQ(renewed.certificate_pem, source.texts().certificate);
  EXPECT_EQ("", source.problem());
  EXPECT_FALSE(source.refresh());
}

TEST_F(CertificatesTest, PemSourceSaysWhatIsMissing) {
  PemSource none({.authorities_file = folder_.file("ca.crt")});
  EXPECT_THAT(none.load().error().message, HasSubstr("ca.crt"));
  PemSource half({.certificate_pem = certificates_.server.certificate_pem});
  EXPECT_THAT(half.load().error().message, HasSubstr("together"));
}

}  // namespace
}  // namespace basalt::net
