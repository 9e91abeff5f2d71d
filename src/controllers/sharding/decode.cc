#include "controllers/sharding/decode.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "api/gen/names.h"
#include "api/quantity.h"
#include "base/strings.h"
#include "json/reader.h"

namespace basalt::controllers::sharding {
namespace {

void add(Amounts& to, const Amounts& what) {
  to.cpu += what.cpu;
  to.memory += what.memory;
  for (std::size_t i = 0; i < kExtraMax; ++i) to.extra[i] += what.extra[i];
}

Amounts larger(const Amounts& a, const Amounts& b) {
  Amounts most{std::max(a.cpu, b.cpu), std::max(a.memory, b.memory), {}};
  for (std::size_t i = 0; i < kExtraMax; ++i) most.extra[i] = std::max(a.extra[i], b.extra[i]);
  return most;
}

// Amounts in a pod are bounded, so that no sum over pods overflows.
constexpr std::int64_t kAmountMax = std::int64_t{1} << 50;

// A resource list. `has` gets a bit for each extra resource that is there; bits 30 and 31 stand for cpu and memory.
constexpr std::uint32_t kHasCpu = 1U << 30;
constexpr std::uint32_t kHasMemory = 1U << 31;

void read_amounts(json::Reader& reader, const Catalog& catalog, Amounts& amounts, std::uint32_t& has) {
  if (reader.consume_null() || !reader.begin_object()) return;
  std::string_view key;
  while (reader.next_member(key)) {
    std::int64_t* target = nullptr;
    bool is_milli = false;
    std::uint32_t bit = 0;
    if (key == "cpu") {
      target = &amounts.cpu;
      is_milli = true;
      bit = kHasCpu;
    } else if (key == "memory") {
      target = &amounts.memory;
      bit = kHasMemory;
    } else {
      const auto place = std::find(catalog.resources.begin(), catalog.resources.end(), key);
      if (place != catalog.resources.end()) {
        const auto index = static_cast<std::size_t>(place - catalog.resources.begin());
        target = &amounts.extra[index];
        bit = 1U << index;
      }
    }
    if (target == nullptr) {
      reader.skip();
      continue;
    }
    api::Quantity quantity;
    decode(reader, quantity);
    *target = std::clamp<std::int64_t>(is_milli ? quantity.milli_value() : quantity.value(), 0, kAmountMax);
    has |= bit;
  }
}

// `resources` of a container or pod: its requests.
void read_requests(json::Reader& reader, const Catalog& catalog, Amounts& amounts, std::uint32_t& has) {
  if (reader.consume_null() || !reader.begin_object()) return;
  std::string_view key;
  while (reader.next_member(key)) {
    if (key == "requests") {
      read_amounts(reader, catalog, amounts, has);
    } else {
      reader.skip();
    }
  }
}

struct Container {
  Amounts requests;
  bool restarts_always = false;
};

template <class Take>
void read_containers(json::Reader& reader, const Catalog& catalog, Take&& take) {
  if (reader.consume_null() || !reader.begin_array()) return;
  while (reader.next_element()) {
    Container container;
    if (!reader.begin_object()) return;
    std::string_view key;
    std::uint32_t has = 0;
    while (reader.next_member(key)) {
      if (key == "resources") {
        read_requests(reader, catalog, container.requests, has);
      } else if (key == "restartPolicy") {
        container.restarts_always = reader.read_string_view() == "Always";
      } else {
        reader.skip();
      }
    }
    take(container);
  }
}

// The parts from which a pod's requests are put together, whatever their order in the text.
struct PodSums {
  Amounts containers;
  Amounts sidecars;   // init containers that keep running
  Amounts init_peak;  // the most that the start takes
  Amounts overhead;
  Amounts pod_level;
  std::uint32_t pod_level_has = 0;

