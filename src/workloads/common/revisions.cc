#include "workloads/common/revisions.h"

#include <algorithm>
#include <tuple>

#include "workloads/common/caches.h"
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

json::Value new_revision(const RevisionOwner& owner, const json::Value& data, std::int64_t number,
                         std::int64_t collisions) {
  const Object& set = owner.set;
  const std::string hash = template_hash(data, collisions);
  json::Value labels = object_at(set.json, {"spec", "template", "metadata", "labels"});
  labels.as_object().set(owner.hash_label, hash);
  json::Value revision = json::Object{{"apiVersion", "apps/v1"}, {"kind", "ControllerRevision"}};
  revision.ensure_path({"metadata", "name"}) = set.metadata.name + "-" + hash;
  revision.ensure_path({"metadata", "namespace"}) = set.metadata.namespace_;
  revision.ensure_path({"metadata", "labels"}) = std::move(labels);
  revision.ensure_path({"metadata", "ownerReferences"}) = json::Array{controller_reference(owner.kind, set)};
  // kubectl's history shows why a change was made.
  if (const auto cause = annotation_of(set.json, "kubernetes.io/change-cause"); !cause.empty())
    revision.ensure_path({"metadata", "annotations", "kubernetes.io/change-cause"}) = cause;
  revision.as_object().set("data", data);
  revision.as_object().set("revision", number);
  return revision;
}

std::string_view hash_of(const RevisionOwner& owner, std::string_view revision) {
  return revision.substr(std::min(owner.set.metadata.name.size() + 1, revision.size()));
}

Result<std::string> ensure_revision(const RevisionOwner& owner, const std::vector<ObjectPtr>& sorted, Writer& writer,
                                    const rt::StopToken& stop) {
  const Object& set = owner.set;
  const json::Value data = revision_data(set);
  const std::int64_t newest = sorted.empty() ? 0 : number_of(*sorted.back());
  const auto equal = std::find_if(sorted.rbegin(), sorted.rend(), [&](const ObjectPtr& revision) {
    return object_at(revision->json, {"data"}) == data;
  });
  if (equal != sorted.rend()) {
    const Object& revision = **equal;
    if (number_of(revision) != newest && !set.metadata.is_being_deleted) {
      Writer::Patch patch{.target = {revision.metadata.name, revision.metadata.uid}, .body = {}};
      patch.body.ensure_path({"revision"}) = newest + 1;
      BASALT_TRY_DONE(writer.patch(set.key(), resources::kRevisions, patch, false, stop));
    }
    return revision.metadata.name;
  }
  if (set.metadata.is_being_deleted) return std::string();
  const std::int64_t collisions = int_at(set.json, {"status", "collisionCount"});
  const json::Value made = new_revision(owner, data, newest + 1, collisions);
  const std::string name(made.string_at({"metadata", "name"}));
  const auto created = writer.create(set.key(), resources::kRevisions, made, stop);
  if (created.ok()) return name;
  if (!created.error().is(Reason::AlreadyExists)) return created.error().with_context("revision " + name);
  BASALT_TRY(const auto read, writer.get(resources::kRevisions, {set.metadata.namespace_, name}, stop));
  BASALT_TRY(const Object existing, object_of(read));
  if (existing.metadata.owner_uid == set.metadata.uid && object_at(existing.json, {"data"}) == data) {
    writer.note_seen(set.key(), resources::kRevisions, existing);
    return name;
  }
  // Somebody else has the name: the next pass tries another.
  json::Value status = object_at(set.json, {"status"});
  status.ensure_path({"collisionCount"}) = collisions + 1;
  BASALT_TRY_DONE(writer.write_status(set.key(), owner.resource, set, status, stop));
  return Error::make(Reason::Conflict, "the name of revision " + name + " is taken");
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
