#include "node/cgroup_linux.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/strings.h"
#include "node/pod_volumes.h"

namespace basalt::node {
namespace {

constexpr std::int64_t kPeriodMicros = 100'000;  // as kubelet's cpuCFSQuotaPeriod
constexpr std::string_view kPrefix = "basalt-";

// Files of this file system are there from the start; a test's are made.
bool write_value(const std::string& path, std::string_view value) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return false;
  const bool good = ::write(fd, value.data(), value.size()) == static_cast<ssize_t>(value.size());
  ::close(fd);
  return good;
}

bool hands_on_memory(const std::string& group) {
  const std::string text = read_file(group + "/cgroup.subtree_control").value_or("");
  const auto words = base::split_words(text);
  return std::find(words.begin(), words.end(), "memory") != words.end();
}

// Where the second version is mounted; "" if it is not.
std::string mount_point() {
  const std::string text = read_file("/proc/self/mounts").value_or("");
  for (const std::string_view line : base::split_lines(text)) {
    const auto words = base::split_words(line);
    if (words.size() > 2 && words[2] == "cgroup2") return std::string(words[1]);
  }
  return "";
}

// Empty groups of programs that died.
void remove_stale(const std::string& parent) {
  std::error_code error;
  for (std::filesystem::directory_iterator entries(parent, error), end; !error && entries != end;
       entries.increment(error)) {
    const std::string path = entries->path().native();
    if (!entries->path().filename().native().starts_with(kPrefix)) continue;
    std::error_code inner;
    for (const auto& one : std::filesystem::directory_iterator(path, inner)) {
      if (one.is_directory(inner)) (void)::rmdir(one.path().c_str());
    }
    (void)::rmdir(path.c_str());  // refused while somebody is in it
  }
}

}  // namespace

std::unique_ptr<CgroupTree> CgroupTree::open(std::string_view name) {
  const std::string mount = mount_point();
  const std::string groups = read_file("/proc/self/cgroup").value_or("");
  for (const std::string_view line : base::split_lines(groups)) {
    const auto own = base::strip_prefix(line, "0::");
    if (own && !mount.empty()) return open_at(mount, std::string(*own), name);
  }
  return nullptr;
}

std::unique_ptr<CgroupTree> CgroupTree::open_at(const std::string& mount, const std::string& own,
                                                std::string_view name) {
  std::filesystem::path group = (mount + own);
  group = group.lexically_normal();
  const std::filesystem::path top = std::filesystem::path(mount).lexically_normal();
  while (group.native().size() >= top.native().size()) {
    if (hands_on_memory(group.native())) {
      remove_stale(group.native());
      const std::string folder = (group / (std::string(kPrefix) + std::string(name))).native();
      const bool made = ::mkdir(folder.c_str(), 0755) == 0;
      // The processor's controller may be missing; then only memory is limited.
      if (made && (write_value(folder + "/cgroup.subtree_control", "+memory +cpu") ||
                   write_value(folder + "/cgroup.subtree_control", "+memory")))
        return std::unique_ptr<CgroupTree>(new CgroupTree(folder));
      if (made) (void)::rmdir(folder.c_str());
    }
    if (group == top || !group.has_parent_path() || group.parent_path() == group) break;
    group = group.parent_path();
  }
  return nullptr;
}

CgroupTree::~CgroupTree() {
  remove_dead();
  (void)::rmdir(folder_.c_str());
}

Result<std::string> CgroupTree::make(std::string_view name, const ResourceLimits& limits) {
  std::string folder = folder_ + "/" + std::string(name);
  if (::mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST)
    return Error::make(Reason::InternalError, "cannot make the control group " + folder + ": " + std::strerror(errno));
  bool good = true;
  if (limits.memory_bytes_max) {
    good = write_value(folder + "/memory.max", std::to_string(*limits.memory_bytes_max));
    (void)write_value(folder + "/memory.swap.max", "0");  // where there is swap; else a limit of memory is none
    (void)write_value(folder + "/memory.oom.group", "1");
  }
  if (limits.cpu_milli_max) {
    const std::int64_t quota = std::max<std::int64_t>(*limits.cpu_milli_max * kPeriodMicros / 1000, 1000);
    (void)write_value(folder + "/cpu.max", std::to_string(quota) + " " + std::to_string(kPeriodMicros));
  }
  if (good) return folder;
  const std::string cause = std::strerror(errno);
  (void)::rmdir(folder.c_str());
  return Error::make(Reason::InternalError, "cannot limit the memory of the control group " + folder + ": " + cause);
}

int CgroupTree::open_members(const std::string& folder) {
  return ::open((folder + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC);
}

bool CgroupTree::was_out_of_memory(const std::string& folder) {
  const std::string events = read_file(folder + "/memory.events").value_or("");
  for (const std::string_view line : base::split_lines(events)) {
    const auto words = base::split_words(line);
    if (words.size() == 2 && words[0] == "oom_kill") return base::parse_int64(words[1]).value_or(0) > 0;
  }
  return false;
}

void CgroupTree::remove(const std::string& folder) {
  (void)write_value(folder + "/cgroup.kill", "1");
  dead_.push_back(folder);
  remove_dead();
}

void CgroupTree::remove_dead() {
  std::erase_if(dead_, [](const std::string& folder) { return ::rmdir(folder.c_str()) == 0 || errno != EBUSY; });
}

}  // namespace basalt::node
