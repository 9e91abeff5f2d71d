#include "controllers/sharding/shard_writer.h"

#include <algorithm>
#include <iterator>
#include <unordered_set>
#include <utility>

#include "base/hash.h"
#include "json/writer.h"
#include "kube/typed.h"

namespace basalt::controllers::sharding {
namespace {

using api::shard::NodeShard;
using Names = std::vector<std::string>;

// Lists that we wrote are sorted; others' need not be.
Names sorted_copy(const Names& names) {
  Names sorted = names;
  if (!std::is_sorted(sorted.begin(), sorted.end())) std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  return sorted;
}

Names minus(const Names& a, const Names& b) {
  Names rest;
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(rest));
  return rest;
}

std::uint64_t hash_of(const Names& names) {
  std::uint64_t hash = base::kFnv64Seed;
  for (const std::string& name : names) hash = base::fnv1a_64("\n", base::fnv1a_64(name, hash));
  return hash;
}

void write_names(json::Writer& writer, std::string_view key, const Names& names) {
  writer.key(key);
  writer.begin_array();
  for (const std::string& name : names) writer.string(name);
  writer.end_array();
}

std::string create_body(const std::string& name, const Names& nodes) {
  std::string body;
  json::Writer writer(body);
  writer.begin_object();
  writer.key("apiVersion");
  writer.string("shard.volcano.sh/v1alpha1");
  writer.key("kind");
  writer.string("NodeShard");
  writer.key("metadata");
  writer.begin_object();
  writer.key("name");
  writer.string(name);
  writer.end_object();
  writer.key("spec");
  writer.begin_object();
  write_names(writer, "nodesDesired", nodes);
  writer.end_object();
  writer.end_object();
  return body;
}

std::string patch_body(const NodeShard& stored, const Names& nodes) {
  std::string body;
  json::Writer writer(body);
  writer.begin_object();
  writer.key("metadata");
  writer.begin_object();
  writer.key("resourceVersion");
  writer.string(stored.metadata.resource_version);
  writer.key("uid");
  writer.string(stored.metadata.uid);
  writer.end_object();
  writer.key("spec");
  writer.begin_object();
  write_names(writer, "nodesDesired", nodes);
  writer.end_object();
  writer.end_object();
  return body;
}

// What the controller says in the status. `in_use`: only if it changes that, too.
std::string status_body(const NodeShard& stored, const Names* in_use, const Names& to_add, const Names& to_remove,
                        const api::Time& now) {
  std::string body;
  json::Writer writer(body);
  writer.begin_object();
  writer.key("metadata");
  writer.begin_object();
  writer.key("resourceVersion");
  writer.string(stored.metadata.resource_version);
  writer.end_object();
  writer.key("status");
  writer.begin_object();
  if (in_use != nullptr) write_names(writer, "nodesInUse", *in_use);
  // Empty lists are left out, as the schedulers do.
  for (const auto& [key, list] : {std::pair<std::string_view, const Names*>{"nodesToAdd", &to_add},
                                  std::pair<std::string_view, const Names*>{"nodesToRemove", &to_remove}}) {
    if (list->empty()) {
      writer.key(key);
      writer.null();
    } else {
      write_names(writer, key, *list);
    }
  }
  writer.key("lastUpdateTime");
  writer.string(now.to_string());
  writer.end_object();
  writer.end_object();
  return body;
}

const kube::Resource& shard_resource() {
  static const kube::Resource resource = kube::resource_of<NodeShard>();
  return resource;
}

}  // namespace

struct ShardWriter::Pending {
  std::string name;
  kube::Request request;
  Names nodes;            // what it says afterwards
  bool is_final = false;  // that is all that is desired
};

ShardWriter::ShardWriter(rt::Runtime& runtime, kube::Client& client, Logger log, kube::Metrics& metrics,
                         kube::Informer<NodeShard>& shards)
    : runtime_(runtime), client_(client), log_(std::move(log)), shards_(shards) {
  writes_counter_ = metrics.counter("volcano_sharding_writes_total", "Writes of NodeShards that succeeded.");
  failures_counter_ = metrics.counter("volcano_sharding_write_failures_total", "Writes of NodeShards that failed.");
  conflicts_counter_ =
      metrics.counter("volcano_sharding_write_conflicts_total", "Writes of NodeShards that somebody else came before.");
}

