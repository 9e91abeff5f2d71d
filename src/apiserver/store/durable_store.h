#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apiserver/store/file/store_file.h"
#include "apiserver/store/later_writes.h"
#include "apiserver/store/store_base.h"

namespace basalt::apiserver {

// A store with a file. Writers put their writes into a queue and wait; the committer, the only thread that touches the
// file and changes the table, takes all that wait and carries them out as one group:
//
//   decide    under the lock: check each write against the visible state, promise its slot, give it a revision;
//   commit    without the lock: one transaction for all of them;
//   publish   under the lock: make them visible, in the order of revisions; then wake the writers.
//
// A second write of a key in a group is put off to the next one, so that it is decided on what is durable. If the
// transaction fails, the slots' promises are withdrawn, the revisions were never seen and are used again, and the
// writers get the error. After an error that leaves it open what the disk holds the store is read-only.
//
// Limits: kGroupWritesMax writes and kGroupBytesMax bytes a group; StoreOptions::queued_writes_max waiting,
// and kQueuedBytesMax of those for which no thread waits; then TooManyRequests.
class DurableStore final : public StoreBase, public LaterWrites {
 public:
  DurableStore(rt::Runtime& runtime, StoreOptions options);
  // Loads the file and starts the committer.
  Done start();

  Done close() override;
  Result<EntryRef> write(const Write& write) override;
  std::vector<Result<EntryRef>> write_all(std::span<const Write> writes) override;
  void write_later(const Write& write, Told told) override;
  [[nodiscard]] StoreStats stats() const override;

 private:
  // The writers whose writes were queued between two groups. They are woken together.
  struct Round {
    explicit Round(rt::Runtime& runtime) : done(runtime) {}
    rt::Condition done;
  };

  struct Later;

  // One write on its way. Owned by its writer, which waits for `result`; or part of a Later.
  struct Pending {
    const Write* write = nullptr;
    std::size_t bytes = 0;
    Later* later = nullptr;  // null if a thread waits
    std::string key;
    EntryMaker maker;
    std::shared_ptr<Round> round;
    std::optional<Result<EntryRef>> result;  // guarded by the lock

    // The committer's.
    EntryRef before;
    EntryRef entry;
    const VersionTable::Slot* slot = nullptr;
    Revision revision = 0;
    std::int64_t row = 0;
    std::uint64_t row_check = 0;
  };
  // A write for which nobody waits. Owned by the queue, then by the committer.
  struct Later {
    Write write;  // without its texts, which `pending` has
    Pending pending;
    Told told;
  };

  Done load();
  Done reindex(std::vector<EntryRef>& loaded);
  Done begin(const Write& write, Pending& pending) const;
  // Puts writes into the queue and waits until each has a result.
  void submit(std::span<Pending> writes);
  // Into the queue, or a result at once. The committer is to be told after the last.
  void enqueue(Pending& pending) BASALT_REQUIRES(mutex_);
  void tell_committer() BASALT_REQUIRES(mutex_);

  void run_committer();
  // The next group, into group_; false when the store is closed and nothing waits.
  bool take_group();
  void decide_group();
  void decide_one(Pending& pending, const VersionTable::Place& place, Revision& revision) BASALT_REQUIRES(mutex_);
  Done commit_group();
  void publish_group();
  void fail_group(const Error& error);
  // Wakes the writers of the group and tells those who do not wait.
  void acknowledge();
  [[nodiscard]] Error read_only_error() const BASALT_REQUIRES(mutex_);

  rt::Thread committer_;

  rt::Condition work_;  // the committer waits for it
  std::deque<Pending*> queue_ BASALT_GUARDED_BY(mutex_);
  std::size_t queued_bytes_ BASALT_GUARDED_BY(mutex_) = 0;
  std::shared_ptr<Round> filling_ BASALT_GUARDED_BY(mutex_);  // of the writes that come in now
  bool committer_waits_ BASALT_GUARDED_BY(mutex_) = false;
  std::string read_only_reason_ BASALT_GUARDED_BY(mutex_);  // "" while writable

  // The committer's, and before it starts and after it ended the owner's.
  std::unique_ptr<StoreFile> file_;
  std::vector<Pending*> group_;                 // taken from the queue
  std::vector<Pending*> accepted_;              // of these, those that are carried out
  std::vector<std::shared_ptr<Round>> rounds_;  // of the group's writers: few
  std::vector<Later*> later_;                   // of the group, those for which nobody waits
  std::vector<StoreFile::Change> changes_;
};

}  // namespace basalt::apiserver
