#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/client/host.h"
#include "cli/commands.h"
#include "cli/go_flags.h"

namespace basalt::cli {

inline constexpr int kExitVcctlFailed = 255;  // what vcctl ends with when a command fails
inline constexpr int kExitVcctlUsage = 1;     // and when it does not understand the command line
inline constexpr int kExitInterrupted = 130;  // as shells say of a program that Ctrl-C ended

// How failures are told. Success looks the same in both.
enum class Manner : std::uint8_t {
  Basalt,  // on standard error, with a hint; exit codes of cli.h
  Vcctl,   // scripts rely on it: "Failed to view job: ..." on standard output, 255; "Error: unknown flag: --x", 1
};
// By the name that the program was called by.
[[nodiscard]] Manner manner_of(std::string_view program);

class CommandCall;

// One verb of a group, or a command of its own.
struct ClientCommand {
  std::string_view name;
  std::string_view summary;
  int (*run)(CommandCall& call);
};

// The verbs of one noun.
struct CommandGroup {
  std::string_view name;
  std::string_view summary;
  std::span<const ClientCommand> commands;
};

// One call of one command: parses its flags, connects, runs its body and tells how it ended.
class CommandCall {
 public:
  // `deed` is what failures name: "view job".
  CommandCall(const Invocation& invocation, Host& host, std::string deed);

  [[nodiscard]] GoFlags flags(std::string summary) const;
  // Adds the flags of the connection, parses, connects, runs. The result is the exit code.
  int run(GoFlags& flags, const std::function<Result<int>(Session& session)>& body);
  // The same; a cluster is started for this call if `local` is true once the flags are parsed, or if nothing says
  // which cluster is meant.
  // `check` looks at the flags before anything is started.
  int run_or_start(GoFlags& flags, const bool& local, const std::function<Done()>& check,
                   const std::function<Result<int>(Session& session)>& body);
  // The same without a connection.
  int run_locally(GoFlags& flags, const std::function<Result<int>()>& body);

  [[nodiscard]] Host& host() { return host_; }
  [[nodiscard]] std::ostream& out() { return invocation_.out; }
  [[nodiscard]] std::ostream& err() { return invocation_.err; }
  [[nodiscard]] Manner manner() const { return manner_; }
  [[nodiscard]] const std::string& program() const { return invocation_.program; }

 private:
  std::optional<int> parse(GoFlags& flags);
  static void add_connection_flags(GoFlags& flags, ConnectionFlags& connection);
  int run_connected(Result<Connection> connected, bool is_local,
                    const std::function<Result<int>(Session& session)>& body);
  int finish(const Result<int>& result);

  const Invocation& invocation_;
  Host& host_;
  const std::string deed_;
  const Manner manner_;
};

// `basalt job list ...`: picks the verb by the first argument. Without one, and for one that does not exist in vcctl's
// manner, prints the list of verbs.
int run_group(const Invocation& invocation, Host& host, const CommandGroup& group);
// A command without verbs. `deed` as above.
int run_single(const Invocation& invocation, Host& host, const ClientCommand& command);
// The same on the process itself: what the table in commands.cc points to.
int run_group(Invocation& invocation, const CommandGroup& group);
int run_single(Invocation& invocation, const ClientCommand& command);

// What to try next after an error, "" if nothing is known.
[[nodiscard]] std::string hint_for(const Error& error);

// Flags that many commands share.
void add_namespace_flag(GoFlags& flags, std::string& ns, std::string_view what);
// -N, --name; the first word counts as well: `basalt job view a`.
void add_name_flag(GoFlags& flags, std::string& name, std::string_view what);
void take_name_from_words(const GoFlags& flags, std::string& name);

}  // namespace basalt::cli
