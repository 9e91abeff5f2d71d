#include "node/simulated_pod.h"

#include <optional>

#include "api/duration.h"
#include "base/hash.h"
#include "base/strings.h"
#include "json/writer.h"

namespace basalt::node {
namespace {

void read_text(json::Reader& reader, std::string& text) {
  if (!reader.consume_null()) reader.read_string(text);
}

api::Time read_time(json::Reader& reader) {
  if (reader.consume_null()) return {};
  return api::Time::parse(reader.read_string_view()).value_or(api::Time());
}

// Calls `read` with the name of each member; it consumes the value.
template <class Read>
void each_member(json::Reader& reader, Read&& read) {
  std::string_view key;
  if (reader.consume_null() || !reader.begin_object()) return;
  while (reader.next_member(key)) read(key);
}

template <class Read>
void each_element(json::Reader& reader, Read&& read) {
  if (reader.consume_null() || !reader.begin_array()) return;
  while (reader.next_element()) read();
}

bool is_of_fate(std::string_view key) {
  namespace names = simulated_annotations;
  return key == names::kStartDelay || key == names::kRunTime || key == names::kExitCode ||
         key == names::kFailureProbability || key == names::kStopDelay;
}

void read_annotations(json::Reader& reader, SimulatedPod& pod) {
  std::vector<std::pair<std::string, std::string>> found;
  each_member(reader, [&](std::string_view key) {
    if (!is_of_fate(key) || reader.peek() != json::Kind::String) return reader.skip();
    found.emplace_back(key, "");
    reader.read_string(found.back().second);
  });
  if (found.empty()) return;
  std::vector<api::StringMap::value_type> entries(found.begin(), found.end());
  pod.fate = api::StringMap::of(std::move(entries));
}

void read_metadata(json::Reader& reader, SimulatedPod& pod) {
  each_member(reader, [&](std::string_view key) {
    if (key == "name") return read_text(reader, pod.metadata.name);
    if (key == "namespace") return read_text(reader, pod.metadata.namespace_);
    if (key == "uid") return read_text(reader, pod.metadata.uid);
    if (key == "resourceVersion") return read_text(reader, pod.metadata.resource_version);
    if (key == "annotations") return read_annotations(reader, pod);
    if (key == "deletionTimestamp") {
      pod.is_deleted = !read_time(reader).is_zero();
      return;
    }
    reader.skip();
  });
}

void read_spec(json::Reader& reader, SimulatedPod& pod) {
  each_member(reader, [&](std::string_view key) {
    if (key == "nodeName") return read_text(reader, pod.node_name);
    if (key == "restartPolicy") return read_text(reader, pod.restart_policy);
    if (key != "containers") return reader.skip();
    each_element(reader, [&] {
      SimulatedPod::Container container;
      each_member(reader, [&](std::string_view field) {
        if (field == "name") return read_text(reader, container.name);
        if (field == "image") return read_text(reader, container.image);
        reader.skip();
      });
      pod.containers.push_back(std::move(container));
    });
  });
}

void read_container_status(json::Reader& reader, SimulatedPod& pod) {
  each_member(reader, [&](std::string_view key) {
    if (key == "restartCount") {
      pod.restarts = reader.read_int32();
    } else if (key == "state") {
      each_member(reader, [&](std::string_view state) {
        if (state != "running") return reader.skip();
        each_member(reader, [&](std::string_view field) {
          if (field != "startedAt") return reader.skip();
          pod.running_since = read_time(reader);
        });
      });
    } else {
      reader.skip();
    }
  });
}

void read_status(json::Reader& reader, SimulatedPod& pod) {
  each_member(reader, [&](std::string_view key) {
    if (key == "phase") return read_text(reader, pod.phase);
    if (key == "startTime") {
      pod.start_time = read_time(reader);
      return;
    }
    if (key != "containerStatuses") return reader.skip();
    bool first = true;
    each_element(reader, [&] {
      if (!first) return reader.skip();
      first = false;
      read_container_status(reader, pod);
    });
  });
}

Error wrong(std::string_view name, std::string_view value, std::string_view wanted) {
  return Error::invalid_input("annotation " + std::string(name) + " is " + base::quote(value) + ": it takes " +
                              std::string(wanted));
}

Done read_duration(const api::StringMap& map, std::string_view name, rt::Duration& into) {
  const std::string_view text = map.get(name);
  if (text.empty()) return Ok{};
  const auto duration = api::Duration::parse(text);
  if (!duration.ok() || duration->value < rt::Duration::zero())
    return wrong(name, text, "a length of time such as 200ms or 1m30s");
  into = duration->value;
  return Ok{};
}

// A patch of a pod's status, written from front to back: it is made twice for every pod.
class PatchWriter {
 public:
  explicit PatchWriter(const SimulatedPod& pod) : writer_(text_) {
    text_.reserve(1024);
    writer_.begin_object();
    writer_.key("metadata");
    writer_.begin_object();
    text("uid", pod.metadata.uid);
    writer_.end_object();
    writer_.key("status");
    writer_.begin_object();
  }
  std::string finish() {
    writer_.end_object();
    writer_.end_object();
    return std::move(text_);
  }

