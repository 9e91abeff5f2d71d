#include "cel/parser.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include <re2/re2.h>

#include "base/strings.h"
#include "cel/lexer.h"

namespace basalt::cel {
namespace {

constexpr std::size_t kPatternBytesMax = 4096;

struct Operator {
  std::string_view sign;
  int strength;
  std::string_view function;
};
constexpr Operator kOperators[] = {{"||", 1, ""},    {"&&", 2, ""},     {"==", 3, "_==_"}, {"!=", 3, "_!=_"},
                                   {"<", 3, "_<_"},  {"<=", 3, "_<=_"}, {">", 3, "_>_"},   {">=", 3, "_>=_"},
                                   {"in", 3, "@in"}, {"+", 4, "_+_"},   {"-", 4, "_-_"},   {"*", 5, "_*_"},
                                   {"/", 5, "_/_"},  {"%", 5, "_%_"}};

constexpr std::string_view kReserved[] = {"as",       "break",  "const",  "continue", "else", "for",
                                          "function", "if",     "import", "let",      "loop", "namespace",
                                          "package",  "return", "var",    "void",     "while"};
constexpr std::string_view kTypeNames[] = {"bool",  "int",  "uint", "double",    "string",
                                           "bytes", "list", "map",  "null_type", "type"};
// Types that messages can be made of, where a variable of that name is declared.
constexpr std::string_view kMessageTypes[] = {"Object", "JSONPatch"};
constexpr std::string_view kFunctionGroups[] = {"jsonpatch", "optional", "sets", "strings"};

struct MacroName {
  std::string_view name;
  Macro macro;
  int arguments;  // behind the variables
};
constexpr MacroName kMacros[] = {{"all", Macro::All, 1},
                                 {"exists", Macro::Exists, 1},
                                 {"exists_one", Macro::ExistsOne, 1},
                                 {"existsOne", Macro::ExistsOne, 1},
                                 {"map", Macro::Map, 2},
                                 {"filter", Macro::Filter, 1},
                                 {"transformList", Macro::TransformList, 2},
                                 {"transformMap", Macro::TransformMap, 2}};

const MacroName* find_macro(std::string_view name) {
  const auto* found = std::ranges::find(kMacros, name, &MacroName::name);
  return found == std::end(kMacros) ? nullptr : found;
}

template <class List>
bool is_one_of(std::string_view name, const List& list) {
  return std::ranges::find(list, name) != std::end(list);
}

// Recursive descent. The first error is kept and every function returns null from then on, so that frames stay small.
class Parser {
 public:
  Parser(std::string_view text, std::span<const std::string_view> variables)
      : text_(text), variables_(variables), lexer_(text) {}

  Result<NodeRef> parse_all() {
    advance();
    NodeRef root = expression();
    if (root && token_.kind != Token::Kind::End) root = unexpected();
    if (error_) return std::move(*error_);
    return root;
  }

 private:
  NodeRef fail(std::size_t offset, std::string_view message) {
    if (!error_) error_ = error_at(text_, offset, message);
    token_ = Token();
    return nullptr;
  }
  NodeRef unexpected() {
    if (token_.kind == Token::Kind::End) return fail(token_.offset, "Syntax error: the expression ends too early");
    const std::string_view shown = token_.text.empty() ? std::string_view("a literal") : token_.text;
    return fail(token_.offset, "Syntax error: mismatched input '" + std::string(shown) + "'");
  }

  void advance() {
    if (error_) return;
    auto token = next_ ? Result<Token>(std::move(*next_)) : lexer_.next();
    next_.reset();
    if (!token.ok()) {
      (void)fail(lexer_.offset(), token.error().message);
      return;
    }
    token_ = std::move(*token);
  }
  // The token behind the current one.
  const Token& look_ahead() {
    static const Token kEnd;
    if (error_) return kEnd;
    if (!next_) {
      auto token = lexer_.next();
      if (!token.ok()) {
        (void)fail(lexer_.offset(), token.error().message);
        return kEnd;
      }
      next_ = std::move(*token);
    }
    return *next_;
  }
  [[nodiscard]] bool is(std::string_view sign) const {
    return token_.kind == Token::Kind::Punctuation && token_.text == sign;
  }
  bool take(std::string_view sign) {
    if (!is(sign)) return false;
    advance();
    return true;
  }
  bool expect(std::string_view sign) {
    if (take(sign)) return !error_;
    (void)unexpected();
    return false;
  }

