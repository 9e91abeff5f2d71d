#include <algorithm>
#include <array>
#include <functional>
#include <ostream>
#include <utility>

#include "api/conditions.h"
#include "api/gen/core_node.h"
#include "api/gen/scheduling_queue.h"
#include "base/strings.h"
#include "cli/cli.h"
#include "cli/client/table.h"
#include "cli/inspect/inspect_commands.h"

namespace basalt::cli {
namespace {

using api::scheduling::PodGroup;
using api::scheduling::Queue;

constexpr std::size_t kObjectsRead = 2000;
constexpr std::int64_t kOverdueSeconds = 15;  // for a controller or scheduler to look at something new

enum class Verdict : std::uint8_t { Ok, Warn, Failed, Skipped };

std::string_view to_text(Verdict verdict) {
  switch (verdict) {
    case Verdict::Ok:
      return "ok";
    case Verdict::Warn:
      return "warn";
    case Verdict::Failed:
      return "failed";
    case Verdict::Skipped:
      return "skipped";
  }
  return "";
}

struct Finding {
  Verdict verdict = Verdict::Ok;
  std::string check;
  std::string text;
  std::string remedy;
};

struct KindGroup {
  std::string_view api_version;
  std::string_view plurals;  // with commas
  bool is_required;
  std::string_view what;
};
constexpr std::array kKindGroups = {
    KindGroup{"batch.volcano.sh/v1alpha1", "jobs", true, "jobs"},
    KindGroup{"bus.volcano.sh/v1alpha1", "commands", true, "suspend, resume, open and close"},
    KindGroup{"scheduling.volcano.sh/v1beta1", "queues,podgroups", true, "queues and gangs"},
    KindGroup{"batch.volcano.sh/v1alpha1", "cronjobs", false, "jobs on a schedule"},
    KindGroup{"flow.volcano.sh/v1alpha1", "jobflows,jobtemplates", false, "flows of jobs"},
    KindGroup{"shard.volcano.sh/v1alpha1", "nodeshards", false, "sharding"},
};

struct Permission {
  std::string_view verb;
  std::string_view group;
  std::string_view resource;
  std::string_view subresource;
  bool is_namespaced;
};
constexpr std::array kPermissions = {
    Permission{"create", "batch.volcano.sh", "jobs", "", true},
    Permission{"list", "batch.volcano.sh", "jobs", "", true},
    Permission{"watch", "batch.volcano.sh", "jobs", "", true},
    Permission{"delete", "batch.volcano.sh", "jobs", "", true},
    Permission{"create", "bus.volcano.sh", "commands", "", true},
    Permission{"list", "scheduling.volcano.sh", "podgroups", "", true},
    Permission{"list", "scheduling.volcano.sh", "queues", "", false},
    Permission{"list", "", "pods", "", true},
    Permission{"get", "", "pods", "log", true},
    Permission{"list", "", "events", "", true},
    Permission{"list", "", "nodes", "", false},
};

// A job that admission must refuse: it asks for more pods at once than it has.
constexpr std::string_view kImpossibleJob = R"({"apiVersion":"batch.volcano.sh/v1alpha1","kind":"Job",
"metadata":{"generateName":"basalt-doctor-"},"spec":{"minAvailable":2,"schedulerName":"volcano","tasks":[{"name":"a",
"replicas":1,"template":{"spec":{"containers":[{"name":"a","image":"a"}],"restartPolicy":"Never"}}}]}})";

class Doctor {
 public:
  Doctor(Session& session, std::string ns) : session_(session), ns_(std::move(ns)) {}

  std::vector<Finding> run() {
    if (!check_server()) return std::move(findings_);
    if (check_kinds()) {
      check_admission();
      check_queue();
      check_controllers();
      check_scheduler();
    }
    check_nodes();
    check_permissions();
    return std::move(findings_);
  }

 private:
  void add(Verdict verdict, std::string_view check, std::string text, std::string remedy = {}) {
    findings_.push_back({verdict, std::string(check), std::move(text), std::move(remedy)});
  }
  void add_error(std::string_view check, const Error& error) {
    add(error.is(Reason::Forbidden) ? Verdict::Skipped : Verdict::Failed, check, error.message, hint_for(error));
  }