  void add_init(const Container& container) {
    Amounts now = sidecars;
    add(now, container.requests);
    init_peak = larger(init_peak, now);
    if (container.restarts_always) add(sidecars, container.requests);
  }
  [[nodiscard]] Amounts total(RequestModel model) const {
    if (model == RequestModel::Containers) return containers;
    Amounts sum = containers;
    add(sum, sidecars);
    sum = larger(sum, init_peak);
    if ((pod_level_has & kHasCpu) != 0) sum.cpu = pod_level.cpu;
    if ((pod_level_has & kHasMemory) != 0) sum.memory = pod_level.memory;
    add(sum, overhead);
    return sum;
  }
};

void read_pod_spec(json::Reader& reader, const Catalog& catalog, PodReading& pod, PodSums& sums) {
  if (reader.consume_null() || !reader.begin_object()) return;
  const bool is_effective = catalog.request_model == RequestModel::Effective;
  std::string_view key;
  std::uint32_t has = 0;
  while (reader.next_member(key)) {
    if (key == "nodeName") {
      reader.read_string(pod.node);
    } else if (key == "containers") {
      read_containers(reader, catalog, [&](const Container& container) { add(sums.containers, container.requests); });
    } else if (is_effective && key == "initContainers") {
      read_containers(reader, catalog, [&](const Container& container) { sums.add_init(container); });
    } else if (is_effective && key == "overhead") {
      read_amounts(reader, catalog, sums.overhead, has);
    } else if (is_effective && key == "resources") {
      read_requests(reader, catalog, sums.pod_level, sums.pod_level_has);
    } else {
      reader.skip();
    }
  }
}

// Reads uid and resourceVersion; `other` deals with the members that it wants and skips the rest.
template <class Other>
void read_metadata(json::Reader& reader, kube::Revision& revision, Other&& other) {
  if (!reader.begin_object()) return;
  std::string_view key;
  while (reader.next_member(key)) {
    if (key == "resourceVersion") {
      revision = kube::parse_revision(reader.read_string_view());
    } else if (!other(key)) {
      reader.skip();
    }
  }
}

double metric_of(std::string_view text) {
  const auto value = base::parse_double(base::trim(text));
  return value ? *value : std::numeric_limits<double>::quiet_NaN();
}

void read_labels(json::Reader& reader, const Catalog& catalog, NodeReading& node) {
  if (reader.consume_null() || !reader.begin_object()) return;
  std::string_view view;
  std::string key;
  while (reader.next_member(view)) {
    key.assign(view);
    const std::string_view value = reader.read_string_view();
    for (std::size_t i = 0; i < catalog.labels.size(); ++i) {
      if (catalog.labels[i].first == key && catalog.labels[i].second == value) node.label_bits |= 1U << i;
    }
    for (std::size_t i = 0; i < catalog.metric_labels.size(); ++i) {
      if (catalog.metric_labels[i] == key) node.metrics[kMetricsMax / 2 + i] = metric_of(value);
    }
  }
}

void read_annotations(json::Reader& reader, const Catalog& catalog, NodeReading& node) {
  if (reader.consume_null() || !reader.begin_object()) return;
  std::string_view key;
  while (reader.next_member(key)) {
    const auto place = std::find(catalog.annotations.begin(), catalog.annotations.end(), key);
    if (place == catalog.annotations.end()) {
      reader.skip();
    } else {
      node.metrics[static_cast<std::size_t>(place - catalog.annotations.begin())] =
          metric_of(reader.read_string_view());
    }
  }
}

bool has_member(json::Reader& reader, std::string_view wanted) {
  bool found = false;
  if (reader.consume_null() || !reader.begin_object()) return false;
  std::string_view key;
  while (reader.next_member(key)) {
    found = found || key == wanted;
    reader.skip();
  }
  return found;
}

}  // namespace

Result<PodReading> read_pod(std::string_view json, const Catalog& catalog) {
  json::Reader reader(json, {.keep_unknown = false});
  PodReading pod;
  PodSums sums;
  bool is_finished = false;
  bool is_mirror = false;
  std::string_view key;
  if (reader.begin_object()) {
    while (reader.next_member(key)) {
      if (key == "metadata") {
        read_metadata(reader, pod.revision, [&](std::string_view member) {
          if (member == "uid") {
            pod.uid = pod_uid(reader.read_string_view());
          } else if (member == "annotations") {
            is_mirror = has_member(reader, api::keys::kMirrorPod);
          } else {
            return false;
          }
          return true;
        });
      } else if (key == "spec") {
        read_pod_spec(reader, catalog, pod, sums);
      } else if (key == "status") {
        std::string_view member;
        if (reader.consume_null() || !reader.begin_object()) continue;
        while (reader.next_member(member)) {
          if (member == "phase") {
            const std::string_view phase = reader.read_string_view();
            is_finished = phase == "Succeeded" || phase == "Failed";
          } else {
            reader.skip();
          }
        }
      } else {
        reader.skip();
      }
    }
  }
  if (Done done = reader.finish(); !done.ok()) return std::move(done).error();
  pod.requests = sums.total(catalog.request_model);
  pod.counts = !pod.node.empty() && !is_finished && !is_mirror;
  return pod;
}

Result<NodeReading> read_node(std::string_view json, const Catalog& catalog) {
  json::Reader reader(json, {.keep_unknown = false});
  NodeReading node;
  node.metrics.fill(std::numeric_limits<double>::quiet_NaN());
  const std::string_view base = catalog.base == UtilizationBase::Allocatable ? "allocatable" : "capacity";
  std::string_view key;
  if (reader.begin_object()) {
    while (reader.next_member(key)) {
      if (key == "metadata") {
        read_metadata(reader, node.revision, [&](std::string_view member) {
          if (member == "name") {
            reader.read_string(node.name);
          } else if (member == "labels") {
            read_labels(reader, catalog, node);
          } else if (member == "annotations" && !catalog.annotations.empty()) {
            read_annotations(reader, catalog, node);
          } else {
            return false;
          }
          return true;
        });
      } else if (key == "status") {
        std::string_view member;
        if (reader.consume_null() || !reader.begin_object()) continue;
        while (reader.next_member(member)) {
          if (member == base) {
            read_amounts(reader, catalog, node.capacity, node.extras);
          } else {
            reader.skip();
          }
        }
      } else {
        reader.skip();
      }
    }
  }
  if (Done done = reader.finish(); !done.ok()) return std::move(done).error();
  node.extras &= (1U << kExtraMax) - 1;
  return node;
}

}  // namespace basalt::controllers::sharding
