#include "controllers/datadependency/location_mapping.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"

namespace basalt::controllers::datadependency {
namespace {

struct Parts {
  std::string scheme;     // lower case, "" if there is none
  std::string authority;  // lower case
  std::string path;       // from its slash on
};

Parts parts_of(std::string_view location) {
  Parts parts;
  const std::size_t mark = location.find("://");
  if (mark == std::string_view::npos) {
    parts.path = location;
    return parts;
  }
  parts.scheme = base::to_lower_ascii(location.substr(0, mark));
  const std::string_view rest = location.substr(mark + 3);
  const std::size_t slash = rest.find('/');
  parts.authority = base::to_lower_ascii(rest.substr(0, slash));
  if (slash != std::string_view::npos) parts.path = rest.substr(slash);
  return parts;
}

std::string without_double_slashes(std::string_view path) {
  std::string out;
  for (const char c : path) {
    if (c == '/' && !out.empty() && out.back() == '/') continue;
    out.push_back(c);
  }
  return out;
}

}  // namespace

LocationMapping::LocationMapping(std::map<std::string, std::vector<std::string>> prefixes,
                                 std::map<std::string, std::string> scheme_aliases)
    : scheme_aliases_(std::move(scheme_aliases)) {
  for (auto& [prefix, clusters] : prefixes) {
    if (prefix.empty()) continue;  // never matches: a mapping of everything is a mistake more often than a wish
    std::vector<std::string> once;
    for (std::string& cluster : clusters) {
      if (std::ranges::find(once, cluster) == once.end()) once.push_back(std::move(cluster));
    }
    prefixes_[normalised(prefix)] = std::move(once);
  }
}

std::string LocationMapping::normalised(std::string_view location) const {
  Parts parts = parts_of(location);
  if (const auto alias = scheme_aliases_.find(parts.scheme); alias != scheme_aliases_.end())
    parts.scheme = alias->second;
  const std::string path = without_double_slashes(parts.path);
  return parts.scheme.empty() ? path : parts.scheme + "://" + parts.authority + path;
}

std::vector<std::string> LocationMapping::clusters_of(std::string_view location) const {
  const std::string wanted = normalised(location);
  const std::vector<std::string>* best = nullptr;
  std::size_t length = 0;
  for (const auto& [prefix, clusters] : prefixes_) {
    const bool is_root = prefix.ends_with('/') && wanted == std::string_view(prefix).substr(0, prefix.size() - 1);
    if (!is_root && !wanted.starts_with(prefix)) continue;
    if (best != nullptr && prefix.size() <= length) continue;
    best = &clusters;
    length = prefix.size();
  }
  return best == nullptr ? std::vector<std::string>() : *best;
}

std::vector<std::string> LocationMapping::warnings() const {
  std::vector<std::string> sentences;
  for (const auto& [prefix, clusters] : prefixes_) {
    if (!prefix.ends_with('/'))
      sentences.push_back("the prefix " + base::quote(prefix) + " has no slash at its end: it matches " +
                          base::quote(prefix + "-2/") + " as well");
    if (clusters.empty())
      sentences.push_back("the prefix " + base::quote(prefix) + " names no cluster: what lies there goes nowhere");
  }
  return sentences;
}

std::string shown_location(std::string_view location) {
  const Parts parts = parts_of(location);
  return parts.scheme.empty() ? "(a path without a scheme)" : parts.scheme + "://" + parts.authority;
}

}  // namespace basalt::controllers::datadependency
