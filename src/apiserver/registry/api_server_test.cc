#include "apiserver/registry/api_server.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>
#include <string>

#include "json/value.h"
#include "rt/sim_runtime.h"
#include "rt/stop.h"

namespace basalt::apiserver {
namespace {

const kube::Resource kConfigMaps{"", "v1", "configmaps"};
const kube::Resource kNamespaces{"", "v1", "namespaces"};
const kube::Resource kCrds{"apiextensions.k8s.io", "v1", "customresourcedefinitions"};
const kube::Resource kWidgets{"example.io", "v1", "widgets"};

constexpr std::string_view kWidgetCrd = R"({
  "metadata": {"name": "widgets.example.io"},
  "spec": {"group": "example.io", "scope": "Namespaced",
    "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
    "versions": [{"name": "v1", "served": true, "storage": true,
      "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
      "schema": {"openAPIV3Schema": {"type": "object", "required": ["spec"], "properties": {
        "spec": {"type": "object", "properties": {
          "replicas": {"type": "integer", "minimum": 0, "default": 1},
          "mode": {"type": "string", "enum": ["soft", "hard"], "default": "hard"}}},
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}]}})";

// A server in memory under the simulated runtime, and short words for calls.
class Cluster {
 public:
  explicit Cluster(rt::Runtime& runtime) : runtime_(runtime) {
    auto opened = ApiServer::open(runtime, Logger(), ApiServer::Options());
    EXPECT_TRUE(opened.ok());
    server_ = std::move(*opened);
    EXPECT_TRUE(server_->start().ok());
    client_ = make_direct_client(runtime, *server_, RequestContext{{"admin", "", {}}, "test"});
  }
  ~Cluster() { server_->stop(); }

  Result<json::Value> call(kube::Verb verb, const kube::Resource& resource, const std::string& ns,
                           const std::string& name, const std::string& body = {},
                           const std::function<void(kube::Request&)>& change = {}) {
    kube::Request request;
    request.verb = verb;
    request.resource = resource;
    request.ns = ns;
    request.name = name;
    request.body = body;
    if (change) change(request);
    auto response = client_->call(request, {});
    if (!response.ok()) return response.error();
    return json::Value::parse(*response->body);
  }
  Result<json::Value> create(const kube::Resource& resource, const std::string& ns, const std::string& body) {
    return call(kube::Verb::Create, resource, ns, "", body);
  }
  Result<json::Value> get(const kube::Resource& resource, const std::string& ns, const std::string& name) {
    return call(kube::Verb::Get, resource, ns, name);
  }
  std::string version_of(const json::Value& object) {
    return std::string(object.string_at({"metadata", "resourceVersion"}));
  }

  rt::Runtime& runtime() { return runtime_; }
  kube::Client& client() { return *client_; }
  ApiServer& server() { return *server_; }

 private:
  rt::Runtime& runtime_;
  std::unique_ptr<ApiServer> server_;
  std::unique_ptr<kube::Client> client_;
};

void in_simulation(const std::function<void(Cluster&, rt::SimRuntime&)>& body, std::uint64_t seed = 1) {
  rt::SimRuntime::Options options;
  options.seed = seed;
  auto runtime = rt::SimRuntime::make(options);
  const auto report = runtime->run([&] {
    Cluster cluster(*runtime);
    body(cluster, *runtime);
  });
  EXPECT_TRUE(report.completed) << report.problem;
}

std::string config_map(std::string_view name, std::string_view extra = "") {
  return R"({"metadata":{"name":")" + std::string(name) + R"("},"data":{"a":"1"})" + std::string(extra) + "}";
}

TEST(ApiServer, CreateGivesAnObjectItsIdentity) {
  in_simulation([](Cluster& cluster, rt::SimRuntime&) {
    auto made = cluster.create(kConfigMaps, "default", config_map("one"));
    ASSERT_TRUE(made.ok()) << made.error().to_string();
    EXPECT_EQ(made->string_at({"kind"}), "ConfigMap");
    EXPECT_EQ(made->string_at({"apiVersion"}), "v1");
    EXPECT_EQ(made->string_at({"metadata", "namespace"}), "default");
    EXPECT_EQ(made->string_at({"metadata", "uid"}).size(), 36u);
    EXPECT_FALSE(cluster.version_of(*made).empty());
    EXPECT_EQ(made->string_at({"metadata", "creationTimestamp"}).substr(0, 10), "2026-01-01");
    auto again = cluster.create(kConfigMaps, "default", config_map("one"));
    ASSERT_FALSE(again.ok());
    EXPECT_EQ(again.error().reason, Reason::AlreadyExists);
    EXPECT_EQ(again.error().message, "configmaps \"one\" already exists");
  });
}

TEST(ApiServer, GeneratedNamesAreDistinct) {
  in_simulation([](Cluster& cluster, rt::SimRuntime&) {
    std::set<std::string> names;
    for (int i = 0; i < 50; ++i) {
      auto made = cluster.create(kConfigMaps, "default", R"({"metadata":{"generateName":"x-"}})");
      ASSERT_TRUE(made.ok()) << made.error().to_string();
      names.emplace(made->string_at({"metadata", "name"}));
    }
    EXPECT_EQ(names.size(), 50u);
  });
}

TEST(ApiServer, NamespaceMustExist) {
  in_simulation([](Cluster& cluster, rt::SimRuntime&) {
    auto made = cluster.create(kConfigMaps, "nowhere", config_map("one"));
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.error().reason, Reason::NotFound);
    EXPECT_EQ(made.error().message, "namespaces \"nowhere\" not found");
  });
}

TEST(ApiServer, StaleUpdateIsAConflictAndEqualUpdateIsNone) {
  in_simulation([](Cluster& cluster, rt::SimRuntime&) {
    auto made = cluster.create(kConfigMaps, "default", config_map("one"));
    ASSERT_TRUE(made.ok());
    json::Value changed = *made;
    changed.ensure_path({"data", "a"}) = "2";
    auto second = cluster.call(kube::Verb::Update, kConfigMaps, "default", "one", changed.to_text());
    ASSERT_TRUE(second.ok()) << second.error().to_string();
    EXPECT_NE(cluster.version_of(*second), cluster.version_of(*made));
    auto stale = cluster.call(kube::Verb::Update, kConfigMaps, "default", "one", changed.to_text());
    ASSERT_FALSE(stale.ok());
    EXPECT_EQ(stale.error().reason, Reason::Conflict);
    auto equal = cluster.call(kube::Verb::Update, kConfigMaps, "default", "one", second->to_text());
    ASSERT_TRUE(equal.ok());
    EXPECT_EQ(cluster.version_of(*equal), cluster.version_of(*second));
  });
}

TEST(ApiServer, EachKindOfPatch) {
  in_simulation([](Cluster& cluster, rt::SimRuntime&) {
    ASSERT_TRUE(cluster.create(kConfigMaps, "default", config_map("one")).ok());
    const auto patch = [&](kube::PatchType type, const std::string& body) {
      return cluster.call(kube::Verb::Patch, kConfigMaps, "default", "one", body,
                          [&](kube::Request& request) { request.patch_type = type; });
    };
    auto merged = patch(kube::PatchType::Merge, R"({"data":{"b":"2"}})");
    ASSERT_TRUE(merged.ok()) << merged.error().to_string();
    EXPECT_EQ(merged->string_at({"data", "b"}), "2");
    auto json_patched = patch(kube::PatchType::Json, R"([{"op":"remove","path":"/data/a"}])");
    ASSERT_TRUE(json_patched.ok()) << json_patched.error().to_string();
    EXPECT_EQ(json_patched->find_path({"data", "a"}), nullptr);
    auto strategic = patch(kube::PatchType::StrategicMerge, R"({"metadata":{"labels":{"x":"y"}}})");
    ASSERT_TRUE(strategic.ok()) << strategic.error().to_string();
    EXPECT_EQ(strategic->string_at({"metadata", "labels", "x"}), "y");
    EXPECT_FALSE(patch(kube::PatchType::Merge, R"({"metadata":{"name":"other"}})").ok());
    EXPECT_FALSE(patch(kube::PatchType::Json, R"([{"op":"remove","path":"/data/none"}])").ok());
  });
}

TEST(ApiServer, FinalizersHoldAnObject) {
  in_simulation([](Cluster& cluster, rt::SimRuntime&) {
    ASSERT_TRUE(
        cluster.create(kConfigMaps, "default", R"({"metadata":{"name":"held","finalizers":["example.io/wait"]}})")
            .ok());
    auto removed = cluster.call(kube::Verb::Delete, kConfigMaps, "default", "held");
    ASSERT_TRUE(removed.ok()) << removed.error().to_string();
    auto waiting = cluster.get(kConfigMaps, "default", "held");
    ASSERT_TRUE(waiting.ok());
    EXPECT_FALSE(waiting->string_at({"metadata", "deletionTimestamp"}).empty());
    auto released =
        cluster.call(kube::Verb::Patch, kConfigMaps, "default", "held", R"({"metadata":{"finalizers":null}})");
    ASSERT_TRUE(released.ok()) << released.error().to_string();
    EXPECT_FALSE(cluster.get(kConfigMaps, "default", "held").ok());
  });
}

TEST(ApiServer, DeletePreconditions) {
  in_simulation([](Cluster& cluster, rt::SimRuntime&) {
    auto made = cluster.create(kConfigMaps, "default", config_map("one"));
    ASSERT_TRUE(made.ok());
    auto wrong = cluster.call(kube::Verb::Delete, kConfigMaps, "default", "one", "",
                              [](kube::Request& request) { request.precondition_uid = "other"; });
    ASSERT_FALSE(wrong.ok());
    EXPECT_EQ(wrong.error().reason, Reason::Conflict);
    auto right = cluster.call(kube::Verb::Delete, kConfigMaps, "default", "one", "", [&](kube::Request& request) {
      request.precondition_uid = std::string(made->string_at({"metadata", "uid"}));
    });
    ASSERT_TRUE(right.ok());
    EXPECT_EQ(right->string_at({"status"}), "Success");
  });
}

TEST(ApiServer, CrdIsServedAtOnceAndValidates) {
  in_simulation([](Cluster& cluster, rt::SimRuntime&) {
    EXPECT_FALSE(cluster.create(kWidgets, "default", "{}").ok());
    auto crd = cluster.create(kCrds, "", std::string(kWidgetCrd));
    ASSERT_TRUE(crd.ok()) << crd.error().to_string();
    auto made =
        cluster.create(kWidgets, "default", R"({"metadata":{"name":"w"},"spec":{"unknown":1},"status":{"x":1}})");
    ASSERT_TRUE(made.ok()) << made.error().to_string();
    EXPECT_EQ(made->find_path({"spec", "replicas"})->as_int(), 1);
    EXPECT_EQ(made->string_at({"spec", "mode"}), "hard");
    EXPECT_EQ(made->find_path({"spec", "unknown"}), nullptr);
    EXPECT_EQ(made->find("status"), nullptr);
    auto bad = cluster.create(kWidgets, "default", R"({"metadata":{"name":"v"},"spec":{"replicas":-1,"mode":"x"}})");
    ASSERT_FALSE(bad.ok());
    EXPECT_EQ(bad.error().reason, Reason::Invalid);
    ASSERT_EQ(bad.error().causes.size(), 2u);
    EXPECT_EQ(bad.error().causes[0].field, "spec.mode");
    EXPECT_EQ(bad.error().causes[1].message,
              "Invalid value: -1: spec.replicas in body should be greater than or equal to 0");
  });
}

TEST(ApiServer, StatusAndScaleAreSeparateParts) {
  in_simulation([](Cluster& cluster, rt::SimRuntime&) {
    ASSERT_TRUE(cluster.create(kCrds, "", std::string(kWidgetCrd)).ok());
    ASSERT_TRUE(cluster.create(kWidgets, "default", R"({"metadata":{"name":"w"},"spec":{}})").ok());
    auto status =
        cluster.call(kube::Verb::Patch, kWidgets, "default", "w", R"({"spec":{"replicas":9},"status":{"replicas":4}})",
                     [](kube::Request& request) { request.subresource = "status"; });
    ASSERT_TRUE(status.ok()) << status.error().to_string();
    EXPECT_EQ(status->find_path({"spec", "replicas"})->as_int(), 1);
    EXPECT_EQ(status->find_path({"status", "replicas"})->as_int(), 4);
    EXPECT_EQ(status->find_path({"metadata", "generation"})->as_int(), 1);
    auto scaled = cluster.call(kube::Verb::Patch, kWidgets, "default", "w", R"({"spec":{"replicas":3}})",
                               [](kube::Request& request) { request.subresource = "scale"; });
    ASSERT_TRUE(scaled.ok()) << scaled.error().to_string();
    EXPECT_EQ(scaled->string_at({"kind"}), "Scale");
    EXPECT_EQ(scaled->find_path({"status", "replicas"})->as_int(), 4);
    auto after = cluster.get(kWidgets, "default", "w");
    EXPECT_EQ(after->find_path({"spec", "replicas"})->as_int(), 3);
    EXPECT_EQ(after->find_path({"metadata", "generation"})->as_int(), 2);
  });
}

TEST(ApiServer, APatchOfTheStatusAloneIsTheSameAsOneOfMore) {
  in_simulation([](Cluster& cluster, rt::SimRuntime&) {
    const kube::Resource pods{"", "v1", "pods"};
    for (const std::string name : {"p", "q"}) {
      const auto made = cluster.create(pods, "default",
                                       R"({"metadata":{"labels":{"a":"b"},"name":")" + name +
                                           R"("},"spec":{"containers":[{"name":"c","image":"i"}]}})");
      ASSERT_TRUE(made.ok()) << made.error().to_string();
    }
    // The second one names a label as well, which a status write of a built-in kind may change.
    const auto patch = [&](const char* name, const std::string& metadata, const std::string& status) {
      return cluster.call(kube::Verb::Patch, pods, "default", name,
                          R"({"metadata":{)" + metadata + R"(},"status":)" + status + "}", [](kube::Request& request) {
                            request.subresource = "status";
                            request.patch_type = kube::PatchType::StrategicMerge;
                            request.field_validation = "Warn";
                          });
    };
    for (const char* status :
         {R"({"phase":"Running","conditions":[{"type":"Ready","status":"True"},{"type":"A","status":"True"}]})",
          R"({"nonsense":1,"phase":"Succeeded","conditions":[{"type":"Ready","status":"False","reason":null}]})"}) {
      auto alone = patch("p", "", status);
      auto more = patch("q", R"("labels":{"a":"c"})", status);
      ASSERT_TRUE(alone.ok() && more.ok()) << alone.error().to_string();
      EXPECT_EQ(alone->find("status")->to_text(), more->find("status")->to_text());
      EXPECT_EQ(alone->find("spec")->to_text(), more->find("spec")->to_text());
      EXPECT_EQ(alone->string_at({"metadata", "labels", "a"}), "b");
      EXPECT_EQ(more->string_at({"metadata", "labels", "a"}), "c");
    }
    EXPECT_EQ(patch("p", "", R"({"phase":7})").error().reason,
              patch("q", R"("labels":{})", R"({"phase":7})").error().reason);
    const auto stale = patch("p", R"("uid":"other")", R"({"phase":"Failed"})");
    ASSERT_FALSE(stale.ok());
    EXPECT_TRUE(stale.error().is(Reason::Conflict));
    EXPECT_FALSE(patch("p", R"("name":"q")", R"({"phase":"Failed"})").ok());
    EXPECT_TRUE(patch("p", R"("resourceVersion":"1")", R"({"phase":"Failed"})").error().is(Reason::Conflict));
  });
}

