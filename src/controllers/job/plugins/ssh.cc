#include "base/encoding.h"
#include "controllers/job/plugins/factories.h"
#include "controllers/job/plugins/flags.h"
#include "controllers/job/plugins/pod_edit.h"

namespace basalt::controllers::job {

namespace {

constexpr std::string_view kRootPath = "/root/.ssh";
constexpr std::string_view kSubPath = ".ssh";
constexpr std::string_view kFiles[] = {"id_rsa", "id_rsa.pub", "authorized_keys", "config"};

std::string secret_name(const api::batch::Job& job) { return job.metadata.name + "-ssh"; }

// Lets the pods of a job log in to each other: one key pair and one client configuration, mounted into every container.
class SshPlugin : public JobPlugin {
 public:
  SshPlugin(const Arguments& arguments, Warnings& warnings) {
    Flags flags("ssh");
    flags.text("ssh-key-file-path", path_);
    flags.text("ssh-private-key", keys_.private_pem);
    flags.text("ssh-public-key", keys_.authorized_line);
    flags.port("ssh-port", port_);
    flags.parse(arguments, warnings);
  }

  [[nodiscard]] std::string_view name() const override { return "ssh"; }
  [[nodiscard]] bool needs_keys() const override { return keys_.private_pem.empty(); }

  [[nodiscard]] std::vector<PluginObject> objects(const api::batch::Job& job) const override {
    json::Value object = plugin_object(job, "v1", "Secret", secret_name(job));
    object.ensure_path({"type"}) = "Opaque";
    object.ensure_path({"data", "config"}) = base::base64_encode(client_configuration(job));
    if (!needs_keys()) with_keys(object, keys_);
    std::vector<PluginObject> objects;
    objects.push_back({.resource = {"", "v1", "secrets"},
                       .name = secret_name(job),
                       .upkeep = PluginObject::Upkeep::SshKeys,
                       .object = std::move(object)});
    return objects;
  }

  [[nodiscard]] Done edit_pod(const api::batch::Job& job, std::size_t /*task*/, const PodIndex& /*index*/,
                              json::Value& pod) const override {
    json::Array items;
    for (const std::string_view file : kFiles)
      items.push_back(json::Object{{"key", file}, {"path", std::string(kSubPath) + "/" + std::string(file)}});
    // sshd of another user than root must be able to read what the kubelet writes as root.
    const int mode = path_ == kRootPath ? 0600 : 0644;
    const std::string volume = fitting_volume_name(job.metadata.name, "-ssh");
    append_volume(
        pod, {{"name", volume},
              {"secret",
               json::Object{{"secretName", secret_name(job)}, {"items", std::move(items)}, {"defaultMode", mode}}}});
    for_each_container(pod, Containers::All, [&](json::Value& container) {
      array_at(container, "volumeMounts")
          .push_back(json::Object{{"name", volume}, {"mountPath", path_}, {"subPath", kSubPath}});
    });
    return Ok();
  }

 private:
  [[nodiscard]] std::string client_configuration(const api::batch::Job& job) const {
    std::string text = "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n";
    const std::string port = "  Port " + std::to_string(port_) + "\n";
    for (const api::batch::TaskSpec& task : job.spec.tasks) {
      const TaskHosts hosts(job, task);
      for (std::int32_t i = 0; i < hosts.distinct(); ++i) {
        text.append("Host ").append(hosts.host(i)).append("\n");
        text.append("  HostName ").append(hosts.domain(i)).append("\n").append(port);
      }
    }
    return text;
  }

  std::string path_{kRootPath};
  SshKeyPair keys_;  // of the user
  std::int64_t port_ = 22;
};

}  // namespace

PluginPointer make_ssh_plugin(const Arguments& arguments, Warnings& warnings) {
  return std::make_shared<SshPlugin>(arguments, warnings);
}

void with_keys(json::Value& secret, const SshKeyPair& keys) {
  if (secret.find_path({"data", "id_rsa"}) != nullptr) return;
  const std::string authorized = base::base64_encode(keys.authorized_line);
  secret.ensure_path({"data", "id_rsa"}) = base::base64_encode(keys.private_pem);
  secret.ensure_path({"data", "id_rsa.pub"}) = authorized;
  secret.ensure_path({"data", "authorized_keys"}) = authorized;
}

}  // namespace basalt::controllers::job
