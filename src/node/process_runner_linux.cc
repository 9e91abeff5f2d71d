#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <map>
#include <set>

#include "base/strings.h"
#include "node/child_streams_linux.h"
#include "node/mount_plan.h"
#include "node/orphan_guard_linux.h"
#include "node/process_runner.h"
#include "node/spawn_linux.h"

namespace basalt::node {
namespace {

constexpr std::size_t kReadBytes = 64 * 1024;
constexpr int kReadsAtExitMax = 256;  // 16 MiB that were still in the pipes; they hold 64 KiB each unless enlarged

constexpr int kKillRoundsMax = 200;
constexpr rt::Duration kKillRoundPause = std::chrono::milliseconds(10);

enum class Source : std::uint64_t { Exit, Out, Err, In, Wake };
constexpr int kSourceBits = 3;
constexpr std::uint64_t kSourceMask = (1u << kSourceBits) - 1;
constexpr char kEndOfInput = 4;  // as a terminal is told: Ctrl-D

// By which other threads wake the runner's, and say whose CommandIo has changed: one entry a process at most. Outlives
// the runner in the hands of who still has a CommandIo.
class Wakes {
 public:
  explicit Wakes(int fd) : fd_(fd) {}
  [[nodiscard]] int fd() const { return fd_.get(); }
  void wake() {
    const std::uint64_t one = 1;
    (void)!::write(fd_.get(), &one, sizeof one);
  }
  void wake_for(ProcessId id) {
    {
      rt::MutexLock lock(mutex_);
      ids_.push_back(id);
    }
    wake();
  }
  std::vector<ProcessId> take() {
    rt::MutexLock lock(mutex_);
    return std::exchange(ids_, {});
  }

 private:
  const Descriptor fd_;
  rt::Mutex mutex_;
  std::vector<ProcessId> ids_ BASALT_GUARDED_BY(mutex_);
};

class LinuxProcessRunner final : public ProcessRunner {
 public:
  LinuxProcessRunner(rt::Runtime& runtime, Namespaces namespaces, int epoll_fd, int wake_fd)
      : runtime_(runtime),
        namespaces_(namespaces),
        epoll_fd_(epoll_fd),
        wakes_(std::make_shared<Wakes>(wake_fd)),
        started_(runtime),
        buffer_(kReadBytes, '\0') {
    watch(wake_fd, 0, Source::Wake);
    thread_ = rt::Thread(runtime, "processes", [this] { work(); });
  }
  ~LinuxProcessRunner() override {
    BASALT_CHECK_MSG(!thread_.joinable(), "a process runner was destroyed unstopped");
    ::close(epoll_fd_);
  }

  Result<StartedProcess> start(const ProcessSpec& spec, OnOutput on_output, OnExit on_exit) override {
    Order order{&spec, std::move(on_output), std::move(on_exit), std::nullopt};
    BASALT_TRY(order.plan, prepare(spec));
    {
      rt::MutexLock lock(mutex_);
      if (stopping_) return Error::make(Reason::Cancelled, "the node is stopping");
      orders_.push_back(&order);
    }
    wakes_->wake();
    rt::MutexLock lock(mutex_);
    while (!order.result) started_.wait(mutex_);
    return std::move(*order.result);
  }

  void signal(ProcessId id, int signal) override {
    rt::MutexLock lock(mutex_);
    const auto found = pids_.find(id);
    // As long as it is listed the leader is not reaped, so its number is nobody else's.
    if (found != pids_.end()) ::kill(-found->second, signal);
  }

  std::size_t kill_marked(std::string_view marker) override;

  Done guard(std::string_view marker) override {
    BASALT_TRY(auto started, OrphanGuard::start(std::string(marker)));
    rt::MutexLock lock(mutex_);
    guards_.push_back(std::move(started));
    return Ok{};
  }

  [[nodiscard]] bool isolates() const override { return namespaces_ != Namespaces::None; }

  void stop() override {
    if (!thread_.joinable()) return;
    {
      rt::MutexLock lock(mutex_);
      stopping_ = true;
      for (const auto& [id, pid] : pids_) ::kill(-pid, SIGKILL);
    }
    wakes_->wake();
    thread_.join();
  }