TEST(ApiServer, ListsInPagesOfOneSnapshot) {
  in_simulation([](Cluster& cluster, rt::SimRuntime&) {
    for (int i = 0; i < 25; ++i) {
      ASSERT_TRUE(cluster.create(kConfigMaps, "default", config_map("m" + std::to_string(100 + i))).ok());
    }
    kube::ListRequest request;
    request.resource = kConfigMaps;
    request.ns = "default";
    request.limit = 10;
    std::vector<std::string> versions;
    std::size_t count = 0;
    do {
      auto page = cluster.client().list(request, {});
      ASSERT_TRUE(page.ok()) << page.error().to_string();
      count += page->items.size();
      versions.push_back(page->resource_version);
      request.continue_token = page->continue_token;
      // A write between two pages is not seen.
      ASSERT_TRUE(cluster.create(kConfigMaps, "default", R"({"metadata":{"generateName":"z-"}})").ok());
    } while (!request.continue_token.empty());
    EXPECT_EQ(count, 26u);  // and the root CA
    EXPECT_EQ(versions.front(), versions.back());
  });
}

// Nobody writes: still the list ends its life after as long as the history has.
TEST(ApiServer, AListOfALongTimeAgoExpires) {
  in_simulation([](Cluster& cluster, rt::SimRuntime& runtime) {
    for (int i = 0; i < 6; ++i) {
      ASSERT_TRUE(cluster.create(kConfigMaps, "default", config_map("m" + std::to_string(i))).ok());
    }
    kube::ListRequest request;
    request.resource = kConfigMaps;
    request.ns = "default";
    request.limit = 2;
    auto first = cluster.client().list(request, {});
    ASSERT_TRUE(first.ok());
    request.continue_token = first->continue_token;
    runtime.sleep_for(std::chrono::minutes(4));
    auto second = cluster.client().list(request, {});
    ASSERT_TRUE(second.ok()) << second.error().to_string();
    request.continue_token = second->continue_token;
    runtime.sleep_for(std::chrono::minutes(2));
    auto third = cluster.client().list(request, {});
    ASSERT_FALSE(third.ok());
    EXPECT_TRUE(third.error().is(Reason::Expired));
    EXPECT_EQ(third.error().code, 410);
  });
}

