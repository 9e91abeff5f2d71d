#include "kube/status.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/strings.h"
#include "json/reader.h"
#include "json/writer.h"

namespace basalt::kube {
namespace {

// As much of a foreign body (a proxy's page) as helps in a message.
constexpr std::size_t kForeignBodyMax = 256;
// A server may send a cause for each field of a large object; nobody reads more.
constexpr std::size_t kCausesMax = 200;
// Longer wishes are cut: a mistake in one header must not park a client for a day.
constexpr std::int64_t kRetryAfterSecondsMax = 600;

constexpr std::string_view kRevisionTooLarge = "ResourceVersionTooLarge";

// For an answer whose body gives no reason: Kubernetes' own choice (apimachinery pkg/api/errors,
// NewGenericServerResponse).
Reason reason_of_code(int code) {
  switch (code) {
    case 400:
      return Reason::BadRequest;
    case 401:
      return Reason::Unauthorized;
    case 403:
      return Reason::Forbidden;
    case 404:
      return Reason::NotFound;
    case 405:
      return Reason::MethodNotAllowed;
    case 406:
      return Reason::NotAcceptable;
    case 409:
      return Reason::Conflict;
    case 410:
      return Reason::Gone;
    case 413:
      return Reason::RequestEntityTooLarge;
    case 415:
      return Reason::UnsupportedMediaType;
    case 422:
      return Reason::Invalid;
    case 429:
      return Reason::TooManyRequests;
    case 500:
      return Reason::InternalError;
    case 503:
      return Reason::ServiceUnavailable;
    case 504:
      return Reason::Timeout;
    default:
      return Reason::Unknown;
  }
}

Cause read_cause(json::Reader& reader) {
  Cause cause;
  std::string_view key;
  if (!reader.begin_object()) return cause;
  while (reader.next_member(key)) {
    if (key == "reason") {
      reader.read_string(cause.type);
    } else if (key == "message") {
      reader.read_string(cause.message);
    } else if (key == "field") {
      reader.read_string(cause.field);
    } else {
      reader.skip();
    }
  }
  return cause;
}

void read_details(json::Reader& reader, DecodedStatus& out, std::int64_t& retry_after_seconds) {
  std::string_view key;
  if (reader.consume_null() || !reader.begin_object()) return;
  while (reader.next_member(key)) {
    if (key == "name") {
      reader.read_string(out.subject.name);
    } else if (key == "group") {
      reader.read_string(out.subject.group);
    } else if (key == "kind") {
      reader.read_string(out.subject.kind);
    } else if (key == "uid") {
      reader.read_string(out.subject.uid);
    } else if (key == "retryAfterSeconds") {
      retry_after_seconds = reader.read_int64();
    } else if (key == "causes") {
      if (reader.consume_null() || !reader.begin_array()) continue;
      while (reader.next_element()) {
        Cause cause = read_cause(reader);
        if (out.error.causes.size() < kCausesMax) out.error.causes.push_back(std::move(cause));
      }
    } else {
      reader.skip();
    }
  }
}

struct Fields {
  std::string kind;
  std::string status;
  std::string reason;
  std::int64_t code = 0;
  std::int64_t retry_after_seconds = 0;
};

bool read_status(std::string_view body, DecodedStatus& out, Fields& fields) {
  json::Reader reader(body, {.keep_unknown = false});
  if (reader.peek() != json::Kind::Object || !reader.begin_object()) return false;
  std::string_view key;
  while (reader.next_member(key)) {
    if (key == "kind") {
      reader.read_string(fields.kind);
    } else if (key == "status" && reader.peek() == json::Kind::String) {
      reader.read_string(fields.status);
    } else if (key == "message") {
      reader.read_string(out.error.message);
    } else if (key == "reason") {
      reader.read_string(fields.reason);
    } else if (key == "code") {
      fields.code = reader.read_int64();
    } else if (key == "details") {
      read_details(reader, out, fields.retry_after_seconds);
    } else {
      reader.skip();
    }
  }
  return reader.finish().ok() && fields.kind == "Status";
}

std::optional<std::chrono::milliseconds> retry_after(std::int64_t seconds) {
  if (seconds <= 0) return std::nullopt;
  return std::chrono::seconds(std::min(seconds, kRetryAfterSecondsMax));
}

DecodedStatus foreign_answer(int http_code, std::string_view body) {
  DecodedStatus out;
  out.error.code = http_code;
  out.error.reason = reason_of_code(http_code);
  out.error.message = "the server answered with HTTP code " + std::to_string(http_code);
  if (const std::string_view text = base::trim(body); !text.empty()) {
    out.error.message += ": " + base::quote(base::ellipsize(text, kForeignBodyMax));
  }
  return out;
}

void write_details(json::Writer& writer, const Error& error, const StatusSubject& subject) {
  const bool has_retry = error.retry_after.has_value() && error.retry_after->count() > 0;
  // Present even if it is empty, as Kubernetes sends it: clients reach into it without looking.
  writer.key("details");
  writer.begin_object();
  const auto text = [&writer](std::string_view key, const std::string& value) {
    if (value.empty()) return;
    writer.key(key);
    writer.string(value);
  };
  text("name", subject.name);
  text("group", subject.group);
  text("kind", subject.kind);
  text("uid", subject.uid);
  if (!error.causes.empty()) {
    writer.key("causes");
    writer.begin_array();
    for (const Cause& cause : error.causes) {
      writer.begin_object();
      text("reason", cause.type);
      text("message", cause.message);
      text("field", cause.field);
      writer.end_object();
    }
    writer.end_array();
  }
  if (has_retry) {
    writer.key("retryAfterSeconds");
    writer.integer(std::chrono::ceil<std::chrono::seconds>(*error.retry_after).count());
  }
  writer.end_object();
}

void begin_status(json::Writer& writer, std::string_view status) {
  writer.begin_object();
  writer.key("kind");
  writer.string("Status");
  writer.key("apiVersion");
  writer.string("v1");
  writer.key("metadata");
  writer.raw("{}");
  writer.key("status");
  writer.string(status);
}

}  // namespace

DecodedStatus decode_status(int http_code, std::string_view body) {
  DecodedStatus out;
  Fields fields;
  if (!read_status(body, out, fields)) return foreign_answer(http_code, body);
  out.is_success = fields.status == "Success";
  out.error.code = fields.code != 0 ? static_cast<int>(std::clamp<std::int64_t>(fields.code, 0, 999)) : http_code;
  out.error.reason = fields.reason.empty() ? Reason::Unknown : reason_from_string(fields.reason);
  // Reasons that exist only on our side cannot come from a server.
  if (out.error.reason == Reason::Unknown || http_code_of(out.error.reason) == 0) {
    out.error.reason = reason_of_code(out.error.code);
  }
  out.error.retry_after = retry_after(fields.retry_after_seconds);
  if (out.error.message.empty() && !out.is_success) {
    out.error.message = "the server answered with HTTP code " + std::to_string(out.error.code);
  }
  return out;
}

Error error_from_answer(int http_code, std::string_view body, std::string_view retry_after_header) {
  Error error = decode_status(http_code, body).error;
  // The header may also hold a date; no API server sends one, so it is not worth a parser.
  const auto seconds = base::parse_int64(base::trim(retry_after_header));
  // "0" is a wish, too: try again at once.
  if (seconds && *seconds == 0 && !error.retry_after) error.retry_after = std::chrono::milliseconds(0);
  if (const auto wish = retry_after(seconds.value_or(0)); wish && wish > error.retry_after) error.retry_after = wish;
  return error;
}

std::string encode_status(const Error& error, const StatusSubject& subject) {
  const bool from_server = http_code_of(error.reason) != 0;
  int code = error.code;
  if (code == 0 || !from_server) code = from_server ? http_code_of(error.reason) : 500;
  std::string out;
  json::Writer writer(out);
  begin_status(writer, "Failure");
  writer.key("message");
  writer.string(error.message);
  const std::string_view reason = to_string(from_server ? error.reason : Reason::InternalError);
  if (!reason.empty()) {
    writer.key("reason");
    writer.string(reason);
  }
  write_details(writer, error, subject);
  writer.key("code");
  writer.integer(code);
  writer.end_object();
  return out;
}

std::string encode_success(const StatusSubject& subject) {
  std::string out;
  json::Writer writer(out);
  begin_status(writer, "Success");
  write_details(writer, Error(), subject);
  writer.end_object();
  return out;
}

bool is_revision_too_large(const Error& error) {
  return std::any_of(error.causes.begin(), error.causes.end(),
                     [](const Cause& cause) { return cause.type == kRevisionTooLarge; });
}

}  // namespace basalt::kube
