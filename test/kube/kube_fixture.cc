#include "test/kube/kube_fixture.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <system_error>
#include <thread>
#include <utility>

namespace basalt::test {
namespace {

using Clock = std::chrono::steady_clock;

// The keeper answers `restart` after an orderly end (at most 15 s) and a start; this much is added to the latter.
constexpr std::chrono::seconds kAnswerSlack{60};
// The keeper kills two processes and removes a folder.
constexpr std::chrono::seconds kStopTimeout{30};
// More than any list that a test prints; beyond it something is wrong.
constexpr std::size_t kOutputBytesMax = std::size_t{256} << 20;

std::string errno_text(std::string_view what) { return std::string(what) + ": " + std::strerror(errno); }

std::filesystem::path kube_dir() {
  const char* from_environment = std::getenv("BASALT_KUBE_DIR");
  return from_environment != nullptr && *from_environment != '\0' ? from_environment : BASALT_KUBE_DIR_DEFAULT;
}

std::filesystem::path start_script() { return std::filesystem::path(BASALT_SOURCE_DIR) / "tools/kube/start"; }

std::string why_unavailable() {
  for (const char* name : {"etcd", "kube-apiserver", "kubectl"}) {
    const auto path = kube_dir() / name;
    if (::access(path.c_str(), X_OK) != 0) return path.string() + " is missing; run tools/kube/build";
  }
  if (::access(start_script().c_str(), X_OK) != 0) return start_script().string() + " is missing";
  return {};
}

std::string first_line_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

void close_fd(int& fd) {
  if (fd >= 0) ::close(fd);
  fd = -1;
}

// How long poll() may wait until then.
int ms_until(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
}

struct Child {
  pid_t pid = -1;
  int in = -1;   // a socket, so that writing to a program that has ended is an error and not SIGPIPE
  int out = -1;  // pipes
  int err = -1;  // -1 if the child shares our standard error
  std::string error;
};

struct SpawnRequest {
  std::vector<std::string> argv;
  std::vector<std::string> environment;
  bool captures_err = true;
};

// posix_spawn, not fork: the test may have threads. Every descriptor here is closed on exec, so no other child that the
// test starts can keep one open and thereby the keeper alive.
Child spawn(SpawnRequest request) {
  Child child;
  std::array<int, 2> in{-1, -1}, out{-1, -1}, err{-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in.data()) != 0 || ::pipe2(out.data(), O_CLOEXEC) != 0 ||
      (request.captures_err && ::pipe2(err.data(), O_CLOEXEC) != 0)) {
    child.error = errno_text("cannot make pipes");
  } else {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[1], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    if (request.captures_err) posix_spawn_file_actions_adddup2(&actions, err[1], STDERR_FILENO);

    // A group of its own: an interrupt typed at a terminal, or a debugger, is the test's affair. Signals as in a fresh
    // shell.
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);

    std::vector<char*> argv, environment;
    for (std::string& text : request.argv) argv.push_back(text.data());
    for (std::string& text : request.environment) environment.push_back(text.data());
    argv.push_back(nullptr);
    environment.push_back(nullptr);
    const int failed = ::posix_spawn(&child.pid, argv[0], &actions, &attributes, argv.data(), environment.data());
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    if (failed != 0) {
      child.pid = -1;
      child.error = "cannot start " + request.argv[0] + ": " + std::strerror(failed);
    }
  }
  close_fd(in[1]);
  close_fd(out[1]);
  close_fd(err[1]);
  if (child.pid < 0) {
    close_fd(in[0]);
    close_fd(out[0]);
    close_fd(err[0]);
    return child;
  }
  child.in = in[0];
  child.out = out[0];
  child.err = err[0];
  return child;
}

// Our environment, with some variables replaced.
std::vector<std::string> environment_with(const std::vector<std::pair<std::string, std::string>>& replaced) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('='));
    const bool is_replaced =
        std::any_of(replaced.begin(), replaced.end(), [&](const auto& pair) { return pair.first == name; });
    if (!is_replaced) result.emplace_back(text);
  }
  for (const auto& [name, value] : replaced) result.push_back(name + "=" + value);
  return result;
}

