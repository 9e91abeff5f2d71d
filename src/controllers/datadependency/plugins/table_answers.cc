#include "controllers/datadependency/plugins/table_answers.h"

#include <algorithm>
#include <array>
#include <map>

#include "base/strings.h"
#include "controllers/datadependency/plugins/md5.h"
#include "json/reader.h"
#include "json/value.h"

namespace basalt::controllers::datadependency {
namespace {

constexpr std::int64_t kRetryAfterSecondsMax = 60;
constexpr std::array<std::string_view, 3> kNotFoundTypes = {"NoSuchTableException", "NoSuchNamespaceException",
                                                            "ObjectNotExistsException"};

TableAnswer failure(ResolutionKind kind, std::string message) { return {kind, "", std::move(message), {}}; }

TableAnswer unanswered(const Error& error) {
  // What libcurl says of certificates is the operator's business; the rest may pass.
  const bool is_tls =
      error.message.find("certificate") != std::string::npos || error.message.find("SSL") != std::string::npos;
  if (is_tls) return failure(ResolutionKind::Misconfigured, "the server's certificate is not trusted");
  if (error.is(Reason::ResponseTooLarge))
    return failure(ResolutionKind::Malformed, "the server's answer is larger than we read");
  if (error.is(Reason::DeadlineExceeded))
    return failure(ResolutionKind::Unavailable, "the server did not answer in time");
  if (error.is(Reason::ConnectionLost))
    return failure(ResolutionKind::Unavailable, "the server broke the connection off");
  return failure(ResolutionKind::Unavailable, "the server cannot be reached");
}

rt::Duration retry_after(const net::HttpResponse& response) {
  const auto seconds = base::parse_int64(net::find_header(response.headers, "retry-after"));
  if (!seconds || *seconds <= 0) return {};
  return std::chrono::seconds(std::min(*seconds, kRetryAfterSecondsMax));
}

// Only the strings that are needed, whatever else the document holds and however large it is.
struct Locations {
  std::string table;     // metadata.location
  std::string metadata;  // metadata-location
  bool is_wrong = false;
};

std::string text_or_mark(json::Reader& reader, bool& is_wrong) {
  std::string text;
  if (reader.peek() == json::Kind::String) {
    reader.read_string(text);
  } else {
    is_wrong = !reader.consume_null();
    if (is_wrong) reader.skip();
  }
  return text;
}

TableAnswer found(std::string location) { return {ResolutionKind::Found, std::move(location), "", {}}; }

TableAnswer of_code(const net::HttpResponse& response) {
  const int code = response.status;
  const std::string said = "the server answered " + std::to_string(code);
  if (code == 401 || code == 403) return failure(ResolutionKind::Denied, said + ": our credentials are not accepted");
  if (code == 419 || code == 429 || code >= 500) {
    TableAnswer answer = failure(ResolutionKind::Unavailable, said);
    answer.retry_after = retry_after(response);
    return answer;
  }
  if (code == 400 || code == 406 || code == 422)
    return failure(ResolutionKind::Unsupported, said + ": it cannot serve this catalog");
  if (code >= 300 && code < 400)
    return failure(ResolutionKind::Misconfigured, said + ": a redirection is not followed");
  return failure(ResolutionKind::Misconfigured, said + ": is endpoint.url right?");
}

}  // namespace

TableAnswer read_iceberg_answer(const Result<net::HttpResponse>& answer) {
  if (!answer.ok()) return unanswered(answer.error());
  if (answer->status == 404) {
    const auto body = json::Value::parse(answer->body);
    const std::string_view type = body.ok() ? body->string_at({"error", "type"}) : std::string_view();
    if (std::ranges::find(kNotFoundTypes, type) != kNotFoundTypes.end())
      return failure(ResolutionKind::NotFound, "there is no such table");
    return failure(ResolutionKind::Misconfigured,
                   "the server answered 404 and not in the form of an Iceberg catalog: is endpoint.url right?");
  }
  if (answer->status != 200) return of_code(*answer);
  Locations locations;
  json::Reader reader(answer->body);
  if (reader.begin_object()) {
    std::string_view key;
    while (reader.next_member(key)) {
      if (key == "metadata-location") {
        locations.metadata = text_or_mark(reader, locations.is_wrong);
      } else if (key == "metadata" && reader.peek() == json::Kind::Object) {
        if (!reader.begin_object()) break;
        std::string_view inner;
        while (reader.next_member(inner)) {
          if (inner == "location") {
            locations.table = text_or_mark(reader, locations.is_wrong);
          } else {
            reader.skip();
          }
        }
      } else {
        reader.skip();
      }
    }
  }
  if (!reader.ok() || locations.is_wrong)
    return failure(ResolutionKind::Malformed, "the server's answer is not the description of a table");
  if (!locations.table.empty()) return found(std::move(locations.table));
  if (const std::size_t cut = locations.metadata.rfind("/metadata/"); cut != std::string::npos)
    return found(locations.metadata.substr(0, cut));
  return failure(ResolutionKind::Malformed, "the server's answer names no location of the table");
}

TableAnswer read_catalog_config(const Result<net::HttpResponse>& answer) {
  if (!answer.ok()) return unanswered(answer.error());
  if (answer->status != 200) return of_code(*answer);
  const auto body = json::Value::parse(answer->body);
  const bool is_config = body.ok() && body->find("overrides") != nullptr && body->find("defaults") != nullptr;
  if (!is_config)
    return failure(ResolutionKind::Malformed, "the server's answer is not the configuration of a catalog");
  const std::string_view prefix = body->string_at({"overrides", "prefix"});
  return found(std::string(prefix.empty() ? body->string_at({"defaults", "prefix"}) : prefix));
}

TableAnswer read_dashboard_answer(const Result<net::HttpResponse>& answer) {
  if (!answer.ok()) return unanswered(answer.error());
  if (answer->status == 404)
    return failure(ResolutionKind::Misconfigured, "the server has no such path: is endpoint.url right?");
  if (answer->status != 200) return of_code(*answer);
  const auto body = json::Value::parse(answer->body);
  const json::Value* code = body.ok() ? body->find("code") : nullptr;
  if (code == nullptr || !code->is_int())
    return failure(ResolutionKind::Malformed, "the server's answer is not one of a dashboard");
  if (code->as_int() == 403) return failure(ResolutionKind::Denied, "the dashboard does not accept our credentials");
  if (code->as_int() != 200)
    return failure(ResolutionKind::Unavailable, "the dashboard answered code " + std::to_string(code->as_int()));
  const std::string_view location = body->string_at({"result", "baseLocation"});
  if (location.empty())
    return failure(ResolutionKind::Unsupported, "the dashboard knows no location of this kind of table");
  return found(std::string(location));
}

Result<TableName> parse_table_name(std::string_view name) {
  const auto parts = base::split(name, '.');
  const bool is_whole =
      parts.size() == 3 && std::ranges::none_of(parts, [](std::string_view part) { return part.empty(); });
  if (!is_whole) return Error::invalid_input("the name " + base::quote(name) + " is not catalog.database.table");
  return TableName{std::string(parts[0]), std::string(parts[1]), std::string(parts[2])};
}

std::string amoro_signature(std::string_view api_key, std::string_view secret,
                            const std::vector<std::pair<std::string, std::string>>& query, std::string_view date) {
  // Of a key that comes more than once the smallest value that is not blank counts.
  std::map<std::string, std::string> smallest;
  for (const auto& [key, value] : query) {
    if (key == "apiKey" || key == "signature" || base::trim(value).empty()) continue;
    const auto [at, is_new] = smallest.try_emplace(key, value);
    if (!is_new) at->second = std::min(at->second, value);
  }
  std::string middle;
  for (const auto& [key, value] : smallest) middle += key + value;
  if (middle.empty()) middle = date;
  return md5_hex(std::string(api_key) + middle + std::string(secret));
}

}  // namespace basalt::controllers::datadependency
