#include "workloads/statefulset/revisions.h"

#include <algorithm>
#include <tuple>

#include "workloads/common/pod_template.h"

namespace basalt::workloads {

json::Value revision_data(const Object& set) {
  json::Value pod_template = object_at(set.json, {"spec", "template"});
  pod_template.as_object().set("$patch", "replace");
  json::Value data;
  data.ensure_path({"spec", "template"}) = std::move(pod_template);
  return data;
}

json::Value template_of_revision(const Object& revision) {
  json::Value pod_template = object_at(revision.json, {"data", "spec", "template"});
  pod_template.as_object().erase("$patch");
  return pod_template;
}

json::Value new_revision(const Object& set, const json::Value& data, std::int64_t number, std::int64_t collisions) {
  const std::string hash = template_hash(data, collisions);
  json::Value labels = object_at(set.json, {"spec", "template", "metadata", "labels"});
  labels.as_object().set("controller.kubernetes.io/hash", hash);
  json::Value revision = json::Object{{"apiVersion", "apps/v1"}, {"kind", "ControllerRevision"}};
  revision.ensure_path({"metadata", "name"}) = set.metadata.name + "-" + hash;
  revision.ensure_path({"metadata", "namespace"}) = set.metadata.namespace_;
  revision.ensure_path({"metadata", "labels"}) = std::move(labels);
  revision.ensure_path({"metadata", "ownerReferences"}) = json::Array{controller_reference(kStatefulSetKind, set)};
  // kubectl's history shows why a change was made.
  if (const auto cause = annotation_of(set.json, "kubernetes.io/change-cause"); !cause.empty())
    revision.ensure_path({"metadata", "annotations", "kubernetes.io/change-cause"}) = cause;
  revision.as_object().set("data", data);
  revision.as_object().set("revision", number);
  return revision;
}

std::int64_t number_of(const Object& revision) { return int_at(revision.json, {"revision"}); }

void sort_revisions(std::vector<ObjectPtr>& revisions) {
  std::sort(revisions.begin(), revisions.end(), [](const ObjectPtr& a, const ObjectPtr& b) {
    return std::tuple(number_of(*a), a->metadata.creation, std::string_view(a->metadata.name)) <
           std::tuple(number_of(*b), b->metadata.creation, std::string_view(b->metadata.name));
  });
}

std::vector<Writer::Target> revisions_beyond_history(const Object& set, const std::vector<ObjectPtr>& sorted,
                                                     const std::vector<std::string>& used) {
  std::vector<Writer::Target> unused;
  for (const ObjectPtr& revision : sorted) {
    if (std::find(used.begin(), used.end(), revision->metadata.name) == used.end())
      unused.push_back({revision->metadata.name, revision->metadata.uid});
  }
  const auto limit =
      static_cast<std::size_t>(std::max<std::int64_t>(0, int_at(set.json, {"spec", "revisionHistoryLimit"}, 10)));
  if (unused.size() <= limit) return {};
  unused.resize(unused.size() - limit);
  return unused;
}

}  // namespace basalt::workloads