std::map<std::string, ShardWriter::Stored, std::less<>> ShardWriter::stored() const {
  const kube::Revision seen = shards_.seen_revision();
  View view;
  for (const Stored& shard : shards_.list()) view.emplace(shard->metadata.name, shard);
  for (const auto& [name, own] : own_) {
    const auto cached = view.find(name);
    if (cached != view.end() && kube::parse_revision(cached->second->metadata.resource_version) >= own.revision)
      continue;
    if (own.revision <= seen) continue;  // the cache has shown what became of it
    if (own.object) {
      view[name] = own.object;
    } else if (cached != view.end()) {
      view.erase(cached);
    }
  }
  return view;
}

void ShardWriter::remember(const std::string& name, Stored object) {
  const kube::Revision revision = object ? kube::parse_revision(object->metadata.resource_version) : 0;
  own_[name] = {std::move(object), revision};
}

void ShardWriter::remember_written(const std::string& name, const Names& nodes) {
  rt::MutexLock lock(mutex_);
  written_hash_[name] = hash_of(nodes);
}

bool ShardWriter::is_as_written(const NodeShard& shard) const {
  const std::uint64_t hash = hash_of(shard.spec.nodes_desired);
  rt::MutexLock lock(mutex_);
  const auto written = written_hash_.find(shard.metadata.name);
  return written != written_hash_.end() && written->second == hash;
}

std::vector<ShardWriter::Pending> ShardWriter::plan_round(const PublishRequest& request, const View& view,
                                                          const std::set<std::string, std::less<>>& failed) const {
  struct Target {
    const DesiredShard* desired;
    const NodeShard* stored;  // null: it does not exist
    Names listed;             // what it lists now
    Names additions;
  };
  std::vector<Target> targets;
  std::unordered_set<std::string_view> added;  // names that some object is to get
  for (const DesiredShard& desired : request.desired) {
    const auto place = view.find(desired.name);
    Target target{&desired, place == view.end() ? nullptr : place->second.get(), {}, {}};
    if (target.stored != nullptr) target.listed = sorted_copy(target.stored->spec.nodes_desired);
    target.additions = minus(desired.nodes, target.listed);
    targets.push_back(std::move(target));
  }
  for (const Target& target : targets) added.insert(target.additions.begin(), target.additions.end());
  // Names that are listed somewhere (or may be) cannot be added elsewhere yet.
  std::unordered_set<std::string_view> taken;
  if (!added.empty()) {
    const auto take = [&](const Names& names) {
      for (const std::string& name : names) {
        if (added.contains(name)) taken.insert(name);
      }
    };
    for (const auto& [name, shard] : view) take(shard->spec.nodes_desired);
    for (const auto& [name, names] : uncertain_) take(names);
  }
  std::vector<Pending> round;
  for (const Target& target : targets) {
    const std::string& name = target.desired->name;
    if (failed.contains(name)) continue;
    Pending pending;
    pending.name = name;
    // Its own list does not stand in its way, but a lost write of its own does not either.
    const auto own_uncertain = uncertain_.find(name);
    Names own;
    if (own_uncertain != uncertain_.end()) own = own_uncertain->second;
    std::set_intersection(target.listed.begin(), target.listed.end(), target.desired->nodes.begin(),
                          target.desired->nodes.end(), std::back_inserter(pending.nodes));
    bool is_final = true;
    for (const std::string& node : target.additions) {
      if (taken.contains(node) && !std::binary_search(own.begin(), own.end(), node)) {
        is_final = false;
      } else {
        pending.nodes.push_back(node);
      }
    }
    std::sort(pending.nodes.begin(), pending.nodes.end());
    pending.is_final = is_final;
    if (target.stored != nullptr && pending.nodes == target.stored->spec.nodes_desired) continue;
    pending.request.resource = shard_resource();
    if (target.stored == nullptr) {
      pending.request.verb = kube::Verb::Create;
      pending.request.body = create_body(name, pending.nodes);
    } else {
      pending.request.verb = kube::Verb::Patch;
      pending.request.patch_type = kube::PatchType::Merge;
      pending.request.name = name;
      pending.request.body = patch_body(*target.stored, pending.nodes);
    }
    round.push_back(std::move(pending));
  }
  if (request.delete_others) {
    for (const auto& [name, shard] : view) {
      if (request.configured.contains(name) || failed.contains(name) || shard->metadata.deletion_timestamp) continue;
      Pending pending;
      pending.name = name;
      pending.request.verb = kube::Verb::Delete;
      pending.request.resource = shard_resource();
      pending.request.name = name;
      pending.request.precondition_uid = shard->metadata.uid;
      round.push_back(std::move(pending));
    }
  }
  return round;
}

