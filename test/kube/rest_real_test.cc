#include <gtest/gtest.h>

#include "json/value.h"
#include "kube/kubeconfig.h"
#include "kube/rest_client.h"
#include "kube/typed.h"
#include "rt/real_runtime.h"
#include "test/kube/kube_fixture.h"

namespace basalt::test {
namespace {

using kube::Client;
using kube::PatchType;
using kube::Request;
using kube::Verb;

const kube::Resource kConfigMaps{"", "v1", "configmaps"};
const kube::Resource kNamespaces{"", "v1", "namespaces"};
const kube::Resource kPods{"", "v1", "pods"};
const kube::Resource kServiceAccounts{"", "v1", "serviceaccounts"};

class RestReal : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!RealKube::why_skip().empty()) return;
    auto started = RealKube::start();
    error() = started.error;
    cluster() = std::move(started.kube);
  }
  static void TearDownTestSuite() { cluster().reset(); }
  void SetUp() override {
    if (const std::string why = RealKube::why_skip(); !why.empty()) GTEST_SKIP() << why;
    ASSERT_TRUE(cluster()) << error();
    client_ = connect({.kubeconfig = cluster()->kubeconfig().string()});
    ASSERT_TRUE(client_);
  }
  static std::unique_ptr<RealKube>& cluster() {
    static std::unique_ptr<RealKube> instance;
    return instance;
  }
  static std::string& error() {
    static std::string text;
    return text;
  }
  std::unique_ptr<kube::RestClient> connect(const kube::ConfigOverrides& overrides,
                                            kube::RestClientOptions options = {}) {
    auto config = kube::load_client_config(overrides, kube::ConfigEnvironment::of_process());
    EXPECT_TRUE(config.ok()) << config.error().message;
    auto client = kube::make_rest_client(*runtime_, Logger(), *config, std::move(options));
    EXPECT_TRUE(client.ok()) << client.error().message;
    return client.ok() ? std::move(*client) : nullptr;
  }
  static Request config_map(Verb verb, std::string name, std::string body = "") {
    Request request{.verb = verb, .resource = kConfigMaps, .ns = "default", .name = std::move(name)};
    request.body = std::move(body);
    return request;
  }
  static std::string body_of(const std::string& name, const std::string& value) {
    return R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":")" + name + R"("},"data":{"k":")" + value +
           "\"}}";
  }
  Result<kube::Response> create(const std::string& name) {
    return client_->call(config_map(Verb::Create, "", body_of(name, "1")), {});
  }
  static json::Value parse(const kube::Response& response) { return *json::Value::parse(*response.body); }

  std::unique_ptr<rt::Runtime> runtime_ = rt::make_real_runtime();
  std::unique_ptr<kube::RestClient> client_;
};

TEST_F(RestReal, EveryVerb) {
  auto created = create("verbs");
  ASSERT_TRUE(created.ok()) << created.error().to_string();
  EXPECT_EQ(created->code, 201);
  const std::string version = kube::resource_version_of(*created);
  EXPECT_NE(version, "");

  auto read = client_->call(config_map(Verb::Get, "verbs"), {});
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(kube::resource_version_of(*read), version);

  json::Value object = parse(*read);
  object.ensure_path({"data", "k"}) = "2";
  auto updated = client_->call(config_map(Verb::Update, "verbs", object.to_text()), {});
  ASSERT_TRUE(updated.ok()) << updated.error().to_string();
  EXPECT_EQ(client_->call(config_map(Verb::Update, "verbs", object.to_text()), {}).error().reason, Reason::Conflict);

  const std::pair<PatchType, std::string> patches[] = {
      {PatchType::Json, R"([{"op":"replace","path":"/data/k","value":"json"}])"},
      {PatchType::Merge, R"({"data":{"k":"merge"}})"},
      {PatchType::StrategicMerge, R"({"data":{"k":"strategic"}})"},
      {PatchType::Apply, body_of("verbs", "apply")}};
  const std::string expected[] = {"json", "merge", "strategic", "apply"};
  for (std::size_t i = 0; i < std::size(patches); ++i) {
    Request patch = config_map(Verb::Patch, "verbs", patches[i].second);
    patch.patch_type = patches[i].first;
    patch.field_manager = "tester";
    patch.force = true;
    const auto patched = client_->call(patch, {});
    ASSERT_TRUE(patched.ok()) << patched.error().to_string();
    EXPECT_EQ(parse(*patched).string_at({"data", "k"}), expected[i]);
  }

  Request dry = config_map(Verb::Delete, "verbs");
  dry.dry_run = true;
  EXPECT_TRUE(client_->call(dry, {}).ok());
  EXPECT_TRUE(client_->call(config_map(Verb::Get, "verbs"), {}).ok()) << "a dry run deletes nothing";
  EXPECT_TRUE(client_->call(config_map(Verb::Delete, "verbs"), {}).ok());
  EXPECT_EQ(client_->call(config_map(Verb::Get, "verbs"), {}).error().reason, Reason::NotFound);
}

