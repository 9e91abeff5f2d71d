#include "node/process_host.h"

#include <sys/stat.h>

#include <array>
#include <cstdio>
#include <filesystem>

#include "node/pod_volumes.h"

namespace basalt::node {
namespace {

std::string random_text(rt::Runtime& runtime) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%016llx%016llx", static_cast<unsigned long long>(runtime.random()),
                static_cast<unsigned long long>(runtime.random()));
  return text.data();
}

}  // namespace

Result<std::unique_ptr<ProcessHost>> ProcessHost::open(rt::Runtime& runtime, kube::Client& client, const Logger& log,
                                                       ProcessHostOptions options,
                                                       std::unique_ptr<ProcessRunner> runner,
                                                       std::unique_ptr<Prober> prober) {
  std::error_code error;
  const std::string root = std::filesystem::absolute(options.root, error).lexically_normal().native();
  std::filesystem::create_directories(root, error);
  if (error) return Error::invalid_input("cannot make the folder of the nodes, " + root + ": " + error.message());
  ::chmod(root.c_str(), 0700);
  BASALT_TRY(auto addresses, AddressPool::make(options.address_range));
  std::string mark = read_file(root + "/id").value_or("");
  if (mark.empty()) {
    mark = random_text(runtime);
    BASALT_TRY_DONE(write_file(root + "/id", mark, 0600));
  }
  if (!runner) {
    BASALT_TRY(runner, make_linux_process_runner(runtime, log, options.isolation));
  }
  if (!prober) prober = make_network_prober(runtime);
  return std::unique_ptr<ProcessHost>(new ProcessHost(runtime, client, log, root, std::move(mark), std::move(runner),
                                                      std::move(prober), std::move(addresses)));
}

ProcessHost::ProcessHost(rt::Runtime& runtime, kube::Client& client, const Logger& log, std::string root,
                         std::string mark, std::unique_ptr<ProcessRunner> runner, std::unique_ptr<Prober> prober,
                         std::unique_ptr<AddressPool> addresses)
    : log_(log),
      root_(std::move(root)),
      mark_(std::move(mark)),
      program_mark_(random_text(runtime)),
      runner_(std::move(runner)),
      prober_(std::move(prober)),
      addresses_(std::move(addresses)),
      names_(runtime, client, log, root_ + "/hosts") {}

ProcessHost::~ProcessHost() { stop(); }

void ProcessHost::start() {
  started_ = true;
  const std::size_t killed = runner_->kill_marked(std::string(kMarkVariable) + "=" + mark_);
  if (killed > 0) log_.info("killed processes that an earlier run left behind", {{"processes", killed}});
  const Done guarded = runner_->guard(std::string(kProgramMarkVariable) + "=" + program_mark_);
  if (!guarded.ok())
    log_.warn("processes of pods may outlive this program if it is killed", {{"error", guarded.error()}});
  names_.start();
}

void ProcessHost::stop() {
  if (stopped_) return;
  stopped_ = true;
  names_.stop();
  prober_->stop();
  runner_->stop();
  // What left its group with setsid is still marked.
  if (started_) runner_->kill_marked(std::string(kMarkVariable) + "=" + mark_);
}

}  // namespace basalt::node
