#include "apiserver/http/front.h"

#include <algorithm>
#include <utility>

#include "apiserver/http/accept.h"
#include "apiserver/http/access_check.h"
#include "apiserver/http/audit_log.h"
#include "apiserver/http/authentication.h"
#include "apiserver/http/discovery.h"
#include "apiserver/http/openapi_endpoint.h"
#include "apiserver/http/request_metrics.h"
#include "apiserver/http/request_parser.h"
#include "apiserver/http/table.h"
#include "apiserver/proto/decode.h"
#include "apiserver/proto/encode.h"
#include "apiserver/proto/field_shapes.h"
#include "apiserver/registry/connections.h"
#include "apiserver/registry/continue_token.h"
#include "apiserver/registry/errors.h"
#include "apiserver/registry/later_calls.h"
#include "apiserver/registry/server_impl.h"
#include "base/check.h"
#include "base/random_name.h"
#include "base/strings.h"
#include "json/value.h"
#include "kube/status.h"

namespace basalt::apiserver {
namespace {

// Lists longer than this are sent piece by piece instead of being put together first.
constexpr std::size_t kStreamedItemsMin = 500;
constexpr std::size_t kPieceBytes = 256u << 10;
constexpr int kDurableHandlerThreads = 64;
constexpr std::size_t kPathBytesMax = 8u << 10;

using ResponderRef = std::shared_ptr<net::Responder>;

net::Headers headers_of(std::string_view content_type, std::span<const std::string> warnings = {}) {
  net::Headers headers{{"Content-Type", std::string(content_type)}, {"Cache-Control", "no-cache, private"}};
  for (const std::string& warning : warnings) headers.emplace_back("Warning", "299 - " + base::quote(warning));
  return headers;
}

net::Headers json_headers(std::span<const std::string> warnings = {}) {
  return headers_of("application/json", warnings);
}

// The protobuf form of a JSON text.
Result<std::string> to_protobuf(std::string_view text) {
  BASALT_TRY(const json::Value object, json::Value::parse(text));
  return proto::encode_object(object);
}

net::Headers stream_headers(const Answer& wish) {
  return wish.is_protobuf ? headers_of(std::string(proto::kMediaType) + ";stream=watch") : json_headers();
}

bool has_protobuf_form(const ResourceType& type) {
  return type.crd_name.empty() && proto::message_of_kind(type.api_version(), type.kind) != nullptr;
}

Error not_acceptable_as(std::string_view kind, std::string_view what) {
  return Error::make(Reason::NotAcceptable,
                     "you requested " + std::string(kind) + ", but the requested object is " + std::string(what));
}

// How much of an object comes with its row of a table.
constexpr std::string_view kIncludes[] = {"None", "Metadata", "Object"};

// What is asked every few seconds and says nothing about anybody.
bool is_health_path(std::string_view path) { return path == "/healthz" || path == "/livez" || path == "/readyz"; }

// Subresources that are a conversation with a process.
bool is_connection(const ApiPath& path) {
  return path.group.empty() && path.plural == "pods" &&
         (path.subresource == "attach" || path.subresource == "exec" || path.subresource == "portforward");
}

bool is_proxy(const ApiPath& path) {
  return path.group.empty() && path.subresource == "proxy" && (path.plural == "pods" || path.plural == "services");
}

Error nobody_to_connect_to(const ApiPath& path) {
  Error error = Error::make(Reason::NotFound, path.plural + "/" + path.subresource +
                                                  ": this server has no nodes whose pods could be connected to");
  error.code = 501;
  return error;
}

// The query as admission sees it: an object of Kubernetes' kind.
json::Value connect_options(const ApiPath& path, const net::Query& query) {
  const char* kind = path.subresource == "exec"     ? "PodExecOptions"
                     : path.subresource == "attach" ? "PodAttachOptions"
                                                    : "PodPortForwardOptions";
  json::Object options{{"apiVersion", "v1"}, {"kind", kind}};
  json::Array command;
  json::Array ports;
  for (const auto& [name, value] : query) {
    if (name == "command") command.emplace_back(value);
    if (name == "container") options.set("container", value);
    if (const auto port = base::parse_int64(value); name == "ports" && port) ports.emplace_back(*port);
    const bool is_flag = name == "stdin" || name == "stdout" || name == "stderr" || name == "tty";
    if (is_flag && (value == "true" || value == "1")) options.set(name, true);
  }
  if (!command.empty()) options.set("command", std::move(command));
  if (!ports.empty()) options.set("ports", std::move(ports));
  return options;
}

class FrontImpl final : public Front {
 public:
  FrontImpl(rt::Runtime& runtime, Logger log, ApiServer& server, FrontOptions options)
      : runtime_(runtime),
        log_(std::move(log)),
        server_(server),
        options_(std::move(options)),
        later_(dynamic_cast<LaterCalls*>(&server)),
        authenticator_(options_.tokens, server),
        openapi_(server),
        metrics_(std::make_shared<RequestMetrics>(runtime)),
        pump_(runtime, log_, options_.watches) {}

