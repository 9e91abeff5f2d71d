#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apiserver/registry/generic_strategy.h"

namespace basalt::apiserver {

// What a built-in kind does differently from the rest, as a list of functions; those that are null do nothing. Kinds
// whose deletion is special (pods, namespaces) have a strategy of their own.
struct KindRules {
  bool has_status = false;      // {} when created, unless prepare_create says more
  bool has_generation = false;  // an update that changes anything but metadata and status raises metadata.generation
  bool creates_with_status = false;  // a create may bring a status along (nodes, persistent volumes)

  void (*defaults)(json::Value& object) = nullptr;
  void (*prepare_create)(json::Value& object) = nullptr;                  // after the status is gone
  void (*validate)(const json::Value& object, Causes& causes) = nullptr;  // creates, and updates of the main part
  void (*validate_update)(const json::Value& object, const json::Value& old, Causes& causes) = nullptr;  // besides
  void (*validate_status)(const json::Value& object, const json::Value& old, Causes& causes) = nullptr;
  json::Array (*cells)(const json::Value& object, api::Time now) = nullptr;
  // Fields that selectors may name besides metadata: "spec.type" -> the string at spec, type.
  struct Selectable {
    std::string_view path;
    std::string_view fallback = "";  // what an absent one counts as
  };
  std::vector<Selectable> selectable;
};

[[nodiscard]] std::shared_ptr<const Strategy> make_strategy(KindRules rules);

}  // namespace basalt::apiserver
