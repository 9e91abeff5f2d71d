#include "net/url.h"

#include <charconv>

#include <fmt/format.h>

#include "base/strings.h"

namespace basalt::net {
namespace {

bool is_unreserved(char c) { return base::is_alphanumeric(c) || c == '-' || c == '.' || c == '_' || c == '~'; }

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Appends the decoded text; false for a bad escape.
bool decode_to(std::string_view text, bool plus_is_blank, std::string& out) {
  out.reserve(out.size() + text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%') {
      if (i + 2 >= text.size()) return false;
      const int high = hex_value(text[i + 1]);
      const int low = hex_value(text[i + 2]);
      if (high < 0 || low < 0) return false;
      out.push_back(static_cast<char>(high * 16 + low));
      i += 2;
    } else {
      out.push_back(text[i] == '+' && plus_is_blank ? ' ' : text[i]);
    }
  }
  return true;
}

std::optional<std::uint16_t> parse_port(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return port;
}

struct SplitAuthority {
  std::string_view host;
  std::optional<std::string_view> port;  // what follows the colon, if there is one
};

// Nothing if brackets do not match or an IPv6 address stands without them.
std::optional<SplitAuthority> split_authority(std::string_view text) {
  SplitAuthority split;
  if (text.starts_with('[')) {
    const std::size_t close = text.find(']');
    if (close == std::string_view::npos) return std::nullopt;
    split.host = text.substr(1, close - 1);
    text.remove_prefix(close + 1);
    if (text.empty()) return split;
    if (text.front() != ':') return std::nullopt;
    split.port = text.substr(1);
    return split;
  }
  const std::size_t colon = text.find(':');
  split.host = text.substr(0, colon);
  if (colon == std::string_view::npos) return split;
  split.port = text.substr(colon + 1);
  if (split.port->find(':') != std::string_view::npos) return std::nullopt;
  return split;
}

std::string join_host_port(const std::string& host, std::uint16_t port) {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

bool has_control_or_blank(std::string_view text) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= ' ' || byte == 0x7f) return true;
  }
  return false;
}

}  // namespace

std::string Url::host_and_port() const { return join_host_port(host, port); }

std::string Url::origin() const { return scheme + "://" + host_and_port(); }

std::string Url::to_string() const { return query.empty() ? origin() + path : origin() + path + "?" + query; }

Result<Url> parse_url(std::string_view text) {
  const auto refuse = [&](std::string_view why) {
    return Error::invalid_input(fmt::format("The URL \"{}\" cannot be used: {}.", text.substr(0, 256), why));
  };
  if (has_control_or_blank(text)) return refuse("it has a blank or a control character");
  const std::size_t scheme_end = text.find("://");
  if (scheme_end == std::string_view::npos) return refuse("it does not start with http:// or https://");
  Url url;
  url.scheme = base::to_lower_ascii(text.substr(0, scheme_end));
  if (url.scheme != "http" && url.scheme != "https") return refuse("it does not start with http:// or https://");
  std::string_view rest = text.substr(scheme_end + 3);
  if (rest.find('#') != std::string_view::npos) return refuse("it has a fragment");

  const std::size_t authority_end = rest.find_first_of("/?");
  const std::string_view authority = rest.substr(0, authority_end);
  rest = authority_end == std::string_view::npos ? std::string_view() : rest.substr(authority_end);
  if (authority.find('@') != std::string_view::npos) return refuse("it has a user name in it");
  const auto split = split_authority(authority);
  if (!split || split->host.empty()) return refuse("it has no valid host");
  url.host = split->host;
  url.port = url.scheme == "https" ? 443 : 80;
  if (split->port && !split->port->empty()) {
    const auto port = parse_port(*split->port);
    if (!port) return refuse("its port is not a number from 0 to 65535");
    url.port = *port;
  }

  const std::size_t question = rest.find('?');
  url.path = rest.substr(0, question);
  if (url.path.empty()) url.path = "/";
  if (question != std::string_view::npos) url.query = rest.substr(question + 1);
  return url;
}

Result<HostPort> parse_host_port(std::string_view text) {
  const auto split = split_authority(text);
  const auto port = split && split->port ? parse_port(*split->port) : std::nullopt;
  if (!port || has_control_or_blank(text)) {
    return Error::invalid_input(fmt::format("\"{}\" is not an address of the form host:port.", text.substr(0, 256)));
  }
  return HostPort{.host = std::string(split->host), .port = *port};
}

std::string percent_encode(std::string_view text) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (is_unreserved(c)) {
      out.push_back(c);
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out.push_back('%');
    out.push_back(kDigits[byte >> 4]);
    out.push_back(kDigits[byte & 15]);
  }
  return out;
}

std::optional<std::string> percent_decode(std::string_view text) {
  std::string out;
  if (!decode_to(text, /*plus_is_blank=*/false, out)) return std::nullopt;
  return out;
}

Result<Query> parse_query(std::string_view text, std::size_t parameters_max) {
  Query query;
  while (!text.empty()) {
    const std::size_t end = text.find('&');
    const std::string_view piece = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (piece.empty()) continue;
    if (query.size() == parameters_max) {
      return Error::make(Reason::BadRequest, fmt::format("The query has more than {} parameters.", parameters_max));
    }
    const std::size_t equals = piece.find('=');
    auto& [name, value] = query.emplace_back();
    const bool is_valid =
        decode_to(piece.substr(0, equals), /*plus_is_blank=*/true, name) &&
        (equals == std::string_view::npos || decode_to(piece.substr(equals + 1), /*plus_is_blank=*/true, value));
    if (!is_valid) {
      return Error::make(Reason::BadRequest,
                         fmt::format("The query parameter \"{}\" has a bad percent escape.", piece.substr(0, 128)));
    }
  }
  return query;
}

std::string build_query(const Query& query) {
  std::string out;
  for (const auto& [name, value] : query) {
    if (!out.empty()) out.push_back('&');
    out += percent_encode(name);
    out.push_back('=');
    out += percent_encode(value);
  }
  return out;
}

std::optional<std::string_view> find_parameter(const Query& query, std::string_view name) {
  for (const auto& [key, value] : query) {
    if (key == name) return value;
  }
  return std::nullopt;
}

}  // namespace basalt::net
