#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "node/cgroup_linux.h"
#include "node/command_io.h"
#include "rt/runtime.h"

namespace basalt::node {

// Tells one started process from all others of its runner; never reused, never 0.
using ProcessId = std::uint64_t;
inline constexpr ProcessId kNoProcess = 0;

enum class OutputStream : std::uint8_t { Out, Err };

// A host path that the process sees under another one.
struct BindMount {
  std::string source;  // on the host; exists
  std::string target;  // absolute, as the process sees it
  bool read_only = false;
};

struct ProcessSpec {
  std::string name;  // for messages: "default/a-0/main"
  std::vector<std::string> argv;
  std::vector<std::pair<std::string, std::string>> env;  // complete: nothing is inherited
  std::string working_dir;                               // as the process sees it
  // Used only by a runner that isolates().
  std::string hostname;
  std::vector<BindMount> mounts;
  std::string scratch;  // an existing folder in which a private root may be put together

  ResourceLimits limits;                                 // kept by a runner that has control groups, and only by it
  std::optional<std::uint64_t> address_space_bytes_max;  // RLIMIT_AS

  std::shared_ptr<CommandIo> io;  // null: standard input is empty, output is read as it comes
};

struct StartedProcess {
  ProcessId id = kNoProcess;
  std::int64_t pid = 0;
};

// How a process ended: by itself with a code, or by a signal.
struct ProcessExit {
  int code = 0;    // 128 + signal if it was ended by one, as shells count
  int signal = 0;  // 0 if it ended by itself
  bool out_of_memory = false;
};

// Starts programs and tells when they end. Everything that touches processes goes through this, so that simulations use
// a fake. Thread-safe; start() and stop() may wait, signal() does not.
class ProcessRunner {
 public:
  // Called on the runner's thread, in order; may write a file but not wait for other threads.
  using OnOutput = std::function<void(OutputStream stream, std::string_view bytes)>;
  // Called once, after the last output. By then the whole process group is killed.
  using OnExit = std::function<void(const ProcessExit& exit)>;

  virtual ~ProcessRunner() = default;

  // The program runs in a process group of its own, or, if it has a terminal, in a session. An error with
  // Reason::InvalidInput will come again however often it is tried (no such program, not executable); any other may
  // pass (no memory).
  virtual Result<StartedProcess> start(const ProcessSpec& spec, OnOutput on_output, OnExit on_exit) = 0;
  // To the whole group; a process that has ended is fine.
  virtual void signal(ProcessId id, int signal) = 0;
  // Kills every process of this machine whose environment has this entry ("NAME=value"): what a crashed agent left
  // behind, or what left its group. Waits a while until they are gone. Returns how many they were.
  virtual std::size_t kill_marked(std::string_view marker) = 0;
  // From now on every process with this entry is killed when this program dies, even by SIGKILL.
  virtual Done guard(std::string_view marker) = 0;
  // Whether mounts and hostname are carried out; else the process sees the host's files.
  [[nodiscard]] virtual bool isolates() const = 0;
  // Kills what runs, waits until all exits have been told. Nothing starts afterwards. Before destruction; idempotent.
  virtual void stop() = 0;
};

enum class Isolation : std::uint8_t {
  Auto,    // private mount and UTS namespaces if this process may make them, by itself or in a user namespace
  Always,  // an error if it may not
  User,    // the same, in a user namespace also where it would not be needed
  Never,
};

// Real processes of this machine; one thread, which forks, reads the output and reaps. Only on the operating system's
// runtime. Children get SIGKILL if that thread ends; see guard() for their children.
[[nodiscard]] Result<std::unique_ptr<ProcessRunner>> make_linux_process_runner(rt::Runtime& runtime, const Logger& log,
                                                                               Isolation isolation);

}  // namespace basalt::node
