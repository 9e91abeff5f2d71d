#include "cli/job/job_actions.h"

#include <algorithm>
#include <ostream>

#include "api/gen/batch_job.h"
#include "api/gen/bus.h"
#include "api/gen/names.h"
#include "api/kind_info.h"
#include "api/owner.h"
#include "base/strings.h"
#include "cli/cli.h"
#include "cli/client/objects.h"
#include "cli/client/output.h"
#include "cli/client/table.h"
#include "yaml/reader.h"

namespace basalt::cli {
namespace {

using api::batch::Job;

json::Value resources_value(const api::ResourceList& resources) {
  json::Object object;
  for (const auto& [name, quantity] : resources) object.set(name, quantity.to_string());
  return object;
}

// The first document of a YAML file as a Job.
Result<json::Value> job_from_file(Session& session, const std::string& path) {
  if (path.find(".yaml") == std::string::npos && path.find(".yml") == std::string::npos)
    return Error::make(Reason::BadRequest, "only support yaml file");
  auto text = session.host.read_file(path);
  if (!text.ok()) return text.error().with_context("failed to read file, err");
  auto documents = yaml::read_all(*text);
  if (!documents.ok())
    return Error::make(Reason::BadRequest, "failed to unmarshal file, err:  " + documents.error().message);
  if (documents->empty())
    return Error::make(Reason::BadRequest, "failed to unmarshal file, err:  " + path + " holds no document");
  json::Value job = std::move(documents->front().value);
  if (!job.is_object())
    return Error::make(Reason::BadRequest,
                       "failed to unmarshal file, err:  a job is an object, this is a " + std::string(job.type_name()));
  const std::string_view kind = job.string_at({"kind"});
  if (!kind.empty() && kind != Job::kKindInfo.kind)
    return Error::make(Reason::BadRequest, "failed to unmarshal file, err:  this is a " + std::string(kind) +
                                               ", not a Job; 'basalt run -f' takes any kind");
  job.as_object().set("kind", Job::kKindInfo.kind);
  job.as_object().set("apiVersion", Job::kKindInfo.api_version());
  return job;
}

}  // namespace

Result<api::ResourceList> parse_resources(std::string_view text) {
  api::ResourceList resources;
  if (text.empty()) return resources;
  for (const std::string_view item : base::split(text, ',')) {
    const auto parts = base::split(item, '=');
    if (parts.size() != 2) {
      return Error::make(Reason::BadRequest,
                         "invalid argument syntax " + std::string(item) + ", expected <resource>=<value>");
    }
    auto quantity = api::Quantity::parse(parts[1]);
    if (!quantity.ok())
      return Error::make(Reason::BadRequest, "the amount of " + std::string(item) + ": " + quantity.error().message);
    resources.set(parts[0], *quantity);
  }
  return resources;
}

json::Value job_of(const JobFromFlags& flags, const api::ResourceList& requests, const api::ResourceList& limits) {
  json::Object resources;
  if (!requests.empty()) resources.set("requests", resources_value(requests));
  if (!limits.empty()) resources.set("limits", resources_value(limits));
  json::Object container{{"image", flags.image},
                         {"imagePullPolicy", "IfNotPresent"},
                         {"name", flags.name},
                         {"resources", std::move(resources)}};
  if (!flags.command.empty()) {
    json::Array words;
    for (const std::string& word : flags.command) words.emplace_back(word);
    container.set("command", std::move(words));
  }
  json::Object pod_spec{{"containers", json::Array{json::Value(std::move(container))}}, {"restartPolicy", "Never"}};
  json::Object pod_metadata{{"labels", json::Object{{api::keys::kVcctlJob, flags.name}}}, {"name", flags.name}};
  json::Object task{{"replicas", flags.replicas},
                    {"template", json::Object{{"metadata", std::move(pod_metadata)}, {"spec", std::move(pod_spec)}}}};
  return json::Object{{"apiVersion", Job::kKindInfo.api_version()},
                      {"kind", Job::kKindInfo.kind},
                      {"metadata", json::Object{{"name", flags.name}, {"namespace", flags.ns}}},
                      {"spec", json::Object{{"minAvailable", flags.min},
                                            {"schedulerName", flags.scheduler},
                                            {"tasks", json::Array{json::Value(std::move(task))}}}}};
}

Result<int> run_job_from_flags(Session& session, JobFromFlags flags) {
  if (flags.name.empty() && flags.file.empty()) return Error::make(Reason::BadRequest, "job name cannot be left blank");
  BASALT_TRY(const api::ResourceList requests, parse_resources(flags.requests));
  BASALT_TRY(const api::ResourceList limits, parse_resources(flags.limits));
  json::Value job;
  if (flags.file.empty()) {
    if (flags.ns.empty() && !flags.ns_was_given) flags.ns = session.ns;
    job = job_of(flags, requests, limits);
  } else {
    BASALT_TRY(job, job_from_file(session, flags.file));
    // The file's namespace counts unless a flag says another; vcctl's default would make the server refuse the file.
    const std::string in_file(job.string_at({"metadata", "namespace"}));
    if (!flags.ns_was_given) flags.ns = in_file.empty() ? session.ns : in_file;
    job.ensure_path({"metadata", "namespace"}) = flags.ns;
  }
  BASALT_TRY(
      kube::Response created,
      session.client.call(
          {.verb = kube::Verb::Create, .resource = kube::resource_of<Job>(), .ns = flags.ns, .body = job.to_text()},
          session.stop));
  const auto identity = kube::identity_of(*created.body);
  for (const std::string& warning : created.warnings) session.err << "Warning: " << warning << "\n";
  session.out << "run job " << (identity.ok() ? identity->name : flags.name) << " successfully\n";
  return kExitOk;
}

Result<std::vector<std::string>> split_command(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  bool is_in_word = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (base::is_space(c)) {
      if (is_in_word) words.push_back(std::move(word));
      word.clear();
      is_in_word = false;
      continue;
    }
    if (c == '#' && !is_in_word) {
      i = std::min(text.find('\n', i), text.size());
      continue;
    }
    is_in_word = true;
    if (c == '\\') {
      if (++i >= text.size()) return Error::make(Reason::BadRequest, "EOF found after escape character");
      word += text[i];
      continue;
    }
    if (c != '\'' && c != '"') {
      word += c;
      continue;
    }
    // In double quotes a backslash protects the next character; in single quotes nothing does.
    for (++i; i < text.size() && text[i] != c; ++i) {
      if (c == '"' && text[i] == '\\' && i + 1 < text.size()) ++i;
      word += text[i];
    }
    if (i >= text.size()) return Error::make(Reason::BadRequest, "EOF found when expecting closing quote");
  }
  if (is_in_word) words.push_back(std::move(word));
  return words;
}

