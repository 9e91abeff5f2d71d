#include "controllers/job/plugins/pod_edit.h"

#include <algorithm>

#include "api/gen/names.h"
#include "api/names.h"
#include "api/owner.h"
#include "base/strings.h"
#include "json/reader.h"

namespace basalt::controllers::job {

namespace {

// Reads spec.hostname and spec.subdomain and skips the rest. A template that is malformed has neither; the pod builder
// complains about it.
void read_names(std::string_view pod_template, std::string& hostname, std::string& subdomain) {
  json::Reader reader(pod_template);
  if (reader.consume_null() || !reader.begin_object()) return;
  std::string_view key;
  while (reader.next_member(key)) {
    if (key != "spec" || reader.peek() != json::Kind::Object) {
      reader.skip();
      continue;
    }
    if (!reader.begin_object()) return;
    while (reader.next_member(key)) {
      if (key == "hostname" && reader.peek() == json::Kind::String) {
        reader.read_string(hostname);
      } else if (key == "subdomain" && reader.peek() == json::Kind::String) {
        reader.read_string(subdomain);
      } else {
        reader.skip();
      }
    }
  }
}

}  // namespace

TaskHosts::TaskHosts(const api::batch::Job& job, const api::batch::TaskSpec& task)
    : replicas_(std::max(task.replicas, 0)), pod_prefix_(job.metadata.name + "-" + task.name + "-") {
  if (!task.template_.empty()) read_names(task.template_.text(), hostname_, subdomain_);
  if (subdomain_.empty()) subdomain_ = job.metadata.name;
}

std::string TaskHosts::host(const PodIndex& index) const {
  return hostname_.empty() ? pod_prefix_ + index.text() : hostname_;
}

std::string TaskHosts::domain(const PodIndex& index) const { return host(index).append(1, '.').append(subdomain_); }

std::int32_t TaskHosts::distinct() const { return hostname_.empty() ? replicas_ : std::min(replicas_, 1); }

std::string joined_domains(const TaskHosts& hosts, std::string_view separator) {
  std::string text;
  for (std::int32_t i = 0; i < hosts.distinct(); ++i) {
    if (i > 0) text += separator;
    text += hosts.domain(i);
  }
  return text;
}

const api::batch::TaskSpec* find_task(const api::batch::Job& job, std::string_view name) {
  for (const api::batch::TaskSpec& task : job.spec.tasks)
    if (task.name == name) return &task;
  return nullptr;
}

std::string fitting_volume_name(std::string_view front, std::string_view back) {
  const std::size_t room = api::kDnsLabelMax - back.size();
  std::string name = base::replace_all(front.substr(0, room), ".", "-");
  return name.append(back);
}

json::Value owner_reference(const api::batch::Job& job) {
  const api::meta::OwnerReference reference = api::controller_reference(api::batch::Job::kind_info(), job.metadata);
  return json::Object{{"apiVersion", reference.api_version},
                      {"kind", reference.kind},
                      {"name", reference.name},
                      {"uid", reference.uid},
                      {"controller", true},
                      {"blockOwnerDeletion", true}};
}

json::Object plugin_object(const api::batch::Job& job, std::string_view api_version, std::string_view kind,
                           std::string_view name) {
  return json::Object{{"apiVersion", api_version},
                      {"kind", kind},
                      {"metadata", json::Object{{"name", name},
                                                {"namespace", job.metadata.namespace_},
                                                {"ownerReferences", json::Array{owner_reference(job)}}}}};
}

json::Object pod_labels_of(const api::batch::Job& job) {
  return json::Object{{api::keys::kJobName, job.metadata.name}, {api::keys::kJobNamespace, job.metadata.namespace_}};
}

json::Array& array_at(json::Value& object, std::string_view key) {
  json::Value& value = object.ensure_path({key});
  if (!value.is_array()) value = json::Array();
  return value.as_array();
}

void append_env(json::Value& container, std::string_view name, std::string_view value) {
  array_at(container, "env").push_back(json::Object{{"name", name}, {"value", value}});
}

void declare_port(json::Value& container, std::string_view name, std::int64_t number) {
  json::Array& ports = array_at(container, "ports");
  bool name_is_taken = false;
  for (const json::Value& port : ports) {
    const json::Value* const declared = port.find("containerPort");
    if (declared != nullptr && declared->is_int() && declared->as_int() == number) return;
    if (port.string_at({"name"}) == name) name_is_taken = true;
  }
  json::Object port{{"containerPort", number}};
  if (!name_is_taken) port.set("name", name);
  ports.push_back(std::move(port));
}

void append_volume(json::Value& pod, json::Object volume) {
  array_at(pod.ensure_path({"spec"}), "volumes").push_back(std::move(volume));
}

}  // namespace basalt::controllers::job
