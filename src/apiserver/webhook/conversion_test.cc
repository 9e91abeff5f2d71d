// CRDs whose versions a webhook converts: a server of the test answers ConversionReviews, the API server asks.

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "apiserver/registry/api_server.h"
#include "apiserver/webhook/https_test_support.h"
#include "json/value.h"
#include "rt/mutex.h"
#include "rt/real_runtime.h"
#include "rt/stop.h"

namespace basalt::apiserver {
namespace {

const kube::Resource kCrds{"apiextensions.k8s.io", "v1", "customresourcedefinitions"};
const kube::Resource kFirst{"example.com", "v1", "places"};   // hostPort: "host:port"
const kube::Resource kSecond{"example.com", "v2", "places"};  // host, port

json::Value parsed(const kube::Bytes& text) { return *json::Value::parse(*text); }

// As a webhook does it that knows both versions.
json::Value converted(json::Value object, const std::string& wanted) {
  json::Object& members = object.as_object();
  members.set("apiVersion", wanted);
  if (wanted.ends_with("v2")) {
    const std::string both(object.string_at({"hostPort"}));
    members.erase("hostPort");
    members.set("host", both.substr(0, both.find(':')));
    members.set("port", both.substr(both.find(':') + 1));
  } else {
    const std::string both = std::string(object.string_at({"host"})) + ":" + std::string(object.string_at({"port"}));
    members.erase("host");
    members.erase("port");
    members.set("hostPort", both);
  }
  return object;
}

class ConversionTest : public ::testing::Test {
 protected:
  using Change = std::function<void(json::Object& review)>;

  ConversionTest() : runtime_(rt::make_real_runtime()) {
    https_ = std::make_unique<TestHttps>(*runtime_, [this](auto request, auto responder) {
      const auto review = json::Value::parse(request->body);
      const json::Value* asked = review.ok() ? review->find("request") : nullptr;
      if (asked == nullptr || broken_) return responder->respond(500, {}, std::string("out of order"));
      ++reviews_;
      EXPECT_EQ(review->string_at({"apiVersion"}), "apiextensions.k8s.io/v1");
      EXPECT_EQ(review->string_at({"kind"}), "ConversionReview");
      json::Array objects;
      for (const json::Value& object : asked->find("objects")->as_array()) {
        EXPECT_NE(object.string_at({"apiVersion"}), asked->string_at({"desiredAPIVersion"}));
        objects.push_back(converted(object, std::string(asked->string_at({"desiredAPIVersion"}))));
      }
      json::Object response{{"uid", asked->string_at({"uid"})},
                            {"result", json::Object{{"status", "Success"}}},
                            {"convertedObjects", std::move(objects)}};
      Change change;
      {
        rt::MutexLock lock(mutex_);
        change = change_;
      }
      if (change) change(response);
      responder->respond(200, {{"Content-Type", "application/json"}},
                         json::Value(json::Object{{"apiVersion", "apiextensions.k8s.io/v1"},
                                                  {"kind", "ConversionReview"},
                                                  {"response", std::move(response)}})
                             .to_text());
    });
    server_ = *ApiServer::open(*runtime_, Logger(), ApiServer::Options());
    EXPECT_TRUE(server_->start().ok());
  }
  ~ConversionTest() override { server_->stop(); }

  static RequestContext ann() { return RequestContext{{"ann", "", {"devs"}}, "test", false}; }

