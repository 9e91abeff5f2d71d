#include "node/pod_volumes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/strings.h"
#include "json/value.h"

namespace basalt::node {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kDefaultMode = 0644;

Error io_error(const std::string& what) {
  return Error::make(Reason::InternalError, what + ": " + std::strerror(errno));
}

// A path inside a volume: relative, and it stays inside.
Done check_inside(std::string_view path) {
  bool fine = !path.empty() && !path.starts_with('/');
  for (const std::string_view part : base::split(path, '/')) fine = fine && part != "..";
  if (fine) return Ok{};
  return Error::invalid_input("path " + base::quote(path) + " must be relative and without \"..\"");
}

Done make_folder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return Error::make(Reason::InternalError, "cannot make folder " + path + ": " + error.message());
  return Ok{};
}

struct File {
  std::string bytes;
  unsigned mode = kDefaultMode;
};
using Files = std::map<std::string, File>;  // by path in the volume

Done add_data(Files& files, const std::map<std::string, std::string>& data,
              const std::vector<api::core::KeyToPath>& items, unsigned mode, bool optional) {
  if (items.empty()) {
    for (const auto& [key, bytes] : data) {
      BASALT_TRY_DONE(check_inside(key));
      files[key] = {bytes, mode};
    }
    return Ok{};
  }
  for (const auto& item : items) {
    BASALT_TRY_DONE(check_inside(item.path));
    const auto found = data.find(item.key);
    if (found == data.end()) {
      if (optional) continue;
      return Error::make(Reason::NotFound, "references non-existent key " + item.key);
    }
    files[item.path] = {found->second, item.mode ? static_cast<unsigned>(*item.mode) : mode};
  }
  return Ok{};
}

Done add_downward(Files& files, const api::core::Pod& pod, const PodPlace& place,
                  const std::vector<api::core::DownwardApiFile>& items, unsigned mode) {
  for (const auto& item : items) {
    BASALT_TRY_DONE(check_inside(item.path));
    File file{"", item.mode ? static_cast<unsigned>(*item.mode) : mode};
    if (item.field_ref) {
      BASALT_TRY(file.bytes, field_text(pod, place, item.field_ref->field_path));
    } else if (item.resource_field_ref) {
      BASALT_TRY(file.bytes, resource_text(pod, place, pod.spec.containers.front(), *item.resource_field_ref));
    }
    files[item.path] = std::move(file);
  }
  return Ok{};
}

template <class Source>
Done add_config_map(Files& files, const std::string& ns, const std::string& name, const Source& source, unsigned mode,
                    PodObjects& objects) {
  const bool optional = source.optional.value_or(false);
  const auto object = objects.config_map(ns, name);
  if (!object.ok() && object.error().is(Reason::NotFound) && optional) return Ok{};
  if (!object.ok()) return object.error();
  BASALT_TRY(const auto data, object_data(*object));
  return add_data(files, data, source.items, mode, optional);
}

template <class Source>
Done add_secret(Files& files, const std::string& ns, const std::string& name, const Source& source, unsigned mode,
                PodObjects& objects) {
  const bool optional = source.optional.value_or(false);
  const auto object = objects.secret(ns, name);
  if (!object.ok() && object.error().is(Reason::NotFound) && optional) return Ok{};
  if (!object.ok()) return object.error();
  BASALT_TRY(const auto data, object_data(*object));
  return add_data(files, data, source.items, mode, optional);
}

Done add_token(Files& files, const api::core::Pod& pod, const json::Value& source, unsigned mode, PodObjects& objects) {
  const std::string path(source.string_at({"path"}));
  BASALT_TRY_DONE(check_inside(path));
  TokenWish wish;
  wish.audience = source.string_at({"audience"});
  const json::Value* seconds = source.find("expirationSeconds");
  if (seconds != nullptr && seconds->is_int()) wish.seconds = seconds->as_int();
  BASALT_TRY(std::string token, objects.token(pod, wish));
  files[path] = {std::move(token), mode};
  return Ok{};
}

