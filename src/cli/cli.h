#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace basalt::cli {

// Exit codes of every command. A job's own outcome has its own (see `basalt run`).
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;  // the command was understood and did not succeed
inline constexpr int kExitUsage = 2;   // the command line was not understood

// Runs one command line. arguments[0] is the name the program was called by: it answers to `vcctl`,
// `vc-controller-manager` and `vc-webhook-manager` as well (design: one program, several roles).
int run(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err);

}  // namespace basalt::cli
