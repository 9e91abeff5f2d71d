#pragma once

#include <compare>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace basalt::api {

// What names an object of a kind: namespace and name. The namespace is "" for kinds that have none.
struct ObjectKey {
  std::string ns;
  std::string name;

  auto operator<=>(const ObjectKey&) const = default;
  [[nodiscard]] bool empty() const { return ns.empty() && name.empty(); }
  // "ns/name", or "name" without a namespace: the form that controllers and Kubernetes' messages use.
  [[nodiscard]] std::string to_string() const {
    if (ns.empty()) return name;
    std::string text;
    text.reserve(ns.size() + 1 + name.size());
    text.append(ns).push_back('/');
    return text.append(name);
  }
  // The inverse. Everything after the first slash is the name; names with a slash do not exist, so nothing is lost.
  static ObjectKey parse(std::string_view text) {
    const std::size_t slash = text.find('/');
    if (slash == std::string_view::npos) return {"", std::string(text)};
    return {std::string(text.substr(0, slash)), std::string(text.substr(slash + 1))};
  }
};

}  // namespace basalt::api

template <>
struct std::hash<basalt::api::ObjectKey> {
  std::size_t operator()(const basalt::api::ObjectKey& key) const noexcept {
    const std::size_t ns = std::hash<std::string>()(key.ns);
    // The namespace is rotated so that (a, b) and (b, a) differ.
    return ((ns << 7) | (ns >> (sizeof(ns) * 8 - 7))) ^ std::hash<std::string>()(key.name);
  }
};
