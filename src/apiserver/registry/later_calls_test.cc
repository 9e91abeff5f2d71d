// Calls for which no thread waits answer as the others do.

#include "apiserver/registry/later_calls.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "apiserver/store/store_test_support.h"
#include "json/value.h"
#include "rt/mutex.h"
#include "rt/real_runtime.h"

namespace basalt::apiserver {
namespace {

const kube::Resource kConfigMaps{"", "v1", "configmaps"};
const kube::Resource kCrds{"apiextensions.k8s.io", "v1", "customresourcedefinitions"};

kube::Request creation(const kube::Resource& resource, std::string ns, std::string body) {
  kube::Request request;
  request.verb = kube::Verb::Create;
  request.resource = resource;
  request.ns = std::move(ns);
  request.body = std::move(body);
  return request;
}

class LaterCallsTest : public ::testing::TestWithParam<Durability> {
 protected:
  LaterCallsTest() : changed_(*runtime_) {
    ApiServer::Options options;
    options.store.durability = GetParam();
    options.store.directory = folder_.path();
    auto opened = ApiServer::open(*runtime_, Logger(), std::move(options));
    EXPECT_TRUE(opened.ok());
    server_ = std::move(*opened);
    EXPECT_TRUE(server_->start().ok());
    later_ = dynamic_cast<LaterCalls*>(server_.get());
  }
  ~LaterCallsTest() override { server_->stop(); }

  void call(const kube::Request& request) {
    later_->call_later(request, context_, [this](Result<kube::Response> response) {
      rt::MutexLock lock(mutex_);
      responses_.push_back(std::move(response));
      changed_.notify_all();
    });
  }
  std::vector<Result<kube::Response>> wait_for(std::size_t count) {
    rt::MutexLock lock(mutex_);
    while (responses_.size() < count) changed_.wait(mutex_);
    return std::exchange(responses_, {});
  }
  Result<kube::Response> call_and_wait(const kube::Request& request) {
    call(request);
    return std::move(wait_for(1).front());
  }

  const std::unique_ptr<rt::Runtime> runtime_ = rt::make_real_runtime();
  testing::TemporaryDirectory folder_;
  std::unique_ptr<ApiServer> server_;
  LaterCalls* later_ = nullptr;
  const RequestContext context_{{"admin", "", {}}, "test"};

 private:
  rt::Mutex mutex_;
  rt::Condition changed_;
  std::vector<Result<kube::Response>> responses_ BASALT_GUARDED_BY(mutex_);
};

TEST_P(LaterCallsTest, ACreateAnswersWithWhatIsStored) {
  const auto response =
      call_and_wait(creation(kConfigMaps, "default", R"({"metadata":{"name":"a"},"data":{"k":"v"}})"));
  ASSERT_TRUE(response.ok()) << response.error().to_string();
  EXPECT_EQ(response->code, 201);
  kube::Request get;
  get.verb = kube::Verb::Get;
  get.resource = kConfigMaps;
  get.ns = "default";
  get.name = "a";
  const auto stored = server_->call(get, context_);
  ASSERT_TRUE(stored.ok());
  EXPECT_EQ(*stored->body, *response->body);
}

TEST_P(LaterCallsTest, ErrorsAreThoseOfCall) {
  const std::vector<kube::Request> requests = {
      creation(kConfigMaps, "default", R"({"metadata":{"name":"a"}})"),
      creation(kConfigMaps, "default", R"({"metadata":{"name":"Not A Name"}})"),
      creation(kConfigMaps, "nowhere", R"({"metadata":{"name":"a"}})"),
      creation(kConfigMaps, "", R"({"metadata":{"name":"a"}})"),
      creation(kConfigMaps, "default", "{"),
      creation({"", "v1", "nothings"}, "default", R"({"metadata":{"name":"a"}})"),
  };
  ASSERT_TRUE(server_->call(requests[0], context_).ok());
  for (const kube::Request& request : requests) {
    const auto expected = server_->call(request, context_);
    const auto response = call_and_wait(request);
    ASSERT_FALSE(expected.ok()) << request.body;
    ASSERT_FALSE(response.ok()) << request.body;
    EXPECT_EQ(response.error().to_string(), expected.error().to_string());
  }
}

TEST_P(LaterCallsTest, NamesAreDrawnApart) {
  constexpr std::size_t kCount = 200;
  for (std::size_t i = 0; i < kCount; ++i) {
    call(creation(kConfigMaps, "default", R"({"metadata":{"generateName":"drawn-"}})"));
  }
  std::set<std::string> names;
  for (const auto& response : wait_for(kCount)) {
    ASSERT_TRUE(response.ok()) << response.error().to_string();
    const auto object = json::Value::parse(*response->body);
    ASSERT_TRUE(object.ok());
    names.insert(std::string(object->string_at({"metadata", "name"})));
  }
  EXPECT_EQ(names.size(), kCount);
}

TEST_P(LaterCallsTest, ADryRunWritesNothing) {
  kube::Request request = creation(kConfigMaps, "default", R"({"metadata":{"name":"dry"}})");
  request.dry_run = true;
  const auto response = call_and_wait(request);
  ASSERT_TRUE(response.ok());
  EXPECT_EQ(response->code, 201);
  Store& store = server_->store();
  EXPECT_EQ(store.get(store.resource("/configmaps"), "default", "dry"), nullptr);
}

// What a write makes the server serve is served when the write is answered.
TEST_P(LaterCallsTest, AKindIsServedWhenItsDefinitionIsAnswered) {
  const auto response = call_and_wait(creation(kCrds, "", R"({"metadata":{"name":"widgets.example.io"},
    "spec":{"group":"example.io","scope":"Namespaced","names":{"plural":"widgets","kind":"Widget"},
      "versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}})"));
  ASSERT_TRUE(response.ok()) << response.error().to_string();
  EXPECT_NE(server_->types()->find("example.io", "v1", "widgets"), nullptr);
}

TEST_P(LaterCallsTest, OtherVerbsAreCarriedOut) {
  ASSERT_TRUE(call_and_wait(creation(kConfigMaps, "default", R"({"metadata":{"name":"gone"}})")).ok());
  kube::Request request;
  request.verb = kube::Verb::Delete;
  request.resource = kConfigMaps;
  request.ns = "default";
  request.name = "gone";
  EXPECT_TRUE(call_and_wait(request).ok());
  EXPECT_TRUE(call_and_wait(request).error().is(Reason::NotFound));
}

INSTANTIATE_TEST_SUITE_P(Stores, LaterCallsTest, ::testing::Values(Durability::Memory, Durability::Full),
                         [](const auto& one) { return one.param == Durability::Memory ? "Memory" : "Durable"; });

}  // namespace
}  // namespace basalt::apiserver
