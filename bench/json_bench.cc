// Our JSON against Boost.JSON 1.81 on a pod of about 4 KB as an API server sends it: parse to a tree, skip, read a few
// fields. Boost.JSON is compiled into this file only.

#include <benchmark/benchmark.h>

#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/src.hpp>
#include <string>
#include <string_view>

#include "base/check.h"
#include "json/reader.h"
#include "json/value.h"
#include "yaml/reader.h"
#include "yaml/writer.h"

namespace basalt::json {
namespace {

// Made, not recorded: the members and their sizes are those of a running pod of a batch job.
std::string make_pod() {
  Array managed;
  for (int i = 0; i < 2; ++i) {
    managed.push_back(Object{{"manager", "controller-manager"},
                             {"operation", "Update"},
                             {"apiVersion", "v1"},
                             {"time", "2026-01-01T00:00:00Z"},
                             {"fieldsType", "FieldsV1"}});
    Value& fields = managed.back().ensure_path({"fieldsV1"});
    for (const char* name : {"f:labels", "f:annotations", "f:ownerReferences", "f:containers", "f:restartPolicy"}) {
      fields.ensure_path({"f:metadata", name, "."}) = Object();
    }
  }
  Array environment;
  for (int i = 0; i < 8; ++i) {
    environment.push_back(Object{{"name", "TASK_SETTING_" + std::to_string(i)}, {"value", "value of setting"}});
  }
  Array conditions;
  for (const char* type : {"Initialized", "Ready", "ContainersReady", "PodScheduled"}) {
    conditions.push_back(Object{{"type", type},
                                {"status", "True"},
                                {"lastProbeTime", nullptr},
                                {"lastTransitionTime", "2026-01-01T00:00:00Z"}});
  }
  const Value mounts = Array{
      Object{{"name", "config"}, {"mountPath", "/etc/config"}},
      Object{{"name", "token"}, {"mountPath", "/var/run/secrets/kubernetes.io/serviceaccount"}, {"readOnly", true}}};
  const Value resources = Object{{"limits", Object{{"cpu", "4"}, {"memory", "16Gi"}}},
                                 {"requests", Object{{"cpu", "2"}, {"memory", "8Gi"}}}};
  const Object container{{"name", "worker"},
                         {"image", "registry.example/team/trainer:2026.1"},
                         {"command", Array{"python", "-m", "trainer", "--epochs=10", "--data=/data/set"}},
                         {"env", environment},
                         {"resources", resources},
                         {"volumeMounts", mounts},
                         {"terminationMessagePath", "/dev/termination-log"},
                         {"terminationMessagePolicy", "File"},
                         {"imagePullPolicy", "IfNotPresent"}};
  const Object metadata{{"name", "training-worker-17"},
                        {"namespace", "team-a"},
                        {"uid", "7d7a2e36-6f0c-4a1e-9d57-0c1f6f3f1c55"},
                        {"resourceVersion", "184467440"},
                        {"creationTimestamp", "2026-01-01T00:00:00Z"},
                        {"labels", Object{{"volcano.sh/job-name", "training"},
                                          {"volcano.sh/task-spec", "worker"},
                                          {"volcano.sh/queue-name", "default"}}},
                        {"annotations", Object{{"scheduling.k8s.io/group-name", "training-7d7a2e36"},
                                               {"volcano.sh/task-index", "17"},
                                               {"volcano.sh/job-version", "0"},
                                               {"volcano.sh/template-uid", "training-worker"}}},
                        {"ownerReferences", Array{Object{{"apiVersion", "batch.volcano.sh/v1alpha1"},
                                                         {"kind", "Job"},
                                                         {"name", "training"},
                                                         {"uid", "5b1f7f1e-90cb-4a5c-8b4e-e7bd4cf0f9d2"},
                                                         {"controller", true},
                                                         {"blockOwnerDeletion", true}}}},
                        {"managedFields", managed}};
  Object helper = container;
  helper.set("name", "log-shipper");
  const Object spec{{"containers", Array{container, helper}},
                    {"restartPolicy", "OnFailure"},
                    {"nodeName", "node-0042"},
                    {"schedulerName", "volcano"},
                    {"priority", 1000},
                    {"terminationGracePeriodSeconds", 30},
                    {"tolerations", Array{Object{{"key", "node.kubernetes.io/not-ready"},
                                                 {"operator", "Exists"},
                                                 {"effect", "NoExecute"},
                                                 {"tolerationSeconds", 300}}}},
                    {"volumes", Array{Object{{"name", "config"},
                                             {"configMap", Object{{"name", "training-svc"}, {"defaultMode", 420}}}}}}};
  const Object status{{"phase", "Running"},
                      {"conditions", conditions},
                      {"hostIP", "10.0.0.42"},
                      {"podIP", "10.1.42.17"},
                      {"startTime", "2026-01-01T00:00:00Z"},
                      {"qosClass", "Burstable"},
                      {"containerStatuses", Array{Object{{"name", "worker"},
                                                         {"ready", true},
                                                         {"restartCount", 0},
                                                         {"image", "registry.example/team/trainer:2026.1"}}}}};
  return Value(
             Object{{"apiVersion", "v1"}, {"kind", "Pod"}, {"metadata", metadata}, {"spec", spec}, {"status", status}})
      .to_text();
}

const std::string& pod() {
  static const std::string text = make_pod();
  return text;
}

void report(benchmark::State& state) {
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * pod().size()));
  state.counters["document_bytes"] = static_cast<double>(pod().size());
}

