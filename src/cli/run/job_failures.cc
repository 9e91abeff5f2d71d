#include "cli/run/job_failures.h"

#include <algorithm>
#include <utility>

#include "api/gen/core_pod.h"
#include "api/gen/names.h"
#include "base/strings.h"
#include "cli/client/objects.h"
#include "cli/client/pod_logs.h"
#include "cli/client/terminal.h"

namespace basalt::cli {
namespace {

constexpr std::size_t kPodsRead = 1000;
constexpr std::size_t kRememberedMax = 1000;  // more are left out: the first are the causes
constexpr std::size_t kToldMax = 5;
constexpr std::size_t kReported = 3;
constexpr std::size_t kLinesShown = 5;
constexpr std::size_t kLineColumns = 200;

// A pod of another job of the same name, which was deleted before.
bool is_of_another(const api::core::Pod& pod, const std::string& uid) {
  if (uid.empty()) return false;
  return std::any_of(pod.metadata.owner_references.begin(), pod.metadata.owner_references.end(),
                     [&uid](const auto& owner) { return owner.kind == "Job" && owner.uid != uid; });
}

}  // namespace

std::vector<std::string> last_log_lines(Session& session, const std::string& ns, const PodFailure& failure,
                                        std::size_t lines, const rt::StopToken& stop) {
  if (failure.container.empty()) return {};
  ContainerLog::Options options;
  options.tail_lines = static_cast<std::int64_t>(lines);
  options.previous = failure.is_restarted;
  ContainerLog log(ns, failure.pod, failure.container, options);
  auto read = log.poll(session, true, stop);
  if (!read.ok()) return {};
  if (read->size() > lines) read->erase(read->begin(), read->end() - static_cast<std::ptrdiff_t>(lines));
  for (std::string& line : *read) line = fit(base::escape_controls(line), kLineColumns);
  return std::move(*read);
}

std::string logs_command_of(const api::ObjectKey& job, const PodFailure& failure) {
  const auto shorter = base::strip_prefix(failure.pod, job.name + "-");
  return "basalt logs " + job.name + " -n " + job.ns + " --pod " + std::string(shorter ? *shorter : failure.pod) +
         (failure.is_restarted ? " --previous" : "");
}

JobFailures::JobFailures(Session& session, api::ObjectKey job) : session_(session), job_(std::move(job)) {}

void JobFailures::read(const std::string& uid, std::string_view field_selector, const rt::StopToken& stop) {
  if (stop.stop_requested()) return;
  const auto pods =
      list_objects<api::core::Pod>(session_, {.ns = job_.ns,
                                              .label_selector = std::string(api::keys::kJobName) + "=" + job_.name,
                                              .field_selector = std::string(field_selector),
                                              .items_max = kPodsRead});
  if (!pods.ok()) return;  // a courtesy: the job's outcome is known without
  for (const auto& [pod, bytes] : *pods) {
    if (is_of_another(pod, uid)) continue;
    auto failure = failure_of(pod);
    if (!failure) {
      seen_.erase(pod.metadata.uid);  // it has recovered
    } else if (seen_.size() < kRememberedMax || seen_.contains(pod.metadata.uid)) {
      seen_[pod.metadata.uid] = std::move(*failure);
    }
  }
}

std::vector<std::string> JobFailures::look(const std::string& uid, const rt::StopToken& stop) {
  read(uid, "", stop);
  std::vector<std::string> fresh;
  for (const auto& [pod_uid, failure] : seen_) {
    if (failure.is_over || told_.size() >= kToldMax) continue;
    if (told_.insert(pod_uid + "/" + failure.reason).second) fresh.push_back(failure.sentence());
  }
  return fresh;
}

std::vector<std::string> JobFailures::report(const std::string& uid, bool with_logs, const rt::StopToken& stop) {
  read(uid, "", stop);
  read(uid, "status.phase=Failed", stop);  // in a large job they may be beyond the first thousand
  std::vector<PodFailure> failures;
  for (const auto& [pod_uid, failure] : seen_) failures.push_back(failure);
  sort_failures(failures);
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < failures.size() && i < kReported; ++i) {
    lines.push_back("  " + failures[i].sentence());
    if (!with_logs) continue;
    for (const std::string& line : last_log_lines(session_, job_.ns, failures[i], kLinesShown, stop)) {
      // What the node wrote there itself is told already.
      if (failures[i].details.find(line) == std::string::npos) lines.push_back("    | " + line);
    }
  }
  if (failures.size() > kReported)
    lines.push_back("  and " + std::to_string(failures.size() - kReported) + " more pods");
  // A cluster that ends with this command answers no further questions.
  if (!failures.empty() && !session_.is_local)
    lines.push_back("  its log: " + logs_command_of(job_, failures.front()) + "   more: basalt explain " + job_.name +
                    " -n " + job_.ns);
  return lines;
}

}  // namespace basalt::cli
