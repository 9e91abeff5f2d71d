#include "json/patch.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "json/pointer.h"

namespace basalt::json {
namespace {

// Applies operations one by one to a document of its own.
class Applier {
 public:
  Applier(Value document, const PatchLimits& limits) : document_(std::move(document)), limits_(limits) {}

  Done apply(const Value& operation) {
    if (!operation.is_object()) return malformed("an operation must be an object");
    const Value* const op = operation.find("op");
    if (op == nullptr || !op->is_string()) return malformed("\"op\" is missing");
    BASALT_TRY(const Pointer path, pointer_member(operation, "path"));
    const std::string& name = op->as_string();
    if (name == "remove") return remove(path);
    if (name == "move" || name == "copy") {
      BASALT_TRY(const Pointer from, pointer_member(operation, "from"));
      return name == "move" ? move(from, path) : copy(from, path);
    }
    if (name != "add" && name != "replace" && name != "test") return malformed("unknown \"op\"");
    const Value* const value = operation.find("value");
    if (value == nullptr) return malformed("\"value\" is missing");
    if (name == "test") return test(path, *value);
    return name == "add" ? add(path, *value) : replace(path, *value);
  }

  Value take() && { return std::move(document_); }

 private:
  static Error malformed(std::string_view message) { return Error::make(Reason::BadRequest, std::string(message)); }
  static Error unfit(std::string_view message) { return Error::make(Reason::Invalid, std::string(message)); }
  static Error too_large(std::string_view message) {
    return Error::make(Reason::RequestEntityTooLarge, std::string(message));
  }

  static Result<Pointer> pointer_member(const Value& operation, std::string_view name) {
    const Value* const member = operation.find(name);
    if (member == nullptr || !member->is_string()) return malformed("\"" + std::string(name) + "\" is missing");
    auto pointer = Pointer::parse(member->as_string());
    if (!pointer.ok()) return malformed(pointer.error().message);
    return pointer;
  }

  // The container that holds (or shall hold) the value at `path`, which is not the root.
  Result<Value*> parent_of(const Pointer& path) {
    std::vector<std::string> tokens = path.tokens();
    tokens.pop_back();
    const Pointer parent(std::move(tokens));
    Value* const found = parent.find_in(document_);
    if (found == nullptr) return unfit("\"" + parent.to_string() + "\" does not exist");
    if (!found->is_object() && !found->is_array()) {
      return unfit("\"" + parent.to_string() + "\" is no object or array");
    }
    return found;
  }

  Done count_shifts(std::size_t shifts) {
    shifts_ += shifts;
    if (shifts_ > limits_.shifts_max) return too_large("the patch moves too many elements");
    return Ok{};
  }

  Done check_depth(const Pointer& path, const Value& value) const {
    const std::size_t depth = path.tokens().size() + static_cast<std::size_t>(value.depth());
    if (depth > static_cast<std::size_t>(limits_.depth_max)) {
      return unfit("the result is nested deeper than " + std::to_string(limits_.depth_max) + " levels");
    }
    return Ok{};
  }

  Done add(const Pointer& path, Value value) {
    BASALT_TRY_DONE(check_depth(path, value));
    if (path.is_root()) {
      document_ = std::move(value);
      return Ok{};
    }
    BASALT_TRY(Value * parent, parent_of(path));
    const std::string& token = path.tokens().back();
    if (parent->is_object()) {
      BASALT_TRY_DONE(count_shifts(parent->as_object().size()));
      parent->as_object().set(token, std::move(value));
      return Ok{};
    }
    Array& array = parent->as_array();
    const auto index = token == "-" ? array.size() : parse_array_index(token);
    if (!index || *index > array.size()) return unfit(no_element(token, array));
    BASALT_TRY_DONE(count_shifts(array.size() - *index));
    array.insert(array.begin() + static_cast<std::ptrdiff_t>(*index), std::move(value));
    return Ok{};
  }

  static std::string no_element(std::string_view token, const Array& array) {
    return "index " + std::string(token) + " is not within the array of " + std::to_string(array.size());
  }

  // Takes the value at `path` out of the document.
  Result<Value> take_out(const Pointer& path) {
    if (path.is_root()) return std::exchange(document_, Value());
    BASALT_TRY(Value * parent, parent_of(path));
    const std::string& token = path.tokens().back();
    if (parent->is_object()) {
      Value* const found = parent->find(token);
      if (found == nullptr) return unfit("there is no such member");
      BASALT_TRY_DONE(count_shifts(parent->as_object().size()));
      Value value = std::move(*found);
      parent->as_object().erase(token);
      return value;
    }
    Array& array = parent->as_array();
    const auto index = parse_array_index(token);
    if (!index || *index >= array.size()) return unfit(no_element(token, array));
    BASALT_TRY_DONE(count_shifts(array.size() - *index));
    Value value = std::move(array[*index]);
    array.erase(array.begin() + static_cast<std::ptrdiff_t>(*index));
    return value;
  }

  Done remove(const Pointer& path) {
    BASALT_TRY_DONE(take_out(path));
    return Ok{};
  }

