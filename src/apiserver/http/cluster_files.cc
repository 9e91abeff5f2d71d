#include "apiserver/http/cluster_files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <sys/stat.h>

#include "base/encoding.h"
#include "base/strings.h"
#include "json/value.h"
#include "yaml/writer.h"

namespace basalt::apiserver {
namespace {

constexpr std::size_t kFileBytesMax = 1u << 20;
constexpr rt::Duration kAuthorityLife = std::chrono::hours(24 * 3650);
constexpr rt::Duration kLeafLife = std::chrono::hours(24 * 365);
// A certificate with less than this left is made anew at start.
constexpr rt::Duration kRenewBefore = std::chrono::hours(24 * 30);
constexpr std::size_t kTokenBytes = 32;

Done make_folder(const std::string& path) {
  std::error_code problem;
  std::filesystem::create_directories(path, problem);
  if (problem) return Error::invalid_input("cannot make the folder " + path + ": " + problem.message());
  if (chmod(path.c_str(), 0700) != 0) {
    return Error::invalid_input("cannot protect the folder " + path + ": " + std::strerror(errno));
  }
  return Ok{};
}

class Keeper {
 public:
  Keeper(rt::Runtime& runtime, std::string folder) : runtime_(runtime), pki_(std::move(folder) + "/pki") {}

  Result<net::KeyPair> authority() {
    net::CertificateOptions options;
    options.subject.common_name = "basalt-ca";
    set_life(options, kAuthorityLife);
    return kept("ca", [&] { return net::make_authority(options); }, {});
  }

  Result<net::KeyPair> server(const net::KeyPair& authority, const std::string& address) {
    net::CertificateOptions options;
    options.subject.common_name = "kube-apiserver";
    options.dns_names = {"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
                         "kubernetes.default.svc.cluster.local"};
    options.ip_addresses = {"127.0.0.1", "::1"};
    if (address != "127.0.0.1" && address != "::1" && address != "0.0.0.0" && address != "::") {
      options.ip_addresses.push_back(address);
    }
    options.is_for_servers = true;
    set_life(options, kLeafLife);
    return kept("server", [&] { return net::issue_certificate(authority, options); }, options.ip_addresses);
  }

  Result<net::KeyPair> admin(const net::KeyPair& authority) {
    net::CertificateOptions options;
    options.subject.common_name = "kubernetes-admin";
    options.subject.organizations = {"system:masters"};
    options.is_for_clients = true;
    set_life(options, kLeafLife);
    return kept("admin", [&] { return net::issue_certificate(authority, options); }, {});
  }

 private:
  void set_life(net::CertificateOptions& options, rt::Duration life) const {
    options.not_before = runtime_.wall_now() - std::chrono::hours(1);  // clocks differ
    options.not_after = runtime_.wall_now() + life;
  }

  // The pair in the files if it is whole, fresh and names the addresses; otherwise a new one, written there.
  template <class Make>
  Result<net::KeyPair> kept(const std::string& name, Make make, const std::vector<std::string>& addresses) {
    const std::string certificate_path = pki_ + "/" + name + ".crt";
    const std::string key_path = pki_ + "/" + name + ".key";
    auto certificate = net::read_file(certificate_path, kFileBytesMax);
    auto key = net::read_file(key_path, kFileBytesMax);
    if (certificate.ok() && key.ok()) {
      net::KeyPair pair{std::move(*certificate), std::move(*key)};
      if (is_usable(pair, addresses)) return pair;
    }
    BASALT_TRY(net::KeyPair pair, make());
    BASALT_TRY_DONE(net::write_file_atomically(key_path, pair.key_pem, 0600));
    BASALT_TRY_DONE(net::write_file_atomically(certificate_path, pair.certificate_pem, 0644));
    return pair;
  }

  [[nodiscard]] bool is_usable(const net::KeyPair& pair, const std::vector<std::string>& addresses) const {
    if (!net::check_key_pair(pair).ok()) return false;
    auto info = net::read_certificate(pair.certificate_pem);
    if (!info.ok() || info->not_after < runtime_.wall_now() + kRenewBefore) return false;
    for (const std::string& address : addresses) {
      if (std::find(info->ip_addresses.begin(), info->ip_addresses.end(), address) == info->ip_addresses.end()) {
        return false;
      }
    }
    return true;
  }

  rt::Runtime& runtime_;
  std::string pki_;
};

Result<std::string> kept_token(rt::Runtime& runtime, const std::string& path) {
  if (auto read = net::read_file(path, 4096); read.ok()) {
    std::string token(base::trim(*read));
    if (token.size() >= kTokenBytes) return token;
  }
  std::string bytes;
  while (bytes.size() < kTokenBytes) bytes.push_back(static_cast<char>(runtime.random() & 0xFF));
  std::string token = base::hex_encode(bytes);
  BASALT_TRY_DONE(net::write_file_atomically(path, token + "\n", 0600));
  return token;
}

}  // namespace

Result<ClusterFiles> open_cluster_files(rt::Runtime& runtime, const std::string& folder, const std::string& address) {
  BASALT_TRY_DONE(make_folder(folder));
  BASALT_TRY_DONE(make_folder(folder + "/pki"));
  ClusterFiles files;
  files.folder = folder;
  Keeper keeper(runtime, folder);
  BASALT_TRY(files.authority, keeper.authority());
  BASALT_TRY(files.server, keeper.server(files.authority, address));
  BASALT_TRY(files.admin, keeper.admin(files.authority));
  BASALT_TRY(files.admin_token, kept_token(runtime, folder + "/pki/admin.token"));
  BASALT_TRY(files.service_token_key, kept_token(runtime, folder + "/pki/sa.key"));
  if (auto port = net::read_file(folder + "/port", 64); port.ok()) {
    const auto number = base::parse_uint64(base::trim(*port));
    if (number && *number < 65536) files.port = static_cast<std::uint16_t>(*number);
  }
  return files;
}

Done write_kubeconfig(const ClusterFiles& files, const std::string& server_url, std::uint16_t port) {
  const json::Value config = json::Object{
      {"apiVersion", "v1"},
      {"kind", "Config"},
      {"current-context", "basalt"},
      {"clusters",
       json::Array{json::Object{{"name", "basalt"},
                                {"cluster", json::Object{{"certificate-authority-data",
                                                          base::base64_encode(files.authority.certificate_pem)},
                                                         {"server", server_url}}}}}},
      {"contexts", json::Array{json::Object{{"name", "basalt"},
                                            {"context", json::Object{{"cluster", "basalt"}, {"user", "admin"}}}}}},
      {"users", json::Array{json::Object{
                    {"name", "admin"},
                    {"user", json::Object{{"client-certificate-data", base::base64_encode(files.admin.certificate_pem)},
                                          {"client-key-data", base::base64_encode(files.admin.key_pem)}}}}}}};
  BASALT_TRY_DONE(net::write_file_atomically(files.kubeconfig_path(), yaml::write(config), 0600));
  return net::write_file_atomically(files.folder + "/port", std::to_string(port) + "\n", 0644);
}

}  // namespace basalt::apiserver
