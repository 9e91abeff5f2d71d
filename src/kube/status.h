#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

// The one conversion between Error and the Kubernetes Status object.

namespace basalt::kube {

// What a Status says it is about (Status.details).
using StatusSubject = ErrorSubject;

struct DecodedStatus {
  bool is_success = false;  // `status: Success`, the answer to some deletes; `error` says nothing then
  Error error;
  StatusSubject subject;
};

// Reads an answer with an HTTP code of 400 or more, or an ERROR event of a watch. A body that is no Status (a proxy's
// page) gives the reason that belongs to the code and the start of the body as message. Never fails. The resource
// version that is too old or too large shows as Expired and Timeout.
[[nodiscard]] DecodedStatus decode_status(int http_code, std::string_view body);
// The error alone; retry_after is the larger of the body's and the header's (seconds; "" if there was none).
[[nodiscard]] Error error_from_answer(int http_code, std::string_view body, std::string_view retry_after_header);

// The Status object as a server sends it. Errors without a code (Unreachable, ...) become 500 InternalError: a server
// that could not reach something says so in its message.
[[nodiscard]] std::string encode_status(const Error& error, const StatusSubject& subject = {});
// `status: Success`, as a delete answers.
[[nodiscard]] std::string encode_success(const StatusSubject& subject);

// True for the failure of a get or watch at a revision that the server has not reached yet (cause
// ResourceVersionTooLarge): after a restore from a backup it never will, so a reader starts over.
[[nodiscard]] bool is_revision_too_large(const Error& error);

}  // namespace basalt::kube