void parse_to_value(benchmark::State& state) {
  for (auto _ : state) {
    auto value = Value::parse(pod());
    BASALT_CHECK(value.ok());
    benchmark::DoNotOptimize(value);
  }
  report(state);
}
BENCHMARK(parse_to_value);

void parse_to_boost_value(benchmark::State& state) {
  for (auto _ : state) {
    boost::json::monotonic_resource arena;
    const boost::json::value value = boost::json::parse(pod(), &arena);
    benchmark::DoNotOptimize(&value);
  }
  report(state);
}
BENCHMARK(parse_to_boost_value);

void skip(benchmark::State& state) {
  for (auto _ : state) {
    Reader reader(pod());
    reader.skip();
    BASALT_CHECK(reader.finish().ok());
  }
  report(state);
}
BENCHMARK(skip);

// Takes every event of Boost's parser and does nothing with it.
struct NullHandler {
  static constexpr std::size_t max_object_size = SIZE_MAX;
  static constexpr std::size_t max_array_size = SIZE_MAX;
  static constexpr std::size_t max_key_size = SIZE_MAX;
  static constexpr std::size_t max_string_size = SIZE_MAX;
  using View = boost::json::string_view;
  using Code = boost::json::error_code;
  bool on_document_begin(Code&) { return true; }
  bool on_document_end(Code&) { return true; }
  bool on_object_begin(Code&) { return true; }
  bool on_object_end(std::size_t, Code&) { return true; }
  bool on_array_begin(Code&) { return true; }
  bool on_array_end(std::size_t, Code&) { return true; }
  bool on_key_part(View, std::size_t, Code&) { return true; }
  bool on_key(View, std::size_t, Code&) { return true; }
  bool on_string_part(View, std::size_t, Code&) { return true; }
  bool on_string(View, std::size_t, Code&) { return true; }
  bool on_number_part(View, Code&) { return true; }
  bool on_int64(std::int64_t, View, Code&) { return true; }
  bool on_uint64(std::uint64_t, View, Code&) { return true; }
  bool on_double(double, View, Code&) { return true; }
  bool on_bool(bool, Code&) { return true; }
  bool on_null(Code&) { return true; }
  bool on_comment_part(View, Code&) { return true; }
  bool on_comment(View, Code&) { return true; }
};

void skip_with_boost(benchmark::State& state) {
  for (auto _ : state) {
    boost::json::basic_parser<NullHandler> parser{boost::json::parse_options()};
    boost::json::error_code error;
    parser.write_some(false, pod().data(), pod().size(), error);
    BASALT_CHECK(!error);
  }
  report(state);
}
BENCHMARK(skip_with_boost);

// What an informer's projection does: a handful of fields, the rest skipped.
void read_projection(benchmark::State& state) {
  for (auto _ : state) {
    Reader reader(pod());
    std::string name;
    std::string node;
    std::string phase;
    std::string_view key;
    reader.begin_object();
    while (reader.next_member(key)) {
      std::string* wanted = nullptr;
      std::string_view wanted_key;
      if (key == "metadata") {
        wanted = &name;
        wanted_key = "name";
      } else if (key == "spec") {
        wanted = &node;
        wanted_key = "nodeName";
      } else if (key == "status") {
        wanted = &phase;
        wanted_key = "phase";
      } else {
        reader.skip();
        continue;
      }
      reader.begin_object();
      while (reader.next_member(key)) {
        if (key == wanted_key) {
          reader.read_string(*wanted);
        } else {
          reader.skip();
        }
      }
    }
    BASALT_CHECK(reader.finish().ok() && !phase.empty());
    benchmark::DoNotOptimize(name);
    benchmark::DoNotOptimize(node);
  }
  report(state);
}
BENCHMARK(read_projection);

void write_value(benchmark::State& state) {
  const auto value = Value::parse(pod());
  for (auto _ : state) benchmark::DoNotOptimize(value->to_text());
  report(state);
}
BENCHMARK(write_value);

void write_boost_value(benchmark::State& state) {
  const boost::json::value value = boost::json::parse(pod());
  for (auto _ : state) benchmark::DoNotOptimize(boost::json::serialize(value));
  report(state);
}
BENCHMARK(write_boost_value);

void read_yaml(benchmark::State& state) {
  const std::string text = yaml::write(Value::parse(pod()).value());
  for (auto _ : state) {
    auto value = yaml::read(text);
    BASALT_CHECK(value.ok());
    benchmark::DoNotOptimize(value);
  }
  report(state);
}
BENCHMARK(read_yaml);

}  // namespace
}  // namespace basalt::json
