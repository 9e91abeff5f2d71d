#include "api/names.h"

#include <algorithm>

#include "api/string_map.h"
#include "base/error.h"
#include "base/strings.h"

namespace basalt::api {

namespace {

using base::is_alpha;
using base::is_alphanumeric;
using base::is_digit;
using base::is_lower;

constexpr std::string_view kQualifiedNameRule =
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
constexpr std::string_view kSubdomainRule =
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
constexpr std::string_view kLabelRule =
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
constexpr std::string_view kDns1035Rule =
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')";
constexpr std::string_view kLabelValueRule =
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
constexpr std::string_view kEnvVarRule =
    "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', and must not "
    "start with a digit (e.g. 'my.env-name',  or 'MY_ENV.NAME',  or 'MyEnvName1', regex used for validation is "
    "'[-._a-zA-Z][-._a-zA-Z0-9]*')";
constexpr std::string_view kRelaxedEnvVarRule =
    "a valid environment variable name must consist only of printable ASCII characters other than '='";
constexpr std::string_view kIdentifierRule =
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters "
    "or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')";
constexpr std::string_view kConfigKeyRule =
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or "
    "'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
constexpr std::string_view kPercentRule =
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')";

template <class Test>
bool all(std::string_view text, Test test) {
  return std::all_of(text.begin(), text.end(), test);
}

bool is_lower_or_digit(char c) { return is_lower(c) || is_digit(c); }
bool is_name_character(char c) { return is_alphanumeric(c) || c == '-' || c == '_' || c == '.'; }

// The shape alone, without the length.
bool has_label_shape(std::string_view text) {
  return !text.empty() && is_lower_or_digit(text.front()) && is_lower_or_digit(text.back()) &&
         all(text, [](char c) { return is_lower_or_digit(c) || c == '-'; });
}

bool has_subdomain_shape(std::string_view text) {
  while (true) {
    const std::size_t dot = text.find('.');
    if (!has_label_shape(text.substr(0, dot))) return false;
    if (dot == std::string_view::npos) return true;
    text.remove_prefix(dot + 1);
  }
}

bool has_qualified_shape(std::string_view name) {
  return !name.empty() && is_alphanumeric(name.front()) && is_alphanumeric(name.back()) && all(name, is_name_character);
}

std::string too_long(std::size_t limit, const char* unit) {
  return "must be no more than " + std::to_string(limit) + " " + unit;
}

// What would lead out of a directory as a file name.
void complain_about_dots(std::string_view text, Complaints& complaints) {
  if (text == ".") {
    complaints.emplace_back("must not be '.'");
  } else if (text == "..") {
    complaints.emplace_back("must not be '..'");
  } else if (text.starts_with("..")) {
    complaints.emplace_back("must not start with '..'");
  }
}

void add_causes(const Complaints& complaints, std::string_view path, std::string_view value,
                std::vector<Cause>& causes) {
  for (const std::string& complaint : complaints) {
    causes.push_back(
        {"FieldValueInvalid", "Invalid value: " + base::quote(value) + ": " + complaint, std::string(path)});
  }
}

}  // namespace

bool is_dns1123_label(std::string_view text) { return text.size() <= kDnsLabelMax && has_label_shape(text); }

Complaints dns1123_label_complaints(std::string_view text) {
  Complaints complaints;
  if (text.size() > kDnsLabelMax) complaints.push_back(too_long(kDnsLabelMax, "characters"));
  if (!has_label_shape(text)) {
    complaints.emplace_back(has_subdomain_shape(text) ? "must not contain dots" : kLabelRule);
  }
  return complaints;
}

bool is_dns1123_subdomain(std::string_view text) {
  return text.size() <= kDnsSubdomainMax && has_subdomain_shape(text);
}

Complaints dns1123_subdomain_complaints(std::string_view text) {
  Complaints complaints;
  if (text.size() > kDnsSubdomainMax) complaints.push_back(too_long(kDnsSubdomainMax, "characters"));
  if (!has_subdomain_shape(text)) complaints.emplace_back(kSubdomainRule);
  return complaints;
}

bool is_dns1035_label(std::string_view text) { return is_dns1123_label(text) && is_lower(text.front()); }

Complaints dns1035_label_complaints(std::string_view text) {
  Complaints complaints;
  if (text.size() > kDnsLabelMax) complaints.push_back(too_long(kDnsLabelMax, "characters"));
  if (!has_label_shape(text) || !is_lower(text.front())) complaints.emplace_back(kDns1035Rule);
  return complaints;
}

bool is_qualified_name(std::string_view text) {
  if (const auto parts = base::split_once(text, '/')) {
    if (!is_dns1123_subdomain(parts->first)) return false;
    text = parts->second;
  }
  return text.size() <= kQualifiedNameMax && has_qualified_shape(text);
}

Complaints qualified_name_complaints(std::string_view text) {
  Complaints complaints;
  std::string_view name = text;
  if (const auto parts = base::split_once(text, '/')) {
    name = parts->second;
    if (name.find('/') != std::string_view::npos) {
      complaints.push_back("a valid label key " + std::string(kQualifiedNameRule) +
                           " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')");
      return complaints;
    }
    if (parts->first.empty()) {
      complaints.emplace_back("prefix part must be non-empty");
    } else {
      if (parts->first.size() > kDnsSubdomainMax) {
        complaints.push_back("prefix part " + too_long(kDnsSubdomainMax, "bytes"));
      }
      if (!has_subdomain_shape(parts->first)) complaints.push_back("prefix part " + std::string(kSubdomainRule));
    }
  }
  if (name.empty()) complaints.emplace_back("name part must be non-empty");
  if (name.size() > kQualifiedNameMax) complaints.push_back("name part " + too_long(kQualifiedNameMax, "bytes"));
  if (!has_qualified_shape(name)) complaints.push_back("name part " + std::string(kQualifiedNameRule));
  return complaints;
}

bool is_label_value(std::string_view text) {
  return text.empty() || (text.size() <= kLabelValueMax && has_qualified_shape(text));
}

Complaints label_value_complaints(std::string_view text) {
  Complaints complaints;
  if (text.size() > kLabelValueMax) complaints.push_back(too_long(kLabelValueMax, "bytes"));
  if (!text.empty() && !has_qualified_shape(text)) complaints.emplace_back(kLabelValueRule);
  return complaints;
}

bool is_env_var_name(std::string_view text) { return env_var_name_complaints(text).empty(); }

Complaints env_var_name_complaints(std::string_view text) {
  Complaints complaints;
  if (text.empty() || is_digit(text.front()) || !all(text, is_name_character)) complaints.emplace_back(kEnvVarRule);
  complain_about_dots(text, complaints);
  return complaints;
}

Complaints relaxed_env_var_name_complaints(std::string_view text) {
  Complaints complaints;
  if (text.empty()) complaints.emplace_back("environment variable name must be non-empty");
  if (!all(text, [](char c) { return c >= ' ' && c <= '~' && c != '='; })) complaints.emplace_back(kRelaxedEnvVarRule);
  return complaints;
}

Complaints c_identifier_complaints(std::string_view text) {
  if (text.empty() || is_digit(text.front()) || !all(text, [](char c) { return is_alphanumeric(c) || c == '_'; })) {
    return {std::string(kIdentifierRule)};
  }
  return {};
}

bool is_config_key(std::string_view text) { return config_key_complaints(text).empty(); }

Complaints config_key_complaints(std::string_view text) {
  Complaints complaints;
  if (text.size() > kDnsSubdomainMax) complaints.push_back(too_long(kDnsSubdomainMax, "characters"));
  if (text.empty() || !all(text, is_name_character)) complaints.emplace_back(kConfigKeyRule);
  complain_about_dots(text, complaints);
  return complaints;
}

bool is_port_name(std::string_view text) { return port_name_complaints(text).empty(); }

Complaints port_name_complaints(std::string_view text) {
  Complaints complaints;
  if (text.size() > kPortNameMax) complaints.push_back(too_long(kPortNameMax, "characters"));
  if (text.empty() || !all(text, [](char c) { return is_lower_or_digit(c) || c == '-'; })) {
    complaints.emplace_back("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)");
  }
  if (std::none_of(text.begin(), text.end(), is_lower))
    complaints.emplace_back("must contain at least one letter (a-z)");
  if (text.find("--") != std::string_view::npos) complaints.emplace_back("must not contain consecutive hyphens");
  if (text.starts_with('-') || text.ends_with('-')) complaints.emplace_back("must not begin or end with a hyphen");
  return complaints;
}

Complaints port_number_complaints(std::int64_t port) {
  if (port >= 1 && port <= 65'535) return {};
  return {"must be between 1 and 65535, inclusive"};
}

Complaints percent_complaints(std::string_view text) {
  const auto number = base::strip_suffix(text, "%");
  if (number && !number->empty() && all(*number, is_digit)) return {};
  return {std::string(kPercentRule)};
}

Complaints path_segment_complaints(std::string_view text) {
  if (text == "." || text == "..") return {"may not be '" + std::string(text) + "'"};
  Complaints complaints;
  for (const char c : {'/', '%'}) {
    if (text.find(c) != std::string_view::npos) complaints.push_back(std::string("may not contain '") + c + "'");
  }
  return complaints;
}

std::string name_for_prefix_check(std::string_view generate_name) {
  // A trailing dash is fine, as letters will follow; the rest of the text must still be well-formed without it.
  if (generate_name.size() < 2 || !generate_name.ends_with('-')) return std::string(generate_name);
  return std::string(generate_name.substr(0, generate_name.size() - 2)) + "a";
}

void check_labels(const StringMap& labels, std::string_view path, std::vector<Cause>& causes) {
  for (const auto [key, value] : labels) {
    if (!is_qualified_name(key)) add_causes(qualified_name_complaints(key), path, key, causes);
    if (!is_label_value(value)) add_causes(label_value_complaints(value), path, value, causes);
  }
}

void check_annotations(const StringMap& annotations, std::string_view path, std::vector<Cause>& causes) {
  std::size_t bytes = 0;
  for (const auto [key, value] : annotations) {
    bytes += key.size() + value.size();
    // Annotations came before the rule, hence the lower case.
    const std::string lower = base::to_lower_ascii(key);
    if (!is_qualified_name(lower)) add_causes(qualified_name_complaints(lower), path, key, causes);
  }
  if (bytes > kAnnotationsBytesMax) {
    causes.push_back({"FieldValueTooLong",
                      "Too long: may not be more than " + std::to_string(kAnnotationsBytesMax) + " bytes",
                      std::string(path)});
  }
}

}  // namespace basalt::api
