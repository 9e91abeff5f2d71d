#include "controllers/job/planner_impl.h"

#include <algorithm>
#include <cctype>
#include <utility>

namespace basalt::controllers::job {

using api::batch::JobStatus;

namespace {

// "short of 1500m cpu in queue q" says the same as "short of 2 cpu in queue q".
std::string without_numbers(std::string_view text) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  std::string words;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!is_digit(text[i])) {
      words.push_back(text[i]);
      continue;
    }
    while (i + 1 < text.size() &&
           (is_digit(text[i + 1]) || text[i + 1] == '.' || std::isalpha(static_cast<unsigned char>(text[i + 1])) != 0))
      ++i;
  }
  return words;
}

}  // namespace

void Planner::record_resources(JobStatus& status) {
  const auto& scratch = plan_.build_options.empty_dir_claims;
  for (const api::batch::VolumeSpec& volume : job_.spec.volumes) {
    const std::string& claim = volume.volume_claim_name;
    const auto found = observed_.claims.find(claim);
    if (claim.empty() ? volume.volume_claim.empty()
                      : std::find(scratch.begin(), scratch.end(), claim) != scratch.end()) {
      const std::string made = claim.empty() ? volume_name(job_, volume) : claim;
      status.controlled_resources.set(std::string(records::kEmptyDirPrefix) + made, made);
    } else if (found != observed_.claims.end() && found->second.exists) {
      status.controlled_resources.set(std::string(records::kClaimPrefix) + claim, claim);
    }
  }
  if (inputs_.plugins == nullptr || plan_.plugins_hash.empty() || observed_.memory.plugins_hash != plan_.plugins_hash)
    return;
  for (const auto& plugin : inputs_.plugins->all()) {
    if (!plugin->is_recorded()) continue;
    status.controlled_resources.set(std::string(records::kPluginPrefix) + std::string(plugin->name()), plugin->name());
  }
  status.controlled_resources.set(records::kPluginHash, plan_.plugins_hash);
}

void Planner::drop_completed(JobStatus& status) {
  const api::StringMap before = status.controlled_resources;
  for (const auto [key, value] : before) {
    if (key.starts_with(records::kCompletedPrefix) || key == records::kFloor) status.controlled_resources.erase(key);
  }
}

void Planner::state_waiting(JobStatus& status) {
  // Why it restarts matters more than that its new group waits.
  if (phase_ == Phase::Restarting && waiting_ && waiting_->reason == waiting::kPodGroupPending) return;
  if (waiting_) {
    // "Not admitted yet" is no news; the scheduler's first word about it is.
    const bool is_new =
        status.state.reason != waiting_->reason || status.state.message.ends_with(waiting::kNotAdmittedYet);
    if (is_new && !waiting_->event_reason.empty())
      waiting_event_ = PlannedEvent{kube::EventType::Warning, std::string(waiting_->event_reason), waiting_->message};
    status.state.reason = std::string(waiting_->reason);
    status.state.message = waiting_->message;
  } else if (waiting::is_one(status.state.reason)) {
    status.state.reason.clear();
    status.state.message.clear();
  }
}

