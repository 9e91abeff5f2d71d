#include "cel/net_values.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "base/encoding.h"
#include "base/strings.h"
#include "cel/function.h"

namespace basalt::cel {
namespace {

struct Address {
  std::array<std::uint8_t, 16> bytes{};
  int family = 4;

  [[nodiscard]] int bits() const { return family == 4 ? 32 : 128; }
  [[nodiscard]] std::string text() const {
    char buffer[INET6_ADDRSTRLEN] = {};
    inet_ntop(family == 4 ? AF_INET : AF_INET6, bytes.data(), buffer, sizeof buffer);
    return buffer;
  }
  bool operator==(const Address&) const = default;
};

std::optional<Address> read_address(std::string_view text) {
  const std::string copy(text);
  Address address;
  if (inet_pton(AF_INET, copy.c_str(), address.bytes.data()) == 1) return address;
  address.family = 6;
  address.bytes = {};
  // As Kubernetes: no zones, no IPv4 inside IPv6.
  if (copy.find('.') != std::string::npos || copy.find('\0') != std::string::npos) return std::nullopt;
  if (inet_pton(AF_INET6, copy.c_str(), address.bytes.data()) == 1) return address;
  return std::nullopt;
}

Address masked(Address address, int prefix) {
  for (int bit = prefix; bit < address.bits(); ++bit) {
    address.bytes[static_cast<std::size_t>(bit / 8)] &= static_cast<std::uint8_t>(~(0x80u >> (bit % 8)));
  }
  return address;
}

bool all_zero(const Address& address, std::size_t from, std::size_t to) {
  return std::all_of(address.bytes.begin() + static_cast<std::ptrdiff_t>(from),
                     address.bytes.begin() + static_cast<std::ptrdiff_t>(to), [](std::uint8_t b) { return b == 0; });
}

bool is_multicast_link_local(const Address& a) {
  if (a.family == 4) return a.bytes[0] == 224 && a.bytes[1] == 0 && a.bytes[2] == 0;
  return a.bytes[0] == 0xff && (a.bytes[1] & 0x0f) == 2;
}
bool is_unicast_link_local(const Address& a) {
  if (a.family == 4) return a.bytes[0] == 169 && a.bytes[1] == 254;
  return a.bytes[0] == 0xfe && (a.bytes[1] & 0xc0) == 0x80;
}
bool is_loopback(const Address& a) {
  return a.family == 4 ? a.bytes[0] == 127 : all_zero(a, 0, 15) && a.bytes[15] == 1;
}
bool is_multicast(const Address& a) { return a.family == 4 ? (a.bytes[0] & 0xf0) == 224 : a.bytes[0] == 0xff; }
bool is_unspecified(const Address& a) { return all_zero(a, 0, a.family == 4 ? 4 : 16); }
bool is_broadcast(const Address& a) {
  return a.family == 4 && std::all_of(a.bytes.begin(), a.bytes.begin() + 4, [](std::uint8_t b) { return b == 255; });
}

class Ip final : public Extension {
 public:
  explicit Ip(Address address) : address_(address) {}
  [[nodiscard]] std::string_view type_name() const override { return "net.IP"; }
  [[nodiscard]] const Address& address() const { return address_; }
  [[nodiscard]] bool equals(const Extension& other) const override {
    return address_ == static_cast<const Ip&>(other).address_;
  }
  [[nodiscard]] Result<Value> call(std::string_view method, std::span<const Value>) const override {
    if (method == "family") return Value::of_int(address_.family);
    if (method == "string") return Value::of_text(address_.text());
    if (method == "isUnspecified") return Value::of_bool(is_unspecified(address_));
    if (method == "isLoopback") return Value::of_bool(is_loopback(address_));
    if (method == "isLinkLocalMulticast") return Value::of_bool(is_multicast_link_local(address_));
    if (method == "isLinkLocalUnicast") return Value::of_bool(is_unicast_link_local(address_));
    if (method == "isGlobalUnicast") {
      return Value::of_bool(!is_unspecified(address_) && !is_loopback(address_) && !is_multicast(address_) &&
                            !is_unicast_link_local(address_) && !is_broadcast(address_));
    }
    return no_overload();
  }

