#include <algorithm>
#include <array>
#include <iterator>
#include <ostream>
#include <set>
#include <utility>

#include "api/gen/core_workloads.h"
#include "api/gen/names.h"
#include "base/strings.h"
#include "cli/cli.h"
#include "cli/client/table.h"
#include "cli/inspect/explanation.h"
#include "cli/inspect/inspect_commands.h"
#include "cli/run/job_failures.h"
#include "cli/run/job_progress.h"

namespace basalt::cli {
namespace {

using api::scheduling::PodGroup;
using api::scheduling::Queue;

// So that the answer comes at once in a cluster of any size; what is beyond is told as "at least".
constexpr std::size_t kGroupsRead = 500;
constexpr std::size_t kQueuesRead = 2000;
constexpr std::size_t kNodesRead = 2000;
constexpr std::size_t kPodsRead = 1000;
constexpr std::size_t kQueueDepthMax = 32;
constexpr std::ptrdiff_t kPrioritiesAsked = 8;
constexpr std::size_t kPodsWithLines = 2;
constexpr std::size_t kLinesShown = 5;

class Gathering {
 public:
  Gathering(Session& session, bool reads_all) : session_(session), reads_all_(reads_all) {}

  Result<ExplainInput> of_job(const api::ObjectKey& key) {
    BASALT_TRY(auto listed, get_object<api::batch::Job>(session_, key));
    in_.job = std::move(listed.object);
    BASALT_TRY(auto group, find_pod_group(session_, *in_.job));
    if (group) in_.group = std::move(group->object);
    in_.queue_name = in_.job->spec.queue.empty() ? "default" : in_.job->spec.queue;
    BASALT_TRY_DONE(read_pods(key.ns, std::string(api::keys::kJobName) + "=" + key.name));
    BASALT_TRY_DONE(read_missing_priorities());
    BASALT_TRY_DONE(read_surroundings());
    return std::move(in_);
  }

  Result<ExplainInput> of_group(const api::ObjectKey& key) {
    BASALT_TRY(auto listed, get_object<PodGroup>(session_, key));
    in_.group = std::move(listed.object);
    in_.queue_name = in_.group->spec.queue.empty() ? "default" : in_.group->spec.queue;
    BASALT_TRY_DONE(read_pods(key.ns, ""));
    std::erase_if(in_.pods,
                  [&key](const auto& pod) { return pod.metadata.annotations.get(api::keys::kGroupName) != key.name; });
    BASALT_TRY_DONE(read_surroundings());
    return std::move(in_);
  }

 private:
  std::size_t limit(std::size_t usual) const { return reads_all_ ? 1'000'000 : usual; }

  Done read_pods(const std::string& ns, const std::string& selector) {
    BASALT_TRY(auto pods, list_objects<api::core::Pod>(
                              session_, {.ns = ns, .label_selector = selector, .items_max = limit(kPodsRead)}));
    for (auto& pod : pods) in_.pods.push_back(std::move(pod.object));
    return Ok{};
  }

  // Pods of a priority class that does not exist are refused one by one; the scheduler sees only that they are missing.
  Done read_missing_priorities() {
    const api::batch::Job& job = *in_.job;
    if (is_final(job.status.state.phase) || in_.pods.size() >= static_cast<std::size_t>(job.spec.min_available))
      return Ok{};
    std::set<std::string> names = {job.spec.priority_class_name};
    for (const auto& task : job.spec.tasks) {
      const auto pod_template = json::Value::parse(task.template_.text());
      if (pod_template.ok()) names.emplace(pod_template->string_at({"spec", "priorityClassName"}));
    }
    names.erase("");
    if (std::ssize(names) > kPrioritiesAsked) names.erase(std::next(names.begin(), kPrioritiesAsked), names.end());
    for (const std::string& name : names) {
      const auto found = get_bytes(session_, kube::resource_of<api::core::PriorityClass>(), {"", name});
      if (!found.ok() && found.error().is(Reason::NotFound)) in_.missing_priorities.push_back(name);
    }
    return in_.missing_priorities.empty() ? Done(Ok{}) : read_priorities();
  }

  Done read_priorities() {
    BASALT_TRY(auto classes, list_if_allowed<api::core::PriorityClass>({.items_max = kQueuesRead}));
    if (classes) {
      for (const auto& [priority, bytes] : *classes) in_.priorities[priority.metadata.name] = priority.value;
    }
    return Ok{};
  }

  // Nothing if the user may not see them: the explanation says what can be said without.
  template <class T>
  Result<std::optional<std::vector<Listed<T>>>> list_if_allowed(const ListOptions& options) {
    using Objects = std::optional<std::vector<Listed<T>>>;
    auto objects = list_objects<T>(session_, options);
    if (objects.ok()) return Objects(std::move(*objects));
    if (objects.error().is(Reason::Forbidden)) return Objects();
    return std::move(objects).error();
  }

