#!/usr/bin/env python3
"""`basalt up --clusters 2`: a job follows its table; a metadata service that fails in every way is told apart on the claims."""
import json
import os
import subprocess
import sys
import unittest

import cluster as c

sys.path.insert(0, str(c.ROOT / "test" / "data"))
import amoro  # noqa: E402  pylint: disable=wrong-import-position

# What the claim on a table says in the end: the reason of its condition Bound, and a part of the message.
FATES = {
    "ok": ("BindingSuccessful", ""), "odd name/100%": ("BindingSuccessful", ""), "flaky": ("BindingSuccessful", ""),
    "limited": ("BindingSuccessful", ""), "big": ("BindingSuccessful", ""), "external": ("BindingSuccessful", ""),
    "missing": ("DataSourceNotFound", "there is no such table"), "nodatabase": ("DataSourceNotFound", "there is no such table"),
    "unmapped": ("NoClusterMapping", "s3://elsewhere"),
    "proxy404": ("ResolutionFailed", "is endpoint.url right?"), "html": ("ResolutionFailed", "not the description of a table"),
    "truncated": ("ResolutionFailed", "not the description of a table"), "nolocation": ("ResolutionFailed", "names no location"),
    "wrongtype": ("ResolutionFailed", "not the description of a table"), "endless": ("ResolutionFailed", "larger than we read"),
    "refused": ("ResolutionFailed", "does not accept our credentials"),
    "denied": ("ResolutionFailed", "answered 401"), "forbidden": ("ResolutionFailed", "answered 403"),
    "external2": ("ResolutionFailed", "dashboard answered code 500"), "busy": ("ResolutionFailed", "answered 503"),
    "slow": ("ResolutionFailed", "did not answer in time"), "reset": ("ResolutionFailed", "broke the connection off"),
    "half": ("ResolutionFailed", "broke the connection off"), "redirect": ("ResolutionFailed", "a redirection is not followed"),
}