  bool check_server() {
    const auto answer = session_.raw.get("/version", session_.stop);
    const std::string place = session_.server + (session_.context.empty() ? "" : " (context " + session_.context + ")");
    if (!answer.ok()) {
      add(Verdict::Failed, "server", place + ": " + answer.error().message, hint_for(answer.error()));
      return false;
    }
    const auto value = json::Value::parse(*answer);
    const std::string version(value.ok() ? value->string_at({"gitVersion"}) : "");
    add(Verdict::Ok, "server", place + (version.empty() ? "" : ", Kubernetes " + version));
    if (const std::string problem = server_problem(session_, session_.stop); !problem.empty())
      add(Verdict::Failed, "ready", "the server says of itself: " + problem);
    return true;
  }

  bool has_kind(const KindGroup& group, std::string_view plural) {
    const auto answer = session_.raw.get("/apis/" + std::string(group.api_version), session_.stop);
    if (!answer.ok()) return false;
    const auto value = json::Value::parse(*answer);
    const json::Value* resources = value.ok() ? value->find("resources") : nullptr;
    if (resources == nullptr || !resources->is_array()) return false;
    const auto& list = resources->as_array();
    return std::any_of(list.begin(), list.end(),
                       [plural](const json::Value& one) { return one.string_at({"name"}) == plural; });
  }

  bool check_kinds() {
    bool all_required = true;
    std::vector<std::string> found;
    for (const KindGroup& group : kKindGroups) {
      for (const std::string_view plural : base::split(group.plurals, ',')) {
        if (has_kind(group, plural)) {
          found.emplace_back(plural);
          continue;
        }
        all_required = all_required && !group.is_required;
        add(group.is_required ? Verdict::Failed : Verdict::Warn, "kinds",
            std::string(plural) + " of " + std::string(group.api_version) + " are not known to the server (" +
                std::string(group.what) + ")",
            group.is_required ? "install the CRDs: kubectl apply --server-side -f deploy/crds" : "");
      }
    }
    if (!found.empty()) add(Verdict::Ok, "kinds", base::join(found, ", "));
    return all_required;
  }

  void check_admission() {
    kube::Request request{.verb = kube::Verb::Create,
                          .resource = kube::resource_of<api::batch::Job>(),
                          .ns = ns_,
                          .body = std::string(kImpossibleJob),
                          .dry_run = true};
    const auto answer = session_.client.call(request, session_.stop);
    if (answer.ok()) {
      add(Verdict::Warn, "admission",
          "the server takes a job that can never start: nobody checks jobs or fills in defaults",
          "run 'basalt webhooks' (or vc-webhook-manager) and install its webhook configurations");
    } else if (answer.error().is(Reason::Forbidden) &&
               answer.error().message.find("cannot create") != std::string::npos) {
      add(Verdict::Skipped, "admission", answer.error().message);
    } else if (answer.error().is_transient() || answer.error().is(Reason::InternalError)) {
      add(Verdict::Failed, "admission", answer.error().message,
          "a webhook is registered but does not answer: is the admission server up?");
    } else {
      add(Verdict::Ok, "admission", "a job that can never start is refused");
    }
  }

  void check_queue() {
    const auto queue = get_bytes(session_, kube::resource_of<Queue>(), {"", "default"});
    if (!queue.ok()) {
      if (!queue.error().is(Reason::NotFound)) return add_error("queue", queue.error());
      return add(Verdict::Failed, "queue", "there is no queue \"default\", where jobs go that name none",
                 "the scheduler or the controllers create it: are they running? Or: basalt queue create -n default");
    }
    const auto value = json::Value::parse(**queue);
    const std::string state(value.ok() ? value->string_at({"status", "state"}) : "");
    if (state == "Open") return add(Verdict::Ok, "queue", "the queue \"default\" is open");
    add(Verdict::Warn, "queue", "the queue \"default\" is " + (state.empty() ? "without a state" : state),
        state.empty() ? "the queue controller writes it: is it running?" : "basalt queue operate -a open -n default");
  }

