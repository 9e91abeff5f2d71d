// What a container sees, by each kind of isolation that this machine permits; without any there is always one.
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>

#include "node/pod_volumes.h"
#include "node/testing/process_test.h"

namespace basalt::node {
namespace {

using testing::container_status;

class Isolations : public testing::ProcessTest, public ::testing::WithParamInterface<Isolation> {
 protected:
  // False if this machine does not permit it, which is fine: Never always is, and Auto is whatever is permitted.
  bool begin_isolated() {
    auto runner = make_linux_process_runner(*runtime_, Logger(), GetParam());
    if (!runner.ok()) {
      EXPECT_EQ(GetParam(), Isolation::User) << runner.error().message;
      return false;
    }
    (*runner)->stop();
    begin({}, {.isolation = GetParam()});
    return true;
  }
  [[nodiscard]] bool isolates() const { return agent_->host->runner().isolates(); }
};

INSTANTIATE_TEST_SUITE_P(All, Isolations, ::testing::Values(Isolation::Auto, Isolation::User, Isolation::Never),
                         [](const auto& one) {
                           return one.param == Isolation::Auto ? "Auto"
                                                               : (one.param == Isolation::User ? "User" : "Never");
                         });

TEST_P(Isolations, VolumesAreWhereTheManifestSays) {
  if (!begin_isolated()) return;
  const std::string before = isolates() ? "" : "\"$BASALT_ROOTFS\"";
  cluster_.apply(R"({apiVersion: v1, kind: ConfigMap, metadata: {name: m}, data: {a.conf: alpha, b.conf: beta}}
---
{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {key: hidden}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: disk},
 spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}
---
apiVersion: v1
kind: Pod
metadata: {name: v, labels: {app: x}}
spec:
  nodeName: n1
  restartPolicy: Never
  volumes:
  - {name: conf, configMap: {name: m}}
  - {name: one-item, configMap: {name: m, items: [{key: a.conf, path: deep/down.txt}]}}
  - {name: hidden, secret: {secretName: s, defaultMode: 0400}}
  - {name: about, downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}}
  - {name: both, projected: {sources: [{configMap: {name: m}}, {secret: {name: s}}]}}
  - {name: room, emptyDir: {}}
  - {name: disk, persistentVolumeClaim: {claimName: disk}}
  - {name: host, hostPath: {path: /srv/data, type: DirectoryOrCreate}}
  containers:
  - name: c
    image: x
    command: [sh, -c, 'set -e; R=)" +
                 before + R"(; cat $R/etc/basalt-test/b.conf $R/opt/one/deep/down.txt $R/s/key; echo;
      stat -L -c %a $R/s/key; cat $R/about/labels; ls $R/both; echo x > $R/room/file; echo y > $R/disk/file;
      echo z > $R/host/file; cat "$BASALT_VOLUME_ROOM/file" $R/nowhere/at/all/file; test ! -e $R/not-there']
    volumeMounts:
    - {name: conf, mountPath: /etc/basalt-test}
    - {name: one-item, mountPath: /opt/one}
    - {name: hidden, mountPath: /s}
    - {name: about, mountPath: /about}
    - {name: both, mountPath: /both}
    - {name: room, mountPath: /room}
    - {name: room, mountPath: /nowhere/at/all}
    - {name: disk, mountPath: /disk}
    - {name: host, mountPath: /host}
)");
  ASSERT_TRUE(wait_phase("v", "Succeeded")) << log("v") << container_status(cluster_, "v").to_pretty_text();
  EXPECT_EQ(log("v"), "betaalphahidden\n400\napp=\"x\"\na.conf\nb.conf\nkey\nx\nx\n");
  EXPECT_EQ(read_file(folder_.path() + "/claims/default/disk/file"), "y\n");
  EXPECT_EQ(read_file(folder_.path() + "/hostpath/srv/data/file"), "z\n");
  EXPECT_FALSE(std::filesystem::exists("/etc/basalt-test"));
  EXPECT_FALSE(std::filesystem::exists("/nowhere"));
}

// A pod as the job controller makes it with the svc plugin; the code begins with a function that finds addresses.
std::string svc_pod(std::string_view name, std::string_view code, bool by_file) {
  const std::string find = by_file ? R"(
def find(name):
    for line in open(os.environ["BASALT_HOSTS_FILE"]):
        words = line.split("#")[0].split()
        if name in words[1:]:
            return words[0]
    raise OSError("unknown host")
)"
                                   : "find = socket.gethostbyname\n";
  json::Object container{
      {"name", "c"},
      {"image", "python"},
      {"command", json::Array{"python3", "-c", "import os, socket, time\n" + find + std::string(code)}},
      {"volumeMounts", json::Array{json::Object{{"name", "svc"}, {"mountPath", "/etc/volcano"}}}}};
  return "{apiVersion: v1, kind: Pod, metadata: {name: " + std::string(name) +
         "}, spec: {nodeName: n1, restartPolicy: Never, hostname: " + std::string(name) +
         ", subdomain: pair, volumes: [{name: svc, configMap: {name: pair-svc}}], containers: [" +
         json::Value(container).to_text() + "]}}";
}

