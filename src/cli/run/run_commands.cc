#include "cli/run/run_commands.h"

#include <algorithm>
#include <ostream>
#include <set>
#include <utility>

#include "api/gen/batch_job.h"
#include "api/gen/core_workloads.h"
#include "api/gen/scheduling_queue.h"
#include "base/strings.h"
#include "cli/cli.h"
#include "cli/client/objects.h"
#include "cli/run/hyper_follow.h"
#include "cli/run/job_progress.h"
#include "cli/run/manifests.h"

namespace basalt::cli {
namespace {

using api::batch::Job;

constexpr rt::Duration kReplaceTimeout = std::chrono::seconds(60);
constexpr rt::Duration kReplacePoll = std::chrono::milliseconds(200);
constexpr rt::Duration kQueueTimeout = std::chrono::seconds(10);
constexpr rt::Duration kQueuePoll = std::chrono::milliseconds(50);
constexpr std::string_view kFieldManager = "basalt";

struct Submitted {
  const Manifest* manifest = nullptr;
  api::ObjectKey key;
  std::string uid;
};

std::string shown_name(const Manifest& manifest, const kube::Identity& identity) {
  return base::to_lower_ascii(manifest.kind) + " " + api::ObjectKey{identity.ns, identity.name}.to_string();
}

class Submission {
 public:
  Submission(Session& session, const RunOptions& options)
      : session_(session),
        options_(options),
        deadline_(options.timeout.value.count() > 0 ? rt::saturating_add(session.runtime.now(), options.timeout.value)
                                                    : rt::kNever) {}

  // Of the whole command; kNever without --timeout.
  [[nodiscard]] rt::Instant deadline() const { return deadline_; }
  [[nodiscard]] bool is_out_of_time() const { return session_.runtime.now() >= deadline_; }

  Done submit(const Manifest& manifest) {
    if (manifest.is_job() && options_.replace && !options_.dry_run) {
      BASALT_TRY_DONE(remove_old(manifest));
    }
    if (manifest.is_job() && !options_.dry_run) wait_for_queue(manifest);
    auto created = session_.client.call(request_of(manifest, kube::Verb::Create), session_.stop);
    std::string_view deed = "created";
    if (!created.ok() && created.error().is(Reason::AlreadyExists)) {
      if (manifest.is_job()) return already_exists(manifest);
      kube::Request request = request_of(manifest, kube::Verb::Patch);
      request.name = manifest.name();
      request.patch_type = kube::PatchType::Merge;
      created = session_.client.call(request, session_.stop);
      deed = "configured";
    }
    if (!created.ok()) return created.error().with_context(manifest.place);
    for (const std::string& warning : created->warnings) session_.err << "Warning: " << warning << "\n";
    BASALT_TRY(const kube::Identity identity, kube::identity_of(*created->body));
    session_.out << shown_name(manifest, identity) << " " << deed << (options_.dry_run ? " (dry run)" : "") << "\n"
                 << std::flush;
    submitted_.push_back({&manifest, {identity.ns, identity.name}, identity.uid});
    if (manifest.kind == "Queue") fresh_queues_.insert(identity.name);
    return Ok{};
  }

  [[nodiscard]] std::vector<FollowedJob> jobs() const {
    std::vector<FollowedJob> jobs;
    for (const Submitted& one : submitted_) {
      if (one.manifest->is_job()) jobs.push_back({one.key.ns, one.key.name, one.uid});
    }
    return jobs;
  }

  [[nodiscard]] std::vector<FollowedJob> hyper_jobs() const {
    std::vector<FollowedJob> jobs;
    for (const Submitted& one : submitted_) {
      if (one.manifest->kind == "HyperJob") jobs.push_back({one.key.ns, one.key.name, one.uid});
    }
    return jobs;
  }

  // What was created, the last first. Goes on after failures and returns the first.
  Done remove_all() {
    Done result = Ok{};
    for (auto one = submitted_.rbegin(); one != submitted_.rend(); ++one) {
      auto removed =
          kube::delete_object(session_.client, one->manifest->resource, one->key,
                              {.uid = one->uid, .propagation = kube::Propagation::Background}, session_.stop);
      if (!removed.ok()) {
        if (result.ok()) result = removed.error().with_context("cannot delete " + one->key.to_string());
        continue;
      }
      session_.out << base::to_lower_ascii(one->manifest->kind) << " " << one->key.to_string() << " deleted\n";
    }
    return result;
  }

 private:
  [[nodiscard]] kube::Request request_of(const Manifest& manifest, kube::Verb verb) const {
    kube::Request request;
    request.verb = verb;
    request.resource = manifest.resource;
    request.ns = manifest.object.string_at({"metadata", "namespace"});
    request.body = manifest.object.to_text();
    request.field_manager = kFieldManager;
    request.field_validation = "Strict";  // a misspelt field shall not be dropped in silence
    request.dry_run = options_.dry_run;
    return request;
  }

