#include "cli/run/run_local.h"

namespace basalt::cli {

Result<std::unique_ptr<RunLocal>> start_run_local(rt::Runtime&, std::ostream&) {
  return Error::make(Reason::MethodNotAllowed,
                     "this build cannot start a cluster for one command; start one with 'basalt up' and try again");
}

}  // namespace basalt::cli