// A version that only the history has is forgotten although no write drives the oldest out.
TEST(ApiServer, AQuietServerForgetsItsHistory) {
  in_simulation([](Cluster& cluster, rt::SimRuntime& runtime) {
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(cluster.create(kConfigMaps, "default", config_map("m" + std::to_string(i))).ok());
    }
    EXPECT_GT(cluster.server().store().stats().history_events, 0u);
    runtime.sleep_for(std::chrono::minutes(11));
    EXPECT_EQ(cluster.server().store().stats().history_events, 0u);
    kube::ListRequest request;
    request.resource = kConfigMaps;
    request.ns = "default";
    request.resource_version = "1";
    request.resource_version_match = "Exact";
    auto listed = cluster.client().list(request, {});
    ASSERT_FALSE(listed.ok());
    EXPECT_TRUE(listed.error().is(Reason::Expired)) << listed.error().to_string();
  });
}

TEST(ApiServer, WatchSeesSelectionsComeAndGo) {
  in_simulation([](Cluster& cluster, rt::SimRuntime& runtime) {
    kube::WatchRequest request;
    request.resource = kConfigMaps;
    request.ns = "default";
    request.label_selector = "x=y";
    request.send_initial_events = true;
    auto stream = cluster.client().watch(request, {});
    ASSERT_TRUE(stream.ok()) << stream.error().to_string();
    const auto next = [&]() -> std::string {
      auto event = (*stream)->next(runtime.now() + std::chrono::seconds(5));
      if (!event.ok()) return event.error().to_string();
      if (!*event) return "end";
      constexpr std::string_view kNames[] = {"added", "modified", "deleted", "bookmark"};
      auto object = json::Value::parse(*(*event)->object);
      return std::string(kNames[static_cast<int>((*event)->type)]) + " " +
             std::string(object->string_at({"metadata", "name"}));
    };
    EXPECT_EQ(next(), "bookmark ");
    ASSERT_TRUE(cluster.create(kConfigMaps, "default", config_map("plain")).ok());
    ASSERT_TRUE(cluster.create(kConfigMaps, "default", R"({"metadata":{"name":"chosen","labels":{"x":"y"}}})").ok());
    EXPECT_EQ(next(), "added chosen");
    ASSERT_TRUE(
        cluster.call(kube::Verb::Patch, kConfigMaps, "default", "plain", R"({"metadata":{"labels":{"x":"y"}}})").ok());
    EXPECT_EQ(next(), "added plain");
    ASSERT_TRUE(cluster.call(kube::Verb::Patch, kConfigMaps, "default", "plain", R"({"data":{"b":"c"}})").ok());
    EXPECT_EQ(next(), "modified plain");
    ASSERT_TRUE(
        cluster.call(kube::Verb::Patch, kConfigMaps, "default", "plain", R"({"metadata":{"labels":{"x":null}}})").ok());
    EXPECT_EQ(next(), "deleted plain");
    ASSERT_TRUE(cluster.call(kube::Verb::Delete, kConfigMaps, "default", "chosen").ok());
    EXPECT_EQ(next(), "deleted chosen");
  });
}