  template <class T>
  void check_seen(std::string_view check, std::string_view noun, std::string_view who, std::string_view how,
                  const std::function<bool(const T&)>& is_seen) {
    const auto objects = list_objects<T>(session_, {.items_max = kObjectsRead});
    if (!objects.ok()) return add_error(check, objects.error());
    const auto now =
        std::chrono::duration_cast<std::chrono::seconds>(session_.runtime.wall_now().time_since_epoch()).count();
    std::size_t overdue = 0;
    std::size_t seen = 0;
    std::string example;
    for (const auto& [object, bytes] : *objects) {
      if (is_seen(object)) {
        ++seen;
      } else if (now - object.metadata.creation_timestamp.unix_seconds() > kOverdueSeconds) {
        if (overdue++ == 0) example = object.metadata.namespace_ + "/" + object.metadata.name;
      }
    }
    if (overdue > 0) {
      add(Verdict::Failed, check,
          std::to_string(overdue) + " " + std::string(noun) + " have waited for longer than " +
              std::to_string(kOverdueSeconds) + " s without being looked at, such as " + example,
          std::string(who) + " does not seem to run: " + std::string(how));
    } else {
      add(Verdict::Ok, check,
          seen == 0 ? "there are no " + std::string(noun) + " that could be waiting"
                    : std::to_string(seen) + " " + std::string(noun) + " have been looked at, none waits for it");
    }
  }

  void check_controllers() {
    check_seen<api::batch::Job>("controllers", "jobs", "the controller manager", "'basalt controllers' starts it",
                                [](const auto& job) { return !job.status.state.phase.empty(); });
  }

  void check_scheduler() {
    check_seen<PodGroup>("scheduler", "pod groups", "the scheduler", "'basalt scheduler' starts one",
                         [](const auto& group) { return !group.status.phase.empty(); });
  }

  // The first taint that keeps ordinary pods away; "" if there is none.
  static std::string closing_taint(const api::core::Node& node) {
    for (const auto& taint : node.spec.taints) {
      if (taint.effect != "PreferNoSchedule")
        return taint.key + (taint.value.empty() ? "" : "=" + taint.value) + ":" + taint.effect;
    }
    return "";
  }

  void check_nodes() {
    const auto nodes = list_objects<api::core::Node>(session_, {.items_max = kObjectsRead});
    if (!nodes.ok()) return add_error("nodes", nodes.error());
    if (nodes->empty())
      return add(Verdict::Failed, "nodes", "there are no nodes", "'basalt node' makes this machine one");
    std::size_t taking = 0;
    std::size_t tainted = 0;
    std::string bad;
    std::string taint;
    for (const auto& [node, bytes] : *nodes) {
      const bool is_ready = api::is_condition_true(node.status.conditions, "Ready");
      const std::string closing = closing_taint(node);
      if (is_ready && !node.spec.unschedulable && closing.empty()) {
        ++taking;
        continue;
      }
      if (!closing.empty() && is_ready) ++tainted;
      if (taint.empty() && is_ready && !closing.empty()) taint = node.metadata.name + " has the taint " + closing;
      if (bad.empty())
        bad = node.metadata.name + (!is_ready                 ? " is not Ready"
                                    : node.spec.unschedulable ? " is unschedulable (cordoned)"
                                                              : " has the taint " + closing);
    }
    const std::string text = std::to_string(taking) + " of " + std::to_string(nodes->size()) + " nodes take pods";
    if (taking == nodes->size()) return add(Verdict::Ok, "nodes", text);
    if (taking > 0) return add(Verdict::Warn, "nodes", text + "; one that does not: " + bad);
    if (tainted > 0)
      return add(Verdict::Warn, "nodes", "only pods that tolerate their taints are placed: " + taint,
                 "kubectl taint nodes NAME KEY- takes a taint away");
    add(Verdict::Failed, "nodes", text + ": " + bad, "'basalt top nodes' lists them");
  }

