#include "admission/embedded_admission.h"

#include <functional>
#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "crds/crds.h"
#include "json/value.h"
#include "rt/sim_test_support.h"
#include "yaml/reader.h"

// The embedded server with Volcano's admission in it: what a client of `basalt up` sees.

namespace basalt::admission {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

const kube::Resource kJobs{"batch.volcano.sh", "v1alpha1", "jobs"};
const kube::Resource kQueues{"scheduling.volcano.sh", "v1beta1", "queues"};
const kube::Resource kPods{"", "v1", "pods"};

constexpr std::string_view kJob = R"(
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: j, namespace: default}
spec:
  tasks:
  - name: worker
    replicas: 2
    template: {spec: {restartPolicy: Never, containers: [{name: c, image: busybox}]}}
)";

std::string json_of(std::string_view yaml) {
  const auto value = yaml::read(yaml);
  EXPECT_TRUE(value.ok()) << yaml;
  return value.ok() ? value->to_text() : "";
}

// Runs its body in simulation, with a server that has the hook and all CRDs.
class World {
 public:
  explicit World(rt::Runtime& runtime, const std::string& resource_groups = "") {
    auto opened = apiserver::ApiServer::open(runtime, Logger(), {});
    EXPECT_TRUE(opened.ok());
    server_ = std::move(*opened);
    if (resource_groups.empty()) {
      server_->add_admission_hook(make_admission_hook(runtime, *server_, {}));
    } else {
      auto hook = make_admission_hook(runtime, *server_, {}, resource_groups);
      EXPECT_TRUE(hook.ok()) << hook.error().message;
      server_->add_admission_hook(*hook);
    }
    EXPECT_TRUE(server_->start().ok());
    client_ = apiserver::make_direct_client(runtime, *server_, {{"jane", "", {"dev"}}, "test"});
    const Done installed = crds::install(runtime, *client_, {});
    EXPECT_TRUE(installed.ok()) << installed.error().message;
  }
  ~World() {
    client_.reset();
    server_->stop();
  }

  Result<kube::Response> create(const kube::Resource& resource, std::string_view yaml, std::string_view ns = "") {
    kube::Request request;
    request.verb = kube::Verb::Create;
    request.resource = resource;
    request.ns = ns;
    request.body = json_of(yaml);
    return client_->call(request, {});
  }
  Result<kube::Response> patch(const kube::Resource& resource, std::string_view ns, std::string_view name,
                               std::string_view body, std::string_view subresource = "") {
    kube::Request request;
    request.verb = kube::Verb::Patch;
    request.patch_type = kube::PatchType::Merge;
    request.resource = resource;
    request.ns = ns;
    request.name = name;
    request.subresource = subresource;
    request.body = body;
    return client_->call(request, {});
  }
  Result<kube::Response> remove(const kube::Resource& resource, std::string_view name) {
    kube::Request request;
    request.verb = kube::Verb::Delete;
    request.resource = resource;
    request.name = name;
    return client_->call(request, {});
  }
  void add_queue(std::string_view yaml, const std::string& name) {
    const auto made = create(kQueues, yaml);
    ASSERT_TRUE(made.ok()) << made.error().message;
    ASSERT_TRUE(patch(kQueues, "", name, R"({"status":{"state":"Open"}})", "status").ok());
  }
  void add_default_queue() {
    add_queue("{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: default}}", "default");
  }

 private:
  std::unique_ptr<apiserver::ApiServer> server_;
  std::unique_ptr<kube::Client> client_;
};

void in_simulation(const std::function<void(rt::SimRuntime&)>& body) { rt::run_seeds(1, 3, body); }

TEST(EmbeddedAdmission, JobsGetDefaultsAndAreStored) {
  in_simulation([](rt::SimRuntime& runtime) {
    World world(runtime);
    world.add_default_queue();
    const auto made = world.create(kJobs, kJob, "default");
    ASSERT_TRUE(made.ok()) << made.error().message;
    const json::Value job = json::Value::parse(*made->body).value();
    EXPECT_EQ("default", job.string_at({"spec", "queue"}));
    EXPECT_EQ("volcano", job.string_at({"spec", "schedulerName"}));
    EXPECT_EQ(json::Value(2), *job.find_path({"spec", "minAvailable"}));
    EXPECT_EQ(json::Value(3), *job.find_path({"spec", "maxRetry"}));
  });
}

TEST(EmbeddedAdmission, RefusalsReadAsBehindAWebhook) {
  in_simulation([](rt::SimRuntime& runtime) {
    World world(runtime);
    const auto no_queue = world.create(kJobs, kJob, "default");
    ASSERT_FALSE(no_queue.ok());
    EXPECT_EQ(400, no_queue.error().code);
    EXPECT_THAT(
        no_queue.error().message,
        StartsWith("admission webhook \"validatejob.volcano.sh\" denied the request: spec.queue: unable to find "
                   "job queue"));
    world.add_default_queue();
    EXPECT_TRUE(world.create(kJobs, kJob, "default").ok());

    const auto changed = world.patch(kJobs, "default", "j", R"({"spec":{"queue":"other"}})");
    ASSERT_FALSE(changed.ok());
    EXPECT_THAT(changed.error().message, HasSubstr("job updates may not change fields other than"));
    EXPECT_TRUE(world.patch(kJobs, "default", "j", R"({"spec":{"minAvailable":1}})").ok());
    // The status is nobody's business but the controller's.
    EXPECT_TRUE(world.patch(kJobs, "default", "j", R"({"status":{"state":{"phase":"Running"}}})", "status").ok());
  });
}

TEST(EmbeddedAdmission, QueuesAreReviewedOnCreateUpdateAndDelete) {
  in_simulation([](rt::SimRuntime& runtime) {
    World world(runtime);
    world.add_default_queue();
    world.add_queue("{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: a}}", "a");
    world.add_queue("{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: b}, spec: {parent: a}}",
                    "b");
    const auto default_queue = world.remove(kQueues, "default");
    ASSERT_FALSE(default_queue.ok());
    EXPECT_THAT(default_queue.error().message, HasSubstr("`default` queue can not be deleted"));
    const auto parent = world.remove(kQueues, "a");
    ASSERT_FALSE(parent.ok());
    EXPECT_THAT(parent.error().message, HasSubstr("it has 1 child queues: b"));
    EXPECT_TRUE(world.remove(kQueues, "b").ok());
    EXPECT_TRUE(world.remove(kQueues, "a").ok());
    const auto self = world.patch(kQueues, "", "default", R"({"spec":{"parent":"default"}})");
    ASSERT_FALSE(self.ok());
    EXPECT_THAT(self.error().message, HasSubstr("cannot use itself as parent"));
  });
}

TEST(EmbeddedAdmission, PodsTakeTheirResourceGroup) {
  in_simulation([](rt::SimRuntime& runtime) {
    World world(runtime,
                "resourceGroups: [{resourceGroup: m, object: {key: namespace, value: [default]}, labels: {pool: m}}]");
    const auto made = world.create(
        kPods, "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: b}]}}",
        "default");
    ASSERT_TRUE(made.ok()) << made.error().message;
    EXPECT_EQ("m", json::Value::parse(*made->body).value().string_at({"spec", "nodeSelector", "pool"}));
  });
}

}  // namespace
}  // namespace basalt::admission
