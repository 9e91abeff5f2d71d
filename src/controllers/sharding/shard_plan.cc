#include "controllers/sharding/shard_plan.h"

#include <algorithm>
#include <iterator>

#include "base/strings.h"
#include "controllers/sharding/configuration.h"
#include "controllers/sharding/full_assignment.h"
#include "controllers/sharding/partition.h"

namespace basalt::controllers::sharding {
namespace {

using Seats = std::unordered_map<std::string_view, Seat>;

// Views into `stored`. A node that two objects list (somebody else wrote one of them) belongs to the first.
Seats seats_of(const RuleSet& rules, const StoredShards& stored) {
  Seats seats;
  for (const auto& [name, shard] : stored) {
    const Seat seat = seat_of_object(rules, name);
    if (seat.shard == kNoShard) continue;
    for (const std::string& node : shard->spec.nodes_desired) seats.emplace(node, seat);
  }
  return seats;
}

// Room for names in an object in which each stands twice: desired and in use.
std::size_t names_room(std::size_t object_bytes_max) {
  constexpr std::size_t kHead = 4096;  // metadata and the like
  return (object_bytes_max - std::min(object_bytes_max / 2, kHead)) / 2;
}

}  // namespace

Seat seat_of_object(const RuleSet& rules, std::string_view object_name) {
  for (std::size_t i = 0; i < rules.rules.size(); ++i) {
    const Rule& rule = rules.rules[i];
    const auto shard = static_cast<ShardIndex>(i);
    if (rule.partitions == 1) {
      if (object_name == rule.name) return {shard, 0};
      continue;
    }
    // The name without a number is what the entry was called before it was split.
    if (object_name == rule.name) return {shard, -1};
    const auto rest = base::strip_prefix(object_name, rule.name + "-");
    if (!rest) continue;
    const auto part = base::parse_uint64(*rest);
    if (part && *part < kPartitionsMax && std::to_string(*part) == *rest) return {shard, static_cast<int>(*part)};
  }
  return {};
}

ShardPlan::ShardPlan(std::shared_ptr<const RuleSet> rules, ClusterState& state)
    : rules_(std::move(rules)),
      state_(state),
      assignment_(rules_->levels(0), rules_->rules.size(), state),
      dirty_(rules_->rules.size(), false),
      parts_(rules_->rules.size(), 1),
      scores_(rules_->level_count()) {
  for (std::size_t i = 0; i < parts_.size(); ++i) parts_[i] = std::max(1, rules_->rules[i].partitions);
}

void ShardPlan::mark(ShardIndex shard) {
  if (shard == kNoShard || dirty_[static_cast<std::size_t>(shard)]) return;
  dirty_[static_cast<std::size_t>(shard)] = true;
  ++dirty_count_;
}

void ShardPlan::mark_all() {
  for (std::size_t i = 0; i < dirty_.size(); ++i) mark(static_cast<ShardIndex>(i));
}

void ShardPlan::evaluate(const NodeUpdate& update, ShardIndex incumbent, std::int64_t unix_seconds,
                         std::span<double> scores) {
  if (!rules_->uses_forecast) return rules_->evaluate(update.facts, incumbent, scores);
  NodeFacts facts = update.facts;
  facts.forecast = forecast_.observe(update.node, bucket_of(facts.cpu), unix_seconds);
  rules_->evaluate(facts, incumbent, scores);
}

void ShardPlan::fit_limits() {
  const std::vector<Level> levels = rules_->levels(assignment_.nodes());
  for (std::size_t i = 0; i < levels.size(); ++i) assignment_.set_nodes_max(i, levels[i].nodes_max);
}

void ShardPlan::rebuild(const StoredShards& stored, std::int64_t unix_seconds) {
  updates_.clear();
  state_.take_all(updates_);
  const std::size_t levels = scores_.size();
  std::vector<double> scores(updates_.size() * levels);
  std::vector<NodeInput> inputs;
  inputs.reserve(updates_.size());
  std::vector<std::string> names;
  std::vector<NodeId> ids;
  ids.reserve(updates_.size());
  for (const NodeUpdate& update : updates_) ids.push_back(update.node);
  state_.names_of(ids, names);
  const Seats seats = seats_of(*rules_, stored);
  for (std::size_t i = 0; i < updates_.size(); ++i) {
    const auto seat = seats.find(names[i]);
    const ShardIndex incumbent = seat == seats.end() ? kNoShard : seat->second.shard;
    const std::span<double> own(scores.data() + i * levels, levels);
    evaluate(updates_[i], incumbent, unix_seconds, own);
    inputs.push_back({updates_[i].node, updates_[i].rank, incumbent, own});
  }
  const std::vector<Level> wanted = rules_->levels(inputs.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) assignment_.set_nodes_max(i, wanted[i].nodes_max);
  assignment_.rebuild(inputs);
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (rules_->rules[i].partitions == kPartitionsAuto) parts_[i] = stored_parts(i, stored);
  }
  pending_.clear();
  take_moves();
  // An incumbent that nobody owns now did not move within the assignment.
  for (const NodeInput& input : inputs) {
    if (input.incumbent != kNoShard && assignment_.owner(input.node) == kNoShard) pending_.push_back(input.node);
  }
  mark_all();
}