unsigned mode_or_default(const std::optional<std::int32_t>& mode) {
  return mode ? static_cast<unsigned>(*mode) : kDefaultMode;
}

Result<Files> volume_files(const api::core::Pod& pod, const PodPlace& place, const api::core::Volume& volume,
                           PodObjects& objects) {
  Files files;
  const std::string& ns = pod.metadata.namespace_;
  if (const auto& source = volume.config_map) {
    BASALT_TRY_DONE(add_config_map(files, ns, source->name, *source, mode_or_default(source->default_mode), objects));
  } else if (const auto& secret = volume.secret) {
    BASALT_TRY_DONE(
        add_secret(files, ns, secret->secret_name, *secret, mode_or_default(secret->default_mode), objects));
  } else if (const auto& downward = volume.downward_api) {
    BASALT_TRY_DONE(add_downward(files, pod, place, downward->items, mode_or_default(downward->default_mode)));
  } else if (const auto& projected = volume.projected) {
    const unsigned mode = mode_or_default(projected->default_mode);
    for (const auto& one : projected->sources) {
      if (one.config_map) {
        BASALT_TRY_DONE(add_config_map(files, ns, one.config_map->name, *one.config_map, mode, objects));
      }
      if (one.secret) {
        BASALT_TRY_DONE(add_secret(files, ns, one.secret->name, *one.secret, mode, objects));
      }
      if (one.downward_api) {
        BASALT_TRY_DONE(add_downward(files, pod, place, one.downward_api->items, mode));
      }
      if (!one.service_account_token.empty()) {
        BASALT_TRY_DONE(add_token(files, pod, one.service_account_token.value(), mode, objects));
      }
    }
  }
  return files;
}

bool has_files(const api::core::Volume& volume) {
  return volume.config_map || volume.secret || volume.downward_api || volume.projected;
}

Done remove_others(const std::string& folder, const Files& files) {
  std::error_code error;
  std::vector<std::string> gone;
  for (fs::recursive_directory_iterator entries(folder, error), end; !error && entries != end;
       entries.increment(error)) {
    const std::string name = entries->path().lexically_relative(folder).native();
    std::error_code ignored;
    if (!entries->is_directory(ignored) && files.find(name) == files.end()) gone.push_back(entries->path().native());
  }
  for (const std::string& path : gone) fs::remove(path, error);
  return Ok{};
}

Done make_host_path(const api::core::HostPathVolumeSource& source, const std::string& path) {
  const std::string type = source.type.value_or("");
  std::error_code error;
  const bool there = fs::exists(path, error);
  if (type == "File" || type == "FileOrCreate") {
    if (there) return Ok{};
    if (type == "File") return Error::make(Reason::NotFound, "there is no file " + path);
    return write_file(path, "", kDefaultMode);
  }
  if (type == "Directory" && !there) return Error::make(Reason::NotFound, "there is no folder " + path);
  return there ? Done(Ok{}) : make_folder(path);
}

Done make_volume(const api::core::Pod& pod, const PodPlace& place, const api::core::Volume& volume,
                 const std::string& path, PodObjects& objects) {
  if (has_files(volume)) {
    BASALT_TRY(const Files files, volume_files(pod, place, volume, objects));
    BASALT_TRY_DONE(make_folder(path));
    for (const auto& [name, file] : files) {
      const std::string target = path + "/" + name;
      if (read_file(target) != file.bytes) {
        BASALT_TRY_DONE(write_file(target, file.bytes, file.mode));
      }
    }
    return remove_others(path, files);
  }
  if (volume.host_path) return make_host_path(*volume.host_path, path);
  if (const auto& claim = volume.persistent_volume_claim) {
    BASALT_TRY_DONE(objects.claim(pod.metadata.namespace_, claim->claim_name));
    return make_folder(path);
  }
  if (volume.empty_dir) return make_folder(path);
  return Error::invalid_input(
      "this kind of volume is not offered by process nodes; they have configMap, secret, downwardAPI, projected, "
      "emptyDir, hostPath and persistentVolumeClaim");
}

}  // namespace

