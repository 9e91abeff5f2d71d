#include "cli/inspect/completion.h"

#include <algorithm>
#include <array>
#include <ostream>
#include <sstream>
#include <utility>

#include "api/gen/batch_job.h"
#include "api/gen/core_objects.h"
#include "api/gen/flow.h"
#include "api/gen/scheduling_queue.h"
#include "base/strings.h"
#include "cli/cli.h"
#include "cli/client/command.h"
#include "cli/client/process_host.h"
#include "cli/flow/flow_commands.h"
#include "cli/job/job_commands.h"
#include "cli/pod/pod_commands.h"
#include "cli/queue/queue_commands.h"
#include "kube/typed.h"

namespace basalt::cli {
namespace {

constexpr std::string_view kFiles = ":files";
constexpr std::int64_t kNamesMax = 200;
constexpr rt::Duration kPatience = std::chrono::seconds(1);

constexpr std::string_view kBash = R"sh(# Completion of PROGRAM for bash: source <(PROGRAM completion bash)
_PROGRAM_complete() {
  local IFS=$'\n' current="${COMP_WORDS[COMP_CWORD]}" answer
  answer="$(PROGRAM __complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)"
  if [[ "$answer" == ":files" ]]; then
    compopt -o filenames 2>/dev/null
    COMPREPLY=($(compgen -f -- "$current"))
  else
    COMPREPLY=($(compgen -W "$answer" -- "$current"))
  fi
}
complete -F _PROGRAM_complete PROGRAM
)sh";
constexpr std::string_view kZsh = R"sh(#compdef PROGRAM
# Completion of PROGRAM for zsh: source <(PROGRAM completion zsh)
_PROGRAM_complete() {
  local -a answer
  answer=("${(@f)$(PROGRAM __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ "${answer[1]}" == ":files" ]]; then
    _files
  else
    compadd -a answer
  fi
}
compdef _PROGRAM_complete PROGRAM
)sh";
constexpr std::string_view kFish = R"sh(# Completion of PROGRAM for fish: PROGRAM completion fish | source
function __PROGRAM_complete
  set -l words (commandline -opc) (commandline -ct)
  set -l answer (PROGRAM __complete -- $words[2..-1] 2>/dev/null)
  if test "$answer" = ":files"
    __fish_complete_path (commandline -ct)
  else
    printf '%s\n' $answer
  end
end
complete -c PROGRAM -f -a '(__PROGRAM_complete)'
)sh";

const CommandGroup* group_of(std::string_view name) {
  for (const CommandGroup* group :
       {&job_group(), &queue_group(), &pod_group(), &job_flow_group(), &job_template_group()}) {
    if (group->name == name) return group;
  }
  return nullptr;
}

// The help of a command is the one list of its flags.
std::string help_of(const std::string& program, std::vector<std::string> words) {
  std::ostringstream out;
  std::ostringstream err;
  words.insert(words.begin(), program);
  words.emplace_back("--help");
  run(words, out, err);
  return out.str();
}

