#include "cli/up/pod_exec_handler.h"

#include <chrono>
#include <string_view>
#include <utility>

#include "base/strings.h"
#include "cli/up/exec_client.h"

namespace basalt::cli {
namespace {

// A client whose connection is held may die without a word: its end waits behind what we do not read. Its system
// answers what comes for nobody, and so the connection breaks.
constexpr rt::Duration kPingPeriod = std::chrono::seconds(5);

bool flag(const net::Query& query, std::string_view name) {
  const auto value = net::find_parameter(query, name);
  return value && (*value == "true" || *value == "1");
}

Error refusal(std::string message) { return Error::make(Reason::BadRequest, std::move(message)); }

// The pod as it is named to kubectl.
std::string words_for(const apiserver::ApiPath& path) {
  return path.ns == "default" ? path.name : path.name + " -n " + path.ns;
}

Error no_input_for_attach(const apiserver::ApiPath& path) {
  return refusal("the containers of pod " + base::quote(path.name) +
                 " were started without standard input, so there is nothing to attach it to: leave out -i and -t to " +
                 "see its output, or run a command beside it with `kubectl exec -it " + words_for(path) +
                 " -- COMMAND`");
}

Result<node::Node::Command> command_of(const apiserver::ConnectRequest& request) {
  const apiserver::ApiPath& path = request.path;
  const bool is_attach = path.subresource == "attach";
  if (is_attach && (flag(request.query, "stdin") || flag(request.query, "tty"))) return no_input_for_attach(path);
  node::Node::Command command;
  command.ns = path.ns;
  command.pod = path.name;
  command.container = net::find_parameter(request.query, "container").value_or("");
  for (const auto& [name, value] : request.query) {
    if (name == "command") command.argv.push_back(value);
  }
  if (command.argv.empty() && !is_attach)
    return refusal("no command is given: name it behind --, as in kubectl exec POD -- ls");
  BASALT_TRY_DONE(ExecClient::check(request.http, path.subresource));
  return command;
}

// What the container prints from now on, until it ends. The log has it; it does not tell errors from other output.
Result<node::ProcessExit> show_output(const node::Node::Command& command, node::Node& holder, ExecClient& client) {
  node::LogOptions options;
  options.follow = true;
  options.tail_lines = 0;
  BASALT_TRY_DONE(holder.read_log(
      command.ns, command.pod, command.container, options,
      [&](std::string_view bytes) { return bytes.empty() || client.write_and_wait(node::OutputStream::Out, bytes); },
      client.gone()));
  return node::ProcessExit{};
}

}  // namespace

PodExecHandler::PodExecHandler(rt::Runtime& runtime, const std::vector<std::unique_ptr<node::Node>>& nodes)
    : runtime_(runtime),
      nodes_(nodes),
      pings_(runtime, {.name = "exec-pings"}),
      commands_(runtime, {"exec", kCommandsMax, "too many commands run in pods at once; try again later"}) {}

apiserver::ConnectHandler PodExecHandler::handler() {
  return [this](const apiserver::ConnectRequest& request, const ResponderRef& responder) {
    const apiserver::ApiPath& path = request.path;
    if (!path.group.empty() || path.plural != "pods") return false;
    if (path.subresource != "exec" && path.subresource != "attach") return false;
    if (const Done begun = accept(request, responder); !begun.ok()) respond_with_error(*responder, begun.error());
    return true;
  };
}

void PodExecHandler::stop() {
  commands_.stop();
  pings_.stop();
}

void PodExecHandler::ping_later(std::weak_ptr<net::Responder> client) {
  static_cast<void>(pings_.schedule_after(kPingPeriod, [this, client = std::move(client)] {
    const auto alive = client.lock();
    if (!alive || alive->is_closed()) return;
    alive->write(std::make_shared<const std::string>(net::websocket_frame(net::WebSocketOpcode::Ping, "")));
    ping_later(client);
  }));
}

Result<node::Node*> PodExecHandler::holder_of(const node::Node::Command& command) {
  for (const auto& one : nodes_) {
    if (one->has_pod(command.ns, command.pod)) return one.get();
  }
  return refusal("pod " + command.pod +
                 " does not run on a node of this program: it is not bound yet, or its node is gone");
}

Done PodExecHandler::accept(const apiserver::ConnectRequest& request, const ResponderRef& responder) {
  BASALT_TRY(node::Node::Command command, command_of(request));
  BASALT_TRY(node::Node* const holder, holder_of(command));
  const ExecClient::Options options{.has_input = flag(request.query, "stdin"),
                                    .has_terminal = flag(request.query, "tty")};
  return commands_.start([this, command = std::move(command), holder, responder, options,
                          is_attach = request.path.subresource == "attach",
                          headers = ExecClient::headers(request.http)] {
    ExecClient client(runtime_, responder, options, commands_.token());
    client.open(headers);
    ping_later(responder);
    if (is_attach) return client.finish(show_output(command, *holder, client));
    node::Node::Command with_client = command;
    with_client.io = client.io();
    client.finish(holder->run_command(
        with_client, [&](node::OutputStream stream, std::string_view bytes) { client.write(stream, bytes); },
        client.gone()));
  });
}

}  // namespace basalt::cli
