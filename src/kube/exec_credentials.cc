#include <optional>
#include <utility>

#include "api/time.h"
#include "base/encoding.h"
#include "base/strings.h"
#include "json/reader.h"
#include "json/writer.h"
#include "kube/credentials.h"

namespace basalt::kube {
namespace {

// A credential is renewed this long before it expires, so that none expires on its way.
constexpr rt::Duration kRenewEarly = std::chrono::seconds(10);
// After a failure the program is not run again for this long, whatever the number of callers.
constexpr rt::Duration kFailurePause = std::chrono::seconds(2);

struct ExecStatus {
  std::string api_version;
  std::string kind;
  std::string token;
  std::string certificate;
  std::string key;
  std::string expires;
};

void read_exec_status(json::Reader& reader, ExecStatus& out) {
  std::string_view key;
  if (reader.consume_null() || !reader.begin_object()) return;
  while (reader.next_member(key)) {
    if (reader.consume_null()) continue;
    if (key == "token") {
      reader.read_string(out.token);
    } else if (key == "clientCertificateData") {
      reader.read_string(out.certificate);
    } else if (key == "clientKeyData") {
      reader.read_string(out.key);
    } else if (key == "expirationTimestamp") {
      reader.read_string(out.expires);
    } else {
      reader.skip();
    }
  }
}

Result<ExecStatus> read_exec_credential(std::string_view text) {
  ExecStatus out;
  json::Reader reader(text, {.keep_unknown = false});
  if (reader.begin_object()) {
    std::string_view key;
    while (reader.next_member(key)) {
      if (key == "apiVersion") {
        reader.read_string(out.api_version);
      } else if (key == "kind") {
        reader.read_string(out.kind);
      } else if (key == "status") {
        read_exec_status(reader, out);
      } else {
        reader.skip();
      }
    }
  }
  if (Done done = reader.finish(); !done.ok()) return std::move(done).error();
  return out;
}

class ExecCredentials final : public Credentials {
 public:
  ExecCredentials(rt::Runtime& runtime, ExecConfig config, std::optional<ClusterInfo> cluster, ProcessRunner runner)
      : runtime_(runtime),
        config_(std::move(config)),
        cluster_(std::move(cluster)),
        runner_(std::move(runner)),
        ended_(runtime) {}

  Result<Credential> get(const rt::StopToken& stop) override {
    {
      // Of many callers one runs the program, the others wait for it.
      const rt::MutexLock lock(mutex_);
      while (is_running_) ended_.wait(mutex_);
      if (cached_ && runtime_.wall_now() < expires_) return *cached_;
      if (failure_ && runtime_.now() < pause_until_) return *failure_;
      is_running_ = true;
    }
    rt::WallTime expires = rt::WallTime::max();
    Result<Credential> made = run(stop, expires);
    const rt::MutexLock lock(mutex_);
    is_running_ = false;
    ended_.notify_all();
    if (made.ok()) {
      cached_ = *made;
      expires_ = expires;
      failure_.reset();
    } else if (!made.error().is(Reason::Cancelled)) {
      failure_ = made.error();
      pause_until_ = runtime_.now() + kFailurePause;
    }
    return made;
  }

  bool refresh(const Credential& refused) override {
    const rt::MutexLock lock(mutex_);
    if (cached_ && *cached_ == refused) cached_.reset();
    return true;
  }

 private:
  [[nodiscard]] Error failed(std::string_view what) const {
    std::string message = config_.origin + ": the credential program " + base::quote(config_.command) + " ";
    message += what;
    if (!config_.install_hint.empty()) message += ". " + config_.install_hint;
    return Error::make(Reason::Unauthorized, std::move(message));
  }