  ~FrontImpl() override { stop(); }

  Done listen() {
    auto handler = [this](std::shared_ptr<const net::ServerRequest> request, ResponderRef responder) {
      auto labels = std::make_shared<RequestLabels>();
      labels->set_method(request->method);
      responder = metrics_->counted(std::move(responder), labels);
      if (!options_.audit || is_health_path(request->path)) return handle(*request, responder, *labels, nullptr);
      auto record = record_of(*request);
      handle(*request, audited(runtime_, options_.audit, responder, record), *labels, record.get());
    };
    // A write that waits for the disk holds its thread; with enough of them a commit carries many writes.
    if (server_.is_durable()) {
      options_.server.handler_threads = std::max(options_.server.handler_threads, kDurableHandlerThreads);
    }
    BASALT_TRY(http_, net::start_http_server(runtime_, log_, options_.server, std::move(handler)));
    if (options_.advertised_address.empty()) {
      options_.advertised_address = options_.server.address + ":" + std::to_string(http_->port());
    }
    return Ok{};
  }

  [[nodiscard]] std::uint16_t port() const override { return http_->port(); }

  void stop() override {
    pump_.stop();
    if (http_) http_->stop(std::chrono::seconds(2));
    http_.reset();
  }

 private:
  [[nodiscard]] std::shared_ptr<AuditRecord> record_of(const net::ServerRequest& request) {
    auto record = std::make_shared<AuditRecord>();
    record->id = base::random_uuid([this] { return runtime_.random(); });
    record->uri = request.path + (request.query.empty() ? "" : "?" + request.query);
    record->user_agent = std::string(net::find_header(request.headers, "user-agent"));
    record->source_address = request.peer_address.substr(0, request.peer_address.rfind(':'));
    record->verb = base::to_lower_ascii(request.method);
    record->received = runtime_.wall_now();
    record->annotations = std::make_shared<AuditAnnotations>();
    return record;
  }

