#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/gen/batch_job.h"
#include "base/result.h"
#include "json/value.h"
#include "kube/client.h"

namespace basalt::controllers::job {

// An RSA key pair as the ssh plugin needs it.
struct SshKeyPair {
  std::string private_pem;      // PKCS#1, "RSA PRIVATE KEY"
  std::string authorized_line;  // "ssh-rsa AAAA...\n"
};

// One object beside the pods that a plugin wants while the job runs.
struct PluginObject {
  enum class Upkeep : std::uint8_t {
    Once,     // created if it is missing, never changed
    Current,  // `data` is kept equal to what the plugin wants (the hosts of svc follow the replicas)
    SshKeys,  // created with a new key pair; if it exists, replaced only when `data.config` differs
  };
  kube::Resource resource;
  std::string name;  // in the job's namespace
  Upkeep upkeep = Upkeep::Once;
  json::Value object;  // complete but for what a key pair fills in (with_keys), with the controller reference
};

// The index of a pod in its task, as text. While a PodBuilder prepares the pods of a task, the text is a mark that the
// number of each pod replaces later. So a plugin can write the index, but nothing else may depend on it.
class PodIndex {
 public:
  PodIndex(std::int32_t index) : index_(index) {}
  // The mark does not occur in anything that the pod is made of, and contains its first letter once.
  static PodIndex of_mark(std::string mark);

  [[nodiscard]] std::string text(std::int64_t offset = 0) const;        // of index + offset
  [[nodiscard]] std::string quotient_text(std::int32_t divisor) const;  // of index / divisor; divisor > 0
  // What stands behind the mark in text() and quotient_text(): '+' or '/', a number, ';'.
  static constexpr char kPlus = '+';
  static constexpr char kQuotient = '/';
  static constexpr char kEnd = ';';

 private:
  std::int32_t index_ = 0;
  std::string mark_;
};

// One plugin of one job, made from its arguments. Immutable; any thread. Knows no API: it edits pods and names objects.
class JobPlugin {
 public:
  virtual ~JobPlugin() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  // Whether status.controlledResources lists the plugin ("plugin-<name>") while its objects exist.
  [[nodiscard]] virtual bool is_recorded() const { return true; }
  // Whether an object of Upkeep::SshKeys waits for a key pair.
  [[nodiscard]] virtual bool needs_keys() const { return false; }
  [[nodiscard]] virtual std::vector<PluginObject> objects(const api::batch::Job& job) const;
  // Edits pod number `index` of task number `task`, given as the object that is about to be created. An error is the
  // user's to fix: it names the plugin, the task and what to change.
  [[nodiscard]] virtual Done edit_pod(const api::batch::Job& job, std::size_t task, const PodIndex& index,
                                      json::Value& pod) const = 0;
};

// The plugins of a job in their fixed order: env, svc, ssh, mpi, tensorflow, pytorch, ray, hcclrank.
class PluginSet {
 public:
  // An unknown plugin is an error that names it and lists the known ones. Parsing of a plugin's arguments ends at the
  // first that is not understood: it and the rest keep their defaults, and warnings() says so.
  [[nodiscard]] static Result<PluginSet> make(const api::batch::JobSpec& spec);
  [[nodiscard]] const std::vector<std::shared_ptr<const JobPlugin>>& all() const { return plugins_; }
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }
  [[nodiscard]] bool needs_keys() const;  // ssh without a key of the user's

 private:
  std::vector<std::shared_ptr<const JobPlugin>> plugins_;
  std::vector<std::string> warnings_;
};

// Fills the keys into an object of Upkeep::SshKeys; one that holds a key of the user's is left alone.
void with_keys(json::Value& secret, const SshKeyPair& keys);
// RSA 2048: 70 to 250 ms of CPU, so never on a worker; from an rt::Executor.
[[nodiscard]] Result<SshKeyPair> make_ssh_key_pair();

}  // namespace basalt::controllers::job
