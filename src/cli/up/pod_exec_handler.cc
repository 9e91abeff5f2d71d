#include "cli/up/pod_exec_handler.h"

#include <atomic>
#include <string_view>
#include <utility>

#include "base/strings.h"
#include "json/value.h"
#include "kube/status.h"
#include "net/websocket.h"
#include "rt/mutex.h"

namespace basalt::cli {
namespace {

// The first byte of each message says which stream it belongs to.
constexpr char kOut = 1;
constexpr char kErr = 2;
constexpr char kStatus = 3;
constexpr std::string_view kProtocols[] = {"v5.channel.k8s.io", "v4.channel.k8s.io"};
// Of what the client sends: nothing but pings and the end, since there is no input.
constexpr std::size_t kFrameBytesMax = 64u << 10;

bool flag(const net::Query& query, std::string_view name) {
  const auto value = net::find_parameter(query, name);
  return value && (*value == "true" || *value == "1");
}

Error refusal(std::string message) { return Error::make(Reason::BadRequest, std::move(message)); }

// The best of the protocols that the client offers; "" if we speak none of them.
std::string_view chosen_protocol(const net::ServerRequest& request) {
  for (const std::string_view known : kProtocols) {
    for (const auto& [name, value] : request.headers) {
      if (!base::equals_ignore_case_ascii(name, "Sec-WebSocket-Protocol")) continue;
      for (const std::string_view offered : base::split(value, ',')) {
        if (base::trim(offered) == known) return known;
      }
    }
  }
  return {};
}

Result<node::Node::Command> command_of(const apiserver::ConnectRequest& request) {
  const apiserver::ApiPath& path = request.path;
  if (path.subresource == "attach") {
    return refusal(
        "process nodes cannot attach to a process that runs already; follow its output with `kubectl logs -f " +
        path.name + "`, or run another command beside it with `kubectl exec " + path.name + " -- COMMAND`");
  }
  node::Node::Command command;
  command.ns = path.ns;
  command.pod = path.name;
  command.container = net::find_parameter(request.query, "container").value_or("");
  for (const auto& [name, value] : request.query) {
    if (name == "command") command.argv.push_back(value);
  }
  if (command.argv.empty()) return refusal("you must specify at least one command for the container");
  if (flag(request.query, "stdin") || flag(request.query, "tty"))
    return refusal("commands on process nodes get no standard input and no terminal: leave out -i and -t");
  if (!net::asks_for_websocket(request.http))
    return refusal("Upgrade request required: pods/exec is served over WebSockets (kubectl 1.30 and newer), not SPDY");
  if (chosen_protocol(request.http).empty())
    return refusal("pods/exec is served in the WebSocket protocols v5.channel.k8s.io and v4.channel.k8s.io only");
  return command;
}

std::shared_ptr<const std::string> message(char channel, std::string_view bytes) {
  std::string payload(1, channel);
  payload.append(bytes);
  return std::make_shared<const std::string>(net::websocket_frame(net::WebSocketOpcode::Binary, payload));
}

// How the command ended, in the words that kubectl takes its exit code from.
std::string status_of(const Result<node::ProcessExit>& exit) {
  if (!exit.ok()) return kube::encode_status(exit.error(), exit.error().subject);
  if (exit->code == 0) return json::Value(json::Object{{"metadata", json::Object()}, {"status", "Success"}}).to_text();
  const std::string code = std::to_string(exit->code);
  const json::Value cause = json::Object{{"reason", "ExitCode"}, {"message", code}};
  return json::Value(json::Object{{"metadata", json::Object()},
                                  {"status", "Failure"},
                                  {"reason", "NonZeroExitCode"},
                                  {"message", "command terminated with non-zero exit code: exit status " + code},
                                  {"details", json::Object{{"causes", json::Array{cause}}}}})
      .to_text();
}

// Answers the client's pings and hears its goodbye. Called on the event loop.
std::function<void(std::string_view)> listener(std::weak_ptr<net::Responder> responder,
                                               std::shared_ptr<rt::StopSource> source) {
  auto reader = std::make_shared<net::WebSocketReader>(kFrameBytesMax);
  return [reader, responder = std::move(responder), source = std::move(source)](std::string_view bytes) {
    auto frames = reader->take(bytes);
    if (!frames.ok()) return source->request_stop();
    for (const auto& frame : *frames) {
      if (frame.opcode == net::WebSocketOpcode::Close) return source->request_stop();
      if (frame.opcode != net::WebSocketOpcode::Ping) continue;
      if (const auto alive = responder.lock()) {
        alive->write(
            std::make_shared<const std::string>(net::websocket_frame(net::WebSocketOpcode::Pong, frame.payload)));
      }
    }
  };
}

}  // namespace

PodExecHandler::PodExecHandler(rt::Runtime& runtime, const std::vector<std::unique_ptr<node::Node>>& nodes)
    : runtime_(runtime), nodes_(nodes), stop_(runtime) {}

PodExecHandler::~PodExecHandler() { stop(); }

apiserver::ConnectHandler PodExecHandler::handler() {
  return [this](const apiserver::ConnectRequest& request, const ResponderRef& responder) {
    const apiserver::ApiPath& path = request.path;
    if (!path.group.empty() || path.plural != "pods") return false;
    if (path.subresource != "exec" && path.subresource != "attach") return false;
    if (const Done begun = accept(request, responder); !begun.ok()) {
      const Error& error = begun.error();
      const int code = error.code >= 400 ? error.code : 500;
      responder->respond(code, {{"Content-Type", "application/json"}}, kube::encode_status(error, error.subject));
    }
    return true;
  };
}

Result<node::Node*> PodExecHandler::holder_of(const node::Node::Command& command) {
  for (const auto& one : nodes_) {
    if (one->has_pod(command.ns, command.pod)) return one.get();
  }
  return refusal("pod " + command.pod + " does not have a host assigned");
}

Done PodExecHandler::accept(const apiserver::ConnectRequest& request, const ResponderRef& responder) {
  BASALT_TRY(node::Node::Command command, command_of(request));
  BASALT_TRY(node::Node* const holder, holder_of(command));
  join_ended();
  const net::Headers headers = net::websocket_headers(request.http, chosen_protocol(request.http));
  rt::MutexLock lock(mutex_);
  if (stopped_) return Error::make(Reason::ServiceUnavailable, "the cluster is stopping");
  if (commands_.size() >= kCommandsMax)
    return Error::make(Reason::TooManyRequests, "too many commands run in pods at once; try again later");
  const std::size_t number = ++last_;
  commands_[number] =
      rt::Thread(runtime_, "exec", [this, number, command = std::move(command), holder, responder, headers] {
        // The client may go away before or while the command runs; both ends share the source.
        auto source = std::make_shared<rt::StopSource>(runtime_, stop_.token());
        responder->on_close([source] { source->request_stop(); });
        responder->on_bytes(listener(responder, source));
        responder->start(101, headers);
        serve(command, *holder, *responder, source->token());
        rt::MutexLock inner(mutex_);
        ended_.push_back(number);
      });
  return Ok{};
}

void PodExecHandler::serve(const node::Node::Command& command, node::Node& holder, net::Responder& responder,
                           const rt::StopToken& stop) {
  rt::StopSource enough(runtime_, stop);
  std::atomic<bool> is_too_slow{false};
  auto exit = holder.run_command(
      command,
      [&](node::OutputStream stream, std::string_view bytes) {
        if (is_too_slow) return;
        const auto waiting = responder.write(message(stream == node::OutputStream::Out ? kOut : kErr, bytes));
        if (waiting && *waiting <= kBacklogBytesMax) return;
        is_too_slow = waiting.has_value();
        enough.request_stop();
      },
      enough.token());
  if (is_too_slow) {
    exit = Error::make(Reason::TooManyRequests, "the command was ended: more than " +
                                                    std::to_string(kBacklogBytesMax >> 20) +
                                                    " MiB of its output waited for this client");
  }
  responder.write(message(kStatus, status_of(exit)));
  responder.write(std::make_shared<const std::string>(
      net::websocket_frame(net::WebSocketOpcode::Close, net::websocket_close(1000, ""))));
  responder.finish();
}

void PodExecHandler::join_ended() {
  std::vector<rt::Thread> over;
  {
    rt::MutexLock lock(mutex_);
    for (const std::size_t number : ended_) {
      const auto found = commands_.find(number);
      if (found == commands_.end()) continue;
      over.push_back(std::move(found->second));
      commands_.erase(found);
    }
    ended_.clear();
  }
  for (rt::Thread& thread : over) thread.join();
}

void PodExecHandler::stop() {
  std::map<std::size_t, rt::Thread> commands;
  {
    rt::MutexLock lock(mutex_);
    stopped_ = true;
    commands.swap(commands_);
    ended_.clear();
  }
  stop_.request_stop();
  for (auto& [number, thread] : commands) thread.join();
  rt::MutexLock lock(mutex_);
  ended_.clear();
}

}  // namespace basalt::cli
