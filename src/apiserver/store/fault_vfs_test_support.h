#pragma once

#include <sqlite3.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <vector>

// A SQLite file system for tests, on top of the real one. It can fail writes and syncs, and it knows what a loss of
// power may leave of each file: all that was synced, and of what was written since any subset of its 512-byte sectors.
// Files that SQLite makes or removes count as made or removed at once. Not part of the program.
namespace basalt::apiserver::testing {

class FaultVfs {
 public:
  explicit FaultVfs(std::string name) : name_(std::move(name)), base_(sqlite3_vfs_find(nullptr)) {
    vfs_ = *base_;
    vfs_.zName = name_.c_str();
    vfs_.pNext = nullptr;
    vfs_.pAppData = this;
    vfs_.szOsFile = static_cast<int>(sizeof(File)) + base_->szOsFile;
    vfs_.xOpen = &FaultVfs::open;
    vfs_.xDelete = &FaultVfs::remove;
    sqlite3_vfs_register(&vfs_, 0);
  }
  ~FaultVfs() { sqlite3_vfs_unregister(&vfs_); }
  FaultVfs(const FaultVfs&) = delete;
  FaultVfs& operator=(const FaultVfs&) = delete;
  [[nodiscard]] const std::string& name() const { return name_; }

  // Called before each write or sync with its number; returns SQLite's code, SQLITE_OK to go on. May call save_image().
  enum class Operation { Write, Sync };
  using Hook = std::function<int(Operation operation, std::uint64_t number)>;
  void set_hook(Hook hook) {
    const std::lock_guard lock(mutex_);
    hook_ = std::move(hook);
  }
  [[nodiscard]] std::uint64_t operations() const { return operations_.load(); }

  // Writes to `directory` what the files would be if power went now. `keep` of 0 to 1 says how much of what was not
  // synced has reached the disk all the same.
  void save_image(const std::filesystem::path& directory, std::uint64_t seed, double keep) {
    const std::lock_guard lock(mutex_);
    std::mt19937_64 random(seed);
    std::filesystem::create_directories(directory);
    for (const auto& [path, state] : files_) {
      std::string contents = state.synced;
      for (const Written& written : state.unsynced) {
        if (std::uniform_real_distribution<double>(0, 1)(random) > keep) continue;
        const std::size_t end = written.offset + written.bytes.size();
        if (contents.size() < end) contents.resize(end);
        contents.replace(written.offset, written.bytes.size(), written.bytes);
      }
      const auto target = directory / std::filesystem::path(path).filename();
      std::ofstream(target, std::ios::binary) << contents;
    }
  }

 private:
  static constexpr std::size_t kSector = 512;
  struct Written {
    std::size_t offset = 0;
    std::string bytes;
  };
  struct State {
    std::string synced;
    std::vector<Written> unsynced;
  };
  struct File {
    sqlite3_file base;
    FaultVfs* vfs;
    const char* path;  // null for a file without a name
    [[nodiscard]] sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
  };
  static File* as_file(sqlite3_file* file) { return reinterpret_cast<File*>(file); }
  static sqlite3_file* real(sqlite3_file* file) { return as_file(file)->real(); }

  int before(Operation operation) {
    const std::uint64_t number = ++operations_;
    Hook hook;
    {
      const std::lock_guard lock(mutex_);
      hook = hook_;
    }
    return hook ? hook(operation, number) : SQLITE_OK;
  }

  static int open(sqlite3_vfs* vfs, sqlite3_filename path, sqlite3_file* file, int flags, int* out_flags) {
    auto* self = static_cast<FaultVfs*>(vfs->pAppData);
    File* ours = as_file(file);
    ours->base.pMethods = nullptr;
    ours->vfs = self;
    ours->path = path;
    const int code = self->base_->xOpen(self->base_, path, ours->real(), flags, out_flags);
    if (code != SQLITE_OK) return code;
    ours->base.pMethods = methods();
    if (path != nullptr) {
      const std::lock_guard lock(self->mutex_);
      auto [place, is_new] = self->files_.try_emplace(path);
      if (is_new) {
        std::string& contents = place->second.synced;
        contents.resize(std::filesystem::file_size(path));
        std::ifstream(path, std::ios::binary).read(contents.data(), static_cast<std::streamsize>(contents.size()));
      }
    }
    return SQLITE_OK;
  }