  void text(std::string_view key, std::string_view value) {
    writer_.key(key);
    writer_.string(value);
  }
  void boolean(std::string_view key, bool value) {
    writer_.key(key);
    writer_.boolean(value);
  }
  void integer(std::string_view key, std::int64_t value) {
    writer_.key(key);
    writer_.integer(value);
  }
  void begin_object(std::string_view key) {
    writer_.key(key);
    writer_.begin_object();
  }
  void begin_array(std::string_view key) {
    writer_.key(key);
    writer_.begin_array();
  }
  void begin_element() { writer_.begin_object(); }
  void end_object() { writer_.end_object(); }
  void end_array() { writer_.end_array(); }

  void condition(std::string_view type, bool holds, std::string_view reason, std::string_view now) {
    begin_element();
    text("type", type);
    text("status", holds ? "True" : "False");
    writer_.key("reason");
    if (reason.empty()) {
      writer_.null();
    } else {
      writer_.string(reason);
    }
    text("lastTransitionTime", now);
    end_object();
  }
  void terminated(std::string_view key, std::int32_t code, api::Time started, std::string_view now) {
    begin_object(key);
    begin_object("terminated");
    integer("exitCode", code);
    text("reason", code == 0 ? "Completed" : "Error");
    text("startedAt", started.to_string());
    text("finishedAt", now);
    end_object();
    end_object();
  }
  // Leaves the container's object open.
  void begin_container(const SimulatedPod::Container& container, std::int32_t restarts, bool ready) {
    begin_element();
    text("name", container.name);
    text("image", container.image);
    text("imageID", "");
    boolean("ready", ready);
    boolean("started", ready);
    integer("restartCount", restarts);
  }

