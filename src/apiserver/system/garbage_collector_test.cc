#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "apiserver/registry/api_server.h"
#include "json/value.h"
#include "rt/sim_runtime.h"

namespace basalt::apiserver {
namespace {

using std::chrono::seconds;

const kube::Resource kConfigMaps{"", "v1", "configmaps"};

struct Owner {
  std::string name;
  bool blocks = true;
};

// Config maps that own each other.
class Family {
 public:
  explicit Family(rt::Runtime& runtime) {
    auto opened = ApiServer::open(runtime, Logger(), ApiServer::Options());
    EXPECT_TRUE(opened.ok());
    server_ = std::move(*opened);
    EXPECT_TRUE(server_->start().ok());
    client_ = make_direct_client(runtime, *server_, RequestContext{{"admin", "", {}}, "test"});
  }
  ~Family() { server_->stop(); }

  Result<json::Value> call(kube::Verb verb, const std::string& name, const std::string& body = {},
                           kube::Propagation propagation = kube::Propagation::Default) {
    kube::Request request;
    request.verb = verb;
    request.resource = kConfigMaps;
    request.ns = "default";
    request.name = name;
    request.body = body;
    request.propagation = propagation;
    auto response = client_->call(request, {});
    if (!response.ok()) return response.error();
    return json::Value::parse(*response->body);
  }
  void make(const std::string& name, const std::vector<std::string>& finalizers = {}) {
    json::Array list;
    for (const std::string& one : finalizers) list.emplace_back(one);
    const json::Value object = json::Object{{"metadata", json::Object{{"name", name}, {"finalizers", list}}}};
    ASSERT_TRUE(call(kube::Verb::Create, "", object.to_text()).ok());
  }
  void set_owners(const std::string& name, const std::vector<Owner>& owners) {
    json::Array list;
    for (const Owner& owner : owners) {
      auto object = call(kube::Verb::Get, owner.name);
      ASSERT_TRUE(object.ok());
      list.push_back(json::Object{{"apiVersion", "v1"},
                                  {"kind", "ConfigMap"},
                                  {"name", owner.name},
                                  {"uid", object->string_at({"metadata", "uid"})},
                                  {"blockOwnerDeletion", owner.blocks}});
    }
    const json::Value patch = json::Object{{"metadata", json::Object{{"ownerReferences", std::move(list)}}}};
    ASSERT_TRUE(call(kube::Verb::Patch, name, patch.to_text()).ok());
  }
  void remove(const std::string& name, kube::Propagation propagation) {
    ASSERT_TRUE(call(kube::Verb::Delete, name, "", propagation).ok());
  }
  void drop_finalizers(const std::string& name) {
    ASSERT_TRUE(call(kube::Verb::Patch, name, R"({"metadata":{"finalizers":null}})").ok());
  }
  [[nodiscard]] bool has(const std::string& name) { return call(kube::Verb::Get, name).ok(); }
  [[nodiscard]] bool is_going(const std::string& name) {
    auto object = call(kube::Verb::Get, name);
    return object.ok() && !object->string_at({"metadata", "deletionTimestamp"}).empty();
  }

