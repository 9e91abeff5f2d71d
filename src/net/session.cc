#include "net/session.h"

#include <algorithm>

#include "base/strings.h"

namespace basalt::net {

bool split_target(std::string_view target, ServerRequest& request) {
  // A client may send the whole URL, as it would to a proxy; what counts is the path.
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!target.starts_with(scheme)) continue;
    target.remove_prefix(scheme.size());
    const std::size_t path = target.find_first_of("/?");
    target = path == std::string_view::npos ? std::string_view("/") : target.substr(path);
    break;
  }
  const std::size_t question = target.find('?');
  request.path = target.substr(0, question);
  request.query = question == std::string_view::npos ? "" : std::string(target.substr(question + 1));
  if (request.path == "*") return request.method == "OPTIONS";
  return request.path.starts_with('/');
}

bool is_sendable_header(std::string_view name) {
  for (const std::string_view framing : {"Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive", "Date"}) {
    if (base::equals_ignore_case_ascii(name, framing)) return false;
  }
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return base::is_alphanumeric(c) || std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  });
}

std::string sendable_header_value(std::string_view value) {
  std::string out(value);
  std::replace_if(out.begin(), out.end(), [](char c) { return c == '\r' || c == '\n' || c == '\0'; }, ' ');
  return out;
}

std::string_view reason_phrase(int status) {
  switch (status) {
    case 100:
      return "Continue";
    case 101:
      return "Switching Protocols";
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 202:
      return "Accepted";
    case 204:
      return "No Content";
    case 301:
      return "Moved Permanently";
    case 302:
      return "Found";
    case 304:
      return "Not Modified";
    case 307:
      return "Temporary Redirect";
    case 308:
      return "Permanent Redirect";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 406:
      return "Not Acceptable";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 410:
      return "Gone";
    case 411:
      return "Length Required";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 422:
      return "Unprocessable Content";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 502:
      return "Bad Gateway";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Status";
  }
}

const Headers& refusal_headers(int status) {
  static const Headers plain = {{"Content-Type", "text/plain"}};
  static const Headers later = {{"Retry-After", "1"}, {"Content-Type", "text/plain"}};
  return status == 429 ? later : plain;
}

std::string refusal_text(int status) {
  switch (status) {
    case 400:
      return "The request cannot be understood.\n";
    case 408:
      return "The request did not arrive in time.\n";
    case 413:
      return "The request's body is too large.\n";
    case 429:
      return "Too many requests are waiting; try again later.\n";
    case 431:
      return "The request's header is too large.\n";
    default:
      return std::string(reason_phrase(status)) + ".\n";
  }
}

}  // namespace basalt::net