Done write_file(const std::string& path, std::string_view bytes, unsigned mode) {
  BASALT_TRY_DONE(make_folder(fs::path(path).parent_path().native()));
  const std::string temporary = path + ".new~";
  const int fd = ::open(temporary.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
  if (fd < 0) return io_error("cannot write " + temporary);
  std::string_view left = bytes;
  while (!left.empty()) {
    const ssize_t written = ::write(fd, left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;
    left.remove_prefix(static_cast<std::size_t>(written));
  }
  const bool good = left.empty() && ::fchmod(fd, mode & 0777) == 0;
  Done result = good ? Done(Ok{}) : Done(io_error("cannot write " + temporary));
  ::close(fd);
  if (result.ok() && ::rename(temporary.c_str(), path.c_str()) != 0) result = io_error("cannot replace " + path);
  if (!result.ok()) ::unlink(temporary.c_str());
  return result;
}

std::optional<std::string> read_file(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return std::nullopt;
  std::string text;
  std::array<char, 8192> piece{};
  while (const std::size_t got = std::fread(piece.data(), 1, piece.size(), file)) text.append(piece.data(), got);
  const bool failed = std::ferror(file) != 0;
  std::fclose(file);
  if (failed) return std::nullopt;
  return text;
}

std::string volume_path(const api::core::Pod& pod, const api::core::Volume& volume, const VolumeFolders& folders) {
  if (volume.host_path) {
    const std::string clean = fs::path("/" + volume.host_path->path).lexically_normal().native();
    return folders.host_root + clean;
  }
  if (volume.persistent_volume_claim)
    return folders.claims + "/" + pod.metadata.namespace_ + "/" + volume.persistent_volume_claim->claim_name;
  return folders.pod + "/volumes/" + volume.name;
}

Done make_volumes(const api::core::Pod& pod, const PodPlace& place, const VolumeFolders& folders, PodObjects& objects) {
  for (const auto& volume : pod.spec.volumes) {
    Done done = make_volume(pod, place, volume, volume_path(pod, volume, folders), objects);
    if (!done.ok()) return done.error().with_context("volume " + volume.name);
  }
  return Ok{};
}

bool has_changing_volumes(const api::core::Pod& pod) {
  for (const auto& volume : pod.spec.volumes) {
    if (has_files(volume)) return true;
  }
  return false;
}

std::string volume_variable(std::string_view name) {
  std::string text = "BASALT_VOLUME_";
  for (const char c : name) text += base::is_alphanumeric(c) ? base::to_upper(c) : '_';
  return text;
}

Result<std::vector<BindMount>> container_mounts(const api::core::Pod& pod, const api::core::Container& container,
                                                const Environment& env, const VolumeFolders& folders,
                                                const std::string& rootfs) {
  std::vector<BindMount> mounts;
  for (const auto& mount : container.volume_mounts) {
    const api::core::Volume* volume = nullptr;
    for (const auto& one : pod.spec.volumes) {
      if (one.name == mount.name) volume = &one;
    }
    if (volume == nullptr)
      return Error::invalid_input("volumeMounts names volume " + mount.name + ", which is not there");
    BindMount bind{volume_path(pod, *volume, folders), fs::path("/" + mount.mount_path).lexically_normal().native(),
                   mount.read_only || has_files(*volume)};
    const std::string sub = mount.sub_path_expr.empty() ? mount.sub_path : expand_variables(mount.sub_path_expr, env);
    if (!sub.empty()) {
      BASALT_TRY_DONE(check_inside(sub));
      bind.source += "/" + sub;
      std::error_code error;
      if (!fs::exists(bind.source, error)) {
        BASALT_TRY_DONE(make_folder(bind.source));
      }
    }
    const std::string place = rootfs + bind.target;
    std::error_code error;
    BASALT_TRY_DONE(make_folder(fs::path(place).parent_path().native()));
    fs::remove(place, error);  // a link of an earlier run
    fs::create_symlink(bind.source, place, error);
    mounts.push_back(std::move(bind));
  }
  return mounts;
}

}  // namespace basalt::node