TEST_P(Isolations, PodsOfAJobTalkOverTcpByName) {
  if (!begin_isolated()) return;
  const std::string hosts = isolates() ? "/etc/volcano/server.host" : "etc/volcano/server.host";
  cluster_.apply(
      "{apiVersion: v1, kind: ConfigMap, metadata: {name: pair-svc}, data: {server.host: pair-server-0.pair}}");
  // The worker comes first, so it has to wait for the name as well as for the port.
  cluster_.apply(svc_pod("pair-worker-0", "server = open('" + hosts + R"(').read().strip()
for _ in range(500):
    try:
        s = socket.create_connection((find(server), 7777), 5, (os.environ["BASALT_POD_IP"], 0))
        break
    except OSError:
        time.sleep(0.02)
s.sendall(b"hi from " + os.environ["HOSTNAME"].encode())
print(s.recv(100).decode())
)",
                         !isolates()));
  ASSERT_TRUE(wait_phase("pair-worker-0", "Running"));
  cluster_.apply(svc_pod("pair-server-0", R"(
s = socket.create_server((find("pair-server-0"), 7777))
c, peer = s.accept()
c.sendall(c.recv(100).upper() + b" AT " + str(peer[0] == find("pair-worker-0.pair.default.svc")).encode())
)",
                         !isolates()));
  ASSERT_TRUE(wait_phase("pair-worker-0", "Succeeded")) << log("pair-worker-0") << log("pair-server-0");
  ASSERT_TRUE(wait_phase("pair-server-0", "Succeeded")) << log("pair-server-0");
  EXPECT_EQ(log("pair-worker-0"), "HI FROM PAIR-WORKER-0 AT True\n");
}

TEST_P(Isolations, SecretsAndConfigMapsAreReadOnlyAndTheHostnameIsThePods) {
  if (!begin_isolated() || !isolates()) return;  // only namespaces give either
  cluster_.apply(R"({apiVersion: v1, kind: ConfigMap, metadata: {name: m}, data: {f: text}}
---
{apiVersion: v1, kind: Pod, metadata: {name: r}, spec: {nodeName: n1, restartPolicy: Never, hostname: my-host,
  volumes: [{name: conf, configMap: {name: m}}, {name: d, emptyDir: {}}],
  containers: [{name: c, image: x, workingDir: /work,
                command: [sh, -c, 'touch /conf/x 2>/dev/null || echo refused; touch /d/x && echo fine; uname -n; pwd; id -u'],
                volumeMounts: [{name: conf, mountPath: /conf}, {name: d, mountPath: /d}]}]}})");
  ASSERT_TRUE(wait_phase("r", "Succeeded")) << log("r");
  EXPECT_EQ(log("r"), "refused\nfine\nmy-host\n/work\n" + std::to_string(::geteuid()) + "\n");
}

TEST_P(Isolations, TheSamePodRunsByLinksAndVariables) {
  if (!begin_isolated()) return;
  cluster_.apply(R"({apiVersion: v1, kind: ConfigMap, metadata: {name: m}, data: {f: text}}
---
{apiVersion: v1, kind: Pod, metadata: {name: plain}, spec: {nodeName: n1, restartPolicy: Never, subdomain: job,
  volumes: [{name: conf, configMap: {name: m}}],
  containers: [{name: c, image: x, command: [sh, -c, 'cat etc/conf/f; echo; cat $BASALT_VOLUME_CONF/f; echo; grep -c job $BASALT_HOSTS_FILE'],
                volumeMounts: [{name: conf, mountPath: /etc/conf}]}]}})");
  ASSERT_TRUE(wait_phase("plain", "Succeeded")) << log("plain");
  EXPECT_EQ(log("plain"), "text\ntext\n2\n");
}

}  // namespace
}  // namespace basalt::node