def claim(name, system, data, job):
    return {"apiVersion": "datadependency.volcano.sh/v1alpha1", "kind": "DataSourceClaim", "metadata": {"name": name},
            "spec": {"system": system, "dataSourceType": "table", "dataSourceName": data,
                     "workload": {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": job}}}


def submit(cluster, *objects):
    cluster.basalt("run", "--detach", "-f", "-", text="\n---\n".join(json.dumps(one) for one in objects))


def claims(cluster):
    return {one["metadata"]["name"]: one for one in json.loads(cluster.basalt("data", "list", "-o", "json").stdout)["items"]}


def bound(one):
    for condition in one.get("status", {}).get("conditions", []):
        if condition["type"] == "Bound":
            return condition["reason"], condition["message"]
    return "", ""


def jobs_of(cluster, member):
    config = os.path.join(cluster.data, member, "kubeconfig")
    return subprocess.run([c.BINARY, "job", "list", "-o", "name", "--kubeconfig", config], capture_output=True, text=True, check=True,
                          timeout=60).stdout


class DataTest(unittest.TestCase):
    def test_a_job_follows_its_table(self):
        with c.Cluster("--clusters", "2") as cluster:
            cluster.basalt("run", "--detach", "-f", str(c.ROOT / "examples" / "data-follow.yaml"))

            def runs_in(member):
                return c.wait_for(f"the job to run in {member}", lambda: any(
                    line.split()[0] == "report-orders" and line.split()[6:7] == [member]
                    for line in cluster.basalt("data", "list").stdout.splitlines()) and "report" in jobs_of(cluster, member))
            runs_in("member2")
            self.assertNotIn("report", jobs_of(cluster, "member1"), "it never was elsewhere")
            cluster.basalt("run", "-f", str(c.ROOT / "examples" / "data-moved.yaml"))
            runs_in("member1")
            c.wait_for("the old place to be empty", lambda: "report" not in jobs_of(cluster, "member2"))
            top = json.loads(cluster.basalt("data", "top", "-o", "json").stdout)["data"]
            self.assertEqual([(one["name"], one["dataIn"], one["usedFrom"]) for one in top],
                             [("shop.sales.orders", ["member1"], {"member1": 1})])
            self.assertIn("the workload is in member1", cluster.basalt("data", "explain", "report-orders").stdout)

    def test_a_metadata_service_that_fails_in_every_way(self):
        with amoro.Server() as server, c.Cluster("--clusters", "2") as cluster:
            config = {"endpoint": {"url": server.url, "auth": {"type": "amoro-signature", "secretRef": {"name": "amoro"}}},
                      "dashboardFallback": True, "locationMapping": {"s3://warehouse/": ["member2"]},
                      "retryConfig": {"maxRetries": 2, "initialBackoff": "50ms", "maxBackoff": "100ms", "timeout": "3s"}}
            global_namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "volcano-global"}}
            secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "amoro", "namespace": "volcano-global"},
                      "stringData": {"apiKey": server.api_key, "secret": server.secret}}
            plugins = {"apiVersion": "v1", "kind": "ConfigMap",
                       "metadata": {"name": "volcano-global-datasource-plugins", "namespace": "volcano-global"},
                       "data": {"amoro": json.dumps(config)}}
            submit(cluster, global_namespace, secret, plugins)
            tables = {f"claim-{i}": table for i, table in enumerate(FATES)}
            submit(cluster, *[claim(name, "amoro", f"lake.shop.{table}", "nobody") for name, table in tables.items()])
            # A hundred more on one table cost no call.
            submit(cluster, *[claim(f"again-{i}", "amoro", "lake.shop.ok", f"job-{i}") for i in range(100)])

            def all_decided():
                found = claims(cluster)
                return len(found) == len(FATES) + 100 and all(
                    bound(one)[0] not in ("", "Resolving") for one in found.values()) and all(
                    bound(found[name])[0] == FATES[table][0] for name, table in tables.items())
            try:
                c.wait_for("every claim's fate", all_decided, 100)
            except AssertionError:
                pass  # what differs is told below
            found = claims(cluster)
            for name, table in tables.items():
                with self.subTest(table):
                    reason, message = bound(found[name])
                    self.assertEqual(reason, FATES[table][0], message)
                    self.assertIn(FATES[table][1], message)
            self.assertEqual(server.calls["lake.shop.ok"], 1)
            self.assertEqual(server.calls["lake.shop.odd name/100%"], 1, "the name arrives as it was written")
            self.assertEqual(server.calls["lake.shop.missing"], 1, "a missing table is not asked for again at once")
            self.assertGreaterEqual(server.limited_for, 1.0, "Retry-After is honoured")
            # The location of unmapped data is told by its bucket only; credentials are nowhere.
            told = cluster.printed() + json.dumps(found) + subprocess.run(
                [c.BINARY, "events", "-A", "-o", "json"], env=cluster.environment(), capture_output=True, text=True, check=False).stdout
            self.assertNotIn("secret-path", told)
            self.assertNotIn(server.secret, told)
            self.assertNotIn(server.api_key, told)
            self.assertFalse([path for path, _ in server.requests if server.secret in path])
            self.assertFalse([headers for _, headers in server.requests if headers.get("X-Request-Source")])
            # The data moves; the mapping is read again.
            config["locationMapping"]["s3://warehouse/"] = ["member1"]
            plugins["data"]["amoro"] = json.dumps(config)
            submit(cluster, plugins)
            c.wait_for("the data to move", lambda: "member1" in cluster.basalt("data", "view", "again-7").stdout)

    def test_every_plugin_is_reconfigured_while_it_runs(self):
        with amoro.Server() as server, c.Cluster("--clusters", "2") as cluster:
            retry = {"maxRetries": 1, "initialBackoff": "50ms", "maxBackoff": "100ms", "timeout": "3s"}

            def documents(places):
                """Each plugin's, with where its data is."""
                mapping = {plugin: {"s3://warehouse/": [place]} for plugin, place in places.items()}
                auth = {"type": "amoro-signature" if server.auth == "token" else server.auth, "secretRef": {"name": "all"}}
                return {"static": json.dumps({"tables": {"anything": [places["static"]]}}),
                        "iceberg": json.dumps({"endpoint": {"url": server.url + "/iceberg", "auth": {"type": "bearer", "secretRef": {"name": "all"}}},
                                               "warehouse": "lake", "locationMapping": mapping["iceberg"], "retryConfig": retry}),
                        "amoro": json.dumps({"endpoint": {"url": server.url, "auth": auth}, "api": "dashboard",
                                             "locationMapping": mapping["amoro"], "retryConfig": retry})}

            def configure(places):
                submit(cluster, {"apiVersion": "v1", "kind": "ConfigMap", "data": documents(places),
                                 "metadata": {"name": "volcano-global-datasource-plugins", "namespace": "volcano-global"}})

            def located():
                return {one["system"] + " " + one["name"]: one["dataIn"]
                        for one in json.loads(cluster.basalt("data", "top", "-o", "json").stdout)["data"] if one["dataIn"]}
            submit(cluster, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "volcano-global"}},
                   {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "all", "namespace": "volcano-global"},
                    "stringData": {"apiKey": server.api_key, "secret": server.secret, "token": server.token,
                                   "username": server.api_key, "password": server.secret}})
            places = {"static": "member1", "iceberg": "member1", "amoro": "member1"}
            configure(places)
            fates = {"missing": "DataSourceNotFound", "html": "ResolutionFailed", "endless": "ResolutionFailed", "reset": "ResolutionFailed",
                     "big": "BindingSuccessful", "slow": "ResolutionFailed", "denied": "ResolutionFailed", "busy": "ResolutionFailed"}
            submit(cluster, claim("s", "static", "anything", "j"), claim("i", "iceberg", "shop.orders", "j"),
                   claim("deep", "iceberg", "eu.shop.orders", "j"), claim("a", "amoro", "lake.shop.ok", "j"),
                   *[claim(table, "iceberg", f"shop.{table}", "nobody") for table in fates])
            data = {"static anything": "static", "iceberg shop.orders": "iceberg", "iceberg eu.shop.orders": "iceberg",
                    "amoro lake.shop.ok": "amoro"}

            def all_at(wanted):
                found = located()
                return all(found.get(name) == [wanted[plugin]] for name, plugin in data.items())
            c.wait_for("the data to be found", lambda: all_at(places))
            self.assertEqual((server.calls["lake.shop.orders"], server.calls["lake.eu.shop.orders"]), (1, 1))
            for plugin, auth in (("static", "token"), ("iceberg", "token"), ("amoro", "basic"), ("amoro", "jwt")):
                places[plugin] = "member2" if places[plugin] == "member1" else "member1"
                server.auth = auth
                configure(places)
                c.wait_for(f"{plugin} to be asked with {auth}", lambda: all_at(places))
            c.wait_for("every claim's fate", lambda: all(
                bound(one)[0] == fates[name] for name, one in claims(cluster).items() if name in fates), 60)
            told = cluster.printed() + json.dumps(claims(cluster)) + cluster.basalt("data", "top", "-o", "json").stdout
            for word in (server.api_key, server.secret, server.token):
                self.assertNotIn(word, told)


if __name__ == "__main__":
    unittest.main()