  NodeRef make(Node::Kind kind, std::size_t offset) {
    auto node = std::make_unique<Node>();
    node->kind = kind;
    node->offset = offset;
    return node;
  }
  // Adds children, which may be null after an error, and bounds the depth.
  NodeRef with(NodeRef node, std::vector<NodeRef> children) {
    for (NodeRef& child : children) {
      if (!child || !node) return nullptr;
      node->depth = std::max(node->depth, child->depth + 1);
      node->children.push_back(std::move(child));
    }
    if (node->depth > kNodesDepthMax) {
      return fail(node->offset, "the expression is nested deeper than " + std::to_string(kNodesDepthMax) + " levels");
    }
    return node;
  }
  template <class... Children>
  NodeRef with_each(NodeRef node, Children... children) {
    std::vector<NodeRef> list;
    (list.push_back(std::move(children)), ...);
    return with(std::move(node), std::move(list));
  }

  NodeRef expression() {
    if (error_) return nullptr;
    if (++brackets_ > kBracketsDepthMax) {
      return fail(token_.offset, "more than " + std::to_string(kBracketsDepthMax) + " levels of brackets");
    }
    NodeRef node = binary(1);
    if (node && is("?")) {
      NodeRef choice = make(Node::Kind::Conditional, token_.offset);
      advance();
      NodeRef yes = binary(1);
      NodeRef no = yes && expect(":") ? expression() : nullptr;
      node = with_each(std::move(choice), std::move(node), std::move(yes), std::move(no));
    }
    --brackets_;
    return node;
  }

  [[nodiscard]] const Operator* current_operator() const {
    const bool is_word = token_.kind == Token::Kind::Identifier && token_.text == "in";
    if (token_.kind != Token::Kind::Punctuation && !is_word) return nullptr;
    const auto* found = std::ranges::find(kOperators, token_.text, &Operator::sign);
    return found == std::end(kOperators) ? nullptr : found;
  }

  NodeRef binary(int strength_min) {
    NodeRef left = unary();
    while (left) {
      const Operator* op = current_operator();
      if (op == nullptr || op->strength < strength_min) return left;
      const std::size_t offset = token_.offset;
      advance();
      NodeRef right = binary(op->strength + 1);
      if (op->function.empty()) {
        left = logical(op->sign == "&&" ? Node::Kind::And : Node::Kind::Or, offset, std::move(left), std::move(right));
      } else {
        left = call(op->function, false, offset, make_list(std::move(left), std::move(right)));
      }
    }
    return left;
  }

  static std::vector<NodeRef> make_list(NodeRef a, NodeRef b) {
    std::vector<NodeRef> list;
    list.push_back(std::move(a));
    list.push_back(std::move(b));
    return list;
  }

  // `a && b && c` is one node, so that long chains are not deep.
  NodeRef logical(Node::Kind kind, std::size_t offset, NodeRef left, NodeRef right) {
    if (!left || !right) return nullptr;
    if (left->kind == kind) return with_each(std::move(left), std::move(right));
    return with_each(make(kind, offset), std::move(left), std::move(right));
  }

  NodeRef unary() {
    const std::size_t offset = token_.offset;
    const bool is_not = is("!");
    if (!is_not && !is("-")) return postfix();
    std::size_t count = 0;
    while (is(is_not ? "!" : "-")) {
      ++count;
      advance();
    }
    const bool is_number = token_.kind == Token::Kind::Int || token_.kind == Token::Kind::Double;
    if (!is_not && count % 2 == 1 && is_number) return postfix_of(number(true));
    NodeRef operand = postfix();
    if (count % 2 == 0 || !operand) return operand;
    std::vector<NodeRef> arguments;
    arguments.push_back(std::move(operand));
    return call(is_not ? "!_" : "-_", false, offset, std::move(arguments));
  }

  NodeRef literal(std::size_t offset, Value value) {
    NodeRef node = make(Node::Kind::Literal, offset);
    node->literal = std::move(value);
    return node;
  }

  NodeRef number(bool negative) {
    const Token token = token_;
    advance();
    if (token.kind == Token::Kind::Double) {
      const auto value =
          base::parse_double(token.text.starts_with(".") ? "0" + std::string(token.text) : std::string(token.text));
      if (!value) return fail(token.offset, "invalid double literal");
      return literal(token.offset, Value(Value::Data(negative ? -*value : *value)));
    }
    const bool is_hex = token.text.size() > 1 && base::to_lower(token.text[1]) == 'x';
    const std::string_view digits = token.text.substr(is_hex ? 2 : 0);
    std::uint64_t magnitude = 0;
    const auto [end, problem] =
        std::from_chars(digits.data(), digits.data() + digits.size(), magnitude, is_hex ? 16 : 10);
    const bool is_uint = token.kind == Token::Kind::Uint;
    const std::uint64_t max = is_uint ? UINT64_MAX : static_cast<std::uint64_t>(INT64_MAX) + (negative ? 1 : 0);
    if (problem != std::errc() || end != digits.data() + digits.size() || magnitude > max) {
      return fail(token.offset, is_uint ? "invalid uint literal" : "invalid int literal");
    }
    if (is_uint) return literal(token.offset, Value(Value::Data(magnitude)));
    return literal(token.offset, Value::of_int(static_cast<std::int64_t>(negative ? 0 - magnitude : magnitude)));
  }

