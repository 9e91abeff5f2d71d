#pragma once

#include <string>
#include <string_view>

namespace basalt::api {

// What the API calls a kind. Every generated kind has one: `batch::Job::kind_info()`.
struct KindInfo {
  std::string_view group;  // "" for core kinds
  std::string_view version;
  std::string_view kind;
  std::string_view plural;    // "" for kinds that are never stored (AdmissionReview)
  std::string_view singular;  // "" likewise
  bool namespaced = false;
  bool has_status = false;  // whether status is a subresource

  // "batch.volcano.sh/v1alpha1", or "v1" for core kinds.
  [[nodiscard]] std::string api_version() const {
    std::string text(group);
    if (!text.empty()) text.push_back('/');
    return text.append(version);
  }
  [[nodiscard]] bool has_api_version(std::string_view text) const {
    if (group.empty()) return text == version;
    return text.size() == group.size() + 1 + version.size() && text.starts_with(group) && text[group.size()] == '/' &&
           text.ends_with(version);
  }
  constexpr bool operator==(const KindInfo&) const = default;
};

}  // namespace basalt::api
