#include "cli/run/job_follower.h"

#include <utility>

#include "api/conditions.h"
#include "api/gen/batch_job.h"
#include "api/gen/core_objects.h"
#include "api/gen/scheduling_podgroup.h"

namespace basalt::cli {
namespace {

constexpr rt::Duration kEventsEvery = std::chrono::seconds(1);
// A job that has not moved for this long may be waiting for the server itself.
constexpr rt::Duration kQuiet = std::chrono::seconds(3);

}  // namespace

JobFollower::JobFollower(Session& session, api::ObjectKey key, std::string uid)
    : session_(session),
      key_(std::move(key)),
      uid_(std::move(uid)),
      watch_(session, kube::resource_of<api::batch::Job>(), key_),
      begun_(session.runtime.now()),
      changed_at_(begun_),
      next_events_(begun_) {
  progress_.ns = key_.ns;
  progress_.name = key_.name;
}

Done JobFollower::poll(rt::Instant deadline, const rt::StopToken& stop) {
  if (has_ended()) return Ok{};
  BASALT_TRY(const auto change, watch_.next(deadline, stop));
  if (change) {
    ++changes_;
    changed_at_ = session_.runtime.now();
    if (change->object == nullptr) {
      is_deleted_ = true;
    } else {
      BASALT_TRY(const api::batch::Job job, json::from_text<api::batch::Job>(*change->object));
      if (uid_.empty()) uid_ = job.metadata.uid;
      if (job.metadata.uid != uid_) {
        is_deleted_ = true;
      } else {
        std::string event = std::move(progress_.newest_event);
        progress_ = progress_of(job);
        progress_.newest_event = std::move(event);
      }
    }
    if (has_ended()) ended_ = session_.runtime.now();
  }
  if (session_.runtime.now() >= next_events_) {
    look_for_events(stop);
    look_for_reason(stop);
  }
  return Ok{};
}

// The pod group knows why first; the job repeats it after a while.
void JobFollower::look_for_reason(const rt::StopToken& stop) {
  const bool is_waiting = progress_.phase.empty() || progress_.phase == api::batch::job_phase::kPending;
  if (is_waiting && session_.runtime.now() - changed_at_ >= kQuiet) {
    if (std::string problem = server_problem(session_, stop); !problem.empty()) {
      progress_.reason = "ServerNotReady";
      progress_.message = std::move(problem);
      return;
    }
  }
  if (uid_.empty() || progress_.phase != api::batch::job_phase::kPending) return;
  using api::scheduling::PodGroup;
  const auto answer = session_.client.call({.verb = kube::Verb::Get,
                                            .resource = kube::resource_of<PodGroup>(),
                                            .ns = key_.ns,
                                            .name = key_.name + "-" + uid_},
                                           stop);
  if (!answer.ok()) return;
  const auto group = json::from_text<PodGroup>(*answer->body);
  if (!group.ok()) return;
  const auto* condition =
      api::find_condition(group->status.conditions, api::scheduling::pod_group_condition_type::kUnschedulable);
  if (condition == nullptr || condition->status != "True" || condition->message.empty()) return;
  progress_.reason = condition->reason;
  progress_.message = condition->message;
}

void JobFollower::look_for_events(const rt::StopToken& stop) {
  next_events_ = rt::saturating_add(session_.runtime.now(), kEventsEvery);
  const auto page = session_.client.list({.resource = kube::resource_of<api::core::Event>(),
                                          .ns = key_.ns,
                                          .field_selector = "involvedObject.kind=Job,involvedObject.name=" + key_.name},
                                         stop);
  if (!page.ok()) return;  // events are a courtesy; the job itself is followed by the watch
  api::MicroTime newest;
  for (const kube::Bytes& bytes : page->items) {
    const auto event = json::from_text<api::core::Event>(*bytes);
    if (!event.ok() || (!uid_.empty() && !event->involved_object.uid.empty() && event->involved_object.uid != uid_))
      continue;
    api::MicroTime time = event->event_time;
    if (event->last_timestamp)
      time = api::MicroTime::from_unix_micros(event->last_timestamp.unix_seconds() * 1'000'000);
    if (time < newest) continue;
    newest = time;
    progress_.newest_event = event->reason + ": " + event->message;
  }
}

JobProgress JobFollower::progress() const {
  JobProgress progress = progress_;
  progress.elapsed = ended_.value_or(session_.runtime.now()) - begun_;
  if (is_deleted_ && !is_final(progress.phase)) progress.phase = "Deleted";
  return progress;
}

}  // namespace basalt::cli
