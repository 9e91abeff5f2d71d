#include "webhooks/certificate_keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/encoding.h"
#include "kube/fault_client.h"
#include "kube/testing/fake_cluster.h"
#include "net/certificates.h"
#include "net/test_support.h"
#include "rt/sim_test_support.h"
#include "webhooks/fields.h"
#include "webhooks/registration.h"

// Certificates over their lives, and the authority's way into the webhook configurations; in virtual time.

namespace basalt::webhooks {
namespace {

using net::testing::TemporaryFolder;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

const kube::Resource kSecrets{"", "v1", "secrets"};
const kube::Resource kValidating{"admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations"};

CertificateKeeperOptions options_in(const TemporaryFolder& folder, std::string_view name) {
  CertificateKeeperOptions options;
  options.ns = "volcano-system";
  options.service = "volcano-admission-service";
  options.folder = folder.file(name);
  options.certificate_lifetime = 9h;
  options.authority_lifetime = 60h;
  return options;
}

std::string secret_data(const kube::testing::FakeCluster& cluster, std::string_view key) {
  const auto objects = cluster.objects(kSecrets);
  const auto found = objects.find("volcano-system/volcano-admission-secret");
  if (found == objects.end()) return "";
  const json::Value secret = json::Value::parse(*found->second).value();
  return base::base64_decode(secret.string_at({"data", key})).value_or("");
}

std::string read(const std::string& file) { return net::read_file(file, 1 << 20).value_or(""); }

TEST(CertificateKeeper, MakesSharesAndRenews) {
  rt::run_seeds(1, 3, [](rt::SimRuntime& runtime) {
    TemporaryFolder folder;
    kube::testing::FakeCluster cluster(runtime);
    CertificateKeeper first(runtime, cluster, Logger(), options_in(folder, "a"));
    CertificateKeeper second(runtime, cluster, Logger(), options_in(folder, "b"));
    ASSERT_TRUE(first.refresh({}).ok());
    ASSERT_TRUE(second.refresh({}).ok());
    // Both serve the same pair, made for the service's names, signed by the authority that is registered.
    const std::string certificate = read(first.certificate_file());
    EXPECT_EQ(certificate, read(second.certificate_file()));
    EXPECT_EQ(read(first.key_file()), read(second.key_file()));
    EXPECT_TRUE(net::check_key_pair({certificate, read(first.key_file())}).ok());
    EXPECT_EQ(first.ca_pem(), second.ca_pem());
    EXPECT_TRUE(net::verify_certificate(certificate, first.ca_pem(), runtime.wall_now()).ok());
    const auto info = net::read_certificate(certificate);
    ASSERT_TRUE(info.ok());
    EXPECT_THAT(info->dns_names, ::testing::Contains("volcano-admission-service.volcano-system.svc"));

    // Nothing is written while nothing is due.
    const std::uint64_t revision = cluster.revision();
    ASSERT_TRUE(first.refresh({}).ok());
    EXPECT_EQ(revision, cluster.revision());

    // When a third of its life is left there is a new one, of the same authority.
    runtime.sleep_for(7h);
    ASSERT_TRUE(second.refresh({}).ok());
    ASSERT_TRUE(first.refresh({}).ok());
    EXPECT_NE(certificate, read(first.certificate_file()));
    EXPECT_EQ(read(second.certificate_file()), read(first.certificate_file()));
    EXPECT_TRUE(net::verify_certificate(read(first.certificate_file()), first.ca_pem(), runtime.wall_now()).ok());
    EXPECT_TRUE(net::verify_certificate(certificate, first.ca_pem(), runtime.wall_now()).ok());
  });
}

TEST(CertificateKeeper, TrustsTheAuthorityBeforeBesideTheNewOne) {
  rt::run_seeds(1, 1, [](rt::SimRuntime& runtime) {
    TemporaryFolder folder;
    kube::testing::FakeCluster cluster(runtime);
    CertificateKeeper keeper(runtime, cluster, Logger(), options_in(folder, "a"));
    ASSERT_TRUE(keeper.refresh({}).ok());
    const std::string first_authority = keeper.ca_pem();
    // Every refresh over a long time finds a pair that is valid, and trust never jumps.
    int authorities = 1;
    for (int hour = 0; hour < 200; hour += 2) {
      const std::string served = read(keeper.certificate_file());
      const std::string before = keeper.ca_pem();
      runtime.sleep_for(2h);
      ASSERT_TRUE(keeper.refresh({}).ok());
      ASSERT_TRUE(net::verify_certificate(read(keeper.certificate_file()), keeper.ca_pem(), runtime.wall_now()).ok());
      if (keeper.ca_pem() == before) continue;
      ++authorities;
      // What another replica still serves is trusted.
      EXPECT_TRUE(net::verify_certificate(served, keeper.ca_pem(), runtime.wall_now()).ok());
    }
    EXPECT_GE(authorities, 3);
    EXPECT_NE(first_authority, keeper.ca_pem());
    EXPECT_LT(keeper.ca_pem().size(), 3 * first_authority.size()) << "only one former authority is kept";
  });
}

TEST(CertificateKeeper, WhoeverIsFirstWins) {
  rt::run_seeds(1, 8, [](rt::SimRuntime& runtime) {
    TemporaryFolder folder;
    kube::testing::FakeCluster cluster(runtime);
    std::vector<std::unique_ptr<CertificateKeeper>> keepers;
    std::vector<rt::Thread> threads;
    for (const std::string name : {"a", "b", "c"}) {
      keepers.push_back(std::make_unique<CertificateKeeper>(runtime, cluster, Logger(), options_in(folder, name)));
    }
    for (const auto& keeper : keepers) {
      threads.emplace_back(runtime, "replica", [&runtime, one = keeper.get()] {
        runtime.yield();
        const Done done = one->refresh({});
        EXPECT_TRUE(done.ok()) << done.error().message;
      });
    }
    for (rt::Thread& thread : threads) thread.join();
    for (const auto& keeper : keepers) EXPECT_EQ(secret_data(cluster, "ca.crt"), keeper->ca_pem());
  });
}

TEST(CertificateKeeper, RepairsWhatIsBroken) {
  rt::run_seeds(1, 1, [](rt::SimRuntime& runtime) {
    TemporaryFolder folder;
    kube::testing::FakeCluster cluster(runtime);
    cluster.put(kSecrets,
                R"({"apiVersion":"v1","kind":"Secret","metadata":{"name":"volcano-admission-secret",)"
                R"("namespace":"volcano-system","labels":{"keep":"me"}},"data":{"tls.crt":"bm90IGEgY2VydA==",)"
                R"("other":"eA=="}})");
    CertificateKeeper keeper(runtime, cluster, Logger(), options_in(folder, "a"));
    ASSERT_TRUE(keeper.refresh({}).ok());
    EXPECT_TRUE(net::check_key_pair({secret_data(cluster, "tls.crt"), secret_data(cluster, "tls.key")}).ok());
    EXPECT_EQ("x", secret_data(cluster, "other"));
    EXPECT_THAT(*cluster.objects(kSecrets).begin()->second, HasSubstr(R"("keep":"me")"));
  });
}

TEST(CertificateKeeper, AnApiServerThatIsAwayLeavesTheFiles) {
  rt::run_seeds(1, 1, [](rt::SimRuntime& runtime) {
    TemporaryFolder folder;
    kube::testing::FakeCluster cluster(runtime);
    kube::FaultClient client(runtime, cluster);
    CertificateKeeper keeper(runtime, client, Logger(), options_in(folder, "a"));
    ASSERT_TRUE(keeper.refresh({}).ok());
    const std::string before = read(keeper.certificate_file());
    client.set_away(true);
    runtime.sleep_for(8h);
    EXPECT_FALSE(keeper.refresh({}).ok());
    EXPECT_EQ(before, read(keeper.certificate_file()));
    client.set_away(false);
    EXPECT_TRUE(keeper.refresh({}).ok());
    EXPECT_NE(before, read(keeper.certificate_file()));
  });
}

std::string configuration(std::string_view bundle) {
  return R"({"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingWebhookConfiguration","metadata":)"
         R"({"name":"volcano-admission-service-jobs-validate"},"webhooks":[{"name":"a","clientConfig":{"service":)"
         R"({"name":"s"},"caBundle":")" +
         std::string(bundle) + R"("}},{"name":"b","clientConfig":{"service":{"name":"s"}}}]})";
}