  void handle(const net::ServerRequest& request, const ResponderRef& responder, RequestLabels& labels,
              AuditRecord* record) {
    if (request.path.size() > kPathBytesMax) {
      return fail(*responder, bad_request("the path of the request is longer than " + std::to_string(kPathBytesMax)));
    }
    auto user = authenticator_.authenticate(request);
    if (!user.ok()) return fail(*responder, user.error());
    if (answer_open_path(request, *responder)) return;
    if (!*user) return fail(*responder, Error::make(Reason::Unauthorized, "Unauthorized"));
    if (record != nullptr) record->user = **user;
    auto acting = acting_user(server_, request, std::move(**user));
    if (!acting.ok()) return fail(*responder, acting.error());
    if (record != nullptr && acting->name != record->user->name) record->impersonated = *acting;
    RequestContext context{std::move(*acting), std::string(net::find_header(request.headers, "user-agent")), true,
                           record != nullptr ? record->annotations : nullptr};
    const auto path = parse_api_path(request.path);
    auto query = net::parse_query(request.query);
    if (!query.ok()) return fail(*responder, query.error());
    const AccessRequest access = access_of(request, path, *query, context.user);
    const auto type = path ? server_.types()->find(path->group, path->version, path->plural) : nullptr;
    if (type) {
      const std::string_view form = net::find_header(request.headers, "content-type");
      labels.set(*type, access, form.find("apply-patch") != std::string_view::npos,
                 net::find_parameter(*query, "dryRun").has_value());
    }
    const Done may = check_access(server_, access);
    if (record != nullptr) {
      record->verb = access.verb;
      record->path = path;
      record->is_allowed = may.ok();
    }
    if (!may.ok()) return fail(*responder, may.error());
    if (request.path == "/metrics" && request.method == "GET") {
      return responder->respond(200, {{"Content-Type", "text/plain; version=0.0.4; charset=utf-8"}},
                                metrics_->to_text(server_));
    }
    if (answer_document(request, *responder)) return;
    if (!path) return fail(*responder, no_such_resource());
    if (!path->subresource.empty()) {
      if (Done admitted = admit_connection(request, *path, *query, context, access); !admitted.ok())
        return fail(*responder, admitted.error());
      if (options_.connect && options_.connect({request, *path, *query, context.user}, responder)) return;
      if (is_connection(*path) || is_proxy(*path)) return fail(*responder, nobody_to_connect_to(*path));
    }
    if (request.method == "GET" && is_watch(*query)) return watch(request, *path, *query, context, responder);
    if (request.method == "GET" && path->name.empty()) return list(request, *path, *query, context, *responder);
    call(request, *path, *query, context, responder);
  }

  // A connection to a process needs what making something needs, whatever its method, and the consent of admission.
  Done admit_connection(const net::ServerRequest& http, const ApiPath& path, const net::Query& query,
                        const RequestContext& context, AccessRequest access) {
    if (!is_connection(path)) return Ok{};
    if (http.method != "GET" && http.method != "POST") return no_such_resource();
    access.verb = "create";
    BASALT_TRY_DONE(check_access(server_, access));
    auto* connections = dynamic_cast<Connections*>(&server_);
    if (connections == nullptr) return Ok{};
    kube::Request request;
    request.verb = kube::Verb::Get;
    request.resource = {path.group, path.version, path.plural};
    request.ns = path.ns;
    request.name = path.name;
    request.subresource = path.subresource;
    BASALT_TRY(const json::Value pod, connections->admit_connection(request, connect_options(path, query), context));
    const std::string_view phase = pod.string_at({"status", "phase"});
    if (phase == "Succeeded" || phase == "Failed")
      return Error::make(
          Reason::BadRequest,
          "cannot " + path.subresource + " into a container of a completed pod; its phase is " + std::string(phase));
    return Ok{};
  }

  // What anybody may ask: health and version.
  bool answer_open_path(const net::ServerRequest& request, net::Responder& responder) {
    const std::string_view path = request.path;
    if (const auto problem = path == "/readyz" && options_.problem ? options_.problem() : std::nullopt) {
      fail(responder, Error::make(Reason::InternalError, *problem));
      return true;
    }
    if (is_health_path(path)) {
      responder.respond(200, {{"Content-Type", "text/plain; charset=utf-8"}}, std::string("ok"));
      return true;
    }
    if (path != "/version" && path != "/version/") return false;
    const auto parts = base::split(std::string_view(options_.version).substr(1), '.');
    json::Value version = json::Object{{"buildDate", "1970-01-01T00:00:00Z"},
                                       {"compiler", "c++"},
                                       {"gitCommit", ""},
                                       {"gitTreeState", "clean"},
                                       {"gitVersion", options_.version + "+basalt"},
                                       {"goVersion", ""},
                                       {"major", parts.empty() ? std::string_view("1") : parts[0]},
                                       {"minor", parts.size() < 2 ? std::string_view("0") : parts[1]},
                                       {"platform", "linux/amd64"}};
    responder.respond(200, json_headers(), version.to_text());
    return true;
  }