// The owner goes; what it owned goes after it, what else is owned stays.
TEST(GarbageCollection, BackgroundForegroundAndOrphan) {
  for (const kube::Propagation propagation :
       {kube::Propagation::Background, kube::Propagation::Foreground, kube::Propagation::Orphan}) {
    in_simulation([&](Cluster& cluster, rt::SimRuntime& runtime) {
      auto owner = cluster.create(kConfigMaps, "default", config_map("owner"));
      auto other = cluster.create(kConfigMaps, "default", config_map("other"));
      ASSERT_TRUE(owner.ok() && other.ok());
      const auto reference = [](const json::Value& object) {
        return json::Value(json::Object{{"apiVersion", "v1"},
                                        {"kind", "ConfigMap"},
                                        {"name", object.string_at({"metadata", "name"})},
                                        {"uid", object.string_at({"metadata", "uid"})},
                                        {"blockOwnerDeletion", true}});
      };
      const auto dependent = [&](std::string_view name, json::Array owners) {
        return json::Value(
                   json::Object{{"metadata", json::Object{{"name", name}, {"ownerReferences", std::move(owners)}}}})
            .to_text();
      };
      ASSERT_TRUE(cluster.create(kConfigMaps, "default", dependent("child", {reference(*owner)})).ok());
      ASSERT_TRUE(
          cluster.create(kConfigMaps, "default", dependent("shared", {reference(*owner), reference(*other)})).ok());
      ASSERT_TRUE(cluster
                      .call(kube::Verb::Delete, kConfigMaps, "default", "owner", "",
                            [&](kube::Request& request) { request.propagation = propagation; })
                      .ok());
      runtime.sleep_for(std::chrono::seconds(1));
      EXPECT_FALSE(cluster.get(kConfigMaps, "default", "owner").ok());
      EXPECT_EQ(cluster.get(kConfigMaps, "default", "child").ok(), propagation == kube::Propagation::Orphan);
      auto shared = cluster.get(kConfigMaps, "default", "shared");
      ASSERT_TRUE(shared.ok());
      EXPECT_EQ(shared->find_path({"metadata", "ownerReferences"})->as_array().size(), 1u);
    });
  }
}

