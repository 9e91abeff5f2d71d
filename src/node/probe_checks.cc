// From a container's probes to what is asked over the network.
#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>

#include "base/strings.h"
#include "node/prober.h"

namespace basalt::node {
namespace {

std::optional<std::uint16_t> port_number(std::int64_t number) {
  if (number < 1 || number > 65535) return std::nullopt;
  return static_cast<std::uint16_t>(number);
}

Result<std::uint16_t> port_of(const api::IntOrString& port, const api::core::Container& container) {
  std::optional<std::uint16_t> found;
  if (port.is_int()) {
    found = port_number(port.int_value());
  } else {
    const auto named = std::ranges::find(container.ports, port.string_value(), &api::core::ContainerPort::name);
    if (named != container.ports.end()) {
      found = port_number(named->container_port);
    } else if (const auto number = base::parse_int64(port.string_value())) {
      found = port_number(*number);
    }
  }
  if (found) return *found;
  return Error::make(Reason::InvalidInput, "port " + base::quote(port.to_string()) +
                                               " is neither a number from 1 to 65535 nor the name of " +
                                               "one of the ports of container " + container.name);
}

// What may not stand in a URL is escaped; a fragment is not for servers.
std::string url_path(std::string_view path) {
  std::string text = path.starts_with('/') ? "" : "/";
  for (const char c : path.substr(0, path.find('#'))) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte > 0x20 && byte < 0x7f && c != '"' && c != '<' && c != '>') {
      text += c;
      continue;
    }
    std::array<char, 4> escaped{};
    std::snprintf(escaped.data(), escaped.size(), "%%%02X", static_cast<unsigned>(byte));
    text += escaped.data();
  }
  return text;
}

std::string host_or(const std::string& host, std::string_view pod_address) {
  if (!host.empty()) return host;
  return pod_address.empty() ? "127.0.0.1" : std::string(pod_address);  // of the machine's own network
}

Result<NetworkCheck> http_check(const api::core::HttpGetAction& action, const api::core::Container& container,
                                std::string_view pod_address) {
  BASALT_TRY(const std::uint16_t port, port_of(action.port, container));
  const std::string host = host_or(action.host, pod_address);
  const bool is_v6 = host.find(':') != std::string::npos && !host.starts_with('[');
  const std::string scheme = action.scheme.empty() ? "http" : base::to_lower_ascii(action.scheme);
  if (scheme != "http" && scheme != "https")
    return Error::make(Reason::InvalidInput, "scheme " + base::quote(action.scheme) + " is neither HTTP nor HTTPS");
  HttpCheck check;
  check.url = scheme + "://" + (is_v6 ? "[" + host + "]" : host) + ":" + std::to_string(port) + url_path(action.path);
  for (const api::core::HttpHeader& header : action.http_headers) check.headers.emplace_back(header.name, header.value);
  return NetworkCheck(std::move(check));
}

Result<NetworkCheck> grpc_check(const api::core::GrpcAction& action, std::string_view pod_address) {
  const auto port = port_number(action.port);
  if (!port) return Error::make(Reason::InvalidInput, "the port of the grpc probe is not a number from 1 to 65535");
  return NetworkCheck(GrpcCheck{host_or("", pod_address), *port, action.service});
}

}  // namespace

bool has_network_check(const api::core::Probe& probe) { return probe.http_get || probe.tcp_socket || probe.grpc; }

Result<NetworkCheck> network_check(const api::core::Probe& probe, const api::core::Container& container,
                                   std::string_view pod_address) {
  if (probe.http_get) return http_check(*probe.http_get, container, pod_address);
  if (probe.tcp_socket) {
    BASALT_TRY(const std::uint16_t port, port_of(probe.tcp_socket->port, container));
    return NetworkCheck(TcpCheck{host_or(probe.tcp_socket->host, pod_address), port});
  }
  if (probe.grpc) return grpc_check(*probe.grpc, pod_address);
  return Error::make(Reason::InvalidInput, "the probe asks nothing over the network");
}

}  // namespace basalt::node
