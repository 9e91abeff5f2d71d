#include <utility>

#include "apiserver/store/store_base.h"

namespace basalt::apiserver {
namespace {

// A store without a file. A write is carried out by the thread that asks for it, under the lock; it waits for nothing.
class MemoryStore final : public StoreBase {
 public:
  using StoreBase::StoreBase;

  Done close() override {
    close_watches();
    return Ok{};
  }

  Result<EntryRef> write(const Write& write) override {
    std::string key;
    join_key(write.ns, write.name, key);
    BASALT_TRY(EntryMaker maker, assemble(write, key));
    Aftermath aftermath;
    auto result = carry_out(write, key, maker, aftermath);
    aftermath.carry_out();
    return result;
  }

  // There is no commit to share, so nothing is gained by taking the lock for longer.
  std::vector<Result<EntryRef>> write_all(std::span<const Write> writes) override {
    std::vector<Result<EntryRef>> results;
    results.reserve(writes.size());
    for (const Write& one : writes) results.push_back(write(one));
    return results;
  }

 private:
  Result<EntryRef> carry_out(const Write& write, std::string_view key, EntryMaker& maker, Aftermath& aftermath) {
    const std::uint32_t second = now_second();
    rt::MutexLock lock(mutex_);
    if (is_closed_) return closed_error();
    const VersionTable::Place place = table_.locate(write.resource, key);
    BASALT_TRY(const EntryRef before, decide(write, key, place));
    const Revision revision = revision_ + 1;
    if (write.kind == WriteKind::Delete) maker = EntryMaker::remove(*before, revision);
    const VersionTable::Slot& slot = table_.promise(place, *maker.entry());
    EntryRef entry = maker.finish(revision, before ? before->create_revision() : 0);
    publish(slot, entry, second, aftermath);
    evict(second, 1, aftermath);
    ++counters_.commits;
    ++counters_.writes;
    return entry;
  }
};

}  // namespace

std::unique_ptr<Store> make_memory_store(rt::Runtime& runtime, StoreOptions options) {
  return std::make_unique<MemoryStore>(runtime, std::move(options));
}

}  // namespace basalt::apiserver
