#include "cli/client/vcctl_help.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/strings.h"

namespace basalt::cli {
namespace {

struct FlagText {
  std::string_view name;
  char letter;            // 0 = none
  std::string_view type;  // "" for a switch
  std::string_view help;
  std::string_view shown_default;  // as it is printed; "" = not shown
};

struct CommandText {
  std::string_view path;  // "job list"; "" is vcctl itself
  std::string_view summary;
  std::vector<FlagText> flags;
};

constexpr FlagText kMaster{"master", 's', "string", "the address of apiserver", ""};
constexpr FlagText kKubeconfig{"kubeconfig", 'k', "string", "(optional) absolute path to the kubeconfig file", ""};
constexpr std::array kGlobal = {
    FlagText{"log-flush-frequency", 0, "duration", "longest time between two flushes of the log", "5s"},
    FlagText{"v", 'v', "Level", "how much is logged", ""},
    FlagText{"vmodule", 0, "moduleSpec", "how much is logged by files whose names match: pattern=N,...", ""},
};

FlagText text_flag(std::string_view name, char letter, std::string_view help, std::string_view shown_default = "") {
  return {name, letter, "string", help, shown_default};
}

std::vector<FlagText> connected(std::vector<FlagText> flags) {
  flags.push_back(kMaster);
  flags.push_back(kKubeconfig);
  return flags;
}

std::vector<FlagText> job_run_flags() {
  return {text_flag("image", 'i', "the container image of job", "\"busybox\""),
          text_flag("namespace", 'n', "the namespace of job", "\"default\""),
          text_flag("name", 'N', "the name of job"),
          {"min", 'm', "int", "the minimal available tasks of job", "1"},
          {"replicas", 'r', "int", "the total tasks of job", "1"},
          text_flag("requests", 'R', "the resource request of the task", "\"cpu=1000m,memory=100Mi\""),
          text_flag("limits", 'L', "the resource limit of the task", "\"cpu=1000m,memory=100Mi\""),
          text_flag("scheduler", 'S', "the scheduler for this job", "\"volcano\""),
          text_flag("filename", 'f', "the yaml file of job")};
}

std::vector<FlagText> named(std::string_view noun) {
  // Texts live as long as the program.
  static const std::array<std::pair<std::string_view, std::pair<std::string_view, std::string_view>>, 3> kTexts = {
      {{"job", {"the name of job", "the namespace of job"}},
       {"jobflow", {"the name of jobflow", "the namespace of jobflow"}},
       {"job template", {"the name of job template", "the namespace of job template"}}}};
  for (const auto& [known, texts] : kTexts) {
    if (known == noun)
      return {text_flag("name", 'N', texts.first), text_flag("namespace", 'n', texts.second, "\"default\"")};
  }
  return {};
}

std::vector<FlagText> with(std::vector<FlagText> flags, FlagText more) {
  flags.push_back(more);
  return flags;
}

void add_job_commands(std::vector<CommandText>& all) {
  all.push_back({"job", "vcctl command line operation job", {}});
  all.push_back({"job run", "run job by parameters from the command line", connected(job_run_flags())});
  all.push_back({"job list", "list job information",
                 connected({text_flag("queue", 'q', "list job with specified queue name"),
                            text_flag("namespace", 'n', "the namespace of job", "\"default\""),
                            text_flag("scheduler", 'S', "list job with specified scheduler name"),
                            {"all-namespaces", 0, "", "list jobs in all namespaces", ""},
                            text_flag("selector", 0, "fuzzy matching jobName")})});
  all.push_back({"job view", "show job information", connected(named("job"))});
  all.push_back({"job suspend", "abort a job", connected(named("job"))});
  all.push_back({"job resume", "resume a job", connected(named("job"))});
  all.push_back({"job delete", "delete a job", connected(named("job"))});
}

void add_queue_commands(std::vector<CommandText>& all) {
  const FlagText name = text_flag("name", 'n', "the name of queue");
  all.push_back({"queue", "Queue Operations", {}});
  all.push_back({"queue create", "creates queue",
                 connected({text_flag("name", 'n', "the name of queue", "\"test\""),
                            {"weight", 'w', "int32", "the weight of the queue", "1"},
                            text_flag("state", 'S', "the state of queue", "\"Open\"")})});
  all.push_back({"queue delete", "delete queue", connected({name})});
  all.push_back(
      {"queue operate", "operate queue",
       connected({name,
                  {"weight", 'w', "int32", "the weight of the queue", ""},
                  text_flag("action", 'a', "operate action to queue, valid actions are open, close, update")})});
  all.push_back({"queue list", "lists all the queue", connected({})});
  all.push_back({"queue get", "get a queue", connected({name})});
}

void add_flow_commands(std::vector<CommandText>& all) {
  const FlagText flow_file = text_flag("file", 'f', "the path to the YAML file containing the jobflow");
  const FlagText template_file = text_flag("file", 'f', "the path to the YAML file containing the job template");
  const FlagText format = text_flag("format", 'o', "the format of output", "\"yaml\"");
  all.push_back({"jobflow", "vcctl command line operation jobflow", {}});
  all.push_back({"jobflow create", "create a jobflow", connected({flow_file})});
  all.push_back({"jobflow list", "list jobflows",
                 connected({text_flag("namespace", 'n', "the namespace of jobflow", "\"default\""),
                            {"all-namespaces", 0, "", "list jobflows in all namespaces", ""}})});
  all.push_back({"jobflow get", "get a jobflow", connected(named("jobflow"))});
  all.push_back({"jobflow delete", "delete a jobflow", connected(with(named("jobflow"), flow_file))});
  all.push_back({"jobflow describe", "describe a jobflow", connected(with(named("jobflow"), format))});
  all.push_back({"jobtemplate", "vcctl command line operation jobtemplate", {}});
  all.push_back({"jobtemplate create", "create a jobtemplate", connected({template_file})});
  all.push_back({"jobtemplate list", "list jobtemplates",
                 connected({text_flag("namespace", 'n', "the namespace of job template", "\"default\"")})});
  all.push_back({"jobtemplate get", "get a jobtemplate", connected(named("job template"))});
  all.push_back({"jobtemplate delete", "delete a jobtemplate", connected(with(named("job template"), template_file))});
  all.push_back({"jobtemplate describe", "describe a jobtemplate", connected(with(named("job template"), format))});
}

std::vector<CommandText> make_tree() {
  std::vector<CommandText> all;
  all.push_back({"", "", {}});
  add_job_commands(all);
  add_flow_commands(all);
  all.push_back({"pod", "vcctl command line operation pod", {}});
  all.push_back({"pod list", "list pod information created by vcjob",
                 connected({text_flag("queue", 'q', "list pod with specified queue name"),
                            text_flag("job", 'j', "list pod with specified job name"),
                            text_flag("namespace", 'n', "the namespace of pod", "\"default\""),
                            {"all-namespaces", 0, "", "list pods in all namespaces", ""}})});
  add_queue_commands(all);
  all.push_back({"version", "Print the version information", {}});
  return all;
}

std::string left_of(const FlagText& flag) {
  std::string text = flag.letter != 0 ? std::string("  -") + flag.letter + ", " : std::string("      ");
  text += "--" + std::string(flag.name);
  if (!flag.type.empty()) text += " " + std::string(flag.type);
  return text;
}

std::string flag_lines(std::vector<FlagText> flags) {
  std::sort(flags.begin(), flags.end(), [](const FlagText& a, const FlagText& b) { return a.name < b.name; });
  std::size_t width = 0;
  for (const FlagText& flag : flags) width = std::max(width, left_of(flag).size());
  std::string text;
  for (const FlagText& flag : flags) {
    const std::string left = left_of(flag);
    text += left + std::string(width - left.size() + 3, ' ') + std::string(flag.help);
    if (!flag.shown_default.empty()) text += " (default " + std::string(flag.shown_default) + ")";
    text += "\n";
  }
  return text;
}

constexpr std::size_t kNameWidth = 11;  // at least, as vcctl pads

// The commands right below a path.
std::string command_lines(std::string_view path, const std::vector<CommandText>& tree) {
  std::vector<std::pair<std::string, std::string_view>> below;
  if (path.empty()) below.emplace_back("help", "Help about any command");
  for (const CommandText& one : tree) {
    if (one.path.empty()) continue;
    const auto blank = one.path.rfind(' ');
    const std::string_view parent = blank == std::string_view::npos ? "" : one.path.substr(0, blank);
    if (parent != path) continue;
    below.emplace_back(std::string(blank == std::string_view::npos ? one.path : one.path.substr(blank + 1)),
                       one.summary);
  }
  std::sort(below.begin(), below.end());
  std::size_t width = kNameWidth;
  for (const auto& [name, summary] : below) width = std::max(width, name.size());
  std::string text;
  for (const auto& [name, summary] : below)
    text += "  " + name + std::string(width - name.size() + 1, ' ') + std::string(summary) + "\n";
  return text;
}

std::string render(const CommandText& command, const std::vector<CommandText>& tree) {
  const std::string full = command.path.empty() ? "vcctl" : "vcctl " + std::string(command.path);
  const std::string own(command.path.empty() ? "vcctl" : command.path.substr(command.path.rfind(' ') + 1));
  const std::string below = command.path == "version" ? "" : command_lines(command.path, tree);
  const std::string help = "help for " + own;
  std::vector<FlagText> flags = command.flags;
  flags.push_back({"help", 'h', "", help, ""});
  if (command.path.empty()) flags.insert(flags.end(), kGlobal.begin(), kGlobal.end());
  std::string text = command.summary.empty() ? "" : std::string(command.summary) + "\n\n";
  text += "Usage:\n  " + full + (below.empty() ? " [flags]" : " [command]") + "\n\n";
  if (!below.empty()) text += "Available Commands:\n" + below + "\n";
  text += "Flags:\n" + flag_lines(flags);
  if (!command.path.empty()) text += "\nGlobal Flags:\n" + flag_lines({kGlobal.begin(), kGlobal.end()});
  if (!below.empty()) text += "\nUse \"" + full + " [command] --help\" for more information about a command.\n";
  return text;
}

}  // namespace

std::optional<std::string> vcctl_help(std::string_view command) {
  const auto path = command == "vcctl" ? std::optional<std::string_view>("") : base::strip_prefix(command, "vcctl ");
  if (!path) return std::nullopt;
  const std::vector<CommandText> tree = make_tree();
  const auto found = std::find_if(tree.begin(), tree.end(), [&](const CommandText& one) { return one.path == *path; });
  if (found == tree.end()) return std::nullopt;
  return render(*found, tree);
}

}  // namespace basalt::cli
