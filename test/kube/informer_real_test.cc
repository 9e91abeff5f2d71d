#include <gtest/gtest.h>

#include <map>

#include "kube/informer.h"
#include "kube/kubeconfig.h"
#include "kube/rest_client.h"
#include "kube/testing/thing.h"
#include "rt/real_runtime.h"
#include "test/kube/kube_fixture.h"
#include "test/kube/rest_proxy.h"

namespace basalt::test {
namespace {

using kube::Client;
using kube::Request;
using kube::Verb;
using kube::testing::Thing;
using namespace std::chrono_literals;

const kube::Resource kConfigMaps{"", "v1", "configmaps"};

// An informer that reaches a real API server through a proxy, and a writer that reaches it directly.
class InformerReal : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = RealKube::why_skip(); !why.empty()) GTEST_SKIP() << why;
    auto started = RealKube::start();
    ASSERT_TRUE(started.kube) << started.error;
    kube_ = std::move(started.kube);
    proxy_ = std::make_unique<TcpProxy>(port_of(kube_->server_url()));
    writer_ = connect(kube_->server_url());
    reader_ = connect("https://127.0.0.1:" + std::to_string(proxy_->port()));
    ASSERT_TRUE(writer_ && reader_);
    kube::InformerOptions<Thing> options;
    options.reflector.resource = kConfigMaps;
    options.reflector.ns = "default";
    options.reflector.page_size = 50;
    options.reflector.backoff_min = 100ms;
    options.reflector.backoff_max = 1s;
    options.reflector.idle_timeout = 10s;
    informer_ = std::make_unique<kube::Informer<Thing>>(*runtime_, *reader_, Logger(), options);
    informer_->add_handler([this](const kube::Change<Thing>& change) { mirror(change); });
    informer_->start();
    ASSERT_TRUE(informer_->wait_synced({}, runtime_->now() + 60s));
  }
  void TearDown() override {
    if (informer_) informer_->stop();
  }

  std::unique_ptr<kube::RestClient> connect(const std::string& server) {
    auto config = kube::load_client_config({.kubeconfig = kube_->kubeconfig().string(), .server = server},
                                           kube::ConfigEnvironment::of_process());
    EXPECT_TRUE(config.ok()) << config.error().message;
    auto client = kube::make_rest_client(*runtime_, Logger(), *config);
    EXPECT_TRUE(client.ok()) << client.error().message;
    return client.ok() ? std::move(*client) : nullptr;
  }

  void mirror(const kube::Change<Thing>& change) {
    const rt::MutexLock lock(mutex_);
    ++changes_;
    const std::string& name = change.object().metadata.name;
    if (change.is_added()) {
      EXPECT_TRUE(mirror_.emplace(name, change.after).second) << "added twice: " << name;
    } else if (change.is_deleted()) {
      EXPECT_EQ(mirror_.erase(name), 1u) << "deleted but not there: " << name;
    } else {
      EXPECT_EQ(mirror_[name], change.before) << name;
      mirror_[name] = change.after;
    }
  }

  // Creates, patches, deletes and makes anew, by seeded choice; failures are fine, the server decides what is true.
  void change(int count) {
    std::vector<Request> batch;
    for (int i = 0; i < count; ++i) {
      const std::string name = "c" + std::to_string(random_ % 300);
      random_ = random_ * 6364136223846793005ULL + 1442695040888963407ULL;
      const std::uint64_t dice = (random_ >> 33) % 10;
      Request request{.verb = Verb::Patch, .resource = kConfigMaps, .ns = "default", .name = name};
      request.timeout = 5s;
      request.body = R"({"data":{"i":")" + std::to_string(sent_++) + "\"}}";
      if (dice < 4) {
        request.verb = Verb::Create;
        request.body = R"({"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":")" + name + "\"}}";
        request.name = "";
      } else if (dice < 6) {
        request.verb = Verb::Delete;
      }
      batch.push_back(std::move(request));
      random_ ^= random_ >> 29;
    }
    for (const auto& result : writer_->call_all(batch, {.in_flight_max = 16}, {})) done_ += result.ok() ? 1 : 0;
  }

  std::map<std::string, std::string> fresh_list() {
    std::map<std::string, std::string> all;
    kube::ListRequest request{.resource = kConfigMaps, .ns = "default"};
    auto page = writer_->list(request, {});
    EXPECT_TRUE(page.ok()) << page.error().message;
    if (!page.ok()) return all;
    for (const auto& item : page->items) {
      const auto identity = kube::identity_of(*item);
      all[identity->name] = identity->uid + "@" + identity->resource_version;
    }
    return all;
  }

  std::map<std::string, std::string> cached() {
    std::map<std::string, std::string> all;
    for (const auto& thing : informer_->list()) {
      all[thing->metadata.name] = thing->metadata.uid + "@" + thing->metadata.resource_version;
    }
    return all;
  }

  void expect_exact() {
    const auto truth = fresh_list();
    const rt::Instant deadline = runtime_->now() + 90s;
    while (cached() != truth && runtime_->now() < deadline) runtime_->sleep_for(50ms);
    EXPECT_EQ(cached(), truth);
    const rt::MutexLock lock(mutex_);
    std::map<std::string, std::string> told;
    for (const auto& [name, thing] : mirror_) {
      told[name] = thing->metadata.uid + "@" + thing->metadata.resource_version;
    }
    EXPECT_EQ(told, truth) << "what the handlers were told";
  }

  std::unique_ptr<rt::Runtime> runtime_ = rt::make_real_runtime();
  std::unique_ptr<RealKube> kube_;
  std::unique_ptr<TcpProxy> proxy_;
  std::unique_ptr<kube::RestClient> writer_;
  std::unique_ptr<kube::RestClient> reader_;
  std::unique_ptr<kube::Informer<Thing>> informer_;
  std::uint64_t random_ = 12345;
  int sent_ = 0;
  int done_ = 0;
  rt::Mutex mutex_;
  std::map<std::string, std::shared_ptr<const Thing>> mirror_ BASALT_GUARDED_BY(mutex_);
  int changes_ BASALT_GUARDED_BY(mutex_) = 0;
};

