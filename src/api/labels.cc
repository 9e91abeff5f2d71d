#include "api/labels.h"

#include <algorithm>

#include "api/gen/meta.h"
#include "api/names.h"
#include "api/string_map.h"
#include "base/sort.h"
#include "base/strings.h"

namespace basalt::api {

namespace {

using Operator = Requirement::Operator;

// A selector can have thousands of bad values; an error with a few of them says enough.
constexpr std::size_t kComplaintsMax = 10;

// The words of a selector: an identifier (anything between the others), a symbol, or the end.
class Lexer {
 public:
  explicit Lexer(std::string_view text) : rest_(text) { next(); }

  [[nodiscard]] std::string_view token() const { return token_; }
  [[nodiscard]] bool at_end() const { return token_.empty(); }
  [[nodiscard]] bool at_identifier() const { return !at_end() && !is_symbol(token_.front()); }
  [[nodiscard]] bool at(std::string_view symbol) const { return token_ == symbol; }

  void next() {
    while (!rest_.empty() && is_blank(rest_.front())) rest_.remove_prefix(1);
    std::size_t length = 0;
    if (rest_.starts_with("==") || rest_.starts_with("!=")) {
      length = 2;
    } else if (!rest_.empty() && is_symbol(rest_.front())) {
      length = 1;
    } else {
      while (length < rest_.size() && !is_blank(rest_[length]) && !is_symbol(rest_[length])) ++length;
    }
    token_ = rest_.substr(0, length);
    rest_.remove_prefix(length);
  }
  // The identifier here, and on to the next word.
  std::string take() {
    std::string text(token_);
    next();
    return text;
  }

 private:
  static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
  static bool is_symbol(char c) { return std::string_view("=!(),<>").find(c) != std::string_view::npos; }

