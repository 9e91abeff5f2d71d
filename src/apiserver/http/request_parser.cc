#include "apiserver/http/request_parser.h"

#include <algorithm>

#include "apiserver/proto/decode.h"
#include "apiserver/registry/errors.h"
#include "base/strings.h"
#include "json/value.h"
#include "yaml/reader.h"

namespace basalt::apiserver {
namespace {

std::string text_parameter(const net::Query& query, std::string_view name) {
  return std::string(net::find_parameter(query, name).value_or(std::string_view()));
}

bool flag_parameter(const net::Query& query, std::string_view name) {
  const auto value = net::find_parameter(query, name);
  return value && (*value == "true" || *value == "1" || value->empty());
}

Result<std::optional<std::int64_t>> number_parameter(const net::Query& query, std::string_view name) {
  const auto value = net::find_parameter(query, name);
  if (!value || value->empty()) return std::optional<std::int64_t>();
  const auto number = base::parse_int64(*value);
  if (!number) {
    return bad_request("the query parameter " + std::string(name) + " must be a number, not " + base::quote(*value));
  }
  return std::optional(*number);
}

kube::Resource resource_of(const ApiPath& path) { return {path.group, path.version, path.plural}; }

std::string_view media_type(const net::ServerRequest& http) {
  const std::string_view header = net::find_header(http.headers, "content-type");
  return base::trim(header.substr(0, header.find(';')));
}

Result<kube::PatchType> patch_type_of(std::string_view type) {
  if (type == "application/json-patch+json") return kube::PatchType::Json;
  if (type == "application/merge-patch+json") return kube::PatchType::Merge;
  if (type == "application/strategic-merge-patch+json") return kube::PatchType::StrategicMerge;
  if (type == "application/apply-patch+yaml") return kube::PatchType::Apply;
  return Error::make(Reason::UnsupportedMediaType,
                     "the body of the request was in an unknown format - accepted media types include: "
                     "application/json-patch+json, application/merge-patch+json, "
                     "application/strategic-merge-patch+json, application/apply-patch+yaml");
}

// A field that stands twice is named as Kubernetes' YAML reader does: clients look for it.
Error yaml_error(const std::string& problem) {
  constexpr std::string_view kDuplicate = ": duplicate key ";
  const std::size_t at = problem.find(kDuplicate);
  if (!problem.starts_with("line ") || at == std::string::npos) {
    return bad_request("the body of the request is not YAML: " + problem);
  }
  const std::string key = problem.substr(at + kDuplicate.size(), problem.find(", first") - at - kDuplicate.size());
  return bad_request("error converting YAML to JSON: yaml: unmarshal errors:\n  " +
                     problem.substr(0, problem.find(',')) + ": key " + key + " already set in map");
}

Result<std::string> json_body(const net::ServerRequest& http) {
  const std::string_view type = media_type(http);
  if (type == "application/yaml" || type == "application/apply-patch+yaml") {
    auto value = yaml::read(http.body);
    if (!value.ok()) return yaml_error(value.error().message);
    return value->to_text();
  }
  if (type == proto::kMediaType) {
    BASALT_TRY(const json::Value value, proto::decode_object(http.body));
    return value.to_text();
  }
  const bool is_json = type.empty() || type == "application/json" || type.ends_with("+json");
  if (!is_json) {
    return Error::make(Reason::UnsupportedMediaType,
                       "the body of the request was in an unknown format - accepted media types include: "
                       "application/json, application/yaml, application/vnd.kubernetes.protobuf");
  }
  return http.body;
}

Done set_propagation(std::string_view policy, kube::Request& request) {
  if (policy == "Background") {
    request.propagation = kube::Propagation::Background;
  } else if (policy == "Foreground") {
    request.propagation = kube::Propagation::Foreground;
  } else if (policy == "Orphan") {
    request.propagation = kube::Propagation::Orphan;
  } else if (!policy.empty()) {
    return bad_request("DeleteOptions.propagationPolicy: Unsupported value: " + base::quote(policy) +
                       ": supported values: \"Background\", \"Foreground\", \"Orphan\"");
  }
  return Ok{};
}

// Delete options come in the query, in the body, or both; the body wins.
Done read_delete_options(const net::ServerRequest& http, const net::Query& query, kube::Request& request) {
  BASALT_TRY(request.grace_period_seconds, number_parameter(query, "gracePeriodSeconds"));
  BASALT_TRY_DONE(set_propagation(text_parameter(query, "propagationPolicy"), request));
  if (flag_parameter(query, "orphanDependents")) request.propagation = kube::Propagation::Orphan;
  if (http.body.empty()) return Ok{};
  BASALT_TRY(const std::string body, json_body(http));
  auto options = json::Value::parse(body);
  if (!options.ok() || !options->is_object()) return bad_request("the delete options are not a JSON object");
  if (const json::Value* grace = options->find("gracePeriodSeconds"); grace != nullptr && grace->is_int()) {
    request.grace_period_seconds = grace->as_int();
  }
  BASALT_TRY_DONE(set_propagation(options->string_at({"propagationPolicy"}), request));
  if (const json::Value* orphan = options->find("orphanDependents"); orphan != nullptr && orphan->is_bool()) {
    request.propagation = orphan->as_bool() ? kube::Propagation::Orphan : kube::Propagation::Background;
  }
  request.precondition_uid = std::string(options->string_at({"preconditions", "uid"}));
  request.precondition_resource_version = std::string(options->string_at({"preconditions", "resourceVersion"}));
  if (const json::Value* dry = options->find("dryRun"); dry != nullptr && dry->is_array() && !dry->as_array().empty()) {
    request.dry_run = true;
  }
  return Ok{};
}

Result<kube::Verb> verb_of(const net::ServerRequest& http, const ApiPath& path) {
  if (http.method == "GET") return kube::Verb::Get;
  if (http.method == "POST") return kube::Verb::Create;
  if (http.method == "PUT") return kube::Verb::Update;
  if (http.method == "PATCH") return kube::Verb::Patch;
  if (http.method == "DELETE") return path.name.empty() ? kube::Verb::DeleteCollection : kube::Verb::Delete;
  return Error::make(Reason::MethodNotAllowed, "the server does not allow this method on the requested resource");
}

}  // namespace

bool is_watch(const net::Query& query) { return net::find_parameter(query, "watch") && flag_parameter(query, "watch"); }

Result<kube::Request> parse_call(const net::ServerRequest& http, const ApiPath& path, const net::Query& query) {
  kube::Request request;
  BASALT_TRY(request.verb, verb_of(http, path));
  request.resource = resource_of(path);
  request.ns = path.ns;
  request.name = path.name;
  request.subresource = path.subresource;
  request.resource_version = text_parameter(query, "resourceVersion");
  request.field_manager = text_parameter(query, "fieldManager");
  request.field_validation = text_parameter(query, "fieldValidation");
  if (request.field_validation.empty()) request.field_validation = "Warn";  // what Kubernetes does for HTTP clients
  constexpr std::string_view kModes[] = {"Ignore", "Warn", "Strict"};
  if (std::find(std::begin(kModes), std::end(kModes), request.field_validation) == std::end(kModes)) {
    return bad_request("fieldValidation: Unsupported value: " + base::quote(request.field_validation) +
                       ": supported values: \"Ignore\", \"Strict\", \"Warn\"");
  }
  request.force = flag_parameter(query, "force");
  const std::string dry_run = text_parameter(query, "dryRun");
  if (!dry_run.empty() && dry_run != "All") {
    return bad_request("dryRun: Unsupported value: " + base::quote(dry_run) + ": supported values: \"All\"");
  }
  request.dry_run = dry_run == "All";
  request.label_selector = text_parameter(query, "labelSelector");
  request.field_selector = text_parameter(query, "fieldSelector");
  if (request.verb == kube::Verb::Patch) {
    BASALT_TRY(request.patch_type, patch_type_of(media_type(http)));
  }
  if (request.verb == kube::Verb::Delete || request.verb == kube::Verb::DeleteCollection) {
    BASALT_TRY_DONE(read_delete_options(http, query, request));
  } else if (request.verb != kube::Verb::Get) {
    BASALT_TRY(request.body, json_body(http));
  }
  return request;
}

Result<kube::ListRequest> parse_list(const ApiPath& path, const net::Query& query) {
  kube::ListRequest request;
  request.resource = resource_of(path);
  request.ns = path.ns;
  request.label_selector = text_parameter(query, "labelSelector");
  request.field_selector = text_parameter(query, "fieldSelector");
  request.resource_version = text_parameter(query, "resourceVersion");
  request.resource_version_match = text_parameter(query, "resourceVersionMatch");
  request.continue_token = text_parameter(query, "continue");
  BASALT_TRY(const auto limit, number_parameter(query, "limit"));
  request.limit = limit.value_or(0);
  return request;
}

Result<kube::WatchRequest> parse_watch(const ApiPath& path, const net::Query& query) {
  kube::WatchRequest request;
  request.resource = resource_of(path);
  request.ns = path.ns;
  request.label_selector = text_parameter(query, "labelSelector");
  request.field_selector = text_parameter(query, "fieldSelector");
  if (!path.name.empty()) {
    request.field_selector += (request.field_selector.empty() ? "" : ",") + ("metadata.name=" + path.name);
  }
  request.resource_version = text_parameter(query, "resourceVersion");
  request.allow_bookmarks = flag_parameter(query, "allowWatchBookmarks");
  request.send_initial_events =
      net::find_parameter(query, "sendInitialEvents") && flag_parameter(query, "sendInitialEvents");
  const std::string match = text_parameter(query, "resourceVersionMatch");
  if (request.send_initial_events && match != "NotOlderThan") {
    return invalid_options(forbidden_field("resourceVersionMatch",
                                           "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"));
  }
  BASALT_TRY(const auto timeout, number_parameter(query, "timeoutSeconds"));
  if (timeout) request.timeout = std::chrono::seconds(std::max<std::int64_t>(*timeout, 0));
  if (!timeout || *timeout == 0) request.timeout = rt::Duration::zero();  // the server chooses
  return request;
}

}  // namespace basalt::apiserver
