// Claims on data in one process: an embedded API server, the data dependency controller, and a metadata service that is
// played and counts its calls.
//
//   data_bench [claims] [tables] [workloads]      100000, 1000 and 10000 without arguments
//
// Bars: all claims bound in 10 s after the last was made, with one call for each table; a table that moves takes all
// its workloads along (their bindings are written) in 5 s.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "api/gen/datadependency.h"
#include "base/check.h"
#include "controllers/common/controller.h"
#include "controllers/datadependency/data_controller.h"
#include "controllers/datadependency/views.h"
#include "crds/crds.h"
#include "kube/informer.h"
#include "kube/typed.h"
#include "rt/real_runtime.h"
#include "sim/cluster.h"

namespace basalt {
namespace {

using Clock = std::chrono::steady_clock;
using controllers::datadependency::DataIdentity;
using controllers::datadependency::DataSourcePlugin;
using controllers::datadependency::Resolution;
using controllers::datadependency::ResolutionKind;
const kube::Resource kClaims{"datadependency.volcano.sh", "v1alpha1", "datasourceclaims"};
const kube::Resource kSources{"datadependency.volcano.sh", "v1alpha1", "datasources"};
const kube::Resource kBindings{"work.karmada.io", "v1alpha2", "resourcebindings"};
constexpr int kInFlight = 64;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

std::atomic<std::int64_t> calls_to_system = 0;
std::atomic<bool> has_moved = false;

class PlayedPlugin final : public DataSourcePlugin {
 public:
  Resolution locate(const DataIdentity&, const rt::StopToken&) override {
    ++calls_to_system;
    return {ResolutionKind::Found, {has_moved ? "m2" : "m1"}, "", {}};
  }
};

Result<std::unique_ptr<DataSourcePlugin>> make_played(controllers::datadependency::PluginContext) {
  return std::unique_ptr<DataSourcePlugin>(std::make_unique<PlayedPlugin>());
}

std::string claim(int number, int tables, const std::string& workload) {
  return R"({"apiVersion":"datadependency.volcano.sh/v1alpha1","kind":"DataSourceClaim","metadata":{"name":"c)" +
         std::to_string(number) +
         R"("},"spec":{"system":"amoro","dataSourceType":"table","dataSourceName":"lake.shop.t)" +
         std::to_string(number % tables) +
         R"(","workload":{"apiVersion":"batch.volcano.sh/v1alpha1","kind":"Job","name":")" + workload + R"("}}})";
}

std::string binding(int number) {
  const std::string name = "w" + std::to_string(number);
  return R"({"apiVersion":"work.karmada.io/v1alpha2","kind":"ResourceBinding","metadata":{"name":")" + name +
         R"(-job"},"spec":{"resource":{"apiVersion":"batch.volcano.sh/v1alpha1","kind":"Job","namespace":"default","name":")" +
         name + R"("},"placement":{"clusterAffinity":{"clusterNames":["m1","m2","m3"]}}}})";
}

class Bench {
 public:
  explicit Bench(rt::Runtime& runtime)
      : runtime_(runtime),
        plane_(runtime, {.with_default_queue = false, .crds = {"datasourceclaims", "datasources"}}),
        events_(runtime, plane_.client(), Logger(), {.component = "bench"}),
        informers_(runtime, plane_.client(), Logger(), &metrics_),
        context_{runtime, plane_.client(), Logger(), events_, metrics_, informers_},
        claims_(runtime, plane_.client(), Logger(), {.reflector = {.resource = kClaims}, .indexes = {}}),
        bindings_(runtime, plane_.client(), Logger(), {.reflector = {.resource = kBindings}, .indexes = {}}) {
    BASALT_CHECK(crds::install_karmada(runtime, plane_.client(), {}).ok());
    for (const char* name : {"m1", "m2", "m3"})
      plane_.apply("apiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {name: " + std::string(name) +
                   "}\nspec: {syncMode: Push}\n");
    plane_.apply("apiVersion: v1\nkind: Namespace\nmetadata: {name: volcano-global}\n");
    configure("http://played");
    claims_.add_handler([this](const kube::Change<api::datadependency::DataSourceClaim>& change) {
      const auto is_bound = [](const auto& one) { return one && one->status.phase == "Bound"; };
      bound_ += (is_bound(change.after) ? 1 : 0) - (is_bound(change.before) ? 1 : 0);
    });
    bindings_.add_handler([this](const kube::Change<controllers::datadependency::BindingView>& change) {
      for (const char* name : {"m1", "m2"}) {
        const std::string excluded = R"("exclude":[")" + std::string(name) + R"(","m3"])";
        const bool is_now = change.after && change.after->text.find(excluded) != std::string::npos;
        const bool was = change.before && change.before->text.find(excluded) != std::string::npos;
        (name[1] == '1' ? excluding_m1_ : excluding_m2_) += (is_now ? 1 : 0) - (was ? 1 : 0);
      }
    });
    controllers::datadependency::DataControllerOptions options;
    options.factories = {{"amoro", &make_played}};
    controller_ = controllers::datadependency::make_data_controller(context_, std::move(options));
    events_.start();
    informers_.start();
    claims_.start();
    bindings_.start();
    controller_->start();
  }
  ~Bench() {
    controller_->stop();
    claims_.stop();
    bindings_.stop();
    informers_.stop();
    events_.stop();
    plane_.stop();
  }