 private:
  Address address_;
};

class Cidr final : public Extension {
 public:
  Cidr(Address address, int prefix) : address_(address), prefix_(prefix) {}
  [[nodiscard]] std::string_view type_name() const override { return "net.CIDR"; }
  [[nodiscard]] bool equals(const Extension& other) const override {
    const auto& cidr = static_cast<const Cidr&>(other);
    return address_ == cidr.address_ && prefix_ == cidr.prefix_;
  }
  [[nodiscard]] Result<Value> call(std::string_view method, std::span<const Value> arguments) const override {
    if (method == "prefixLength") return Value::of_int(prefix_);
    if (method == "string") return Value::of_text(address_.text() + "/" + std::to_string(prefix_));
    if (method == "ip") return Value(Value::Data(Value::ExtensionRef(std::make_shared<const Ip>(address_))));
    if (method == "masked") {
      return Value(Value::Data(Value::ExtensionRef(std::make_shared<const Cidr>(masked(address_, prefix_), prefix_))));
    }
    if (arguments.size() != 1) return no_overload();
    Value given = arguments[0];
    const Text* text = given.get<Text>();
    if (method == "containsIP") {
      if (text != nullptr) {
        BASALT_TRY(given, parse_ip(text->view));
      }
      const auto* ip = dynamic_cast<const Ip*>(given.extension());
      if (ip == nullptr) return no_overload();
      return Value::of_bool(contains(ip->address(), ip->address().bits()));
    }
    if (method == "containsCIDR") {
      if (text != nullptr) {
        BASALT_TRY(given, parse_cidr(text->view));
      }
      const auto* cidr = dynamic_cast<const Cidr*>(given.extension());
      if (cidr == nullptr) return no_overload();
      return Value::of_bool(contains(cidr->address_, cidr->prefix_));
    }
    return no_overload();
  }

 private:
  [[nodiscard]] bool contains(const Address& other, int prefix) const {
    return other.family == address_.family && prefix >= prefix_ && masked(other, prefix_) == masked(address_, prefix_);
  }

  Address address_;
  int prefix_;
};

std::optional<std::string> percent_decoded(std::string_view text, bool plus_is_space) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%') {
      const auto byte = i + 2 < text.size() ? base::hex_decode(text.substr(i + 1, 2)) : std::nullopt;
      if (!byte) return std::nullopt;
      out += *byte;
      i += 2;
    } else {
      out += plus_is_space && text[i] == '+' ? ' ' : text[i];
    }
  }
  return out;
}

class Url final : public Extension {
 public:
  std::string text, scheme, host, path, query;

  [[nodiscard]] std::string_view type_name() const override { return "kubernetes.URL"; }
  [[nodiscard]] bool equals(const Extension& other) const override {
    return text == static_cast<const Url&>(other).text;
  }
  [[nodiscard]] Result<Value> call(std::string_view method, std::span<const Value>) const override {
    if (method == "getScheme") return Value::of_text(scheme);
    if (method == "getHost") return Value::of_text(host);
    if (method == "getHostname") return Value::of_text(hostname());
    if (method == "getPort") return Value::of_text(port());
    if (method == "getEscapedPath") return Value::of_text(path);
    if (method == "getQuery") return parameters();
    if (method == "string") return Value::of_text(text);
    return no_overload();
  }