  NodeRef primary() {
    const std::size_t offset = token_.offset;
    switch (token_.kind) {
      case Token::Kind::Int:
      case Token::Kind::Uint:
      case Token::Kind::Double:
        return number(false);
      case Token::Kind::String:
      case Token::Kind::Bytes: {
        Text text = Text::of(std::move(token_.value));
        const bool is_bytes = token_.kind == Token::Kind::Bytes;
        advance();
        return literal(offset,
                       is_bytes ? Value(Value::Data(Bytes{std::move(text)})) : Value(Value::Data(std::move(text))));
      }
      case Token::Kind::Identifier:
        return identifier();
      case Token::Kind::End:
        return unexpected();
      case Token::Kind::Punctuation:
        break;
    }
    if (take("(")) {
      NodeRef inner = expression();
      return inner && expect(")") ? std::move(inner) : nullptr;
    }
    if (is("[") || is("[?")) return list_literal();
    if (is("{") || is("{?")) return map_literal();
    if (is(".") && look_ahead().kind == Token::Kind::Identifier) {  // a name from the root: there is only one container
      advance();
      return identifier();
    }
    return unexpected();
  }

  // "[a, ?b, c]", "{a: b, ?c: d}": what stands between the brackets, by what reads one of it (false: an error).
  template <class ReadOne>
  NodeRef elements(Node::Kind kind, std::size_t offset, std::string_view end, ReadOne&& read_one) {
    NodeRef node = make(kind, offset);
    bool is_optional = token_.text.ends_with('?');  // "[?", "{?": the first is
    advance();
    std::vector<NodeRef> items;
    while (!error_ && !is(end)) {
      is_optional = take("?") || is_optional;
      node->optional_children.push_back(is_optional);
      is_optional = false;
      if (!read_one(items)) return nullptr;
      if (!take(",")) break;
    }
    return expect(end) ? with(std::move(node), std::move(items)) : nullptr;
  }

  NodeRef list_literal() {
    return elements(Node::Kind::List, token_.offset, "]", [this](std::vector<NodeRef>& items) {
      items.push_back(expression());
      return true;
    });
  }

  bool read_value(std::vector<NodeRef>& items) {
    if (!expect(":")) return false;
    items.push_back(expression());
    return true;
  }

  NodeRef map_literal() {
    return elements(Node::Kind::Map, token_.offset, "}", [this](std::vector<NodeRef>& items) {
      items.push_back(expression());
      return read_value(items);
    });
  }

  // A name that was declared to be a type of messages ("Object"), or one of its parts ("Object.spec.template").
  static bool is_message_type(const Node& node) {
    if (node.kind == Node::Kind::Global) return is_one_of(node.name, kMessageTypes);
    return node.kind == Node::Kind::Select && !node.is_optional && is_message_type(*node.children[0]);
  }

  // A message is a map by the names of its fields: what its type allows is known to whoever takes it.
  NodeRef message_literal(std::size_t offset) {
    return elements(Node::Kind::Map, offset, "}", [this](std::vector<NodeRef>& items) {
      if (token_.kind != Token::Kind::Identifier) {
        static_cast<void>(unexpected());
        return false;
      }
      items.push_back(literal(token_.offset, Value::of_text(unescape_field(token_.text))));
      advance();
      return read_value(items);
    });
  }

  NodeRef identifier() {
    const std::size_t offset = token_.offset;
    const std::string name(token_.text);
    advance();
    if (name == "true" || name == "false") return literal(offset, Value::of_bool(name == "true"));
    if (name == "null") return literal(offset, Value());
    if (name == "in") return fail(offset, "Syntax error: mismatched input 'in'");
    if (is_one_of(name, kReserved)) return fail(offset, "reserved identifier: " + name);
    if (is("(")) return name == "has" ? has_macro(offset) : global_call(name, offset);
    if (NodeRef variable = variable_named(name, offset)) return variable;
    if (is(".") && is_one_of(name, kFunctionGroups) && look_ahead().kind == Token::Kind::Identifier) {
      advance();
      const std::string full = name + "." + std::string(token_.text);
      advance();
      if (!is("(")) return undeclared(full, offset);
      return global_call(full, offset);
    }
    if (is(".") && name == "google") return protobuf_type(offset);
    const auto* type = std::ranges::find(kTypeNames, name);
    if (type != std::end(kTypeNames)) return literal(offset, Value(Value::Data(TypeName{*type})));
    return undeclared(name, offset);
  }

