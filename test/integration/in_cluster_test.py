#!/usr/bin/env python3
"""Programs of pods speak to the API of `basalt up` as in any cluster: by the service account that is mounted into them."""
import base64
import json
import os
import pathlib
import ssl
import subprocess
import unittest
import urllib.error
import urllib.request

import cluster as c

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


def pod(name, command, namespace="team", **spec):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace},
            "spec": {"terminationGracePeriodSeconds": 1, "restartPolicy": "Never", **spec,
                     "containers": [{"name": "c", "image": "none", "command": ["/bin/sh", "-c", command]}]}}


def token_claims(token):
    part = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


@c.needs_kubectl
class InClusterTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = c.Cluster()
        cls.cluster.__enter__()
        cls.addClassCleanup(cls.cluster.__exit__, None, None, None)
        cls.environment = dict(os.environ, KUBECONFIG=os.path.join(cls.cluster.data, "kubeconfig"), HOME=cls.cluster.data)
        cls.kubectl("create", "namespace", "team")

    @classmethod
    def kubectl(cls, *arguments, text=None, timeout=60, check=True):
        done = subprocess.run([c.KUBECTL, *arguments], env=cls.environment, input=text, text=True, capture_output=True,
                              timeout=timeout)
        assert not check or done.returncode == 0, f"kubectl {arguments}: {done.stderr}\n{cls.cluster.printed()[-4000:]}"
        return done

    def run_pod(self, name, command, **spec):
        """Runs it to its end; returns its phase and output."""
        self.kubectl("apply", "-f", "-", text=json.dumps(pod(name, command, **spec)))
        phase = c.wait_for(f"pod {name} to end", lambda: self.ended(name))
        return phase, self.kubectl("logs", "-n", "team", name).stdout

    def ended(self, name):
        phase = self.kubectl("get", "pod", "-n", "team", name, "-o", "jsonpath={.status.phase}").stdout
        return phase if phase in ("Succeeded", "Failed") else None

    def running(self, name, command, **spec):
        self.kubectl("apply", "-f", "-", text=json.dumps(pod(name, command, **spec)))
        self.kubectl("wait", "-n", "team", "--for=condition=Ready", f"pod/{name}", "--timeout=60s")

    def in_pod(self, name, *command, check=True):
        return self.kubectl("exec", "-n", "team", name, "--", *command, check=check)

    def ask(self, token, path):
        """The code that the server answers somebody with only this token."""
        config = json.loads(self.kubectl("config", "view", "--raw", "-o", "json").stdout)["clusters"][0]["cluster"]
        context = ssl.create_default_context(cadata=base64.b64decode(config["certificate-authority-data"]).decode())
        request = urllib.request.Request(config["server"] + path, headers={"Authorization": "Bearer " + token})
        try:
            with urllib.request.urlopen(request, context=context, timeout=30) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            with error:
                return error.code

    def test_kubectl_in_a_pod_is_its_account(self):
        # No kubeconfig anywhere: what is left is the account.
        command = f"unset KUBECONFIG; export HOME=/nonexistent; {c.KUBECTL} get pods -o name 2>&1"
        phase, output = self.run_pod("before", command)
        self.assertEqual(phase, "Failed")
        self.assertIn('pods is forbidden: User "system:serviceaccount:team:default" cannot list resource "pods" in API '
                      'group "" in the namespace "team"', output)
        self.kubectl("create", "rolebinding", "-n", "team", "see", "--clusterrole=view", "--serviceaccount=team:default")
        phase, output = self.run_pod("after", command)
        self.assertEqual(phase, "Succeeded", output)
        self.assertLessEqual({"pod/after", "pod/before"}, set(output.split()))
        # The kubeconfig that a pod is given says the same, so that nobody finds that of the user's home first.
        phase, output = self.run_pod("by-file", f"{c.KUBECTL} auth whoami -o jsonpath='{{.status.userInfo.username}}'")
        self.assertEqual((phase, output), ("Succeeded", "system:serviceaccount:team:default"))
        # Basalt's own command line knows the account, too.
        phase, output = self.run_pod("own", f"unset KUBECONFIG; export HOME=/nonexistent; {c.BINARY} pod list 2>&1")
        self.assertEqual((phase, output), ("Succeeded", "No resources found\n"))  # allowed; none of them is of a job

    def test_the_volume_is_as_kubernetes_makes_it(self):
        self.kubectl("create", "serviceaccount", "-n", "team", "robot")
        self.running("holder", "exec sleep 1000", serviceAccountName="robot")
        spec = json.loads(self.kubectl("get", "pod", "-n", "team", "holder", "-o", "json").stdout)["spec"]
        name = spec["volumes"][0]["name"]
        self.assertRegex(name, "^kube-api-access-[a-z0-9]{5}$")
        self.assertEqual(spec["volumes"], [{"name": name, "projected": {"defaultMode": 420, "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace",
                                        "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}}]}}])
        self.assertEqual(spec["containers"][0]["volumeMounts"], [{"mountPath": ACCOUNT, "name": name, "readOnly": True}])
        self.assertEqual(self.in_pod("holder", "/bin/cat", ACCOUNT + "/namespace").stdout, "team")
        authority = self.kubectl("get", "configmap", "-n", "team", "kube-root-ca.crt", "-o", r"jsonpath={.data.ca\.crt}")
        self.assertEqual(self.in_pod("holder", "/bin/cat", ACCOUNT + "/ca.crt").stdout, authority.stdout)
        self.assertNotEqual(self.in_pod("holder", "/bin/touch", ACCOUNT + "/x", check=False).returncode, 0)
        token = self.in_pod("holder", "/bin/cat", ACCOUNT + "/token").stdout
        about = token_claims(token)["kubernetes.io"]
        self.assertEqual((about["serviceaccount"]["name"], about["pod"]["name"]), ("robot", "holder"))

        # A valid credential while the pod is there, of no use afterwards.
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        status = json.loads(self.kubectl("create", "--validate=false", "-o", "json", "-f", "-", text=json.dumps(review)).stdout)["status"]
        self.assertTrue(status["authenticated"])
        self.assertEqual(status["user"]["username"], "system:serviceaccount:team:robot")
        self.assertEqual(self.ask(token, "/api/v1/namespaces/team/pods"), 403)
        self.assertEqual(self.ask(token, "/version"), 200)
        self.kubectl("delete", "pod", "-n", "team", "holder")
        self.assertEqual(self.ask(token, "/version"), 401)
        # Another pod of the same name is another one.
        self.running("holder", "exec sleep 1000", serviceAccountName="robot")
        self.assertEqual(self.ask(token, "/version"), 401)
        self.assertNotIn(token, self.cluster.printed())

    def test_who_does_not_want_it_and_who_is_not_there(self):
        self.kubectl("create", "serviceaccount", "-n", "team", "shy")
        self.kubectl("patch", "serviceaccount", "-n", "team", "shy", "-p", '{"automountServiceAccountToken": false}')
        for name, spec in (("no-pod", {"automountServiceAccountToken": False}), ("no-account", {"serviceAccountName": "shy"})):
            self.assertEqual(self.run_pod(name, f"ls {ACCOUNT} 2>/dev/null || echo none", **spec), ("Succeeded", "none\n"))
        phase, output = self.run_pod("yes-pod", f"ls {ACCOUNT}", serviceAccountName="shy", automountServiceAccountToken=True)
        self.assertEqual((phase, output.split()), ("Succeeded", ["ca.crt", "namespace", "token"]))
        refused = self.kubectl("create", "-f", "-", text=json.dumps(pod("x", "true", serviceAccountName="nobody")), check=False)
        self.assertIn('pods "x" is forbidden: error looking up service account team/nobody: serviceaccount "nobody" not found',
                      refused.stderr)

    def test_a_token_for_somebody_else(self):
        volume = {"name": "vault", "projected": {"defaultMode": 0o440, "sources": [
            {"serviceAccountToken": {"path": "vault-token", "audience": "vault", "expirationSeconds": 600}}]}}
        body = pod("audience", "exec sleep 1000", volumes=[volume])
        body["spec"]["containers"][0]["volumeMounts"] = [{"name": "vault", "mountPath": "/var/run/vault"}]
        self.kubectl("apply", "-f", "-", text=json.dumps(body))
        self.kubectl("wait", "-n", "team", "--for=condition=Ready", "pod/audience", "--timeout=60s")
        shown = self.in_pod("audience", "/bin/sh", "-c", "stat -c %a /var/run/vault/vault-token; cat /var/run/vault/vault-token")
        mode, token = shown.stdout.split("\n")
        self.assertEqual((mode, token_claims(token)["aud"]), ("440", ["vault"]))
        self.assertEqual(self.ask(token, "/version"), 401)
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token, "audiences": ["vault", "x"]}}
        status = json.loads(self.kubectl("create", "--validate=false", "-o", "json", "-f", "-", text=json.dumps(review)).stdout)["status"]
        self.assertEqual((status["authenticated"], status["audiences"]), (True, ["vault"]))

    def test_the_service_names_the_server(self):
        port = json.loads(self.kubectl("config", "view", "-o", "json").stdout)["clusters"][0]["cluster"]["server"].rsplit(":", 1)[1]
        service = json.loads(self.kubectl("get", "service", "kubernetes", "-o", "json").stdout)["spec"]
        self.assertEqual((service["clusterIP"], service["ports"]),
                         ("10.96.0.1", [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": int(port)}]))
        endpoints = json.loads(self.kubectl("get", "endpoints", "kubernetes", "-o", "json").stdout)["subsets"]
        self.assertEqual(endpoints, [{"addresses": [{"ip": "127.0.0.1"}],
                                      "ports": [{"name": "https", "port": int(port), "protocol": "TCP"}]}])
        part = json.loads(self.kubectl("get", "endpointslice", "kubernetes", "-o", "json").stdout)
        self.assertEqual((part["endpoints"][0]["addresses"], part["ports"][0]["port"]), (["127.0.0.1"], int(port)))
        _, output = self.run_pod("variables", "env")
        variables = dict(line.split("=", 1) for line in output.splitlines() if "=" in line)
        self.assertEqual((variables["KUBERNETES_SERVICE_HOST"], variables["KUBERNETES_SERVICE_PORT"],
                          variables["KUBERNETES_PORT_443_TCP"]), ("127.0.0.1", port, f"tcp://127.0.0.1:{port}"))


@c.needs_kubectl
class RestartTest(unittest.TestCase):
    def test_pods_of_an_earlier_run_find_the_new_port(self):
        with c.Cluster() as cluster:
            environment = dict(os.environ, KUBECONFIG=os.path.join(cluster.data, "kubeconfig"), HOME=cluster.data)

            def kubectl(*arguments, text=None):
                return subprocess.run([c.KUBECTL, *arguments], env=environment, input=text, text=True, capture_output=True,
                                      timeout=60, check=True).stdout
            body = pod("p", "echo port $KUBERNETES_SERVICE_PORT; exec sleep 1000", namespace="default")
            body["spec"]["restartPolicy"] = "Always"
            kubectl("apply", "-f", "-", text=json.dumps(body))
            kubectl("wait", "--for=condition=Ready", "pod/p", "--timeout=60s")
            cluster.stop()
            (pathlib.Path(cluster.data) / "port").unlink()
            cluster.start()
            port = json.loads(kubectl("config", "view", "-o", "json"))["clusters"][0]["cluster"]["server"].rsplit(":", 1)[1]
            c.wait_for("the pod to run again", lambda: f"port {port}\n" in kubectl("logs", "p"))
            self.assertEqual(kubectl("get", "service", "kubernetes", "-o", "jsonpath={.spec.ports[0].targetPort}"), port)
            self.assertEqual(kubectl("get", "endpoints", "kubernetes", "-o", "jsonpath={.subsets[0].ports[0].port}"), port)
            self.assertEqual(kubectl("get", "endpointslice", "kubernetes", "-o", "jsonpath={.ports[0].port}"), port)


if __name__ == "__main__":
    unittest.main()