TEST(Namespaces, AreFurnishedAndEmptied) {
  in_simulation([](Cluster& cluster, rt::SimRuntime& runtime) {
    ASSERT_TRUE(cluster.create(kNamespaces, "", R"({"metadata":{"name":"team"}})").ok());
    runtime.settle();
    EXPECT_TRUE(cluster.get(kConfigMaps, "team", "kube-root-ca.crt").ok());
    EXPECT_TRUE(cluster.get({"", "v1", "serviceaccounts"}, "team", "default").ok());
    ASSERT_TRUE(cluster.create(kConfigMaps, "team", config_map("one")).ok());
    auto removed = cluster.call(kube::Verb::Delete, kNamespaces, "", "team");
    ASSERT_TRUE(removed.ok()) << removed.error().to_string();
    EXPECT_EQ(removed->string_at({"status", "phase"}), "Terminating");
    runtime.sleep_for(std::chrono::seconds(1));
    EXPECT_FALSE(cluster.get(kNamespaces, "", "team").ok());
    EXPECT_FALSE(cluster.get(kConfigMaps, "team", "one").ok());
  });
}

// Pods may need the rest to end well: it stays while there is one of them.
TEST(Namespaces, PodsGoFirstAndWhatIsLeftIsTold) {
  in_simulation([](Cluster& cluster, rt::SimRuntime& runtime) {
    const kube::Resource pods{"", "v1", "pods"};
    ASSERT_TRUE(cluster.create(kNamespaces, "", R"({"metadata":{"name":"team"}})").ok());
    runtime.settle();
    ASSERT_TRUE(cluster.create(kConfigMaps, "team", config_map("one")).ok());
    auto pod = cluster.create(pods, "team",
                              R"({"metadata":{"name":"p","finalizers":["example.io/hold"]},)"
                              R"("spec":{"containers":[{"name":"c","image":"i"}]}})");
    ASSERT_TRUE(pod.ok()) << pod.error().to_string();
    ASSERT_TRUE(cluster.call(kube::Verb::Delete, kNamespaces, "", "team").ok());
    runtime.sleep_for(std::chrono::seconds(5));
    EXPECT_TRUE(cluster.get(kConfigMaps, "team", "one").ok());
    auto ns = cluster.get(kNamespaces, "", "team");
    ASSERT_TRUE(ns.ok());
    const std::string version = cluster.version_of(*ns);
    std::map<std::string, std::string> told;
    for (const json::Value& one : ns->find_path({"status", "conditions"})->as_array()) {
      told[std::string(one.string_at({"type"}))] =
          std::string(one.string_at({"status"})) + ": " + std::string(one.string_at({"message"}));
    }
    EXPECT_EQ(told["NamespaceContentRemaining"], "True: Some resources are remaining: pods. has 1 resource instances");
    EXPECT_EQ(told["NamespaceFinalizersRemaining"],
              "True: Some content in the namespace has finalizers remaining: example.io/hold in 1 resource instances");
    EXPECT_TRUE(told["NamespaceDeletionContentFailure"].starts_with("False"));
    runtime.sleep_for(std::chrono::seconds(5));
    EXPECT_EQ(cluster.version_of(*cluster.get(kNamespaces, "", "team")), version) << "written without news";
    ASSERT_TRUE(cluster.call(kube::Verb::Patch, pods, "team", "p", R"({"metadata":{"finalizers":null}})").ok());
    runtime.sleep_for(std::chrono::seconds(5));
    EXPECT_FALSE(cluster.get(kNamespaces, "", "team").ok());
    EXPECT_FALSE(cluster.get(kConfigMaps, "team", "one").ok());
  });
}

TEST(Crds, TakeTheirObjectsAlong) {
  in_simulation([](Cluster& cluster, rt::SimRuntime& runtime) {
    ASSERT_TRUE(cluster.create(kCrds, "", std::string(kWidgetCrd)).ok());
    ASSERT_TRUE(cluster.create(kWidgets, "default", R"({"metadata":{"name":"w"},"spec":{}})").ok());
    ASSERT_TRUE(cluster.call(kube::Verb::Delete, kCrds, "", "widgets.example.io").ok());
    runtime.sleep_for(std::chrono::seconds(1));
    EXPECT_FALSE(cluster.get(kCrds, "", "widgets.example.io").ok());
    EXPECT_FALSE(cluster.get(kWidgets, "default", "w").ok());
  });
}

}  // namespace
}  // namespace basalt::apiserver
