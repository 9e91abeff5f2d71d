#include "kube/kubeconfig.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "rt/real_runtime.h"
#include "rt/sim_runtime.h"

namespace basalt::kube {
namespace {

// Variables and files of a machine that exists only here.
struct Machine {
  std::map<std::string, std::string> variables;
  std::map<std::string, std::string> files;
  [[nodiscard]] ConfigEnvironment env() const {
    ConfigEnvironment env;
    env.variable = [this](std::string_view name) -> std::optional<std::string> {
      const auto found = variables.find(std::string(name));
      if (found == variables.end()) return std::nullopt;
      return found->second;
    };
    env.read_file = [this](const std::string& path) -> Result<std::string> {
      const auto found = files.find(path);
      if (found == files.end()) return Error::make(Reason::NotFound, path + ": no such file");
      return found->second;
    };
    return env;
  }
};

constexpr std::string_view kConfig = R"(
apiVersion: v1
kind: Config
current-context: dev
clusters:
- name: here
  cluster:
    server: https://here:6443
    certificate-authority: pki/ca.crt
    tls-server-name: kubernetes
    proxy-url: http://proxy:3128
- name: there
  cluster: {server: "https://there:6443/prefix", certificate-authority-data: Q0E=}
- name: bare
  cluster: {server: "bare:8080"}
users:
- name: cert
  user: {client-certificate: me.crt, client-key: /abs/me.key, as: boss, as-groups: [admins], as-user-extra: {why: [a, b]}}
- name: inline
  user: {client-certificate-data: Q0VSVA==, client-key-data: "S0V
    Z"}
- name: token
  user: {token: secret}
- name: file
  user: {tokenFile: ./token, token: old}
- name: basic
  user: {username: u, password: p}
- name: old
  user: {auth-provider: {name: gcp}}
- name: half
  user: {client-certificate-data: Q0VSVA==}
- name: two
  user: {token: a, username: b}
- name: exec
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: bin/login
      args: [get, token]
      env: [{name: A, value: B}]
      installHint: Install it with make.
      interactiveMode: IfAvailable
      provideClusterInfo: true
contexts:
- name: dev
  context: {cluster: here, user: cert, namespace: team}
- name: prod
  context: {cluster: there, user: token}
- name: lost
  context: {cluster: missing, user: token}
- name: nobody
  context: {cluster: there, user: tokne}
)";

Machine machine() {
  Machine m;
  m.variables["HOME"] = "/home/me";
  m.files["/home/me/.kube/config"] = kConfig;
  return m;
}

std::string error_of(const Machine& m, const ConfigOverrides& overrides) {
  const auto config = load_client_config(overrides, m.env());
  return config.ok() ? "no error" : config.error().message;
}

TEST(Kubeconfig, ReadsTheCurrentContext) {
  const auto config = load_client_config({}, machine().env());
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->server, "https://here:6443");
  EXPECT_EQ(config->ns, "team");
  EXPECT_EQ(config->context, "dev");
  EXPECT_EQ(config->tls.ca_file, "/home/me/.kube/pki/ca.crt") << "relative to the file";
  EXPECT_EQ(config->tls.certificate_file, "/home/me/.kube/me.crt");
  EXPECT_EQ(config->tls.key_file, "/abs/me.key");
  EXPECT_EQ(config->tls.server_name, "kubernetes");
  EXPECT_EQ(config->proxy_url, "http://proxy:3128");
  EXPECT_EQ(config->impersonation.user, "boss");
  EXPECT_EQ(config->impersonation.groups, std::vector<std::string>{"admins"});
  EXPECT_EQ(config->impersonation.extra.at(0).second, (std::vector<std::string>{"a", "b"}));
}

TEST(Kubeconfig, FlagsWin) {
  auto config = load_client_config({.context = "prod"}, machine().env());
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->tls.ca_pem, "CA");
  EXPECT_EQ(config->token, "secret");
  EXPECT_EQ(config->ns, "default");
  config = load_client_config({.context = "prod",
                               .user = "inline",
                               .server = "https://other:1",
                               .token = "",
                               .ns = "n",
                               .insecure_skip_tls_verify = true,
                               .impersonate_user = "x"},
                              machine().env());
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->server, "https://other:1");
  EXPECT_EQ(config->tls.certificate_pem, "CERT");
  EXPECT_EQ(config->tls.key_pem, "KEY") << "folded base64";
  EXPECT_TRUE(config->tls.insecure_skip_verify);
  EXPECT_EQ(config->tls.ca_pem, "");
  EXPECT_EQ(config->ns, "n");
  EXPECT_EQ(config->impersonation.user, "x");
  config = load_client_config({.context = "prod", .user = "exec", .token = "mine"}, machine().env());
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->token, "mine");
  EXPECT_FALSE(config->exec);
  config = load_client_config({.cluster = "bare"}, machine().env());
  EXPECT_EQ(config->server, "http://bare:8080");
  // A server alone needs no file.
  config = load_client_config({.server = "https://x:1", .token = "t"}, Machine().env());
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->server, "https://x:1");
}