namespace {

bool is_wanted(const Job& job, const JobFilter& filter) {
  if (!filter.queue.empty() && job.spec.queue != filter.queue) return false;
  if (!filter.scheduler.empty() && job.spec.scheduler_name != filter.scheduler) return false;
  if (!filter.selector.empty() && job.metadata.name.find(filter.selector) == std::string::npos) return false;
  if (!filter.phase.empty() && !base::equals_ignore_case_ascii(job.status.state.phase, filter.phase)) return false;
  if (!filter.flow.empty() &&
      job.metadata.labels.get(api::keys::kCreatedByJobFlow) != job.metadata.namespace_ + "." + filter.flow)
    return false;
  return true;
}

std::int64_t replicas_of(const Job& job) {
  std::int64_t replicas = 0;
  for (const auto& task : job.spec.tasks) replicas += task.replicas;
  return replicas;
}

std::vector<std::string> job_cells(const Job& job, const JobFilter& filter, rt::WallTime now) {
  const std::string_view type = job.metadata.labels.get(api::keys::kJobType);
  const auto& status = job.status;
  std::vector<std::string> cells;
  if (filter.all_namespaces) cells.push_back(job.metadata.namespace_);
  for (std::string cell :
       {job.metadata.name, local_date(job.metadata.creation_timestamp), status.state.phase,
        std::string(type.empty() ? "Batch" : type), std::to_string(replicas_of(job)),
        std::to_string(status.min_available), std::to_string(status.pending), std::to_string(status.running),
        std::to_string(status.succeeded), std::to_string(status.failed), std::to_string(status.unknown_count),
        std::to_string(status.retry_count)})
    cells.push_back(std::move(cell));
  if (filter.output == "wide") {
    cells.push_back(job.spec.queue);
    cells.push_back(age_of(job.metadata.creation_timestamp, now));
    cells.push_back(status.state.reason);
  }
  return cells;
}

}  // namespace

