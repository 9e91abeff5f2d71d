#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "json/reader.h"
#include "json/value.h"
#include "json/writer.h"

namespace basalt::json {

// A piece of JSON that we only carry: immutable text, shared by copies. Empty means absent. Valid JSON by construction
// when decoded; `of` takes text that the caller knows to be valid.
class Raw {
 public:
  Raw() = default;
  static Raw of(std::string text) { return Raw(std::make_shared<const std::string>(std::move(text))); }
  static Raw of(const Value& value) { return of(value.to_text()); }

  [[nodiscard]] bool empty() const { return text_ == nullptr; }
  [[nodiscard]] std::string_view text() const { return text_ ? std::string_view(*text_) : std::string_view(); }
  [[nodiscard]] Value value() const;  // null if empty
  bool operator==(const Raw& other) const { return text() == other.text(); }

 private:
  explicit Raw(std::shared_ptr<const std::string> text) : text_(std::move(text)) {}
  std::shared_ptr<const std::string> text_;
};

void decode(Reader& reader, Raw& raw);
void encode(Writer& writer, const Raw& raw);  // null if empty

// The members of an object that a generated struct does not know, as text. Eight bytes when there are none.
class UnknownFields {
 public:
  UnknownFields() = default;
  UnknownFields(const UnknownFields& other)
      : text_(other.text_ ? std::make_unique<std::string>(*other.text_) : nullptr) {}
  UnknownFields(UnknownFields&&) noexcept = default;
  UnknownFields& operator=(const UnknownFields& other) {
    text_ = other.text_ ? std::make_unique<std::string>(*other.text_) : nullptr;
    return *this;
  }
  UnknownFields& operator=(UnknownFields&&) noexcept = default;
  ~UnknownFields() = default;

  [[nodiscard]] bool empty() const { return !text_ || text_->empty(); }
  [[nodiscard]] std::string_view members() const { return text_ ? std::string_view(*text_) : std::string_view(); }
  // For codecs: keeps (or skips) the member that reader.next_member just announced.
  void take(Reader& reader, std::string_view key) {
    if (!reader.keep_unknown()) {
      reader.unknown_member(key, nullptr);
      return;
    }
    if (!text_) text_ = std::make_unique<std::string>();
    reader.unknown_member(key, text_.get());
  }
  bool operator==(const UnknownFields& other) const { return members() == other.members(); }

 private:
  std::unique_ptr<std::string> text_;
};

}  // namespace basalt::json
