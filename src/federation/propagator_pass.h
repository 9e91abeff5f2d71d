#pragma once

#include <map>
#include <optional>
#include <string>

#include "federation/propagator.h"
#include "json/value.h"

namespace basalt::federation {

// What one pass over one job knows. Private to the propagator's files.
struct Propagator::Pass {
  const api::ObjectKey& key;
  const rt::StopToken& stop;
  JobPtr job{};
  Claim policy{};
  BindingPtr binding{};                          // as it is, or as we wrote it
  std::optional<json::Value> text{};             // the host's job, whole
  std::optional<Choice> unplaced{};              // why there is no cluster
  std::map<std::string, std::string> refused{};  // cluster -> what it said
  bool look_again = false;                       // something may change without a sign
  bool is_new_binding = false;
};

}  // namespace basalt::federation