 private:
  // One call of start(), which waits for the runner's thread: the kernel ties a child to the thread that made it.
  struct Order {
    const ProcessSpec* spec;
    OnOutput on_output;
    OnExit on_exit;
    std::optional<Result<StartedProcess>> result;
    SpawnPlan plan = {};
  };

  struct Child {
    pid_t pid = 0;
    int pid_fd = -1;
    ChildStreams streams;
    OnOutput on_output;
    OnExit on_exit;
    std::string group;              // its control group, if it has one
    std::shared_ptr<CommandIo> io;  // may be null
    std::string input = {};         // taken from it, and how much of that is written
    std::size_t written = 0;
    bool is_input_over = false;
    bool is_input_watched = false;
    bool is_output_held = false;
    Descriptor& output(OutputStream stream) { return stream == OutputStream::Out ? streams.out : streams.err; }
  };

  [[nodiscard]] Result<SpawnPlan> prepare(const ProcessSpec& spec) const {
    if (spec.argv.empty()) return Error::invalid_input(spec.name + ": no command");
    SpawnPlan plan;
    plan.argv = spec.argv;
    for (const auto& [name, value] : spec.env) plan.env.push_back(name + "=" + value);
    plan.programs = program_candidates(spec.argv.front(), plan.env);
    plan.working_dir = spec.working_dir.empty() ? "/" : spec.working_dir;
    plan.address_space_bytes_max = spec.address_space_bytes_max;
    plan.namespaces = namespaces_;
    if (isolates()) {
      plan.hostname = spec.hostname.substr(0, 64);
      BASALT_TRY(plan.mounts, plan_mounts(spec.mounts, spec.scratch));
    }
    return plan;
  }

  void watch(int fd, ProcessId id, Source source) {
    epoll_event event{};
    event.events = source == Source::In ? EPOLLOUT : EPOLLIN;
    event.data.u64 = id << kSourceBits | static_cast<std::uint64_t>(source);
    ::epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event);
  }
  // Also before a close: the two descriptors of a terminal are one file, which stays watched as long as one is open.
  void unwatch(int fd) { ::epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr); }

  void work();
  void carry_out_orders();
  Result<StartedProcess> start_child(Order& order);
  void handle(ProcessId id, Source source);
  void read_output(Child& child, OutputStream stream, int reads_max);
  void watch_output(ProcessId id, const Child& child);
  void take_changes(ProcessId id, Child& child);
  void write_input(ProcessId id, Child& child);
  void close_input(Child& child);
  void reap(ProcessId id);

  // Fixed after construction.
  rt::Runtime& runtime_;
  const Namespaces namespaces_;
  const int epoll_fd_;
  const std::shared_ptr<Wakes> wakes_;  // self-locking

  rt::Mutex mutex_;
  rt::Condition started_;
  std::deque<Order*> orders_ BASALT_GUARDED_BY(mutex_);
  std::map<ProcessId, pid_t> pids_ BASALT_GUARDED_BY(mutex_);  // not yet reaped
  bool stopping_ BASALT_GUARDED_BY(mutex_) = false;
  std::vector<std::unique_ptr<OrphanGuard>> guards_ BASALT_GUARDED_BY(mutex_);  // until destruction

  // Used only by the runner's thread.
  std::map<ProcessId, Child> children_;
  ProcessId last_id_ = 0;
  std::string buffer_;
  const std::unique_ptr<CgroupTree> groups_ = CgroupTree::open(std::to_string(::getpid()));  // null: not permitted

  rt::Thread thread_;
};

