#include "yaml/node.h"

#include <algorithm>

#include "base/check.h"

namespace basalt::yaml {
namespace {

std::string_view view_of(const yaml_char_t* text) {
  return text == nullptr ? std::string_view() : std::string_view(reinterpret_cast<const char*>(text));
}

Place place_of(const yaml_mark_t& mark) { return {mark.line + 1, mark.column + 1}; }

}  // namespace

Place place_of_byte(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const auto lines = static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n'));
  const std::size_t start = lines == 0 ? 0 : before.rfind('\n') + 1;
  return {lines + 1, before.size() - start + 1};
}

Error error_at(Place place, std::string_view message) {
  return Error::invalid_input("line " + std::to_string(place.line) + ", column " + std::to_string(place.column) + ": " +
                              std::string(message));
}

Composer::Composer(std::string_view text, int depth_max)
    : input_(text), depth_max_(static_cast<std::size_t>(std::max(depth_max, 0))) {
  BASALT_CHECK_MSG(yaml_parser_initialize(&parser_) == 1, "out of memory");
  yaml_parser_set_encoding(&parser_, YAML_UTF8_ENCODING);
  yaml_parser_set_input_string(&parser_, reinterpret_cast<const unsigned char*>(text.data()), text.size());
}

Composer::~Composer() {
  if (has_event_) yaml_event_delete(&event_);
  yaml_parser_delete(&parser_);
}

std::optional<Error> Composer::pull() {
  if (has_event_) yaml_event_delete(&event_);
  has_event_ = yaml_parser_parse(&parser_, &event_) == 1;
  if (!has_event_) return parser_error();
  return std::nullopt;
}

Error Composer::parser_error() const {
  BASALT_CHECK_MSG(parser_.error != YAML_MEMORY_ERROR, "out of memory");
  const std::string problem = parser_.problem != nullptr ? parser_.problem : "not YAML";
  // The reader of characters knows only its offset.
  if (parser_.error == YAML_READER_ERROR) return error_at(place_of_byte(input_, parser_.problem_offset), problem);
  if (parser_.context == nullptr) return error_at(place_of(parser_.problem_mark), problem);
  const Place from = place_of(parser_.context_mark);
  return error_at(place_of(parser_.problem_mark), problem + " (" + parser_.context + " from line " +
                                                      std::to_string(from.line) + ", column " +
                                                      std::to_string(from.column) + ")");
}

Result<bool> Composer::next_document() {
  nodes_.clear();
  arena_.clear();
  anchors_.clear();
  open_.clear();
  do {
    if (auto error = pull()) return *std::move(error);
    if (event_.type == YAML_STREAM_END_EVENT) return false;
  } while (event_.type != YAML_DOCUMENT_START_EVENT);
  while (true) {
    if (auto error = pull()) return *std::move(error);
    if (event_.type == YAML_DOCUMENT_END_EVENT) return true;
    if (auto error = take_event()) return *std::move(error);
  }
}

std::optional<Error> Composer::take_event() {
  switch (event_.type) {
    case YAML_SCALAR_EVENT:
      return add_scalar();
    case YAML_ALIAS_EVENT:
      return add_alias();
    case YAML_SEQUENCE_START_EVENT:
      return open(Node::Kind::Sequence, event_.data.sequence_start.anchor);
    case YAML_MAPPING_START_EVENT:
      return open(Node::Kind::Mapping, event_.data.mapping_start.anchor);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
      open_.pop_back();
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

std::uint32_t Composer::add_node(Node::Kind kind, const yaml_char_t* anchor) {
  const auto index = static_cast<std::uint32_t>(nodes_.size());
  Node node;
  node.kind = kind;
  const Place place = place_of(event_.start_mark);
  node.line = static_cast<std::uint32_t>(place.line);
  node.column = static_cast<std::uint32_t>(place.column);
  nodes_.push_back(node);
  if (!open_.empty()) {
    Open& parent = open_.back();
    std::uint32_t& link = parent.last_child == Node::kNone ? nodes_[parent.container].first_child
                                                           : nodes_[parent.last_child].next_sibling;
    link = index;
    parent.last_child = index;
  }
  if (anchor != nullptr) anchors_.insert_or_assign(std::string(view_of(anchor)), index);
  return index;
}

std::optional<Error> Composer::add_scalar() {
  const auto& scalar = event_.data.scalar;
  Node& node = nodes_[add_node(Node::Kind::Scalar, scalar.anchor)];
  const std::string_view tag = view_of(scalar.tag);
  node.is_plain = scalar.plain_implicit != 0 && scalar.style == YAML_PLAIN_SCALAR_STYLE;
  node.text_begin = static_cast<std::uint32_t>(arena_.size());
  node.text_size = static_cast<std::uint32_t>(scalar.length);
  node.tag_size = static_cast<std::uint32_t>(tag.size());
  arena_.append(reinterpret_cast<const char*>(scalar.value), scalar.length);
  arena_.append(tag);
  return std::nullopt;
}

std::optional<Error> Composer::add_alias() {
  const std::string_view name = view_of(event_.data.alias.anchor);
  const auto target = anchors_.find(name);
  if (target == anchors_.end()) {
    return error_at(place_of(event_.start_mark), "alias *" + std::string(name) + " has no anchor before it");
  }
  nodes_[add_node(Node::Kind::Alias, nullptr)].first_child = target->second;
  return std::nullopt;
}

std::optional<Error> Composer::open(Node::Kind kind, const yaml_char_t* anchor) {
  if (open_.size() >= depth_max_) {
    return error_at(place_of(event_.start_mark), "nested deeper than " + std::to_string(depth_max_) + " levels");
  }
  const std::uint32_t index = add_node(kind, anchor);
  open_.push_back({index, Node::kNone});
  return std::nullopt;
}

}  // namespace basalt::yaml