  std::string_view rest_;
  std::string_view token_;  // empty at the end
};

Error unexpected(const Lexer& lexer, std::string_view expected) {
  return Error::invalid_input("found '" + base::escape_controls(base::ellipsize(lexer.token(), 64)) +
                              "', expected: " + std::string(expected));
}

std::string invalid(const std::string& field, const std::string& value, std::string_view why) {
  return field + ": Invalid value: " + value + ": " + std::string(why);
}

Error bad_key(std::string_view key) {
  return Error::invalid_input(invalid("key", base::quote(key), base::join(qualified_name_complaints(key), "; ")));
}

// "(a,b)": an entry may be empty, and "()" holds one empty entry.
Result<std::vector<std::string>> parse_set(Lexer& lexer) {
  if (!lexer.at("(")) return unexpected(lexer, "'('");
  lexer.next();
  if (!lexer.at_identifier() && !lexer.at(",") && !lexer.at(")")) return unexpected(lexer, "',', ')' or identifier");
  std::vector<std::string> values;
  while (true) {
    values.push_back(lexer.at_identifier() ? lexer.take() : std::string());
    const bool last = lexer.at(")");
    if (!last && !lexer.at(",")) return unexpected(lexer, "',' or ')'");
    lexer.next();
    if (last) return values;
  }
}

// The value after "=", ">" and the like, which may be left out.
Result<std::vector<std::string>> parse_value(Lexer& lexer) {
  if (lexer.at_identifier()) return std::vector<std::string>{lexer.take()};
  if (lexer.at_end() || lexer.at(",")) return std::vector<std::string>{""};
  return unexpected(lexer, "identifier");
}

std::optional<Operator> operator_of(std::string_view token) {
  if (token == "=") return Operator::Equals;
  if (token == "==") return Operator::DoubleEquals;
  if (token == "!=") return Operator::NotEquals;
  if (token == "in") return Operator::In;
  if (token == "notin") return Operator::NotIn;
  if (token == ">") return Operator::GreaterThan;
  if (token == "<") return Operator::LessThan;
  return std::nullopt;
}

Result<Requirement> parse_requirement(Lexer& lexer) {
  const bool negated = lexer.at("!");
  if (negated) lexer.next();
  if (!lexer.at_identifier()) return unexpected(lexer, "identifier");
  const std::string key = lexer.take();
  // Before what follows: a bad key is the better explanation of what comes after it.
  if (!is_qualified_name(key)) return bad_key(key);
  if (negated) return Requirement::make(key, Operator::DoesNotExist, {});
  if (lexer.at_end() || lexer.at(",")) return Requirement::make(key, Operator::Exists, {});
  const std::optional<Operator> op = operator_of(lexer.token());
  if (!op) return unexpected(lexer, "in, notin, =, ==, !=, gt, lt");
  lexer.next();
  const bool takes_set = *op == Operator::In || *op == Operator::NotIn;
  BASALT_TRY(std::vector<std::string> values, takes_set ? parse_set(lexer) : parse_value(lexer));
  return Requirement::make(key, *op, std::move(values));
}

std::string quoted_list(const std::vector<std::string>& values) {
  std::vector<std::string> quoted;
  for (const std::string& value : values) quoted.push_back(base::quote(value));
  return values.empty() ? "null" : "[" + base::join(quoted, ",") + "]";
}

// Empty if the number of values suits the operator.
std::string_view count_complaint(Operator op, std::size_t count) {
  switch (op) {
    case Operator::In:
    case Operator::NotIn:
      return count > 0 ? "" : "for 'in', 'notin' operators, values set can't be empty";
    case Operator::Equals:
    case Operator::DoubleEquals:
    case Operator::NotEquals:
      return count == 1 ? "" : "exact-match compatibility requires one single value";
    case Operator::Exists:
    case Operator::DoesNotExist:
      return count == 0 ? "" : "values set must be empty for exists and does not exist";
    case Operator::GreaterThan:
    case Operator::LessThan:
      return count == 1 ? "" : "for 'Gt', 'Lt' operators, exactly one value is required";
  }
  return "";
}

void sort_by_key(std::vector<Requirement>& requirements) {
  base::stable_sort(requirements, [](const Requirement& a, const Requirement& b) { return a.key < b.key; });
}

std::optional<Operator> operator_of_object(std::string_view name) {
  if (name == "In") return Operator::In;
  if (name == "NotIn") return Operator::NotIn;
  if (name == "Exists") return Operator::Exists;
  if (name == "DoesNotExist") return Operator::DoesNotExist;
  return std::nullopt;
}

}  // namespace

Result<Requirement> Requirement::make(std::string_view key, Operator op, std::vector<std::string> values) {
  std::vector<std::string> complaints;
  if (!is_qualified_name(key)) complaints.push_back(bad_key(key).message);
  if (const std::string_view complaint = count_complaint(op, values.size()); !complaint.empty()) {
    complaints.push_back(invalid("values", quoted_list(values), complaint));
  }
  const bool is_numeric = op == Operator::GreaterThan || op == Operator::LessThan;
  for (std::size_t i = 0; i < values.size() && complaints.size() < kComplaintsMax; ++i) {
    const std::string field = "values[" + std::to_string(i) + "]";
    if (is_numeric && !base::parse_int64(values[i])) {
      complaints.push_back(
          invalid(field, base::quote(values[i]), "for 'Gt', 'Lt' operators, the value must be an integer"));
    }
    if (!is_label_value(values[i])) {
      complaints.push_back(invalid(field + "[" + std::string(key) + "]", base::quote(values[i]),
                                   base::join(label_value_complaints(values[i]), "; ")));
    }
  }
  if (complaints.size() == 1) return Error::invalid_input(std::move(complaints.front()));
  if (!complaints.empty()) return Error::invalid_input("[" + base::join(complaints, ", ") + "]");
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return Requirement{std::string(key), op, std::move(values)};
}

bool Requirement::accepts(std::optional<std::string_view> value) const {
  switch (op) {
    case Operator::In:
    case Operator::Equals:
    case Operator::DoubleEquals:
      return value && std::binary_search(values.begin(), values.end(), *value);
    case Operator::NotIn:
    case Operator::NotEquals:
      return !value || !std::binary_search(values.begin(), values.end(), *value);
    case Operator::Exists:
      return value.has_value();
    case Operator::DoesNotExist:
      return !value.has_value();
    case Operator::GreaterThan:
    case Operator::LessThan: {
      const std::optional<std::int64_t> number = value ? base::parse_int64(*value) : std::nullopt;
      const std::optional<std::int64_t> bound =
          values.empty() ? std::nullopt : base::parse_int64(std::string_view(values.front()));
      if (!number || !bound) return false;
      return op == Operator::GreaterThan ? *number > *bound : *number < *bound;
    }
  }
  return false;
}

std::string Requirement::to_string() const {
  const auto list = [&] { return "(" + base::join(values, ",") + ")"; };
  const std::string value = values.empty() ? "" : values.front();
  switch (op) {
    case Operator::In:
      return key + " in " + list();
    case Operator::NotIn:
      return key + " notin " + list();
    case Operator::Equals:
      return key + "=" + value;
    case Operator::DoubleEquals:
      return key + "==" + value;
    case Operator::NotEquals:
      return key + "!=" + value;
    case Operator::Exists:
      return key;
    case Operator::DoesNotExist:
      return "!" + key;
    case Operator::GreaterThan:
      return key + ">" + value;
    case Operator::LessThan:
      return key + "<" + value;
  }
  return key;
}

Selector Selector::nothing() {
  Selector selector;
  selector.nothing_ = true;
  return selector;
}

Selector Selector::of_labels(const StringMap& labels) {
  Selector selector;
  for (const auto [key, value] : labels) {
    selector.requirements_.push_back({std::string(key), Operator::Equals, {std::string(value)}});
  }
  return selector;
}

Result<Selector> Selector::parse(std::string_view text) {
  Selector selector;
  Lexer lexer(text);
  if (lexer.at_end()) return selector;
  if (!lexer.at_identifier() && !lexer.at("!")) return unexpected(lexer, "!, identifier, or 'end of string'");
  while (true) {
    Result<Requirement> requirement = parse_requirement(lexer);
    if (!requirement.ok()) return requirement.error().with_context("unable to parse requirement");
    selector.requirements_.push_back(*std::move(requirement));
    if (lexer.at_end()) break;
    if (!lexer.at(",")) return unexpected(lexer, "',' or 'end of string'");
    lexer.next();
    if (!lexer.at_identifier() && !lexer.at("!")) return unexpected(lexer, "identifier after ','");
  }
  sort_by_key(selector.requirements_);
  return selector;
}

Result<Selector> Selector::from(const meta::LabelSelector* selector) {
  if (selector == nullptr) return nothing();
  Selector result;
  for (const auto [key, value] : selector->match_labels) {
    BASALT_TRY(Requirement requirement, Requirement::make(key, Operator::Equals, {std::string(value)}));
    result.requirements_.push_back(std::move(requirement));
  }
  for (const auto& expression : selector->match_expressions) {
    const std::optional<Operator> op = operator_of_object(expression.operator_);
    if (!op) {
      return Error::invalid_input(base::quote(expression.operator_) + " is not a valid label selector operator");
    }
    BASALT_TRY(Requirement requirement, Requirement::make(expression.key, *op, expression.values));
    result.requirements_.push_back(std::move(requirement));
  }
  sort_by_key(result.requirements_);
  return result;
}

bool Selector::matches(const StringMap& labels) const {
  return matches_with([&](std::string_view key) { return labels.find(key); });
}

std::optional<std::string_view> Selector::exact_value(std::string_view key) const {
  for (const Requirement& requirement : requirements_) {
    const bool is_exact = requirement.op == Operator::In || requirement.op == Operator::Equals ||
                          requirement.op == Operator::DoubleEquals;
    if (is_exact && requirement.key == key && requirement.values.size() == 1) return requirement.values.front();
  }
  return std::nullopt;
}

void Selector::add(Requirement requirement) {
  const auto after = std::upper_bound(requirements_.begin(), requirements_.end(), requirement.key,
                                      [](const std::string& key, const Requirement& other) { return key < other.key; });
  requirements_.insert(after, std::move(requirement));
}

std::string Selector::to_string() const {
  std::string out;
  for (const Requirement& requirement : requirements_) {
    if (!out.empty()) out.push_back(',');
    out.append(requirement.to_string());
  }
  return out;
}

std::string format_label_selector(const meta::LabelSelector& selector) {
  const Result<Selector> parsed = Selector::from(selector);
  if (!parsed.ok()) return "<error>";
  return parsed->is_everything() ? "<none>" : parsed->to_string();
}

}  // namespace basalt::api
