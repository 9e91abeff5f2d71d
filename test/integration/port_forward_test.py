#!/usr/bin/env python3
"""Ports of pods on `basalt up`, forwarded by real kubectl: over a WebSocket as it does by itself, and over SPDY as it did before."""
import concurrent.futures
import http.client
import json
import os
import pathlib
import re
import socket
import ssl
import struct
import subprocess
import sys
import threading
import unittest

import cluster as c

# GET /N gives N bytes, POST what was posted; GET /wait says "waiting" and notes when the connection has ended.
SERVER = """
import http.server, os
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def answer(self, body):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_GET(self):
        if self.path != "/wait":
            return self.answer(b"x" * int(self.path[1:]))
        self.answer(b"waiting")
        self.rfile.read()
        open("ended", "w").close()
        self.close_connection = True
    def do_POST(self):
        self.answer(self.rfile.read(int(self.headers["Content-Length"])))
server = http.server.ThreadingHTTPServer((os.environ["BASALT_POD_IP"], 0), Handler)
with open("port.new", "w") as file:
    file.write(str(server.server_port))
os.rename("port.new", "port")
server.serve_forever()
"""


def pod_spec():
    return {"terminationGracePeriodSeconds": 1, "containers": [{"name": "c", "image": "none", "command": [sys.executable, "-c", SERVER]}]}


