#include "apiserver/store/entry_maker.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include "base/check.h"

namespace basalt::apiserver {
namespace {

std::uint32_t digits_of(Revision revision) {
  BASALT_CHECK(revision > 0);
  std::uint32_t digits = 1;
  while (revision >= 10) {
    revision /= 10;
    ++digits;
  }
  return digits;
}

// Exactly as large as needed: the text stays in memory as long as the object.
std::shared_ptr<std::string> assemble(std::string_view before, std::uint32_t digits, std::string_view after) {
  auto text = std::make_shared<std::string>();
  text->reserve(before.size() + digits + after.size());
  text->append(before);
  text->append(digits, '0');
  text->append(after);
  return text;
}

std::uint32_t name_offset_of(std::string_view key) {
  const auto slash = key.find('/');
  return slash == std::string_view::npos ? 0 : static_cast<std::uint32_t>(slash + 1);
}

}  // namespace

std::size_t Entry::bytes() const {
  // The entry and the string of the object each have a counter block beside them; the rest is what malloc adds.
  constexpr std::size_t kOverhead = 2 * 16 + 4 * 8;
  return sizeof(Entry) + text_.size() + sizeof(std::string) + (object_ ? object_->size() : 0) + kOverhead;
}

void join_key(std::string_view ns, std::string_view name, std::string& out) {
  out.clear();
  if (!ns.empty()) {
    out.append(ns);
    out.push_back('/');
  }
  out.append(name);
}

bool EntryMaker::fits(const Parts& parts) {
  constexpr std::size_t kMax = std::numeric_limits<std::uint32_t>::max() / 2;
  return parts.key.size() < kMax && parts.before.size() < kMax && parts.after.size() < kMax &&
         parts.attributes.size() < kMax;
}

EntryMaker EntryMaker::put(const Parts& parts, Revision revision_guess) {
  EntryMaker maker;
  maker.digits_ = digits_of(revision_guess);
  maker.object_ = assemble(parts.before, maker.digits_, parts.after);
  maker.entry_ = std::make_shared<Entry>(Entry::Key{});
  Entry& entry = *maker.entry_;
  entry.object_ = maker.object_;
  entry.text_.reserve(parts.key.size() + parts.attributes.size());
  entry.text_.append(parts.key);
  entry.text_.append(parts.attributes);
  entry.resource_ = parts.resource;
  entry.key_size_ = static_cast<std::uint32_t>(parts.key.size());
  entry.name_offset_ = name_offset_of(parts.key);
  entry.revision_offset_ = static_cast<std::uint32_t>(parts.before.size());
  return maker;
}

EntryMaker EntryMaker::remove(const Entry& last, Revision revision_guess) {
  const std::string_view object = *last.object_;
  Parts parts;
  parts.resource = last.resource_;
  parts.key = last.key();
  parts.before = object.substr(0, last.revision_offset_);
  parts.after = object.substr(last.revision_offset_ + digits_of(last.mod_revision_));
  parts.attributes = last.attributes().packed();
  EntryMaker maker = put(parts, revision_guess);
  maker.entry_->is_deleted_ = true;
  return maker;
}

EntryRef EntryMaker::stored(const Stored& stored) {
  if (stored.mod_revision <= 0 || stored.create_revision <= 0 || stored.create_revision > stored.mod_revision ||
      stored.key.empty() || stored.revision_offset > stored.object.size()) {
    return nullptr;
  }
  const std::uint32_t digits = digits_of(stored.mod_revision);
  if (stored.object.substr(stored.revision_offset, digits) != std::to_string(stored.mod_revision)) return nullptr;
  auto entry = std::make_shared<Entry>(Entry::Key{});
  entry->object_ = std::make_shared<const std::string>(stored.object);
  entry->text_.reserve(stored.key.size() + stored.attributes.size());
  entry->text_.append(stored.key);
  entry->text_.append(stored.attributes);
  entry->create_revision_ = stored.create_revision;
  entry->mod_revision_ = stored.mod_revision;
  entry->resource_ = stored.resource;
  entry->key_size_ = static_cast<std::uint32_t>(stored.key.size());
  entry->name_offset_ = name_offset_of(stored.key);
  entry->revision_offset_ = stored.revision_offset;
  return entry;
}

EntryRef EntryMaker::finish(Revision revision, Revision create_revision) {
  Entry& entry = *entry_;
  const std::uint32_t digits = digits_of(revision);
  if (digits != digits_) {
    const std::string_view object = *object_;
    object_ =
        assemble(object.substr(0, entry.revision_offset_), digits, object.substr(entry.revision_offset_ + digits_));
    digits_ = digits;
    entry.object_ = object_;
  }
  char* begin = object_->data() + entry.revision_offset_;
  const auto written = std::to_chars(begin, begin + digits, revision);
  BASALT_CHECK(written.ec == std::errc() && written.ptr == begin + digits);
  entry.mod_revision_ = revision;
  entry.create_revision_ = create_revision == 0 ? revision : create_revision;
  object_.reset();
  return std::exchange(entry_, nullptr);
}

}  // namespace basalt::apiserver