 private:
  std::unique_ptr<ApiServer> server_;
  std::unique_ptr<kube::Client> client_;
};

void with_family(const std::function<void(Family&, rt::SimRuntime&)>& body, std::uint64_t seeds = 4) {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    rt::SimRuntime::Options options;
    options.seed = seed;
    auto runtime = rt::SimRuntime::make(options);
    const auto report = runtime->run([&] {
      Family family(*runtime);
      body(family, *runtime);
    });
    EXPECT_TRUE(report.completed) << report.problem;
  }
}

TEST(GarbageCollector, ACircleOfOwnersDoesNotHoldItself) {
  with_family([](Family& family, rt::SimRuntime& runtime) {
    for (const char* name : {"one", "two", "three"}) family.make(name);
    family.set_owners("one", {{"three"}});
    family.set_owners("two", {{"one"}});
    family.set_owners("three", {{"two"}});
    runtime.sleep_for(seconds(1));
    EXPECT_TRUE(family.has("one") && family.has("two") && family.has("three"));
    family.remove("one", kube::Propagation::Foreground);
    runtime.sleep_for(seconds(5));
    EXPECT_FALSE(family.has("one"));
    EXPECT_FALSE(family.has("two"));
    EXPECT_FALSE(family.has("three"));
  });
}

// The collector has not yet heard of the circle when its first member goes.
TEST(GarbageCollector, ANewCircleDoesNotHoldItselfEither) {
  with_family(
      [](Family& family, rt::SimRuntime& runtime) {
        for (const char* name : {"one", "two", "three"}) family.make(name);
        family.set_owners("one", {{"three"}});
        family.set_owners("two", {{"one"}});
        family.set_owners("three", {{"two"}});
        family.remove("one", kube::Propagation::Foreground);
        runtime.sleep_for(seconds(5));
        EXPECT_FALSE(family.has("one"));
        EXPECT_FALSE(family.has("two"));
        EXPECT_FALSE(family.has("three"));
      },
      200);
}

TEST(GarbageCollector, InTheForegroundTheOwnerGoesLast) {
  with_family([](Family& family, rt::SimRuntime& runtime) {
    family.make("owner");
    family.make("child", {"test/hold"});
    family.make("grandchild", {"test/hold"});
    family.set_owners("child", {{"owner"}});
    family.set_owners("grandchild", {{"child"}});
    runtime.sleep_for(seconds(1));
    family.remove("owner", kube::Propagation::Foreground);
    runtime.sleep_for(seconds(5));
    EXPECT_TRUE(family.is_going("owner") && family.is_going("child") && family.is_going("grandchild"));
    family.drop_finalizers("grandchild");
    runtime.sleep_for(seconds(5));
    EXPECT_FALSE(family.has("grandchild"));
    EXPECT_TRUE(family.is_going("owner") && family.is_going("child"));
    family.drop_finalizers("child");
    runtime.sleep_for(seconds(5));
    EXPECT_FALSE(family.has("child"));
    EXPECT_FALSE(family.has("owner"));
  });
}

// Those who do not block are deleted all the same, and are not waited for.
TEST(GarbageCollector, OnlyBlockingDependentsHoldTheirOwner) {
  with_family([](Family& family, rt::SimRuntime& runtime) {
    family.make("owner");
    family.make("child", {"test/hold"});
    family.set_owners("child", {{"owner", false}});
    runtime.sleep_for(seconds(1));
    family.remove("owner", kube::Propagation::Foreground);
    runtime.sleep_for(seconds(5));
    EXPECT_FALSE(family.has("owner"));
    EXPECT_TRUE(family.is_going("child"));
  });
}

// The last thing that happens to the dependents is that one of them loses its owner.
TEST(GarbageCollector, AnOwnerGoesOnceItsLastDependentIsSomebodyElses) {
  with_family([](Family& family, rt::SimRuntime& runtime) {
    family.make("leaves");
    family.make("stays");
    for (int i = 0; i < 6; ++i) {
      const std::string name = "child-" + std::to_string(i);
      family.make(name);
      family.set_owners(name, i % 2 == 0 ? std::vector<Owner>{{"leaves"}, {"stays"}} : std::vector<Owner>{{"leaves"}});
    }
    runtime.sleep_for(seconds(1));
    family.remove("leaves", kube::Propagation::Foreground);
    runtime.sleep_for(seconds(5));
    EXPECT_FALSE(family.has("leaves"));
    for (int i = 0; i < 6; ++i) {
      const std::string name = "child-" + std::to_string(i);
      auto child = family.call(kube::Verb::Get, name);
      EXPECT_EQ(child.ok(), i % 2 == 0) << name;
      if (!child.ok()) continue;
      EXPECT_FALSE(family.is_going(name));
      const json::Value* owners = child->find_path({"metadata", "ownerReferences"});
      ASSERT_NE(owners, nullptr);
      ASSERT_EQ(owners->as_array().size(), 1u);
      EXPECT_EQ(owners->as_array().front().string_at({"name"}), "stays");
    }
  });
}

}  // namespace
}  // namespace basalt::apiserver