TEST(Kubeconfig, MergesSeveralFilesAsKubectlDoes) {
  Machine m = machine();
  m.variables["KUBECONFIG"] = "/a/one:/gone::/b/two:/a/one";
  m.files["/a/one"] = R"({"clusters":[{"name":"c","cluster":{"server":"https://one"}}],
    "users":[{"name":"u","user":{"client-certificate":"x.crt","client-key":"x.key"}}]})";
  m.files["/b/two"] = R"({"current-context":"k","clusters":[{"name":"c","cluster":{"server":"https://two",
    "certificate-authority-data":"Q0E="}}],"contexts":[{"name":"k","context":{"cluster":"c","user":"u"}}]})";
  const auto config = load_client_config({}, m.env());
  ASSERT_TRUE(config.ok()) << config.error().message;
  EXPECT_EQ(config->server, "https://one") << "the first file's whole entry counts";
  EXPECT_EQ(config->tls.ca_pem, "");
  EXPECT_EQ(config->tls.certificate_file, "/a/x.crt") << "relative to the file that says it";
  // A flag's file is the only one, and must exist.
  EXPECT_EQ(load_client_config({.kubeconfig = "/home/me/.kube/config"}, m.env())->server, "https://here:6443");
  EXPECT_EQ(error_of(m, {.kubeconfig = "/gone"}), "--kubeconfig: /gone: no such file");
}

TEST(Kubeconfig, ErrorsSayFileContextFieldAndWhatToDo) {
  const Machine m = machine();
  const std::string file = "/home/me/.kube/config: ";
  EXPECT_EQ(error_of(m, {.context = "pord"}), file + "there is no context \"pord\"; did you mean \"prod\"?");
  EXPECT_EQ(error_of(m, {.context = "lost"}),
            file + "context \"lost\" names the cluster \"missing\", which does not exist");
  EXPECT_EQ(error_of(m, {.context = "nobody"}),
            file + "context \"nobody\" names the user \"tokne\", which does not exist; did you mean \"token\"?");
  EXPECT_NE(error_of(m, {.user = "old"}).find("removed in 1.26: use an exec program"), std::string::npos);
  EXPECT_NE(error_of(m, {.user = "half"}).find("set client-key or client-key-data"), std::string::npos);
  EXPECT_NE(error_of(m, {.user = "two"}).find("keep one"), std::string::npos);
  EXPECT_NE(error_of(Machine(), {}).find("KUBECONFIG"), std::string::npos);
  EXPECT_NE(error_of(m, {.context = "prod", .user = "token", .server = "ftp://x"}).find("--server"), 0u);

  Machine bad = machine();
  const auto with = [&](std::string_view text) {
    bad.files["/home/me/.kube/config"] = text;
    return error_of(bad, {});
  };
  EXPECT_NE(with("a: [").find("/home/me/.kube/config"), std::string::npos);
  EXPECT_NE(with("kind: Pod").find("this is no kubeconfig"), std::string::npos);
  EXPECT_NE(with("[]").find("expected a kubeconfig"), std::string::npos);
  EXPECT_NE(with("clusters: {}").find("clusters is a object, expected a list"), std::string::npos);
  EXPECT_NE(with("clusters: [{cluster: {}}]").find("clusters[0].name is missing"), std::string::npos);
  EXPECT_NE(with("clusters: [{name: a, cluster: {server: 5}}]").find("cluster \"a\".server is a integer"),
            std::string::npos);
  EXPECT_NE(with("clusters: [{name: a, cluster: {certificate-authority-data: '%'}}]").find("not valid base64"),
            std::string::npos);
  EXPECT_NE(with("users: [{name: a, user: {exec: {command: x, apiVersion: v0}}}]").find("exec.apiVersion"),
            std::string::npos);
  EXPECT_NE(with("contexts: [{name: a, context: {}}]").find("current-context is not set"), std::string::npos);
}

