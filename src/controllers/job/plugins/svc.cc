#include "base/strings.h"
#include "controllers/job/plugins/factories.h"
#include "controllers/job/plugins/flags.h"
#include "controllers/job/plugins/pod_edit.h"

namespace basalt::controllers::job {

namespace {

constexpr std::string_view kMountPath = "/etc/volcano";

std::string config_map_name(const api::batch::Job& job) { return job.metadata.name + "-svc"; }

// "VC_<TASK>_HOSTS" and "VC_<TASK>_NUM".
std::string variable(const api::batch::TaskSpec& task, std::string_view what) {
  return "VC_" + base::to_upper_ascii(base::replace_all(task.name, "-", "_")) + "_" + std::string(what);
}

// Gives pods names by which they reach each other: a headless service, the hosts of every task as files and as
// environment, and a policy that lets only the job's own pods in.
class SvcPlugin : public JobPlugin {
 public:
  SvcPlugin(const Arguments& arguments, Warnings& warnings) {
    Flags flags("svc");
    flags.boolean("publish-not-ready-addresses", publish_not_ready_addresses_);
    flags.boolean("disable-network-policy", disable_network_policy_);
    flags.boolean("inject-hosts-env", inject_hosts_env_);
    flags.parse(arguments, warnings);
  }

  [[nodiscard]] std::string_view name() const override { return "svc"; }

  [[nodiscard]] std::vector<PluginObject> objects(const api::batch::Job& job) const override {
    std::vector<PluginObject> objects;
    objects.push_back(config_map(job));
    objects.push_back(service(job));
    if (!disable_network_policy_) objects.push_back(network_policy(job));
    return objects;
  }

  [[nodiscard]] Done edit_pod(const api::batch::Job& job, std::size_t /*task*/, const PodIndex& /*index*/,
                              json::Value& pod) const override {
    if (pod.string_at({"spec", "hostname"}).empty())
      pod.ensure_path({"spec", "hostname"}) = std::string(pod.string_at({"metadata", "name"}));
    if (pod.string_at({"spec", "subdomain"}).empty()) pod.ensure_path({"spec", "subdomain"}) = job.metadata.name;

    const std::string config_map = config_map_name(job);
    const std::string volume = fitting_volume_name(job.metadata.name, "-svc");
    append_volume(pod, {{"name", volume}, {"configMap", json::Object{{"name", config_map}}}});
    for_each_container(pod, Containers::All, [&](json::Value& container) {
      if (inject_hosts_env_) {
        for (const api::batch::TaskSpec& task : job.spec.tasks) {
          append_reference(container, config_map, variable(task, "HOSTS"));
          append_reference(container, config_map, variable(task, "NUM"));
        }
      }
      array_at(container, "volumeMounts").push_back(json::Object{{"name", volume}, {"mountPath", kMountPath}});
    });
    return Ok();
  }

 private:
  static void append_reference(json::Value& container, const std::string& config_map, const std::string& key) {
    array_at(container, "env")
        .push_back(json::Object{
            {"name", key},
            {"valueFrom", json::Object{{"configMapKeyRef", json::Object{{"name", config_map}, {"key", key}}}}}});
  }

  static PluginObject config_map(const api::batch::Job& job) {
    json::Object data;
    for (const api::batch::TaskSpec& task : job.spec.tasks) {
      const TaskHosts hosts(job, task);
      data.set(base::replace_all(task.name, "-", "_") + ".host", joined_domains(hosts, "\n"));
      data.set(variable(task, "HOSTS"), joined_domains(hosts, ","));
      data.set(variable(task, "NUM"), std::to_string(hosts.distinct()));
    }
    json::Object object = plugin_object(job, "v1", "ConfigMap", config_map_name(job));
    object.set("data", std::move(data));
    return {.resource = {"", "v1", "configmaps"},
            .name = config_map_name(job),
            .upkeep = PluginObject::Upkeep::Current,
            .object = std::move(object)};
  }

  [[nodiscard]] PluginObject service(const api::batch::Job& job) const {
    json::Object spec{{"clusterIP", "None"}, {"selector", pod_labels_of(job)}};
    if (publish_not_ready_addresses_) spec.set("publishNotReadyAddresses", true);
    json::Object object = plugin_object(job, "v1", "Service", job.metadata.name);
    object.set("spec", std::move(spec));
    return {.resource = {"", "v1", "services"}, .name = job.metadata.name, .object = std::move(object)};
  }

  static PluginObject network_policy(const api::batch::Job& job) {
    const json::Object own_pods{{"matchLabels", pod_labels_of(job)}};
    json::Object object = plugin_object(job, "networking.k8s.io/v1", "NetworkPolicy", job.metadata.name);
    json::Object from{{"from", json::Array{json::Object{{"podSelector", own_pods}}}}};
    object.set("spec", json::Object{{"podSelector", own_pods},
                                    {"ingress", json::Array{std::move(from)}},
                                    {"policyTypes", json::Array{"Ingress"}}});
    return {.resource = {"networking.k8s.io", "v1", "networkpolicies"},
            .name = job.metadata.name,
            .object = std::move(object)};
  }

  bool publish_not_ready_addresses_ = false;
  bool disable_network_policy_ = false;
  bool inject_hosts_env_ = true;
};

}  // namespace

PluginPointer make_svc_plugin(const Arguments& arguments, Warnings& warnings) {
  return std::make_shared<SvcPlugin>(arguments, warnings);
}

}  // namespace basalt::controllers::job