void Planner::write(JobStatus status) {
  finish_status(status);
  plan_.phase_changes = status.state.phase != job_.status.state.phase;
  if (plan_.phase_changes && is_terminal(phase_of(status.state.phase))) drop_completed(status);
  if (status == job_.status) {
    plan_.memory.changed.reset();
    settle_events();
    return;
  }
  // A decision is written at once; counters may gather for a moment, and texts for longer.
  const bool must =
      plan_.phase_changes || status.version != job_.status.version || !plan_.deletes.empty() || !plan_.marks.empty() ||
      (status.state.reason != job_.status.state.reason && !status.state.reason.empty()) || waiting_event_.has_value() ||
      status.retry_count != job_.status.retry_count || !command_uid_.empty();
  plan_.memory.learned = has_learned_ ? observed_.memory.learned.value_or(time_.now) : std::optional<rt::Instant>();
  if (!must) {
    plan_.memory.changed = observed_.memory.changed.value_or(time_.now);
    const rt::Instant at = due(status);
    if (at > time_.now) {
      wake(at - time_.now);
      settle_events();
      // Until they are written, the recorded counters still count pods whose end needs no answer.
      plan_.memory.vanished.insert(plan_.memory.vanished.end(), explained_.begin(), explained_.end());
      return;
    }
  }
  if (command_uid_.empty() && !command_is_present(status.controlled_resources.get(records::kCommand)))
    status.controlled_resources.erase(records::kCommand);
  plan_.memory.changed.reset();
  plan_.memory.written = time_.now;
  if (has_learned_) plan_.memory.recorded = time_.now;
  plan_.memory.learned.reset();
  if (is_reworded(status)) {
    const auto& last = observed_.memory.reworded;
    const bool is_usual = last && time_.now - *last < 2 * options_.message_interval;
    plan_.memory.rewordings = is_usual ? observed_.memory.rewordings + 1 : 1;
    plan_.memory.reworded = time_.now;
  }
  if (waiting_event_) plan_.events.push_back(*waiting_event_);
  plan_.status = std::move(status);
}

// When a difference that is no decision is to be written.
rt::Instant Planner::due(const JobStatus& status) const {
  const JobMemory& memory = observed_.memory;
  const auto after = [](const std::optional<rt::Instant>& last, rt::Duration pause) {
    return last ? *last + pause : rt::Instant{};
  };
  const rt::Instant gathered = memory.changed.value_or(time_.now) + options_.counters_delay;
  const rt::Instant counters = std::max(gathered, after(memory.written, options_.counters_interval));
  // Until it is recorded, a success is lost with its pod if this process ends.
  if (has_learned_) {
    if (is_witness_) return time_.now;
    const rt::Instant gang = memory.learned.value_or(time_.now) + options_.record_delay;
    return std::min(counters, std::max(gang, after(memory.recorded, options_.record_interval)));
  }
  JobStatus same_text = status;
  same_text.state.message = job_.status.state.message;
  const rt::Instant worded =
      std::max({gathered, after(memory.written, options_.reword_interval), after(memory.reworded, reword_pause())});
  const bool is_new_text = is_reworded(status);
  if (!(same_text == job_.status)) return is_new_text ? std::min(counters, worded) : counters;
  if (is_new_text) return worded;
  return std::max(gathered, after(memory.written, options_.message_interval));
}

// What changes all the time is no news.
rt::Duration Planner::reword_pause() const {
  constexpr int kAtOnce = 5;
  rt::Duration pause = options_.reword_interval;
  for (int i = kAtOnce; i < observed_.memory.rewordings && pause < options_.message_interval; ++i) pause *= 2;
  return std::min(pause, options_.message_interval);
}

bool Planner::is_reworded(const JobStatus& status) const {
  return without_numbers(status.state.message) != without_numbers(job_.status.state.message);
}

void Planner::settle_events() { waiting_event_.reset(); }

bool Planner::command_is_present(std::string_view uid) const {
  return std::any_of(observed_.commands.begin(), observed_.commands.end(),
                     [uid](const auto& command) { return command->metadata.uid == uid; });
}

void Planner::finish_status(JobStatus& status) {
  for (std::size_t t = 0; t < job_.spec.tasks.size(); ++t) {
    const std::string key = std::string(records::kCompletedPrefix) + job_.spec.tasks[t].name;
    const std::string text = completed_[t].to_text();
    if (text.empty()) {
      status.controlled_resources.erase(key);
    } else if (!is_terminal(phase_of(status.state.phase))) {
      status.controlled_resources.set(key, text);
    }
  }
  if (status.state.phase != api::batch::job_phase::kRestarting) status.controlled_resources.erase(records::kRestart);
  if (!command_uid_.empty()) status.controlled_resources.set(records::kCommand, command_uid_);
}

}  // namespace basalt::controllers::job
