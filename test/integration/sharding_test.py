#!/usr/bin/env python3
"""`basalt up` with the sharding controller: a scheduler keeps to its shard, and `basalt shard` says who has which node and why."""
import json
import unittest

import cluster as c

DOCUMENT = """schedulerConfigs:
- name: agent-scheduler
  policies: [{name: node-limit, arguments: {maxNodes: 1}}]
- name: volcano
  policies:
  - {name: allocation-rate, arguments: {maxCPUUtil: 1.0}}
  - {name: node-limit, arguments: {minNodes: 4, maxNodes: 5}}
"""


def config_map(document):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "volcano-sharding-configmap", "namespace": "volcano-system"},
            "data": {"sharding.yaml": document}}


def gang(name, replicas, cpu):
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name},
            "spec": {"minAvailable": replicas, "schedulerName": "volcano", "tasks": [{"name": "t", "replicas": replicas, "template": {"spec": {
                "restartPolicy": "Never", "containers": [{"name": "c", "image": "none", "command": ["/bin/sh", "-c", "sleep 1000"],
                                                          "resources": {"requests": {"cpu": cpu}}}]}}}]}}


class ShardingTest(unittest.TestCase):
    def submit(self, cluster, manifest):
        return cluster.basalt("run", "--detach", "-f", "-", text=json.dumps(manifest))

    def shards(self, cluster):
        items = json.loads(cluster.basalt("shard", "list", "-o", "json").stdout)["items"]
        return {item["metadata"]["name"]: item for item in items}

    def test_a_scheduler_keeps_to_its_shard(self):
        with c.Cluster("--nodes", "3", "--node-capacity", "cpu=4,memory=1Gi", "--controllers", "*", "--scheduler-sharding-mode",
                       "hard") as cluster:
            self.submit(cluster, config_map(DOCUMENT))

            def is_shared_out():
                shards = self.shards(cluster)
                wanted = {"agent-scheduler": 1, "volcano": 2}
                return shards if {name: len(shard["spec"]["nodesDesired"]) for name, shard in shards.items()} == wanted else None
            shards = c.wait_for("two shards", is_shared_out)
            other = shards["agent-scheduler"]["spec"]["nodesDesired"][0]
            mine = shards["volcano"]["spec"]["nodesDesired"]
            c.wait_for("the scheduler to take over its nodes",
                       lambda: self.shards(cluster)["volcano"].get("status", {}).get("nodesInUse") == mine)
            self.submit(cluster, gang("fits", 2, "3"))
            c.wait_for("the gang that fits", lambda: cluster.job("fits")["status"]["state"]["phase"] == "Running")
            self.submit(cluster, gang("waits", 1, "3"))
            c.wait_for("the reason", lambda: "node isn't in scheduler node shard" in cluster.basalt("explain", "waits", check=False).stdout)

            listed = cluster.basalt("shard", "list").stdout
            self.assertRegex(listed, r"NAME +DESIRED +IN USE +TO ADD +TO REMOVE")
            self.assertRegex(listed, r"volcano +2 +2 +0 +0")
            viewed = cluster.basalt("shard", "view", "volcano").stdout
            for node in mine:
                self.assertIn(node, viewed)
            explained = cluster.basalt("shard", "explain", mine[0]).stdout
            self.assertRegex(explained, r"Owner: +volcano")
            self.assertRegex(explained, r"In use by: +volcano")
            self.assertIn("cpu 75.0%", explained)
            self.assertRegex(cluster.basalt("shard", "explain", other).stdout, r"Owner: +agent-scheduler")
            status = c.wait_for("the status", lambda: self.status_with(cluster, "ConfigMap volcano-system/volcano-sharding-configmap"))
            self.assertRegex(status, r"volcano +2 +4 +5 +1 +2 missing to the minimum")

            self.submit(cluster, config_map("schedulerConfigs: [{name: a, policies: [{name: nosuch}]}]"))
            status = c.wait_for("the problem", lambda: self.status_with(cluster, "PROBLEM", 1))
            self.assertIn("nosuch", status)
            self.assertEqual(sorted(self.shards(cluster)), ["agent-scheduler", "volcano"])

    def status_with(self, cluster, text, code=0):
        done = cluster.basalt("shard", "status", check=False)
        return done.stdout if text in done.stdout and done.returncode == code else None


if __name__ == "__main__":
    unittest.main()
