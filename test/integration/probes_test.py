#!/usr/bin/env python3
"""Probes over the network on `basalt up`: a web server that gets ready, loses its endpoint, and is restarted by its answers."""
import pathlib
import socket
import unittest

import cluster as c
import workloads_test as w


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def probe(action, **more):
    return {**action, "periodSeconds": 1, "timeoutSeconds": 20, **more}


def web_pod(site, port):
    """Serves a folder at the pod's own address, with all three probes: one over TCP, two that ask for a file."""
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "labels": {"app": "web"}}, "spec": {
        "terminationGracePeriodSeconds": 1, "containers": [{
            "name": "c", "image": "none", "ports": [{"name": "http", "containerPort": port}],
            "command": ["/bin/sh", "-c", f"cd {site} && exec python3 -m http.server {port} --bind $BASALT_POD_IP"],
            "startupProbe": probe({"tcpSocket": {"port": "http"}}, failureThreshold=60),
            "readinessProbe": probe({"httpGet": {"port": "http", "path": "/ready"}}, failureThreshold=1),
            "livenessProbe": probe({"httpGet": {"port": port, "path": "/alive"}}, failureThreshold=1)}]}}


class ProbesTest(unittest.TestCase):
    def test_a_web_server_lives_by_its_answers(self):
        with c.Cluster("--node-capacity", "cpu=8,pods=50") as cluster:
            api = w.Api(cluster)
            site = pathlib.Path(cluster.folder, "site")
            site.mkdir()
            (site / "alive").write_text("yes")
            api.create("services", {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {
                "selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": "http"}]}})
            api.create("pods", web_pod(site, free_port()))

            def container():
                return (api.get("pods", "web").get("status", {}).get("containerStatuses") or [{}])[0]

            def addresses():
                return [address["ip"] for subset in api.get("endpoints", "web").get("subsets") or []
                        for address in subset.get("addresses") or []]

            def is_told(reason, text):
                return [event for event in api.items("events") if event["reason"] == reason and text in event["message"]
                        and event["involvedObject"].get("fieldPath") == "spec.containers{c}"]
            c.wait_for("the startup probe", lambda: container().get("started"))
            c.wait_for("the event", lambda: is_told("Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 404"))
            self.assertFalse(container()["ready"])
            self.assertEqual(addresses(), [])
            (site / "ready").write_text("yes")
            c.wait_for("the pod to be ready", lambda: container().get("ready"))
            c.wait_for("its endpoint", lambda: addresses() == [api.get("pods", "web")["status"]["podIP"]])
            (site / "ready").unlink()
            c.wait_for("the endpoint's end", lambda: addresses() == [])
            self.assertEqual(container()["restartCount"], 0)
            (site / "alive").unlink()
            c.wait_for("a restart", lambda: container().get("restartCount", 0) >= 1)
            (site / "alive").write_text("yes")
            c.wait_for("the events", lambda: is_told("Unhealthy", "Liveness probe failed: HTTP probe failed with statuscode: 404")
                       and is_told("Killing", "Container c failed liveness probe, will be restarted"))
            (site / "ready").write_text("yes")
            c.wait_for("the next run to be ready", lambda: container().get("ready"))


if __name__ == "__main__":
    unittest.main()