void LinuxProcessRunner::work() {
  // A command that does not read its input is an error of that write.
  sigset_t broken_pipe;
  sigemptyset(&broken_pipe);
  sigaddset(&broken_pipe, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &broken_pipe, nullptr);
  std::array<epoll_event, 64> events{};
  while (true) {
    const int count = ::epoll_wait(epoll_fd_, events.data(), static_cast<int>(events.size()), -1);
    for (int i = 0; i < count; ++i) {
      const std::uint64_t data = events[static_cast<std::size_t>(i)].data.u64;
      handle(data >> kSourceBits, static_cast<Source>(data & kSourceMask));
    }
    for (const ProcessId id : wakes_->take()) {
      if (const auto child = children_.find(id); child != children_.end()) take_changes(id, child->second);
    }
    carry_out_orders();
    rt::MutexLock lock(mutex_);
    if (stopping_ && children_.empty()) return;
  }
}

void LinuxProcessRunner::handle(ProcessId id, Source source) {
  if (source == Source::Wake) {
    std::uint64_t wakes = 0;
    (void)!::read(wakes_->fd(), &wakes, sizeof wakes);
    return;
  }
  const auto child = children_.find(id);
  if (child == children_.end()) return;  // reaped earlier in this round
  if (source == Source::Exit) return reap(id);
  if (source == Source::In) return take_changes(id, child->second);
  read_output(child->second, source == Source::Out ? OutputStream::Out : OutputStream::Err, 1);
}

void LinuxProcessRunner::carry_out_orders() {
  while (true) {
    Order* order = nullptr;
    bool refuse = false;
    {
      rt::MutexLock lock(mutex_);
      if (orders_.empty()) return;
      order = orders_.front();
      orders_.pop_front();
      refuse = stopping_;
    }
    Result<StartedProcess> result =
        refuse ? Result<StartedProcess>(Error::make(Reason::Cancelled, "the node is stopping")) : start_child(*order);
    rt::MutexLock lock(mutex_);
    if (stopping_ && result.ok()) ::kill(-static_cast<pid_t>(result->pid), SIGKILL);
    order->result = std::move(result);
    started_.notify_all();
  }
}

Result<StartedProcess> LinuxProcessRunner::start_child(Order& order) {
  const std::shared_ptr<CommandIo>& io = order.spec->io;
  BASALT_TRY(ChildStreams streams, open_child_streams(io.get()));
  order.plan.in_fd = streams.child_in_fd();
  order.plan.out_fd = streams.child_out.get();
  order.plan.err_fd = streams.child_err_fd();
  order.plan.has_terminal = streams.is_terminal;
  const ProcessId id = ++last_id_;
  if (io) {
    io->attach([wakes = wakes_, id] { wakes->wake_for(id); });
    // So that the program sees the size that the client has told already.
    if (const auto size = io->take(false).size; size && streams.is_terminal)
      set_terminal_size(streams.out.get(), *size);
  }
  std::string group;
  if (groups_ && !order.spec->limits.empty()) {
    // Without a group the container runs without limits, which is what most machines permit.
    group = groups_->make("c" + std::to_string(id), order.spec->limits).value_or("");
    if (!group.empty()) order.plan.group_fd = CgroupTree::open_members(group);
  }
  Result<pid_t> pid = spawn(order.plan);
  if (order.plan.group_fd >= 0) ::close(order.plan.group_fd);
  if (!pid.ok() && !group.empty()) groups_->remove(group);
  streams.close_child_ends();
  const int pid_fd = pid.ok() ? static_cast<int>(::syscall(SYS_pidfd_open, *pid, 0)) : -1;
  if (pid_fd < 0) {
    const int error = errno;
    if (io) io->detach();
    if (!pid.ok()) return std::move(pid).error();
    ::kill(-*pid, SIGKILL);
    while (::waitpid(*pid, nullptr, 0) < 0 && errno == EINTR) {}
    return Error::make(Reason::InternalError, std::string("cannot watch a process: ") + std::strerror(error));
  }
  Child& child = children_[id];
  child = {*pid, pid_fd, std::move(streams), std::move(order.on_output), std::move(order.on_exit), std::move(group),
           io};
  {
    rt::MutexLock lock(mutex_);
    pids_[id] = *pid;
  }
  watch(pid_fd, id, Source::Exit);
  watch_output(id, child);
  if (io) take_changes(id, child);
  return StartedProcess{id, *pid};
}

