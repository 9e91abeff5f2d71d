#pragma once

#include <string>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "kube/client.h"
#include "rt/runtime.h"
#include "rt/stop.h"

namespace basalt::webhooks {

struct CertificateKeeperOptions {
  std::string ns;       // of the server and the Secret
  std::string service;  // the name that API servers call
  std::string secret = "volcano-admission-secret";
  std::string folder;  // where the server reads tls.crt and tls.key; made if absent; "": no files are written
  // An authority lasts; the server's certificate is renewed when a third of its life is left.
  rt::Duration authority_lifetime = std::chrono::hours(24 * 3650);
  rt::Duration certificate_lifetime = std::chrono::hours(24 * 365);
};

// Makes the server's certificates and keeps them in a Secret that all replicas share, so that one authority goes into
// the webhook configurations. Whoever writes first wins; the others take what is there. When the authority itself ages,
// the new one is added beside the old one, so that certificates of both are trusted meanwhile. One thread.
class CertificateKeeper {
 public:
  CertificateKeeper(rt::Runtime& runtime, kube::Client& client, Logger log, CertificateKeeperOptions options);

  // Reads the Secret, makes or renews what is needed, writes the files if they changed. Call at start and from time to
  // time. An error leaves the files as they are.
  Done refresh(const rt::StopToken& stop);
  // Authorities to be trusted, as PEM; "" before the first success.
  [[nodiscard]] const std::string& ca_pem() const { return ca_pem_; }
  [[nodiscard]] std::string certificate_file() const { return options_.folder + "/tls.crt"; }
  [[nodiscard]] std::string key_file() const { return options_.folder + "/tls.key"; }

  // The content of the Secret: PEM texts.
  struct Material {
    std::string certificate;
    std::string key;
    std::string authorities;  // the newest first
    std::string authority_key;
  };
  // Names that the server's certificate bears.
  [[nodiscard]] static std::vector<std::string> dns_names(const std::string& service, const std::string& ns);

 private:
  // Whether something is missing, does not fit, or is about to end.
  [[nodiscard]] bool needs_authority(const Material& material) const;
  [[nodiscard]] bool needs_certificate(const Material& material) const;
  Done renew(Material& material) const;
  Done write_files(const Material& material);

  rt::Runtime& runtime_;
  kube::Client& client_;
  const Logger log_;
  const CertificateKeeperOptions options_;
  std::string ca_pem_;
  std::string written_;  // what the files hold
};

}  // namespace basalt::webhooks