 private:
  // Where the port begins, behind the colon; nothing if there is none.
  [[nodiscard]] std::optional<std::size_t> port_at() const {
    const std::size_t colon = host.rfind(':');
    if (colon == std::string::npos || host.find(']', colon) != std::string::npos) return std::nullopt;
    return colon + 1;
  }
  [[nodiscard]] std::string port() const { return port_at() ? host.substr(*port_at()) : std::string(); }
  [[nodiscard]] std::string hostname() const {
    std::string name = port_at() ? host.substr(0, *port_at() - 1) : host;
    if (name.starts_with("[") && name.ends_with("]")) name = name.substr(1, name.size() - 2);
    return name;
  }
  [[nodiscard]] Result<Value> parameters() const {
    std::map<std::string, std::vector<Value>> found;
    for (const std::string_view pair : base::split(query, '&')) {
      if (pair.empty()) continue;
      const std::size_t equals = std::min(pair.find('='), pair.size());
      auto key = percent_decoded(pair.substr(0, equals), true);
      auto value = percent_decoded(equals < pair.size() ? pair.substr(equals + 1) : std::string_view(), true);
      if (key && value) found[*key].push_back(Value::of_text(*value));
    }
    Map::Entries entries;
    for (auto& [key, values] : found) entries.emplace_back(Value::of_text(key), Value::of_list(std::move(values)));
    return Value(Value::Data(Map(std::move(entries))));
  }
};

}  // namespace

Result<Value> parse_ip(std::string_view text) {
  const auto address = read_address(text);
  if (!address) {
    return Error::invalid_input("IP Address " + base::quote(base::ellipsize(text, 100)) +
                                " parse error during conversion from string");
  }
  return Value(Value::Data(Value::ExtensionRef(std::make_shared<const Ip>(*address))));
}

Result<Value> parse_cidr(std::string_view text) {
  const auto parts = base::split_once(text, '/');
  const auto address = parts ? read_address(parts->first) : std::nullopt;
  const auto prefix = parts ? base::parse_uint64(parts->second) : std::nullopt;
  if (!address || !prefix || *prefix > static_cast<std::uint64_t>(address->bits())) {
    return Error::invalid_input("network address parse error during conversion from string: " +
                                base::quote(base::ellipsize(text, 100)));
  }
  return Value(Value::Data(Value::ExtensionRef(std::make_shared<const Cidr>(*address, static_cast<int>(*prefix)))));
}

Result<Value> parse_url(std::string_view text) {
  const auto bad = [&] {
    return Error::invalid_input("URL parse error during conversion from string: parse " +
                                base::quote(base::ellipsize(text, 100)) + ": invalid URI for request");
  };
  auto url = std::make_shared<Url>();
  url->text = std::string(text);
  const bool has_control = std::ranges::any_of(text, [](char c) { return c >= 0 && (c <= ' ' || c == 127); });
  if (text.empty() || has_control) return bad();
  std::string_view rest = text;
  if (!rest.starts_with("/")) {
    const std::size_t end = rest.find(':');
    if (end == std::string_view::npos || end == 0 || !base::is_alpha(rest.front())) return bad();
    const bool is_scheme = std::ranges::all_of(
        rest.substr(0, end), [](char c) { return base::is_alphanumeric(c) || c == '+' || c == '-' || c == '.'; });
    if (!is_scheme) return bad();
    url->scheme = base::to_lower_ascii(rest.substr(0, end));
    rest.remove_prefix(end + 1);
    if (!rest.starts_with("/")) return bad();
    if (rest.starts_with("//")) {
      rest.remove_prefix(2);
      const std::size_t host_end = std::min(rest.find_first_of("/?"), rest.size());
      std::string_view authority = rest.substr(0, host_end);
      if (const std::size_t at = authority.rfind('@'); at != std::string_view::npos) authority.remove_prefix(at + 1);
      url->host = std::string(authority);
      rest.remove_prefix(host_end);
    }
  }
  const std::size_t question = std::min(rest.find('?'), rest.size());
  url->path = std::string(rest.substr(0, question));
  if (question < rest.size()) url->query = std::string(rest.substr(question + 1));
  if (!percent_decoded(url->path, false)) return bad();
  return Value(Value::Data(Value::ExtensionRef(std::move(url))));
}

}  // namespace basalt::cel