void LinuxProcessRunner::watch_output(ProcessId id, const Child& child) {
  if (child.streams.out.is_open()) watch(child.streams.out.get(), id, Source::Out);
  if (child.streams.err.is_open()) watch(child.streams.err.get(), id, Source::Err);
}

void LinuxProcessRunner::read_output(Child& child, OutputStream stream, int reads_max) {
  Descriptor& from = child.output(stream);
  for (int i = 0; i < reads_max && from.is_open(); ++i) {
    const ssize_t got = ::read(from.get(), buffer_.data(), buffer_.size());
    if (got > 0) {
      if (child.on_output) child.on_output(stream, std::string_view(buffer_.data(), static_cast<std::size_t>(got)));
    } else if (got < 0 && errno == EINTR) {
      continue;
    } else if (got < 0 && errno == EAGAIN) {
      return;
    } else {
      unwatch(from.get());
      from.close();
    }
  }
}

void LinuxProcessRunner::take_changes(ProcessId id, Child& child) {
  const bool wants_input = child.streams.in.is_open() && child.written == child.input.size();
  CommandIo::Change change = child.io->take(wants_input);
  if (change.size && child.streams.is_terminal && child.streams.out.is_open())
    set_terminal_size(child.streams.out.get(), *change.size);
  if (change.is_output_held != child.is_output_held) {
    child.is_output_held = change.is_output_held;
    if (!child.is_output_held) watch_output(id, child);
    for (const Descriptor* one : {&child.streams.out, &child.streams.err}) {
      if (child.is_output_held && one->is_open()) unwatch(one->get());
    }
  }
  if (wants_input) {
    child.input = std::move(change.input);
    child.written = 0;
    if (change.is_input_over && child.streams.is_terminal) child.input += kEndOfInput;
    child.is_input_over = change.is_input_over;
  }
  if (child.streams.in.is_open()) write_input(id, child);
}

void LinuxProcessRunner::write_input(ProcessId id, Child& child) {
  const int to = child.streams.in.get();
  const bool has_some = child.written < child.input.size();
  while (child.written < child.input.size()) {
    const ssize_t put = ::write(to, child.input.data() + child.written, child.input.size() - child.written);
    if (put >= 0) {
      child.written += static_cast<std::size_t>(put);
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {  // it has closed its end
      child.io->drop_input();
      return close_input(child);
    }
  }
  if (child.written == child.input.size() && child.is_input_over) return close_input(child);
  // Watched until there was nothing to write: so that others have their turn before more is taken.
  if (has_some == child.is_input_watched) return;
  child.is_input_watched = has_some;
  if (has_some) {
    watch(to, id, Source::In);
  } else {
    unwatch(to);
  }
}

void LinuxProcessRunner::close_input(Child& child) {
  if (child.is_input_watched) unwatch(child.streams.in.get());
  child.is_input_watched = false;
  child.streams.in.close();
  child.input = {};
  child.written = 0;
}

void LinuxProcessRunner::reap(ProcessId id) {
  Child child = std::move(children_[id]);
  children_.erase(id);
  // A container ends with its first process. The others of the group go while the zombie still holds the number.
  ::kill(-child.pid, SIGKILL);
  if (child.streams.is_terminal) kill_session(child.pid);
  if (child.io) child.io->detach();
  read_output(child, OutputStream::Out, kReadsAtExitMax);
  read_output(child, OutputStream::Err, kReadsAtExitMax);
  siginfo_t info{};
  {
    rt::MutexLock lock(mutex_);
    pids_.erase(id);
    while (::waitid(P_PID, static_cast<id_t>(child.pid), &info, WEXITED) < 0 && errno == EINTR) {}
  }
  ::close(child.pid_fd);
  for (Descriptor* one : {&child.streams.out, &child.streams.err, &child.streams.in}) {
    if (one->is_open()) unwatch(one->get());
    one->close();
  }
  ProcessExit exit;
  if (info.si_code == CLD_EXITED) {
    exit.code = info.si_status;
  } else {
    exit.signal = info.si_status;
    exit.code = 128 + info.si_status;
  }
  if (!child.group.empty()) {
    exit.out_of_memory = CgroupTree::was_out_of_memory(child.group);
    groups_->remove(child.group);
  }
  if (child.on_exit) child.on_exit(exit);
}

bool has_entry(const std::string& path, std::string_view marker) {
  std::FILE* file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return false;
  std::string text;
  std::array<char, 4096> piece{};
  while (text.size() < (1u << 20)) {
    const std::size_t got = std::fread(piece.data(), 1, piece.size(), file);
    if (got == 0) break;
    text.append(piece.data(), got);
  }
  std::fclose(file);
  for (const std::string_view entry : base::split(text, '\0')) {
    if (entry == marker) return true;
  }
  return false;
}

// Adds those of this round; whether there were any.
bool kill_round(std::string_view marker, std::set<std::int64_t>& killed) {
  bool any = false;
  std::error_code error;
  for (std::filesystem::directory_iterator entries("/proc", error), end; !error && entries != end;
       entries.increment(error)) {
    const std::string name = entries->path().filename().native();
    const auto pid = base::parse_int64(name);
    if (!pid || *pid == ::getpid()) continue;
    // The number is held by this descriptor, so that what is read and what is killed are the same process.
    const int pid_fd = static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(*pid), 0));
    if (pid_fd < 0) continue;
    if (has_entry("/proc/" + name + "/environ", marker) &&
        ::syscall(SYS_pidfd_send_signal, pid_fd, SIGKILL, nullptr, 0) == 0) {
      killed.insert(*pid);
      any = true;
    }
    ::close(pid_fd);
  }
  return any;
}

