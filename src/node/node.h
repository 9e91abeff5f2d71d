#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "node/container_log.h"
#include "node/process_runner.h"
#include "rt/stop.h"

namespace basalt::node {

// Something that takes the pods bound to one or many Node objects and carries them out.
class Node {
 public:
  virtual ~Node() = default;
  // Registers the Node objects and begins. Failing calls are repeated for ever, in the background.
  virtual void start() = 0;
  // Ends what runs and all threads. Before destruction; idempotent.
  virtual void stop() = 0;
  [[nodiscard]] virtual bool has_pod(const std::string& ns, const std::string& name) = 0;
  struct Command {
    std::string ns;
    std::string pod;
    std::string container;  // "": the first
    std::vector<std::string> argv;
    std::shared_ptr<CommandIo> io;  // null: no input, no terminal, and output is read as it comes
  };
  // Runs a command beside a container that runs: its environment, working folder and mounts. Waits
  // until it has ended, or kills it when `stop` comes, the container ends or the node stops. Output comes on another
  // thread, which must not wait. Errors are those that kubectl shows.
  virtual Result<ProcessExit> run_command(const Command& command, ProcessRunner::OnOutput on_output,
                                          const rt::StopToken& stop) = 0;
  // Sends the log of a container to the sink, in this thread; first an empty piece, as soon as it is known that there
  // is a log. `container` may be empty if the pod has only one. Errors are those that kubectl shows: NotFound,
  // BadRequest with a sentence.
  virtual Done read_log(const std::string& ns, const std::string& name, const std::string& container,
                        const LogOptions& options, const LogSink& sink, const rt::StopToken& stop) = 0;
};

}  // namespace basalt::node
