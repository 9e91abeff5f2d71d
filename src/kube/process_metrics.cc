#include "kube/process_metrics.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>

#include "base/strings.h"

namespace basalt::kube {
namespace {

// The fields of /proc/self/stat that follow the name of the program, which may hold anything.
struct ProcessState {
  std::uint64_t cpu_ticks = 0;  // in user and kernel
  std::int64_t threads = 0;
  std::uint64_t start_ticks = 0;  // since boot
  std::uint64_t virtual_bytes = 0;
  std::int64_t resident_pages = 0;
};

bool read_state(ProcessState& state) {
  std::ifstream file("/proc/self/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return false;
  std::istringstream fields(text.substr(name_end + 1));
  std::string skipped;
  for (int i = 3; i <= 13; ++i) fields >> skipped;  // numbered as in proc(5)
  std::uint64_t user = 0;
  std::uint64_t kernel = 0;
  fields >> user >> kernel;
  for (int i = 16; i <= 19; ++i) fields >> skipped;
  fields >> state.threads >> skipped >> state.start_ticks >> state.virtual_bytes >> state.resident_pages;
  state.cpu_ticks = user + kernel;
  return !fields.fail();
}

// Seconds since 1970 at which the machine started; 0 if it does not say.
std::int64_t boot_time() {
  std::ifstream file("/proc/stat");
  std::string line;
  while (std::getline(file, line)) {
    if (const auto value = base::strip_prefix(line, "btime ")) return base::parse_int64(*value).value_or(0);
  }
  return 0;
}

std::int64_t open_files() {
  DIR* const folder = ::opendir("/proc/self/fd");
  if (folder == nullptr) return 0;
  std::int64_t count = -3;  // ".", ".." and this folder
  while (::readdir(folder) != nullptr) ++count;
  ::closedir(folder);
  return count;
}

void add(std::string& text, std::string_view name, std::string_view kind, std::string_view help, double value) {
  char number[64];
  std::snprintf(number, sizeof number, "%.17g", value);
  text.append("# HELP ")
      .append(name)
      .append(" ")
      .append(help)
      .append("\n# TYPE ")
      .append(name)
      .append(" ")
      .append(kind);
  text.append("\n").append(name).append(" ").append(number).append("\n");
}

}  // namespace

std::string process_metrics_text() {
  ProcessState state;
  if (!read_state(state)) return {};
  const auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  const auto page = static_cast<double>(::sysconf(_SC_PAGESIZE));
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  std::string text;
  add(text, "process_cpu_seconds_total", "counter", "CPU time used, in seconds.",
      static_cast<double>(state.cpu_ticks) / ticks);
  add(text, "process_resident_memory_bytes", "gauge", "Resident memory.",
      static_cast<double>(state.resident_pages) * page);
  add(text, "process_virtual_memory_bytes", "gauge", "Virtual memory.", static_cast<double>(state.virtual_bytes));
  add(text, "process_open_fds", "gauge", "Open file descriptors.", static_cast<double>(open_files()));
  add(text, "process_max_fds", "gauge", "How many file descriptors may be open.", static_cast<double>(files.rlim_cur));
  add(text, "process_threads", "gauge", "Threads.", static_cast<double>(state.threads));
  add(text, "process_start_time_seconds", "gauge", "When the process started, in seconds since 1970.",
      static_cast<double>(boot_time()) + static_cast<double>(state.start_ticks) / ticks);
  return text;
}

}  // namespace basalt::kube