std::size_t LinuxProcessRunner::kill_marked(std::string_view marker) {
  std::set<std::int64_t> killed;
  // A process that is killed takes a moment to go, and may have had a child in the last one.
  for (int round = 0; round < kKillRoundsMax && kill_round(marker, killed); ++round)
    runtime_.sleep_for(kKillRoundPause);
  return killed.size();
}

// What this process may make and the option wants; found out by trying.
Namespaces usable_namespaces(Isolation isolation) {
  if (isolation == Isolation::Never) return Namespaces::None;
  std::string folder = (std::filesystem::temp_directory_path() / "basalt-probe-XXXXXX").native();
  if (::mkdtemp(folder.data()) == nullptr) return Namespaces::None;
  Namespaces usable = Namespaces::None;
  if (isolation != Isolation::User && can_isolate(folder, Namespaces::Own)) {
    usable = Namespaces::Own;
  } else if (can_isolate(folder, Namespaces::OfUser)) {
    usable = Namespaces::OfUser;
  }
  ::rmdir(folder.c_str());
  return usable;
}

std::string_view name_of(Namespaces namespaces) {
  if (namespaces == Namespaces::None) return "none";
  return namespaces == Namespaces::Own ? "own" : "of a user namespace";
}

}  // namespace

Result<std::unique_ptr<ProcessRunner>> make_linux_process_runner(rt::Runtime& runtime, const Logger& log,
                                                                 Isolation isolation) {
  BASALT_CHECK_MSG(!runtime.is_simulated(), "real processes do not run in virtual time");
  const Namespaces namespaces = usable_namespaces(isolation);
  if (namespaces == Namespaces::None && (isolation == Isolation::Always || isolation == Isolation::User)) {
    return Error::invalid_input(
        "this process may not make mount namespaces: it needs root, CAP_SYS_ADMIN or user namespaces "
        "(sysctl user.max_user_namespaces); run it as root or choose isolation auto");
  }
  const int epoll_fd = ::epoll_create1(EPOLL_CLOEXEC);
  const int wake_fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (epoll_fd < 0 || wake_fd < 0) {
    return Error::make(Reason::InternalError, std::string("cannot watch processes: ") + std::strerror(errno));
  }
  log.info("processes run here", {{"namespaces", name_of(namespaces)}});
  return std::unique_ptr<ProcessRunner>(std::make_unique<LinuxProcessRunner>(runtime, namespaces, epoll_fd, wake_fd));
}

}  // namespace basalt::node
