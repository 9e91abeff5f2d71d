#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/client/host.h"
#include "cli/commands.h"

namespace basalt::cli {

// `basalt completion bash|zsh|fish`: a script for the shell. It asks `basalt __complete -- WORD...` on every tab.
int run_completion(Invocation& invocation);
int run_complete(Invocation& invocation);

// What may stand in place of the last word, the one that is being typed; the words before it are complete. Names of
// objects come from the cluster, within a second or not at all. ":files" alone: names of files.
using HostMaker = std::function<Host&()>;  // called when the cluster is to be asked
[[nodiscard]] std::vector<std::string> completions(const HostMaker& host, const std::string& program,
                                                   const std::vector<std::string>& words);

}  // namespace basalt::cli