TEST_F(RestReal, PreconditionsAndErrors) {
  auto created = create("strict");
  ASSERT_TRUE(created.ok());
  const auto again = create("strict");
  EXPECT_EQ(again.error().reason, Reason::AlreadyExists);
  EXPECT_EQ(again.error().code, 409);
  Request remove = config_map(Verb::Delete, "strict");
  remove.precondition_uid = "00000000-0000-0000-0000-000000000000";
  EXPECT_EQ(client_->call(remove, {}).error().reason, Reason::Conflict);
  remove.precondition_uid = parse(*created).string_at({"metadata", "uid"});
  remove.precondition_resource_version = "1";
  EXPECT_EQ(client_->call(remove, {}).error().reason, Reason::Conflict);
  remove.precondition_resource_version = kube::resource_version_of(*created);
  EXPECT_TRUE(client_->call(remove, {}).ok());

  const auto invalid = client_->call(config_map(Verb::Create, "", body_of("Not_A_Name", "1")), {});
  EXPECT_EQ(invalid.error().reason, Reason::Invalid);
  EXPECT_EQ(invalid.error().code, 422);
  ASSERT_FALSE(invalid.error().causes.empty());
  EXPECT_EQ(invalid.error().causes[0].field, "metadata.name");
  EXPECT_EQ(client_->call(config_map(Verb::Create, "", "{"), {}).error().reason, Reason::BadRequest);
  Request nowhere = config_map(Verb::Get, "x");
  nowhere.resource = {"no.such.group", "v1", "things"};
  EXPECT_EQ(client_->call(nowhere, {}).error().reason, Reason::NotFound);
  EXPECT_TRUE(kube::delete_object(*client_, kConfigMaps, {"default", "gone"}, {}, {}).ok());

  Request warned = config_map(Verb::Create, "", R"({"metadata":{"name":"warned"},"nonsense":1})");
  warned.field_validation = "Warn";
  const auto response = client_->call(warned, {});
  ASSERT_TRUE(response.ok());
  ASSERT_EQ(response->warnings.size(), 1u);
  EXPECT_NE(response->warnings[0].find("nonsense"), std::string::npos);
  warned.field_validation = "Strict";
  EXPECT_EQ(client_->call(warned, {}).error().reason, Reason::BadRequest);
}

TEST_F(RestReal, ListsPageByPageAndTypesItems) {
  std::vector<Request> requests;
  for (int i = 0; i < 25; ++i) {
    Request request = config_map(Verb::Create, "", body_of("page-" + std::to_string(i), "x"));
    request.ns = "kube-public";
    requests.push_back(request);
  }
  (void)client_->call({.verb = Verb::Create, .resource = kNamespaces, .body = R"({"metadata":{"name":"kube-public"}})"},
                      {});
  for (const auto& result : client_->call_all(requests, {.in_flight_max = 8}, {})) {
    EXPECT_TRUE(result.ok()) << result.error().to_string();
  }
  kube::ListRequest list{.resource = kConfigMaps, .ns = "kube-public", .limit = 10};
  std::size_t items = 0;
  std::size_t pages = 0;
  std::string version;
  do {
    const auto page = client_->list(list, {});
    ASSERT_TRUE(page.ok()) << page.error().to_string();
    ++pages;
    items += page->items.size();
    if (pages == 1) {
      EXPECT_GT(page->remaining_item_count.value_or(0), 0);
    } else {
      EXPECT_EQ(page->resource_version, version) << "one consistent list";
    }
    version = page->resource_version;
    for (const auto& item : page->items) EXPECT_EQ(kube::identity_of(*item)->kind, "ConfigMap");
    list.continue_token = page->continue_token;
  } while (!list.continue_token.empty());
  EXPECT_GE(items, 25u);
  EXPECT_GE(pages, 3u);

  Request all{.verb = Verb::DeleteCollection, .resource = kConfigMaps, .ns = "kube-public"};
  all.field_selector = "metadata.name=page-7";
  EXPECT_TRUE(client_->call(all, {}).ok());
  Request seven = config_map(Verb::Get, "page-7");
  seven.ns = "kube-public";
  EXPECT_EQ(client_->call(seven, {}).error().reason, Reason::NotFound);
  seven.name = "page-8";
  EXPECT_TRUE(client_->call(seven, {}).ok());
}