TEST(Kubeconfig, InClusterIsTheLastResortOfUsersAndTheFirstOfManagers) {
  Machine m;
  m.variables = {{"KUBERNETES_SERVICE_HOST", "fd00::1"}, {"KUBERNETES_SERVICE_PORT", "443"}};
  const std::string folder = "/var/run/secrets/kubernetes.io/serviceaccount/";
  EXPECT_NE(in_cluster_config(m.env()).error().message.find("service account token"), std::string::npos);
  m.files = {{folder + "token", "t"}, {folder + "ca.crt", "c"}, {folder + "namespace", "mine\n"}};
  for (const auto& config :
       {in_cluster_config(m.env()), load_client_config({}, m.env()), load_manager_config({}, m.env())}) {
    ASSERT_TRUE(config.ok()) << config.error().message;
    EXPECT_EQ(config->server, "https://[fd00::1]:443");
    EXPECT_EQ(config->token_file, folder + "token");
    EXPECT_EQ(config->tls.ca_file, folder + "ca.crt");
    EXPECT_EQ(config->ns, "mine");
  }
  // A manager does not look at KUBECONFIG or the home folder.
  Machine home = machine();
  home.variables["KUBECONFIG"] = "/home/me/.kube/config";
  EXPECT_NE(load_manager_config({}, home.env()).error().message.find("not in a pod"), std::string::npos);
  EXPECT_EQ(load_manager_config({.kubeconfig = "/home/me/.kube/config"}, home.env())->context, "dev");
  EXPECT_EQ(load_manager_config({.server = "http://x:1"}, home.env())->server, "http://x:1");
}

