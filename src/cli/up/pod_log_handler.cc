#include "cli/up/pod_log_handler.h"

#include <chrono>
#include <optional>
#include <utility>

#include "api/time.h"
#include "base/strings.h"

namespace basalt::cli {
namespace {

// How often a full backlog is looked at; the connection's own write timeout cuts off who reads nothing at all.
constexpr rt::Duration kBacklogPause = std::chrono::milliseconds(10);
// Between two tries to find a pod that its node has not seen yet.
constexpr rt::Duration kFindPause = std::chrono::milliseconds(20);
constexpr int kFindTries = 50;

Error wrong_parameter(std::string_view name, std::string_view value, std::string_view wanted) {
  return Error::make(Reason::BadRequest, "the value " + base::quote(value) + " of the parameter " + std::string(name) +
                                             " is wrong: it takes " + std::string(wanted));
}

Result<bool> truth(const net::Query& query, std::string_view name) {
  const auto value = net::find_parameter(query, name);
  if (!value || *value == "false" || *value == "0") return false;
  if (*value == "true" || *value == "1" || value->empty()) return true;
  return wrong_parameter(name, *value, "true or false");
}

Result<std::optional<std::int64_t>> number(const net::Query& query, std::string_view name, std::int64_t least) {
  const auto text = net::find_parameter(query, name);
  if (!text) return std::optional<std::int64_t>();
  const auto value = base::parse_int64(*text);
  if (!value || *value < least)
    return wrong_parameter(name, *text, "a whole number from " + std::to_string(least) + " on");
  return std::optional<std::int64_t>(*value);
}

Result<std::optional<rt::WallTime>> since_time(const net::Query& query) {
  const auto text = net::find_parameter(query, "sinceTime");
  if (!text || text->empty()) return std::optional<rt::WallTime>();
  const auto time = api::MicroTime::parse(*text);
  if (!time.ok()) return wrong_parameter("sinceTime", *text, "a time such as 2026-01-02T03:04:05Z");
  return std::optional<rt::WallTime>(std::chrono::time_point_cast<rt::WallTime::duration>(time->to_time_point()));
}

}  // namespace

PodLogHandler::PodLogHandler(rt::Runtime& runtime, const std::vector<std::unique_ptr<node::Node>>& nodes)
    : runtime_(runtime),
      nodes_(nodes),
      readers_(runtime, {"log", kReadersMax, "too many logs are being read at once; try again later"}) {}

apiserver::ConnectHandler PodLogHandler::handler() {
  return [this](const apiserver::ConnectRequest& request, const std::shared_ptr<net::Responder>& responder) {
    const apiserver::ApiPath& path = request.path;
    if (!path.group.empty() || path.plural != "pods" || path.subresource != "log") return false;
    accept(path, request.query, responder);
    return true;
  };
}

Result<PodLogHandler::Wish> PodLogHandler::parse(const apiserver::ApiPath& path, const net::Query& query) const {
  Wish wish;
  wish.ns = path.ns;
  wish.pod = path.name;
  wish.container = net::find_parameter(query, "container").value_or("");
  BASALT_TRY(wish.options.follow, truth(query, "follow"));
  BASALT_TRY(wish.options.previous, truth(query, "previous"));
  BASALT_TRY(wish.options.timestamps, truth(query, "timestamps"));
  BASALT_TRY(wish.options.tail_lines, number(query, "tailLines", 0));
  BASALT_TRY(wish.options.limit_bytes, number(query, "limitBytes", 1));
  BASALT_TRY(wish.options.since, since_time(query));
  BASALT_TRY(const auto seconds, number(query, "sinceSeconds", 1));
  if (seconds && wish.options.since)
    return Error::make(Reason::BadRequest, "at most one of sinceTime and sinceSeconds may be given");
  if (seconds) wish.options.since = runtime_.wall_now() - std::chrono::seconds(*seconds);
  return wish;
}

void PodLogHandler::accept(const apiserver::ApiPath& path, const net::Query& query,
                           const std::shared_ptr<net::Responder>& responder) {
  auto wish = parse(path, query);
  if (!wish.ok()) return respond_with_error(*responder, wish.error());
  // The client may go away before or while the reader runs; both ends share the source.
  auto source = std::make_shared<rt::StopSource>(runtime_, readers_.token());
  responder->on_close([source] { source->request_stop(); });
  const Done begun = readers_.start(
      [this, wish = std::move(*wish), responder, stop = source->token()] { serve(wish, *responder, stop); });
  if (!begun.ok()) respond_with_error(*responder, begun.error());
}

void PodLogHandler::serve(const Wish& wish, net::Responder& responder, const rt::StopToken& stop) {
  node::Node* holder = nullptr;
  for (int tries = 0; holder == nullptr && tries < kFindTries; ++tries) {
    if (tries > 0 && stop.wait_for(runtime_, kFindPause)) break;
    for (const auto& one : nodes_) {
      if (one->has_pod(wish.ns, wish.pod)) holder = one.get();
    }
  }
  if (holder == nullptr) {
    return respond_with_error(
        responder, Error::make(Reason::NotFound, "pods \"" + wish.pod + "\" not found on the nodes of this " +
                                                     "program: it does not exist or is not bound yet"));
  }
  bool started = false;
  const auto begin = [&] {
    if (!started) responder.start(200, {{"Content-Type", "text/plain"}});
    started = true;
  };
  const Done done = holder->read_log(
      wish.ns, wish.pod, wish.container, wish.options,
      [&](std::string_view bytes) {
        begin();
        if (bytes.empty()) return true;
        auto waiting = responder.write(std::make_shared<const std::string>(bytes));
        while (waiting && *waiting > kBacklogBytesMax) {
          if (stop.wait_for(runtime_, kBacklogPause)) return false;
          waiting = responder.write(std::make_shared<const std::string>());
        }
        return waiting.has_value();
      },
      stop);
  if (!done.ok() && !started && !done.error().is(Reason::Cancelled)) return respond_with_error(responder, done.error());
  begin();
  if (done.ok() || done.error().is(Reason::Cancelled)) {
    responder.finish();
  } else {
    responder.abort();  // so that the reader does not take what it got for all
  }
}

}  // namespace basalt::cli
