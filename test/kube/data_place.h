#pragma once

#include <signal.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "controllers/datadependency/test_support.h"
#include "kube/kubeconfig.h"
#include "kube/rest_client.h"
#include "rt/real_runtime.h"
#include "sim/stage.h"
#include "test/kube/activity.h"
#include "test/kube/admission_process.h"
#include "test/kube/kube_fixture.h"

// Where the scenarios of data dependencies play in the kube lane: a real API server with Karmada's kinds, the
// controller with the rights of deploy/karmada/data-rbac.yaml, and `basalt webhooks` as a process with its own, called
// through deploy/karmada/data-webhook-configuration.yaml for bindings that carry the label of the hook.

namespace basalt::test {

namespace data = controllers::datadependency;

constexpr int kInFlight = 16;

class DataDriver final : public sim::Driver {
 public:
  using Driver::Driver;

 protected:
  [[nodiscard]] std::optional<Kind> find_kind(std::string_view group, std::string_view version,
                                              std::string_view kind) const override {
    if (kind == "DataSourceClaim") return Kind{data::kClaims, true};
    if (kind == "DataSource") return Kind{data::kSources, false};
    if (kind == "ResourceBinding") return Kind{data::kBindings, true};
    if (kind == "Cluster") return Kind{data::kClusters, false};
    return Driver::find_kind(group, version, kind);
  }
};

class DataPlace final : public sim::Place {
 public:
  explicit DataPlace(std::unique_ptr<RealKube> kube)
      : kube_(std::move(kube)), admin_(connect("")), own_(connect("volcano-data-controller")) {
    process_ =
        std::make_unique<AdmissionProcess>(BASALT_PROGRAM, kube_->folder() / "admission", admission_kubeconfig());
    service_ = std::make_unique<TcpProxy>(process_->port());
  }
  ~DataPlace() override { (void)process_->stop(SIGTERM); }

  // Why it cannot be used; "" if it can.
  std::string prepare() {
    for (const char* name : {"volcano-global", "karmada-system"})
      static_cast<void>(kube_->kubectl({"create", "namespace", name}));
    for (const std::string what :
         {"deploy/namespace.yaml", "deploy/crds", "deploy/karmada/stand-in", "deploy/karmada/data-rbac.yaml"}) {
      const CommandResult done = kube_->kubectl({"apply", "--server-side", "--filename=" BASALT_SOURCE_DIR "/" + what});
      if (done.exit != 0) return done.err;
    }
    const CommandResult ready =
        kube_->kubectl({"wait", "--for=condition=Established", "--timeout=60s", "crds", "--all"});
    if (ready.exit != 0) return ready.err;
    start_admission();
    return add_webhook();
  }

  [[nodiscard]] rt::Runtime& runtime() override { return *runtime_; }
  void let_pass(rt::Duration time) override { activity_.let_pass(time); }
  [[nodiscard]] kube::Client& own_client() { return *own_; }
  // The admission server, as deploy/karmada/data-controller.yaml starts it.
  void start_admission() {
    process_->start({"--webhook-namespace=karmada-system", "--webhook-service-name=volcano-data-admission",
                     "--secret-name=volcano-data-admission-secret"},
                    {"/resourcebindings/mutate"});
  }
  void kill_admission() { (void)process_->stop(SIGKILL); }
  [[nodiscard]] std::unique_ptr<sim::Driver> open(const sim::Cluster::Options&) override {
    auto driver = std::make_unique<DataDriver>(*runtime_, *admin_);
    for (const kube::Resource& resource : {data::kClaims, data::kBindings, sim::resources::kEvents})
      wipe(*driver, resource, "default");
    for (const kube::Resource& resource : {data::kSources, data::kClusters}) wipe(*driver, resource, "");
    for (const kube::Resource& resource : {sim::resources::kConfigMaps, sim::resources::kSecrets})
      wipe(*driver, resource, "volcano-global");
    wait_for_admission(*driver);
    return driver;
  }

 private:
  [[nodiscard]] std::unique_ptr<kube::Client> connect(const std::string& user) {
    auto config =
        kube::load_client_config({.kubeconfig = kube_->kubeconfig().string()}, kube::ConfigEnvironment::of_process());
    BASALT_CHECK(config.ok());
    config->impersonation.user = user;
    if (!user.empty()) config->impersonation.groups = {"system:authenticated"};
    auto client = kube::make_rest_client(*runtime_, Logger(), *config);
    BASALT_CHECK(client.ok());
    return std::make_unique<ActiveClient>(std::move(*client), activity_);
  }
  // The administrator's, who acts as the admission server's user.
  [[nodiscard]] std::string admission_kubeconfig() const {
    const std::filesystem::path path = kube_->folder() / "data-admission.kubeconfig";
    std::ofstream(path)
        << "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters:\n- name: c\n  cluster: {server: \""
        << kube_->server_url() << "\", certificate-authority: " << kube_->ca_file().string()
        << "}\nusers:\n- name: c\n  user: {as: volcano-data-admission, as-groups: "
           "[\"system:authenticated\"], client-certificate: "
        << kube_->client_certificate_file().string() << ", client-key: " << kube_->client_key_file().string()
        << "}\ncontexts:\n- name: c\n  context: {cluster: c, user: c}\n";
    return path.string();
  }

