#include "api/fields.h"

#include <algorithm>

#include "base/strings.h"

namespace basalt::api {

namespace {

bool needs_escape(char c) { return c == ',' || c == '=' || c == '\\'; }

// At commas that no backslash protects.
std::vector<std::string_view> split_terms(std::string_view text) {
  std::vector<std::string_view> terms;
  std::size_t start = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == ',') {
      terms.push_back(text.substr(start, i - start));
      start = i + 1;
    }
  }
  terms.push_back(text.substr(start));
  std::erase_if(terms, [](std::string_view term) { return term.empty(); });
  return terms;
}

Error bad_value(const std::string& why) { return Error::invalid_input("invalid field selector: " + why); }

Result<std::string> unescape(std::string_view text) {
  std::string value;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
      if (i == text.size() || !needs_escape(text[i])) {
        return bad_value("invalid escape sequence: " + base::escape_controls(text.substr(i - 1, 2)));
      }
    } else if (needs_escape(text[i])) {
      return bad_value(std::string("unescaped character in value: '") + text[i] + "'");
    }
    value.push_back(text[i]);
  }
  return value;
}

}  // namespace

Result<FieldSelector> FieldSelector::parse(std::string_view text) {
  FieldSelector selector;
  std::vector<std::string_view> terms = split_terms(text);
  // Kubernetes sorts the terms as they are written; so do we, for equal texts in lists of equal terms.
  std::sort(terms.begin(), terms.end());
  for (const std::string_view term : terms) {
    const std::size_t equals = term.find('=');
    if (equals == std::string_view::npos) {
      return Error::invalid_input("invalid selector: '" + base::escape_controls(base::ellipsize(text, 256)) +
                                  "'; can't understand '" + base::escape_controls(base::ellipsize(term, 64)) + "'");
    }
    const bool negated = equals > 0 && term[equals - 1] == '!';
    std::string_view value = term.substr(equals + 1);
    if (!negated && value.starts_with('=')) value.remove_prefix(1);
    BASALT_TRY(std::string unescaped, unescape(value));
    const std::string_view field = term.substr(0, equals - (negated ? 1 : 0));
    // "=" alone says nothing, and Kubernetes takes it so.
    if (field.empty() && unescaped.empty()) continue;
    selector.terms_.push_back({std::string(field), std::move(unescaped), negated});
  }
  return selector;
}

FieldSelector FieldSelector::of(std::vector<Term> terms) {
  FieldSelector selector;
  selector.terms_ = std::move(terms);
  return selector;
}

const std::string* FieldSelector::exact_value(std::string_view field) const {
  for (const Term& term : terms_) {
    if (!term.negated && term.field == field) return &term.value;
  }
  return nullptr;
}

std::string FieldSelector::to_string() const {
  std::string out;
  for (const Term& term : terms_) {
    if (!out.empty()) out.push_back(',');
    out.append(term.field).append(term.negated ? "!=" : "=").append(escape_field_value(term.value));
  }
  return out;
}

std::string escape_field_value(std::string_view value) {
  std::string out;
  out.reserve(value.size());
  for (const char c : value) {
    if (needs_escape(c)) out.push_back('\\');
    out.push_back(c);
  }
  return out;
}

}  // namespace basalt::api
