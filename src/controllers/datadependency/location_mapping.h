#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace basalt::controllers::datadependency {

// Which clusters are near a location: the longest configured prefix decides.
class LocationMapping {
 public:
  LocationMapping() = default;
  // `prefixes`: location prefix -> cluster names. `scheme_aliases`: "s3a" -> "s3".
  LocationMapping(std::map<std::string, std::vector<std::string>> prefixes,
                  std::map<std::string, std::string> scheme_aliases);

  // In the configured order, each once. Empty if no prefix matches, or if the longest that does names no cluster.
  [[nodiscard]] std::vector<std::string> clusters_of(std::string_view location) const;
  // Sentences about prefixes that match more than they seem to.
  [[nodiscard]] std::vector<std::string> warnings() const;
  bool operator==(const LocationMapping&) const = default;

 private:
  [[nodiscard]] std::string normalised(std::string_view location) const;

  std::map<std::string, std::vector<std::string>> prefixes_;
  std::map<std::string, std::string> scheme_aliases_;
};

// The part of a location that may be shown to everybody: "s3://warehouse".
[[nodiscard]] std::string shown_location(std::string_view location);

}  // namespace basalt::controllers::datadependency