  // The deployed one, with the port of the proxy that stands where a Service does, for bindings with the hook's label.
  std::string add_webhook() {
    const auto text_of = [](const std::filesystem::path& path) {
      std::ifstream file(path);
      return std::string(std::istreambuf_iterator<char>(file), {});
    };
    std::string text = base::replace_all(
        text_of(BASALT_SOURCE_DIR "/deploy/karmada/data-webhook-configuration.yaml"),
        "url: https://volcano-data-admission.karmada-system.svc:443/resourcebindings/mutate",
        "service: {name: volcano-data-admission, namespace: karmada-system, path: /resourcebindings/mutate, port: " +
            std::to_string(service_->port()) + "}");
    text = base::replace_all(
        text, "    sideEffects: None",
        "    sideEffects: None\n    objectSelector: {matchLabels: {" + std::string(data::kHookedLabel) + ": \"yes\"}}");
    text +=
        "\n---\n{apiVersion: v1, kind: Service, metadata: {name: volcano-data-admission, namespace: karmada-system}, "
        "spec: {type: ExternalName, externalName: localhost}}\n";
    const CommandResult done = kube_->kubectl({"apply", "--server-side", "--filename=-"}, text);
    return done.exit == 0 ? "" : done.err;
  }

  // Many at once: some scenarios leave hundreds.
  static void wipe(sim::Driver& driver, const kube::Resource& resource, std::string_view ns) {
    std::vector<kube::Request> requests;
    for (const json::Value& object : driver.list(resource, ns)) {
      if (object.find_path({"metadata", "finalizers"}) == nullptr) continue;
      kube::Request request;
      request.verb = kube::Verb::Patch;
      request.resource = resource;
      request.ns = ns;
      request.name = object.string_at({"metadata", "name"});
      request.body = R"({"metadata":{"finalizers":null}})";
      requests.push_back(std::move(request));
    }
    for (const auto& done : driver.client().call_all(requests, {.in_flight_max = kInFlight}, {}))
      BASALT_CHECK_MSG(done.ok(), "a finalizer of the scenario before cannot be removed");
    kube::Request all;
    all.verb = kube::Verb::DeleteCollection;
    all.resource = resource;
    all.ns = ns;
    BASALT_CHECK_MSG(driver.client().call(all, {}).ok(), "what the scenario before made cannot be removed");
  }

  // It has seen that the claims of the scenario before are gone as soon as it has seen one that is made now.
  void wait_for_admission(sim::Driver& driver) {
    const std::string name = "mark" + std::to_string(++opened_);
    driver.apply(
        "{apiVersion: datadependency.volcano.sh/v1alpha1, kind: DataSourceClaim, metadata: {name: " + name +
        "}, spec: {system: none, dataSourceType: table, dataSourceName: a.b.c, workload: {apiVersion: apps/v1, "
        "kind: Deployment, name: " +
        name + "}}}");
    kube::Request request;
    request.verb = kube::Verb::Create;
    request.resource = data::kBindings;
    request.ns = "default";
    request.dry_run = true;
    request.body = R"({"apiVersion":"work.karmada.io/v1alpha2","kind":"ResourceBinding","metadata":{"name":")" + name +
                   R"(","labels":{")" + data::kHookedLabel +
                   R"(":"yes"}},"spec":{"resource":{"apiVersion":"apps/v1","kind":"Deployment","namespace":"default",)"
                   R"("name":")" +
                   name + R"("}}})";
    std::string last;
    const bool reached = driver.wait_until([&] {
      const auto response = driver.client().call(request, {});
      last = response.ok() ? *response->body : response.error().to_string();
      return response.ok() && last.find("\"scheduling\":true") != std::string::npos;
    });
    BASALT_CHECK_MSG(reached, ("the admission server does not answer: " + last).c_str());
    driver.remove(data::kClaims, "default", name, 0);
  }

  const std::unique_ptr<RealKube> kube_;
  const std::unique_ptr<rt::Runtime> runtime_ = rt::make_real_runtime();
  Activity activity_{*runtime_, std::chrono::milliseconds(500)};
  const std::unique_ptr<kube::Client> admin_;
  const std::unique_ptr<kube::Client> own_;
  std::unique_ptr<AdmissionProcess> process_;
  std::unique_ptr<TcpProxy> service_;
  int opened_ = 0;
};

}  // namespace basalt::test