  Result<kube::Response> call(kube::Verb verb, const kube::Resource& resource, const std::string& name,
                              const std::string& body = "") {
    kube::Request request;
    request.verb = verb;
    request.resource = resource;
    request.ns = resource == kCrds ? "" : "default";
    request.name = name;
    request.body = body;
    request.patch_type = kube::PatchType::Merge;
    return server_->call(request, ann());
  }
  // A body without what the resource says itself.
  [[nodiscard]] static std::string place(const kube::Resource& resource, const std::string& name,
                                         const std::string& fields) {
    return R"({"apiVersion":"example.com/)" + resource.version + R"(","kind":"Place","metadata":{"name":")" + name +
           R"("},)" + fields + "}";
  }
  Result<kube::Response> create(const kube::Resource& resource, const std::string& name, const std::string& fields) {
    return call(kube::Verb::Create, resource, "", place(resource, name, fields));
  }
  Result<json::Value> get(const kube::Resource& resource, const std::string& name) {
    BASALT_TRY(const kube::Response response, call(kube::Verb::Get, resource, name));
    return json::Value::parse(*response.body);
  }
  Result<kube::ListPage> list(const kube::Resource& resource, const std::string& fields = "", std::int64_t limit = 0,
                              const std::string& token = "") {
    kube::ListRequest request;
    request.resource = resource;
    request.ns = "default";
    request.field_selector = fields;
    request.limit = limit;
    request.continue_token = token;
    return server_->list(request, ann());
  }
  [[nodiscard]] std::string conversion() const {
    return R"({"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":")" +
           https_->url("/convert") + R"(","caBundle":")" + https_->ca_bundle() + R"("}}})";
  }
  [[nodiscard]] static std::string crd(const std::string& conversion, const std::string& storage = "v1") {
    const auto version = [&](const std::string& name, const std::string& fields, const std::string& selectable) {
      return R"({"name":")" + name + R"(","served":true,"storage":)" + (name == storage ? "true" : "false") +
             R"(,"selectableFields":[)" + selectable +
             R"(],"schema":{"openAPIV3Schema":{"type":"object","properties":{)" + fields + "}}}}";
    };
    return R"({"metadata":{"name":"places.example.com"},"spec":{"group":"example.com","scope":"Namespaced",)"
           R"("names":{"plural":"places","kind":"Place"},"conversion":)" +
           conversion + R"(,"versions":[)" +
           version("v1", R"("hostPort":{"type":"string"})", R"({"jsonPath":".hostPort"})") + "," +
           version("v2", R"("host":{"type":"string"},"port":{"type":"string"})",
                   R"({"jsonPath":".host"},{"jsonPath":".port"})") +
           "]}}";
  }
  void define() {
    const auto made = call(kube::Verb::Create, kCrds, "", crd(conversion()));
    ASSERT_TRUE(made.ok()) << made.error().message;
  }
  void store_as_second() {
    const json::Value all = *json::Value::parse(crd(conversion(), "v2"));
    const json::Value patch = json::Object{{"spec", json::Object{{"versions", *all.find_path({"spec", "versions"})}}}};
    const auto changed = call(kube::Verb::Patch, kCrds, "places.example.com", patch.to_text());
    ASSERT_TRUE(changed.ok()) << changed.error().message;
  }
  void answer_with(Change change) {
    rt::MutexLock lock(mutex_);
    change_ = std::move(change);
  }

  std::unique_ptr<rt::Runtime> runtime_;
  std::unique_ptr<TestHttps> https_;
  std::unique_ptr<ApiServer> server_;
  std::atomic<int> reviews_{0};
  std::atomic<bool> broken_{false};
  rt::Mutex mutex_;
  Change change_ BASALT_GUARDED_BY(mutex_);
};

TEST_F(ConversionTest, AnotherVersionIsReadAndWrittenThroughTheWebhook) {
  define();
  ASSERT_TRUE(create(kFirst, "a", R"("hostPort":"here:80")").ok());
  EXPECT_EQ(reviews_, 0) << "the storage version needs nobody";
  const auto second = get(kSecond, "a");
  ASSERT_TRUE(second.ok()) << second.error().message;
  EXPECT_EQ(second->string_at({"apiVersion"}), "example.com/v2");
  EXPECT_EQ(second->string_at({"host"}), "here");
  EXPECT_EQ(second->string_at({"port"}), "80");
  EXPECT_EQ(second->find("hostPort"), nullptr);

  const auto made = create(kSecond, "b", R"("host":"there","port":"443")");
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(parsed(made->body).string_at({"host"}), "there");
  EXPECT_EQ(get(kFirst, "b")->string_at({"hostPort"}), "there:443");
  const auto patched = call(kube::Verb::Patch, kSecond, "b", R"({"port":"8443"})");
  ASSERT_TRUE(patched.ok()) << patched.error().message;
  EXPECT_EQ(get(kFirst, "b")->string_at({"hostPort"}), "there:8443");
}