TEST_F(RestReal, WatchesWithBookmarksAndSaysExpired) {
  auto before = create("watched");
  ASSERT_TRUE(before.ok());
  kube::WatchRequest request{.resource = kConfigMaps, .ns = "default"};
  request.resource_version = kube::resource_version_of(*before);
  auto stream = client_->watch(request, {});
  ASSERT_TRUE(stream.ok()) << stream.error().to_string();
  EXPECT_TRUE(client_->call(config_map(Verb::Patch, "watched", R"({"data":{"k":"3"}})"), {}).ok());
  EXPECT_TRUE(client_->call(config_map(Verb::Delete, "watched"), {}).ok());
  const rt::Instant deadline = runtime_->now() + std::chrono::seconds(30);
  auto event = (*stream)->next(deadline);
  ASSERT_TRUE(event.ok()) << event.error().to_string();
  EXPECT_EQ((*event)->type, kube::WatchEventType::Modified);
  EXPECT_EQ((*stream)->next(deadline)->value().type, kube::WatchEventType::Deleted);
  EXPECT_EQ((*stream)->next(runtime_->now() + std::chrono::milliseconds(100)).error().reason, Reason::DeadlineExceeded);
  (*stream)->cancel();
  EXPECT_EQ((*stream)->next(deadline).error().reason, Reason::Cancelled);
  // A revision that is compacted away.
  ASSERT_EQ(cluster()->compact_etcd(), "");
  ASSERT_EQ(cluster()->restart_apiserver(), "");
  request.resource_version = "1";
  auto expired = client_->watch(request, {});
  const auto outcome = expired.ok() ? (*expired)->next(runtime_->now() + std::chrono::seconds(30))
                                    : Result<std::optional<kube::WatchEvent>>(expired.error());
  ASSERT_FALSE(outcome.ok());
  EXPECT_TRUE(outcome.error().is(Reason::Expired) || outcome.error().is(Reason::Gone)) << outcome.error().to_string();
  kube::ListRequest list{.resource = kConfigMaps, .resource_version = "1", .resource_version_match = "Exact"};
  EXPECT_EQ(client_->list(list, {}).error().reason, Reason::Expired);
}

TEST_F(RestReal, KubeconfigWithCertificateAndToken) {
  const auto version = client_->raw("GET", "/version", "", {});
  ASSERT_TRUE(version.ok());
  EXPECT_NE(version->body.find("gitVersion"), std::string::npos);
  auto user = connect({.kubeconfig = cluster()->user_kubeconfig().string()});
  ASSERT_TRUE(user);
  EXPECT_EQ(user->call(config_map(Verb::Get, "x"), {}).error().reason, Reason::Forbidden) << "known, without rights";
  auto token = connect(
      {.server = cluster()->server_url(), .token = cluster()->user_token(), .ca_file = cluster()->ca_file().string()});
  ASSERT_TRUE(token);
  EXPECT_EQ(token->call(config_map(Verb::Get, "x"), {}).error().reason, Reason::Forbidden);
  auto wrong = connect({.server = cluster()->server_url(), .token = "no", .ca_file = cluster()->ca_file().string()});
  EXPECT_EQ(wrong->call(config_map(Verb::Get, "x"), {}).error().reason, Reason::Unauthorized);
  auto other = connect({.kubeconfig = cluster()->kubeconfig().string(), .impersonate_user = "basalt-test"});
  const auto refused = other->call(config_map(Verb::Get, "x"), {});
  EXPECT_EQ(refused.error().reason, Reason::Forbidden);
  EXPECT_NE(refused.error().message.find("basalt-test"), std::string::npos);
}

TEST_F(RestReal, SubresourcesOfPods) {
  (void)client_->call({.verb = Verb::Create,
                       .resource = kServiceAccounts,
                       .ns = "default",
                       .body = R"({"metadata":{"name":"default"}})"},
                      {});
  Request create_pod{.verb = Verb::Create, .resource = kPods, .ns = "default"};
  create_pod.body = R"({"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}})";
  const auto pod = client_->call(create_pod, {});
  ASSERT_TRUE(pod.ok()) << pod.error().to_string();
  EXPECT_TRUE(kube::patch_status(*client_, kPods, {"default", "p"}, R"({"phase":"Running"})",
                                 kube::resource_version_of(*pod), {})
                  .ok());
  EXPECT_EQ(kube::patch_status(*client_, kPods, {"default", "p"}, R"({"phase":"Failed"})",
                               kube::resource_version_of(*pod), {})
                .error()
                .reason,
            Reason::Conflict)
      << "the version has moved on";
  Request bind{.verb = Verb::Create, .resource = kPods, .ns = "default", .name = "p", .subresource = "binding"};
  bind.body = R"({"metadata":{"name":"p"},"target":{"kind":"Node","name":"n1"}})";
  EXPECT_TRUE(client_->call(bind, {}).ok());
  const auto bound = client_->call({.verb = Verb::Get, .resource = kPods, .ns = "default", .name = "p"}, {});
  EXPECT_EQ(parse(*bound).string_at({"spec", "nodeName"}), "n1");
  EXPECT_EQ(parse(*bound).string_at({"status", "phase"}), "Running");
  kube::DeleteOptions now;
  now.grace_period_seconds = 0;
  EXPECT_TRUE(kube::delete_object(*client_, kPods, {"default", "p"}, now, {}).ok());
}

}  // namespace
}  // namespace basalt::test
