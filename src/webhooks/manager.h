#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "kube/client.h"
#include "kube/metrics.h"
#include "rt/runtime.h"
#include "rt/stop.h"
#include "webhooks/rule_context.h"

namespace basalt::webhooks {

// The flags of vc-webhook-manager, with its defaults, and ours (below the line).
struct WebhookManagerOptions {
  std::string tls_cert_file;         // --tls-cert-file
  std::string tls_private_key_file;  // --tls-private-key-file
  std::string ca_cert_file;          // --ca-cert-file: goes into the webhook configurations
  std::string listen_address;        // --listen-address; "" is every interface
  int port = 8443;                   // --port
  std::string webhook_namespace;     // --webhook-namespace
  std::string webhook_service_name;  // --webhook-service-name
  std::string webhook_url;           // --webhook-url; one of the three must be given
  std::string enabled_admission =    // --enabled-admission
      "/jobs/mutate,/jobs/validate,/podgroups/mutate,/pods/validate,/pods/mutate,/queues/mutate,/queues/validate";
  std::vector<std::string> scheduler_names{"volcano"};             // --scheduler-name
  std::string admission_conf;                                      // --admission-conf
  bool enable_healthz = false;                                     // --enable-healthz
  std::string healthz_address = ":11251";                          // --healthz-address
  rt::Duration graceful_shutdown_time = std::chrono::seconds(30);  // --graceful-shutdown-time
  bool enable_queue_allocated_pods_check = false;                  // --enable-queue-allocated-pods-check
  int max_queue_depth = 5;                                         // --max-queue-depth
  bool enable_root_queue_protection = true;                        // --enable-root-queue-protection
  bool scheduling_gates_queue_admission = false;                   // --feature-gates SchedulingGatesQueueAdmission

  // Ours.
  bool self_signed = false;        // make and renew certificates, kept in a Secret that replicas share
  std::string certificate_folder;  // where they are written; needed with self_signed
  std::string secret_name = "volcano-admission-secret";
  bool dry_run_templates = false;         // ask the API server about pod templates
  bool check_access = false;              // ask it whether the user may create such pods
  bool warn_of_priority_classes = false;  // watch them; needs the right to
  int handler_threads = 4;
  decltype(RuleOptions::binding_patch) binding_patch = {};  // for /resourcebindings/mutate
  kube::Metrics* metrics = nullptr;                         // also served on the health port
  std::function<void(std::uint16_t port)> on_listening;     // for tests, and for whoever asked for port 0
  std::function<void(std::uint16_t port)> on_health_listening;
};

// InvalidInput with everything that is wrong, in one message.
[[nodiscard]] Done check_options(const WebhookManagerOptions& options, bool only_make_secret = false);

// Serves until stopped. Watches the cluster, writes the authority into the webhook configurations and keeps it there,
// reads certificates and the resource-group file again when they change. After the stop running reviews end within
// `graceful_shutdown_time`. An error if it could not begin, or a configuration cannot be used.
Done run_webhook_manager(rt::Runtime& runtime, kube::Client& client, Logger log, const WebhookManagerOptions& options,
                         const rt::StopToken& stop);

// Makes or renews the Secret with the server's certificates and returns: what an installation's init job asks for.
// Waits for an API server that is away; an error if it refuses.
Done make_certificate_secret(rt::Runtime& runtime, kube::Client& client, Logger log,
                             const WebhookManagerOptions& options, const rt::StopToken& stop);

// ":11251", "127.0.0.1:0", "[::1]:80": address ("" for every interface) and port.
struct HostPort {
  std::string host;
  std::uint16_t port = 0;
};
[[nodiscard]] Result<HostPort> parse_host_port(std::string_view text);

}  // namespace basalt::webhooks
