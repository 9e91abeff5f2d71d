#include "cli/up/data_folder.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "base/strings.h"

namespace basalt::cli {
namespace {

namespace fs = std::filesystem;

// What a cluster makes; any of them says that the folder is one's.
constexpr std::array<std::string_view, 6> kOwn = {"up.lock", "store", "pki", "kubeconfig", "nodes", "basalt.log"};

// Where people send the output of `basalt up`.
bool is_log(std::string_view name) { return name.ends_with(".log"); }

bool is_own(std::string_view name) { return std::find(kOwn.begin(), kOwn.end(), name) != kOwn.end(); }

Error refuse(const std::string& folder, std::string_view what) {
  return Error::make(Reason::Forbidden,
                     "the folder " + folder + " " + std::string(what) + ". Choose another one by --data-dir.");
}

}  // namespace

std::optional<std::string> disk_problem(const std::string& folder) {
  struct statvfs info{};
  if (::statvfs(folder.c_str(), &info) != 0) return std::nullopt;
  const std::uint64_t free = static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize;
  if (free >= kDiskFullBytes) return std::nullopt;
  return "the disk of " + folder + " is full (" + std::to_string(free / 1024) +
         " KiB free): jobs and pods wait, and writes are refused, until there is room. Nothing that was acknowledged "
         "is lost; free some space, and all goes on by itself";
}

Done check_data_folder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return refuse(folder, "cannot be made: " + error.message());
  if (::access(folder.c_str(), R_OK | W_OK | X_OK) != 0)
    return refuse(folder, std::string("cannot be written to: ") + std::strerror(errno));
  std::string foreign;
  for (fs::directory_iterator entries(folder, error), end; !error && entries != end; entries.increment(error)) {
    const std::string name = entries->path().filename().string();
    if (is_own(name)) return Ok{};
    if (is_log(name)) continue;
    if (foreign.empty() || name < foreign) foreign = name;
  }
  if (error) return refuse(folder, "cannot be read: " + error.message());
  if (foreign.empty() || foreign == "lost+found") return Ok{};
  return refuse(folder, "holds files that are not a cluster's, such as " + base::quote(foreign));
}

}  // namespace basalt::cli
