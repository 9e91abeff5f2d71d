#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <unistd.h>

#include "federation/interpreter.h"
#include "json/reader.h"
#include "json/value.h"
#include "yaml/reader.h"

// The scripts that a real Karmada runs (deploy/karmada/*-interpreter.yaml), run by Lua 5.1, the dialect of Karmada's
// interpreter, and compared with what the stand-in understands of the same objects. As there: functions that reach out
// are missing, a table that stands at two places of a result is an error, and members that are empty get lost.
namespace basalt::federation {
namespace {

constexpr std::string_view kHarness = R"lua(
for _, name in ipairs({"collectgarbage", "dofile", "getfenv", "getmetatable", "load", "loadfile", "loadstring", "rawequal",
                       "rawget", "rawset", "setfenv", "setmetatable", "module", "newproxy"}) do
  _G[name] = function() error(name .. " must not be called") end
end
local write = io.write
io, os, debug = nil, nil, nil
-- What Karmada's library would find in pods with one container.
package.preload.kube = function()
  return {
    accuratePodRequirements = function(pod)
      local resources = pod.spec and pod.spec.containers and pod.spec.containers[1] and pod.spec.containers[1].resources
      if resources == nil then return nil end
      return {resourceRequest = resources.requests or resources.limits}
    end,
    getPodDependencies = function(pod, namespace)
      local found = {}
      local function add(kind, name)
        if name ~= nil then found[#found + 1] = {apiVersion = "v1", kind = kind, namespace = namespace, name = name} end
      end
      local spec = pod.spec or {}
      for _, volume in ipairs(spec.volumes or {}) do
        add("ConfigMap", volume.configMap and volume.configMap.name)
        add("Secret", volume.secret and volume.secret.secretName)
        add("PersistentVolumeClaim", volume.persistentVolumeClaim and volume.persistentVolumeClaim.claimName)
      end
      for _, secret in ipairs(spec.imagePullSecrets or {}) do add("Secret", secret.name) end
      add("ServiceAccount", spec.serviceAccountName)
      return found
    end
  }
end
local seen = {}
local function encode(value)
  local kind = type(value)
  if kind == "nil" then return "null" end
  if kind == "boolean" then return tostring(value) end
  if kind == "number" then return value == math.floor(value) and string.format("%.0f", value) or tostring(value) end
  if kind == "string" then return '"' .. string.gsub(value, '[%c"\\]', function(c) return string.format("\\u%04x", string.byte(c)) end) .. '"' end
  if kind ~= "table" then error("a result has a " .. kind) end
  if seen[value] then error("a table stands at two places of the result") end
  seen[value] = true
  local parts = {}
  if #value > 0 or next(value) == nil then
    for i = 1, #value do parts[i] = encode(value[i]) end
    return "[" .. table.concat(parts, ",") .. "]"
  end
  for key, member in pairs(value) do
    if type(member) ~= "table" or next(member) ~= nil then
      parts[#parts + 1] = encode(tostring(key)) .. ":" .. encode(member)
    end
  end
  return "{" .. table.concat(parts, ",") .. "}"
end
function answer(first, second) write("[" .. encode(first) .. "," .. encode(second) .. "]\n") end
)lua";

std::string lua_literal(const json::Value& value) {
  if (value.is_null()) return "nil";
  if (value.is_string()) {
    std::string out = "\"";
    for (const char c : value.as_string()) {
      char text[8];
      std::snprintf(text, sizeof text, "\\%03u", static_cast<unsigned>(static_cast<unsigned char>(c)));
      out += text;
    }
    return out + "\"";
  }
  if (value.is_array()) {
    std::string out = "{";
    for (const json::Value& item : value.as_array()) out += lua_literal(item) + ",";
    return out + "}";
  }
  if (value.is_object()) {
    std::string out = "{";
    for (const auto& [key, member] : value.as_object()) {
      out += "[" + lua_literal(json::Value(key)) + "]=" + lua_literal(member) + ",";
    }
    return out + "}";
  }
  return value.to_text();
}

json::Value parsed(const std::string& text) {
  auto value = json::Value::parse(text);
  EXPECT_TRUE(value.ok()) << text;
  return value.ok() ? *value : json::Value();
}

class InterpreterScripts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::system("command -v lua5.1 >/dev/null 2>&1") == 0) return;
    const char* ci = std::getenv("CI");
    ASSERT_FALSE(ci != nullptr && std::string_view(ci) == "true") << "lua5.1 is missing; run tools/install-packages";
    GTEST_SKIP() << "lua5.1 is missing; run tools/install-packages";
  }