  // A queue of the same file is open as soon as its controller has seen it; admission refuses jobs before.
  void wait_for_queue(const Manifest& manifest) {
    const std::string queue(manifest.object.string_at({"spec", "queue"}));
    if (fresh_queues_.erase(queue) == 0) return;
    const rt::Instant deadline = std::min(deadline_, rt::saturating_add(session_.runtime.now(), kQueueTimeout));
    while (session_.runtime.now() < deadline) {
      const auto found = get_object<api::scheduling::Queue>(session_, {"", queue});
      if (!found.ok() || !found->object.status.state.empty()) return;  // the server has the last word
      if (session_.stop.wait_for(session_.runtime, kQueuePoll)) return;
    }
  }

  Error already_exists(const Manifest& manifest) {
    const api::ObjectKey key{std::string(manifest.object.string_at({"metadata", "namespace"})), manifest.name()};
    std::string phase = "unknown";
    if (const auto job = get_object<Job>(session_, key); job.ok()) phase = job->object.status.state.phase;
    return Error::make(Reason::AlreadyExists,
                       manifest.place + ": job " + key.to_string() + " exists already, its phase is " + phase +
                           ". 'basalt watch " + key.name + " -n " + key.ns +
                           "' follows it; --replace deletes it first; metadata.generateName makes new names.");
  }

  Done remove_old(const Manifest& manifest) {
    const api::ObjectKey key{std::string(manifest.object.string_at({"metadata", "namespace"})),
                             std::string(manifest.object.string_at({"metadata", "name"}))};
    if (key.name.empty()) return Ok{};
    BASALT_TRY_DONE(kube::delete_object(session_.client, manifest.resource, key,
                                        {.propagation = kube::Propagation::Foreground}, session_.stop));
    const bool is_timed = deadline_ != rt::kNever;
    const rt::Instant limit = is_timed ? deadline_ : rt::saturating_add(session_.runtime.now(), kReplaceTimeout);
    for (;;) {
      const auto old = get_bytes(session_, manifest.resource, key);
      if (!old.ok() && old.error().is(Reason::NotFound)) return Ok{};
      if (!old.ok() && !old.error().is_transient()) return old.error();
      if (session_.runtime.now() >= limit) {
        return Error::make(Reason::DeadlineExceeded,
                           "the old job " + key.to_string() + " is still being deleted after " +
                               (is_timed ? options_.timeout.to_string() : "60s") +
                               ": its pods are given their time to end ('basalt tree " + key.name + " -n " + key.ns +
                               "' shows them). Nothing new was submitted for it; try again later" +
                               (is_timed ? ", or with a longer --timeout." : "."));
      }
      const rt::Duration pause = std::min(kReplacePoll, limit - session_.runtime.now());
      if (session_.stop.wait_for(session_.runtime, std::max(pause, rt::Duration::zero())))
        return Error::make(Reason::Cancelled, "interrupted");
    }
  }