class Forward:
    """A running `kubectl port-forward` to one port, with what it prints."""

    def __init__(self, environment, what, port, *flags):
        self.process = subprocess.Popen([c.KUBECTL, "port-forward", *flags, what, f":{port}"], env=environment, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.errors = ""
        self.reader = threading.Thread(target=self.read_errors)
        self.reader.start()
        first = self.process.stdout.readline()
        found = re.match(r"Forwarding from 127\.0\.0\.1:(\d+) -> ", first)
        if not found:
            self.__exit__()
            raise AssertionError(f"kubectl printed {first!r} and {self.errors!r}")
        self.port = int(found.group(1))
        self.drain = threading.Thread(target=self.process.stdout.read)
        self.drain.start()

    def read_errors(self):
        for line in self.process.stderr:
            self.errors += line

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.wait()

    def wait(self, timeout=60):
        code = self.process.wait(timeout)
        self.reader.join()
        if hasattr(self, "drain"):
            self.drain.join()
        self.process.stdout.close()
        self.process.stderr.close()
        return code

    def get(self, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request("POST" if body else "GET", path, body)
            return connection.getresponse().read()
        finally:
            connection.close()


class Channels:
    """A port-forward as client libraries of other languages do it: v4.channel.k8s.io, where each message begins with its channel."""

    def __init__(self, cluster, pod, *ports):
        server = re.search(r'server"?: "?https://([^":\s]+):(\d+)', pathlib.Path(cluster.data, "kubeconfig").read_text())
        token = pathlib.Path(cluster.data, "pki", "admin.token").read_text().strip()
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        self.socket = context.wrap_socket(socket.create_connection(server.groups(), timeout=60))
        self.file = self.socket.makefile("rb")
        query = "&".join(f"ports={port}" for port in ports)
        self.socket.sendall((f"GET /api/v1/namespaces/default/pods/{pod}/portforward?{query} HTTP/1.1\r\nHost: a\r\n"
                             f"Authorization: Bearer {token}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                             "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: v4.channel.k8s.io\r\n\r\n").encode())
        self.head = b"".join(iter(self.file.readline, b"\r\n")).decode()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.socket.close()

    def send(self, channel, data):
        payload = bytes([channel]) + data
        self.socket.sendall(struct.pack("!BBH4x", 0x82, 0x80 | 126, len(payload)) + payload)  # the mask is 0

    def read_all(self):
        """What came on each channel until the connection was closed."""
        heard = {}
        while True:
            first, size = self.file.read(2)
            if size == 126:
                size, = struct.unpack("!H", self.file.read(2))
            elif size == 127:
                size, = struct.unpack("!Q", self.file.read(8))
            payload = self.file.read(size)
            if first == 0x88:
                return heard
            if first == 0x82:
                heard[payload[0]] = heard.get(payload[0], b"") + payload[1:]


@c.needs_kubectl
class PortForwardTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = c.Cluster()
        cls.cluster.__enter__()
        cls.addClassCleanup(cls.cluster.__exit__, None, None, None)
        cls.environment = dict(os.environ, KUBECONFIG=os.path.join(cls.cluster.data, "kubeconfig"), HOME=cls.cluster.data)
        cls.make_pod("p")
        cls.port = cls.port_of("p")

    @classmethod
    def kubectl(cls, *arguments, text=None, timeout=60):
        done = subprocess.run([c.KUBECTL, *arguments], env=cls.environment, input=text, text=True, capture_output=True, timeout=timeout)
        if done.returncode != 0:
            raise AssertionError(f"kubectl {' '.join(arguments)}: {done.stderr}")
        return done.stdout.strip()

    @classmethod
    def apply(cls, *objects):
        cls.kubectl("apply", "-f", "-", text="\n---\n".join(json.dumps(one) for one in objects))

    @classmethod
    def make_pod(cls, name):
        cls.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": pod_spec()})

    @classmethod
    def port_of(cls, pod):
        cls.kubectl("wait", "--for=condition=Ready", f"pod/{pod}", "--timeout=60s")
        # The program says so as soon as it listens, which is after it has been started.
        return c.wait_for("the port", lambda: cls.kubectl("exec", pod, "--", "/bin/sh", "-c", "cat port 2>/dev/null; true"))

    def forward(self, what, port, *flags, **environment):
        return Forward({**self.environment, **environment}, what, port, *flags)

    def check_traffic(self, forward):
        self.assertEqual(forward.get("/10"), b"x" * 10)
        self.assertEqual(forward.get("/20"), b"x" * 20)
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            sizes = [1000 * i for i in range(1, 65)]
            self.assertEqual([len(answer) for answer in pool.map(lambda size: forward.get(f"/{size}"), sizes)], sizes)
        much = os.urandom(30_000_000)
        self.assertTrue(forward.get("/", much) == much)
        self.assertEqual(forward.get("/30"), b"x" * 30)
        self.assertEqual(forward.errors, "")

    def test_over_a_websocket(self):
        with self.forward("pod/p", self.port) as forward:
            self.check_traffic(forward)

    def test_over_spdy(self):
        with self.forward("pod/p", self.port, KUBECTL_PORT_FORWARD_WEBSOCKETS="false") as forward:
            self.check_traffic(forward)

    def test_over_channels(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            free = taken.getsockname()[1]
            with Channels(self.cluster, "p", self.port, free) as forward:
                self.assertIn("101 Switching Protocols", forward.head)
                forward.send(0, b"GET /1000000 HTTP/1.1\r\nConnection: close\r\n\r\n")
                heard = forward.read_all()
        self.assertEqual(heard[0][:2], int(self.port).to_bytes(2, "little"))
        self.assertTrue(heard[0].endswith(b"\r\n\r\n" + b"x" * 1_000_000))
        self.assertEqual(heard[1], int(self.port).to_bytes(2, "little"))
        self.assertEqual(heard[2], free.to_bytes(2, "little"))
        self.assertIn(f"error forwarding port {free} to pod default/p", heard[3][2:].decode())

    def test_a_service_and_a_deployment_lead_to_a_pod(self):
        self.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
            "selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod_spec()}}})
        self.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
        pod = self.kubectl("get", "pods", "-l", "app=web", "-o", "jsonpath={.items[0].metadata.name}")
        port = self.port_of(pod)
        self.apply({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {
            "selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": int(port)}]}})
        for what, wanted in (("deployment/web", port), ("service/web", 80)):
            with self.forward(what, wanted) as forward:
                self.assertEqual(forward.get("/7"), b"x" * 7, what)

    def test_where_nobody_listens_kubectl_says_so(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:  # so nobody else listens at all addresses with this port
            free = taken.getsockname()[1]
            for websockets in ("true", "false"):
                with self.forward("pod/p", free, KUBECTL_PORT_FORWARD_WEBSOCKETS=websockets) as forward:
                    with self.assertRaises((http.client.HTTPException, OSError)):
                        forward.get("/1")
                    # It gives up by itself after any error, whatever the server.
                    self.assertEqual(forward.wait(), 1)
                    self.assertIn(f"error forwarding port {free} to pod default/p: nobody answers at 127.", forward.errors)
                    self.assertIn("Connection refused", forward.errors)
        with self.forward("pod/p", self.port) as forward:
            self.assertEqual(forward.get("/1"), b"x")

    def test_a_connection_ends_with_its_client(self):
        with self.forward("pod/p", self.port) as forward:
            connection = http.client.HTTPConnection("127.0.0.1", forward.port, timeout=60)
            connection.request("GET", "/wait")
            self.assertEqual(connection.getresponse().read(), b"waiting")
            self.kubectl("exec", "p", "--", "/bin/sh", "-c", "! test -e ended")
        c.wait_for("the program to be told", lambda: self.kubectl("exec", "p", "--", "/bin/sh", "-c", "ls ended 2>/dev/null; true"))
        connection.close()

    def test_a_client_ends_with_its_pod(self):
        self.make_pod("short")
        with self.forward("pod/short", self.port_of("short")) as idle, self.forward("pod/short", self.port_of("short")) as busy:
            connection = http.client.HTTPConnection("127.0.0.1", busy.port, timeout=60)
            connection.request("GET", "/wait")
            self.assertEqual(connection.getresponse().read(), b"waiting")
            self.kubectl("delete", "pod", "short")
            self.assertEqual((idle.wait(), busy.wait()), (1, 1))
            self.assertIn("lost connection to pod", idle.errors)
            connection.close()

    def test_who_may(self):
        refused = subprocess.run([c.KUBECTL, "port-forward", "--as=jane", "pod/p", ":1"], env=self.environment, text=True,
                                 capture_output=True, timeout=60)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("forbidden", refused.stderr)
        self.kubectl("create", "role", "reader", "--verb=get", "--resource=pods,pods/portforward")
        self.kubectl("create", "rolebinding", "reader", "--role=reader", "--user=jane")
        refused = subprocess.run([c.KUBECTL, "port-forward", "--as=jane", "pod/p", ":1"], env=self.environment, text=True,
                                 capture_output=True, timeout=60)
        self.assertIn("cannot create resource \"pods/portforward\"", refused.stderr)
        self.kubectl("create", "role", "forwarder", "--verb=get,create", "--resource=pods/portforward")
        self.kubectl("create", "rolebinding", "forwarder", "--role=forwarder", "--user=jane")
        with self.forward("pod/p", self.port, "--as=jane") as forward:
            self.assertEqual(forward.get("/3"), b"xxx")

    def test_a_client_ends_with_the_cluster(self):
        with c.Cluster() as other:
            environment = dict(self.environment, KUBECONFIG=os.path.join(other.data, "kubeconfig"))
            subprocess.run([c.KUBECTL, "apply", "-f", "-"], env=environment, text=True, check=True, timeout=60, stdout=subprocess.DEVNULL,
                           input=json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": pod_spec()}))
            subprocess.run([c.KUBECTL, "wait", "--for=condition=Ready", "pod/p", "--timeout=60s"], env=environment, check=True,
                           timeout=90, stdout=subprocess.DEVNULL)
            with Forward(environment, "pod/p", 80) as forward:
                self.assertEqual(other.stop(), 0)
                self.assertEqual(forward.wait(), 1)
                self.assertIn("lost connection to pod", forward.errors)

    def test_discovery_names_it(self):
        resources = json.loads(self.kubectl("get", "--raw", "/api/v1"))["resources"]
        found = [one for one in resources if one["name"] == "pods/portforward"]
        self.assertEqual([(one["kind"], one["verbs"]) for one in found], [("PodPortForwardOptions", ["create", "get"])])

    def test_what_cannot_be_is_said(self):
        self.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "never"}, "spec": {**pod_spec(), "nodeSelector": {"a": "b"}}})
        for path, words in (("p", "Upgrade request required"), ("nobody", "not found")):
            done = subprocess.run([c.KUBECTL, "get", "--raw", f"/api/v1/namespaces/default/pods/{path}/portforward"], env=self.environment,
                                  text=True, capture_output=True, timeout=60)
            self.assertIn(words, done.stderr)
        done = subprocess.run([c.KUBECTL, "port-forward", "pod/never", ":1", "--pod-running-timeout=1s"], env=self.environment, text=True,
                              capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 1)


if __name__ == "__main__":
    unittest.main()
