#include "controllers/job/pod_builder.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "api/gen/names.h"
#include "base/check.h"
#include "base/encoding.h"
#include "base/hash.h"
#include "base/strings.h"
#include "controllers/job/plugins/pod_edit.h"
#include "controllers/job/pod_group_builder.h"
#include "json/value.h"

namespace basalt::controllers::job {

namespace {

namespace keys = api::keys;

// What a number needs at most.
constexpr std::size_t kNumberBytes = 20;
constexpr std::size_t kVolumeLetters = 12;

struct Source {
  const api::batch::Job& job;
  const api::batch::TaskSpec& task;
  std::size_t task_number;
  const PluginSet& plugins;
  const PodBuildOptions& options;

  [[nodiscard]] std::string where() const {
    return "job " + job.metadata.namespace_ + "/" + job.metadata.name + ", task " + base::quote(task.name);
  }
};

json::Object& object_at(json::Value& object, std::string_view key) {
  json::Value& value = object.ensure_path({key});
  if (!value.is_object()) value = json::Object();
  return value.as_object();
}

void copy_key(const api::StringMap& from, std::string_view key, json::Object& to) {
  if (const auto value = from.find(key)) to.set(key, *value);
}

void add_labels(const Source& source, const PodIndex& index, json::Object& labels) {
  const api::batch::Job& job = source.job;
  labels.set(keys::kTaskSpec, source.task.name.empty() ? "default" : source.task.name);
  labels.set(keys::kTaskIndex, index.text());
  labels.set(keys::kJobName, job.metadata.name);
  labels.set(keys::kJobNamespace, job.metadata.namespace_);
  labels.set(keys::kQueueName, job.spec.queue);
  if (source.task.partition_policy && source.task.partition_policy->partition_size > 0)
    labels.set(keys::kPartitionId, index.quotient_text(source.task.partition_policy->partition_size));
  copy_key(job.metadata.labels, keys::kPreemptable, labels);
  copy_key(job.metadata.labels, keys::kCooldownTime, labels);
  if (source.options.forwarding) labels.set(keys::kJobForwarding, "true");
}

void add_annotations(const Source& source, const PodIndex& index, json::Object& annotations) {
  const api::batch::Job& job = source.job;
  annotations.set(keys::kTaskSpec, source.task.name.empty() ? "default" : source.task.name);
  annotations.set(keys::kTaskIndex, index.text());
  annotations.set(keys::kJobName, job.metadata.name);
  annotations.set(keys::kQueueName, job.spec.queue);
  annotations.set(keys::kJobVersion, std::to_string(job.status.version));
  annotations.set(keys::kJobRetryCount, std::to_string(job.status.retry_count));
  annotations.set(keys::kTemplateUid, job.metadata.name + "-" + source.task.name);
  annotations.set(keys::kGroupName, pod_group_name(job));
  if (!source.task.topology_policy.empty()) annotations.set(keys::kNumaTopologyPolicy, source.task.topology_policy);
  for (const std::string_view key : {keys::kPreemptable, keys::kCooldownTime, keys::kRevocableZone})
    copy_key(job.metadata.annotations, key, annotations);
  const bool has_min = job.metadata.annotations.contains(keys::kJdbMinAvailable);
  copy_key(job.metadata.annotations, has_min ? keys::kJdbMinAvailable : keys::kJdbMaxUnavailable, annotations);
  if (source.options.forwarding) annotations.set(keys::kJobForwarding, "true");
}

void set_if_empty(json::Value& spec, std::string_view key, const std::string& value) {
  if (!value.empty() && spec.string_at({key}).empty()) spec.ensure_path({key}) = value;
}

Done add_volumes(const Source& source, json::Value& pod) {
  const std::vector<std::string>& empty_dirs = source.options.empty_dir_claims;
  std::vector<std::pair<std::string, std::string>> mounts;  // name and path
  for (std::size_t i = 0; i < source.job.spec.volumes.size(); ++i) {
    const api::batch::VolumeSpec& volume = source.job.spec.volumes[i];
    const std::string& claim = volume.volume_claim_name;
    if (claim.empty() && !volume.volume_claim.empty()) {
      return Error::make(Reason::InternalError,
                         source.where() + ": spec.volumes[" + std::to_string(i) +
                             "] has a volumeClaim and no volumeClaimName yet; the pod is built once it is recorded");
    }
    const std::string name = volume_name(source.job, volume);
    const bool is_known =
        std::any_of(mounts.begin(), mounts.end(), [&](const auto& mount) { return mount.first == name; });
    if (!is_known) {
      const bool is_scratch =
          claim.empty() || std::find(empty_dirs.begin(), empty_dirs.end(), claim) != empty_dirs.end();
      json::Object entry{{"name", name}};
      if (is_scratch) {
        entry.set("emptyDir", json::Object());
      } else {
        entry.set("persistentVolumeClaim", json::Object{{"claimName", claim}});
      }
      append_volume(pod, std::move(entry));
    }
    // The same claim at the same path twice is one mount.
    std::pair<std::string, std::string> mount(name, volume.mount_path);
    if (std::find(mounts.begin(), mounts.end(), mount) == mounts.end()) mounts.push_back(std::move(mount));
  }
  if (mounts.empty()) return Ok();
  for_each_container(pod, Containers::Main, [&](json::Value& container) {
    json::Array& list = array_at(container, "volumeMounts");
    for (const auto& [name, path] : mounts) list.push_back(json::Object{{"name", name}, {"mountPath", path}});
  });
  return Ok();
}

Result<json::Value> pod_of_template(const Source& source) {
  json::Value pod = json::Object{{"apiVersion", "v1"}, {"kind", "Pod"}};
  json::Value& metadata = pod.ensure_path({"metadata"});
  metadata = json::Object();
  if (source.task.template_.empty()) return pod;
  // The API server has accepted the template; of a repeated key it took the last, and so do we.
  auto parsed = json::Value::parse(source.task.template_.text(), {.duplicate_keys_are_errors = false});
  if (!parsed.ok()) return parsed.error().with_context(source.where() + ": template");
  if (!parsed->is_object() && !parsed->is_null()) {
    return Error::make(Reason::Invalid,
                       source.where() + ": template is " + std::string(parsed->type_name()) + ", expected an object");
  }
  for (const std::string_view key : {"labels", "annotations"}) {
    json::Value* const found = parsed->find_path({"metadata", key});
    if (found != nullptr && found->is_object()) metadata.ensure_path({key}) = std::move(*found);
  }
  json::Value* const spec = parsed->find("spec");
  if (spec != nullptr && spec->is_object()) pod.ensure_path({"spec"}) = std::move(*spec);
  return pod;
}

Result<json::Value> build_pod(const Source& source, json::Value pod, const PodIndex& index) {
  const api::batch::Job& job = source.job;
  json::Value& metadata = pod.ensure_path({"metadata"});
  metadata.ensure_path({"name"}) = job.metadata.name + "-" + source.task.name + "-" + index.text();
  metadata.ensure_path({"namespace"}) = job.metadata.namespace_;
  metadata.ensure_path({"ownerReferences"}) = json::Array{owner_reference(job)};
  add_labels(source, index, object_at(metadata, "labels"));
  add_annotations(source, index, object_at(metadata, "annotations"));
  json::Value& spec = pod.ensure_path({"spec"});
  set_if_empty(spec, "schedulerName", job.spec.scheduler_name);
  set_if_empty(spec, "priorityClassName", job.spec.priority_class_name);
  BASALT_TRY_DONE(add_volumes(source, pod));
  for (const auto& plugin : source.plugins.all()) {
    const Done done = plugin->edit_pod(job, source.task_number, index, pod);
    if (!done.ok()) return done.error().with_context(source.where());
  }
  return pod;
}

void append_number(std::string& out, std::int64_t number) {
  std::array<char, kNumberBytes + 1> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  out.append(digits.data(), end);
}

}  // namespace

std::string pod_name(std::string_view job, std::string_view task, std::int32_t index) {
  std::string name;
  name.reserve(job.size() + task.size() + kNumberBytes);
  name.append(job).append("-").append(task).append("-");
  append_number(name, index);
  return name;
}

std::string volume_name(const api::batch::Job& job, const api::batch::VolumeSpec& volume) {
  std::string identity = job.metadata.uid;
  identity.push_back('\0');
  identity.append(volume.volume_claim_name);
  if (volume.volume_claim_name.empty()) identity.append(1, '\0').append(volume.mount_path);
  const std::string letters = base::base32_encode(base::as_bytes(base::sha256(identity))).substr(0, kVolumeLetters);
  return fitting_volume_name(job.metadata.name, "-" + letters);
}

Result<PodBuilder> PodBuilder::make(const api::batch::Job& job, std::size_t task, const PluginSet& plugins,
                                    PodBuildOptions options) {
  BASALT_CHECK(task < job.spec.tasks.size());
  const Source source{job, job.spec.tasks[task], task, plugins, options};
  BASALT_TRY(const json::Value start, pod_of_template(source));
  BASALT_TRY(const json::Value first, build_pod(source, start, PodIndex(0)));
  // A mark that nothing of the pod contains; then it can only stand where an index was written.
  const std::string first_text = first.to_text();
  std::string mark;
  for (int attempt = 0; mark.empty() || first_text.find(mark) != std::string::npos; ++attempt)
    mark = "@index" + std::to_string(attempt) + ":";
  BASALT_TRY(const json::Value marked, build_pod(source, start, PodIndex::of_mark(mark)));
  const std::string text = marked.to_text();

  PodBuilder builder;
  builder.text_.reserve(text.size());
  std::size_t from = 0;
  for (;;) {
    const std::size_t at = text.find(mark, from);
    builder.text_.append(text, from, at == std::string::npos ? at : at - from);
    if (at == std::string::npos) break;
    const std::size_t operation = at + mark.size();
    const std::size_t end = text.find(PodIndex::kEnd, operation);
    BASALT_CHECK(end != std::string::npos);
    const auto operand = base::parse_int64(std::string_view(text).substr(operation + 1, end - operation - 1));
    BASALT_CHECK(operand.has_value());
    builder.gaps_.push_back({builder.text_.size(), text[operation] == PodIndex::kQuotient, *operand});
    from = end + 1;
  }
  BASALT_DCHECK(builder.build(0).value() == first_text);
  return builder;
}

Result<std::string> PodBuilder::build(std::int32_t index) const {
  if (index < 0) return Error::invalid_input("pod index " + std::to_string(index) + " is below zero");
  std::string text;
  text.reserve(text_.size() + gaps_.size() * kNumberBytes);
  std::size_t from = 0;
  for (const Gap& gap : gaps_) {
    text.append(text_, from, gap.position - from);
    append_number(text, gap.is_quotient ? index / gap.operand : index + gap.operand);
    from = gap.position;
  }
  text.append(text_, from);
  return text;
}

}  // namespace basalt::controllers::job
