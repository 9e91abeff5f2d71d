#include <algorithm>
#include <array>
#include <ostream>

#include "api/gen/batch_job.h"
#include "api/gen/core_container.h"
#include "api/gen/core_pod.h"
#include "base/sort.h"
#include "base/strings.h"
#include "cli/cli.h"
#include "cli/client/objects.h"
#include "cli/client/output.h"
#include "cli/client/table.h"
#include "cli/job/job_actions.h"

// `job view`: the layout of vcctl, line by line, because people parse it.

namespace basalt::cli {
namespace {

using api::batch::Job;

class Page {
 public:
  explicit Page(std::ostream& out) : out_(out) {}
  void title(int level, std::string_view text) { out_ << std::string(2 * level, ' ') << text << "\n"; }
  void line(int level, std::string_view label, std::string_view value) {
    out_ << std::string(2 * level, ' ') << label << "\t" << value << "\n";
  }
  void number_if_positive(int level, std::string_view label, std::int64_t value) {
    if (value > 0) line(level, label, std::to_string(value));
  }

 private:
  std::ostream& out_;
};

std::string map_text(const api::StringMap& map) {
  if (map.empty()) return "<none>";
  json::Object object;
  for (const auto& [key, value] : map) object.set(key, value);
  return json::Value(std::move(object)).to_text();
}

std::string arguments_text(const Job& job, const std::string& plugin) {
  const auto found = job.spec.plugins.find(plugin);
  return found == job.spec.plugins.end() ? "[]" : "[" + base::join(found->second, " ") + "]";
}

std::string amount(const api::ResourceList& resources, std::string_view name) {
  const api::Quantity* quantity = resources.find(name);
  return quantity == nullptr ? "0" : quantity->to_string();
}

void print_container(Page& page, const api::core::Container& container) {
  page.title(5, "Command:");
  for (const std::string& word : container.command) page.title(6, word);
  page.line(5, "Image:", container.image);
  page.line(5, "Name: ", container.name);
  page.title(5, "Ports:");
  for (const auto& port : container.ports) {
    page.line(6, "Container Port:", std::to_string(port.container_port));
    page.line(6, "Name:          ", port.name);
  }
  page.title(5, "Resources:");
  page.title(6, "Limits:");
  page.line(7, "Cpu:   ", amount(container.resources.limits, "cpu"));
  page.line(7, "Memory:", amount(container.resources.limits, "memory"));
  page.title(6, "Requests:");
  page.line(7, "Cpu:   ", amount(container.resources.requests, "cpu"));
  page.line(7, "Memory:", amount(container.resources.requests, "memory"));
  page.line(6, "Working Dir:", container.working_dir);
}

Done print_task(Page& page, const api::batch::TaskSpec& task) {
  api::core::PodTemplateSpec pod;
  if (!task.template_.empty()) {
    BASALT_TRY(pod, json::from_text<api::core::PodTemplateSpec>(task.template_.text()));
  }
  page.line(2, "Name:", task.name);
  page.line(2, "Replicas:", std::to_string(task.replicas));
  page.title(2, "Template:");
  page.title(3, "Metadata:");
  page.title(4, "Annotations:");
  const api::StringMap& annotations = pod.metadata.annotations;
  page.line(5, "Cri . Cci . Io / Container - Type:          ", annotations.get("cri.cci.io/container-type"));
  page.line(5, "Kubernetes . Io / Availablezone:            ", annotations.get("kubernetes.io/availablezone"));
  page.line(5, "Network . Alpha . Kubernetes . Io / Network:", annotations.get("network.alpha.kubernetes.io/network"));
  page.line(4, "Creation Timestamp:", go_time(pod.metadata.creation_timestamp));
  page.title(3, "Spec:");
  page.title(4, "Containers:");
  for (const auto& container : pod.spec.containers) print_container(page, container);
  page.title(4, "Image Pull Secrets:");
  for (const auto& secret : pod.spec.image_pull_secrets) page.line(5, "Name:     ", secret.name);
  page.line(4, "Restart Policy:   ", pod.spec.restart_policy);
  return Ok{};
}

void print_status(Page& page, std::ostream& out, const Job& job, bool with_conditions) {
  const auto& status = job.status;
  page.title(0, "Status:");
  page.number_if_positive(1, "Succeeded:    ", status.succeeded);
  page.number_if_positive(1, "Pending:      ", status.pending);
  page.number_if_positive(1, "Running:      ", status.running);
  page.number_if_positive(1, "Failed:       ", status.failed);
  page.number_if_positive(1, "Terminating:  ", status.terminating);
  page.number_if_positive(1, "Unknown:      ", status.unknown_count);
  page.number_if_positive(1, "RetryCount:   ", status.retry_count);
  page.number_if_positive(1, "Min Available:", status.min_available);
  page.number_if_positive(1, "Version:      ", status.version);
  page.title(1, "State:");
  page.line(2, "Phase:", status.state.phase);
  if (!status.controlled_resources.empty()) {
    page.title(1, "Controlled Resources:");
    for (const auto& [key, value] : status.controlled_resources) page.line(2, std::string(key) + ": ", value);
  }
  if (with_conditions && !status.conditions.empty()) {
    page.title(1, "Conditions:");
    out << "    Status\tTransitionTime\n";
    for (const auto& condition : status.conditions)
      out << "    " << condition.status << " \t" << go_time(condition.last_transition_time) << " \n";
  }
}

void print_events(Session& session, const Job& job) {
  auto events = list_objects<api::core::Event>(session, {.ns = job.metadata.namespace_});
  if (!events.ok()) {
    session.err << "Failed to list events: " << events.error().message << "\n";
    session.out << "Events: \t<none>\n";
    return;
  }
  const std::string prefix = job.metadata.name + ".";
  std::erase_if(*events, [&prefix](const auto& event) { return !event.object.metadata.name.starts_with(prefix); });
  if (events->empty()) {
    session.out << "Events: \t<none>\n";
    return;
  }
  const rt::WallTime now = session.runtime.wall_now();
  const auto row = [&session](std::string_view type, std::string_view reason, std::string_view age,
                              std::string_view from, std::string_view message) {
    session.out << pad(type, 15) << "\t" << pad(reason, 40) << "\t" << pad(age, 30) << "\t" << pad(from, 40) << "\t"
                << message << "\n";
  };
  session.out << "Events:\n";
  row("Type", "Reason", "Age", "Form", "Message");
  row("-------", "-------", "-------", "-------", "-------");
  for (const auto& [event, bytes] : *events) {
    const api::Time first = event.first_timestamp ? event.first_timestamp : event.event_time.to_time();
    std::string age = age_of(first, now);
    if (event.count > 1)
      age = age_of(event.last_timestamp, now) + " (x" + std::to_string(event.count) + " over " + age + ")";
    std::string from = event.source.component;
    if (!event.source.host.empty()) from += ", " + event.source.host;
    row(event.type, event.reason, age, from, base::trim(event.message));
  }
}

}  // namespace

Result<int> view_job(Session& session, const api::ObjectKey& key, const ViewOptions& options) {
  BASALT_TRY(const auto listed, get_object<Job>(session, key));
  if (prints_objects(options.output)) {
    BASALT_TRY_DONE(print_objects(session.out, options.output, Job::kKindInfo, {listed.bytes}, false));
    return kExitOk;
  }
  const Job& job = listed.object;
  Page page(session.out);
  page.line(0, "Name:       ", job.metadata.name);
  page.line(0, "Namespace:  ", job.metadata.namespace_);
  page.line(0, "Labels:     ", map_text(job.metadata.labels));
  page.line(0, "Annotations:", map_text(job.metadata.annotations));
  page.line(0, "API Version:", Job::kKindInfo.api_version());
  page.line(0, "Kind:       ", Job::kKindInfo.kind);
  page.title(0, "Metadata:");
  page.line(1, "Creation Timestamp:", go_time(job.metadata.creation_timestamp));
  page.line(1, "Generate Name:     ", job.metadata.generate_name);
  page.line(1, "Generation:        ", std::to_string(job.metadata.generation));
  page.line(1, "Resource Version:  ", job.metadata.resource_version);
  page.line(1, "UID:               ", job.metadata.uid);
  page.title(0, "Spec:");
  page.line(1, "Min Available:     ", std::to_string(job.spec.min_available));
  page.title(1, "Plugins:");
  page.line(2, "Env:", arguments_text(job, "env"));
  page.line(2, "Ssh:", arguments_text(job, "ssh"));
  page.line(1, "Scheduler Name:    ", job.spec.scheduler_name);
  page.title(1, "Tasks:");
  for (const auto& task : job.spec.tasks) BASALT_TRY_DONE(print_task(page, task));
  print_status(page, session.out, job, options.with_conditions);
  print_events(session, job);
  return kExitOk;
}

}  // namespace basalt::cli
