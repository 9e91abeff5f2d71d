#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/object_key.h"
#include "cli/client/host.h"
#include "cli/pod/pod_failure.h"

namespace basalt::cli {

// The last lines that a pod in trouble wrote, oldest first; none if they cannot be read. Control characters are made
// visible and long lines are cut.
[[nodiscard]] std::vector<std::string> last_log_lines(Session& session, const std::string& ns,
                                                      const PodFailure& failure, std::size_t lines,
                                                      const rt::StopToken& stop);
// "basalt logs train -n ml --pod worker-0", as the user would type it.
[[nodiscard]] std::string logs_command_of(const api::ObjectKey& job, const PodFailure& failure);

// What goes wrong in the pods of a job that is followed. It remembers what it has seen, because a policy may delete the
// pods before the job's end. Reads at most a thousand pods at a time; pods that it may not read are left out.
class JobFailures {
 public:
  JobFailures(Session& session, api::ObjectKey job);

  // Sentences about pods in trouble that may yet recover, each once, and only a few in all.
  [[nodiscard]] std::vector<std::string> look(const std::string& uid, const rt::StopToken& stop);
  // For under the last line of a job that did not complete: the first failures, what they wrote (`with_logs`), and what
  // to try next. Empty if no pod has failed.
  [[nodiscard]] std::vector<std::string> report(const std::string& uid, bool with_logs, const rt::StopToken& stop);

 private:
  void read(const std::string& uid, std::string_view field_selector, const rt::StopToken& stop);

  Session& session_;
  const api::ObjectKey job_;
  std::map<std::string, PodFailure> seen_;  // by UID of the pod: the newest of each
  std::set<std::string> told_;
};

}  // namespace basalt::cli