  Session& session_;
  const RunOptions& options_;
  const rt::Instant deadline_;
  std::vector<Submitted> submitted_;
  std::set<std::string> fresh_queues_;  // created or changed by this run, not known to be open
};

// Every priority class that a job names, with its place.
std::vector<std::pair<std::string, std::string>> named_priorities(const Manifest& manifest) {
  std::vector<std::pair<std::string, std::string>> named;
  const auto add = [&](std::string_view name, const std::string& field) {
    if (!name.empty()) named.emplace_back(std::string(name), manifest.place + ": " + field);
  };
  add(manifest.object.string_at({"spec", "priorityClassName"}), "spec.priorityClassName");
  const json::Value* tasks = manifest.object.find_path({"spec", "tasks"});
  if (tasks == nullptr || !tasks->is_array()) return named;
  for (std::size_t i = 0; i < tasks->as_array().size(); ++i)
    add(tasks->as_array()[i].string_at({"template", "spec", "priorityClassName"}),
        "spec.tasks[" + std::to_string(i) + "].template.spec.priorityClassName");
  return named;
}

// The server takes such a job, because the class may come later, and then refuses each of its pods.
Done check_priorities(Session& session, const std::vector<Manifest>& manifests) {
  std::vector<std::pair<std::string, std::string>> named;
  std::set<std::string> known;
  for (const Manifest& manifest : manifests) {
    if (manifest.kind == "PriorityClass") known.insert(manifest.name());
    if (!manifest.is_job()) continue;
    for (auto& one : named_priorities(manifest)) named.push_back(std::move(one));
  }
  if (named.empty()) return Ok{};
  const auto classes = list_objects<api::core::PriorityClass>(session, {});
  if (!classes.ok()) return Ok{};  // who may not read them may still submit
  for (const auto& [one, bytes] : *classes) known.insert(one.metadata.name);
  std::string problems;
  for (const auto& [name, place] : named) {
    if (known.contains(name)) continue;
    const std::vector<std::string_view> candidates(known.begin(), known.end());
    problems +=
        "\n  " + place + ": there is no PriorityClass " + base::quote(name) + base::did_you_mean(name, candidates);
  }
  if (problems.empty()) return Ok{};
  return Error::invalid_input("nothing was submitted, because:" + problems + "\n  The cluster has: " +
                              base::join(std::vector<std::string>(known.begin(), known.end()), ", "));
}

int run_from_flags(CommandCall& call) {
  RunOptions options;
  bool no_logs = false;
  bool local = false;
  GoFlags flags = call.flags("Submits what a file holds and follows its jobs to their end.");
  flags.positional("[FILE...]");
  flags.repeated("filename", options.files, "YAML or JSON file, '-' for the standard input; may be repeated", "FILE",
                 'f');
  flags.text("namespace", options.ns, "namespace of objects that name none", "NAMESPACE", 'n');
  flags.truth("detach", options.detach, "submit and return at once", 'd');
  flags.duration("timeout", options.timeout, "wait and follow for at most this long in all; the job goes on");
  flags.truth("delete-after", options.delete_after, "delete what was created at the end, whatever the outcome");
  flags.truth("replace", options.replace, "delete jobs of the same names first");
  flags.truth("no-logs", no_logs, "do not show the pods' logs");
  flags.number("max-log-pods", options.log_pods_max, "pods of a job whose logs are shown");
  flags.truth("local", local, "start a cluster in this process for this run; done anyway where none is configured");
  flags.truth("dry-run", options.dry_run, "let the server check everything and keep nothing");
  flags.footer(
      "Exit codes: 0 all jobs Completed, 1 Failed (or the command failed), 2 not understood, 3 Terminated, 4 Aborted,\n"
      "5 deleted by somebody, 124 timeout, 130 interrupted. Of several jobs the first that did not complete counts.\n");
  const auto check = [&]() -> Done {
    options.logs = !no_logs;
    options.files.insert(options.files.end(), flags.words().begin(), flags.words().end());
    if (options.files.empty()) return Error::invalid_input("no file is given; try: " + call.program() + " -f job.yaml");
    if (options.log_pods_max < 0 || options.timeout.value.count() < 0)
      return Error::invalid_input("--max-log-pods and --timeout take no negative values");
    return Ok{};
  };
  return call.run_or_start(flags, local, check, [&](Session& session) -> Result<int> {
    if (session.is_local && options.detach)
      return Error::invalid_input("--detach needs a cluster that goes on: start one with 'basalt up'");
    return run_manifests(session, options);
  });
}

constexpr ClientCommand kRunCommand{"run", "submit what a file holds and follow its jobs to their end",
                                    &run_from_flags};

}  // namespace

Result<int> run_manifests(Session& session, const RunOptions& options) {
  BASALT_TRY(const std::vector<Manifest> manifests, load_manifests(session, options.files, options.ns));
  BASALT_TRY_DONE(check_priorities(session, manifests));
  Submission submission(session, options);
  for (const Manifest& manifest : manifests) {
    Done done = submission.submit(manifest);
    if (done.ok()) continue;
    if (options.delete_after && !options.dry_run) static_cast<void>(submission.remove_all());
    if (done.error().is(Reason::DeadlineExceeded) && submission.is_out_of_time()) {
      session.err << "basalt run: " << done.error().message << "\n";
      return kExitTimeout;
    }
    return std::move(done).error();
  }
  const std::vector<FollowedJob> jobs = submission.jobs();
  if (options.dry_run) return kExitOk;
  const std::vector<FollowedJob> hyper_jobs = submission.hyper_jobs();
  if (!options.detach && jobs.empty() && !hyper_jobs.empty()) {
    const Result<int> ended = follow_hyper_jobs(session, hyper_jobs, options.timeout);
    if (options.delete_after) {
      const Done removed = submission.remove_all();
      if (!removed.ok() && ended.ok()) return removed.error();
    }
    return ended;
  }
  if (options.detach || jobs.empty()) {
    for (const FollowedJob& job : jobs)
      session.out << "follow it with: basalt watch " << job.name << " -n " << job.ns << "\n";
    return kExitOk;
  }
  const Result<int> outcome = follow_jobs(session, jobs,
                                          {.logs = options.logs,
                                           .timeout = options.timeout,
                                           .deadline = submission.deadline(),
                                           .log_pods_max = static_cast<std::size_t>(options.log_pods_max),
                                           .may_delete = true});
  // After Ctrl-C the user has decided already.
  const bool was_interrupted = outcome.ok() && *outcome == kExitInterrupted;
  if (options.delete_after && !was_interrupted) {
    const Done removed = submission.remove_all();
    if (!removed.ok() && outcome.ok()) return removed.error();
  }
  return outcome;
}

const ClientCommand& run_command() { return kRunCommand; }
int run_run(Invocation& invocation) { return run_single(invocation, kRunCommand); }

}  // namespace basalt::cli
