#include "webhooks/manager.h"

#include <atomic>
#include <set>

#include "base/strings.h"
#include "kube/health_server.h"
#include "net/certificates.h"
#include "webhooks/certificate_keeper.h"
#include "webhooks/fields.h"
#include "webhooks/live_view.h"
#include "webhooks/registration.h"
#include "webhooks/resource_groups.h"
#include "webhooks/server.h"
#include "webhooks/template_probes.h"

namespace basalt::webhooks {
namespace {

constexpr std::size_t kFileBytesMax = 1u << 20;
constexpr auto kTick = std::chrono::seconds(1);
// Configurations that were applied again lose their authority; until it is back nothing of ours can be created.
constexpr auto kRegistrationPeriod = std::chrono::seconds(30);
constexpr auto kCertificatePeriod = std::chrono::minutes(10);

bool is_enabled(const std::vector<const Hook*>& hooks, std::string_view path) {
  return std::any_of(hooks.begin(), hooks.end(), [&](const Hook* hook) { return hook->path == path; });
}

// An API server that is away now is no reason to end.
Done refresh_patiently(rt::Runtime& runtime, const Logger& log, CertificateKeeper& keeper, const rt::StopToken& stop) {
  while (true) {
    Done done = keeper.refresh(stop);
    if (done.ok()) return done;
    if (!done.error().is_transient() && !done.error().is(Reason::Conflict)) return done;
    log.warn("certificates are not there yet", {{"error", done.error()}});
    if (stop.wait_for(runtime, kTick)) return done;
  }
}

CertificateKeeperOptions keeper_options(const WebhookManagerOptions& options) {
  return {.ns = options.webhook_namespace,
          .service = options.webhook_service_name,
          .secret = options.secret_name,
          .folder = options.certificate_folder};
}

// Everything that is alive while the server serves.
class Manager {
 public:
  Manager(rt::Runtime& runtime, kube::Client& client, Logger log, const WebhookManagerOptions& options,
          std::vector<const Hook*> hooks)
      : runtime_(runtime),
        client_(client),
        log_(std::move(log)),
        options_(options),
        hooks_(std::move(hooks)),
        rules_(rule_options(options)),
        view_(runtime, client, log_,
              {.watch_namespaces = is_enabled(hooks_, "/podgroups/mutate"),
               .watch_priority_classes = options.warn_of_priority_classes}),
        keeper_(runtime, client, log_, keeper_options(options)),
        dry_run_(runtime, client, log_),
        access_(runtime, client),
        context_{rules_, view_, options.admission_conf.empty() ? nullptr : &groups_, {}} {
    if (options.dry_run_templates) context_.template_probes.push_back(&dry_run_);
    if (options.check_access) context_.template_probes.push_back(&access_);
  }

  Done run(const rt::StopToken& stop) {
    BASALT_TRY_DONE(prepare_certificates(stop));
    read_resource_groups();
    BASALT_TRY_DONE(start_health());
    view_.start();
    const Done done = view_.wait_synced(stop) ? serve(stop) : Done(Ok{});
    view_.stop();
    if (health_) health_->stop();
    return done;
  }

 private:
  static RuleOptions rule_options(const WebhookManagerOptions& options) {
    RuleOptions rules;
    rules.scheduler_names = options.scheduler_names;
    rules.queue_depth_max = options.max_queue_depth;
    rules.root_queue_is_protected = options.enable_root_queue_protection;
    rules.queue_with_pods_is_kept = options.enable_queue_allocated_pods_check;
    rules.binding_patch = options.binding_patch;
    rules.scheduling_gates_queue_admission = options.scheduling_gates_queue_admission;
    return rules;
  }

  [[nodiscard]] net::TlsServerOptions tls() const {
    if (options_.self_signed) {
      return {.certificate_file = keeper_.certificate_file(), .key_file = keeper_.key_file()};
    }
    net::TlsServerOptions tls;
    tls.certificate_file = options_.tls_cert_file;
    tls.key_file = options_.tls_private_key_file;
    tls.client_ca_pem = ca_pem_;  // a client's certificate is verified if it sends one
    return tls;
  }