TEST(Registration, WritesTheAuthorityIntoEveryEntryOnce) {
  rt::run_seeds(1, 3, [](rt::SimRuntime& runtime) {
    kube::testing::FakeCluster cluster(runtime);
    const Hook& hook = *find_hook("/jobs/validate");
    const auto absent = register_ca_bundle(cluster, hook, "pem", {});
    ASSERT_FALSE(absent.ok());
    EXPECT_TRUE(absent.error().is(Reason::NotFound));

    cluster.put(kValidating, configuration("b2xk"));
    EXPECT_TRUE(register_ca_bundle(cluster, hook, "pem", {}).value());
    const std::string text = *cluster.objects(kValidating).begin()->second;
    const json::Value stored = json::Value::parse(text).value();
    for (const json::Value& entry : list_at(stored, "webhooks")) {
      EXPECT_EQ(base::base64_encode("pem"), entry.string_at({"clientConfig", "caBundle"}));
      EXPECT_EQ("s", entry.string_at({"clientConfig", "service", "name"}));
    }
    EXPECT_FALSE(register_ca_bundle(cluster, hook, "pem", {}).value()) << "nothing differs";
  });
}

TEST(Registration, ConflictsAreTriedAgain) {
  rt::run_seeds(1, 1, [](rt::SimRuntime& runtime) {
    kube::testing::FakeCluster cluster(runtime);
    kube::FaultClient client(runtime, cluster);
    cluster.put(kValidating, configuration(""));
    client.fail_call(2, Error::make(Reason::Conflict, "somebody was faster"));
    EXPECT_TRUE(register_ca_bundle(client, *find_hook("/jobs/validate"), "pem", {}).value());
    EXPECT_TRUE(client.struck());
  });
}

}  // namespace
}  // namespace basalt::webhooks