void ShardPlan::take_moves() {
  moved_.clear();
  assignment_.take_moved(moved_);
  for (const NodeId node : moved_) {
    if (!assignment_.contains(node)) continue;
    const ShardIndex owner = assignment_.owner(node);
    const ShardIndex incumbent = assignment_.incumbent(node);
    if (owner == incumbent) continue;
    mark(owner);
    mark(incumbent);
    pending_.push_back(node);
  }
}

bool ShardPlan::absorb(std::size_t count, std::int64_t unix_seconds) {
  updates_.clear();
  const bool has_more = state_.take_changes(count, updates_);
  const std::size_t nodes = assignment_.nodes();
  for (const NodeUpdate& update : updates_) {
    const ShardIndex incumbent = assignment_.incumbent(update.node);
    if (!update.is_present) {
      mark(assignment_.owner(update.node));
      mark(incumbent);
      assignment_.erase(update.node);
      if (rules_->uses_forecast) forecast_.forget(update.node);
      continue;
    }
    evaluate(update, incumbent, unix_seconds, scores_);
    assignment_.place({update.node, update.rank, incumbent, scores_});
  }
  if (assignment_.nodes() != nodes) fit_limits();
  if (assignment_.has_moved()) take_moves();
  return has_more;
}

void ShardPlan::look_again(std::int64_t unix_seconds) {
  updates_.clear();
  while (absorb(4096, unix_seconds)) {}
  updates_.clear();
  state_.take_all(updates_);
  for (const NodeUpdate& update : updates_) {
    const ShardIndex incumbent = assignment_.incumbent(update.node);
    evaluate(update, incumbent, unix_seconds, scores_);
    assignment_.place({update.node, update.rank, incumbent, scores_});
  }
  fit_limits();
  take_moves();
}

int ShardPlan::stored_parts(std::size_t shard, const StoredShards& stored) const {
  int parts = 0;
  for (const auto& [name, object] : stored) {
    const Seat seat = seat_of_object(*rules_, name);
    if (seat.shard == static_cast<ShardIndex>(shard)) parts = std::max(parts, seat.part + 1);
  }
  return std::max(1, parts);
}

// One object for the whole shard. Names beyond its size are left out: first those that are not listed yet.
void ShardPlan::list_whole(std::size_t shard, const StoredShards& stored, std::size_t object_bytes_max,
                           std::vector<std::string> names, Lists& lists) {
  const std::string& object = rules_->rules[shard].name;
  std::sort(names.begin(), names.end());
  const std::size_t room = names_room(object_bytes_max);
  if (names_bytes(names) > room) {
    std::vector<std::string> listed;
    if (const auto place = stored.find(object); place != stored.end()) listed = place->second->spec.nodes_desired;
    std::sort(listed.begin(), listed.end());
    const std::size_t all = names.size();
    std::vector<std::string> kept;
    std::vector<std::string> others;
    for (std::string& name : names)
      (std::binary_search(listed.begin(), listed.end(), name) ? kept : others).push_back(std::move(name));
    kept.insert(kept.end(), std::make_move_iterator(others.begin()), std::make_move_iterator(others.end()));
    names = std::move(kept);
    std::size_t bytes = 0;
    std::size_t fit = 0;
    while (fit < names.size() && bytes + names[fit].size() + 3 <= room) bytes += names[fit++].size() + 3;
    names.resize(fit);
    std::sort(names.begin(), names.end());
    lists.cut.push_back({object, all - fit});
  }
  lists.bytes += names_bytes(names);
  lists.desired.push_back({object, std::move(names)});
}