  Done read_surroundings() {
    in_.now = session_.runtime.wall_now();
    if (in_.job && is_final(in_.job->status.state.phase)) return Ok{};
    in_.server_problem = server_problem(session_, session_.stop);
    BASALT_TRY(auto queues, list_if_allowed<Queue>({.items_max = limit(kQueuesRead)}));
    in_.knows_queues = queues.has_value();
    if (queues) read_queues(*queues);
    // The scheduler's own word, with numbers, costs one read however large the cluster is.
    if (!reads_all_ && in_.group && is_explained_by_scheduler(*in_.group)) {
      in_.groups_are_cut = true;
      return Ok{};
    }
    BASALT_TRY(auto groups,
               list_if_allowed<PodGroup>({.items_max = limit(kGroupsRead), .is_cut = &in_.groups_are_cut}));
    in_.groups_are_cut = in_.groups_are_cut || !groups;
    if (groups) {
      for (auto& group : *groups) in_.other_groups.push_back(std::move(group.object));
    }
    bool nodes_are_cut = false;
    BASALT_TRY(auto nodes,
               list_if_allowed<api::core::Node>({.items_max = limit(kNodesRead), .is_cut = &nodes_are_cut}));
    // A part of the nodes would say too little room.
    if (nodes && !nodes_are_cut) {
      for (auto& node : *nodes) in_.nodes.push_back(std::move(node.object));
    }
    return read_priorities();
  }

  void read_queues(const std::vector<Listed<Queue>>& queues) {
    const auto find = [&queues](std::string_view name) -> const Queue* {
      for (const auto& [queue, bytes] : queues) {
        if (queue.metadata.name == name) return &queue;
      }
      return nullptr;
    };
    std::string name = in_.queue_name;
    while (in_.queues.size() < kQueueDepthMax) {
      const Queue* queue = find(name);
      if (queue == nullptr) break;
      in_.queues.push_back(*queue);
      if (queue->spec.parent.empty() || queue->spec.parent == name) break;
      name = queue->spec.parent;
    }
    // The root knows all that is in use, if the scheduler writes it; else the queues below it do.
    api::ResourceList sum;
    for (const auto& [queue, bytes] : queues) {
      if (queue.metadata.name == "root") continue;
      if (queue.spec.parent.empty() || queue.spec.parent == "root") sum += queue.status.allocated;
    }
    in_.in_use = sum;
    if (const Queue* root = find("root"); root != nullptr) in_.in_use.raise_to(root->status.allocated);
  }

  Session& session_;
  const bool reads_all_;
  ExplainInput in_;
};

class Printer {
 public:
  Printer(Session& session, const Explanation& e)
      : out_(session.out), terminal_(session.host.terminal()), now_(session.runtime.wall_now()), e_(e) {}

  void print() {
    print_head();
    print_reason();
    if (e_.is_waiting) print_waiting();
    for (const std::string& text : e_.dependencies) out_ << "  " << text << "\n";
    print_pods();
    if (!e_.remedies.empty()) {
      heading("What helps");
      for (const std::string& text : e_.remedies) line("  - " + text, "    ");
    }
  }

 private:
  // A line of text, broken where the terminal ends.
  void line(std::string_view text, std::string_view indent = "  ") {
    out_ << wrap(text, terminal_.width, indent) << "\n";
  }
  void heading(std::string_view text) { out_ << "\n" << paint(terminal_, Colour::Bold, text) << "\n"; }

  void print_head() {
    const std::string phase = e_.phase.empty() ? "not seen yet" : e_.phase;
    out_ << paint(terminal_, Colour::Bold, e_.subject) << ": " << paint(terminal_, colour_of_phase(e_.phase), phase);
    if (e_.since) out_ << " for " << age_of(e_.since, now_);
    if (!e_.is_waiting && !e_.is_over) out_ << "; nothing holds it";
    out_ << "\n";
  }

  void print_reason() {
    if (e_.reason.empty() && e_.message.empty()) return;
    heading(e_.is_waiting ? "It waits because" : "Because");
    if (!e_.reason.empty()) {
      out_ << "  " << paint(terminal_, Colour::Yellow, e_.reason);
      if (e_.reason_since) out_ << " (" << age_of(e_.reason_since, now_) << ")";
      out_ << "\n";
    }
    if (!e_.message.empty()) line("  " + base::escape_controls(e_.message));
  }