void ShardWriter::count_failure(const Error& error, PublishResult& outcome) {
  failures_counter_.add();
  outcome.error = error;
  outcome.is_complete = false;
  if (error.retry_after) outcome.retry_after = std::max<rt::Duration>(outcome.retry_after, *error.retry_after);
}

bool ShardWriter::refresh(const std::string& name, const rt::StopToken& stop) {
  Result<NodeShard> read = kube::get_object<NodeShard>(client_, {"", name}, stop);
  if (read.ok()) {
    remember(name, std::make_shared<const NodeShard>(std::move(read).value()));
    uncertain_.erase(name);
    return true;
  }
  if (read.error().is(Reason::NotFound)) {
    // Newer than anything that the cache shows until it shows the deletion.
    own_[name] = {nullptr, shards_.seen_revision() + 1};
    uncertain_.erase(name);
    return true;
  }
  return false;
}

void ShardWriter::take_result(Pending& pending, const Result<kube::Response>& result, PublishResult& outcome,
                              std::set<std::string, std::less<>>& failed, const rt::StopToken& stop) {
  const bool is_delete = pending.request.verb == kube::Verb::Delete;
  const rt::Instant now = runtime_.now();
  if (result.ok() || (is_delete && result.error().is(Reason::NotFound))) {
    breaker_.record(now, true);
    writes_counter_.add();
    ++outcome.writes;
    uncertain_.erase(pending.name);
    if (is_delete) {
      own_[pending.name] = {nullptr, shards_.seen_revision() + 1};
      return;
    }
    remember_written(pending.name, pending.nodes);
    Result<NodeShard> object = kube::decode_object<NodeShard>(*result);
    if (object.ok()) {
      remember(pending.name, std::make_shared<const NodeShard>(std::move(object).value()));
    } else {
      uncertain_[pending.name] = pending.nodes;
      failed.insert(pending.name);
    }
    return;
  }
  const Error& error = result.error();
  if (error.is(Reason::Cancelled)) {
    outcome.is_complete = false;
    failed.insert(pending.name);
    if (!is_delete) uncertain_[pending.name] = pending.nodes;
    return;
  }
  count_failure(error, outcome);
  const bool came_late = error.is(Reason::Conflict) || error.is(Reason::AlreadyExists) || error.is(Reason::NotFound);
  breaker_.record(now, !error.is_transient());
  if (came_late) {
    conflicts_counter_.add();
  } else {
    log_.debug("a NodeShard was not written", {{"shard", pending.name}, {"error", error}});
  }
  if (error.outcome_is_unknown() && !is_delete) uncertain_[pending.name] = pending.nodes;
  if (came_late) {
    // Somebody wrote it: read what it says now, and try again in the next round.
    if (!refresh(pending.name, stop)) failed.insert(pending.name);
  } else {
    failed.insert(pending.name);
  }
}

PublishResult ShardWriter::publish(const PublishRequest& request, const rt::StopToken& stop) {
  PublishResult outcome;
  std::set<std::string, std::less<>> failed;
  // What a lost answer left open is looked up before anything is built on it.
  std::vector<std::string> open;
  for (const auto& [name, nodes] : uncertain_) open.push_back(name);
  for (const std::string& name : open) {
    if (breaker_.allowance(runtime_.now()) == 0) break;
    if (!refresh(name, stop)) {
      outcome.is_complete = false;
      failed.insert(name);
    }
  }
  for (int round = 0; round < kRoundsMax && !stop.stop_requested(); ++round) {
    const std::size_t allowance = breaker_.allowance(runtime_.now());
    std::vector<Pending> pending = plan_round(request, stored(), failed);
    if (pending.empty()) break;
    if (allowance == 0) {
      outcome.is_complete = false;
      outcome.error =
          Error::make(Reason::ServiceUnavailable, "writes of NodeShards pause because most of the last ones failed");
      break;
    }
    if (pending.size() > allowance) pending.resize(allowance);
    std::vector<kube::Request> requests;
    requests.reserve(pending.size());
    for (Pending& one : pending) {
      one.request.timeout = std::chrono::seconds(10);
      requests.push_back(one.request);
      one.request.body = std::string();
    }
    const auto results = client_.call_all(requests, {.in_flight_max = 16, .failures_max = 0}, stop);
    for (std::size_t i = 0; i < pending.size(); ++i) take_result(pending[i], results[i], outcome, failed, stop);
  }
  const View view = stored();
  for (const DesiredShard& desired : request.desired) {
    const auto place = view.find(desired.name);
    if (place != view.end() && !uncertain_.contains(desired.name) &&
        place->second->spec.nodes_desired == desired.nodes) {
      outcome.settled.insert(desired.name);
      remember_written(desired.name, desired.nodes);
    } else {
      outcome.is_complete = false;
    }
  }
  if (request.delete_others) {
    for (const auto& [name, shard] : view) {
      if (!request.configured.contains(name)) outcome.is_complete = false;
    }
  }
  // What the cache has caught up with need not be kept.
  const kube::Revision seen = shards_.seen_revision();
  std::erase_if(own_, [&](const auto& entry) { return entry.second.revision <= seen; });
  return outcome;
}

