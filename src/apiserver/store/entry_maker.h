#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "apiserver/store/entry.h"

namespace basalt::apiserver {

// "ns/name", or "name" if `ns` is empty. Into a buffer that is used again.
void join_key(std::string_view ns, std::string_view name, std::string& out);

// Makes one entry in two steps. The text is assembled by the writer, outside the store's lock, with room for as many
// digits as the next revision has; commit order then decides the revision, and the digits are put in. Only where the
// number of digits has grown in between is the text assembled again. One thread at a time; the entry must not be shared
// before finish().
class EntryMaker {
 public:
  struct Parts {
    ResourceId resource{};
    std::string_view key;
    std::string_view before;
    std::string_view after;
    std::string_view attributes;
  };
  // A version of an object; `revision_guess` is the revision that it will most likely get. Check with fits() first.
  static EntryMaker put(const Parts& parts, Revision revision_guess);
  // The last state of an object that is deleted.
  static EntryMaker remove(const Entry& last, Revision revision_guess);
  // A version as it was read from the file; the revision is in the text already.
  struct Stored {
    ResourceId resource{};
    std::string_view key;
    std::string_view object;
    std::string_view attributes;
    Revision create_revision = 0;
    Revision mod_revision = 0;
    std::uint32_t revision_offset = 0;
  };
  // Null if the digits at the offset are not the revision: the row is damaged.
  static EntryRef stored(const Stored& stored);

  // Sizes are kept in 32 bits.
  [[nodiscard]] static bool fits(const Parts& parts);
  [[nodiscard]] static std::uint32_t revision_offset(const Entry& entry) { return entry.revision_offset_; }

  EntryMaker() = default;
  [[nodiscard]] const Entry* entry() const { return entry_.get(); }
  // The version before, for as long as the history holds it; see VersionTable.
  [[nodiscard]] static EntryRef& previous(const Entry& entry) { return entry.previous_; }

  // Gives the entry its revisions; create_revision 0 = this is the first version. Returns what may now be shared.
  EntryRef finish(Revision revision, Revision create_revision);

 private:
  std::shared_ptr<Entry> entry_;
  std::shared_ptr<std::string> object_;  // entry_->object_, still writable
  std::uint32_t digits_ = 0;             // room for so many
};

}  // namespace basalt::apiserver