TEST_F(ConversionTest, AListIsConvertedWithOneQuestionAndMayBeOfMixedVersions) {
  define();
  for (const std::string name : {"a", "b", "c"}) ASSERT_TRUE(create(kFirst, name, R"("hostPort":"here:80")").ok());
  store_as_second();
  ASSERT_TRUE(create(kSecond, "d", R"("host":"there","port":"443")").ok());
  reviews_ = 0;
  const auto page = list(kSecond);
  ASSERT_TRUE(page.ok()) << page.error().message;
  ASSERT_EQ(page->items.size(), 4U);
  EXPECT_EQ(reviews_, 1);
  for (const kube::Bytes& item : page->items) {
    EXPECT_EQ(parsed(item).string_at({"apiVersion"}), "example.com/v2");
    EXPECT_NE(parsed(item).string_at({"host"}), "");
  }
  const auto first = list(kFirst);
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_EQ(parsed(first->items[3]).string_at({"hostPort"}), "there:443");
}

TEST_F(ConversionTest, FieldsAreSelectedInTheVersionThatIsAskedFor) {
  define();
  for (int i = 0; i < 6; ++i) {
    const std::string host = i % 2 == 0 ? "even" : "odd";
    ASSERT_TRUE(
        create(kFirst, "p" + std::to_string(i), R"("hostPort":")" + host + ":" + std::to_string(i) + "\"").ok());
  }
  EXPECT_EQ(list(kSecond, "host=even")->items.size(), 3U);
  EXPECT_EQ(list(kSecond, "host=even,port!=2")->items.size(), 2U);
  EXPECT_EQ(list(kFirst, "hostPort=odd:3")->items.size(), 1U);
  EXPECT_FALSE(list(kFirst, "host=even").ok());

  const auto page = list(kSecond, "host=even", 2);
  ASSERT_TRUE(page.ok()) << page.error().message;
  EXPECT_EQ(page->items.size(), 2U);
  ASSERT_FALSE(page->continue_token.empty());
  const auto rest = list(kSecond, "host=even", 2, page->continue_token);
  ASSERT_TRUE(rest.ok()) << rest.error().message;
  ASSERT_EQ(rest->items.size(), 1U);
  EXPECT_EQ(parsed(rest->items[0]).string_at({"port"}), "4");
}

TEST_F(ConversionTest, AWatchConvertsAndSelects) {
  define();
  ASSERT_TRUE(create(kFirst, "a", R"("hostPort":"here:80")").ok());
  const auto client = make_direct_client(*runtime_, *server_, ann());
  kube::WatchRequest request;
  request.resource = kSecond;
  request.ns = "default";
  request.field_selector = "host=here";
  request.allow_bookmarks = true;
  request.send_initial_events = true;
  request.timeout = std::chrono::minutes(1);
  auto stream = client->watch(request, {});
  ASSERT_TRUE(stream.ok()) << stream.error().message;
  const auto expect = [&](kube::WatchEventType type, const std::string& name, const std::string& port) {
    auto event = (*stream)->next(runtime_->now() + std::chrono::seconds(30));
    ASSERT_TRUE(event.ok()) << event.error().message;
    ASSERT_TRUE(event->has_value());
    const json::Value object = parsed((*event)->object);
    EXPECT_EQ((*event)->type, type) << object.to_text();
    EXPECT_EQ(object.string_at({"metadata", "name"}), name);
    EXPECT_EQ(object.string_at({"port"}), port);
    EXPECT_EQ(object.string_at({"apiVersion"}), "example.com/v2");
  };
  expect(kube::WatchEventType::Added, "a", "80");
  expect(kube::WatchEventType::Bookmark, "", "");
  ASSERT_TRUE(create(kFirst, "b", R"("hostPort":"there:80")").ok());  // not selected
  ASSERT_TRUE(create(kSecond, "c", R"("host":"here","port":"443")").ok());
  expect(kube::WatchEventType::Added, "c", "443");
  ASSERT_TRUE(call(kube::Verb::Patch, kFirst, "c", R"({"hostPort":"here:1"})").ok());
  expect(kube::WatchEventType::Modified, "c", "1");
  ASSERT_TRUE(call(kube::Verb::Patch, kFirst, "c", R"({"hostPort":"there:2"})").ok());
  expect(kube::WatchEventType::Deleted, "c", "1");
  ASSERT_TRUE(call(kube::Verb::Delete, kSecond, "a").ok());
  expect(kube::WatchEventType::Deleted, "a", "80");

  // What cannot be converted ends the watch, and says why.
  broken_ = true;
  ASSERT_TRUE(create(kFirst, "d", R"("hostPort":"here:80")").ok());
  const auto end = (*stream)->next(runtime_->now() + std::chrono::seconds(30));
  ASSERT_FALSE(end.ok());
  EXPECT_NE(end.error().message.find("places.example.com"), std::string::npos) << end.error().message;
}

