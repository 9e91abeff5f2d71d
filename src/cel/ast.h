#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cel/function.h"
#include "cel/value.h"

namespace basalt::cel {

struct Node;
using NodeRef = std::unique_ptr<Node>;

enum class Macro : std::uint8_t { All, Exists, ExistsOne, Map, Filter, TransformList, TransformMap };

// One node of a parsed expression. Names are resolved: a variable is a place in a list.
struct Node {
  enum class Kind : std::uint8_t {
    Literal,
    Global,       // index: which of the declared variables
    Local,        // index: which of the variables of the comprehensions around it
    Select,       // children[0].name
    Has,          // has(children[0].name)
    Index,        // children[0][children[1]]
    Call,         // a function or an operator
    And,          // of two or more
    Or,           // of two or more
    Conditional,  // children[0] ? children[1] : children[2]
    List,         // [children...]
    Map,          // {children[0]: children[1], ...}
    Loop,         // children[0] is what is walked through; the last is the body; one between them is a condition
    OptionalMap,  // children[0].optMap(x, children[1])
  };

  Kind kind = Kind::Literal;
  Macro macro = Macro::All;        // Loop
  bool is_optional = false;        // Select, Index: of ".?" and "[?"
  bool has_two_variables = false;  // Loop: key or index, and value
  std::uint32_t index = 0;         // Global, Local; Loop, OptionalMap: the first variable
  int depth = 1;                   // levels of nodes, this one included
  std::size_t offset = 0;          // in the text
  std::string name;                // Global, Local, Select, Has, Call
  Value literal;                   // Literal
  const Function* function = nullptr;
  std::shared_ptr<const re2::RE2> regex;  // Call of a function with a pattern that is a literal
  std::vector<NodeRef> children;
  std::vector<bool> optional_children;  // List, Map: those behind "?"
};

}  // namespace basalt::cel