  void print_waiting() {
    heading("Gang");
    const auto count = [](std::int64_t number) { return std::to_string(number); };
    const std::string needs =
        e_.min_member == 1 ? "1 pod must start" : count(e_.min_member) + " pods must start together";
    line("  " + needs + "; " + count(e_.pods_existing) + (e_.pods_existing == 1 ? " exists, " : " exist, ") +
         count(e_.pods_placed) + (e_.pods_placed == 1 ? " is placed" : " are placed"));
    if (e_.fitted > 0) out_ << "  room was found for " << e_.fitted << "\n";
    print_shortages();
    for (const Gate& gate : e_.gates) {
      heading("Room in the " + gate.name);
      Table table({"RESOURCE", "REQUESTED", "IN USE", "LIMIT", "FREE", "SHORT"});
      for (const GateLine& line : gate.lines) {
        const bool lacks = !line.lacking().is_zero();
        table.row({line.resource, line.requested.to_string(), line.in_use.to_string(), line.limit.to_string(),
                   line.free().to_string(),
                   lacks ? paint(terminal_, Colour::Red, line.lacking().to_string()) : std::string("-")});
      }
      table.print(out_, terminal_, "  ");
    }
    if (e_.position == 0) return;
    heading("Place in the queue \"" + e_.queue + "\"");
    const std::string_view least = e_.position_is_a_minimum ? "at least " : e_.position_is_rough ? "about " : "";
    out_ << "  " << least << e_.position << " of " << least << e_.waiting_in_queue << " that wait\n";
    for (const Waiting& one : e_.ahead) {
      out_ << "  ahead: " << one.name;
      if (one.priority) out_ << " (priority " << *one.priority << ", waits " << age_of(one.since, now_) << ")";
      out_ << "\n";
    }
    if (e_.position > e_.ahead.size() + 1) out_ << "  ahead: " << e_.position - 1 - e_.ahead.size() << " more\n";
  }

  void print_shortages() {
    if (e_.shortages.empty()) return;
    heading("What is short");
    Table table({"RESOURCE", "REQUESTED", "FREE", "SHORT"});
    for (const Shortage& one : e_.shortages)
      table.row({one.resource, one.requested, one.free, paint(terminal_, Colour::Red, one.lacking)});
    table.print(out_, terminal_, "  ");
    if (!e_.holder.empty()) out_ << "  most of it is held by " << e_.holder << "\n";
  }

  void print_pods() {
    if (e_.pod_problems.empty()) return;
    heading("Pods");
    for (const PodProblem& pod : e_.pod_problems) {
      const PodFailure& failure = pod.failure;
      out_ << "  " << failure.pod << (failure.task.empty() ? "" : " (task " + failure.task + ")") << "  "
           << paint(terminal_, Colour::Red, failure.reason) << "\n";
      if (!failure.details.empty()) line("    " + base::escape_controls(failure.details), "    ");
      for (const std::string& line : pod.last_lines)
        out_ << paint(terminal_, Colour::Faint, fit("    | " + line, terminal_.width)) << "\n";
    }
    if (e_.pod_problems_more > 0) out_ << "  and " << e_.pod_problems_more << " more\n";
  }

  std::ostream& out_;
  const Terminal terminal_;
  const rt::WallTime now_;
  const Explanation& e_;
};

// What the first pods in trouble wrote last.
void read_last_lines(Session& session, const std::string& ns, Explanation& explanation) {
  for (std::size_t i = 0; i < explanation.pod_problems.size() && i < kPodsWithLines; ++i) {
    PodProblem& problem = explanation.pod_problems[i];
    problem.last_lines = last_log_lines(session, ns, problem.failure, kLinesShown, session.stop);
    // What the node wrote there itself is told already.
    std::erase_if(problem.last_lines, [&problem](const std::string& line) {
      return problem.failure.details.find(line) != std::string::npos;
    });
  }
}

int explain_job(CommandCall& call) {
  std::string name;
  std::string ns;
  std::string output;
  bool reads_all = false;
  GoFlags flags = call.flags("Says why a job (or podgroup/NAME) waits, what it lacks, who is ahead and what helps.");
  add_name_flag(flags, name, "job");
  add_namespace_flag(flags, ns, "job");
  flags.truth("all", reads_all, "read every pod group and node, however many there are, for exact numbers");
  add_value_output_flag(flags, output);
  return call.run(flags, [&](Session& session) -> Result<int> {
    BASALT_TRY(const api::ObjectKey key, job_key(flags, name, ns, session));
    Gathering gathering(session, reads_all);
    const auto group = base::strip_prefix(key.name, "podgroup/");
    BASALT_TRY(const ExplainInput input,
               group ? gathering.of_group({key.ns, std::string(*group)}) : gathering.of_job(key));
    Explanation explanation = explain(input);
    read_last_lines(session, key.ns, explanation);
    if (!output.empty()) {
      print_value(session.out, output, to_json(explanation));
    } else {
      Printer(session, explanation).print();
    }
    return kExitOk;
  });
}

constexpr ClientCommand kExplain{"explain", "why a job waits, and what helps", &explain_job};

}  // namespace

const ClientCommand& explain_command() { return kExplain; }
int run_explain(Invocation& invocation) { return run_single(invocation, kExplain); }

}  // namespace basalt::cli