  // Both results of `function` of the customization `operation`; nothing else may be printed.
  static std::array<json::Value, 2> run(const std::string& file, const std::string& operation,
                                        const std::string& function, const std::vector<json::Value>& arguments) {
    std::string program(kHarness);
    program += script(file, operation) + "\nanswer(" + function + "(";
    for (std::size_t i = 0; i < arguments.size(); ++i) program += (i == 0 ? "" : ", ") + lua_literal(arguments[i]);
    program += "))\n";
    std::string path = ::testing::TempDir() + "interpreter.XXXXXX";
    const int descriptor = ::mkstemp(path.data());
    EXPECT_GE(descriptor, 0);
    ::close(descriptor);
    std::ofstream(path) << program;
    const std::string output = output_of("lua5.1 " + path + " 2>&1");
    ::unlink(path.c_str());
    const auto value = json::Value::parse(output);
    EXPECT_TRUE(value.ok() && value->is_array() && value->as_array().size() == 2) << function << " said: " << output;
    if (!value.ok() || !value->is_array() || value->as_array().size() != 2) return {};
    return {value->as_array()[0], value->as_array()[1]};
  }
  static json::Value job(const std::string& operation, const std::string& function,
                         const std::vector<json::Value>& arguments) {
    return run("job-interpreter.yaml", operation, function, arguments)[0];
  }

 private:
  static std::string script(const std::string& file, const std::string& operation) {
    std::ifstream stream(std::string(BASALT_SOURCE_DIR) + "/deploy/karmada/" + file);
    std::ostringstream text;
    text << stream.rdbuf();
    const auto manifest = yaml::read(text.str());
    EXPECT_TRUE(manifest.ok()) << file;
    return manifest.ok() ? std::string(manifest->string_at({"spec", "customizations", operation, "luaScript"})) : "";
  }
  static std::string output_of(const std::string& command) {
    std::string output;
    std::FILE* pipe = ::popen(command.c_str(), "r");
    EXPECT_NE(pipe, nullptr);
    std::array<char, 4096> buffer{};
    while (pipe != nullptr) {
      const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), pipe);
      if (count == 0) break;
      output.append(buffer.data(), count);
    }
    if (pipe != nullptr) ::pclose(pipe);
    return output;
  }
};

std::string pod(const std::string& requests) {
  return R"("template":{"spec":{"containers":[{"name":"c","resources":{"requests":{)" + requests + "}}}]}}";
}

TEST_F(InterpreterScripts, ReplicasAreThoseOfTheFirstTaskAndRequestsTheLargest) {
  const std::string specs[] = {
      R"({})",
      R"({"tasks":[]})",
      R"({"tasks":[{"name":"a"}]})",
      R"({"tasks":[{"name":"a","replicas":0}]})",
      R"({"tasks":[{"name":"a","replicas":3},{"name":"b","replicas":9}]})",
      R"({"tasks":[{"replicas":2,)" + pod(R"("cpu":"100m","memory":"1Gi")") + "}]}",
      R"({"tasks":[{"replicas":2,)" + pod(R"("cpu":"100m","memory":"1Gi")") + "},{" +
          pod(R"("cpu":"1","memory":"900Mi","nvidia.com/gpu":"2")") + "}]}",
      R"({"tasks":[{"replicas":1},{)" + pod(R"("cpu":"2")") + "}]}",
      R"({"tasks":[{)" + pod(R"("memory":"1e3")") + "},{" + pod(R"("memory":"1k")") + "},{" + pod(R"("memory":"1Ki")") +
          "}]}",
      R"({"tasks":[{)" + pod(R"("memory":"1E")") + "},{" + pod(R"("memory":"1Ei")") + "}]}",
      R"({"tasks":[{)" + pod(R"("cpu":"0.5")") + "},{" + pod(R"("cpu":"499m")") + "}]}",
  };
  for (const std::string& text : specs) {
    SCOPED_TRACE(text);
    const auto [replicas, requires_] =
        run("job-interpreter.yaml", "replicaResource", "GetReplicas", {parsed(R"({"spec":)" + text + "}")});
    const auto spec = *json::from_text<api::batch::JobSpec>(text);
    EXPECT_EQ(replicas.to_text(), std::to_string(replicas_of(spec)));
    const json::Value* list = requires_.is_object() ? requires_.find("resourceRequest") : nullptr;
    const auto found = json::from_text<api::ResourceList>(list == nullptr ? "{}" : list->to_text());
    ASSERT_TRUE(found.ok());
    EXPECT_EQ((api::ResourceList() += *found).to_string(), request_of(spec).to_string());
  }
  EXPECT_EQ(job("replicaResource", "GetReplicas", {parsed("{}")}).to_text(), "1");
}