  bool answer_document(const net::ServerRequest& request, net::Responder& responder) {
    if (request.method != "GET") return false;
    const std::string_view accept = net::find_header(request.headers, "accept");
    const auto types = server_.types();
    if (auto found = discovery_document(*types, request.path, accept, options_.advertised_address)) {
      responder.respond(200, {{"Content-Type", found->content_type}, {"Vary", "Accept"}}, std::move(found->body));
      return true;
    }
    auto document = openapi_.answer(request.path, accept, net::find_header(request.headers, "if-none-match"));
    if (!document.ok()) {
      fail(responder, document.error());
      return true;
    }
    if (!*document) return false;
    net::Headers headers = headers_of((*document)->content_type);
    headers.emplace_back("ETag", (*document)->tag);
    headers.emplace_back("Vary", "Accept");
    responder.respond((*document)->status, std::move(headers), std::move((*document)->body));
    return true;
  }

  static void fail(net::Responder& responder, const Error& error) {
    net::Headers headers = json_headers();
    if (error.retry_after) {
      const auto seconds = std::chrono::ceil<std::chrono::seconds>(*error.retry_after).count();
      headers.emplace_back("Retry-After", std::to_string(seconds));
    }
    const int code = error.code >= 400 ? error.code : 500;
    responder.respond(code, std::move(headers), kube::encode_status(error, error.subject));
  }

  void call(const net::ServerRequest& http, const ApiPath& path, const net::Query& query, const RequestContext& context,
            const ResponderRef& responder) {
    const auto type = server_.types()->find(path.group, path.version, path.plural);
    if (!type) return fail(*responder, no_such_resource());
    const bool converts = !type->is_virtual && (path.subresource.empty() || path.subresource == "status");
    const auto wish =
        negotiate(net::find_header(http.headers, "accept"),
                  {.converts = converts && http.method != "DELETE", .has_protobuf = has_protobuf_form(*type)});
    if (!wish.ok()) return fail(*responder, wish.error());
    if (wish->form == AnswerForm::MetadataList)
      return fail(*responder, not_acceptable_as("PartialObjectMetadataList", "not a list"));
    TableOptions options;
    if (wish->form == AnswerForm::Table) {
      auto found = table_options(query, *wish);
      if (!found.ok()) return fail(*responder, found.error());
      options = std::move(*found);
    }
    auto request = parse_call(http, path, query);
    if (!request.ok()) return fail(*responder, request.error());
    if (later_ != nullptr && request->verb != kube::Verb::Get) {
      // This thread goes on with the next request while the disk has this one.
      later_->call_later(*request, context, [responder, type, answer_as = *wish, options](const auto& response) {
        answer(*responder, *type, answer_as, options, response);
      });
      return;
    }
    auto response = server_.call(*request, context);
    answer(*responder, *type, *wish, options, response);
  }

  static void answer(net::Responder& responder, const ResourceType& type, const Answer& wish,
                     const TableOptions& options, const Result<kube::Response>& response) {
    if (!response.ok()) return fail(responder, response.error());
    if (wish.is_protobuf) {
      // What is done is done: an answer without a protobuf form is better sent as JSON than not at all.
      if (auto body = to_protobuf(*response->body); body.ok()) {
        return responder.respond(response->code, headers_of(proto::kMediaType, response->warnings), std::move(*body));
      }
    }
    if (wish.form == AnswerForm::Object)
      return responder.respond(response->code, json_headers(response->warnings), response->body);
    auto made = wish.form == AnswerForm::Table ? make_table(type, std::span(&response->body, 1), options)
                                               : make_metadata(*response->body, wish.version);
    if (!made.ok()) return fail(responder, made.error());
    responder.respond(response->code, json_headers(response->warnings), std::move(*made));
  }

