#include "controllers/sharding/partition.h"

#include <algorithm>
#include <cstdint>

#include "controllers/sharding/ordered_keys.h"
#include "rt/random.h"

namespace basalt::controllers::sharding {
namespace {

constexpr std::size_t kObjectHead = 4096;  // metadata and the like

std::uint64_t affinity(std::uint64_t rank, int part) {
  return rt::mix64(rank ^ rt::mix64(static_cast<std::uint64_t>(part) + rt::kGoldenGamma));
}

int favourite(std::uint64_t rank, int parts, const std::vector<std::size_t>& sizes, std::size_t room) {
  int best = -1;
  std::uint64_t most = 0;
  for (int part = 0; part < parts; ++part) {
    if (sizes[static_cast<std::size_t>(part)] >= room) continue;
    const std::uint64_t value = affinity(rank, part);
    if (best < 0 || value > most) {
      best = part;
      most = value;
    }
  }
  return best;
}

}  // namespace

std::vector<int> partition_members(std::span<const PartMember> members, int parts) {
  const auto count = static_cast<std::size_t>(parts);
  // ceil(1.05 * members / parts), at least one.
  const std::size_t room = std::max<std::size_t>(1, (members.size() * 105 + count * 100 - 1) / (count * 100));
  std::vector<int> owner(members.size(), -1);
  std::vector<std::size_t> sizes(count, 0);
  std::vector<std::size_t> order(members.size());
  std::vector<std::uint64_t> ranks(members.size());
  for (std::size_t i = 0; i < members.size(); ++i) {
    order[i] = i;
    ranks[i] = rank_of(members[i].name);
  }
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return ranks[a] != ranks[b] ? ranks[a] < ranks[b] : members[a].name < members[b].name;
  });
  const std::vector<std::size_t> nobody(count, 0);
  const auto keep = [&](bool only_favourites) {
    for (const std::size_t i : order) {
      const int part = members[i].part;
      if (owner[i] >= 0 || part < 0 || part >= parts || sizes[static_cast<std::size_t>(part)] >= room) continue;
      if (only_favourites && favourite(ranks[i], parts, nobody, room) != part) continue;
      owner[i] = part;
      ++sizes[static_cast<std::size_t>(part)];
    }
  };
  keep(true);
  keep(false);
  for (const std::size_t i : order) {
    if (owner[i] >= 0) continue;
    owner[i] = favourite(ranks[i], parts, sizes, room);
    ++sizes[static_cast<std::size_t>(owner[i])];
  }
  return owner;
}

std::size_t names_bytes(std::span<const std::string> names) {
  std::size_t bytes = 0;
  for (const std::string& name : names) bytes += name.size() + 3;
  return bytes;
}

int parts_needed(std::size_t bytes, std::size_t object_bytes_max, int parts_now) {
  const std::size_t each = (object_bytes_max - std::min(object_bytes_max / 2, kObjectHead)) / 2;
  // The parts are not equal: up to 5 % above the mean, and names differ in length.
  const std::size_t usable = each * 9 / 10;
  const auto needed = static_cast<int>(std::clamp<std::size_t>((bytes + usable - 1) / usable, 1, 1000));
  return parts_now >= needed && parts_now <= 2 * needed ? parts_now : needed;
}

}  // namespace basalt::controllers::sharding