bool is_flag_character(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_'; }

// "--output", from a line that begins with it or with "-o, --output".
std::string_view flag_of_line(std::string_view line) {
  line = base::trim(line);
  if (line.size() > 4 && line[0] == '-' && line[1] != '-' && line.substr(2, 2) == ", ") line.remove_prefix(4);
  if (!line.starts_with("--")) return {};
  std::size_t end = 2;
  while (end < line.size() && is_flag_character(line[end])) ++end;
  return line.substr(0, end);
}

std::vector<std::string> flags_of(std::string_view help) {
  std::vector<std::string> flags;
  for (const std::string_view line : base::split(help, '\n')) {
    if (const std::string_view flag = flag_of_line(line); !flag.empty()) flags.emplace_back(flag);
  }
  return flags;
}

// The line of the help that a flag, long or short, stands in.
std::string_view line_of_flag(std::string_view help, std::string_view flag) {
  for (const std::string_view line : base::split(help, '\n')) {
    if (flag_of_line(line) == flag) return base::trim(line);
    if (flag.size() == 2 && base::trim(line).starts_with(std::string(flag) + ", ")) return base::trim(line);
  }
  return {};
}

class Completion {
 public:
  Completion(const HostMaker& host, std::string program, const std::vector<std::string>& words)
      : host_(host), program_(std::move(program)), words_(words) {}

  std::vector<std::string> run() {
    if (words_.size() <= 1) return names_of_commands();
    const CommandGroup* group = group_of(words_[0]);
    if (group != nullptr && words_.size() == 2) return names_of_verbs(*group);
    command_.assign(words_.begin(), words_.begin() + (group != nullptr ? 2 : 1));
    help_ = help_of(program_, command_);
    const std::string& current = words_.back();
    const std::string& before = words_[words_.size() - 2];
    if (before.size() > 1 && before[0] == '-' && words_.size() > command_.size() + 1) {
      if (auto values = values_of(before)) return *values;
    }
    if (current.starts_with("-")) return flags_of(help_);
    return names_of_objects();
  }

 private:
  static std::vector<std::string> names_of_commands() {
    std::vector<std::string> names;
    for (const Command& command : commands()) names.emplace_back(command.name);
    names.emplace_back("help");
    return names;
  }

  static std::vector<std::string> names_of_verbs(const CommandGroup& group) {
    std::vector<std::string> names;
    for (const ClientCommand& command : group.commands) names.emplace_back(command.name);
    return names;
  }

  // What may follow a flag; nothing if it takes no value.
  std::optional<std::vector<std::string>> values_of(const std::string& flag) {
    const std::string_view line = line_of_flag(help_, flag);
    if (line.empty()) return std::nullopt;
    const std::string_view name = flag_of_line(line);
    std::string_view rest = line.substr(line.find(name) + name.size());
    if (!rest.starts_with(" ") || rest.starts_with("  ")) return std::nullopt;
    rest.remove_prefix(1);
    const std::string_view placeholder = rest.substr(0, rest.find(' '));
    if (placeholder.find('|') != std::string_view::npos) {
      std::vector<std::string> values;
      for (const std::string_view value : base::split(placeholder, '|')) values.emplace_back(value);
      return values;
    }
    if (placeholder == "FILE" || placeholder == "FOLDER") return std::vector<std::string>{std::string(kFiles)};
    if (name == "--namespace") return names(kube::resource_of<api::core::Namespace>(), "");
    if (name == "--queue") return names(kube::resource_of<api::scheduling::Queue>(), "");
    if (name == "--name") return names_of_objects();
    return std::vector<std::string>();
  }

  std::vector<std::string> names_of_objects() {
    const std::string& command = command_.front();
    if (command == "completion") return {"bash", "zsh", "fish"};
    if (command == "top") return {"queues", "nodes"};
    if (command == "run" || command == "apply") return {std::string(kFiles)};
    if (command == "queue") return names(kube::resource_of<api::scheduling::Queue>(), "");
    if (command == "jobflow") return names(kube::resource_of<api::flow::JobFlow>(), ns());
    if (command == "jobtemplate") return names(kube::resource_of<api::flow::JobTemplate>(), ns());
    for (const std::string_view one : {"job", "explain", "logs", "wait", "watch", "tree", "events"}) {
      if (command == one) return names(kube::resource_of<api::batch::Job>(), ns());
    }
    return {};
  }

  std::string value_given(std::initializer_list<std::string_view> flags) const {
    for (std::size_t i = 0; i + 1 < words_.size(); ++i) {
      for (const std::string_view flag : flags) {
        if (words_[i] == flag && i + 2 < words_.size()) return words_[i + 1];
        if (words_[i].starts_with(std::string(flag) + "=")) return words_[i].substr(flag.size() + 1);
      }
    }
    return "";
  }

  std::string ns() const {
    const std::string given = value_given({"-n", "--namespace"});
    return given.empty() ? "*" : given;  // that of the context
  }

  std::vector<std::string> names(const kube::Resource& resource, const std::string& ns) {
    ConnectionFlags flags;
    flags.kubeconfig = value_given({"-k", "--kubeconfig"});
    flags.context = value_given({"--context"});
    flags.master = value_given({"-s", "--master"});
    Host& host = host_();
    const auto connection = host.connect(flags);
    if (!connection.ok()) return {};
    const auto page = connection->client->list(
        {.resource = resource, .ns = ns == "*" ? connection->ns : ns, .limit = kNamesMax, .timeout = kPatience},
        host.interrupts().token());
    std::vector<std::string> result;
    if (!page.ok()) return result;
    for (const kube::Bytes& item : page->items) {
      if (const auto identity = kube::identity_of(*item); identity.ok()) result.push_back(identity->name);
    }
    return result;
  }

  const HostMaker& host_;
  const std::string program_;
  const std::vector<std::string>& words_;
  std::vector<std::string> command_;
  std::string help_;
};

}  // namespace

std::vector<std::string> completions(const HostMaker& host, const std::string& program,
                                     const std::vector<std::string>& words) {
  std::vector<std::string> found = Completion(host, program, words).run();
  if (found.size() == 1 && found.front() == kFiles) return found;
  const std::string current = words.empty() ? "" : words.back();
  std::erase_if(found, [&current](const std::string& one) { return !one.starts_with(current); });
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

int run_completion(Invocation& invocation) {
  const std::string program = invocation.program.substr(0, invocation.program.find(' '));
  const std::string shell = invocation.arguments.empty() ? "" : invocation.arguments.front();
  if (shell == "--help" || shell == "-h") {
    invocation.out << "Prints a script that completes commands, flags and names of objects.\n\nUsage: " << program
                   << " completion bash|zsh|fish\n\n  bash   source <(" << program
                   << " completion bash)\n  zsh    source <(" << program << " completion zsh)\n  fish   " << program
                   << " completion fish | source\n";
    return kExitOk;
  }
  const std::string_view script = shell == "bash" ? kBash : shell == "zsh" ? kZsh : shell == "fish" ? kFish : "";
  if (script.empty()) {
    invocation.err << invocation.program << ": "
                   << (shell.empty() ? "no shell is named" : "there is no script for '" + shell + "'")
                   << "; it takes bash, zsh or fish.\n";
    return kExitUsage;
  }
  invocation.out << base::replace_all(script, "PROGRAM", program);
  return kExitOk;
}

int run_complete(Invocation& invocation) {
  std::vector<std::string> words = invocation.arguments;
  if (!words.empty() && words.front() == "--") words.erase(words.begin());
  // Not before it is needed: while a command prints its help there is another host, and a process has one at a time.
  std::unique_ptr<Host> host;
  const HostMaker maker = [&host]() -> Host& {
    if (!host) host = make_process_host();
    return *host;
  };
  const std::string program = invocation.program.substr(0, invocation.program.find(' '));
  for (const std::string& one : completions(maker, program, words)) invocation.out << one << "\n";
  return kExitOk;
}

}  // namespace basalt::cli