  [[nodiscard]] Result<TableOptions> table_options(const net::Query& query, const Answer& wish) const {
    TableOptions options;
    const auto wanted = net::find_parameter(query, "includeObject");
    if (wanted && !wanted->empty()) {
      const auto known = std::find(std::begin(kIncludes), std::end(kIncludes), *wanted);
      if (known == std::end(kIncludes)) {
        return bad_request("Unable to convert to Table as requested: includeObject: Invalid value: " +
                           base::quote(*wanted) + ": must be 'Metadata', 'Object', 'None', or empty");
      }
      options.include_object = *known;
    }
    options.version = wish.version;
    options.now = api::Time::from(runtime_.wall_now());
    return options;
  }

  void list(const net::ServerRequest& http, const ApiPath& path, const net::Query& query, const RequestContext& context,
            net::Responder& responder) {
    auto request = parse_list(path, query);
    if (!request.ok()) return fail(responder, request.error());
    const auto type = server_.types()->find(path.group, path.version, path.plural);
    const auto wish =
        negotiate(net::find_header(http.headers, "accept"), {.has_protobuf = type && has_protobuf_form(*type)});
    if (!wish.ok()) return fail(responder, wish.error());
    if (wish->form == AnswerForm::Metadata)
      return fail(responder, not_acceptable_as("PartialObjectMetadata", "a list"));
    auto options = table_options(query, *wish);
    if (wish->form == AnswerForm::Table && !options.ok()) return fail(responder, options.error());
    auto page = server_.list(*request, context);
    if (!page.ok()) return fail_list(responder, page.error(), *request);
    if (!type) return fail(responder, no_such_resource());
    if (wish->form == AnswerForm::Table) {
      options->resource_version = page->resource_version;
      options->continue_token = page->continue_token;
      options->remaining_item_count = page->remaining_item_count;
      auto table = make_table(*type, page->items, *options);
      if (!table.ok()) return fail(responder, table.error());
      return responder.respond(200, json_headers(), std::move(*table));
    }
    send_list(*type, *page, *wish, responder);
  }

  // A list that cannot go on as it began can go on with what there is now: the answer says how.
  static void fail_list(net::Responder& responder, const Error& error, const kube::ListRequest& request) {
    auto token = ContinueToken::decode(request.continue_token);
    if (!error.is(Reason::Expired) || !token.ok()) return fail(responder, error);
    token->revision = ContinueToken::kNewest;
    auto status = json::Value::parse(kube::encode_status(error, error.subject));
    if (BASALT_BUG(!status.ok())) return fail(responder, error);
    status->ensure_path({"metadata", "continue"}) = token->encode();
    responder.respond(error.code, json_headers(), status->to_text());
  }

  static json::Value list_metadata(const kube::ListPage& page) {
    json::Object metadata{{"resourceVersion", page.resource_version}};
    if (!page.continue_token.empty()) metadata.set("continue", page.continue_token);
    if (page.remaining_item_count) metadata.set("remainingItemCount", *page.remaining_item_count);
    return metadata;
  }

  static std::string list_head(const ResourceType& type, const kube::ListPage& page, const Answer& wish) {
    const bool is_metadata = wish.form == AnswerForm::MetadataList;
    const std::string kind = is_metadata ? "PartialObjectMetadataList" : type.list_kind;
    const std::string version = is_metadata ? "meta.k8s.io/" + std::string(wish.version) : type.api_version();
    std::string text = "{\"kind\":" + base::quote(kind) + ",\"apiVersion\":" + base::quote(version);
    text.append(",\"metadata\":").append(list_metadata(page).to_text()).append(",\"items\":[");
    return text;
  }

  static void send_protobuf_list(const ResourceType& type, const kube::ListPage& page, net::Responder& responder) {
    auto body = proto::encode_list(type.api_version(), type.kind, list_metadata(page), page.items);
    if (!body.ok()) return fail(responder, body.error());
    responder.respond(200, headers_of(proto::kMediaType), std::move(*body));
  }