TEST_F(ConversionTest, AWatchEndsWhenItsObjectsBecomeOthers) {
  const std::string none = R"({"strategy":"None"})";
  ASSERT_TRUE(call(kube::Verb::Create, kCrds, "", crd(none)).ok());
  const auto client = make_direct_client(*runtime_, *server_, ann());
  kube::WatchRequest request;
  request.resource = kSecond;
  request.ns = "default";
  request.timeout = std::chrono::minutes(1);
  const auto change_to = [&](const std::string& strategy) {
    const std::string patch = R"({"spec":{"conversion":)" + strategy + "}}";
    const auto changed = call(kube::Verb::Patch, kCrds, "places.example.com", patch);
    ASSERT_TRUE(changed.ok()) << changed.error().message;
  };
  for (const bool to_webhook : {true, false}) {
    auto stream = client->watch(request, {});
    ASSERT_TRUE(stream.ok()) << stream.error().message;
    change_to(to_webhook ? conversion() : R"({"strategy":"None","webhook":null})");
    ASSERT_TRUE(create(kFirst, to_webhook ? "a" : "b", R"("hostPort":"here:80")").ok());
    Result<std::optional<kube::WatchEvent>> event = std::optional<kube::WatchEvent>();
    do event = (*stream)->next(runtime_->now() + std::chrono::seconds(30));
    while (event.ok() && event->has_value());  // what was there already
    ASSERT_FALSE(event.ok());
    EXPECT_EQ(event.error().reason, Reason::Expired) << event.error().message;
  }
}

TEST_F(ConversionTest, MetadataStaysAsItWasButForLabelsAndAnnotations) {
  define();
  ASSERT_TRUE(create(kFirst, "a", R"("hostPort":"here:80")").ok());
  const json::Value stored = *get(kFirst, "a");
  answer_with([](json::Object& response) {
    json::Value& metadata = *response["convertedObjects"].as_array()[0].find("metadata");
    metadata.as_object().set("labels", json::Object{{"from", "webhook"}});
    metadata.as_object().set("finalizers", json::Array{json::Value("example.com/no")});
    metadata.as_object().set("resourceVersion", "77");
    metadata.as_object().erase("creationTimestamp");
    response["convertedObjects"].as_array()[0].as_object().set("stray", true);
  });
  const auto second = get(kSecond, "a");
  ASSERT_TRUE(second.ok()) << second.error().message;
  EXPECT_EQ(second->string_at({"metadata", "labels", "from"}), "webhook");
  EXPECT_EQ(second->find_path({"metadata", "finalizers"}), nullptr);
  for (const std::string_view key : {"resourceVersion", "creationTimestamp", "uid"})
    EXPECT_EQ(second->string_at({"metadata", key}), stored.string_at({"metadata", key}));
  EXPECT_EQ(second->find("stray"), nullptr) << "fields that the version does not have are dropped";
}

TEST_F(ConversionTest, AWrongAnswerIsRefusedWithTheNameOfTheDefinition) {
  define();
  ASSERT_TRUE(create(kFirst, "a", R"("hostPort":"here:80")").ok());
  const auto first = [](json::Object& response) -> json::Value& { return response["convertedObjects"].as_array()[0]; };
  const std::vector<std::pair<std::string, Change>> cases = {
      {"expected response.uid", [](json::Object& response) { response.set("uid", "another"); }},
      {"returned 0 objects, expected 1",
       [](json::Object& response) { response.set("convertedObjects", json::Array()); }},
      {"has apiVersion \"example.com/v1\" instead of \"example.com/v2\"",
       [&](json::Object& response) { first(response).as_object().set("apiVersion", "example.com/v1"); }},
      {"has kind", [&](json::Object& response) { first(response).as_object().set("kind", "Other"); }},
      {"has metadata.name \"b\" instead of \"a\"",
       [&](json::Object& response) { first(response).ensure_path({"metadata", "name"}) = "b"; }},
      {"has metadata.namespace",
       [&](json::Object& response) { first(response).ensure_path({"metadata", "namespace"}) = "b"; }},
      {"has metadata.uid", [&](json::Object& response) { first(response).ensure_path({"metadata", "uid"}) = "b"; }},
      {"metadata.labels is not a map of strings",
       [&](json::Object& response) { first(response).ensure_path({"metadata", "labels", "n"}) = 1; }},
      {"I do not know hosts",
       [](json::Object& response) {
         response.set("result", json::Object{{"status", "Failure"}, {"message", "I do not know hosts"}});
       }},
      {"status=\"\" and no message", [](json::Object& response) { response.erase("result"); }},
      {"is not an object", [&](json::Object& response) { first(response) = "text"; }},
  };
  for (const auto& [words, change] : cases) {
    answer_with(change);
    const auto got = get(kSecond, "a");
    ASSERT_FALSE(got.ok()) << words;
    EXPECT_EQ(got.error().code, 500);
    EXPECT_NE(got.error().message.find(words), std::string::npos) << got.error().message;
    EXPECT_NE(got.error().message.find("places.example.com"), std::string::npos) << got.error().message;
    EXPECT_FALSE(list(kSecond).ok());
  }
  answer_with(nullptr);
  EXPECT_TRUE(get(kSecond, "a").ok());
  broken_ = true;
  EXPECT_NE(get(kSecond, "a").error().message.find("out of order"), std::string::npos);
  EXPECT_FALSE(create(kSecond, "b", R"("host":"there","port":"443")").ok());
  EXPECT_FALSE(get(kFirst, "b").ok()) << "nothing is stored that could not be converted";
}

