#include "node/grpc_health.h"

#include <array>
#include <cstdint>

#include "base/strings.h"

namespace basalt::node {
namespace {

constexpr std::size_t kPrefixBytes = 5;  // of a message: compressed or not, and its length
constexpr std::size_t kReasonBytesMax = 256;

// A field of protobuf that holds a length: number 1, type 2.
std::string request_message(std::string_view service) {
  if (service.empty()) return "";
  std::string out = "\x0a";
  std::size_t length = service.size();
  for (; length >= 0x80; length >>= 7) out += static_cast<char>(0x80 | (length & 0x7f));
  out += static_cast<char>(length);
  out += service;
  return out;
}

std::string_view health_name(std::uint8_t status) {
  constexpr std::array<std::string_view, 4> kNames = {"UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"};
  return status < kNames.size() ? kNames[status] : "UNKNOWN";
}

std::string code_name(std::string_view code) {
  constexpr std::array<std::string_view, 17> kNames = {
      "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
      "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
      "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
      "DATA_LOSS", "UNAUTHENTICATED"};
  const auto number = base::parse_int64(code);
  if (number && *number >= 0 && *number < static_cast<std::int64_t>(kNames.size()))
    return std::string(kNames[static_cast<std::size_t>(*number)]);
  return "status " + base::quote(code);
}

CheckResult failed(std::string why) { return {Verdict::Failed, std::move(why)}; }

// Behind the body, or in front if there is none.
std::string_view find_either(const net::HttpResponse& answer, std::string_view name) {
  const std::string_view behind = net::find_header(answer.trailers, name);
  return behind.empty() ? net::find_header(answer.headers, name) : behind;
}

CheckResult result_of_message(std::string_view service, std::string_view body) {
  if (body.size() < kPrefixBytes) return failed("the server answered without a message");
  if (body[0] != '\0') return failed("the server answered with a compressed message");
  std::size_t length = 0;
  for (std::size_t i = 1; i < kPrefixBytes; ++i) length = length << 8 | static_cast<std::uint8_t>(body[i]);
  if (body.size() != kPrefixBytes + length) return failed("the server answered with a message that has another length");
  // Field 1, a number that fits one byte; left out if it is 0.
  const std::string_view message = body.substr(kPrefixBytes);
  const std::uint8_t status =
      message.size() >= 2 && message[0] == '\x08' ? static_cast<std::uint8_t>(message[1]) : std::uint8_t{0};
  if (status == 1) return {Verdict::Passed, ""};
  return failed("service " + base::quote(service) + " is unhealthy: it responded with " +
                std::string(health_name(status)));
}

}  // namespace

std::string grpc_health_request(std::string_view service) {
  const std::string message = request_message(service);
  std::string out(1, '\0');
  for (int i = 3; i >= 0; --i) out += static_cast<char>(message.size() >> (8 * i) & 0xff);
  return out + message;
}

CheckResult grpc_health_result(std::string_view service, const net::HttpResponse& answer) {
  if (answer.status != 200)
    return failed("the server answered with status " + std::to_string(answer.status) + " of HTTP: it is none of gRPC");
  const std::string_view code = find_either(answer, "grpc-status");
  if (code == "12") return failed("the server does not offer grpc.health.v1.Health");
  if (code == "5") return failed("the server does not know service " + base::quote(service));
  if (!code.empty() && code != "0") {
    const std::string_view reason = find_either(answer, "grpc-message");
    return failed("the health check ended with " + code_name(code) +
                  (reason.empty() ? "" : ": " + base::ellipsize(reason, kReasonBytesMax)));
  }
  return result_of_message(service, answer.body);
}

}  // namespace basalt::node
