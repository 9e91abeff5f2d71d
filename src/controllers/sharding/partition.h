#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace basalt::controllers::sharding {

// A node of a shard that is split, and the part that has it now (-1: none).
struct PartMember {
  std::string name;
  int part = -1;
};

// The part of each member, in their order. Nodes stay where they are while their part has room; others go to the part
// that rendezvous hashing prefers. No part holds more than 5 % above the mean, so one part more or less moves about its
// share of the nodes, and a node that comes or goes moves nobody.
[[nodiscard]] std::vector<int> partition_members(std::span<const PartMember> members, int parts);

// Bytes that a list of names takes in an object.
[[nodiscard]] std::size_t names_bytes(std::span<const std::string> names);
// How many objects are needed so that none is larger than `object_bytes_max` with each name in it twice (desired and
// in use). Keeps `parts_now` unless that is too few, or more than twice too many.
[[nodiscard]] int parts_needed(std::size_t bytes, std::size_t object_bytes_max, int parts_now);

}  // namespace basalt::controllers::sharding
