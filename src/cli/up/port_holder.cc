#include "cli/up/port_holder.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <system_error>

namespace basalt::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kListening = "0A";  // of the kernel's tables of sockets
constexpr std::size_t kProcessesMax = 100'000;

// The sockets that listen on the port, as links of open files name them: "socket:[4711]".
void add_sockets(const char* table, std::uint16_t port, std::set<std::string>& sockets) {
  std::ifstream file(table);
  std::string line;
  std::getline(file, line);  // headings
  while (std::getline(file, line)) {
    // sl local_address remote_address state queues timer retransmits uid timeout inode
    std::istringstream words(line);
    std::string slot, local, remote, state, queues, timer, retransmits, uid, timeout, inode;
    words >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> uid >> timeout >> inode;
    const auto colon = local.rfind(':');
    if (state != kListening || colon == std::string::npos) continue;
    unsigned number = 0;
    std::from_chars(local.data() + colon + 1, local.data() + local.size(), number, 16);
    if (number == port) sockets.insert("socket:[" + inode + "]");
  }
}

bool has_open(const fs::path& process, const std::set<std::string>& sockets) {
  std::error_code error;
  for (fs::directory_iterator files(process / "fd", error), end; !error && files != end; files.increment(error)) {
    std::error_code unreadable;
    if (sockets.contains(fs::read_symlink(files->path(), unreadable).string())) return true;
  }
  return false;
}

}  // namespace

std::string port_holder(std::uint16_t port) {
  std::set<std::string> sockets;
  add_sockets("/proc/net/tcp", port, sockets);
  add_sockets("/proc/net/tcp6", port, sockets);
  if (sockets.empty()) return "";
  std::error_code error;
  std::size_t seen = 0;
  for (fs::directory_iterator processes("/proc", error), end; !error && processes != end && seen < kProcessesMax;
       processes.increment(error), ++seen) {
    const std::string name = processes->path().filename().string();
    const bool is_number = std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (!is_number || !has_open(processes->path(), sockets)) continue;
    std::string command;
    std::ifstream file(processes->path() / "comm");
    std::getline(file, command);
    return "process " + name + (command.empty() ? "" : " (" + command + ")");
  }
  return "";
}

}  // namespace basalt::cli
