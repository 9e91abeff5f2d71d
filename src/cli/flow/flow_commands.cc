#include "cli/flow/flow_commands.h"

#include <algorithm>
#include <array>
#include <ostream>
#include <utility>
#include <vector>

#include "api/gen/flow.h"
#include "base/strings.h"
#include "cli/cli.h"
#include "cli/client/objects.h"
#include "cli/client/output.h"
#include "cli/client/table.h"
#include "yaml/reader.h"
#include "yaml/writer.h"

namespace basalt::cli {
namespace {

constexpr std::size_t kDocumentsMax = 1000;
constexpr std::size_t kCellGap = 4;

// The two kinds differ in words and in whether they have a phase.
struct FlowKind {
  const api::KindInfo& info;
  std::string_view words;  // "jobflow", "job template"
  bool has_phase;
  [[nodiscard]] kube::Resource resource() const {
    return {std::string(info.group), std::string(info.version), std::string(info.plural)};
  }
};
const FlowKind& flow_kind() {
  static const FlowKind kind{api::flow::JobFlow::kKindInfo, "jobflow", true};
  return kind;
}
const FlowKind& template_kind() {
  static const FlowKind kind{api::flow::JobTemplate::kKindInfo, "job template", false};
  return kind;
}

struct FlowFlags {
  std::string name;
  std::string ns;
  std::string file;
  std::string output;
  bool all_namespaces = false;
};

Error mandatory(std::string message) { return Error::make(Reason::BadRequest, std::move(message)); }

std::string aggregate(const std::vector<std::string>& failures) {
  return failures.size() == 1 ? failures.front() : "[" + base::join(failures, ", ") + "]";
}

Result<std::vector<json::Value>> read_documents(Session& session, const FlowKind& kind, const std::string& file) {
  if (file.empty()) return mandatory("no file is given: -f FILE");
  BASALT_TRY(const std::string text, session.host.read_file(file));
  auto documents = yaml::read_all(text, {.size_bytes_max = 16u << 20, .documents_max = kDocumentsMax});
  if (!documents.ok()) return documents.error().with_context(file);
  std::vector<json::Value> objects;
  for (yaml::Document& document : *documents) {
    const std::string place = file + ":" + std::to_string(document.line);
    if (!document.value.is_object()) return mandatory(place + ": this is no object");
    const std::string its(document.value.string_at({"kind"}));
    if (!its.empty() && its != kind.info.kind)
      return mandatory(place + ": this is a " + its + ", not a " + std::string(kind.info.kind));
    if (document.value.string_at({"metadata", "name"}).empty()) return mandatory(place + ": metadata.name is missing");
    document.value.as_object().set("apiVersion", kind.info.api_version());
    document.value.as_object().set("kind", kind.info.kind);
    if (document.value.string_at({"metadata", "namespace"}).empty())
      document.value.ensure_path({"metadata", "namespace"}) = session.ns;
    objects.push_back(std::move(document.value));
  }
  return objects;
}

// Goes on after a failure; all failures make one error.
Result<int> for_each_document(Session& session, const FlowKind& kind, const std::string& file, kube::Verb verb) {
  BASALT_TRY(const std::vector<json::Value> objects, read_documents(session, kind, file));
  const bool creates = verb == kube::Verb::Create;
  std::vector<std::string> failures;
  for (const json::Value& object : objects) {
    kube::Request request{.verb = verb, .resource = kind.resource()};
    request.ns = object.string_at({"metadata", "namespace"});
    const std::string name(object.string_at({"metadata", "name"}));
    if (creates) {
      request.body = object.to_text();
    } else {
      request.name = name;
    }
    const auto answer = session.client.call(request, session.stop);
    if (!answer.ok()) {
      failures.push_back("Failed to " + std::string(creates ? "create " : "delete ") + std::string(kind.info.kind) +
                         ": " + answer.error().message);
      continue;
    }
    session.out << (creates ? "Created " : "Deleted ") << kind.info.kind << ": " << request.ns << "/" << name << "\n";
  }
  if (!failures.empty()) return Error::make(Reason::BadRequest, aggregate(failures));
  return kExitOk;
}

Result<int> print_table(Session& session, const FlowKind& kind, const std::vector<kube::Bytes>& objects,
                        const std::string& output, bool as_list) {
  if (prints_objects(output)) {
    BASALT_TRY_DONE(print_objects(session.out, output, kind.info, objects, as_list));
    return kExitOk;
  }
  if (objects.empty()) {
    session.out << "No resources found\n";
    return kExitOk;
  }
  std::vector<Column> columns{{"Name", 0}, {"Namespace", 0}};
  if (kind.has_phase) {
    columns.push_back({"Phase", 0});
    columns.push_back({"Age", 0});
  }
  std::vector<std::vector<std::string>> rows;
  for (const kube::Bytes& bytes : objects) {
    BASALT_TRY(const json::Value object, json::Value::parse(*bytes));
    std::vector<std::string> cells{std::string(object.string_at({"metadata", "name"})),
                                   std::string(object.string_at({"metadata", "namespace"}))};
    if (kind.has_phase) {
      cells.emplace_back(object.string_at({"status", "state", "phase"}));
      const auto created = api::Time::parse(object.string_at({"metadata", "creationTimestamp"}));
      cells.push_back(age_of(created.ok() ? *created : api::Time(), session.runtime.wall_now()));
    }
    rows.push_back(std::move(cells));
  }
  for (std::size_t i = 0; i < columns.size(); ++i) {
    columns[i].width = columns[i].heading.size() + kCellGap;
    for (const auto& row : rows) columns[i].width = std::max(columns[i].width, display_width(row[i]) + kCellGap);
  }
  print_fixed(session.out, columns, rows);
  return kExitOk;
}

Result<kube::Bytes> get_one(Session& session, const FlowKind& kind, const FlowFlags& values) {
  const api::ObjectKey key{values.ns.empty() ? session.ns : values.ns, values.name};
  auto bytes = get_bytes(session, kind.resource(), key);
  if (!bytes.ok()) return with_suggestion(session, kind.resource(), key, std::move(bytes).error());
  return bytes;
}

Result<std::string> described(const FlowKind& kind, const kube::Bytes& bytes, const std::string& format) {
  BASALT_TRY(json::Value object, shown_object(kind.info, *bytes));
  if (object.find("spec") == nullptr) object.as_object().set("spec", json::Object{});
  if (object.find("status") == nullptr) object.as_object().set("status", json::Object{});
  if (kind.has_phase && object.find_path({"status", "state"}) == nullptr)
    object.ensure_path({"status", "state"}) = json::Object{};
  std::string text = format == "json" ? object.to_pretty_text() : yaml::write(object);
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

int create_from(CommandCall& call, const FlowKind& kind) {
  FlowFlags values;
  GoFlags flags = call.flags("Creates every " + std::string(kind.info.kind) + " of a YAML file.");
  flags.text("file", values.file, "YAML file", "FILE", 'f');
  return call.run(flags,
                  [&](Session& session) { return for_each_document(session, kind, values.file, kube::Verb::Create); });
}

int list_all(CommandCall& call, const FlowKind& kind) {
  FlowFlags values;
  GoFlags flags = call.flags("Lists " + std::string(kind.info.plural) + ".");
  add_namespace_flag(flags, values.ns, kind.info.plural);
  if (kind.has_phase || call.manner() == Manner::Basalt)
    flags.truth("all-namespaces", values.all_namespaces, "those of all namespaces");
  add_output_flag(flags, values.output);
  return call.run(flags, [&](Session& session) -> Result<int> {
    ListOptions options;
    if (!values.all_namespaces) options.ns = values.ns.empty() ? session.ns : values.ns;
    BASALT_TRY(const auto objects, list_bytes(session, kind.resource(), options));
    return print_table(session, kind, objects, values.output, true);
  });
}

int get_by_name(CommandCall& call, const FlowKind& kind) {
  FlowFlags values;
  GoFlags flags = call.flags("Shows one " + std::string(kind.words) + ".");
  add_name_flag(flags, values.name, kind.words);
  add_namespace_flag(flags, values.ns, kind.words);
  add_output_flag(flags, values.output);
  return call.run(flags, [&](Session& session) -> Result<int> {
    take_name_from_words(flags, values.name);
    if (values.name.empty())
      return mandatory("name is mandatory to get the particular " + std::string(kind.words) + " details");
    BASALT_TRY(const kube::Bytes bytes, get_one(session, kind, values));
    return print_table(session, kind, {bytes}, values.output, false);
  });
}

int delete_by_name(CommandCall& call, const FlowKind& kind) {
  FlowFlags values;
  GoFlags flags = call.flags("Deletes one " + std::string(kind.words) + ", or every one that a file names.");
  add_name_flag(flags, values.name, kind.words);
  add_namespace_flag(flags, values.ns, kind.words);
  flags.text("file", values.file, "YAML file", "FILE", 'f');
  return call.run(flags, [&](Session& session) -> Result<int> {
    if (!values.file.empty()) return for_each_document(session, kind, values.file, kube::Verb::Delete);
    take_name_from_words(flags, values.name);
    if (values.name.empty()) return mandatory(std::string(kind.words) + " name must be specified");
    BASALT_TRY(const kube::Bytes bytes, get_one(session, kind, values));
    BASALT_TRY(const kube::Identity found, kube::identity_of(*bytes));
    kube::Request request{.verb = kube::Verb::Delete, .resource = kind.resource(), .ns = found.ns, .name = found.name};
    request.precondition_uid = found.uid;
    BASALT_TRY(const kube::Response deleted, session.client.call(request, session.stop));
    for (const std::string& warning : deleted.warnings) session.err << "Warning: " << warning << "\n";
    session.out << "Deleted " << kind.info.kind << ": " << found.ns << "/" << found.name << "\n";
    return kExitOk;
  });
}

int describe(CommandCall& call, const FlowKind& kind) {
  FlowFlags values;
  std::string format = "yaml";
  GoFlags flags = call.flags("Prints one " + std::string(kind.words) + ", or all of a namespace, whole.");
  add_name_flag(flags, values.name, kind.words);
  add_namespace_flag(flags, values.ns, kind.words);
  flags.text("format", format, "yaml or json", "FORMAT", 'o');
  return call.run(flags, [&](Session& session) -> Result<int> {
    take_name_from_words(flags, values.name);
    if (format != "yaml" && format != "json") return mandatory("Unsupported format: " + format);
    std::vector<kube::Bytes> objects;
    if (values.name.empty()) {
      BASALT_TRY(objects, list_bytes(session, kind.resource(), {.ns = values.ns.empty() ? session.ns : values.ns}));
    } else {
      BASALT_TRY(kube::Bytes bytes, get_one(session, kind, values));
      objects.push_back(std::move(bytes));
    }
    for (std::size_t i = 0; i < objects.size(); ++i) {
      BASALT_TRY(const std::string text, described(kind, objects[i], format));
      session.out << (i > 0 ? "\n" : "") << text << "\n";
    }
    return kExitOk;
  });
}

int flow_create(CommandCall& call) { return create_from(call, flow_kind()); }
int flow_list(CommandCall& call) { return list_all(call, flow_kind()); }
int flow_get(CommandCall& call) { return get_by_name(call, flow_kind()); }
int flow_delete(CommandCall& call) { return delete_by_name(call, flow_kind()); }
int flow_describe(CommandCall& call) { return describe(call, flow_kind()); }
int template_create(CommandCall& call) { return create_from(call, template_kind()); }
int template_list(CommandCall& call) { return list_all(call, template_kind()); }
int template_get(CommandCall& call) { return get_by_name(call, template_kind()); }
int template_delete(CommandCall& call) { return delete_by_name(call, template_kind()); }
int template_describe(CommandCall& call) { return describe(call, template_kind()); }

constexpr std::array kFlowCommands = {
    ClientCommand{"create", "create the flows of a file", &flow_create},
    ClientCommand{"delete", "delete a flow, or the flows of a file", &flow_delete},
    ClientCommand{"describe", "print flows whole", &flow_describe},
    ClientCommand{"get", "show one flow", &flow_get},
    ClientCommand{"list", "list flows", &flow_list},
};
constexpr std::array kTemplateCommands = {
    ClientCommand{"create", "create the templates of a file", &template_create},
    ClientCommand{"delete", "delete a template, or the templates of a file", &template_delete},
    ClientCommand{"describe", "print templates whole", &template_describe},
    ClientCommand{"get", "show one template", &template_get},
    ClientCommand{"list", "list templates", &template_list},
};
constexpr CommandGroup kFlowGroup{"jobflow", "Flows of jobs: create, list, get, describe, delete.", kFlowCommands};
constexpr CommandGroup kTemplateGroup{"jobtemplate", "Templates of the jobs of flows.", kTemplateCommands};

}  // namespace

const CommandGroup& job_flow_group() { return kFlowGroup; }
const CommandGroup& job_template_group() { return kTemplateGroup; }
int run_job_flow(Invocation& invocation) { return run_group(invocation, kFlowGroup); }
int run_job_template(Invocation& invocation) { return run_group(invocation, kTemplateGroup); }

}  // namespace basalt::cli