TEST_F(InterpreterScripts, RevisionWritesTheFirstTask) {
  const json::Value five(std::int64_t{5});
  const json::Value given = parsed(R"({"spec":{"tasks":[{"name":"a","replicas":1},{"name":"b","replicas":2}]}})");
  EXPECT_EQ(job("replicaRevision", "ReviseReplica", {given, five}),
            parsed(R"({"spec":{"tasks":[{"name":"a","replicas":5},{"name":"b","replicas":2}]}})"));
  EXPECT_EQ(job("replicaRevision", "ReviseReplica", {parsed(R"({"spec":{"queue":"q"}})"), five}),
            parsed(R"({"spec":{"queue":"q"}})"));
  EXPECT_EQ(job("replicaRevision", "ReviseReplica", {parsed(R"({"kind":"Job"})"), five}), parsed(R"({"kind":"Job"})"));
}

TEST_F(InterpreterScripts, WhatTheMemberFilledInIsRetained) {
  const json::Value wanted = parsed(
      R"({"spec":{"plugins":{"mpi":["x"]},"tasks":[{"replicas":4,"template":{"spec":{"hostNetwork":true}}}],
      "volumes":[{"mountPath":"/a","volumeClaim":{"x":"y"}},{"mountPath":"/b","volumeClaimName":"mine"}]}})");
  const json::Value live = parsed(
      R"({"spec":{"minAvailable":2,"queue":"default","schedulerName":"volcano","maxRetry":3,"plugins":{"mpi":["old"],"svc":["-"],
      "ssh":["-"]},"tasks":[{"name":"default0","replicas":2,"minAvailable":2,"maxRetry":3,"template":{"spec":{"hostNetwork":true,
      "dnsPolicy":"ClusterFirstWithHostNet"}}}],"volumes":[{"mountPath":"/a","volumeClaim":{"x":"y"},"volumeClaimName":"made"},
      {"mountPath":"/b","volumeClaimName":"other"}]}})");
  EXPECT_EQ(
      job("retention", "Retain", {wanted, live}),
      parsed(
          R"({"spec":{"minAvailable":2,"queue":"default","schedulerName":"volcano","maxRetry":3,"plugins":{"mpi":["x"],"svc":["-"],
      "ssh":["-"]},"tasks":[{"name":"default0","replicas":4,"minAvailable":2,"maxRetry":3,"template":{"spec":{"hostNetwork":true,
      "dnsPolicy":"ClusterFirstWithHostNet"}}}],"volumes":[{"mountPath":"/a","volumeClaim":{"x":"y"},"volumeClaimName":"made"},
      {"mountPath":"/b","volumeClaimName":"mine"}]}})"));
  // Lists that do not match, and objects without a specification, are left alone.
  const json::Value two =
      parsed(R"({"spec":{"queue":"q","tasks":[{"name":"a"},{"name":"b"}],"volumes":[{"mountPath":"/a"}]}})");
  const json::Value kept = job("retention", "Retain", {two, live});
  EXPECT_EQ(*kept.find_path({"spec", "tasks"}), *two.find_path({"spec", "tasks"}));
  EXPECT_EQ(*kept.find_path({"spec", "volumes"}), *two.find_path({"spec", "volumes"}));
  EXPECT_EQ(kept.string_at({"spec", "queue"}), "q");
  EXPECT_EQ(job("retention", "Retain", {two, parsed(R"({"kind":"Job"})")}), two);
  EXPECT_EQ(job("retention", "Retain", {parsed(R"({"kind":"Job"})"), live}), parsed(R"({"kind":"Job"})"));
}