  NodeRef protobuf_type(std::size_t offset) {
    std::string full = "google";
    while (is(".") && look_ahead().kind == Token::Kind::Identifier) {
      advance();
      full += "." + std::string(token_.text);
      advance();
    }
    for (const std::string_view known : {"google.protobuf.Timestamp", "google.protobuf.Duration"}) {
      if (full == known) return literal(offset, Value(Value::Data(TypeName{known})));
    }
    return undeclared(full, offset);
  }

  NodeRef undeclared(const std::string& name, std::size_t offset) {
    return fail(offset, "undeclared reference to '" + name + "' (in container '')");
  }

  NodeRef variable_named(const std::string& name, std::size_t offset) {
    for (std::size_t i = locals_.size(); i > 0; --i) {
      if (locals_[i - 1] != name) continue;
      NodeRef node = make(Node::Kind::Local, offset);
      node->index = static_cast<std::uint32_t>(i - 1);
      node->name = name;
      return node;
    }
    const auto found = std::ranges::find(variables_, name);
    if (found == variables_.end()) return nullptr;
    NodeRef node = make(Node::Kind::Global, offset);
    node->index = static_cast<std::uint32_t>(found - variables_.begin());
    node->name = name;
    return node;
  }

  NodeRef has_macro(std::size_t offset) {
    advance();
    NodeRef field = expression();
    if (!field || !expect(")")) return nullptr;
    if (field->kind != Node::Kind::Select || field->is_optional) return fail(offset, "invalid argument to has() macro");
    field->kind = Node::Kind::Has;
    return field;
  }

  bool arguments(std::vector<NodeRef>& list) {
    if (!expect("(")) return false;
    while (!error_ && !is(")")) {
      list.push_back(expression());
      if (!take(",")) break;
    }
    return expect(")");
  }

  NodeRef global_call(const std::string& name, std::size_t offset) {
    std::vector<NodeRef> list;
    if (!arguments(list)) return nullptr;
    return call(name, false, offset, std::move(list));
  }

  NodeRef call(std::string_view name, bool is_method, std::size_t offset, std::vector<NodeRef> list) {
    if (error_) return nullptr;
    NodeRef node = make(Node::Kind::Call, offset);
    node->name = std::string(name);
    node->function = find_function(name, is_method);
    if (node->function == nullptr) return undeclared(node->name, offset);
    const std::size_t count = list.size() - (is_method ? 1 : 0);
    if (count < node->function->arguments_min || count > node->function->arguments_max) {
      return fail(offset, "found no matching overload for '" + node->name + "' applied to " + std::to_string(count) +
                              " arguments");
    }
    const std::size_t pattern = node->function->arguments_min - (is_method ? 0u : 1u);
    if (node->function->has_regex && !compile_pattern(*list[pattern], *node)) return nullptr;
    return with(std::move(node), std::move(list));
  }

  bool compile_pattern(const Node& argument, Node& node) {
    const Text* pattern = argument.kind == Node::Kind::Literal ? argument.literal.get<Text>() : nullptr;
    if (pattern == nullptr) return true;
    RE2::Options options(RE2::Quiet);
    auto regex = std::make_shared<const RE2>(pattern->view, options);
    if (!regex->ok() || pattern->view.size() > kPatternBytesMax) {
      const std::string why = regex->ok() ? "longer than " + std::to_string(kPatternBytesMax) : regex->error();
      (void)fail(argument.offset, "invalid matches argument: error parsing regexp: " + why);
      return false;
    }
    node.regex = std::move(regex);
    return true;
  }

  NodeRef postfix() { return postfix_of(primary()); }

  NodeRef postfix_of(NodeRef node) {
    while (node) {
      const std::size_t offset = token_.offset;
      if (is("[") || is("[?")) {
        NodeRef made = make(Node::Kind::Index, offset);
        made->is_optional = is("[?");
        advance();
        NodeRef key = expression();
        if (!key || !expect("]")) return nullptr;
        node = with_each(std::move(made), std::move(node), std::move(key));
      } else if (is(".") || is(".?")) {
        node = member(std::move(node));
      } else if (is("{") || is("{?")) {
        if (!is_message_type(*node)) return fail(offset, "messages cannot be made here");
        node = message_literal(offset);
      } else {
        return node;
      }
    }
    return node;
  }