TEST_F(ConversionTest, ObjectsGoEvenWhenTheWebhookIsNotThere) {
  define();
  ASSERT_TRUE(create(kFirst, "a", R"("hostPort":"here:80")").ok());
  ASSERT_TRUE(create(kFirst, "b", R"("hostPort":"here:80")").ok());
  store_as_second();
  broken_ = true;
  const auto removed = call(kube::Verb::Delete, kSecond, "a");
  ASSERT_TRUE(removed.ok()) << removed.error().message;
  // And so the definition itself.
  ASSERT_TRUE(call(kube::Verb::Delete, kCrds, "places.example.com").ok());
  const rt::Instant deadline = runtime_->now() + std::chrono::seconds(30);
  const rt::StopSource never(*runtime_);
  while (call(kube::Verb::Get, kCrds, "places.example.com").ok()) {
    ASSERT_LT(runtime_->now(), deadline);
    (void)never.token().wait_for(*runtime_, std::chrono::milliseconds(20));
  }
}

TEST_F(ConversionTest, TheFieldIsChecked) {
  const std::string config = R"("clientConfig":{"url":"https://example.com/"})";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"spec.conversion.strategy", R"({"strategy":"Magic"})"},
      {"spec.conversion.webhook", R"({"strategy":"Webhook"})"},
      {"spec.conversion.webhook", R"({"strategy":"None","webhook":{"conversionReviewVersions":["v1"]}})"},
      {"spec.conversion.webhook.clientConfig",
       R"({"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"]}})"},
      {"spec.conversion.webhook.clientConfig.url",
       R"({"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":"http://e.com/"}}})"},
      {"spec.conversion.webhook.clientConfig.service.name",
       R"({"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"service":{"namespace":"a"}}}})"},
      {"spec.conversion.webhook.clientConfig.service.port",
       R"({"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"service":{"namespace":"a","name":"b","port":70000}}}})"},
      {"spec.conversion.webhook.conversionReviewVersions", R"({"strategy":"Webhook","webhook":{)" + config + "}}"},
      {"spec.conversion.webhook.conversionReviewVersions",
       R"({"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1beta1"],)" + config + "}}"},
      {"spec.conversion.webhook.conversionReviewVersions[1]",
       R"({"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1","v1"],)" + config + "}}"},
  };
  for (const auto& [field, conversion] : cases) {
    const auto made = call(kube::Verb::Create, kCrds, "", crd(conversion));
    ASSERT_FALSE(made.ok()) << conversion;
    EXPECT_EQ(made.error().code, 422);
    ASSERT_FALSE(made.error().causes.empty());
    EXPECT_EQ(made.error().causes[0].field, field) << made.error().message;
  }
  // A port that is not given is 443.
  const auto made = call(kube::Verb::Create, kCrds, "",
                         crd(R"({"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],)"
                             R"("clientConfig":{"service":{"namespace":"a","name":"b"}}}})"));
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(*parsed(made->body).find_path({"spec", "conversion", "webhook", "clientConfig", "service", "port"}),
            json::Value(443));
}

}  // namespace
}  // namespace basalt::apiserver