// Appends what can be read now; false when the other end has closed or the limit is passed.
bool drain(int fd, std::string& text) {
  std::array<char, 65536> buffer;
  const ssize_t count = ::read(fd, buffer.data(), buffer.size());
  if (count < 0) return errno == EINTR || errno == EAGAIN;
  text.append(buffer.data(), static_cast<std::size_t>(count));
  return count > 0 && text.size() <= kOutputBytesMax;
}

// Sends what can be sent now; false when nothing is left to send or nobody reads it.
bool feed(int fd, std::string_view& input) {
  const ssize_t count = ::send(fd, input.data(), input.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (count < 0) return errno == EINTR || errno == EAGAIN;
  input.remove_prefix(static_cast<std::size_t>(count));
  return !input.empty();
}

// Waits for the end of the process until the deadline, then kills it. Returns its exit code, or -1 if it was killed so.
// waitpid() has no timeout; the processes waited for here have closed their outputs and are about to end.
int reap(pid_t pid, Clock::time_point deadline) {
  bool killed = false;
  for (;;) {
    int status = 0;
    const pid_t done = ::waitpid(pid, &status, killed ? 0 : WNOHANG);
    if (done < 0 && errno != EINTR) return -1;
    if (done == pid) {
      if (killed) return -1;
      return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    }
    if (done == 0 && Clock::now() >= deadline) {
      ::kill(pid, SIGKILL);
      killed = true;
    } else if (done == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
}

CommandResult run(SpawnRequest request, std::string_view input, std::chrono::seconds timeout) {
  const auto deadline = Clock::now() + timeout;
  Child child = spawn(std::move(request));
  if (child.pid < 0) return {.exit = -1, .out = {}, .err = child.error};
  CommandResult result;
  if (input.empty()) close_fd(child.in);
  while (child.out >= 0 || child.err >= 0) {
    // A descriptor of -1 is ignored by poll().
    std::array<pollfd, 3> polled{pollfd{child.out, POLLIN, 0}, pollfd{child.err, POLLIN, 0},
                                 pollfd{child.in, POLLOUT, 0}};
    const int ready = ::poll(polled.data(), polled.size(), ms_until(deadline));
    if (ready == 0 && Clock::now() >= deadline) break;
    if (ready <= 0) continue;
    if (polled[0].revents != 0 && !drain(child.out, result.out)) close_fd(child.out);
    if (polled[1].revents != 0 && !drain(child.err, result.err)) close_fd(child.err);
    if (polled[2].revents != 0 && !feed(child.in, input)) close_fd(child.in);
  }
  const bool is_late = child.out >= 0 || child.err >= 0;
  close_fd(child.in);
  close_fd(child.out);
  close_fd(child.err);
  result.exit = reap(child.pid, is_late ? Clock::now() : deadline);
  if (result.exit == -1) result.err += "\n(killed: it took longer than " + std::to_string(timeout.count()) + " s)";
  return result;
}

}  // namespace

std::string RealKube::why_skip() {
  const char* ci = std::getenv("CI");
  return ci != nullptr && std::string_view(ci) == "true" ? std::string() : why_unavailable();
}

RealKube::Started RealKube::start(const RealKubeOptions& options) {
  if (std::string reason = why_unavailable(); !reason.empty()) return {.kube = nullptr, .error = std::move(reason)};
  SpawnRequest request{.argv = {start_script(), "--quiet", "--kube-dir", kube_dir(), "--ready-timeout",
                                std::to_string(options.ready_timeout.count())},
                       .environment = environment_with({}),
                       // What goes wrong, with the end of the server's log, belongs into the test's output.
                       .captures_err = false};
  for (const std::string& arg : options.apiserver_args) request.argv.push_back("--apiserver-arg=" + arg);
  for (const std::string& arg : options.etcd_args) request.argv.push_back("--etcd-arg=" + arg);
  if (std::getenv("BASALT_KUBE_KEEP") != nullptr) request.argv.emplace_back("--keep");

  std::unique_ptr<RealKube> kube(new RealKube(options.ready_timeout));
  Child child = spawn(std::move(request));
  if (child.pid < 0) return {.kube = nullptr, .error = std::move(child.error)};
  kube->keeper_ = child.pid;
  kube->to_keeper_ = child.in;
  kube->from_keeper_ = child.out;
  std::string line;
  if (!kube->read_line(line, 2 * options.ready_timeout + kAnswerSlack)) {
    return {.kube = nullptr, .error = "no cluster: " + line};
  }
  kube->folder_ = std::filesystem::path(line).parent_path();
  kube->server_url_ = first_line_of(kube->folder_ / "server");
  kube->user_token_ = first_line_of(kube->folder_ / "pki/user.token");
  return {.kube = std::move(kube), .error = {}};
}

RealKube::~RealKube() { stop(); }

void RealKube::stop() {
  if (keeper_ < 0) return;
  close_fd(to_keeper_);  // This is what tells it to stop.
  const int exit = reap(keeper_, Clock::now() + kStopTimeout);
  keeper_ = -1;
  close_fd(from_keeper_);
  if (exit == -1 && !folder_.empty() && std::getenv("BASALT_KUBE_KEEP") == nullptr) {
    // It had to be killed. The kernel ends the servers with it; the folder is left to us.
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
}

std::string RealKube::restart_apiserver() { return command("restart apiserver"); }
std::string RealKube::kill_apiserver() { return command("kill apiserver"); }
std::string RealKube::start_apiserver() { return command("start apiserver"); }
std::string RealKube::pause_apiserver() { return command("pause apiserver"); }
std::string RealKube::resume_apiserver() { return command("resume apiserver"); }
std::string RealKube::pause_etcd() { return command("pause etcd"); }
std::string RealKube::resume_etcd() { return command("resume etcd"); }
std::string RealKube::compact_etcd() { return command("compact"); }

CommandResult RealKube::kubectl(const std::vector<std::string>& args, std::string_view input,
                                std::chrono::seconds timeout) const {
  SpawnRequest request;
  request.argv = {kube_dir() / "kubectl"};
  request.argv.insert(request.argv.end(), args.begin(), args.end());
  // Neither the user's configuration nor a cache that other tests write to.
  request.environment =
      environment_with({{"KUBECONFIG", kubeconfig()}, {"HOME", folder_}, {"KUBECACHEDIR", folder_ / "kubectl-cache"}});
  return run(std::move(request), input, timeout);
}

std::string RealKube::command(std::string_view line) {
  std::string text(line);
  text += '\n';
  std::string_view unsent = text;
  while (!unsent.empty()) {
    const ssize_t count = ::send(to_keeper_, unsent.data(), unsent.size(), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno_text(std::string(line) + ": tools/kube/start has ended");
    unsent.remove_prefix(static_cast<std::size_t>(count));
  }
  std::string answer;
  if (!read_line(answer, ready_timeout_ + kAnswerSlack)) return std::string(line) + ": " + answer;
  if (answer == "ok" || answer.starts_with("ok ")) return {};
  return std::string(line) + ": " + answer;
}

bool RealKube::read_line(std::string& line, std::chrono::seconds timeout) {
  const auto deadline = Clock::now() + timeout;
  for (;;) {
    if (const auto end = unread_.find('\n'); end != std::string::npos) {
      line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return true;
    }
    pollfd polled{from_keeper_, POLLIN, 0};
    const int ready = ::poll(&polled, 1, ms_until(deadline));
    if (ready > 0 && !drain(from_keeper_, unread_)) {
      line = "tools/kube/start has ended; what it said is above";
      return false;
    }
    if (ready == 0 && Clock::now() >= deadline) {
      line = "tools/kube/start did not answer within " + std::to_string(timeout.count()) + " s";
      return false;
    }
  }
}

}  // namespace basalt::test
