#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "cli/cli.h"
#include "cli/go_flags.h"
#include "cli/roles.h"
#include "cli/up/data_folder.h"
#include "cli/up/run_lock.h"
#include "cli/up/up.h"
#include "json/value.h"
#include "kube/rest_client.h"
#include "rt/real_runtime.h"

namespace basalt::cli {
namespace {

constexpr rt::Duration kTimeout = std::chrono::seconds(5);

struct ClusterStatus {
  bool is_running = false;
  std::int64_t process = 0;
  std::string kubeconfig;
  std::string problem;  // of the API server, if it does not answer
  std::string disk_problem;
  std::int64_t nodes = 0;
  std::map<std::string, std::int64_t> jobs;  // by phase
  std::map<std::string, std::int64_t> pods;
};

std::string phase_of(const json::Value& object) {
  const json::Value* phase = object.find_path({"status", "state", "phase"});
  if (!phase) phase = object.find_path({"status", "phase"});
  return phase && phase->is_string() && !phase->as_string().empty() ? std::string(phase->as_string()) : "Pending";
}

Done count(kube::Client& client, const rt::StopToken& stop, kube::Resource resource,
           std::map<std::string, std::int64_t>& phases, std::int64_t& total) {
  kube::ListRequest request;
  request.resource = std::move(resource);
  request.limit = 500;
  request.timeout = kTimeout;
  do {
    auto page = client.list(request, stop);
    if (!page.ok() && page.error().reason == Reason::NotFound) return Ok{};  // the kind is not served
    if (!page.ok()) return std::move(page).error();
    for (const kube::Bytes& bytes : page->items) {
      BASALT_TRY(const json::Value object, json::Value::parse(*bytes));
      ++phases[phase_of(object)];
      ++total;
    }
    request.continue_token = page->continue_token;
  } while (!request.continue_token.empty());
  return Ok{};
}

Done ask(ClusterStatus& status) {
  const auto runtime = rt::make_real_runtime();
  RoleFlags flags;
  flags.kubeconfig = status.kubeconfig;
  const Logger log(make_stderr_sink(LogFormat::Text), LogLevel::Error);
  BASALT_TRY(const auto client, connect_role(*runtime, log, flags, "basalt-status", nullptr));
  rt::StopSource source(*runtime);
  std::map<std::string, std::int64_t> ignored;
  std::int64_t total = 0;
  BASALT_TRY_DONE(count(*client, source.token(), {"", "v1", "nodes"}, ignored, status.nodes));
  BASALT_TRY_DONE(count(*client, source.token(), {"", "v1", "pods"}, status.pods, total));
  return count(*client, source.token(), {"batch.volcano.sh", "v1alpha1", "jobs"}, status.jobs, total);
}

std::string phases_text(const std::map<std::string, std::int64_t>& phases) {
  if (phases.empty()) return "none";
  std::string text;
  for (const auto& [phase, number] : phases) text += (text.empty() ? "" : ", ") + std::to_string(number) + " " + phase;
  return text;
}

json::Value phases_json(const std::map<std::string, std::int64_t>& phases) {
  json::Object object;
  for (const auto& [phase, number] : phases) object.set(phase, number);
  return object;
}

void print_json(const ClusterStatus& status, std::ostream& out) {
  json::Object object{{"running", status.is_running}};
  if (status.is_running) {
    object.set("process", status.process);
    object.set("kubeconfig", status.kubeconfig);
    if (!status.problem.empty()) object.set("problem", status.problem);
    if (!status.disk_problem.empty()) object.set("diskProblem", status.disk_problem);
    object.set("nodes", status.nodes);
    object.set("jobs", phases_json(status.jobs));
    object.set("pods", phases_json(status.pods));
  }
  out << json::Value(std::move(object)).to_text() << "\n";
}

}  // namespace

int run_status(Invocation& invocation) {
  std::string folder = ".basalt";
  std::string output = "text";
  GoFlags flags(invocation.program,
                "Says whether the cluster of a folder runs and what it does. Ends with 0 if it runs, answers and can "
                "write, else 1.");
  flags.text("data-dir", folder, "folder of the cluster", "FOLDER");
  flags.choice("output", output, {"text", "json"}, "form of the answer", 'o');
  if (const auto code = flags.parse_or_exit(invocation.arguments, invocation.out, invocation.err)) return *code;

  ClusterStatus status;
  const auto running = running_process(folder);
  status.is_running = running.has_value();
  if (running) {
    status.process = *running;
    status.kubeconfig = std::filesystem::absolute(folder + "/kubeconfig").lexically_normal().string();
    status.disk_problem = disk_problem(folder).value_or("");
    if (Done asked = ask(status); !asked.ok()) status.problem = asked.error().message;
  }
  if (output == "json") {
    print_json(status, invocation.out);
  } else if (!running) {
    invocation.out << "No cluster runs in " << folder << ". Start one by 'basalt up'.\n";
  } else {
    invocation.out << "The cluster in " << folder << " runs as process " << status.process << ".\n";
    if (!status.disk_problem.empty()) invocation.out << "Attention: " << status.disk_problem << ".\n";
    if (!status.problem.empty()) {
      invocation.out << "Its API server does not answer: " << status.problem << "\n";
    } else {
      invocation.out << "  nodes  " << status.nodes << "\n  jobs   " << phases_text(status.jobs) << "\n  pods   "
                     << phases_text(status.pods) << "\n  export KUBECONFIG=" << status.kubeconfig << "\n";
    }
  }
  return running && status.problem.empty() && status.disk_problem.empty() ? kExitOk : kExitFailed;
}

}  // namespace basalt::cli
