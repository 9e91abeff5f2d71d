#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <string_view>

#include "test/scenario/recording_client.h"
#include "yaml/reader.h"

namespace basalt::test {

// Every verb on every resource that the ClusterRole of this name in a manifest grants; empty if it cannot be read.
inline std::set<Right> granted_rights(const std::filesystem::path& manifest, std::string_view role) {
  std::set<Right> rights;
  std::ifstream file(manifest);
  const auto documents = yaml::read_all(std::string{std::istreambuf_iterator<char>(file), {}});
  if (!documents.ok()) return rights;
  for (const yaml::Document& document : *documents) {
    if (document.value.string_at({"kind"}) != "ClusterRole" || document.value.string_at({"metadata", "name"}) != role)
      continue;
    for (const json::Value& rule : document.value.find("rules")->as_array()) {
      for (const json::Value& group : rule.find("apiGroups")->as_array()) {
        for (const json::Value& resource : rule.find("resources")->as_array()) {
          for (const json::Value& verb : rule.find("verbs")->as_array()) {
            rights.insert(
                {std::string(group.as_string()), std::string(resource.as_string()), std::string(verb.as_string())});
          }
        }
      }
    }
  }
  return rights;
}

// One line each of those that are not in `without`.
inline std::string lines_of(const std::set<Right>& rights, const std::set<Right>& without = {}) {
  std::string lines;
  for (const Right& right : rights) {
    if (!without.contains(right)) lines += "\n  " + right.to_string();
  }
  return lines;
}

}  // namespace basalt::test