std::set<std::string, std::less<>> ShardWriter::overdue() const {
  std::set<std::string, std::less<>> names;
  for (const auto& [name, overdue] : overdue_) names.insert(name);
  return names;
}

std::vector<std::string> ShardWriter::overdue_nodes(const std::string& shard, const Names& to_remove,
                                                    rt::Duration grace) {
  Names late;
  if (to_remove.empty() || grace <= rt::Duration::zero()) {
    overdue_.erase(shard);
    return late;
  }
  auto& since = overdue_[shard];
  std::erase_if(
      since, [&](const auto& entry) { return !std::binary_search(to_remove.begin(), to_remove.end(), entry.first); });
  const rt::Instant now = runtime_.now();
  for (const std::string& node : to_remove) {
    if (now - since.emplace(node, now).first->second >= grace) late.push_back(node);
  }
  return late;
}

std::vector<ShardWriter::Stripped> ShardWriter::write_statuses(const std::set<std::string, std::less<>>& names,
                                                               rt::Duration grace, const rt::StopToken& stop) {
  const View view = stored();
  const api::Time now =
      api::Time::from(std::chrono::time_point_cast<std::chrono::system_clock::duration>(runtime_.wall_now()));
  std::vector<kube::Request> requests;
  std::vector<std::size_t> stripped;  // by request: nodes taken from the scheduler
  for (const std::string& name : names) {
    const auto place = view.find(name);
    if (place == view.end()) overdue_.erase(name);
    if (place == view.end() || uncertain_.contains(name)) continue;
    const NodeShard& shard = *place->second;
    const Names desired = sorted_copy(shard.spec.nodes_desired);
    Names in_use = sorted_copy(shard.status.nodes_in_use);
    Names to_remove = minus(in_use, desired);
    const Names late = overdue_nodes(name, to_remove, grace);
    const std::size_t taken = late.size();
    if (taken > 0) {
      in_use = minus(in_use, late);
      to_remove = minus(to_remove, late);
    }
    const Names to_add = minus(desired, in_use);
    if (taken == 0 && to_add == sorted_copy(shard.status.nodes_to_add) &&
        to_remove == sorted_copy(shard.status.nodes_to_remove))
      continue;
    kube::Request request;
    request.verb = kube::Verb::Patch;
    request.resource = shard_resource();
    request.name = name;
    request.subresource = "status";
    request.body = status_body(shard, taken > 0 ? &in_use : nullptr, to_add, to_remove, now);
    request.timeout = std::chrono::seconds(10);
    requests.push_back(std::move(request));
    stripped.push_back(taken);
  }
  if (const std::size_t allowance = breaker_.allowance(runtime_.now()); requests.size() > allowance)
    requests.resize(allowance);
  std::vector<Stripped> done;
  if (requests.empty()) return done;
  const auto results = client_.call_all(requests, {.in_flight_max = 16, .failures_max = 0}, stop);
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (results[i].ok()) {
      breaker_.record(runtime_.now(), true);
      if (stripped[i] > 0) {
        log_.warn("a scheduler did not give up nodes in time; they are taken out of its nodesInUse",
                  {{"shard", requests[i].name}, {"nodes", stripped[i]}});
        done.push_back({requests[i].name, stripped[i]});
      }
      Result<NodeShard> object = kube::decode_object<NodeShard>(*results[i]);
      if (object.ok()) remember(requests[i].name, std::make_shared<const NodeShard>(std::move(object).value()));
    } else if (!results[i].error().is(Reason::Cancelled)) {
      // On a conflict the scheduler has written the same two sets by the same rule.
      breaker_.record(runtime_.now(), !results[i].error().is_transient());
    }
  }
  return done;
}

}  // namespace basalt::controllers::sharding