  static int remove(sqlite3_vfs* vfs, const char* path, int sync_directory) {
    auto* self = static_cast<FaultVfs*>(vfs->pAppData);
    const std::lock_guard lock(self->mutex_);
    self->files_.erase(path);
    return self->base_->xDelete(self->base_, path, sync_directory);
  }

  static int write(sqlite3_file* file, const void* data, int size, sqlite3_int64 offset) {
    File* ours = as_file(file);
    if (const int code = ours->vfs->before(Operation::Write); code != SQLITE_OK) return code;
    const int code = ours->real()->pMethods->xWrite(ours->real(), data, size, offset);
    if (code != SQLITE_OK || ours->path == nullptr) return code;
    const std::lock_guard lock(ours->vfs->mutex_);
    auto& unsynced = ours->vfs->files_[ours->path].unsynced;
    const auto* bytes = static_cast<const char*>(data);
    for (std::size_t at = 0; at < static_cast<std::size_t>(size);) {
      const std::size_t start = static_cast<std::size_t>(offset) + at;
      const std::size_t length = std::min(static_cast<std::size_t>(size) - at, kSector - start % kSector);
      unsynced.push_back({start, std::string(bytes + at, length)});
      at += length;
    }
    return SQLITE_OK;
  }

  static int sync(sqlite3_file* file, int flags) {
    File* ours = as_file(file);
    if (const int code = ours->vfs->before(Operation::Sync); code != SQLITE_OK) return code;
    const int code = ours->real()->pMethods->xSync(ours->real(), flags);
    if (code != SQLITE_OK || ours->path == nullptr) return code;
    const std::lock_guard lock(ours->vfs->mutex_);
    State& state = ours->vfs->files_[ours->path];
    for (const Written& written : state.unsynced) {
      const std::size_t end = written.offset + written.bytes.size();
      if (state.synced.size() < end) state.synced.resize(end);
      state.synced.replace(written.offset, written.bytes.size(), written.bytes);
    }
    state.unsynced.clear();
    return SQLITE_OK;
  }

  static int truncate(sqlite3_file* file, sqlite3_int64 size) {
    File* ours = as_file(file);
    const int code = ours->real()->pMethods->xTruncate(ours->real(), size);
    if (code != SQLITE_OK || ours->path == nullptr) return code;
    const std::lock_guard lock(ours->vfs->mutex_);
    State& state = ours->vfs->files_[ours->path];
    if (state.synced.size() > static_cast<std::size_t>(size)) state.synced.resize(static_cast<std::size_t>(size));
    std::erase_if(state.unsynced, [&](const Written& w) { return w.offset >= static_cast<std::size_t>(size); });
    return SQLITE_OK;
  }

  static const sqlite3_io_methods* methods() {
    static const sqlite3_io_methods table = [] {
      sqlite3_io_methods m{};
      m.iVersion = 1;  // without shared memory: the store uses none
      m.xClose = [](sqlite3_file* f) { return real(f)->pMethods->xClose(real(f)); };
      m.xRead = [](sqlite3_file* f, void* data, int size, sqlite3_int64 at) {
        return real(f)->pMethods->xRead(real(f), data, size, at);
      };
      m.xWrite = &FaultVfs::write;
      m.xTruncate = &FaultVfs::truncate;
      m.xSync = &FaultVfs::sync;
      m.xFileSize = [](sqlite3_file* f, sqlite3_int64* size) { return real(f)->pMethods->xFileSize(real(f), size); };
      m.xLock = [](sqlite3_file* f, int lock) { return real(f)->pMethods->xLock(real(f), lock); };
      m.xUnlock = [](sqlite3_file* f, int lock) { return real(f)->pMethods->xUnlock(real(f), lock); };
      m.xCheckReservedLock = [](sqlite3_file* f, int* out) {
        return real(f)->pMethods->xCheckReservedLock(real(f), out);
      };
      m.xFileControl = [](sqlite3_file* f, int operation, void* argument) {
        return real(f)->pMethods->xFileControl(real(f), operation, argument);
      };
      m.xSectorSize = [](sqlite3_file* f) { return real(f)->pMethods->xSectorSize(real(f)); };
      m.xDeviceCharacteristics = [](sqlite3_file* f) { return real(f)->pMethods->xDeviceCharacteristics(real(f)); };
      return m;
    }();
    return &table;
  }

  const std::string name_;
  sqlite3_vfs* const base_;
  sqlite3_vfs vfs_{};
  std::atomic<std::uint64_t> operations_{0};
  std::mutex mutex_;
  Hook hook_;
  std::map<std::string, State> files_;
};

}  // namespace basalt::apiserver::testing
