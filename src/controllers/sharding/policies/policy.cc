#include "controllers/sharding/policies/policy.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/strings.h"

namespace basalt::controllers::sharding {
namespace {

constexpr std::array<std::string_view, 7> kNames{"allocation-rate", "forecast",   "memory-rate", "metric-range",
                                                 "multi-dimension", "node-limit", "warmup"};

std::size_t share_of(std::size_t nodes, double percent) {
  return static_cast<std::size_t>(std::floor(static_cast<double>(nodes) * percent / 100 + 1e-9));
}

}  // namespace

std::size_t Limits::min_of(std::size_t nodes) const {
  return std::max(static_cast<std::size_t>(nodes_min), share_of(nodes, percent_min));
}

std::size_t Limits::max_of(std::size_t nodes) const {
  std::size_t most = SIZE_MAX;
  if (nodes_max > 0) most = static_cast<std::size_t>(nodes_max);
  // A share of a small cluster is one node, not none.
  if (percent_max > 0) most = std::min(most, std::max<std::size_t>(1, share_of(nodes, percent_max)));
  return most;
}

int Policy::distance(const NodeFacts&, int) const { return 0; }
double Policy::score(const NodeFacts&) const { return 0; }
void Policy::limit(Limits&) const {}

std::string folded_key(std::string_view key) {
  std::string folded;
  folded.reserve(key.size());
  for (const char c : key) {
    if (c != '-' && c != '_') folded.push_back(base::to_lower(c));
  }
  return folded;
}

const json::Value* find_folded(const json::Object& object, std::string_view key) {
  if (const json::Value* exact = object.find(key); exact != nullptr) return exact;
  const std::string wanted = folded_key(key);
  for (const json::Member& member : object) {
    if (folded_key(member.key) == wanted) return &member.value;
  }
  return nullptr;
}

Arguments::Arguments(std::string where, const json::Value* arguments) : where_(std::move(where)) {
  if (arguments == nullptr || arguments->is_null()) return;
  if (!arguments->is_object()) {
    fail("", "must be a map, not " + std::string(arguments->type_name()));
    return;
  }
  members_ = &arguments->as_object();
}

const json::Value* Arguments::take(std::string_view key) {
  asked_.emplace_back(key);
  const json::Value* value = members_ == nullptr ? nullptr : find_folded(*members_, key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

void Arguments::fail(std::string_view key, std::string_view problem) {
  if (error_) return;
  std::string place = where_;
  if (!key.empty()) place.append(".").append(key);
  error_ = Error::invalid_input(place + ": " + std::string(problem));
}

double Arguments::number(std::string_view key, double fallback) {
  const json::Value* value = take(key);
  if (value == nullptr) return fallback;
  if (!value->is_number()) {
    fail(key, "must be a number, not " + value->to_text());
    return fallback;
  }
  return value->as_double();
}

std::int64_t Arguments::integer(std::string_view key, std::int64_t fallback) {
  const double value = number(key, static_cast<double>(fallback));
  if (!(std::abs(value) < 1e9)) {
    fail(key, "must be below 1000000000");
    return fallback;
  }
  return static_cast<std::int64_t>(value);
}

std::string Arguments::text(std::string_view key, std::string_view fallback) {
  const json::Value* value = take(key);
  if (value == nullptr) return std::string(fallback);
  if (!value->is_string()) {
    fail(key, "must be a string, not " + value->to_text() + "; put it in quotes");
    return std::string(fallback);
  }
  return value->as_string();
}

std::string Arguments::choice(std::string_view key, std::initializer_list<std::string_view> values) {
  const std::string chosen = text(key, *values.begin());
  if (std::find(values.begin(), values.end(), chosen) == values.end())
    fail(key, "must be one of " + base::join(values, ", ") + ", not " + base::quote(chosen));
  return chosen;
}

std::vector<std::string> Arguments::texts(std::string_view key) {
  std::vector<std::string> all;
  const json::Value* value = take(key);
  if (value == nullptr) return all;
  if (!value->is_array()) {
    fail(key, "must be a list of strings");
    return all;
  }
  for (const json::Value& item : value->as_array()) {
    if (!item.is_string() || item.as_string().empty()) {
      fail(key, "must be a list of strings that are not empty");
      return {};
    }
    all.push_back(item.as_string());
  }
  return all;
}

const json::Object* Arguments::object(std::string_view key) {
  const json::Value* value = take(key);
  if (value == nullptr) return nullptr;
  if (!value->is_object()) {
    fail(key, "must be a map");
    return nullptr;
  }
  return &value->as_object();
}

Done Arguments::finish() {
  if (error_) return *error_;
  if (members_ == nullptr) return Ok{};
  std::vector<std::string_view> known(asked_.begin(), asked_.end());
  for (const json::Member& member : *members_) {
    const std::string folded = folded_key(member.key);
    if (std::any_of(asked_.begin(), asked_.end(), [&](const std::string& key) { return folded_key(key) == folded; }))
      continue;
    if (folded == "minnodes" || folded == "maxnodes") {
      fail(member.key, "belongs to the policy node-limit");
    } else {
      fail(member.key, "is no argument of this policy" + base::did_you_mean(member.key, known));
    }
    return *error_;
  }
  return Ok{};
}

std::span<const std::string_view> policy_names() { return kNames; }

Result<PolicyPtr> make_policy(std::string_view name, std::string where, const json::Value* arguments,
                              Catalog& catalog) {
  Arguments reader(where + ".arguments", arguments);
  PolicyPtr policy;
  if (name == "allocation-rate") {
    policy = make_allocation_rate(reader);
  } else if (name == "memory-rate") {
    policy = make_memory_rate(reader);
  } else if (name == "warmup") {
    policy = make_warmup(reader, catalog);
  } else if (name == "node-limit") {
    policy = make_node_limit(reader);
  } else if (name == "multi-dimension") {
    policy = make_multi_dimension(reader, catalog);
  } else if (name == "metric-range") {
    policy = make_metric_range(reader, catalog);
  } else if (name == "forecast") {
    policy = make_forecast(reader);
  } else {
    return Error::invalid_input(where + ".name: there is no policy " + base::quote(name) +
                                base::did_you_mean(name, kNames) +
                                "; known: " + base::join(std::span<const std::string_view>(kNames), ", "));
  }
  BASALT_TRY_DONE(reader.finish());
  return policy;
}

}  // namespace basalt::controllers::sharding
