#include "yaml/reader.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "json/scan.h"
#include "yaml/node.h"
#include "yaml/scalar.h"

namespace basalt::yaml {
namespace {

constexpr std::string_view kCoreTags = "tag:yaml.org,2002:";

// Aliases make small texts large. They may make ten nodes per byte of input (every honest use stays far below), but
// 10,000 are always allowed, so that small files need no thought. 64 bytes of a string that is copied count as a node.
constexpr std::size_t kAliasNodesPerByte = 10;
constexpr std::size_t kAliasNodesMin = 10'000;
constexpr std::size_t kTextBytesPerNode = 64;

constexpr std::size_t kSizeBytesMax = std::size_t{1} << 30;  // nodes count in 32 bits

// One document's nodes to a value. Errors are sticky, as in json::Reader.
class Converter {
 public:
  // `alias_nodes_left` is what remains for this document and those after it.
  Converter(Composer& composer, std::size_t& alias_nodes_left, int depth_max)
      : composer_(composer), alias_nodes_left_(alias_nodes_left), depth_max_(depth_max) {}

  Result<json::Value> convert() {
    json::Value value = value_of(0, 0);
    if (error_) return *std::move(error_);
    return value;
  }

 private:
  void fail(const Node& node, std::string_view message) {
    if (!error_) error_ = error_at(Composer::place(node), message);
  }

  json::Value value_of(std::uint32_t index, int depth) {
    Node& node = composer_.node(index);
    if (error_ || !count(node)) return {};
    switch (node.kind) {
      case Node::Kind::Scalar:
        return scalar(node);
      case Node::Kind::Alias:
        return alias(node, depth);
      default:
        break;
    }
    if (depth >= depth_max_) {
      fail(node, "nested deeper than " + std::to_string(depth_max_) + " levels once its aliases are followed");
      return {};
    }
    node.is_open = true;
    json::Value value = node.kind == Node::Kind::Sequence ? sequence(node, depth) : mapping(node, depth);
    node.is_open = false;
    return value;
  }

  bool count(const Node& node) {
    if (alias_depth_ == 0) return true;
    const std::size_t cost = 1 + node.text_size / kTextBytesPerNode;
    if (cost <= alias_nodes_left_) {
      alias_nodes_left_ -= cost;
      return true;
    }
    if (!error_) error_ = error_at(alias_place_, "aliases make the text too large");
    return false;
  }

  json::Value alias(const Node& node, int depth) {
    if (composer_.node(node.first_child).is_open) {
      fail(node, "the anchor that this alias names contains the alias");
      return {};
    }
    if (alias_depth_ == 0) alias_place_ = Composer::place(node);
    ++alias_depth_;
    json::Value value = value_of(node.first_child, depth);
    --alias_depth_;
    return value;
  }

  json::Value sequence(const Node& node, int depth) {
    json::Array array;
    for (std::uint32_t at = node.first_child; at != Node::kNone && !error_; at = composer_.node(at).next_sibling) {
      array.push_back(value_of(at, depth + 1));
    }
    return array;
  }

  json::Value mapping(const Node& node, int depth) {
    std::vector<json::Member> merged;  // weakest first
    std::vector<json::Member> written;
    std::uint32_t merge_key = Node::kNone;
    std::uint32_t at = node.first_child;
    while (at != Node::kNone && !error_) {
      const std::uint32_t value = composer_.node(at).next_sibling;
      if (is_merge_key(composer_.node(at))) {
        if (merge_key != Node::kNone) fail(composer_.node(at), duplicate_message("<<", merge_key));
        merge_key = at;
        merge(value, depth, merged);
      } else {
        std::string key = key_of(at);
        written.push_back({std::move(key), value_of(value, depth + 1)});
      }
      at = composer_.node(value).next_sibling;
    }
    json::Object object;
    if (error_) return object;
    if (const auto duplicate = object.assign(std::move(written))) {
      report_duplicate(node, *duplicate);
      return {};
    }
    if (!merged.empty()) {
      // Assign lets the last of a pair win: what is written out comes last.
      merged.insert(merged.end(), std::make_move_iterator(object.begin()), std::make_move_iterator(object.end()));
      object.assign(std::move(merged));
    }
    return object;
  }

  bool is_merge_key(const Node& node) const {
    if (node.kind != Node::Kind::Scalar || composer_.text(node) != "<<") return false;
    return node.is_plain || composer_.tag(node) == "tag:yaml.org,2002:merge";
  }

  // The value of `<<`: a mapping, or a list of mappings of which the earlier ones win.
  void merge(std::uint32_t index, int depth, std::vector<json::Member>& merged) {
    json::Value value = value_of(index, depth);
    if (error_) return;
    const bool is_list = value.is_array();
    json::Array sources = is_list ? std::move(value.as_array()) : json::Array(1, std::move(value));
    for (auto source = sources.rbegin(); source != sources.rend(); ++source) {
      if (!source->is_object()) {
        fail(composer_.node(index), "the merge key << wants a mapping or a list of mappings");
        return;
      }
      for (json::Member& member : source->as_object()) merged.push_back(std::move(member));
    }
  }

  std::string key_of(std::uint32_t index) {
    const Node* node = &composer_.node(index);
    if (node->kind == Node::Kind::Alias) node = &composer_.node(node->first_child);
    if (node->kind != Node::Kind::Scalar) {
      fail(composer_.node(index), "a key must be a scalar, not a list or a mapping");
      return {};
    }
    const json::Value value = scalar(*node);
    if (error_) return {};
    if (value.is_string()) return value.as_string();
    if (value.is_bool()) return value.as_bool() ? "true" : "false";
    if (value.is_int()) return std::to_string(value.as_int());
    if (value.is_double()) return float_key(value.as_double());
    fail(composer_.node(index), "a key must not be null");
    return {};
  }