  [[nodiscard]] std::string exec_info() const {
    std::string out;
    json::Writer writer(out);
    const auto text = [&writer](std::string_view key, const std::string& value) {
      if (value.empty()) return;
      writer.key(key);
      writer.string(value);
    };
    writer.begin_object();
    text("kind", "ExecCredential");
    text("apiVersion", config_.api_version);
    writer.key("spec");
    writer.begin_object();
    if (config_.provide_cluster_info && cluster_) {
      writer.key("cluster");
      writer.begin_object();
      text("server", cluster_->server);
      text("tls-server-name", cluster_->tls_server_name);
      if (cluster_->insecure_skip_tls_verify) {
        writer.key("insecure-skip-tls-verify");
        writer.boolean(true);
      }
      text("certificate-authority-data", base::base64_encode(cluster_->ca_pem));
      text("proxy-url", cluster_->proxy_url);
      writer.key("config");
      writer.null();
      writer.end_object();
    }
    writer.key("interactive");
    writer.boolean(false);
    writer.end_object();
    writer.end_object();
    return out;
  }

  Result<Credential> run(const rt::StopToken& stop, rt::WallTime& expires) const {
    if (config_.interactive_mode == "Always") {
      return failed("asks questions on a terminal (interactiveMode: Always), which is not possible here");
    }
    std::vector<std::string> argv = {config_.command};
    argv.insert(argv.end(), config_.args.begin(), config_.args.end());
    std::vector<std::pair<std::string, std::string>> env = config_.env;
    env.emplace_back("KUBERNETES_EXEC_INFO", exec_info());
    Result<ProcessResult> result = runner_(argv, env, stop);
    if (!result.ok()) {
      if (result.error().is(Reason::Cancelled)) return result.error();
      return failed("cannot be run: " + result.error().message);
    }
    if (result->exit_code != 0) {
      return failed("ended with code " + std::to_string(result->exit_code) + ": " +
                    base::ellipsize(base::trim(result->err), 512));
    }
    return decode(result->out, expires);
  }

  Result<Credential> decode(std::string_view out, rt::WallTime& expires) const {
    const Result<ExecStatus> status = read_exec_credential(out);
    if (!status.ok()) return failed("printed something that is no ExecCredential: " + status.error().message);
    if (status->kind != "ExecCredential" || status->api_version != config_.api_version) {
      return failed("printed " + base::quote(base::ellipsize(status->api_version + " " + status->kind, 128)) +
                    " where " + base::quote(config_.api_version + " ExecCredential") + " was asked for");
    }
    if (status->certificate.empty() != status->key.empty()) {
      return failed("gave one of clientCertificateData and clientKeyData without the other");
    }
    if (status->token.empty() && status->certificate.empty()) return failed("gave neither token nor certificate");
    if (!status->expires.empty()) {
      const auto time = api::Time::parse(status->expires);
      if (!time.ok()) return failed("gave an expirationTimestamp that is no time: " + time.error().message);
      expires = rt::WallTime(std::chrono::seconds(time->unix_seconds())) - kRenewEarly;
    }
    Credential credential;
    if (!status->token.empty()) credential.authorization = "Bearer " + status->token;
    credential.certificate_pem = status->certificate;
    credential.key_pem = status->key;
    return credential;
  }

  rt::Runtime& runtime_;
  const ExecConfig config_;
  const std::optional<ClusterInfo> cluster_;
  const ProcessRunner runner_;

  rt::Mutex mutex_;
  rt::Condition ended_;
  bool is_running_ BASALT_GUARDED_BY(mutex_) = false;
  std::optional<Credential> cached_ BASALT_GUARDED_BY(mutex_);
  rt::WallTime expires_ BASALT_GUARDED_BY(mutex_){};
  std::optional<Error> failure_ BASALT_GUARDED_BY(mutex_);
  rt::Instant pause_until_ BASALT_GUARDED_BY(mutex_){};
};

}  // namespace

std::shared_ptr<Credentials> exec_credentials(rt::Runtime& runtime, ExecConfig config,
                                              std::optional<ClusterInfo> cluster, ProcessRunner runner) {
  if (!runner) runner = make_process_runner(runtime);
  return std::make_shared<ExecCredentials>(runtime, std::move(config), std::move(cluster), std::move(runner));
}

}  // namespace basalt::kube
