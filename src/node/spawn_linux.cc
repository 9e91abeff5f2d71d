#include "node/spawn_linux.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/strings.h"

namespace basalt::node {
namespace {

enum class Stage : int { Namespace, UserMap, Mount, Hostname, Group, Folder, Limit, Terminal, Program };

// What the child says through the pipe if it cannot become the program.
struct Failure {
  Stage stage;
  int error;
  int index;  // of the mount step
};

// Pointers into a SpawnPlan; made before the fork, because the child may not allocate.
struct ChildData {
  const SpawnPlan* plan = nullptr;
  std::vector<char*> argv;
  std::vector<char*> env;
  int report_fd = -1;
  pid_t parent = 0;
  std::string user_map = {};  // of a user namespace
  std::string group_map = {};
};

// In a user namespace a mount keeps the flags that whoever owns the machine gave it; asking for fewer is refused.
unsigned long kept_flags(const char* target) {
  struct statfs about{};
  if (::statfs(target, &about) != 0) return 0;
  unsigned long flags = 0;
  if ((about.f_flags & 0x2) != 0) flags |= MS_NOSUID;
  if ((about.f_flags & 0x4) != 0) flags |= MS_NODEV;
  if ((about.f_flags & 0x8) != 0) flags |= MS_NOEXEC;
  if ((about.f_flags & 0x400) != 0) flags |= MS_NOATIME;
  if ((about.f_flags & 0x800) != 0) flags |= MS_NODIRATIME;
  if ((about.f_flags & 0x1000) != 0) flags |= MS_RELATIME;
  return flags;
}

int carry_out(const MountStep& step) {
  const char* source = step.source.c_str();
  const char* target = step.target.c_str();
  switch (step.kind) {
    case MountStep::Kind::MakePrivate:
      return ::mount(nullptr, target, nullptr, MS_REC | MS_PRIVATE, nullptr);
    case MountStep::Kind::Tmpfs:
      return ::mount("tmpfs", target, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=16m");
    case MountStep::Kind::MakeFolder:
      return ::mkdir(target, 0755) == 0 || errno == EEXIST ? 0 : -1;
    case MountStep::Kind::MakeFile: {
      const int fd = ::open(target, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
      return fd < 0 ? -1 : ::close(fd);
    }
    case MountStep::Kind::MakeLink:
      return ::symlink(source, target);
    case MountStep::Kind::Bind:
      return ::mount(source, target, nullptr, MS_BIND | MS_REC, nullptr);
    case MountStep::Kind::ReadOnly:
      return ::mount(nullptr, target, nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY | kept_flags(target), nullptr);
    case MountStep::Kind::ChangeRoot:
      return ::chroot(target) == 0 ? ::chdir("/") : -1;
  }
  return 0;
}

[[noreturn]] void give_up(const ChildData& data, Stage stage, int index = 0) {
  const Failure failure{stage, errno, index};
  (void)!::write(data.report_fd, &failure, sizeof failure);
  ::_exit(127);
}

void reset_signals() {
  struct sigaction usual{};
  usual.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) (void)::sigaction(signal, &usual, nullptr);
  sigset_t none;
  sigemptyset(&none);
  (void)::sigprocmask(SIG_SETMASK, &none, nullptr);
}

bool write_text(const char* path, std::string_view text) {
  const int fd = ::open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool good = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int error = errno;
  ::close(fd);
  errno = error;
  return good;
}

void isolate(const ChildData& data) {
  const SpawnPlan& plan = *data.plan;
  const bool of_user = plan.namespaces == Namespaces::OfUser;
  if (::unshare(CLONE_NEWNS | CLONE_NEWUTS | (of_user ? CLONE_NEWUSER : 0)) != 0) give_up(data, Stage::Namespace);
  if (of_user && (!write_text("/proc/self/setgroups", "deny") || !write_text("/proc/self/uid_map", data.user_map) ||
                  !write_text("/proc/self/gid_map", data.group_map)))
    give_up(data, Stage::UserMap);
  int index = 0;
  for (const MountStep& step : plan.mounts) {
    if (carry_out(step) != 0) give_up(data, Stage::Mount, index);
    ++index;
  }
  if (!plan.hostname.empty() && ::sethostname(plan.hostname.data(), plan.hostname.size()) != 0)
    give_up(data, Stage::Hostname);
}

void take_input(const SpawnPlan& plan) {
  if (plan.in_fd >= 0) {
    ::dup2(plan.in_fd, 0);
    return;
  }
  const int in = ::open("/dev/null", O_RDONLY);
  if (in == 0) return;
  ::dup2(in, 0);
  ::close(in);
}

[[noreturn]] void become_program(const ChildData& data) {
  const SpawnPlan& plan = *data.plan;
  if (!plan.has_terminal) {
    ::setpgid(0, 0);
  } else if (::setsid() < 0 || ::ioctl(plan.in_fd, TIOCSCTTY, 0) != 0) {
    give_up(data, Stage::Terminal);
  }
  if (plan.group_fd >= 0 && ::write(plan.group_fd, "0", 1) != 1) give_up(data, Stage::Group);
  if (plan.namespaces != Namespaces::None) isolate(data);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);            // after the change of rights, which clears it
  if (::getppid() != data.parent) ::_exit(127);  // it died before the line above
  if (::chdir(plan.working_dir.c_str()) != 0) give_up(data, Stage::Folder);
  if (plan.address_space_bytes_max) {
    const rlimit limit{*plan.address_space_bytes_max, *plan.address_space_bytes_max};
    if (::setrlimit(RLIMIT_AS, &limit) != 0) give_up(data, Stage::Limit);
  }
  take_input(plan);
  ::dup2(plan.out_fd, 1);
  ::dup2(plan.err_fd, 2);
  reset_signals();
  // Whatever a library opened without O_CLOEXEC stays ours; the report's end closes when the program begins.
  (void)::syscall(SYS_close_range, 3u, ~0u, 4u /* CLOSE_RANGE_CLOEXEC */);
  int error = ENOENT;
  for (const std::string& program : plan.programs) {
    ::execve(program.c_str(), data.argv.data(), data.env.data());
    const int refused = errno;
    // A folder of the PATH that may not be searched is as good as one without the program.
    const bool is_there = refused != EACCES || ::access(program.c_str(), F_OK) == 0;
    if (refused != ENOENT && refused != ENOTDIR && is_there) error = refused;
  }
  errno = error;
  give_up(data, Stage::Program);
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  out.reserve(texts.size() + 1);
  for (const std::string& text : texts) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

std::string describe(const MountStep& step) {
  switch (step.kind) {
    case MountStep::Kind::Bind:
      return "cannot mount " + step.source + " at " + step.target;
    case MountStep::Kind::ChangeRoot:
      return "cannot change the root to " + step.target;
    default:
      return "cannot make " + step.target + " in the private mounts";
  }
}

Error explain(const SpawnPlan& plan, const Failure& failure) {
  const std::string cause = std::strerror(failure.error);
  const bool passes = failure.error == ENOMEM || failure.error == EAGAIN || failure.error == ENFILE ||
                      failure.error == EMFILE || failure.error == ETXTBSY;
  const Reason reason = passes ? Reason::InternalError : Reason::InvalidInput;
  switch (failure.stage) {
    case Stage::Namespace:
      return Error::make(reason, "cannot make a mount namespace: " + cause);
    case Stage::UserMap:
      return Error::make(reason, "cannot set up a user namespace: " + cause);
    case Stage::Mount:
      return Error::make(reason, describe(plan.mounts[static_cast<std::size_t>(failure.index)]) + ": " + cause);
    case Stage::Hostname:
      return Error::make(reason, "cannot set the hostname " + base::quote(plan.hostname) + ": " + cause);
    case Stage::Group:
      return Error::make(Reason::InternalError, "cannot join the control group: " + cause);
    case Stage::Folder:
      return Error::make(reason, "cannot change to the working folder " + base::quote(plan.working_dir) + ": " + cause);
    case Stage::Limit:
      return Error::make(reason, "cannot set the memory limit: " + cause);
    case Stage::Terminal:
      return Error::make(Reason::InternalError, "cannot give the program a terminal: " + cause);
    case Stage::Program:
      break;
  }
  const std::string program = base::quote(plan.argv.front());
  if (failure.error == ENOENT) {
    return Error::make(reason, "program " + program +
                                   " is not on this machine; process nodes run the host's programs, " +
                                   "not those of the image: install it, or name another in command:");
  }
  return Error::make(reason, "cannot run program " + program + ": " + cause);
}

}  // namespace

Result<pid_t> spawn(const SpawnPlan& plan) {
  std::array<int, 2> report{};
  if (::pipe2(report.data(), O_CLOEXEC) != 0) return Error::make(Reason::InternalError, std::strerror(errno));
  ChildData data{&plan, pointers(plan.argv), pointers(plan.env), report[1], ::getpid()};
  if (plan.namespaces == Namespaces::OfUser) {
    data.user_map = std::to_string(::geteuid()) + " " + std::to_string(::geteuid()) + " 1";
    data.group_map = std::to_string(::getegid()) + " " + std::to_string(::getegid()) + " 1";
  }
  // No handler of ours may run in the child, which shares our memory until it becomes the program.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = ::vfork();  // NOLINT(clang-analyzer-security.insecureAPI.vfork): a fork copies the page tables
  if (pid == 0) become_program(data);
  const int error = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::close(report[1]);
  if (pid < 0) {
    ::close(report[0]);
    return Error::make(Reason::InternalError, std::string("cannot start a process: ") + std::strerror(error));
  }
  Failure failure{};
  ssize_t got = 0;
  while ((got = ::read(report[0], &failure, sizeof failure)) < 0 && errno == EINTR) {}
  ::close(report[0]);
  if (got == 0) return pid;
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {}
  return explain(plan, failure);
}

std::vector<std::string> program_candidates(const std::string& name, const std::vector<std::string>& env) {
  if (name.find('/') != std::string::npos) return {name};
  std::string_view path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
  for (const std::string& entry : env) {
    if (entry.starts_with("PATH=")) path = std::string_view(entry).substr(5);
  }
  std::vector<std::string> candidates;
  for (const std::string_view folder : base::split(path, ':')) {
    candidates.push_back((folder.empty() ? std::string(".") : std::string(folder)) + "/" + name);
  }
  return candidates;
}

bool can_isolate(const std::string& folder, Namespaces namespaces) {
  SpawnPlan plan;
  plan.programs = {"/bin/true", "/usr/bin/true"};
  plan.argv = {"true"};
  plan.working_dir = "/";
  plan.hostname = "probe";
  plan.namespaces = namespaces;
  plan.mounts = {{MountStep::Kind::MakePrivate, "", "/"},
                 {MountStep::Kind::Tmpfs, "", folder},
                 {MountStep::Kind::Bind, "/usr", folder}};
  const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  plan.out_fd = null;
  plan.err_fd = null;
  const Result<pid_t> pid = spawn(plan);
  ::close(null);
  if (!pid.ok()) return false;
  while (::waitpid(*pid, nullptr, 0) < 0 && errno == EINTR) {}
  return true;
}

}  // namespace basalt::node