void ShardPlan::list_shard(std::size_t shard, const StoredShards& stored, std::size_t object_bytes_max, Lists& lists) {
  const Rule& rule = rules_->rules[shard];
  moved_.clear();
  assignment_.members(static_cast<ShardIndex>(shard), moved_);
  std::vector<std::string> names;
  state_.names_of(moved_, names);
  if (rule.partitions == 1) return list_whole(shard, stored, object_bytes_max, std::move(names), lists);
  if (rule.partitions == kPartitionsAuto)
    parts_[shard] = parts_needed(names_bytes(names), object_bytes_max, parts_[shard]);
  const Seats seats = seats_of(*rules_, stored);
  std::vector<PartMember> members;
  members.reserve(names.size());
  for (std::string& name : names) {
    const auto seat = seats.find(name);
    const bool is_own = seat != seats.end() && seat->second.shard == static_cast<ShardIndex>(shard);
    members.push_back({std::move(name), is_own ? seat->second.part : -1});
  }
  const std::vector<int> owners = partition_members(members, parts_[shard]);
  const std::size_t first = lists.desired.size();
  for (int part = 0; part < parts_[shard]; ++part)
    lists.desired.push_back({shard_object_name(rule, part, parts_[shard]), {}});
  for (std::size_t i = 0; i < members.size(); ++i)
    lists.desired[first + static_cast<std::size_t>(owners[i])].nodes.push_back(std::move(members[i].name));
  for (std::size_t i = first; i < lists.desired.size(); ++i) {
    std::sort(lists.desired[i].nodes.begin(), lists.desired[i].nodes.end());
    lists.bytes += names_bytes(lists.desired[i].nodes);
  }
}

ShardPlan::Lists ShardPlan::lists(const StoredShards& stored, std::size_t object_bytes_max) {
  Lists lists;
  for (std::size_t shard = 0; shard < dirty_.size(); ++shard) {
    if (dirty_[shard]) list_shard(shard, stored, object_bytes_max, lists);
    for (int part = 0; part < parts_[shard]; ++part)
      lists.configured.insert(shard_object_name(rules_->rules[shard], part, parts_[shard]));
  }
  return lists;
}

std::map<ShardPlan::Move, std::size_t> ShardPlan::settle(const Lists& lists,
                                                         const std::set<std::string, std::less<>>& settled) {
  // A shard is as good as its worst object.
  std::vector<bool> is_open(dirty_.size(), false);
  std::vector<bool> was_listed(dirty_.size(), false);
  for (const DesiredShard& desired : lists.desired) {
    const Seat seat = seat_of_object(*rules_, desired.name);
    if (seat.shard == kNoShard) continue;
    const auto shard = static_cast<std::size_t>(seat.shard);
    was_listed[shard] = true;
    if (!settled.contains(desired.name)) is_open[shard] = true;
  }
  for (std::size_t shard = 0; shard < dirty_.size(); ++shard) {
    if (!was_listed[shard] || is_open[shard] || !dirty_[shard]) continue;
    dirty_[shard] = false;
    --dirty_count_;
  }
  const auto is_clean = [this](ShardIndex shard) {
    return shard == kNoShard || !dirty_[static_cast<std::size_t>(shard)];
  };
  std::map<Move, std::size_t> moves;
  std::vector<NodeId> rest;
  for (const NodeId node : pending_) {
    if (!assignment_.contains(node)) continue;
    const Move move{assignment_.incumbent(node), assignment_.owner(node)};
    if (move.from == move.to) continue;
    if (!is_clean(move.from) || !is_clean(move.to)) {
      rest.push_back(node);
      continue;
    }
    ++moves[move];
    // Scores depend on the incumbent only through the slack, so they are computed anew from the present facts.
    for (std::size_t level = 0; level < scores_.size(); ++level) scores_[level] = assignment_.score(node, level);
    if (rules_->slack > 0 && !rules_->uses_forecast) {
      if (const auto facts = state_.facts_of(state_.name_of(node))) rules_->evaluate(*facts, move.to, scores_);
    }
    assignment_.place({node, assignment_.rank(node), move.to, scores_});
  }
  pending_ = std::move(rest);
  take_moves();
  return moves;
}

std::size_t ShardPlan::shortage(std::size_t shard) const {
  const std::size_t wanted = rules_->rules[shard].limits.min_of(assignment_.nodes());
  const std::size_t has = shard_size(shard);
  return wanted > has ? wanted - has : 0;
}

std::size_t ShardPlan::unassigned() const {
  std::size_t owned = 0;
  for (std::size_t shard = 0; shard < dirty_.size(); ++shard) owned += shard_size(shard);
  return assignment_.nodes() - owned;
}

std::size_t ShardPlan::disagreements() const {
  const std::size_t levels = scores_.size();
  std::vector<NodeInput> inputs;
  std::vector<double> scores(assignment_.id_limit() * levels);
  for (NodeId node = 0; node < assignment_.id_limit(); ++node) {
    if (!assignment_.contains(node)) continue;
    const std::span<double> own(scores.data() + node * levels, levels);
    for (std::size_t level = 0; level < levels; ++level) own[level] = assignment_.score(node, level);
    inputs.push_back({node, assignment_.rank(node), assignment_.incumbent(node), own});
  }
  const std::vector<ShardIndex> owners = full_assignment(assignment_.levels(), dirty_.size(), state_, inputs);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) wrong += owners[i] != assignment_.owner(inputs[i].node) ? 1 : 0;
  return wrong;
}

}  // namespace basalt::controllers::sharding