 private:
  std::string text_;
  json::Writer writer_;
};

// An address that says whose it is and no more: nobody listens there.
std::string address_of(const SimulatedPod& pod) {
  const std::uint32_t hash = base::fnv1a_32(pod.metadata.uid);
  return "10." + std::to_string(hash >> 16 & 255) + "." + std::to_string(hash >> 8 & 255) + "." +
         std::to_string(1 + (hash & 255) % 254);
}

}  // namespace

void decode(json::Reader& reader, SimulatedPod& pod) {
  each_member(reader, [&](std::string_view key) {
    if (key == "metadata") return read_metadata(reader, pod);
    if (key == "spec") return read_spec(reader, pod);
    if (key == "status") return read_status(reader, pod);
    reader.skip();
  });
}

Result<SimulatedFate> fate_of(const SimulatedPod& pod, const SimulatedFate& usual) {
  namespace names = simulated_annotations;
  SimulatedFate fate = usual;
  if (pod.fate.empty()) return fate;
  BASALT_TRY_DONE(read_duration(pod.fate, names::kStartDelay, fate.start_delay));
  BASALT_TRY_DONE(read_duration(pod.fate, names::kStopDelay, fate.stop_delay));
  if (pod.fate.get(names::kRunTime) == "forever") {
    fate.run_time = SimulatedFate::kForever;
  } else {
    BASALT_TRY_DONE(read_duration(pod.fate, names::kRunTime, fate.run_time));
  }
  if (const std::string_view text = pod.fate.get(names::kExitCode); !text.empty()) {
    const auto code = base::parse_int64(text);
    if (!code || *code < 0 || *code > 255) return wrong(names::kExitCode, text, "a number from 0 to 255");
    fate.exit_code = static_cast<std::int32_t>(*code);
  }
  if (const std::string_view text = pod.fate.get(names::kFailureProbability); !text.empty()) {
    const auto chance = base::parse_double(text);
    if (!chance || *chance < 0 || *chance > 1) return wrong(names::kFailureProbability, text, "a number from 0 to 1");
    fate.failure_probability = *chance;
  }
  return fate;
}

std::int32_t exit_code_of(const SimulatedPod& pod, const SimulatedFate& fate, std::int32_t restarts) {
  if (fate.failure_probability <= 0) return fate.exit_code;
  const std::uint64_t hash = base::fnv1a_64(pod.metadata.uid + "/" + std::to_string(restarts));
  // The high bits of this hash hardly move with the last characters; a multiplication brings the low ones up.
  const std::uint64_t mixed = (hash ^ hash >> 32) * 0x9E3779B97F4A7C15ULL;
  const double drawn = static_cast<double>(mixed >> 11) / static_cast<double>(1ULL << 53);
  if (drawn >= fate.failure_probability) return 0;
  return fate.exit_code != 0 ? fate.exit_code : 1;
}

bool restarts_after(std::string_view restart_policy, std::int32_t exit_code) {
  return restart_policy == "Always" || restart_policy.empty() || (restart_policy == "OnFailure" && exit_code != 0);
}

std::string running_patch(const SimulatedPod& pod, std::int32_t restarts, std::int32_t last_exit_code,
                          api::Time started, api::Time now) {
  const std::string now_text = now.to_string();
  PatchWriter patch(pod);
  patch.text("phase", "Running");
  patch.begin_array("containerStatuses");
  for (const auto& container : pod.containers) {
    patch.begin_container(container, restarts, true);
    patch.begin_object("state");
    patch.begin_object("running");
    patch.text("startedAt", now_text);
    patch.end_object();
    patch.end_object();
    if (restarts > 0) patch.terminated("lastState", last_exit_code, started, now_text);
    patch.end_object();
  }
  patch.end_array();
  if (pod.phase != "Running") {
    const std::string address = address_of(pod);
    patch.text("podIP", address);
    patch.begin_array("podIPs");
    patch.begin_element();
    patch.text("ip", address);
    patch.end_object();
    patch.end_array();
    patch.text("startTime", pod.start_time ? pod.start_time.to_string() : now_text);
    patch.begin_array("conditions");
    patch.condition("Initialized", true, "", now_text);
    patch.condition("Ready", true, "", now_text);
    patch.condition("ContainersReady", true, "", now_text);
    patch.end_array();
  }
  return patch.finish();
}

std::string finished_patch(const SimulatedPod& pod, std::int32_t restarts, std::int32_t exit_code, api::Time started,
                           api::Time now) {
  const bool good = exit_code == 0;
  const std::string now_text = now.to_string();
  const std::string_view reason = good ? "PodCompleted" : "PodFailed";
  PatchWriter patch(pod);
  patch.text("phase", good ? "Succeeded" : "Failed");
  patch.begin_array("containerStatuses");
  for (const auto& container : pod.containers) {
    patch.begin_container(container, restarts, false);
    patch.terminated("state", exit_code, started, now_text);
    patch.end_object();
  }
  patch.end_array();
  patch.begin_array("conditions");
  patch.condition("Ready", false, reason, now_text);
  patch.condition("ContainersReady", false, reason, now_text);
  patch.end_array();
  return patch.finish();
}

std::string refused_patch(const SimulatedPod& pod, std::string_view why) {
  PatchWriter patch(pod);
  patch.text("phase", "Failed");
  patch.text("reason", "InvalidAnnotation");
  patch.text("message", why);
  return patch.finish();
}

}  // namespace basalt::node