TEST(Credentials, ExecRunsOnceUntilTheCredentialExpires) {
  auto runtime = rt::SimRuntime::make({});
  const auto report = runtime->run([&] {
    const Machine m = machine();
    const auto config = load_client_config({.user = "exec"}, m.env());
    ASSERT_TRUE(config.ok()) << config.error().message;
    int runs = 0;
    std::string info;
    std::string out;
    int exit_code = 0;
    const auto credentials = make_credentials(
        *runtime, *config,
        [&](const std::vector<std::string>& argv, const auto& env, const rt::StopToken&) -> Result<ProcessResult> {
          ++runs;
          EXPECT_EQ(argv, (std::vector<std::string>{"/home/me/.kube/bin/login", "get", "token"}));
          EXPECT_EQ(env.at(0), (std::pair<std::string, std::string>("A", "B")));
          info = env.at(1).second;
          return ProcessResult{exit_code, out, "no such account"};
        });
    out = R"({"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",
      "status":{"token":"abc","expirationTimestamp":"2026-01-01T00:10:00Z"}})";
    for (int i = 0; i < 3; ++i) EXPECT_EQ(credentials->get({})->authorization, "Bearer abc");
    EXPECT_EQ(runs, 1);
    EXPECT_NE(info.find(R"("server":"https://here:6443")"), std::string::npos) << info;
    EXPECT_NE(info.find(R"("interactive":false)"), std::string::npos);
    runtime->sleep_for(std::chrono::seconds(591));
    EXPECT_TRUE(credentials->get({}).ok());
    EXPECT_EQ(runs, 2) << "renewed a little early";
    EXPECT_TRUE(credentials->refresh({.authorization = "Bearer abc"}));
    EXPECT_TRUE(credentials->get({}).ok());
    EXPECT_EQ(runs, 3) << "a refusal forgets it";

    const auto failure = [&] {
      runtime->sleep_for(std::chrono::hours(1));
      return credentials->get({}).error().message;
    };
    exit_code = 7;
    EXPECT_NE(failure().find("\"/home/me/.kube/bin/login\" ended with code 7: no such account. Install it with make."),
              std::string::npos);
    const int before = runs;
    EXPECT_FALSE(credentials->get({}).ok());
    EXPECT_EQ(runs, before) << "not again at once";
    exit_code = 0;
    out = "hello";
    EXPECT_NE(failure().find("no ExecCredential"), std::string::npos);
    out = R"({"apiVersion":"client.authentication.k8s.io/v1beta1","kind":"ExecCredential","status":{"token":"x"}})";
    EXPECT_NE(failure().find("was asked for"), std::string::npos);
    out = R"({"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{}})";
    EXPECT_NE(failure().find("neither token nor certificate"), std::string::npos);
    out =
        R"({"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"clientCertificateData":"C",
      "clientKeyData":"K"}})";
    runtime->sleep_for(std::chrono::hours(1));
    EXPECT_EQ(*credentials->get({}), (Credential{"", "C", "K"}));
  });
  EXPECT_TRUE(report.completed) << report.problem;
}

TEST(Credentials, TokenFilesRotate) {
  auto runtime = rt::SimRuntime::make({});
  const std::string path =
      (std::filesystem::path(::testing::TempDir()) / ("token-" + std::to_string(::getpid()))).string();
  const auto write = [&path](std::string_view text) { std::ofstream(path) << text; };
  const auto report = runtime->run([&] {
    const auto credentials = bearer_token_file(*runtime, path);
    EXPECT_NE(credentials->get({}).error().message.find(path), std::string::npos);
    write("one\n");
    EXPECT_EQ(credentials->get({})->authorization, "Bearer one");
    write("two\n");
    EXPECT_EQ(credentials->get({})->authorization, "Bearer one");
    runtime->sleep_for(std::chrono::seconds(61));
    EXPECT_EQ(credentials->get({})->authorization, "Bearer two");
    write("three");
    EXPECT_TRUE(credentials->refresh({.authorization = "Bearer two"}));
    EXPECT_EQ(credentials->get({})->authorization, "Bearer three");
    EXPECT_FALSE(credentials->refresh({.authorization = "Bearer three"})) << "nothing new";
    std::filesystem::remove(path);
    runtime->sleep_for(std::chrono::minutes(5));
    EXPECT_EQ(credentials->get({})->authorization, "Bearer three") << "the last good one stays";
  });
  EXPECT_TRUE(report.completed) << report.problem;
  EXPECT_EQ(basic_auth("u", "p")->get({})->authorization, "Basic dTpw");
}

TEST(ProcessRunner, RunsRealPrograms) {
  auto runtime = rt::make_real_runtime();
  const ProcessRunner run = make_process_runner(*runtime);
  const auto result = run({"sh", "-c", "echo $GREETING; echo oops >&2; cat; exit 3"}, {{"GREETING", "hello"}}, {});
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->exit_code, 3);
  EXPECT_EQ(result->out, "hello\n");
  EXPECT_EQ(result->err, "oops\n");
  EXPECT_FALSE(run({"/no/such/program"}, {}, {}).ok());
  EXPECT_EQ(run({"yes"}, {}, {}).error().reason, Reason::ResponseTooLarge);
  rt::StopSource stop(*runtime);
  stop.request_stop();
  EXPECT_EQ(run({"sleep", "100"}, {}, stop.token()).error().reason, Reason::Cancelled);
}

}  // namespace
}  // namespace basalt::kube