TEST_F(InformerReal, StaysExactThroughTenThousandChangesAndDroppedConnections) {
  for (int batch = 0; done_ < 10'000 && batch < 400; ++batch) {
    change(100);
    if (batch % 5 == 2) proxy_->cut();
    if (batch % 20 == 7) {
      proxy_->set_blocked(true);
      change(100);
      proxy_->set_blocked(false);
    }
  }
  EXPECT_GE(done_, 10'000);
  expect_exact();
  EXPECT_LE(informer_->core().reflector_counts().lists, 3u) << "a broken watch is no reason to list again";
  EXPECT_GT(informer_->core().reflector_counts().watches, 5u);
  EXPECT_GE(informer_->core().reflector_counts().streaming_lists, 1u) << "the server offers it";
}

TEST_F(InformerReal, StaysExactThroughRestartsOfTheApiServer) {
  change(300);
  ASSERT_EQ(kube_->restart_apiserver(), "");
  change(300);
  expect_exact();
  ASSERT_EQ(kube_->kill_apiserver(), "");
  runtime_->sleep_for(1s);
  ASSERT_EQ(kube_->start_apiserver(), "");
  change(300);
  expect_exact();
}

TEST_F(InformerReal, ListsAgainAfterCompaction) {
  change(300);
  expect_exact();
  proxy_->set_blocked(true);
  change(500);
  ASSERT_EQ(kube_->compact_etcd(), "");
  ASSERT_EQ(kube_->restart_apiserver(), "");
  change(100);
  proxy_->set_blocked(false);
  expect_exact();
  EXPECT_GE(informer_->core().reflector_counts().expired, 1u) << "410";
  EXPECT_GE(informer_->core().reflector_counts().lists, 2u);
}

TEST_F(InformerReal, NoticesAConnectionThatWentDeadSilently) {
  change(100);
  expect_exact();
  proxy_->set_stalled(true);
  change(100);
  runtime_->sleep_for(12s);  // past the idle timeout
  proxy_->cut();
  proxy_->set_stalled(false);
  expect_exact();
}

}  // namespace
}  // namespace basalt::test
