#include "cli/run/manifests.h"

#include <algorithm>
#include <array>
#include <set>
#include <span>
#include <utility>

#include "api/gen/batch.h"
#include "api/gen/core_objects.h"
#include "api/gen/core_pod.h"
#include "api/gen/flow.h"
#include "api/gen/scheduling.h"
#include "api/gen/topology.h"
#include "api/gen/training.h"
#include "api/kind_info.h"
#include "api/names.h"
#include "api/quantity.h"
#include "base/strings.h"
#include "yaml/reader.h"

namespace basalt::cli {
namespace {

constexpr std::size_t kDocumentsMax = 1000;
constexpr std::size_t kProblemsShown = 20;

std::span<const api::KindInfo> known_kinds() {
  static const std::array kKinds = {
      api::batch::Job::kind_info(),          api::batch::CronJob::kind_info(),
      api::flow::JobFlow::kind_info(),       api::flow::JobTemplate::kind_info(),
      api::scheduling::Queue::kind_info(),   api::scheduling::PodGroup::kind_info(),
      api::topology::HyperNode::kind_info(), api::training::HyperJob::kind_info(),
      api::core::Pod::kind_info(),           api::core::Service::kind_info(),
      api::core::ConfigMap::kind_info(),     api::core::Secret::kind_info(),
      api::core::Namespace::kind_info(),     api::core::PersistentVolumeClaim::kind_info(),
  };
  return kKinds;
}

std::string at(std::string_view path, std::size_t index) {
  return std::string(path) + "[" + std::to_string(index) + "]";
}

class JobCheck {
 public:
  explicit JobCheck(const json::Value& job) : job_(job) {}

  std::vector<std::string> run() {
    check_integer(job_, "spec", "minAvailable", 0);
    const json::Value* spec = job_.find("spec");
    if (spec == nullptr || !spec->is_object()) {
      say("spec", "is missing");
      return std::move(problems_);
    }
    const json::Value* tasks = spec->find("tasks");
    if (tasks == nullptr || !tasks->is_array() || tasks->as_array().empty()) {
      say("spec.tasks", "must hold at least one task");
      return std::move(problems_);
    }
    std::int64_t replicas = 0;
    std::set<std::string> names;
    for (std::size_t i = 0; i < tasks->as_array().size(); ++i)
      replicas += check_task(tasks->as_array()[i], at("spec.tasks", i), i, names);
    const json::Value* min = spec->find("minAvailable");
    if (min != nullptr && min->is_int() && min->as_int() > replicas) {
      say("spec.minAvailable", "is " + std::to_string(min->as_int()) + ", but the tasks have " +
                                   std::to_string(replicas) + " pods in all: the job could never start");
    }
    check_dependencies(tasks->as_array(), names);
    return std::move(problems_);
  }

 private:
  void say(std::string_view path, std::string_view what) {
    problems_.push_back(std::string(path) + " " + std::string(what));
  }

  void check_integer(const json::Value& parent, std::string_view path, std::string_view key, std::int64_t least) {
    const json::Value* object = path == "spec" ? parent.find("spec") : &parent;
    const json::Value* value = object == nullptr ? nullptr : object->find(key);
    if (value == nullptr || value->is_null()) return;
    const std::string field = std::string(path) + "." + std::string(key);
    if (!value->is_int()) {
      say(field, "must be a whole number, it is a " + std::string(value->type_name()));
    } else if (value->as_int() < least) {
      say(field, "must be at least " + std::to_string(least));
    }
  }