  static void send_list(const ResourceType& type, const kube::ListPage& page, const Answer& wish,
                        net::Responder& responder) {
    if (wish.is_protobuf) return send_protobuf_list(type, page, responder);
    const bool streamed = page.items.size() >= kStreamedItemsMin;
    std::string text = list_head(type, page, wish);
    if (streamed) responder.start(200, json_headers());
    for (std::size_t i = 0; i < page.items.size(); ++i) {
      if (i != 0) text.push_back(',');
      if (wish.form == AnswerForm::MetadataList) {
        auto made = make_metadata(*page.items[i], wish.version);
        text += made.ok() ? *made : "{}";
      } else if (type.crd_name.empty()) {
        text += without_type(*page.items[i], type);
      } else {
        text += *page.items[i];
      }
      if (streamed && text.size() >= kPieceBytes) {
        if (!responder.write(std::make_shared<const std::string>(std::move(text)))) return;
        text = {};
      }
    }
    text += "]}";
    if (!streamed) return responder.respond(200, json_headers(), std::move(text));
    responder.write(std::make_shared<const std::string>(std::move(text)));
    responder.finish();
  }

  void watch(const net::ServerRequest& http, const ApiPath& path, const net::Query& query,
             const RequestContext& context, const ResponderRef& responder) {
    auto request = parse_watch(path, query);
    if (!request.ok()) return fail(*responder, request.error());
    const auto type = server_.types()->find(path.group, path.version, path.plural);
    const auto wish =
        negotiate(net::find_header(http.headers, "accept"), {.has_protobuf = type && has_protobuf_form(*type)});
    if (!wish.ok()) return fail(*responder, wish.error());
    auto options = table_options(query, *wish);
    if (wish->form == AnswerForm::Table && !options.ok()) return fail(*responder, options.error());
    auto session = server_.watch(*request, context);
    if (!session.ok()) {
      if (!session.error().is(Reason::Expired)) return fail(*responder, session.error());
      // Clients know this one as an event of the watch.
      responder->start(200, stream_headers(*wish));
      responder->write(std::make_shared<const std::string>(error_frame(*wish, session.error())));
      return responder->finish();
    }
    WatchPump::Stream stream;
    stream.session = std::move(*session);
    stream.responder = responder;
    stream.type = type;
    if (!stream.type) return fail(*responder, no_such_resource());
    stream.answer = *wish;
    if (options.ok()) stream.include_object = std::string(options->include_object);
    // Without a wish of the client: half an hour to an hour, as kube-apiserver, so that watches do not all end at once.
    const rt::Duration timeout =
        request->timeout > rt::Duration::zero() ? request->timeout : runtime_.jitter(std::chrono::minutes(30), 1.0);
    stream.ends_at = runtime_.now() + timeout;
    responder->start(200, stream_headers(*wish));
    if (Done added = pump_.add(std::move(stream)); !added.ok()) {
      responder->write(std::make_shared<const std::string>(error_frame(*wish, added.error())));
      responder->finish();
    }
  }

  rt::Runtime& runtime_;
  Logger log_;
  ApiServer& server_;
  FrontOptions options_;
  LaterCalls* const later_;  // of the server; null if it has none
  Authenticator authenticator_;
  OpenApiEndpoint openapi_;
  const std::shared_ptr<RequestMetrics> metrics_;
  WatchPump pump_;
  std::unique_ptr<net::HttpServer> http_;
};

}  // namespace

Result<std::unique_ptr<Front>> Front::start(rt::Runtime& runtime, Logger log, ApiServer& server, FrontOptions options) {
  auto front = std::make_unique<FrontImpl>(runtime, std::move(log), server, std::move(options));
  BASALT_TRY_DONE(front->listen());
  return std::unique_ptr<Front>(std::move(front));
}

}  // namespace basalt::apiserver
