#pragma once

#include <string>

// For tests: the objects of a small cluster as YAML.

namespace basalt::scheduler::testing {

inline std::string node_yaml(const std::string& name, int cpu, const std::string& labels = "",
                             const std::string& spec = "{}", const std::string& devices = "") {
  const std::string room = "{cpu: '" + std::to_string(cpu) + "', memory: 64Gi, pods: '110'" + devices + "}";
  return "apiVersion: v1\nkind: Node\nmetadata: {name: " + name + ", labels: {kubernetes.io/hostname: " + name +
         labels + "}}\nspec: " + spec + "\nstatus:\n  allocatable: " + room + "\n  capacity: " + room +
         "\n  conditions: [{type: Ready, status: 'True'}]\n---\n";
}

struct GangOptions {
  int min_member = 2;
  int pods = 2;
  std::string cpu = "1";  // "": best effort
  std::string queue = "default";
  std::string priority_class;
  std::string spec;         // more of the pods' specification, flow style: ", nodeSelector: {...}"
  std::string group_spec;   // more of the group's specification: ", minTaskMember: {...}"
  std::string labels;       // of the pods: ", a: b"
  std::string annotations;  // of the pods
  int created_minute = 0;   // younger groups have larger ones
  int first_index = 0;
};

inline std::string group_yaml(const std::string& name, const GangOptions& gang) {
  const std::string minute = (gang.created_minute < 10 ? "0" : "") + std::to_string(gang.created_minute);
  std::string yaml = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\nmetadata: {name: " + name +
                     ", creationTimestamp: '2026-01-01T00:" + minute +
                     ":00Z'}\nspec: {minMember: " + std::to_string(gang.min_member) + ", queue: " + gang.queue +
                     gang.group_spec;
  if (!gang.priority_class.empty()) yaml += ", priorityClassName: " + gang.priority_class;
  return yaml + "}\n---\n";
}

inline std::string pod_yaml(const std::string& group, int index, const GangOptions& gang) {
  const std::string requests = gang.cpu.empty() ? "{}" : "{requests: {cpu: '" + gang.cpu + "'}}";
  return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + group + "-" + std::to_string(index) +
         ", labels: {gang: " + group + gang.labels + "}, annotations: {scheduling.k8s.io/group-name: " + group +
         gang.annotations + "}}\nspec: {schedulerName: volcano, restartPolicy: Never" + gang.spec +
         ", containers: [{name: c, image: i, resources: " + requests + "}]}\n---\n";
}

inline std::string gang_yaml(const std::string& name, const GangOptions& gang) {
  std::string yaml = group_yaml(name, gang);
  for (int i = 0; i < gang.pods; ++i) yaml += pod_yaml(name, gang.first_index + i, gang);
  return yaml;
}

inline std::string queue_yaml(const std::string& name, const std::string& spec = "{weight: 1}",
                              const std::string& state = "Open") {
  return "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: " + name + "}\nspec: " + spec +
         "\nstatus: {state: " + state + "}\n---\n";
}

inline std::string priority_class_yaml(const std::string& name, int value, const std::string& more = "") {
  return "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: " + name +
         "}\nvalue: " + std::to_string(value) + "\n" + more + "---\n";
}

}  // namespace basalt::scheduler::testing
