#include <algorithm>
#include <array>

#include "cel/function.h"

namespace basalt::cel {

Error no_overload() { return Error::invalid_input("no such overload"); }

const Function* find_function(std::string_view name, bool is_method) {
  for (const auto& table :
       {operator_functions(), conversion_functions(), text_functions(), list_functions(), extension_functions()}) {
    for (const Function& function : table) {
      if (function.name == name && function.is_method == is_method) return &function;
    }
  }
  return nullptr;
}

}  // namespace basalt::cel
