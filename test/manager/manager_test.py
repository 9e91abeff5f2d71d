#!/usr/bin/env python3
"""`basalt controllers` as a process, in the place of vc-controller-manager: its flags, exit codes, election, health and
metrics, on Basalt's own API server."""
import contextlib
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "api"))
import api_script
import clusters

# What Volcano's chart gives its controller manager, word for word.
STOCK_ARGUMENTS = [
    "--logtostderr", "--enable-healthz=true", "--enable-metrics=true", "--leader-elect=false", "--kube-api-qps=50",
    "--kube-api-burst=100", "--worker-threads=3", "--worker-threads-for-gc=5", "--worker-threads-for-podgroup=5",
    "--sharding-configmap=volcano-sharding-configmap", "--sharding-configmap-namespace=volcano-system", "-v=4", "2>&1"]
# A fast election, so that the tests take seconds. The proportions are those of the defaults.
FAST_ELECTION = ["--leader-elect-lease-duration=3s", "--leader-elect-renew-deadline=2s",
                 "--leader-elect-retry-period=400ms"]
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
COMMANDS = "/apis/bus.volcano.sh/v1alpha1/namespaces/default/commands"
GAUGES = [f"volcano_queue_pod_group_{phase}_count" for phase in ("pending", "running", "unknown", "inqueue", "completed")]


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def wait_for(what, condition, seconds=30):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        result = condition()
        if result:
            return result
        time.sleep(0.05)
    raise AssertionError(f"{what} did not happen within {seconds} s")


def get(port, path, tls=None):
    connection = (http.client.HTTPSConnection("127.0.0.1", port, timeout=5, context=tls) if tls
                  else http.client.HTTPConnection("127.0.0.1", port, timeout=5))
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    except OSError:
        return 0, ""
    finally:
        connection.close()


class Api:
    def __init__(self, kubeconfig):
        self.server = api_script.Server("basalt", kubeconfig)

    def call(self, method, path, body=None, content_type="application/json"):
        connection = http.client.HTTPSConnection(self.server.url.hostname, self.server.url.port,
                                                 context=self.server.context, timeout=10)
        try:
            if body is not None and not isinstance(body, bytes):
                body = json.dumps(body)
            connection.request(method, path, body, {"Content-Type": content_type})
            response = connection.getresponse()
            return response.status, json.loads(response.read() or b"{}")
        finally:
            connection.close()

    def install_crds(self):
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        for file in sorted((clusters.ROOT / "deploy/crds").glob("*.yaml")):
            status, answer = self.call("POST", path, file.read_bytes(), "application/yaml")
            assert status == 201, answer
        wait_for("the CRDs", lambda: all(
            any(condition["type"] == "Established" and condition["status"] == "True"
                for condition in crd.get("status", {}).get("conditions", []))
            for crd in self.get(path)[1]["items"]))

    def get(self, path):
        return self.call("GET", path)

    def create(self, path, body):
        status, answer = self.call("POST", path, body)
        assert status in (201, 409), answer
        return answer

    def merge(self, path, body):
        status, answer = self.call("PATCH", path, body, "application/merge-patch+json")
        assert status == 200, answer
        return answer


class Manager:
    """One process. As a context it is killed at the end if it has not ended by itself."""

    def __init__(self, *arguments, program=("controllers",)):
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen([clusters.binary(), *program, *arguments], stdout=subprocess.PIPE, stderr=self.log)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.log.close()

    def said(self):
        self.log.seek(0)
        return self.log.read().decode()

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.wait()

    def wait(self, seconds=20):
        return self.process.wait(seconds)


def run(*arguments, program=("controllers",)):
    done = subprocess.run([clusters.binary(), *program, *arguments], capture_output=True, text=True, timeout=30,
                          env={key: value for key, value in os.environ.items() if not key.startswith("KUBE")})
    return done.returncode, done.stdout, done.stderr


class ManagerTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stack = contextlib.ExitStack()
        cls.cluster = cls.stack.enter_context(clusters.basalt())
        cls.kubeconfig = f"--kubeconfig={cls.cluster.kubeconfig}"
        cls.api = Api(cls.cluster.kubeconfig)
        cls.api.install_crds()
        cls.api.create("/api/v1/namespaces", {"metadata": {"name": "volcano-system"}})
        cls.api.create("/api/v1/namespaces", {"metadata": {"name": "elsewhere"}})

    @classmethod
    def tearDownClass(cls):
        cls.stack.close()

    def lease(self, namespace="volcano-system", name="vc-controller-manager"):
        status, lease = self.api.get(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}")
        return lease if status == 200 else None

    def delete_lease(self, namespace="volcano-system"):
        self.api.call("DELETE", f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/vc-controller-manager")

    def queue_state(self, name):
        status, queue = self.api.get(f"{QUEUES}/{name}")
        return queue.get("status", {}).get("state", "") if status == 200 else None

    # M11, M12, M5: the stock Deployment's arguments start it unchanged.
    def test_stock_arguments(self):
        self.delete_lease()
        health, metrics = free_port(), free_port()
        with Manager(*STOCK_ARGUMENTS, self.kubeconfig, f"--healthz-address=127.0.0.1:{health}",
                     f"--listen-address=127.0.0.1:{metrics}") as manager:
            wait_for("readiness", lambda: get(health, "/readyz") == (200, "ok"))
            self.assertEqual(get(health, "/healthz"), (200, "ok"))
            self.assertEqual(get(health, "/healthz/ping")[0], 200)
            self.assertIn("[+]ping ok", get(health, "/healthz?verbose")[1])
            self.assertIn("healthz check passed", get(health, "/healthz?verbose")[1])
            self.assertIn("[+]caches-filled ok", get(health, "/readyz?verbose")[1])
            self.assertEqual(get(health, "/metrics")[0], 404)
            self.assertEqual(get(metrics, "/healthz")[0], 404)
            wait_for("the default queue", lambda: self.queue_state("default") == "Open")
            self.assertEqual(self.queue_state("root"), "Open")
            def series():
                text = get(metrics, "/metrics")[1]
                return all(f'{gauge}{{queue_name="{queue}"}} 0' in text for gauge in GAUGES for queue in ("root", "default"))
            wait_for("the gauges of both queues", series)
            self.assertIsNone(self.lease())
            self.assertEqual(manager.end(), 0, manager.said())

    def test_answers_to_the_name_of_the_program_it_replaces(self):
        with tempfile.TemporaryDirectory() as folder:
            link = os.path.join(folder, "vc-controller-manager")
            os.symlink(os.path.abspath(clusters.binary()), link)
            done = subprocess.run([link, "--version"], capture_output=True, text=True, timeout=30)
            self.assertEqual(done.returncode, 0)
            self.assertEqual(len(done.stdout.splitlines()), 6)

    # M15.
    def test_version_is_six_lines(self):
        code, out, _ = run("--version")
        self.assertEqual(code, 0)
        self.assertEqual(out.splitlines()[0], "API Version: v1alpha1")
        self.assertEqual(len(out.splitlines()), 6)

    # M7, M8 and all that is wrong at once.
    def test_wrong_settings_are_named(self):
        code, _, err = run("--leader-elect-lease-duration=5s", "--leader-elect-renew-deadline=5s")
        self.assertEqual(code, 1)
        self.assertIn("leaseDuration", err)
        code, _, err = run("--controllers=+job-controller,-job-controller", "--leader-elect-lease-duration=5s",
                           "--leader-elect-renew-deadline=5s")
        self.assertEqual(code, 1)
        self.assertIn("job-controller", err)
        self.assertIn("leaseDuration", err)
        code, _, err = run("--controllers=*,-no-such-controller")
        self.assertEqual(code, 1)
        self.assertIn("no-such-controller", err)
        self.assertIn("hyperNode-controller", err)
        code, _, err = run("--no-such-flag")
        self.assertEqual(code, 2)
        self.assertIn("no-such-flag", err)
        self.assertNotEqual(run("--feature-gates=NoSuchGate=true")[0], 0)
        code, _, err = run("--leader-elect=false")
        self.assertEqual(code, 1, err)  # neither a kubeconfig nor a pod's service account
        code, _, err = run(self.kubeconfig, "--ca-cert-file=/no/a", "--tls-cert-file=/no/b", "--tls-private-key-file=/no/c",
                           "--leader-elect=false")
        self.assertEqual(code, 1)
        self.assertIn("/no/", err)

    def test_ports_that_are_taken(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            self.assertEqual(run(self.kubeconfig, "--enable-healthz", f"--healthz-address={address}")[0], 1)
            self.assertEqual(run(self.kubeconfig, "--enable-metrics", f"--listen-address={address}")[0], 255)

    # M1, M6.
    def test_lease(self):
        for namespace, extra in (("volcano-system", []), ("elsewhere", ["--lock-object-namespace=elsewhere",
                                                                      "--leader-elect-resource-namespace=default"])):
            self.delete_lease(namespace)
            with Manager(self.kubeconfig, *FAST_ELECTION, *extra) as manager:
                lease = wait_for("the lease", lambda: self.lease(namespace))
                spec = lease["spec"]
                self.assertRegex(spec["holderIdentity"], re.escape(socket.gethostname()) + "_[0-9a-f-]{36}$")
                self.assertEqual(spec["leaseDurationSeconds"], 3)
                self.assertRegex(spec["renewTime"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$")
                wait_for("the event", lambda: [
                    event for event in self.api.get(f"/api/v1/namespaces/{namespace}/events")[1]["items"]
                    if event["reason"] == "LeaderElection" and event["message"] == spec["holderIdentity"] + " became leader"])
                self.assertEqual(manager.end(), 0, manager.said())
            self.assertFalse(self.lease(namespace)["spec"].get("holderIdentity"), "the lease is released")

    # M2.
    def test_the_second_takes_over_from_one_that_was_killed(self):
        self.delete_lease()
        with Manager(self.kubeconfig, *FAST_ELECTION) as first:
            holder = wait_for("the lease", self.lease)["spec"]["holderIdentity"]
            before = self.lease()["spec"].get("leaseTransitions", 0)
            health = free_port()
            with Manager(self.kubeconfig, *FAST_ELECTION, "--enable-healthz", f"--healthz-address=127.0.0.1:{health}") as second:
                # One that waits is healthy and ready.
                wait_for("health of the second", lambda: get(health, "/readyz")[0] == 200)
                first.end(signal.SIGKILL)
                spec = wait_for("another holder", lambda: (self.lease()["spec"]["holderIdentity"] not in ("", holder)) and
                                self.lease()["spec"], 20)
                self.assertEqual(spec["leaseTransitions"], before + 1)
                self.assertEqual(second.end(), 0, second.said())

    # M3.
    def test_a_leader_that_is_cut_off_ends_before_another_may_act(self):
        with clusters.basalt() as cluster:
            api = Api(cluster.kubeconfig)
            api.create("/api/v1/namespaces", {"metadata": {"name": "volcano-system"}})
            with Manager(f"--kubeconfig={cluster.kubeconfig}", *FAST_ELECTION) as manager:
                wait_for("the lease", lambda: api.get(
                    "/apis/coordination.k8s.io/v1/namespaces/volcano-system/leases/vc-controller-manager")[0] == 200)
                time.sleep(1)
                cluster.process.send_signal(signal.SIGSTOP)
                begin = time.monotonic()
                try:
                    self.assertNotEqual(manager.wait(), 0)
                    self.assertLess(time.monotonic() - begin, 3.5)
                finally:
                    cluster.process.send_signal(signal.SIGCONT)

    # M9: the others register nothing.
    def test_only_the_collector(self):
        with Manager(self.kubeconfig, "--leader-elect=false", "--controllers=+gc-controller") as manager:
            self.api.create(QUEUES, {"metadata": {"name": "untouched"}, "spec": {"weight": 1}})
            self.api.create(JOBS, {"metadata": {"name": "old"}, "spec": {
                "minAvailable": 1, "ttlSecondsAfterFinished": 1, "tasks": [{"name": "t", "replicas": 1, "template": {
                    "spec": {"containers": [{"name": "c", "image": "i"}]}}}]}})
            self.api.merge(f"{JOBS}/old/status", {"status": {"state": {
                "phase": "Completed", "lastTransitionTime": "2020-01-01T00:00:00Z"}}})
            wait_for("the deletion", lambda: self.api.get(f"{JOBS}/old")[0] == 404)
            self.assertEqual(self.queue_state("untouched"), "")
            self.assertEqual(manager.end(), 0, manager.said())

    # M14.
    def test_gate_of_commands(self):
        queue = self.api.create(QUEUES, {"metadata": {"name": "gated"}, "spec": {"weight": 1}})
        command = {"metadata": {"name": "close-gated"}, "action": "CloseQueue", "target": {
            "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "name": "gated",
            "uid": queue["metadata"]["uid"]}}
        self.api.create(COMMANDS, command)
        with Manager(self.kubeconfig, "--leader-elect=false", "--feature-gates=QueueCommandSync=false") as manager:
            wait_for("the queue", lambda: self.queue_state("gated") == "Open")
            time.sleep(1)
            self.assertEqual(self.queue_state("gated"), "Open")
            self.assertEqual(self.api.get(f"{COMMANDS}/close-gated")[0], 200)
            self.assertEqual(manager.end(), 0, manager.said())
        with Manager(self.kubeconfig, "--leader-elect=false") as manager:
            wait_for("the command", lambda: self.queue_state("gated") == "Closed")
            wait_for("its end", lambda: self.api.get(f"{COMMANDS}/close-gated")[0] == 404)
            self.assertEqual(manager.end(), 0, manager.said())

    # M13.
    def test_health_by_tls(self):
        with tempfile.TemporaryDirectory() as folder:
            key, certificate = os.path.join(folder, "key.pem"), os.path.join(folder, "cert.pem")
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                            "-keyout", key, "-out", certificate, "-days", "1", "-subj", "/CN=localhost", "-addext",
                            "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
            port = free_port()
            with Manager(self.kubeconfig, "--leader-elect=false", "--enable-healthz", f"--healthz-address=127.0.0.1:{port}",
                         f"--ca-cert-file={certificate}", f"--tls-cert-file={certificate}",
                         f"--tls-private-key-file={key}") as manager:
                tls = ssl.create_default_context(cafile=certificate)
                wait_for("health by TLS", lambda: get(port, "/healthz", tls) == (200, "ok"))
                self.assertNotEqual(get(port, "/healthz")[0], 200)
                self.assertEqual(manager.end(), 0, manager.said())

    # The API server is away: alive, not ready, and the caches that are missing are named.
    def test_readiness_names_the_caches(self):
        with clusters.basalt() as cluster:
            cluster.process.send_signal(signal.SIGSTOP)
            health = free_port()
            try:
                with Manager(f"--kubeconfig={cluster.kubeconfig}", "--leader-elect=false", "--enable-healthz",
                             f"--healthz-address=127.0.0.1:{health}") as manager:
                    wait_for("health", lambda: get(health, "/livez")[0] == 200)
                    def is_waiting():
                        status, body = get(health, "/readyz?verbose")
                        return status == 500 and "queues.scheduling.volcano.sh" in body
                    wait_for("the names of caches", is_waiting)
                    self.assertEqual(get(health, "/healthz"), (200, "ok"))
                    self.assertEqual(manager.end(), 0, manager.said())
            finally:
                cluster.process.send_signal(signal.SIGCONT)


if __name__ == "__main__":
    unittest.main()