  json::Value scalar(const Node& node) {
    const std::string_view text = composer_.text(node);
    std::string_view tag = composer_.tag(node);
    if (tag.empty()) return node.is_plain ? finite(node, resolve_plain(text)) : json::Value(text);
    if (!tag.starts_with(kCoreTags)) return text;
    tag.remove_prefix(kCoreTags.size());
    if (tag == "binary") {
      fail(node, "!!binary is not supported: write the base64 text without the tag");
      return {};
    }
    const bool wants_null = tag == "null";
    const bool wants_bool = tag == "bool";
    const bool wants_int = tag == "int";
    const bool wants_float = tag == "float";
    if (!wants_null && !wants_bool && !wants_int && !wants_float) return text;
    const Scalar resolved = resolve_plain(text);
    const bool fits = (wants_null && resolved.type == ScalarType::Null) ||
                      (wants_bool && resolved.type == ScalarType::Bool) ||
                      (wants_int && resolved.type == ScalarType::Int) ||
                      (wants_float && (resolved.type == ScalarType::Int || resolved.type == ScalarType::Float ||
                                       resolved.type == ScalarType::NotFinite));
    if (!fits) {
      fail(node, "the text does not fit its tag !!" + std::string(tag));
      return {};
    }
    const json::Value value = finite(node, resolved);
    return wants_float && value.is_int() ? json::Value(value.as_double()) : value;
  }

  json::Value finite(const Node& node, Scalar scalar) {
    if (scalar.type == ScalarType::NotFinite) {
      fail(node, std::string(composer_.text(node)) + " cannot be represented in JSON; quote it if a string is meant");
    }
    return std::move(scalar.value);
  }

  std::string duplicate_message(std::string_view key, std::uint32_t first) {
    return "duplicate key \"" + std::string(key) + "\", first at line " + std::to_string(composer_.node(first).line);
  }

  void report_duplicate(const Node& node, const std::string& key) {
    std::uint32_t first = Node::kNone;
    std::uint32_t at = node.first_child;
    while (at != Node::kNone && !error_) {
      if (!is_merge_key(composer_.node(at)) && key_of(at) == key) {
        if (first != Node::kNone) fail(composer_.node(at), duplicate_message(key, first));
        first = at;
      }
      at = composer_.node(composer_.node(at).next_sibling).next_sibling;
    }
  }

  Composer& composer_;
  std::size_t& alias_nodes_left_;
  const int depth_max_;
  int alias_depth_ = 0;
  Place alias_place_;
  std::optional<Error> error_;
};

// JSON texts one after another, as kubectl accepts them. Nothing if this is not what the text is: then YAML has its
// turn, and its complaint is the one that counts.
std::optional<std::vector<Document>> read_json(std::string_view text, const ReadOptions& options) {
  constexpr std::string_view kSpace = " \t\r\n";
  std::vector<Document> documents;
  std::size_t line = 1;
  std::size_t counted = 0;  // bytes whose line ends are in `line`
  std::size_t at = text.find_first_not_of(kSpace);
  while (at != std::string_view::npos) {
    if (text[at] != '{' || documents.size() == options.documents_max) return std::nullopt;
    json::Reader::Options reader_options;
    reader_options.depth_max = options.depth_max;
    json::Reader reader(text.substr(at), reader_options);
    const std::string_view raw = reader.read_raw();
    if (!reader.ok()) return std::nullopt;
    json::Value::ParseOptions parse_options;
    parse_options.depth_max = options.depth_max;
    auto value = json::Value::parse(raw, parse_options);
    if (!value.ok()) return std::nullopt;
    const std::string_view between = text.substr(counted, at - counted);
    line += static_cast<std::size_t>(std::count(between.begin(), between.end(), '\n'));
    counted = at;
    documents.push_back({std::move(value).value(), line});
    at = text.find_first_not_of(kSpace, at + raw.size());
  }
  return documents;
}

}  // namespace

Result<std::vector<Document>> read_all(std::string_view text, const ReadOptions& options) {
  const std::size_t size_bytes_max = std::min(options.size_bytes_max, kSizeBytesMax);
  if (text.size() > size_bytes_max) {
    return error_at({}, "the text has " + std::to_string(text.size()) + " bytes, at most " +
                            std::to_string(size_bytes_max) + " are read");
  }
  if (const std::size_t bad = json::find_invalid_utf8(text); bad != std::string_view::npos) {
    return error_at(place_of_byte(text, bad), "invalid UTF-8");
  }
  if (auto documents = read_json(text, options)) return *std::move(documents);

  std::vector<Document> documents;
  Composer composer(text, options.depth_max);
  std::size_t alias_nodes_left =
      std::min(options.alias_nodes_max, std::max(kAliasNodesMin, kAliasNodesPerByte * text.size()));
  while (true) {
    BASALT_TRY(const bool more, composer.next_document());
    if (!more) return documents;
    const std::size_t line = composer.node(0).line;
    BASALT_TRY(json::Value value, Converter(composer, alias_nodes_left, options.depth_max).convert());
    if (value.is_null()) continue;
    if (documents.size() == options.documents_max) {
      return error_at({line, 1}, "more than " + std::to_string(options.documents_max) + " documents");
    }
    documents.push_back({std::move(value), line});
  }
}

Result<json::Value> read(std::string_view text, const ReadOptions& options) {
  BASALT_TRY(std::vector<Document> documents, read_all(text, options));
  if (documents.empty()) return json::Value();
  if (documents.size() > 1) return error_at({documents[1].line, 1}, "a second document where one is expected");
  return std::move(documents.front().value);
}

}  // namespace basalt::yaml
