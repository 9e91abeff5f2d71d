#pragma once

#include <string>

#include "base/result.h"
#include "cli/client/host.h"

namespace basalt::cli {

struct HyperJobList {
  std::string ns;
  bool all_namespaces = false;
  std::string selector;
  std::string output;
};
[[nodiscard]] Result<int> list_hyper_jobs(Session& session, const HyperJobList& list);

struct HyperJobName {
  std::string ns;
  std::string name;
  std::string output;
};
// Its jobs with their clusters and pods, its conditions and events.
[[nodiscard]] Result<int> view_hyper_job(Session& session, const HyperJobName& which);
// Why it is where it is: for each job that is not over, what it waits for and what helps.
[[nodiscard]] Result<int> explain_hyper_job(Session& session, const HyperJobName& which);
[[nodiscard]] Result<int> delete_hyper_job(Session& session, const HyperJobName& which);

}  // namespace basalt::cli