  NodeRef member(NodeRef object) {
    const bool is_optional = is(".?");
    advance();
    if (token_.kind != Token::Kind::Identifier) return unexpected();
    const std::size_t offset = token_.offset;
    const std::string name(token_.text);
    advance();
    if (!is("(") || is_optional) {
      NodeRef node = make(Node::Kind::Select, offset);
      node->is_optional = is_optional;
      node->name = name;
      return with_each(std::move(node), std::move(object));
    }
    if (const MacroName* macro = find_macro(name); macro != nullptr && look_ahead().kind == Token::Kind::Identifier) {
      return loop(*macro, offset, std::move(object));
    }
    if (name == "optMap" && look_ahead().kind == Token::Kind::Identifier)
      return optional_map(offset, std::move(object));
    std::vector<NodeRef> list;
    list.push_back(std::move(object));
    if (!arguments(list)) return nullptr;
    return call(name, true, offset, std::move(list));
  }

  // A variable of a macro and the comma behind it.
  bool variable(std::string& name) {
    if (token_.kind != Token::Kind::Identifier || is_one_of(token_.text, kReserved)) {
      (void)fail(token_.offset, "argument must be a simple name");
      return false;
    }
    name = std::string(token_.text);
    advance();
    if (is(",")) return expect(",");
    (void)fail(token_.offset, "argument must be a simple name");
    return false;
  }

  NodeRef loop(const MacroName& macro, std::size_t offset, NodeRef range) {
    NodeRef node = make(Node::Kind::Loop, offset);
    node->macro = macro.macro;
    node->name = std::string(macro.name);
    node->index = static_cast<std::uint32_t>(locals_.size());
    std::string first;
    if (!expect("(") || !variable(first)) return nullptr;
    locals_.push_back(first);
    const bool transforms = macro.macro == Macro::TransformList || macro.macro == Macro::TransformMap;
    const bool may_be_two = macro.macro != Macro::Map && macro.macro != Macro::Filter;
    const bool another = token_.kind == Token::Kind::Identifier && look_ahead().text == ",";
    if (transforms || (may_be_two && another)) {
      std::string second;
      if (!variable(second)) return nullptr;
      locals_.push_back(second);
      node->has_two_variables = true;
    }
    std::vector<NodeRef> children;
    children.push_back(std::move(range));
    while (!error_) {
      children.push_back(expression());
      if (!take(",")) break;
    }
    locals_.resize(node->index);
    if (static_cast<int>(children.size()) - 1 > macro.arguments) {
      return fail(offset, "found no matching overload for '" + node->name + "'");
    }
    return expect(")") ? with(std::move(node), std::move(children)) : nullptr;
  }

  NodeRef optional_map(std::size_t offset, NodeRef object) {
    NodeRef node = make(Node::Kind::OptionalMap, offset);
    node->index = static_cast<std::uint32_t>(locals_.size());
    std::string name;
    if (!expect("(") || !variable(name)) return nullptr;
    locals_.push_back(name);
    NodeRef body = expression();
    locals_.pop_back();
    return expect(")") ? with_each(std::move(node), std::move(object), std::move(body)) : nullptr;
  }

  const std::string_view text_;
  const std::span<const std::string_view> variables_;
  Lexer lexer_;
  Token token_;
  std::optional<Token> next_;
  std::vector<std::string> locals_;
  std::optional<Error> error_;
  int brackets_ = 0;
};

}  // namespace

Error error_at(std::string_view text, std::size_t offset, std::string_view message) {
  offset = std::min(offset, text.size());
  const std::string_view before = text.substr(0, offset);
  const std::size_t line_start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const std::string_view line_text = text.substr(line_start, text.find('\n', line_start) - line_start);
  std::string shown = "ERROR: <input>:" + std::to_string(line) + ":" + std::to_string(offset - line_start + 1) + ": " +
                      std::string(message);
  constexpr std::size_t kLineMax = 500;
  if (line_text.size() <= kLineMax) {
    shown += "\n | " + std::string(line_text) + "\n | " + std::string(offset - line_start, '.') + "^";
  }
  return Error::invalid_input(std::move(shown));
}

Result<NodeRef> parse(std::string_view text, std::span<const std::string_view> variables) {
  if (text.size() > kTextBytesMax) {
    return Error::invalid_input("the expression is longer than " + std::to_string(kTextBytesMax) + " bytes");
  }
  return Parser(text, variables).parse_all();
}

}  // namespace basalt::cel
