#include <array>

#include "api/gen/names.h"
#include "base/strings.h"
#include "controllers/job/plugins/factories.h"
#include "controllers/job/plugins/flags.h"
#include "controllers/job/plugins/pod_edit.h"

namespace basalt::controllers::job {

namespace {

struct RayPort {
  std::string_view name;
  std::int64_t number = 0;
};

// The head's service finds its ports by name, so a container that declares only the number gets the name, too.
void declare_named_port(json::Value& container, const RayPort& wanted) {
  json::Array& ports = array_at(container, "ports");
  json::Value* unnamed = nullptr;
  for (json::Value& port : ports) {
    if (port.string_at({"name"}) == wanted.name) return;
    const json::Value* const number = port.find("containerPort");
    if (number != nullptr && number->is_int() && number->as_int() == wanted.number && port.string_at({"name"}).empty())
      unnamed = &port;
  }
  if (unnamed != nullptr) {
    unnamed->ensure_path({"name"}) = wanted.name;
    return;
  }
  ports.push_back(json::Object{{"name", wanted.name}, {"containerPort", wanted.number}});
}

// Starts Ray in the head and in the workers, and puts a service in front of the head.
class RayPlugin : public JobPlugin {
 public:
  RayPlugin(const Arguments& arguments, Warnings& warnings) {
    Flags flags("ray");
    flags.text("head", head_);
    flags.text("headContainer", head_container_);
    flags.text("worker", worker_);
    flags.text("workerContainer", worker_container_);
    flags.port("port", ports_[0].number);
    flags.port("dashboardPort", ports_[1].number);
    flags.port("clientPort", ports_[2].number);
    flags.parse(arguments, warnings);
  }

  [[nodiscard]] std::string_view name() const override { return "ray"; }

  [[nodiscard]] std::vector<PluginObject> objects(const api::batch::Job& job) const override {
    const std::string service = job.metadata.name + "-head-svc";
    json::Array ports;
    for (const RayPort& port : ports_)
      ports.push_back(
          json::Object{{"name", port.name}, {"port", port.number}, {"protocol", "TCP"}, {"targetPort", port.name}});
    json::Object selector = pod_labels_of(job);
    selector.set(api::keys::kTaskSpec, head_);
    json::Object object = plugin_object(job, "v1", "Service", service);
    object.set("spec", json::Object{{"selector", std::move(selector)}, {"ports", std::move(ports)}});
    std::vector<PluginObject> objects;
    objects.push_back({.resource = {"", "v1", "services"}, .name = service, .object = std::move(object)});
    return objects;
  }

  [[nodiscard]] Done edit_pod(const api::batch::Job& job, std::size_t task, const PodIndex& /*index*/,
                              json::Value& pod) const override {
    const api::batch::TaskSpec* const head = find_task(job, head_);
    if (head == nullptr) {
      return Error::make(Reason::Invalid, "plugin ray: job " + job.metadata.namespace_ + "/" + job.metadata.name +
                                              " has no head task " + base::quote(head_) +
                                              "; add a task of that name, or name yours in --head");
    }
    const std::string& own = job.spec.tasks[task].name;
    if (own == head_) {
      replace_command(pod, head_container_, head_command(), [&](json::Value& container) {
        for (const RayPort& port : ports_) declare_named_port(container, port);
      });
    } else if (own == worker_) {
      const std::string command =
          "ray start --block --address=" + TaskHosts(job, *head).domain(0) + ":" + std::to_string(ports_[0].number);
      replace_command(pod, worker_container_, command, [](json::Value&) {});
    }
    return Ok();
  }

 private:
  [[nodiscard]] std::string head_command() const {
    return "ray start --head --block --dashboard-host=0.0.0.0 --port=" + std::to_string(ports_[0].number) +
           " --dashboard-port=" + std::to_string(ports_[1].number) +
           " --ray-client-server-port=" + std::to_string(ports_[2].number);
  }

  template <class Edit>
  static void replace_command(json::Value& pod, std::string_view name, const std::string& command, Edit edit) {
    for_each_container(pod, Containers::Main, [&](json::Value& container) {
      if (container.string_at({"name"}) != name) return;
      container.ensure_path({"command"}) = json::Array{"sh", "-c", command};
      edit(container);
    });
  }

  std::string head_ = "head";
  std::string head_container_ = "head";
  std::string worker_ = "worker";
  std::string worker_container_ = "worker";
  std::array<RayPort, 3> ports_{RayPort{"gcs", 6379}, {"dashboard", 8265}, {"client-server", 10001}};
};

}  // namespace

PluginPointer make_ray_plugin(const Arguments& arguments, Warnings& warnings) {
  return std::make_shared<RayPlugin>(arguments, warnings);
}

}  // namespace basalt::controllers::job