  Done replace(const Pointer& path, const Value& value) {
    BASALT_TRY_DONE(check_depth(path, value));
    Value* const found = path.find_in(document_);
    if (found == nullptr) return unfit("there is nothing to replace");
    *found = value;
    return Ok{};
  }

  Done move(const Pointer& from, const Pointer& path) {
    if (from.is_proper_prefix_of(path)) return unfit("a value cannot be moved into itself");
    if (from == path) return from.find_in(document_) != nullptr ? Done(Ok{}) : Done(unfit("\"from\" does not exist"));
    BASALT_TRY(Value value, take_out(from));
    return add(path, std::move(value));
  }

  Done copy(const Pointer& from, const Pointer& path) {
    const Value* const found = from.find_in(document_);
    if (found == nullptr) return unfit("\"from\" does not exist");
    copied_bytes_ += found->to_text().size();
    if (copied_bytes_ > limits_.copy_bytes_max) return too_large("the patch copies too much");
    return add(path, *found);
  }

  Done test(const Pointer& path, const Value& value) const {
    const Value* const found = path.find_in(document_);
    if (found == nullptr) return unfit("there is nothing to test");
    if (!(*found == value)) return unfit("the value differs from the one tested for");
    return Ok{};
  }

  Value document_;
  const PatchLimits& limits_;
  std::size_t copied_bytes_ = 0;
  std::size_t shifts_ = 0;
};

// "operation 3 (replace "/spec/x")".
std::string name_of(const Value& operation, std::size_t index) {
  std::string name = "operation " + std::to_string(index);
  const std::string_view op = operation.string_at({"op"});
  const std::string_view path = operation.string_at({"path"});
  if (!op.empty()) name.append(" (").append(op).append(" \"").append(path).append("\")");
  return name;
}

void append_operation(Array& patch, const char* op, const std::string& path, const Value* value) {
  Object operation{{"op", op}, {"path", path}};
  if (value != nullptr) operation.set("value", *value);
  patch.emplace_back(std::move(operation));
}

void append_difference(Array& patch, const std::string& path, const Value& before, const Value& after);

std::string child_of(const std::string& path, std::string_view token) {
  std::string child = path;
  append_pointer_token(child, token);
  return child;
}

void append_object_difference(Array& patch, const std::string& path, const Object& before, const Object& after) {
  for (const Member& member : before) {
    const Value* const other = after.find(member.key);
    if (other == nullptr) {
      append_operation(patch, "remove", child_of(path, member.key), nullptr);
    } else {
      append_difference(patch, child_of(path, member.key), member.value, *other);
    }
  }
  for (const Member& member : after) {
    if (!before.contains(member.key)) append_operation(patch, "add", child_of(path, member.key), &member.value);
  }
}

// What both ends have in common stays; the middle is compared element by element, then extended or cut.
void append_array_difference(Array& patch, const std::string& path, const Array& before, const Array& after) {
  const std::size_t shorter = std::min(before.size(), after.size());
  std::size_t head = 0;
  while (head < shorter && before[head] == after[head]) ++head;
  std::size_t tail = 0;
  while (tail < shorter - head && before[before.size() - 1 - tail] == after[after.size() - 1 - tail]) ++tail;
  const std::size_t before_end = before.size() - tail;
  const std::size_t after_end = after.size() - tail;
  const std::size_t paired_end = std::min(before_end, after_end);
  for (std::size_t i = head; i < paired_end; ++i) {
    append_difference(patch, child_of(path, std::to_string(i)), before[i], after[i]);
  }
  for (std::size_t i = before_end; i > paired_end; --i) {
    append_operation(patch, "remove", child_of(path, std::to_string(i - 1)), nullptr);
  }
  for (std::size_t i = paired_end; i < after_end; ++i) {
    append_operation(patch, "add", child_of(path, std::to_string(i)), &after[i]);
  }
}

void append_difference(Array& patch, const std::string& path, const Value& before, const Value& after) {
  if (before == after) return;
  if (before.is_object() && after.is_object()) {
    append_object_difference(patch, path, before.as_object(), after.as_object());
  } else if (before.is_array() && after.is_array()) {
    append_array_difference(patch, path, before.as_array(), after.as_array());
  } else {
    append_operation(patch, "replace", path, &after);
  }
}

}  // namespace

Result<Value> apply_json_patch(Value document, const Value& patch, const PatchLimits& limits) {
  if (!patch.is_array()) return Error::make(Reason::BadRequest, "a JSON patch must be an array of operations");
  const Array& operations = patch.as_array();
  if (operations.size() > limits.operations_max) {
    return Error::make(Reason::RequestEntityTooLarge,
                       "a JSON patch may have at most " + std::to_string(limits.operations_max) +
                           " operations, this one has " + std::to_string(operations.size()));
  }
  Applier applier(std::move(document), limits);
  for (std::size_t index = 0; index < operations.size(); ++index) {
    const Done done = applier.apply(operations[index]);
    if (!done.ok()) return done.error().with_context(name_of(operations[index], index));
  }
  return std::move(applier).take();
}

Value make_json_patch(const Value& before, const Value& after) {
  Array patch;
  append_difference(patch, "", before, after);
  return patch;
}

}  // namespace basalt::json
