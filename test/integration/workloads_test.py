#!/usr/bin/env python3
"""Deployments, StatefulSets, core Jobs and Services on `basalt up`: they run on process nodes, as kubectl sees them."""
import json
import os
import pathlib
import re
import socket
import ssl
import subprocess
import time
import unittest
import urllib.request

import cluster as c

GROUPS = {"deployments": "apis/apps/v1", "replicasets": "apis/apps/v1", "statefulsets": "apis/apps/v1", "jobs": "apis/batch/v1",
          "endpointslices": "apis/discovery.k8s.io/v1"}


class Api:
    """The HTTP API as the administrator."""

    def __init__(self, cluster):
        self.server = re.search(r'server"?: "?(https://[^"\s]+)', pathlib.Path(cluster.data, "kubeconfig").read_text()).group(1)
        self.token = pathlib.Path(cluster.data, "pki", "admin.token").read_text().strip()
        self.context = ssl.create_default_context()
        self.context.check_hostname = False
        self.context.verify_mode = ssl.CERT_NONE

    def call(self, method, plural, name="", body=None, kind="application/json"):
        url = f"{self.server}/{GROUPS.get(plural, 'api/v1')}/namespaces/default/{plural}{'/' + name if name else ''}"
        request = urllib.request.Request(url, method=method, data=None if body is None else json.dumps(body).encode(),
                                         headers={"Authorization": f"Bearer {self.token}", "Content-Type": kind})
        with urllib.request.urlopen(request, context=self.context, timeout=30) as answer:
            return json.loads(answer.read())

    def get(self, plural, name):
        return self.call("GET", plural, name)

    def items(self, plural):
        return self.call("GET", plural)["items"]

    def create(self, plural, body):
        return self.call("POST", plural, body=body)

    def patch(self, plural, name, body):
        return self.call("PATCH", plural, name, body, "application/strategic-merge-patch+json")