  // Returns the replicas of the task.
  std::int64_t check_task(const json::Value& task, const std::string& path, std::size_t index,
                          std::set<std::string>& names) {
    if (!task.is_object()) {
      say(path, "must be an object");
      return 0;
    }
    std::string name(task.string_at({"name"}));
    if (name.empty()) name = "default" + std::to_string(index);  // as the webhook calls it
    if (!api::is_dns1123_label(name))
      say(path + ".name", "\"" + name + "\" is no DNS label (a-z, 0-9 and -, 63 at most)");
    if (!names.insert(name).second) say(path + ".name", "\"" + name + "\" is taken by a task before it");
    check_integer(task, path, "replicas", 0);
    const json::Value* replicas = task.find("replicas");
    const std::int64_t count = replicas != nullptr && replicas->is_int() ? replicas->as_int() : 0;
    const json::Value* min = task.find("minAvailable");
    if (min != nullptr && min->is_int() && min->as_int() > count)
      say(path + ".minAvailable", "is larger than the task's replicas (" + std::to_string(count) + ")");
    const json::Value* containers = task.find_path({"template", "spec", "containers"});
    if (containers == nullptr || !containers->is_array() || containers->as_array().empty()) {
      say(path + ".template.spec.containers", "must hold at least one container");
      return count;
    }
    for (std::size_t i = 0; i < containers->as_array().size(); ++i) {
      const json::Value& container = containers->as_array()[i];
      const std::string place = at(path + ".template.spec.containers", i);
      if (container.string_at({"name"}).empty()) say(place + ".name", "is missing");
      if (container.string_at({"image"}).empty()) say(place + ".image", "is missing");
      for (const char* part : {"requests", "limits"}) check_resources(container, place, part);
    }
    return count;
  }

  void check_resources(const json::Value& container, const std::string& place, std::string_view part) {
    const json::Value* list = container.find_path({"resources", part});
    if (list == nullptr || !list->is_object()) return;
    for (const json::Member& member : list->as_object()) {
      if (!member.value.is_string()) continue;
      if (const auto quantity = api::Quantity::parse(member.value.as_string()); !quantity.ok())
        say(place + ".resources." + std::string(part) + "." + member.key,
            "is no quantity: " + quantity.error().message);
    }
  }

  void check_dependencies(const json::Array& tasks, const std::set<std::string>& names) {
    const std::vector<std::string_view> candidates(names.begin(), names.end());
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      const json::Value* others = tasks[i].find_path({"dependsOn", "name"});
      if (others == nullptr || !others->is_array()) continue;
      for (const json::Value& other : others->as_array()) {
        if (!other.is_string() || names.contains(other.as_string())) continue;
        say(at("spec.tasks", i) + ".dependsOn.name", "names \"" + other.as_string() +
                                                         "\", which is no task of the job" +
                                                         base::did_you_mean(other.as_string(), candidates));
      }
    }
  }

  const json::Value& job_;
  std::vector<std::string> problems_;
};

Result<Manifest> make_manifest(Session& session, json::Value object, std::string place, const std::string& ns) {
  Manifest manifest;
  manifest.place = std::move(place);
  const auto refuse = [&manifest](std::string_view what) {
    return Error::invalid_input(manifest.place + ": " + std::string(what));
  };
  if (!object.is_object()) return refuse("this is a " + std::string(object.type_name()) + ", not an object");
  manifest.kind = object.string_at({"kind"});
  const std::string api_version(object.string_at({"apiVersion"}));
  if (manifest.kind.empty()) return refuse("it has no kind; a job begins with 'kind: Job'");
  if (api_version.empty()) return refuse("it has no apiVersion; a job's is batch.volcano.sh/v1alpha1");
  auto found = resource_of_kind(session, api_version, manifest.kind);
  if (!found.ok()) return found.error().with_context(manifest.place);
  std::tie(manifest.resource, manifest.is_namespaced) = *found;
  if (object.string_at({"metadata", "name"}).empty() && object.string_at({"metadata", "generateName"}).empty())
    return refuse("metadata.name is missing");
  if (manifest.is_namespaced) {
    const std::string its(object.string_at({"metadata", "namespace"}));
    if (!ns.empty() && !its.empty() && ns != its)
      return refuse("metadata.namespace is \"" + its + "\", but -n says \"" + ns + "\"");
    if (its.empty()) object.ensure_path({"metadata", "namespace"}) = ns.empty() ? session.ns : ns;
  }
  manifest.object = std::move(object);
  return manifest;
}

}  // namespace

