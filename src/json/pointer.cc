#include "json/pointer.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace basalt::json {

Result<Pointer> Pointer::parse(std::string_view text) {
  std::vector<std::string> tokens;
  if (text.empty()) return Pointer();
  if (text.front() != '/') {
    return Error::invalid_input("JSON pointer \"" + std::string(text) + "\" must be empty or begin with /");
  }
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '/') {
      tokens.emplace_back();
    } else if (text[at] != '~') {
      tokens.back().push_back(text[at]);
    } else {
      ++at;
      if (at == text.size() || (text[at] != '0' && text[at] != '1')) {
        return Error::invalid_input("JSON pointer \"" + std::string(text) + "\": ~ must be followed by 0 or 1");
      }
      tokens.back().push_back(text[at] == '0' ? '~' : '/');
    }
  }
  return Pointer(std::move(tokens));
}

std::string Pointer::to_string() const {
  std::string text;
  for (const std::string& token : tokens_) append_pointer_token(text, token);
  return text;
}

bool Pointer::is_proper_prefix_of(const Pointer& other) const {
  return tokens_.size() < other.tokens_.size() && std::equal(tokens_.begin(), tokens_.end(), other.tokens_.begin());
}

const Value* Pointer::find_in(const Value& root) const {
  const Value* at = &root;
  for (const std::string& token : tokens_) {
    if (at->is_array()) {
      const auto index = parse_array_index(token);
      if (!index || *index >= at->as_array().size()) return nullptr;
      at = &at->as_array()[*index];
    } else {
      at = at->find(token);
      if (at == nullptr) return nullptr;
    }
  }
  return at;
}

Value* Pointer::find_in(Value& root) const { return const_cast<Value*>(find_in(std::as_const(root))); }

void append_pointer_token(std::string& pointer, std::string_view token) {
  pointer.push_back('/');
  for (const char c : token) {
    if (c == '~') {
      pointer.append("~0");
    } else if (c == '/') {
      pointer.append("~1");
    } else {
      pointer.push_back(c);
    }
  }
}

std::optional<std::size_t> parse_array_index(std::string_view token) {
  if (token.empty() || (token.size() > 1 && token.front() == '0')) return std::nullopt;
  std::size_t index = 0;
  const auto result = std::from_chars(token.data(), token.data() + token.size(), index);
  if (result.ec != std::errc() || result.ptr != token.data() + token.size()) return std::nullopt;
  return index;
}

}  // namespace basalt::json
