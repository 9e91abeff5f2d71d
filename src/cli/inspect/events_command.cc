#include <algorithm>
#include <map>
#include <ostream>
#include <set>
#include <utility>

#include "api/gen/core_objects.h"
#include "api/gen/core_pod.h"
#include "api/gen/names.h"
#include "base/sort.h"
#include "base/strings.h"
#include "cli/cli.h"
#include "cli/client/output.h"
#include "cli/client/table.h"
#include "cli/inspect/inspect_commands.h"

namespace basalt::cli {
namespace {

using api::core::Event;

constexpr rt::Duration kPollEvery = std::chrono::seconds(1);

struct EventsFlags {
  std::string name;
  std::string ns;
  std::string type;
  std::string output;
  bool all_namespaces = false;
  bool watch = false;
};

api::MicroTime time_of(const Event& event) {
  if (event.series && event.series->last_observed_time) return event.series->last_observed_time;
  if (event.last_timestamp) return api::MicroTime::from_unix_micros(event.last_timestamp.unix_seconds() * 1'000'000);
  if (event.event_time) return event.event_time;
  return api::MicroTime::from_unix_micros(event.metadata.creation_timestamp.unix_seconds() * 1'000'000);
}

// The objects of a job: events of any of them are the job's.
class Belonging {
 public:
  explicit Belonging(std::string job) : job_(std::move(job)) {}

  Done read(Session& session, const std::string& ns) {
    if (job_.empty()) return Ok{};
    const auto job = get_object<api::batch::Job>(session, {ns, job_});
    if (!job.ok()) {
      // Its events may outlive it.
      if (job.error().is(Reason::NotFound) && !uids_.empty()) return Ok{};
      return job.error();
    }
    uids_.insert(job->object.metadata.uid);
    BASALT_TRY(const auto group, find_pod_group(session, job->object));
    if (group) uids_.insert(group->object.metadata.uid);
    BASALT_TRY(const auto pods,
               list_objects<api::core::Pod>(
                   session, {.ns = ns, .label_selector = std::string(api::keys::kJobName) + "=" + job_}));
    for (const auto& [pod, bytes] : pods) uids_.insert(pod.metadata.uid);
    return Ok{};
  }

  bool holds(const Event& event) const {
    if (job_.empty()) return true;
    if (!event.involved_object.uid.empty() && uids_.contains(event.involved_object.uid)) return true;
    // Pods that are gone by now.
    return event.involved_object.kind == "Pod" && event.involved_object.name.starts_with(job_ + "-");
  }

 private:
  const std::string job_;
  std::set<std::string> uids_;
};

std::string count_of(const Event& event) {
  const std::int64_t count = event.series ? event.series->count : event.count;
  return count > 1 ? " (x" + std::to_string(count) + ")" : "";
}

class EventPages {
 public:
  EventPages(Session& session, const EventsFlags& flags)
      : session_(session),
        flags_(flags),
        ns_(flags.all_namespaces ? ""
            : flags.ns.empty()   ? session.ns
                                 : flags.ns),
        belonging_(flags.name) {}

  Result<int> run() {
    for (bool is_first = true;; is_first = false) {
      BASALT_TRY(auto events, fresh_events());
      if (is_first && !flags_.watch && prints_objects(flags_.output)) {
        std::vector<kube::Bytes> bytes;
        for (const auto& event : events) bytes.push_back(event.bytes);
        BASALT_TRY_DONE(print_objects(session_.out, flags_.output, Event::kKindInfo, bytes, true));
        return kExitOk;
      }
      if (is_first && events.empty() && !flags_.watch) {
        session_.out << "No resources found\n";
        return kExitOk;
      }
      if (!events.empty()) print(events, is_first);
      if (!flags_.watch) return kExitOk;
      session_.out << std::flush;
      if (session_.stop.wait_for(session_.runtime, kPollEvery)) return Error::make(Reason::Cancelled, "interrupted");
    }
  }

 private:
  // Those that were not shown in this state before, oldest first.
  Result<std::vector<Listed<Event>>> fresh_events() {
    BASALT_TRY_DONE(belonging_.read(session_, ns_));
    BASALT_TRY(auto events, list_objects<Event>(session_, {.ns = ns_}));
    std::erase_if(events, [this](const auto& listed) {
      const Event& event = listed.object;
      if (!flags_.type.empty() && event.type != flags_.type) return true;
      if (!belonging_.holds(event)) return true;
      std::string& shown = shown_[event.metadata.uid];
      if (shown == event.metadata.resource_version) return true;
      shown = event.metadata.resource_version;
      return false;
    });
    base::stable_sort(events, [](const auto& a, const auto& b) { return time_of(a.object) < time_of(b.object); });
    return events;
  }

  void print(const std::vector<Listed<Event>>& events, bool with_headings) {
    const Terminal terminal = session_.host.terminal();
    std::vector<std::string> headings{"AGE", "TYPE", "REASON", "OBJECT", "MESSAGE"};
    if (flags_.all_namespaces) headings.insert(headings.begin(), "NAMESPACE");
    if (flags_.output == "wide") headings.emplace_back("FROM");
    Table table(std::move(headings));
    for (const auto& [event, bytes] : events) {
      std::vector<std::string> cells{
          age_of(time_of(event).to_time(), session_.runtime.wall_now()) + count_of(event),
          event.type == "Warning" ? paint(terminal, Colour::Yellow, event.type) : event.type, event.reason,
          base::to_lower_ascii(event.involved_object.kind) + "/" + event.involved_object.name,
          std::string(base::trim(event.message))};
      if (flags_.all_namespaces) cells.insert(cells.begin(), event.metadata.namespace_);
      if (flags_.output == "wide")
        cells.push_back(event.source.component.empty() ? event.reporting_component : event.source.component);
      table.row(std::move(cells));
    }
    table.print(session_.out, terminal, {}, with_headings);
  }

  Session& session_;
  const EventsFlags& flags_;
  const std::string ns_;
  Belonging belonging_;
  std::map<std::string, std::string> shown_;  // resource version by UID
};

int events_from_flags(CommandCall& call) {
  EventsFlags values;
  GoFlags flags = call.flags("Shows events, oldest first: of a job with its pod group and pods, or of a namespace.");
  add_name_flag(flags, values.name, "job; all events of the namespace if absent");
  add_namespace_flag(flags, values.ns, "events");
  flags.truth("all-namespaces", values.all_namespaces, "events of all namespaces", 'A');
  flags.choice("type", values.type, {"Normal", "Warning"}, "only events of this type");
  flags.truth("watch", values.watch, "go on and show new ones", 'w');
  add_output_flag(flags, values.output);
  return call.run(flags, [&](Session& session) -> Result<int> {
    take_name_from_words(flags, values.name);
    if (!values.name.empty() && values.all_namespaces)
      return Error::invalid_input("a job is of one namespace: leave --all-namespaces out");
    if (values.name.starts_with("job/")) values.name.erase(0, 4);
    return EventPages(session, values).run();
  });
}

constexpr ClientCommand kEvents{"events", "events of a job or a namespace", &events_from_flags};

}  // namespace

const ClientCommand& events_command() { return kEvents; }
int run_events(Invocation& invocation) { return run_single(invocation, kEvents); }

}  // namespace basalt::cli
