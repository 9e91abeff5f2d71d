#pragma once

#include <yaml.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

// From text to a tree of nodes, by libyaml's events. Internal to yaml/.
namespace basalt::yaml {

// Small: there can be one for every two bytes of input. Texts live in the tree's arena, nodes refer to one another by
// index.
struct Node {
  enum class Kind : std::uint8_t { Scalar, Sequence, Mapping, Alias };
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;

  Kind kind = Kind::Scalar;
  bool is_plain = false;  // scalar: its meaning follows from its text (unquoted, without a tag)
  bool is_open = false;   // for the converter: being converted, so an alias to it is a cycle
  std::uint32_t line = 0;
  std::uint32_t column = 0;
  std::uint32_t text_begin = 0;
  std::uint32_t text_size = 0;
  std::uint32_t tag_size = 0;         // the tag follows the text in the arena
  std::uint32_t first_child = kNone;  // sequence, mapping (keys and values in turn); the target of an alias
  std::uint32_t next_sibling = kNone;
};

struct Place {
  std::size_t line = 1;
  std::size_t column = 1;
};

// Of a byte; columns count bytes here.
[[nodiscard]] Place place_of_byte(std::string_view text, std::size_t offset);

// "line 3, column 5: message".
[[nodiscard]] Error error_at(Place place, std::string_view message);

// The documents of one text, one at a time. Checks nesting, and aliases against the anchors before them.
class Composer {
 public:
  Composer(std::string_view text, int depth_max);
  Composer(const Composer&) = delete;
  Composer& operator=(const Composer&) = delete;
  ~Composer();

  // Reads the next document; false at the end of the stream. Its root is node 0. Replaces the document before it.
  Result<bool> next_document();

  [[nodiscard]] Node& node(std::uint32_t index) { return nodes_[index]; }
  [[nodiscard]] std::string_view text(const Node& node) const {
    return std::string_view(arena_).substr(node.text_begin, node.text_size);
  }
  [[nodiscard]] std::string_view tag(const Node& node) const {
    return std::string_view(arena_).substr(node.text_begin + node.text_size, node.tag_size);
  }
  [[nodiscard]] static Place place(const Node& node) { return {node.line, node.column}; }

 private:
  struct Open {
    std::uint32_t container;
    std::uint32_t last_child;
  };

  std::optional<Error> pull();
  std::optional<Error> take_event();
  std::uint32_t add_node(Node::Kind kind, const yaml_char_t* anchor);
  std::optional<Error> add_scalar();
  std::optional<Error> add_alias();
  std::optional<Error> open(Node::Kind kind, const yaml_char_t* anchor);
  [[nodiscard]] Error parser_error() const;

  const std::string_view input_;
  const std::size_t depth_max_;
  yaml_parser_t parser_{};
  yaml_event_t event_{};
  bool has_event_ = false;
  std::vector<Node> nodes_;
  std::string arena_;
  std::map<std::string, std::uint32_t, std::less<>> anchors_;
  std::vector<Open> open_;
};

}  // namespace basalt::yaml