  void check_permissions() {
    std::vector<std::string> missing;
    for (const Permission& permission : kPermissions) {
      json::Object attributes{
          {"verb", permission.verb}, {"group", permission.group}, {"resource", permission.resource}};
      if (!permission.subresource.empty()) attributes.set("subresource", permission.subresource);
      if (permission.is_namespaced) attributes.set("namespace", ns_);
      const json::Value review = json::Object{{"apiVersion", "authorization.k8s.io/v1"},
                                              {"kind", "SelfSubjectAccessReview"},
                                              {"spec", json::Object{{"resourceAttributes", std::move(attributes)}}}};
      const auto answer = session_.client.call({.verb = kube::Verb::Create,
                                                .resource = {"authorization.k8s.io", "v1", "selfsubjectaccessreviews"},
                                                .body = review.to_text()},
                                               session_.stop);
      if (!answer.ok()) {
        return add(Verdict::Skipped, "permissions", "the server answers no questions about them");
      }
      const auto value = json::Value::parse(*answer->body);
      const json::Value* allowed = value.ok() ? value->find_path({"status", "allowed"}) : nullptr;
      if (allowed != nullptr && allowed->is_bool() && allowed->as_bool()) continue;
      missing.push_back(std::string(permission.verb) + " " + std::string(permission.resource) +
                        (permission.subresource.empty() ? "" : "/" + std::string(permission.subresource)));
    }
    if (missing.empty()) {
      add(Verdict::Ok, "permissions", "all that these commands need in namespace \"" + ns_ + "\"");
    } else {
      add(Verdict::Warn, "permissions", "in namespace \"" + ns_ + "\" you may not " + base::join(missing, ", "),
          "ask for a role with them");
    }
  }

  Session& session_;
  const std::string ns_;
  std::vector<Finding> findings_;
};

Colour colour_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::Ok:
      return Colour::Green;
    case Verdict::Warn:
      return Colour::Yellow;
    case Verdict::Failed:
      return Colour::Red;
    case Verdict::Skipped:
      return Colour::Faint;
  }
  return Colour::Plain;
}

void print_findings(Session& session, const std::vector<Finding>& findings) {
  const Terminal terminal = session.host.terminal();
  for (const Finding& finding : findings) {
    session.out << paint(terminal, colour_of(finding.verdict), pad(to_text(finding.verdict), 9))
                << pad(finding.check, 13) << base::escape_controls(finding.text) << "\n";
    if (!finding.remedy.empty()) session.out << std::string(22, ' ') << finding.remedy << "\n";
  }
}

int doctor_from_flags(CommandCall& call) {
  std::string ns;
  std::string output;
  GoFlags flags =
      call.flags("Checks the cluster: server, kinds, admission, queue, controllers, scheduler, nodes, permissions.");
  add_namespace_flag(flags, ns, "jobs that you mean to run");
  add_value_output_flag(flags, output);
  flags.footer("Exit codes: 0 nothing failed, 1 something did.\n");
  return call.run(flags, [&](Session& session) -> Result<int> {
    const std::vector<Finding> findings = Doctor(session, ns.empty() ? session.ns : ns).run();
    if (session.stop.stop_requested()) return Error::make(Reason::Cancelled, "interrupted");
    if (output.empty()) {
      print_findings(session, findings);
    } else {
      json::Array values;
      for (const Finding& finding : findings)
        values.push_back(json::Object{{"check", finding.check},
                                      {"verdict", to_text(finding.verdict)},
                                      {"text", finding.text},
                                      {"remedy", finding.remedy}});
      print_value(session.out, output, json::Object{{"findings", std::move(values)}});
    }
    const bool has_failed = std::any_of(findings.begin(), findings.end(),
                                        [](const Finding& finding) { return finding.verdict == Verdict::Failed; });
    return has_failed ? kExitFailed : kExitOk;
  });
}

constexpr ClientCommand kDoctor{"doctor", "check the cluster and what you may do there", &doctor_from_flags};

}  // namespace

const ClientCommand& doctor_command() { return kDoctor; }
int run_doctor(Invocation& invocation) { return run_single(invocation, kDoctor); }

}  // namespace basalt::cli
