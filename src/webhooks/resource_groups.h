#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "json/value.h"
#include "rt/mutex.h"

namespace basalt::webhooks {

// One entry of the resource-group file (`--admission-conf`): which pods, and what they get.
struct ResourceGroup {
  std::string name;
  enum class Match { Namespace, Annotation, Either, Never } match = Match::Never;
  std::vector<std::string> namespaces;
  std::map<std::string, std::string> annotations;
  std::string scheduler_name;
  json::Object labels;      // node selector
  json::Array tolerations;  // as a pod has them
  json::Value affinity;     // null if there is none (or it was no JSON)
};
using ResourceGroupList = std::vector<ResourceGroup>;

// YAML text of the file. At most 1,000 groups.
[[nodiscard]] Result<ResourceGroupList> parse_resource_groups(std::string_view yaml);

// The groups in force; replaced as a whole when the file changes. Thread-safe.
class ResourceGroups {
 public:
  using Snapshot = std::shared_ptr<const ResourceGroupList>;
  [[nodiscard]] Snapshot current() const {
    const rt::MutexLock lock(mutex_);
    return groups_;
  }
  // Keeps the old ones if the text is broken.
  Done replace(std::string_view yaml);

 private:
  mutable rt::Mutex mutex_;
  Snapshot groups_ BASALT_GUARDED_BY(mutex_) = std::make_shared<const ResourceGroupList>();
};

// The first group that wants a pod of this namespace; null if none does.
[[nodiscard]] const ResourceGroup* find_resource_group(const ResourceGroupList& groups, const json::Value& pod,
                                                       std::string_view ns);

}  // namespace basalt::webhooks
