#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "workloads/common/object.h"
#include "workloads/common/writer.h"

namespace basalt::workloads {

using ObjectPtr = std::shared_ptr<const Object>;

// A ControllerRevision's content: the template as a patch that puts it back.
[[nodiscard]] json::Value revision_data(const Object& set);
// The template that a revision keeps.
[[nodiscard]] json::Value template_of_revision(const Object& revision);
[[nodiscard]] json::Value new_revision(const Object& set, const json::Value& data, std::int64_t number,
                                       std::int64_t collisions);
[[nodiscard]] std::int64_t number_of(const Object& revision);
// Oldest first.
void sort_revisions(std::vector<ObjectPtr>& revisions);
// Revisions that nobody uses beyond spec.revisionHistoryLimit, oldest first. `used` are names.
[[nodiscard]] std::vector<Writer::Target> revisions_beyond_history(const Object& set,
                                                                   const std::vector<ObjectPtr>& sorted,
                                                                   const std::vector<std::string>& used);

}  // namespace basalt::workloads
