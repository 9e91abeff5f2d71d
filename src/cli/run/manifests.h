#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/object_key.h"
#include "base/result.h"
#include "cli/client/host.h"
#include "json/value.h"
#include "kube/client.h"

namespace basalt::cli {

// One document of a file, ready to be sent.
struct Manifest {
  json::Value object;
  kube::Resource resource;
  std::string kind;
  bool is_namespaced = true;
  std::string place;  // "job.yaml:12", for messages
  [[nodiscard]] bool is_job() const;
  [[nodiscard]] std::string name() const;  // or its generateName
};

// The documents of the files, in order. What is wrong with any of them is said before anything is sent: kinds, names,
// and for jobs what can be told without a server.
[[nodiscard]] Result<std::vector<Manifest>> load_manifests(Session& session, const std::vector<std::string>& files,
                                                           const std::string& ns);

// What is wrong with a job, one sentence each with the path of the field; empty if nothing is.
[[nodiscard]] std::vector<std::string> problems_of_job(const json::Value& job);

// The resource of a kind: of those that we know, else by asking the server.
[[nodiscard]] Result<std::pair<kube::Resource, bool>> resource_of_kind(Session& session, std::string_view api_version,
                                                                       std::string_view kind);

}  // namespace basalt::cli
