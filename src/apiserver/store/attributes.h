#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace basalt::apiserver {

// What selectors look at, packed by the writer of an object beside its text, so that lists and watches match without
// parsing. The store keeps the packed form, in memory and on disk, and never looks inside.
//
// A view: it does not own the text (an Entry does). Safe on any bytes: a garbled text has fewer labels and fields.
class Attributes {
 public:
  Attributes() = default;
  explicit Attributes(std::string_view packed) : packed_(packed) {}

  [[nodiscard]] std::string_view uid() const;
  // Nothing if there is no such label.
  [[nodiscard]] std::optional<std::string_view> label(std::string_view key) const;
  // Nothing if the writer did not index this field: the reader then has to parse the object.
  [[nodiscard]] std::optional<std::string_view> field(std::string_view path) const;
  [[nodiscard]] std::vector<std::pair<std::string_view, std::string_view>> labels() const;
  [[nodiscard]] std::vector<std::pair<std::string_view, std::string_view>> fields() const;
  [[nodiscard]] std::string_view packed() const { return packed_; }

 private:
  std::string_view packed_;
};

// Packs attributes into a buffer that is used again for the next object: reset(), add, packed(). One thread.
// The format is in docs/internals/storage-format.md.
class AttributesWriter {
 public:
  void reset(std::string_view uid);
  void add_label(std::string_view key, std::string_view value);
  void add_field(std::string_view path, std::string_view value);
  // Valid until the next reset() or add.
  [[nodiscard]] std::string_view packed() const { return buffer_; }

 private:
  void append(char kind, std::string_view key, std::string_view value);
  std::string buffer_;
};

}  // namespace basalt::apiserver