bool Manifest::is_job() const { return kind == "Job" && resource.group == api::batch::Job::kind_info().group; }

std::string Manifest::name() const {
  const std::string_view fixed = object.string_at({"metadata", "name"});
  return std::string(fixed.empty() ? object.string_at({"metadata", "generateName"}) : fixed);
}

std::vector<std::string> problems_of_job(const json::Value& job) { return JobCheck(job).run(); }

Result<std::pair<kube::Resource, bool>> resource_of_kind(Session& session, std::string_view api_version,
                                                         std::string_view kind) {
  for (const api::KindInfo& known : known_kinds()) {
    if (known.kind != kind || !known.has_api_version(api_version)) continue;
    return std::pair(kube::Resource{std::string(known.group), std::string(known.version), std::string(known.plural)},
                     known.namespaced);
  }
  const auto slash = api_version.find('/');
  const std::string path = (slash == std::string_view::npos ? "/api/" : "/apis/") + std::string(api_version);
  const auto refuse = [&] {
    std::vector<std::string_view> names;
    for (const api::KindInfo& known : known_kinds()) names.push_back(known.kind);
    std::string message = "the server knows no kind " + std::string(kind) + " of " + std::string(api_version);
    for (const api::KindInfo& known : known_kinds()) {
      if (known.kind == kind) return Error::invalid_input(message + "; its apiVersion is " + known.api_version());
    }
    return Error::invalid_input(message + base::did_you_mean(kind, names));
  };
  auto answer = session.raw.get(path, session.stop);
  if (!answer.ok()) {
    if (answer.error().is(Reason::NotFound)) return refuse();
    return std::move(answer).error();
  }
  BASALT_TRY(const json::Value list, json::Value::parse(*answer));
  const json::Value* resources = list.find("resources");
  if (resources != nullptr && resources->is_array()) {
    for (const json::Value& resource : resources->as_array()) {
      const std::string_view name = resource.string_at({"name"});
      if (resource.string_at({"kind"}) != kind || name.find('/') != std::string_view::npos) continue;
      const json::Value* namespaced = resource.find("namespaced");
      const std::string group(slash == std::string_view::npos ? "" : api_version.substr(0, slash));
      const std::string version(slash == std::string_view::npos ? api_version : api_version.substr(slash + 1));
      return std::pair(kube::Resource{group, version, std::string(name)},
                       namespaced != nullptr && namespaced->is_bool() && namespaced->as_bool());
    }
  }
  return refuse();
}

Result<std::vector<Manifest>> load_manifests(Session& session, const std::vector<std::string>& files,
                                             const std::string& ns) {
  std::vector<Manifest> manifests;
  std::string problems;
  std::size_t count = 0;
  for (const std::string& file : files) {
    const std::string shown = file == "-" ? "standard input" : file;
    BASALT_TRY(const std::string text, session.host.read_file(file));
    auto documents = yaml::read_all(text, {.size_bytes_max = 16u << 20, .documents_max = kDocumentsMax});
    if (!documents.ok()) return documents.error().with_context(shown);
    for (yaml::Document& document : *documents) {
      BASALT_TRY(Manifest manifest,
                 make_manifest(session, std::move(document.value), shown + ":" + std::to_string(document.line), ns));
      if (manifest.is_job()) {
        for (const std::string& problem : problems_of_job(manifest.object)) {
          if (++count <= kProblemsShown) problems += "\n  " + manifest.place + ": " + problem;
        }
      }
      manifests.push_back(std::move(manifest));
    }
  }
  if (count > kProblemsShown) problems += "\n  and " + std::to_string(count - kProblemsShown) + " more";
  if (!problems.empty()) return Error::invalid_input("nothing was submitted, because:" + problems);
  if (manifests.empty()) return Error::invalid_input("there is no document in " + base::join(files, ", "));
  return manifests;
}

}  // namespace basalt::cli
