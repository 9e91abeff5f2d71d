#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace basalt {

// Why a call failed, spelled as Kubernetes spells it in Status.reason, plus the failures that have no Status because
// no server answered. The conversion from and to Status is in kube/status.h and nowhere else.
enum class Reason : std::uint8_t {
  Unknown,
  BadRequest,             // 400
  Unauthorized,           // 401
  Forbidden,              // 403
  NotFound,               // 404
  MethodNotAllowed,       // 405
  NotAcceptable,          // 406
  AlreadyExists,          // 409
  Conflict,               // 409
  Gone,                   // 410
  Expired,                // 410, for a resource version that is too old
  RequestEntityTooLarge,  // 413
  UnsupportedMediaType,   // 415
  Invalid,                // 422
  TooManyRequests,        // 429
  InternalError,          // 500
  ServiceUnavailable,     // 503
  ServerTimeout,          // 504 (Kubernetes sends 500 or 504)
  Timeout,                // 504
  StoreReadError,         // 500
  // Without an answer from a server:
  Unreachable,       // could not connect: the request was certainly not carried out
  ConnectionLost,    // the connection broke: the request may or may not have been carried out
  DeadlineExceeded,  // our own deadline passed: the request may or may not have been carried out
  Cancelled,         // we were asked to stop
  InvalidInput,      // a file, flag or document that we were given cannot be used
  ResponseTooLarge,  // an answer went over our limit
};

[[nodiscard]] std::string_view to_string(Reason reason);
// Unknown for a text that is not a reason.
[[nodiscard]] Reason reason_from_string(std::string_view text);
// The HTTP code that Kubernetes uses for this reason; 0 where no server answered.
[[nodiscard]] int http_code_of(Reason reason);

// One field's complaint, as in Status.details.causes.
struct Cause {
  std::string type;  // FieldValueRequired, FieldValueInvalid, ...
  std::string message;
  std::string field;  // spec.tasks[0].name
  bool operator==(const Cause&) const = default;
};

// The object that an error is about, as in Status.details. All empty if it is about none.
struct ErrorSubject {
  std::string name;
  std::string group;
  std::string kind;  // servers put the plural here for most errors, the kind for validation errors
  std::string uid;
  bool operator==(const ErrorSubject&) const = default;
};

// An expected failure, as a value. `message` is a full sentence that names the object, the field, what was wrong and,
// where we know it, what to do. Context is added while passing up (`with_context`); it is logged once, where handled.
struct Error {
  Reason reason = Reason::Unknown;
  int code = 0;  // HTTP code, 0 if no server answered
  std::string message;
  std::vector<Cause> causes;
  ErrorSubject subject;
  std::optional<std::chrono::milliseconds> retry_after;  // the server's wish

  static Error make(Reason reason, std::string message);
  static Error invalid_input(std::string message) { return make(Reason::InvalidInput, std::move(message)); }

  [[nodiscard]] Error with_context(std::string_view context) const;  // "context: message"
  // True if the same call may succeed later without anybody changing it (429, 5xx, no answer).
  [[nodiscard]] bool is_transient() const;
  // True if the write may have taken effect although we saw a failure.
  [[nodiscard]] bool outcome_is_unknown() const;
  [[nodiscard]] bool is(Reason r) const { return reason == r; }
  [[nodiscard]] std::string to_string() const;  // "NotFound (404): message"
};

}  // namespace basalt