  Done prepare_certificates(const rt::StopToken& stop) {
    if (!options_.self_signed) {
      BASALT_TRY(ca_pem_, net::read_file(options_.ca_cert_file, kFileBytesMax));
      BASALT_TRY_DONE(net::check_certificates(ca_pem_));
      net::KeyPair pair;
      BASALT_TRY(pair.certificate_pem, net::read_file(options_.tls_cert_file, kFileBytesMax));
      BASALT_TRY(pair.key_pem, net::read_file(options_.tls_private_key_file, kFileBytesMax));
      return net::check_key_pair(pair);
    }
    BASALT_TRY_DONE(refresh_patiently(runtime_, log_, keeper_, stop));
    ca_pem_ = keeper_.ca_pem();
    return Ok{};
  }

  Done start_health() {
    if (!options_.enable_healthz) return Ok{};
    BASALT_TRY(HostPort address, parse_host_port(options_.healthz_address));
    kube::HealthServerOptions health;
    health.address = address.host.empty() ? "0.0.0.0" : address.host;
    health.port = address.port;
    health.tls = tls();
    health.tls->client_ca_pem.clear();
    health.metrics = options_.metrics;
    std::vector<kube::HealthCheck> checks;
    checks.push_back({"informers-synced", [this]() -> Done {
                        if (view_.has_synced()) return Ok{};
                        return Error::make(Reason::ServiceUnavailable, "the queues are not known yet");
                      }});
    checks.push_back({"ca-registered", [this]() -> Done {
                        if (is_registered_.load(std::memory_order_acquire)) return Ok{};
                        return Error::make(Reason::ServiceUnavailable,
                                           "the authority is not in all webhook configurations yet");
                      }});
    BASALT_TRY(health_, kube::HealthServer::start(runtime_, log_, std::move(health), std::move(checks)));
    if (options_.on_health_listening) options_.on_health_listening(health_->port());
    return Ok{};
  }

  Done serve(const rt::StopToken& stop) {
    WebhookServerOptions server_options;
    server_options.port = static_cast<std::uint16_t>(options_.port);
    server_options.tls = tls();
    server_options.hooks = hooks_;
    server_options.handler_threads = options_.handler_threads;
    server_options.metrics = options_.metrics;
    // Every interface: both families where the machine has both.
    server_options.address = options_.listen_address.empty() ? "::" : options_.listen_address;
    auto server = WebhookServer::start(runtime_, log_, server_options, context_);
    if (!server.ok() && options_.listen_address.empty()) {
      server_options.address = "0.0.0.0";
      server = WebhookServer::start(runtime_, log_, server_options, context_);
    }
    if (!server.ok()) return std::move(server).error();
    log_.info("admission server listens", {{"port", (*server)->port()}, {"hooks", hooks_.size()}});
    if (options_.on_listening) options_.on_listening((*server)->port());
    while (true) {
      look_after(stop);
      if (stop.wait_for(runtime_, kTick)) break;
    }
    (*server)->stop(options_.graceful_shutdown_time);
    return Ok{};
  }

  // Whatever may have changed since the last tick.
  void look_after(const rt::StopToken& stop) {
    const rt::Instant now = runtime_.now();
    read_resource_groups();
    if (options_.self_signed) {
      if (now >= next_certificates_) {
        next_certificates_ = now + kCertificatePeriod;
        if (const Done done = keeper_.refresh(stop); !done.ok()) {
          log_.warn("certificates could not be looked after", {{"error", done.error()}});
        }
      }
      set_ca(keeper_.ca_pem());
    } else if (auto pem = net::read_file(options_.ca_cert_file, kFileBytesMax);
               pem.ok() && net::check_certificates(*pem).ok()) {
      set_ca(*pem);
    }
    if (now >= next_registration_ || !is_registered_.load(std::memory_order_acquire)) register_all(stop);
  }

  void set_ca(const std::string& pem) {
    if (pem == ca_pem_) return;
    ca_pem_ = pem;
    is_registered_.store(false, std::memory_order_release);
  }

  void register_all(const rt::StopToken& stop) {
    next_registration_ = runtime_.now() + kRegistrationPeriod;
    bool all = true;
    for (const Hook* hook : hooks_) {
      const auto done = register_ca_bundle(client_, *hook, ca_pem_, stop);
      if (done.ok()) {
        complained_.erase(hook);
        if (*done) log_.info("the authority is registered", {{"configuration", hook->configuration_name()}});
        continue;
      }
      if (done.error().is(Reason::Cancelled)) return;
      all = false;
      // Once per configuration, not once per second.
      if (complained_.insert(hook).second) {
        log_.warn("the authority is not registered, so this hook cannot be called",
                  {{"configuration", hook->configuration_name()}, {"error", done.error()}});
      }
      // An API server that is away is not asked for every one of them.
      if (done.error().is_transient()) break;
    }
    is_registered_.store(all, std::memory_order_release);
  }