TEST_F(InterpreterScripts, HealthIsAsTheStandInSeesIt) {
  for (const char* phase : {"", "Pending", "Aborting", "Aborted", "Running", "Restarting", "Completing", "Completed",
                            "Terminating", "Terminated", "Failed"}) {
    const std::string text = std::string(R"({"state":{"phase":")") + phase + "\"}}";
    const auto status = *json::from_text<api::batch::JobStatus>(text);
    EXPECT_EQ(job("healthInterpretation", "InterpretHealth", {parsed(R"({"status":)" + text + "}")}).to_text(),
              health_of(status) == "Healthy" ? "true" : "false")
        << phase;
  }
  EXPECT_EQ(job("healthInterpretation", "InterpretHealth", {parsed("{}")}).to_text(), "false");
  EXPECT_EQ(job("healthInterpretation", "InterpretHealth", {parsed(R"({"status":{"running":1}})")}).to_text(), "false");
}

TEST_F(InterpreterScripts, TheStatusIsReflectedWhole) {
  const std::string status =
      R"({"state":{"phase":"Running","reason":"r","message":"m \"q\" ü","lastTransitionTime":"2026-01-01T00:00:00Z"},
      "minAvailable":2,"taskStatusCount":{"w":{"phase":{"Running":2,"Pending":1}}},"pending":1,"running":2,"succeeded":3,
      "failed":4,"terminating":5,"unknown":6,"version":7,"retryCount":8,"runningDuration":"10s",
      "controlledResources":{"plugin-env":"env"},"conditions":[{"status":"Running"}]})";
  EXPECT_EQ(job("statusReflection", "ReflectStatus", {parsed(R"({"status":)" + status + "}")}), parsed(status));
  // An empty map could come back as a list, which the API would refuse.
  EXPECT_EQ(job("statusReflection", "ReflectStatus",
                {parsed(R"({"status":{"running":0,"taskStatusCount":{},"controlledResources":{},"conditions":[]}})")}),
            parsed(R"({"running":0})"));
  EXPECT_EQ(job("statusReflection", "ReflectStatus", {parsed("{}")}).to_text(), "[]");
}

TEST_F(InterpreterScripts, StatusesAreSummedUpAsTheStandInDoes) {
  const std::vector<std::string> statuses = {
      R"({"state":{"phase":"Completed"},"succeeded":2,"minAvailable":2,"taskStatusCount":{"w":{"phase":{"Succeeded":2}}}})",
      R"({"state":{"phase":"Running"},"running":1,"pending":1,"taskStatusCount":{"w":{"phase":{"Running":1,"Pending":1}},"v":{"phase":{"Running":1}}}})",
      R"({"state":{"phase":"Aborted","reason":"by hand"},"terminating":1})",
      R"({"state":{"phase":"Failed"},"failed":2,"unknown":1})",
      R"({"state":{"phase":"Terminated"}})",
      R"({"running":1,"taskStatusCount":{"w":{"phase":{}}}})",
  };
  std::vector<std::vector<std::size_t>> combinations;
  for (std::size_t a = 0; a < statuses.size(); ++a) {
    combinations.push_back({a});
    for (std::size_t b = 0; b < statuses.size(); ++b) combinations.push_back({a, b});
  }
  combinations.push_back({0, 1, 2});
  combinations.push_back({0, 0, 1});
  for (const auto& combination : combinations) {
    std::string items;
    std::vector<api::batch::JobStatus> members;
    for (const std::size_t i : combination) {
      items += std::string(items.empty() ? "" : ",") + R"({"clusterName":"c","status":)" + statuses[i] + "}";
      members.push_back(*json::from_text<api::batch::JobStatus>(statuses[i]));
    }
    SCOPED_TRACE(items);
    const json::Value result = job("statusAggregation", "AggregateStatus",
                                   {parsed(R"({"kind":"Job","status":{"running":9}})"), parsed("[" + items + "]")});
    const json::Value* status = result.find("status");
    ASSERT_NE(status, nullptr);
    auto found = json::from_text<api::batch::JobStatus>(status->to_text());
    ASSERT_TRUE(found.ok()) << status->to_text();
    api::batch::JobStatus wanted = aggregate(members);
    EXPECT_EQ(found->state.phase, wanted.state.phase);
    EXPECT_EQ(found->state.reason, wanted.state.reason);
    EXPECT_EQ(found->running, wanted.running);
    EXPECT_EQ(found->pending, wanted.pending);
    EXPECT_EQ(found->succeeded, wanted.succeeded);
    EXPECT_EQ(found->failed, wanted.failed);
    EXPECT_EQ(found->terminating, wanted.terminating);
    EXPECT_EQ(found->unknown_count, wanted.unknown_count);
    EXPECT_EQ(found->min_available, wanted.min_available);
    std::erase_if(found->task_status_count, [](const auto& one) { return one.second.phase.empty(); });
    std::erase_if(wanted.task_status_count, [](const auto& one) { return one.second.phase.empty(); });
    EXPECT_EQ(found->task_status_count, wanted.task_status_count);
  }
  // Nothing known yet: what stands there stays.
  const json::Value given = parsed(R"({"status":{"running":9}})");
  EXPECT_EQ(job("statusAggregation", "AggregateStatus", {given, parsed("[]")}), given);
  EXPECT_EQ(job("statusAggregation", "AggregateStatus", {given, json::Value()}), given);
  // Nothing is known of one cluster: what the other completed is not the whole.
  const json::Value half = job(
      "statusAggregation", "AggregateStatus",
      {given,
       parsed(R"([{"clusterName":"a","status":{"state":{"phase":"Completed"},"succeeded":1}},{"clusterName":"b"}])")});
  EXPECT_EQ(half, parsed(R"({"status":{"succeeded":1}})"));
}

