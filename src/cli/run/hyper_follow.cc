#include "cli/run/hyper_follow.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <ostream>
#include <string>
#include <utility>

#include "base/strings.h"
#include "cli/run/job_progress.h"
#include "json/value.h"

namespace basalt::cli {
namespace {

constexpr rt::Duration kPoll = std::chrono::milliseconds(300);

Result<json::Value> read(Session& session, kube::Resource resource, const std::string& ns, const std::string& name) {
  kube::Request request;
  request.resource = std::move(resource);
  request.ns = ns;
  request.name = name;
  BASALT_TRY(const kube::Response response, session.client.call(request, session.stop));
  return json::Value::parse(*response.body);
}

const json::Value* condition(const json::Value& hyper_job, std::string_view type) {
  const json::Value* list = hyper_job.find_path({"status", "conditions"});
  if (list == nullptr || !list->is_array()) return nullptr;
  for (const json::Value& one : list->as_array()) {
    if (one.string_at({"type"}) == type && one.string_at({"status"}) == "True") return &one;
  }
  return nullptr;
}

// "member1", or "?" while none is chosen.
std::string cluster_of(Session& session, const std::string& ns, const std::string& job) {
  const auto binding = read(session, {"work.karmada.io", "v1alpha2", "resourcebindings"}, ns, job + "-job");
  const json::Value* clusters = binding.ok() ? binding->find_path({"spec", "clusters"}) : nullptr;
  if (clusters == nullptr || !clusters->is_array() || clusters->as_array().empty()) return "?";
  return std::string(clusters->as_array()[0].string_at({"name"}));
}

std::string children_of(Session& session, const json::Value& hyper_job, const std::string& ns) {
  std::string text;
  const json::Value* groups = hyper_job.find_path({"status", "replicatedJobsStatus"});
  if (groups == nullptr || !groups->is_array()) return text;
  for (const json::Value& group : groups->as_array()) {
    const json::Value* states = group.find("jobStates");
    if (states == nullptr || !states->is_object()) continue;
    for (const json::Member& one : states->as_object()) {
      const std::string_view phase = one.value.string_at({"phase"});
      text += (text.empty() ? "" : ", ") + one.key + "@" + cluster_of(session, ns, one.key) + " " +
              std::string(phase.empty() ? "Pending" : phase);
    }
  }
  return text;
}

// One hyper job on its way.
struct Followed {
  FollowedJob job;
  std::string last_line;
  std::optional<int> exit_code;

  Done look(Session& session) {
    auto found = read(session, {"training.volcano.sh", "v1alpha1", "hyperjobs"}, job.ns, job.name);
    const bool is_gone = (!found.ok() && found.error().is(Reason::NotFound)) ||
                         (found.ok() && !job.uid.empty() && found->string_at({"metadata", "uid"}) != job.uid);
    if (is_gone) {
      session.out << "hyperjob " << job.ns << "/" << job.name << " was deleted\n" << std::flush;
      exit_code = kExitJobDeleted;
      return Ok{};
    }
    if (!found.ok()) return std::move(found).error();
    std::string state = "Running";
    if (condition(*found, "Completed") != nullptr) {
      state = "Completed";
      exit_code = kExitJobCompleted;
    } else if (condition(*found, "Failed") != nullptr) {
      state = "Failed";
      exit_code = kExitJobFailed;
    } else if (const json::Value* stalled = condition(*found, "Stalled")) {
      state = "Stalled (" + std::string(stalled->string_at({"reason"})) + ": " +
              std::string(stalled->string_at({"message"})) + ")";
    }
    const std::string children = children_of(session, *found, job.ns);
    const std::string line =
        "hyperjob " + job.ns + "/" + job.name + " " + state + (children.empty() ? "" : ": " + children);
    if (line != last_line) session.out << line << "\n" << std::flush;
    last_line = line;
    return Ok{};
  }
};

}  // namespace

Result<int> follow_hyper_jobs(Session& session, const std::vector<FollowedJob>& jobs, api::Duration timeout) {
  std::vector<Followed> all;
  for (const FollowedJob& job : jobs) all.push_back({job, "", std::nullopt});
  const rt::Instant deadline =
      timeout.value > rt::Duration::zero() ? rt::saturating_add(session.runtime.now(), timeout.value) : rt::kNever;
  for (;;) {
    int code = kExitJobCompleted;
    bool is_over = true;
    for (Followed& one : all) {
      // What passes is asked again: an API server that is away for a moment ends nothing.
      if (!one.exit_code) {
        const Done looked = one.look(session);
        if (!looked.ok() && !looked.error().is_transient()) return looked.error();
      }
      is_over = is_over && one.exit_code.has_value();
      if (one.exit_code) code = std::max(code, *one.exit_code);
    }
    if (is_over) return code;
    if (session.runtime.now() >= deadline) return kExitTimeout;
    if (session.stop.wait_for(session.runtime, kPoll)) return kExitInterrupted;
  }
}

}  // namespace basalt::cli
