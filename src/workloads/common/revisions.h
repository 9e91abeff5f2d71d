#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "workloads/common/object.h"
#include "workloads/common/writer.h"

namespace basalt::workloads {

// A ControllerRevision's content: the template as a patch that puts it back.
[[nodiscard]] json::Value revision_data(const Object& set);
// The template that a revision keeps.
[[nodiscard]] json::Value template_of_revision(const Object& revision);
// Whose revisions they are.
struct RevisionOwner {
  const Object& set;
  OwnerKind kind;
  kube::Resource resource;
  std::string_view hash_label;  // of a revision
};
[[nodiscard]] json::Value new_revision(const RevisionOwner& owner, const json::Value& data, std::int64_t number,
                                       std::int64_t collisions);
// The hash that is the last part of its name.
[[nodiscard]] std::string_view hash_of(const RevisionOwner& owner, std::string_view revision);
// The revision of the present template: one that is there, made the newest again, or a new one. Returns its name.
// `sorted` are those of the set. If the set is being deleted, none is made: "" if there is none.
[[nodiscard]] Result<std::string> ensure_revision(const RevisionOwner& owner, const std::vector<ObjectPtr>& sorted,
                                                  Writer& writer, const rt::StopToken& stop);
[[nodiscard]] std::int64_t number_of(const Object& revision);
// Oldest first.
void sort_revisions(std::vector<ObjectPtr>& revisions);
// Revisions that nobody uses beyond spec.revisionHistoryLimit, oldest first. `used` are names.
[[nodiscard]] std::vector<Writer::Target> revisions_beyond_history(const Object& set,
                                                                   const std::vector<ObjectPtr>& sorted,
                                                                   const std::vector<std::string>& used);

}  // namespace basalt::workloads
