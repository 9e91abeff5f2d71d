#include "base/error.h"

#include <array>
#include <utility>

namespace basalt {
namespace {

struct ReasonInfo {
  Reason reason;
  std::string_view name;
  int code;
};

constexpr std::array kReasons = {
    ReasonInfo{Reason::Unknown, "", 500},
    ReasonInfo{Reason::BadRequest, "BadRequest", 400},
    ReasonInfo{Reason::Unauthorized, "Unauthorized", 401},
    ReasonInfo{Reason::Forbidden, "Forbidden", 403},
    ReasonInfo{Reason::NotFound, "NotFound", 404},
    ReasonInfo{Reason::MethodNotAllowed, "MethodNotAllowed", 405},
    ReasonInfo{Reason::NotAcceptable, "NotAcceptable", 406},
    ReasonInfo{Reason::AlreadyExists, "AlreadyExists", 409},
    ReasonInfo{Reason::Conflict, "Conflict", 409},
    ReasonInfo{Reason::Gone, "Gone", 410},
    ReasonInfo{Reason::Expired, "Expired", 410},
    ReasonInfo{Reason::RequestEntityTooLarge, "RequestEntityTooLarge", 413},
    ReasonInfo{Reason::UnsupportedMediaType, "UnsupportedMediaType", 415},
    ReasonInfo{Reason::Invalid, "Invalid", 422},
    ReasonInfo{Reason::TooManyRequests, "TooManyRequests", 429},
    ReasonInfo{Reason::InternalError, "InternalError", 500},
    ReasonInfo{Reason::ServiceUnavailable, "ServiceUnavailable", 503},
    ReasonInfo{Reason::ServerTimeout, "ServerTimeout", 500},
    ReasonInfo{Reason::Timeout, "Timeout", 504},
    ReasonInfo{Reason::StoreReadError, "StorageReadError", 500},
    ReasonInfo{Reason::Unreachable, "Unreachable", 0},
    ReasonInfo{Reason::ConnectionLost, "ConnectionLost", 0},
    ReasonInfo{Reason::DeadlineExceeded, "DeadlineExceeded", 0},
    ReasonInfo{Reason::Cancelled, "Cancelled", 0},
    ReasonInfo{Reason::InvalidInput, "InvalidInput", 0},
    ReasonInfo{Reason::ResponseTooLarge, "ResponseTooLarge", 0},
};

}  // namespace

std::string_view to_string(Reason reason) {
  for (const auto& info : kReasons) {
    if (info.reason == reason) return info.name;
  }
  return "";
}

Reason reason_from_string(std::string_view text) {
  for (const auto& info : kReasons) {
    if (info.name == text) return info.reason;
  }
  return Reason::Unknown;
}

int http_code_of(Reason reason) {
  for (const auto& info : kReasons) {
    if (info.reason == reason) return info.code;
  }
  return 500;
}

Error Error::make(Reason reason, std::string message) {
  Error error;
  error.reason = reason;
  error.code = http_code_of(reason);
  error.message = std::move(message);
  return error;
}

Error Error::with_context(std::string_view context) const {
  Error copy = *this;
  copy.message = std::string(context) + ": " + message;
  return copy;
}

bool Error::is_transient() const {
  switch (reason) {
    case Reason::TooManyRequests:
    case Reason::InternalError:
    case Reason::ServiceUnavailable:
    case Reason::ServerTimeout:
    case Reason::Timeout:
    case Reason::StoreReadError:
    case Reason::Unreachable:
    case Reason::ConnectionLost:
    case Reason::DeadlineExceeded:
      return true;
    case Reason::Unknown:
      return code >= 500 || code == 429;
    default:
      return false;
  }
}

bool Error::outcome_is_unknown() const {
  switch (reason) {
    case Reason::ConnectionLost:
    case Reason::DeadlineExceeded:
    case Reason::Cancelled:
    case Reason::ResponseTooLarge:
    case Reason::ServerTimeout:
    case Reason::Timeout:
    case Reason::InternalError:
    case Reason::StoreReadError:
      return true;
    case Reason::Unknown:
      return code == 0 || code >= 500;
    default:
      return false;
  }
}

std::string Error::to_string() const {
  std::string text(basalt::to_string(reason));
  if (text.empty()) text = "Unknown";
  if (code != 0) text += " (" + std::to_string(code) + ")";
  return text + ": " + message;
}

}  // namespace basalt
