#pragma once

#include <iosfwd>
#include <memory>
#include <string>

#include "base/result.h"
#include "rt/runtime.h"

namespace basalt::cli {

// A whole cluster in this process for the time of one command: API server, controllers, scheduler, nodes. The
// destructor stops it, ends its pods' processes and removes what it kept.
class RunLocal {
 public:
  virtual ~RunLocal() = default;
  [[nodiscard]] virtual std::string kubeconfig_path() const = 0;
};

// Starts one and returns when its API answers. What is worth telling goes to `err`.
[[nodiscard]] Result<std::unique_ptr<RunLocal>> start_run_local(rt::Runtime& runtime, std::ostream& err);

}  // namespace basalt::cli
