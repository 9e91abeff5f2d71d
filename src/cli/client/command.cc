#include "cli/client/command.h"

#include <algorithm>
#include <ostream>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "cli/cli.h"
#include "cli/client/process_host.h"
#include "cli/client/vcctl_help.h"

namespace basalt::cli {
namespace {

void print_group_help(std::ostream& out, std::string_view program, const CommandGroup& group) {
  if (const auto text = vcctl_help(program)) {
    out << *text;
    return;
  }
  out << group.summary << "\n\nUsage: " << program << " COMMAND [FLAGS]\n\nCommands:\n";
  std::size_t width = 0;
  for (const ClientCommand& command : group.commands) width = std::max(width, command.name.size());
  for (const ClientCommand& command : group.commands)
    out << "  " << pad(command.name, width + 3) << command.summary << "\n";
  out << "\nRun '" << program << " COMMAND --help' for the flags of one.\n";
}

// The words that vcctl has for what GoFlags complains about: scripts look for them.
std::string vcctl_flag_error(std::string_view message) {
  if (const auto rest = base::strip_prefix(message, "there is no flag ")) {
    const std::string_view shown = rest->substr(0, rest->find(". "));
    const std::string_view flag = shown.ends_with('.') ? shown.substr(0, shown.size() - 1) : shown;
    if (flag.starts_with("--")) return "unknown flag: " + std::string(flag);
    return "unknown shorthand flag: '" + std::string(flag.substr(1, 1)) + "' in " + std::string(flag);
  }
  if (const auto end = message.find(" needs a value"); end != std::string_view::npos)
    return "flag needs an argument: " + std::string(message.substr(0, end));
  return "invalid argument: " + std::string(message);
}

// The message of an invalid object holds all its causes in one line; on lines of their own they can be read.
std::string error_text(const Error& error) {
  constexpr std::string_view kInvalid = " is invalid: [";
  const auto list = error.message.find(kInvalid);
  if (error.causes.size() < 2 || list == std::string::npos) return error.message;
  std::string text = error.message.substr(0, list + kInvalid.size() - 2);
  for (const Cause& cause : error.causes) text += "\n  " + cause.field + ": " + cause.message;
  return text;
}

}  // namespace

Manner manner_of(std::string_view program) {
  return program == "basalt" || program.starts_with("basalt ") ? Manner::Basalt : Manner::Vcctl;
}

std::string hint_for(const Error& error) {
  switch (error.reason) {
    case Reason::Unreachable:
    case Reason::ConnectionLost:
      return "Nothing answered. Is the cluster running? 'basalt up' starts one here; 'basalt doctor' looks closer.";
    case Reason::Unauthorized:
      return "The server does not know who you are: check the user of the kubeconfig's context.";
    case Reason::Forbidden:
      return "You lack a permission; 'basalt doctor' lists those that are needed.";
    case Reason::NotFound:
      if (error.message.find("could not find the requested resource") != std::string::npos)
        return "The server does not know this kind: are the CRDs installed? 'basalt doctor' tells.";
      return "";
    case Reason::DeadlineExceeded:
    case Reason::ServerTimeout:
    case Reason::Timeout:
      return "The server did not answer in time; try again.";
    default:
      return "";
  }
}

CommandCall::CommandCall(const Invocation& invocation, Host& host, std::string deed)
    : invocation_(invocation), host_(host), deed_(std::move(deed)), manner_(manner_of(invocation.program)) {}

GoFlags CommandCall::flags(std::string summary) const { return {invocation_.program, std::move(summary)}; }

std::optional<int> CommandCall::parse(GoFlags& flags) {
  // vcctl's log flags; there is nothing to log here.
  flags.ignored("log-flush-frequency", true);
  flags.ignored("v", true, 'v');
  flags.ignored("vmodule", true);
  if (manner_ == Manner::Basalt) return flags.parse_or_exit(invocation_.arguments, invocation_.out, invocation_.err);
  auto parsed = flags.parse(invocation_.arguments);
  if (!parsed.ok()) {
    invocation_.err << "Error: " << vcctl_flag_error(parsed.error().message) << "\n";
    return kExitVcctlUsage;
  }
  if (*parsed == GoFlags::Parsed::Help) {
    invocation_.out << vcctl_help(invocation_.program).value_or(flags.help());
    return kExitOk;
  }
  return std::nullopt;
}

int CommandCall::finish(const Result<int>& result) {
  invocation_.out.flush();
  if (result.ok()) return *result;
  const Error& error = result.error();
  if (error.is(Reason::Cancelled) && host_.interrupts().token().stop_requested()) {
    invocation_.err << invocation_.program << ": interrupted\n";
    return kExitInterrupted;
  }
  if (manner_ == Manner::Vcctl) {
    invocation_.out << "Failed to" << (deed_.empty() ? "" : " ") << deed_ << ": " << error.message << "\n";
    return kExitVcctlFailed;
  }
  invocation_.err << invocation_.program << ": " << error_text(error) << "\n";
  if (const std::string hint = hint_for(error); !hint.empty()) invocation_.err << hint << "\n";
  return error.is(Reason::InvalidInput) ? kExitUsage : kExitFailed;
}

void CommandCall::add_connection_flags(GoFlags& flags, ConnectionFlags& connection) {
  flags.section("Connection");
  flags.text("master", connection.master, "address of the API server", "URL", 's');
  flags.text("kubeconfig", connection.kubeconfig, "kubeconfig file", "FILE", 'k');
  flags.text("context", connection.context, "context of the kubeconfig", "NAME");
}

int CommandCall::run(GoFlags& flags, const std::function<Result<int>(Session& session)>& body) {
  ConnectionFlags connection;
  add_connection_flags(flags, connection);
  if (const auto exit = parse(flags)) return *exit;
  return run_connected(host_.connect(connection), false, body);
}

int CommandCall::run_or_start(GoFlags& flags, const bool& local, const std::function<Done()>& check,
                              const std::function<Result<int>(Session& session)>& body) {
  ConnectionFlags connection;
  add_connection_flags(flags, connection);
  if (const auto exit = parse(flags)) return *exit;
  if (Done checked = check(); !checked.ok()) return finish(std::move(checked).error());
  const bool starts = local || !host_.is_configured(connection);
  return run_connected(starts ? host_.start_local(invocation_.err) : host_.connect(connection), starts, body);
}

int CommandCall::run_connected(Result<Connection> connected, bool is_local,
                               const std::function<Result<int>(Session& session)>& body) {
  if (!connected.ok()) return finish(std::move(connected).error());
  Session session{.host = host_,
                  .runtime = host_.runtime(),
                  .client = *connected->client,
                  .raw = *connected->raw,
                  .ns = connected->ns.empty() ? "default" : connected->ns,
                  .server = connected->server,
                  .context = connected->context,
                  .out = invocation_.out,
                  .err = invocation_.err,
                  .stop = host_.interrupts().token(),
                  .suggests = manner_ == Manner::Basalt,
                  .is_local = is_local};
  return finish(body(session));
}

int CommandCall::run_locally(GoFlags& flags, const std::function<Result<int>()>& body) {
  if (const auto exit = parse(flags)) return *exit;
  return finish(body());
}

int run_group(const Invocation& invocation, Host& host, const CommandGroup& group) {
  if (invocation.arguments.empty() || invocation.arguments[0] == "--help" || invocation.arguments[0] == "-h" ||
      invocation.arguments[0] == "help") {
    print_group_help(invocation.out, invocation.program, group);
    return kExitOk;
  }
  const std::string& verb = invocation.arguments[0];
  for (const ClientCommand& command : group.commands) {
    if (command.name != verb) continue;
    const Invocation inner{invocation.program + " " + verb,
                           {invocation.arguments.begin() + 1, invocation.arguments.end()},
                           invocation.out,
                           invocation.err};
    CommandCall call(inner, host, verb + " " + std::string(group.name));
    return command.run(call);
  }
  if (manner_of(invocation.program) == Manner::Vcctl) {
    print_group_help(invocation.out, invocation.program, group);
    return kExitOk;
  }
  std::vector<std::string_view> names;
  for (const ClientCommand& command : group.commands) names.push_back(command.name);
  invocation.err << invocation.program << ": there is no command '" << verb << "'.";
  if (const std::string_view match = base::closest_match(verb, names); !match.empty())
    invocation.err << " Did you mean '" << match << "'?";
  invocation.err << "\nRun '" << invocation.program << " --help' for the list of commands.\n";
  return kExitUsage;
}

int run_single(const Invocation& invocation, Host& host, const ClientCommand& command) {
  CommandCall call(invocation, host, "");
  return command.run(call);
}

int run_group(Invocation& invocation, const CommandGroup& group) {
  const auto host = make_process_host();
  return run_group(invocation, *host, group);
}

int run_single(Invocation& invocation, const ClientCommand& command) {
  const auto host = make_process_host();
  return run_single(invocation, *host, command);
}

void add_namespace_flag(GoFlags& flags, std::string& ns, std::string_view what) {
  flags.text("namespace", ns, "namespace of the " + std::string(what) + "; that of the context if absent", "NAMESPACE",
             'n');
}

void add_name_flag(GoFlags& flags, std::string& name, std::string_view what) {
  flags.text("name", name, "name of the " + std::string(what), "NAME", 'N');
  flags.positional("[NAME]");
}

void take_name_from_words(const GoFlags& flags, std::string& name) {
  if (name.empty() && !flags.words().empty()) name = flags.words().front();
}

}  // namespace basalt::cli