TEST_F(InterpreterScripts, DependenciesOfAllTasksAreToldOnce) {
  const std::string spec =
      R"({"tasks":[{"template":{"spec":{"serviceAccountName":"sa","imagePullSecrets":[{"name":"pull"}],
      "volumes":[{"configMap":{"name":"cm"}},{"secret":{"secretName":"s"}}]}}},{"template":{"spec":{"volumes":[
      {"configMap":{"name":"cm"}},{"persistentVolumeClaim":{"claimName":"pvc"}}]}}},{"name":"bare"}]})";
  const json::Value result = job("dependencyInterpretation", "GetDependencies",
                                 {parsed(R"({"metadata":{"namespace":"team"},"spec":)" + spec + "}")});
  std::vector<Dependency> found;
  for (const json::Value& one : result.as_array()) {
    EXPECT_EQ(one.string_at({"apiVersion"}), "v1");
    EXPECT_EQ(one.string_at({"namespace"}), "team");
    found.push_back({std::string(one.string_at({"kind"})), std::string(one.string_at({"name"}))});
  }
  std::sort(found.begin(), found.end());
  EXPECT_EQ(found, dependencies_of(*json::from_text<api::batch::JobSpec>(spec)));
  EXPECT_EQ(job("dependencyInterpretation", "GetDependencies", {parsed(R"({"metadata":{"namespace":"d"}})")}).to_text(),
            "[]");
}

TEST_F(InterpreterScripts, AQueueIsOpenIfItIsOpenSomewhere) {
  const auto aggregated = [](const std::string& items) {
    return std::string(run("queue-interpreter.yaml", "statusAggregation", "AggregateStatus",
                           {parsed(R"({"status":{"state":"Unknown"}})"), parsed(items)})[0]
                           .string_at({"status", "state"}));
  };
  EXPECT_EQ(aggregated(R"([{"status":{"state":"Closed"}},{"status":{"state":"Open"}},{"status":{"state":"Closed"}}])"),
            "Open");
  EXPECT_EQ(aggregated(R"([{"status":{"state":"Closed"}},{"status":{"state":"Closing"}}])"), "Closed");
  EXPECT_EQ(aggregated(R"([{"status":{}},{}])"), "Unknown");
  EXPECT_EQ(aggregated("[]"), "Unknown");
  EXPECT_EQ(run("queue-interpreter.yaml", "statusAggregation", "AggregateStatus",
                {parsed(R"({"kind":"Queue"})"), parsed(R"([{"status":{"state":"Open"}}])")})[0]
                .string_at({"status", "state"}),
            "Open");
  EXPECT_EQ(run("queue-interpreter.yaml", "statusReflection", "ReflectStatus",
                {parsed(R"({"status":{"state":"Open","pending":3,"allocated":{"cpu":"1"}}})")})[0],
            parsed(R"({"state":"Open","allocated":{"cpu":"1"}})"));
}

}  // namespace
}  // namespace basalt::federation
