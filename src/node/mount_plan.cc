#include "node/mount_plan.h"

#include <cstdio>
#include <filesystem>
#include <iterator>
#include <map>
#include <system_error>

#include "base/sort.h"
#include "base/strings.h"

namespace basalt::node {
namespace {

namespace fs = std::filesystem;
using Kind = MountStep::Kind;

bool is_below(std::string_view path, std::string_view folder) {
  return path.size() > folder.size() && path.starts_with(folder) && (folder == "/" || path[folder.size()] == '/');
}

std::string joined(std::string_view folder, std::string_view rest) {
  std::string path(folder);
  if (path.empty() || path.back() != '/') path += '/';
  while (rest.starts_with('/')) rest.remove_prefix(1);
  return path + std::string(rest);
}

Error cannot(std::string_view what, const std::error_code& error) {
  return Error::make(Reason::InternalError, std::string(what) + ": " + error.message());
}

bool is_folder(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

// The deepest folder on the way to `target` that the host has, with links resolved; `rest` is what is missing.
std::string existing_ancestor(const std::string& target, std::string& rest) {
  fs::path path(target);
  std::error_code error;
  while (path != "/" && !fs::is_directory(path, error)) path = path.parent_path();
  const fs::path resolved = fs::canonical(path, error);
  const std::size_t shown = path == "/" ? 1 : path.native().size() + 1;
  rest = shown <= target.size() ? target.substr(shown) : "";
  return error ? path.native() : resolved.native();
}

// Folders down to the last component of `rest`, which becomes a folder or an empty file.
void make_place(std::vector<MountStep>& steps, std::string_view base, std::string_view rest, bool folder) {
  std::string path(base);
  const auto parts = base::split(rest, '/');
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].empty()) continue;
    path = joined(path, parts[i]);
    const bool last = i + 1 == parts.size();
    steps.push_back({last && !folder ? Kind::MakeFile : Kind::MakeFolder, "", path});
  }
}

struct Missing {
  std::string rest;
  bool folder = true;
};

// A tmpfs at `stage` with all entries of `folder` and the missing places.
Result<std::vector<MountStep>> shadow(const std::string& folder, const std::vector<Missing>& missing,
                                      const std::string& stage) {
  std::vector<MountStep> steps{{Kind::Tmpfs, "", stage}};
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  if (error) return cannot("cannot read " + folder, error);
  std::size_t count = 0;
  for (; entries != fs::directory_iterator(); entries.increment(error)) {
    if (error) return cannot("cannot read " + folder, error);
    if (++count > kFolderEntriesMax) {
      return Error::make(Reason::InvalidInput, "cannot mount below " + folder + ": it has more than " +
                                                   std::to_string(kFolderEntriesMax) +
                                                   " entries; mount at another path");
    }
    const std::string source = entries->path().native();
    const std::string place = joined(stage, entries->path().filename().native());
    std::error_code ignored;
    if (entries->is_symlink(ignored)) {
      steps.push_back({Kind::MakeLink, fs::read_symlink(entries->path(), ignored).native(), place});
      continue;
    }
    steps.push_back({entries->is_directory(ignored) ? Kind::MakeFolder : Kind::MakeFile, "", place});
    steps.push_back({Kind::Bind, source, place});
  }
  for (const Missing& one : missing) make_place(steps, stage, one.rest, one.folder);
  return steps;
}

// The mount point inside the source of an earlier mount.
Done make_inside(const std::string& path, bool folder) {
  std::error_code error;
  if (fs::exists(path, error)) return Ok{};
  fs::create_directories(folder ? fs::path(path) : fs::path(path).parent_path(), error);
  if (error) return cannot("cannot make the mount point " + path, error);
  if (folder) return Ok{};
  std::FILE* file = std::fopen(path.c_str(), "ae");
  if (file == nullptr) return Error::make(Reason::InternalError, "cannot make the mount point " + path);
  std::fclose(file);
  return Ok{};
}

std::string normalised(const std::string& path) {
  std::string clean = fs::path(path).lexically_normal().native();
  while (clean.size() > 1 && clean.back() == '/') clean.pop_back();
  return clean;
}

}  // namespace

Result<std::vector<MountStep>> plan_mounts(std::vector<BindMount> mounts, const std::string& scratch) {
  std::vector<MountStep> steps;
  if (mounts.empty()) return steps;
  for (BindMount& mount : mounts) {
    mount.target = normalised(mount.target);
    if (!mount.target.starts_with('/') || mount.target == "/") {
      return Error::invalid_input("cannot mount at \"" + mount.target + "\": a mount path is absolute and not /");
    }
  }
  base::stable_sort(mounts, [](const BindMount& a, const BindMount& b) { return a.target < b.target; });
  std::map<std::string, std::vector<Missing>> shadows;  // by the folder that is covered; "/" comes first
  for (std::size_t i = 0; i < mounts.size(); ++i) {
    const BindMount& mount = mounts[i];
    const bool folder = is_folder(mount.source);
    const BindMount* outer = nullptr;
    for (std::size_t k = 0; k < i; ++k) {
      if (is_below(mount.target, mounts[k].target)) outer = &mounts[k];
    }
    if (outer != nullptr) {
      BASALT_TRY_DONE(make_inside(joined(outer->source, mount.target.substr(outer->target.size())), folder));
      continue;
    }
    std::error_code error;
    if (fs::exists(mount.target, error) && is_folder(mount.target) == folder) continue;
    std::string rest;
    const std::string ancestor = existing_ancestor(fs::path(mount.target).parent_path().native(), rest);
    shadows[ancestor].push_back({joined(rest, fs::path(mount.target).filename().native()), folder});
  }
  steps.push_back({Kind::MakePrivate, "", "/"});
  int number = 0;
  for (const auto& [folder, missing] : shadows) {
    const std::string stage = joined(scratch, "stage-" + std::to_string(number++));
    std::error_code error;
    fs::create_directories(stage, error);
    if (error) return cannot("cannot make " + stage, error);
    BASALT_TRY(std::vector<MountStep> more, shadow(folder, missing, stage));
    steps.insert(steps.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
    // The covered folder sees the tmpfs; of the root itself this needs a change of root.
    if (folder == "/") {
      steps.push_back({Kind::ChangeRoot, "", stage});
    } else {
      steps.push_back({Kind::Bind, stage, folder});
    }
  }
  for (const BindMount& mount : mounts) {
    steps.push_back({Kind::Bind, mount.source, mount.target});
    if (mount.read_only) steps.push_back({Kind::ReadOnly, "", mount.target});
  }
  return steps;
}

}  // namespace basalt::node