def workload(kind, name, command, api="apps/v1", restart="Always", labels=True, **spec):
    template = {"metadata": {"labels": {"app": name}} if labels else {}, "spec": {
        "restartPolicy": restart, "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "c", "image": "none", "command": ["/bin/sh", "-c", command]}]}}
    selector = {"selector": {"matchLabels": {"app": name}}} if labels else {}
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": {**selector, "template": template, **spec}}


def running(api, app):
    return sorted((pod for pod in api.items("pods") if pod["metadata"].get("labels", {}).get("app") == app
                   and pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]),
                  key=lambda pod: pod["metadata"]["name"])


SLEEP = "trap 'exit 0' TERM; while true; do sleep 0.1; done"


class WorkloadsTest(unittest.TestCase):
    def test_a_deployment_rolls_over_and_its_service_follows(self):
        with c.Cluster("--node-capacity", "cpu=8,pods=50") as cluster:
            api = Api(cluster)
            api.create("services", {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {
                "selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]}})
            api.create("deployments", workload("Deployment", "web", "VERSION=1; " + SLEEP, replicas=3))

            def is_rolled_out():
                deployment = api.get("deployments", "web")
                status = deployment.get("status", {})
                return (status.get("observedGeneration") == deployment["metadata"]["generation"] and status.get("replicas") == 3
                        and status.get("updatedReplicas") == 3 and status.get("availableReplicas") == 3)
            c.wait_for("the first roll-out", is_rolled_out)
            before = {pod["metadata"]["uid"] for pod in running(api, "web")}
            self.assertEqual(len(before), 3)

            def addresses():
                return sorted(address["ip"] for subset in api.get("endpoints", "web").get("subsets", [])
                              for address in subset.get("addresses", []))
            c.wait_for("three endpoints", lambda: addresses() == sorted(pod["status"]["podIP"] for pod in running(api, "web")))
            api.patch("deployments", "web", {"spec": {"template": {"spec": {"containers": [
                {"name": "c", "command": ["/bin/sh", "-c", "VERSION=2; " + SLEEP]}]}}}})
            fewest = 3
            deadline = time.monotonic() + 60
            while not is_rolled_out():
                fewest = min(fewest, len(running(api, "web")))
                self.assertLess(time.monotonic(), deadline, cluster.printed())
            self.assertGreaterEqual(fewest, 3)  # maxUnavailable: 25 % of three is none
            after = c.wait_for("the old pods' end", lambda: len(running(api, "web")) == 3 and running(api, "web"))
            self.assertFalse(before & {pod["metadata"]["uid"] for pod in after})
            self.assertEqual(len(api.items("replicasets")), 2)
            c.wait_for("the new endpoints", lambda: addresses() == sorted(pod["status"]["podIP"] for pod in running(api, "web")))
            c.wait_for("slices with the three endpoints", lambda: sum(
                len(item["endpoints"] or []) for item in api.items("endpointslices") if item["metadata"]["name"].startswith("web-")) == 3)

    def test_a_stateful_set_comes_up_in_order_and_keeps_its_names(self):
        with c.Cluster("--node-capacity", "cpu=8,pods=50") as cluster:
            api = Api(cluster)
            order = os.path.join(cluster.folder, "order")
            command = f"hostname >> {order}; echo $HOSTNAME > /dev/null; {SLEEP}"
            claims = [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
                                                              "resources": {"requests": {"storage": "1Mi"}}}}]
            api.create("statefulsets", workload("StatefulSet", "db", command, replicas=2, serviceName="db",
                                                volumeClaimTemplates=claims))
            c.wait_for("two ready pods", lambda: api.get("statefulsets", "db").get("status", {}).get("readyReplicas") == 2)
            pods = running(api, "db")
            self.assertEqual([pod["metadata"]["name"] for pod in pods], ["db-0", "db-1"])
            ready = [next(condition["lastTransitionTime"] for condition in pod["status"]["conditions"] if condition["type"] == "Ready")
                     for pod in pods]
            self.assertLessEqual(ready[0], pods[1]["metadata"]["creationTimestamp"])
            self.assertEqual({claim["metadata"]["name"] for claim in api.items("persistentvolumeclaims")}, {"data-db-0", "data-db-1"})
            api.call("DELETE", "pods", "db-0")
            again = c.wait_for("db-0 again", lambda: [pod for pod in running(api, "db") if pod["metadata"]["name"] == "db-0"
                                                      and pod["metadata"]["uid"] != pods[0]["metadata"]["uid"]])
            self.assertEqual(len(again), 1)

    def test_a_core_job_finishes_and_an_indexed_one_knows_its_index(self):
        with c.Cluster("--node-capacity", "cpu=8,pods=50") as cluster:
            api = Api(cluster)
            marks = os.path.join(cluster.folder, "marks")
            api.create("jobs", workload("Job", "three", f"echo three >> {marks}", "batch/v1", "Never", False,
                                        completions=3, parallelism=2))
            api.create("jobs", workload("Job", "index", f"echo index-$JOB_COMPLETION_INDEX >> {marks}", "batch/v1", "Never", False,
                                        completions=3, parallelism=3, completionMode="Indexed"))
            api.create("jobs", workload("Job", "bad", "exit 3", "batch/v1", "Never", False, backoffLimit=0))

            def has(name, kind):
                return any(condition["type"] == kind and condition["status"] == "True"
                           for condition in api.get("jobs", name).get("status", {}).get("conditions", []))
            c.wait_for("both jobs", lambda: has("three", "Complete") and has("index", "Complete"))
            c.wait_for("the bad one", lambda: has("bad", "Failed"))
            self.assertEqual(api.get("jobs", "three")["status"]["succeeded"], 3)
            self.assertEqual(api.get("jobs", "index")["status"]["completedIndexes"], "0-2")
            lines = sorted(pathlib.Path(marks).read_text().split())
            self.assertEqual(lines, ["index-0", "index-1", "index-2", "three", "three", "three"])
            # The end of a job and of its pods: nothing holds them back.
            api.call("DELETE", "jobs", "three", {"propagationPolicy": "Background"})
            c.wait_for("its pods' end", lambda: not [pod for pod in api.items("pods")
                                                     if pod["metadata"]["labels"].get("job-name") == "three"])

    @c.needs_kubectl
    def test_requests_go_through_the_api_to_a_pod_and_to_a_service(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
        with c.Cluster("--node-capacity", "cpu=8,pods=50") as cluster:
            api = Api(cluster)
            page = "mkdir site; echo hello > site/page; cd site; "
            api.create("deployments", workload("Deployment", "web", f'{page} exec python3 -m http.server --bind "$BASALT_POD_IP" {port}'))
            api.create("services", {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {
                "selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": port}]}})

            def raw(path):
                done = subprocess.run([str(c.KUBECTL), "get", "--raw", "/api/v1/namespaces/default/" + path], env=cluster.environment(),
                                      text=True, capture_output=True, timeout=60, check=False)
                return done.stdout or done.stderr
            c.wait_for("the service's answer", lambda: raw("services/web:http/proxy/page") == "hello\n")
            pod = running(api, "web")[0]["metadata"]["name"]
            self.assertEqual(raw(f"pods/{pod}:{port}/proxy/page"), "hello\n")
            self.assertIn("page</a>", raw(f"pods/{pod}:{port}/proxy/"))
            self.assertIn("NotFound", raw(f"pods/{pod}:{port}/proxy/nothing"))
            self.assertIn("no port", raw("services/web:other/proxy/page"))

    def test_without_workloads_nobody_acts(self):
        with c.Cluster("--workloads=false") as cluster:
            api = Api(cluster)
            api.create("jobs", workload("Job", "one", "true", "batch/v1", "Never", False))
            cluster.basalt("run", "-f", "-", text=c.job_manifest("other", "true"))
            self.assertNotIn("startTime", api.get("jobs", "one").get("status", {}))

    @c.needs_kubectl
    def test_kubectl_rollout(self):
        with c.Cluster("--node-capacity", "cpu=8,pods=50") as cluster:
            def kubectl(*arguments, text=None):
                done = subprocess.run([str(c.KUBECTL), *arguments], env=cluster.environment(), input=text, text=True,
                                      capture_output=True, timeout=120, check=False)
                self.assertEqual(done.returncode, 0, f"kubectl {' '.join(arguments)}:\n{done.stdout}{done.stderr}")
                return done.stdout
            kubectl("apply", "-f", "-", text=json.dumps(workload("Deployment", "web", "V=1; " + SLEEP, replicas=2)))
            self.assertIn("successfully rolled out", kubectl("rollout", "status", "deployment/web", "--timeout=60s"))
            kubectl("set", "env", "deployment/web", "V=2")
            self.assertIn("successfully rolled out", kubectl("rollout", "status", "deployment/web", "--timeout=60s"))
            self.assertRegex(kubectl("rollout", "history", "deployment/web"), r"(?m)^1 .*\n2 ")
            kubectl("rollout", "undo", "deployment/web")
            kubectl("rollout", "status", "deployment/web", "--timeout=60s")
            self.assertRegex(kubectl("rollout", "history", "deployment/web"), r"(?m)^2 .*\n3 ")
            self.assertNotIn("name: V", kubectl("get", "deployment", "web", "-o", "yaml").split("status:")[0])
            kubectl("rollout", "restart", "deployment/web")
            kubectl("rollout", "status", "deployment/web", "--timeout=60s")
            kubectl("scale", "deployment/web", "--replicas=1")
            kubectl("wait", "--for=jsonpath={.status.replicas}=1", "deployment/web", "--timeout=60s")
            kubectl("apply", "-f", "-", text=json.dumps(workload("StatefulSet", "db", SLEEP, replicas=2, serviceName="db")))
            kubectl("rollout", "status", "statefulset/db", "--timeout=60s")
            kubectl("set", "env", "statefulset/db", "V=2")
            kubectl("rollout", "status", "statefulset/db", "--timeout=60s")
            self.assertRegex(kubectl("rollout", "history", "statefulset/db"), r"(?m)^1 .*\n2 ")
            kubectl("rollout", "undo", "statefulset/db")
            kubectl("rollout", "status", "statefulset/db", "--timeout=60s")
            kubectl("create", "job", "hello", "--image=none", "--", "/bin/echo", "hello")
            kubectl("wait", "--for=condition=complete", "job/hello", "--timeout=60s")
            self.assertIn("hello", kubectl("logs", "job/hello"))
            # Follows what is written later, and ends with the pod.
            kubectl("create", "job", "talk", "--image=none", "--", "/bin/sh", "-c", "echo one; sleep 2; echo two")
            kubectl("wait", "--for=jsonpath={.status.active}=1", "job/talk", "--timeout=60s")
            self.assertEqual(kubectl("logs", "-f", "--pod-running-timeout=60s", "job/talk"), "one\ntwo\n")


if __name__ == "__main__":
    unittest.main()