  void read_resource_groups() {
    if (options_.admission_conf.empty()) return;
    const auto text = net::read_file(options_.admission_conf, kFileBytesMax);
    const std::string content = text.ok() ? *text : "unreadable: " + text.error().message;
    if (content == groups_text_) return;
    groups_text_ = content;
    const Done done = text.ok() ? groups_.replace(*text) : Done(text.error());
    if (done.ok()) {
      log_.info("resource groups were read", {{"file", options_.admission_conf}});
    } else {
      log_.warn("resource groups stay as they were: the file cannot be used",
                {{"file", options_.admission_conf}, {"error", done.error()}});
    }
  }

  rt::Runtime& runtime_;
  kube::Client& client_;
  const Logger log_;
  const WebhookManagerOptions& options_;
  const std::vector<const Hook*> hooks_;
  const RuleOptions rules_;
  InformerClusterView view_;
  CertificateKeeper keeper_;
  DryRunProbe dry_run_;
  AccessProbe access_;
  ResourceGroups groups_;
  RuleContext context_;
  std::unique_ptr<kube::HealthServer> health_;
  std::atomic<bool> is_registered_{false};

  // Used by run() only.
  std::string ca_pem_;
  std::string groups_text_;
  rt::Instant next_registration_{};
  rt::Instant next_certificates_{};
  std::set<const Hook*> complained_;
};

}  // namespace

Result<HostPort> parse_host_port(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  const auto port = colon == std::string_view::npos ? std::nullopt : base::parse_uint64(text.substr(colon + 1));
  if (!port || *port > 65535) {
    return Error::invalid_input("address " + shown(text) + " is not host:port with a port from 0 to 65535");
  }
  std::string_view host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return HostPort{std::string(host), static_cast<std::uint16_t>(*port)};
}

Done check_options(const WebhookManagerOptions& options, bool only_make_secret) {
  std::string problems;
  const auto add = [&problems](std::string_view problem) {
    problems.append(problems.empty() ? "" : "; ").append(problem);
  };
  const bool may_be_any = only_make_secret || options.on_listening;
  if (options.port < 0 || options.port > 65535 || (options.port == 0 && !may_be_any)) {
    add("--port " + std::to_string(options.port) + " is not between 1 and 65535");
  }
  if (options.webhook_namespace.empty() && options.webhook_service_name.empty() && options.webhook_url.empty()) {
    add("one of --webhook-namespace, --webhook-service-name and --webhook-url must be given");
  }
  if (options.self_signed) {
    if (options.webhook_namespace.empty() || options.webhook_service_name.empty()) {
      add("certificates of our own need --webhook-namespace and --webhook-service-name: they are made for that name");
    }
    if (options.certificate_folder.empty() && !only_make_secret)
      add("certificates of our own need a folder to be written to");
  } else if (options.tls_cert_file.empty() || options.tls_private_key_file.empty() || options.ca_cert_file.empty()) {
    add("--tls-cert-file, --tls-private-key-file and --ca-cert-file must all be given");
  }
  if (options.max_queue_depth < 1) add("--max-queue-depth must be at least 1");
  if (options.handler_threads < 1 || options.handler_threads > 256) add("handler threads must be between 1 and 256");
  if (const auto hooks = select_hooks(options.enabled_admission); !hooks.ok()) add(hooks.error().message);
  if (options.enable_healthz) {
    if (const auto address = parse_host_port(options.healthz_address); !address.ok()) {
      add("--healthz-address: " + address.error().message);
    }
  }
  if (!problems.empty()) return Error::invalid_input(std::move(problems));
  return Ok{};
}

Done make_certificate_secret(rt::Runtime& runtime, kube::Client& client, Logger log,
                             const WebhookManagerOptions& options, const rt::StopToken& stop) {
  BASALT_TRY_DONE(check_options(options, true));
  CertificateKeeper keeper(runtime, client, log, keeper_options(options));
  return refresh_patiently(runtime, log, keeper, stop);
}

Done run_webhook_manager(rt::Runtime& runtime, kube::Client& client, Logger log, const WebhookManagerOptions& options,
                         const rt::StopToken& stop) {
  BASALT_TRY_DONE(check_options(options));
  BASALT_TRY(std::vector<const Hook*> hooks, select_hooks(options.enabled_admission));
  Manager manager(runtime, client, std::move(log), options, std::move(hooks));
  return manager.run(stop);
}

}  // namespace basalt::webhooks