  void claims_over_tables(int count, int tables) {
    const auto begin = Clock::now();
    std::vector<std::string> bodies;
    bodies.reserve(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) bodies.push_back(claim(i, tables, "j" + std::to_string(i)));
    create(kClaims, bodies);
    const double made = seconds_since(begin);
    wait_for(bound_, count);
    const double all = seconds_since(begin);
    std::printf(
        "%d claims over %d tables: made in %.2f s, all bound after %.2f s, %.2f s after the last was made (bar 10 s), "
        "%lld calls to the system (bar %d)\n",
        count, tables, made, all, all - made, static_cast<long long>(calls_to_system), tables);
  }

  void workloads_of_one_table(int count) {
    std::vector<std::string> claims;
    std::vector<std::string> bindings;
    for (int i = 0; i < count; ++i) {
      claims.push_back(claim(0, 1, "w" + std::to_string(i)));
      const std::string from = R"("name":"c0")";
      claims.back().replace(claims.back().find(from), from.size(), R"("name":"x)" + std::to_string(i) + "\"");
      bindings.push_back(binding(i));
    }
    const std::int64_t calls = calls_to_system;
    const std::int64_t bound = bound_;
    create(kClaims, claims);
    wait_for(bound_, bound + count);
    auto begin = Clock::now();
    create(kBindings, bindings);
    wait_for(excluding_m2_, count);
    std::printf("%d bindings made and constrained: %.2f s\n", count, seconds_since(begin));
    runtime_.sleep_for(std::chrono::seconds(1));  // what was told comes to rest
    has_moved = true;
    begin = Clock::now();
    const auto asked = plane_.try_patch(kSources, "", "amoro-table-lake.shop.t0",
                                        R"({"metadata":{"annotations":{"datadependency.volcano.sh/refresh":"now"}}})");
    BASALT_CHECK(asked.ok());
    wait_for(excluding_m1_, count);
    std::printf("a table moves, %d workloads follow: %.2f s (bar 5 s), %lld further calls to the system (bar 1)\n",
                count, seconds_since(begin), static_cast<long long>(calls_to_system - calls));
  }

 private:
  void configure(const std::string& url) {
    plane_.apply(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: volcano-global-datasource-plugins, namespace: "
        "volcano-global}\ndata: {amoro: '{\"endpoint\":{\"url\":\"" +
        url + "\"},\"refreshInterval\":\"1h\"}'}\n");
  }
  void create(const kube::Resource& resource, const std::vector<std::string>& bodies) {
    std::vector<kube::Request> requests;
    requests.reserve(bodies.size());
    for (const std::string& body : bodies)
      requests.push_back({.verb = kube::Verb::Create, .resource = resource, .ns = "default", .body = body});
    const auto answers = plane_.client().call_all(requests, {.in_flight_max = kInFlight}, {});
    for (const auto& answer : answers)
      BASALT_CHECK_MSG(answer.ok(), answer.ok() ? std::string() : answer.error().to_string());
  }
  void wait_for(const std::atomic<std::int64_t>& counter, std::int64_t value) {
    const auto begin = Clock::now();
    while (counter < value) {
      BASALT_CHECK_MSG(seconds_since(begin) < 300, "it did not end within 300 s");
      runtime_.sleep_for(std::chrono::milliseconds(1));
    }
  }

  rt::Runtime& runtime_;
  sim::Cluster plane_;
  std::atomic<std::int64_t> bound_ = 0;
  std::atomic<std::int64_t> excluding_m1_ = 0;
  std::atomic<std::int64_t> excluding_m2_ = 0;
  kube::Metrics metrics_;
  kube::EventRecorder events_;
  controllers::SharedInformers informers_;
  controllers::ControllerContext context_;
  kube::Informer<api::datadependency::DataSourceClaim> claims_;
  kube::Informer<controllers::datadependency::BindingView> bindings_;
  std::unique_ptr<controllers::Controller> controller_;
};

}  // namespace
}  // namespace basalt

int main(int argc, char** argv) {
  const auto number = [&](int at, int otherwise) {
    const int given = argc > at ? std::atoi(argv[at]) : 0;
    return given > 0 ? given : otherwise;
  };
  const auto runtime = basalt::rt::make_real_runtime();
  basalt::Bench bench(*runtime);
  bench.claims_over_tables(number(1, 100'000), number(2, 1'000));
  bench.workloads_of_one_table(number(3, 10'000));
  return 0;
}
