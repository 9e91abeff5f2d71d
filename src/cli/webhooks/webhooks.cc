#include "cli/webhooks/webhooks.h"

#include <memory>
#include <ostream>
#include <utility>

#include "base/strings.h"
#include "cli/cli.h"
#include "cli/go_flags.h"
#include "cli/roles.h"
#include "controllers/datadependency/claim_caches.h"
#include "kube/metrics.h"
#include "rt/real_runtime.h"
#include "rt/signals.h"
#include "webhooks/manager.h"

namespace basalt::cli {
namespace {

// What vc-webhook-manager ends with when its flags, files or port cannot be used.
constexpr int kExitUnusable = 255;

struct WebhooksFlags {
  RoleFlags role;
  webhooks::WebhookManagerOptions manager;
  std::int32_t port = 8443;
  std::int32_t queue_depth = 5;
  std::int32_t handler_threads = 4;
  api::Duration grace{std::chrono::seconds(30)};
  bool only_make_secret = false;
};

Done set_gates(webhooks::WebhookManagerOptions& options, std::string_view text) {
  for (const std::string_view entry : base::split(text, ',')) {
    if (base::trim(entry).empty()) continue;
    const auto parts = base::split_once(entry, '=');
    if (!parts) return Error::invalid_input("expected NAME=true or NAME=false, found " + base::quote(entry));
    const std::string value = base::to_lower_ascii(base::trim(parts->second));
    if (value != "true" && value != "false") {
      return Error::invalid_input("the gate " + base::quote(base::trim(parts->first)) + " takes true or false, not " +
                                  base::quote(value));
    }
    // Gates of the other programs are accepted: one list is often given to all of them.
    if (base::trim(parts->first) == "SchedulingGatesQueueAdmission") {
      options.scheduling_gates_queue_admission = value == "true";
    }
  }
  return Ok{};
}

void add_flags(GoFlags& flags, WebhooksFlags& target) {
  webhooks::WebhookManagerOptions& manager = target.manager;
  flags.section("Admission");
  flags.text("enabled-admission", manager.enabled_admission, "paths that are served, with commas between", "PATHS");
  flags.repeated("scheduler-name", manager.scheduler_names,
                 "schedulers whose pods are ours (repeatable); the first is the default of jobs", "NAME");
  flags.text("admission-conf", manager.admission_conf, "file of resource groups for pods; read again when it changes",
             "FILE");
  flags.number("max-queue-depth", target.queue_depth, "deepest queue below root");
  flags.truth("enable-root-queue-protection", manager.enable_root_queue_protection,
              "refuse changes of the root queue's resources");
  flags.truth("enable-queue-allocated-pods-check", manager.enable_queue_allocated_pods_check,
              "refuse to delete a queue that has allocated pods");
  flags.custom("feature-gates", "switches, such as SchedulingGatesQueueAdmission=true", "NAME=BOOL,...",
               [&manager](std::string_view value) { return set_gates(manager, value); });
  flags.truth("dry-run-templates", manager.dry_run_templates,
              "ask the API server, with a dry run, whether it would take the pods of a new job");
  flags.truth("check-access", manager.check_access,
              "refuse jobs of users who may not create pods or use the service account themselves");
  flags.truth("warn-priority-classes", manager.warn_of_priority_classes,
              "warn of priority classes that do not exist (watches them)");
  flags.section("Server");
  flags.text("listen-address", manager.listen_address, "address to listen on; every one if not given", "ADDRESS");
  flags.number("port", target.port, "port to listen on");
  flags.text("tls-cert-file", manager.tls_cert_file, "certificate; read again when it changes", "FILE");
  flags.text("tls-private-key-file", manager.tls_private_key_file, "its key", "FILE");
  flags.text("ca-cert-file", manager.ca_cert_file, "authority that goes into the webhook configurations", "FILE");
  flags.text("webhook-namespace", manager.webhook_namespace, "namespace of the service that API servers call", "NAME");
  flags.text("webhook-service-name", manager.webhook_service_name, "name of that service", "NAME");
  flags.text("webhook-url", manager.webhook_url, "accepted; one of these three must be given", "URL");
  flags.number("handler-threads", target.handler_threads, "threads that review");
  flags.duration("graceful-shutdown-time", target.grace, "how long running reviews may take after a stop signal");
  flags.section("Own certificates");
  flags.truth(
      "self-signed", manager.self_signed,
      "make the certificates and renew them; replicas share them in a Secret. Takes the place of the three files");
  flags.text("certificate-folder", manager.certificate_folder, "folder that they are written to", "FOLDER");
  flags.text("secret-name", manager.secret_name, "name of the Secret in --webhook-namespace", "NAME");
  flags.truth("only-make-secret", target.only_make_secret, "make or renew the Secret and end");
  flags.section("Health and metrics");
  flags.truth("enable-healthz", manager.enable_healthz, "serve /healthz, /livez, /readyz and /metrics over HTTPS");
  flags.text("healthz-address", manager.healthz_address, "where", "[ADDRESS]:PORT");
  add_role_flags(flags, target.role);
}

int fail(Invocation& invocation, const Error& error, int code) {
  invocation.err << invocation.program << ": " << error.message << "\n";
  return code;
}

int serve(Invocation& invocation, WebhooksFlags& flags) {
  rt::block_stop_signals();
  const auto runtime = rt::make_real_runtime();
  const Logger log = make_role_logger(flags.role);
  kube::Metrics metrics;
  flags.manager.metrics = &metrics;
  auto client = connect_role(*runtime, log, flags.role, "vc-webhook-manager", &metrics);
  if (!client.ok()) return fail(invocation, client.error(), kExitFailed);
  // Only a server that is asked about bindings watches claims: elsewhere their kinds need not exist.
  std::unique_ptr<controllers::datadependency::ClaimCaches> claims;
  if (!flags.only_make_secret &&
      flags.manager.enabled_admission.find("/resourcebindings/mutate") != std::string::npos) {
    claims = std::make_unique<controllers::datadependency::ClaimCaches>(*runtime, **client, log);
    flags.manager.binding_patch = [&claims = *claims](const json::Value& binding, const json::Value* before) {
      return claims.patch_for(binding, before);
    };
    claims->start();
  }
  const int code = run_until_signal(*runtime, [&](const rt::StopToken& stop) {
    const Done ended = flags.only_make_secret
                           ? webhooks::make_certificate_secret(*runtime, **client, log, flags.manager, stop)
                           : webhooks::run_webhook_manager(*runtime, **client, log, flags.manager, stop);
    if (ended.ok()) return kExitOk;
    return fail(invocation, ended.error(), ended.error().is(Reason::InvalidInput) ? kExitUnusable : kExitFailed);
  });
  if (claims) claims->stop();
  return code;
}

}  // namespace

int run_webhooks(Invocation& invocation) {
  WebhooksFlags target;
  GoFlags flags(invocation.program, "Serves the admission reviews of Volcano's API to Kubernetes API servers.");
  add_flags(flags, target);
  if (const auto code = flags.parse_or_exit(invocation.arguments, invocation.out, invocation.err)) return *code;
  if (target.role.print_version) {
    print_role_version(invocation.out);
    return kExitOk;
  }
  target.manager.port = target.port;
  target.manager.max_queue_depth = target.queue_depth;
  target.manager.handler_threads = target.handler_threads;
  target.manager.graceful_shutdown_time = target.grace.value;
  if (target.only_make_secret) target.manager.self_signed = true;
  if (Done checked = webhooks::check_options(target.manager, target.only_make_secret); !checked.ok()) {
    return fail(invocation, checked.error(), kExitUnusable);
  }
  return serve(invocation, target);
}

}  // namespace basalt::cli