Result<int> list_jobs(Session& session, const JobFilter& filter) {
  ListOptions options;
  if (!filter.all_namespaces) options.ns = filter.ns.empty() ? session.ns : filter.ns;
  options.label_selector = filter.labels;
  BASALT_TRY(auto jobs, list_objects<Job>(session, options));
  const bool had_jobs = !jobs.empty();
  std::size_t name_width = 4;
  std::size_t namespace_width = 9;
  const auto measure = [&](const Job& job) {
    name_width = std::max(name_width, display_width(job.metadata.name));
    namespace_width = std::max(namespace_width, display_width(job.metadata.namespace_));
  };
  if (filter.header_without_rows) {
    for (const auto& job : jobs) measure(job.object);
  }
  std::erase_if(jobs, [&filter](const Listed<Job>& job) { return !is_wanted(job.object, filter); });
  if (prints_objects(filter.output)) {
    std::vector<kube::Bytes> bytes;
    for (const auto& job : jobs) bytes.push_back(job.bytes);
    BASALT_TRY_DONE(print_objects(session.out, filter.output, Job::kKindInfo, bytes, true));
    return kExitOk;
  }
  if (jobs.empty() && !(filter.header_without_rows && had_jobs)) {
    session.out << "No resources found\n";
    return kExitOk;
  }
  std::vector<std::vector<std::string>> rows;
  for (const auto& job : jobs) {
    measure(job.object);
    rows.push_back(job_cells(job.object, filter, session.runtime.wall_now()));
  }
  std::vector<Column> columns;
  if (filter.all_namespaces) columns.push_back({"Namespace", namespace_width + 3});
  for (Column column :
       {Column{"Name", name_width + 3}, Column{"Creation", 15}, Column{"Phase", 12}, Column{"JobType", 12},
        Column{"Replicas", 12}, Column{"Min", 6}, Column{"Pending", 10}, Column{"Running", 10}, Column{"Succeeded", 12},
        Column{"Failed", 10}, Column{"Unknown", 12}, Column{"RetryCount", 10}})
    columns.push_back(std::move(column));
  if (filter.output == "wide") {
    columns.back().width = 13;
    for (Column column : {Column{"Queue", 16}, Column{"Age", 8}, Column{"Reason", 0}})
      columns.push_back(std::move(column));
  }
  print_fixed(session.out, columns, rows);
  return kExitOk;
}

json::Value command_object(std::string_view ns, std::string_view action, const json::Object& target) {
  const std::string name(target.find("name")->as_string());
  const std::string prefix = name + "-" + base::to_lower_ascii(action) + "-";
  return json::Object{{"apiVersion", api::bus::Command::kKindInfo.api_version()},
                      {"kind", api::bus::Command::kKindInfo.kind},
                      {"metadata", json::Object{{"generateName", prefix},
                                                {"namespace", ns},
                                                {"ownerReferences", json::Array{json::Value(target)}}}},
                      {"action", action},
                      {"target", target}};
}

Done send_command(Session& session, std::string_view ns, std::string_view action, const api::KindInfo& kind,
                  const api::meta::ObjectMeta& target) {
  const json::Object reference{{"apiVersion", kind.api_version()},
                               {"kind", kind.kind},
                               {"name", target.name},
                               {"uid", target.uid},
                               {"controller", true},
                               {"blockOwnerDeletion", true}};
  auto sent = session.client.call({.verb = kube::Verb::Create,
                                   .resource = kube::resource_of<api::bus::Command>(),
                                   .ns = std::string(ns),
                                   .body = command_object(ns, action, reference).to_text()},
                                  session.stop);
  if (!sent.ok()) return std::move(sent).error();
  return Ok{};
}

Result<int> command_job(Session& session, const api::ObjectKey& key, std::string_view action) {
  BASALT_TRY(const auto job, get_object<Job>(session, key));
  BASALT_TRY_DONE(send_command(session, key.ns, action, Job::kKindInfo, job.object.metadata));
  return kExitOk;
}

Result<int> delete_job(Session& session, const api::ObjectKey& key, std::string_view done) {
  auto deleted = session.client.call(
      {.verb = kube::Verb::Delete, .resource = kube::resource_of<Job>(), .ns = key.ns, .name = key.name}, session.stop);
  if (!deleted.ok()) return with_suggestion(session, kube::resource_of<Job>(), key, std::move(deleted).error());
  session.out << done << " job " << key.name << " successfully\n";
  return kExitOk;
}

}  // namespace basalt::cli
