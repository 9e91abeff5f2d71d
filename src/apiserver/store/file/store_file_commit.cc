#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "apiserver/store/entry_maker.h"
#include "apiserver/store/file/store_file.h"
#include "apiserver/store/file/store_format.h"
#include "base/check.h"

namespace basalt::apiserver {

// ---- checksums

struct RowHasher::Context {
  EVP_MD* algorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  EVP_MD_CTX* digest = EVP_MD_CTX_new();
};

RowHasher::RowHasher() : context_(std::make_unique<Context>()) {
  BASALT_CHECK(context_->algorithm != nullptr && context_->digest != nullptr);
}

RowHasher::~RowHasher() {
  EVP_MD_CTX_free(context_->digest);
  EVP_MD_free(context_->algorithm);
}

std::uint64_t RowHasher::hash(std::span<const std::int64_t> numbers, std::span<const std::string_view> texts) {
  std::array<unsigned char, 128> head{};
  std::size_t size = 0;
  const auto put = [&](std::uint64_t number) {
    for (int shift = 0; shift < 64; shift += 8) head[size++] = static_cast<unsigned char>(number >> shift);
  };
  BASALT_CHECK((numbers.size() + texts.size()) * 8 <= head.size());
  for (const std::int64_t number : numbers) put(static_cast<std::uint64_t>(number));
  for (const std::string_view text : texts) put(text.size());
  EVP_MD_CTX* digest = context_->digest;
  bool ok = EVP_DigestInit_ex2(digest, context_->algorithm, nullptr) == 1;
  ok = ok && EVP_DigestUpdate(digest, head.data(), size) == 1;
  for (const std::string_view text : texts) ok = ok && EVP_DigestUpdate(digest, text.data(), text.size()) == 1;
  std::array<unsigned char, EVP_MAX_MD_SIZE> result{};
  ok = ok && EVP_DigestFinal_ex(digest, result.data(), nullptr) == 1;
  BASALT_CHECK(ok);
  std::uint64_t first = 0;
  for (int i = 7; i >= 0; --i) first = first << 8 | result[static_cast<std::size_t>(i)];
  return first;
}

// ---- commits

Done StoreFile::begin() {
  Meta meta = meta_;
  meta.state = options_.is_synced ? kStateOpenFull : kStateOpenFast;
  if (meta_.state == kStateOpenFast) meta.revision += kFastRevisionJump;
  BASALT_TRY_DONE(commit_transaction({}, {}, meta));
  // So that the main file says how it was last used even if the log is lost.
  BASALT_TRY_DONE(database_.fold_log());
  if (!options_.is_synced) BASALT_TRY_DONE(database_.run("PRAGMA synchronous=NORMAL"));
  is_open_ = true;
  reserve_log();
  return Ok{};
}

Done StoreFile::commit(std::span<const NewResource> resources, std::span<Change> changes, Revision revision) {
  Meta meta = meta_;
  meta.revision = revision;
  return commit_transaction(resources, changes, meta);
}

Done StoreFile::commit_attributes(std::span<Change> changes, int scheme) {
  Meta meta = meta_;
  meta.attributes_scheme = scheme;
  return commit_transaction({}, changes, meta);
}

Done StoreFile::commit_transaction(std::span<const NewResource> resources, std::span<Change> changes, Meta meta) {
  const std::int64_t last_resource_id = last_resource_id_;
  auto done = apply(resources, changes, meta);
  if (!done.ok()) {
    is_failed_ = database_.failure_is_final();
    database_.rollback();
    forget(resources);
    last_resource_id_ = last_resource_id;
    return done;
  }
  meta_ = meta;
  return Ok{};
}

Done StoreFile::apply(std::span<const NewResource> resources, std::span<Change> changes, Meta& meta) {
  BASALT_TRY_DONE(begin_.run());
  for (const NewResource& resource : resources) {
    remember(resource.id, last_resource_id_ + 1, resource.name);
    BASALT_TRY_DONE(insert_resource_.bind(1, last_resource_id_).bind_text(2, resource.name).run());
  }
  for (Change& change : changes) BASALT_TRY_DONE(apply_change(change, meta));
  BASALT_TRY_DONE(write_meta(meta));
  return commit_.run();
}

Done StoreFile::apply_change(Change& change, Meta& meta) {
  meta.sum -= change.old_check;
  if (change.kind == ChangeKind::Delete) {
    --meta.objects;
    return delete_.bind(1, change.row).run();
  }
  const Entry& entry = *change.entry;
  Row row;
  row.row = change.row;
  row.resource = entry.resource();
  row.key = entry.key();
  row.create_revision = entry.create_revision();
  row.mod_revision = entry.mod_revision();
  row.revision_offset = EntryMaker::revision_offset(entry);
  row.attributes = entry.attributes().packed();
  row.object = *entry.object();
  change.new_check = row_hash(row);
  meta.sum += change.new_check;
  if (change.kind == ChangeKind::Insert) ++meta.objects;
  SqliteStatement& statement = change.kind == ChangeKind::Insert ? insert_ : update_;
  return statement.bind(1, row.row)
      .bind(2, resources_[static_cast<std::size_t>(row.resource)].id)
      .bind(3, row.create_revision)
      .bind(4, row.mod_revision)
      .bind(5, std::int64_t{row.revision_offset})
      .bind(6, change.new_check)
      .bind_text(7, row.key)
      .bind_blob(8, row.attributes)
      .bind_text(9, row.object)
      .run();
}

Done StoreFile::write_meta(const Meta& meta) {
  return update_meta_.bind(1, meta.revision)
      .bind(2, meta.objects)
      .bind(3, meta.sum)
      .bind(4, meta.attributes_scheme)
      .bind(5, meta.state)
      .bind(6, meta_hash(meta))
      .run();
}

// ---- upkeep

std::uint64_t StoreFile::log_bytes() const {
  constexpr std::uint64_t kHeader = 32;
  constexpr std::uint64_t kFrameHeader = 24;
  return kHeader +
         static_cast<std::uint64_t>(database_.log_pages()) * (kFrameHeader + static_cast<std::uint64_t>(page_bytes_));
}

std::uint64_t StoreFile::file_bytes(const std::filesystem::path& directory) {
  std::error_code failed;
  const auto bytes = std::filesystem::file_size(directory / "store.db", failed);
  return failed ? 0 : bytes;
}

void StoreFile::maintain() {
  if (is_failed_) return;
  if (log_bytes() >= fold_at_bytes_) {
    // A log that cannot be folded, on a full disk, goes on growing as far as there is room.
    const bool folded = database_.fold_log().ok();
    fold_at_bytes_ = folded ? options_.log_bytes_max : log_bytes() + options_.log_bytes_max / 4;
  }
  reserve_log();
}

void StoreFile::reserve_log() {
  const std::uint64_t reserve_max = options_.log_bytes_max + 2 * kLogReserveHeadroom;
  if (!options_.is_synced || log_bytes() + kLogReserveHeadroom <= log_reserved_bytes_) return;
  if (log_reserved_bytes_ >= reserve_max) return;
  log_reserved_bytes_ = std::min(reserve_max, std::max(kLogReserveFirst, 2 * log_reserved_bytes_));
  // SQLite holds no locks on the log's file, so that closing a second descriptor of it does no harm.
  const int descriptor = ::open(log_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (descriptor < 0) return;
  struct stat status{};
  if (::fstat(descriptor, &status) == 0) {
    static constexpr std::array<char, 1U << 16> kZeros{};
    const auto before = static_cast<std::uint64_t>(status.st_size);
    std::uint64_t at = before;
    bool ok = true;
    while (ok && at < log_reserved_bytes_) {
      const std::size_t size = std::min<std::uint64_t>(kZeros.size(), log_reserved_bytes_ - at);
      const ssize_t written = ::pwrite(descriptor, kZeros.data(), size, static_cast<off_t>(at));
      ok = written > 0;
      if (ok) at += static_cast<std::uint64_t>(written);
    }
    // Not at the cost of the last space on the disk.
    if (!ok && ::ftruncate(descriptor, static_cast<off_t>(before)) != 0) ok = false;
    ::fdatasync(descriptor);
  }
  ::close(descriptor);
}

Done StoreFile::close() {
  Done result = Ok{};
  if (is_open_ && !is_failed_) {
    Meta meta = meta_;
    meta.state = kStateClosed;
    // In any mode: what says that all is well must not come to the disk before the rest.
    result = database_.run("PRAGMA synchronous=FULL");
    if (result.ok()) result = commit_transaction({}, {}, meta);
    if (result.ok()) database_.fold_on_close();
  }
  is_open_ = false;
  for (SqliteStatement* statement :
       {&insert_, &update_, &delete_, &insert_resource_, &update_meta_, &begin_, &commit_}) {
    statement->finish();
  }
  database_.close();
  return result;
}

}  // namespace basalt::apiserver
