#!/usr/bin/env python3
"""Tries the generated CRDs on a real API server: they are accepted without a warning, every short name answers, every
object of src/api/testdata is taken under strict validation and comes back with all that was sent, defaults are set,
and what must be refused is refused.

It needs the programs that tools/kube/build makes (build/kube) and starts a server of its own; --kubeconfig uses another.
"""

import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import check

ROOT = pathlib.Path(__file__).resolve().parents[2]
TESTDATA = ROOT / "src/api/testdata"


class Cluster:
    def __init__(self, kubeconfig, kubectl):
        self.kubeconfig = kubeconfig
        self.kubectl = kubectl

    def run(self, *arguments, text=None):
        done = subprocess.run([self.kubectl, "--kubeconfig", self.kubeconfig, *arguments], input=text, capture_output=True,
                              text=True, timeout=120, env={"HOME": tempfile.gettempdir(), "PATH": os.environ["PATH"]})
        return done.returncode, done.stdout, done.stderr.strip()


class Checks:
    def __init__(self):
        self.passed = 0
        self.failed = []

    def expect(self, ok, what):
        if ok:
            self.passed += 1
        else:
            self.failed.append(what)
            print(f"FAILED: {what}")


def is_contained(part, whole):
    """Whether everything of `part` is in `whole`; the server may add defaults and metadata."""
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(k in whole and is_contained(v, whole[k]) for k, v in part.items())
    if isinstance(part, list) and isinstance(whole, list):
        return len(part) == len(whole) and all(is_contained(a, b) for a, b in zip(part, whole))
    return part == whole and type(part) is type(whole)


def apply_definitions(cluster, checks, model):
    for kind in model.own_kinds():
        path = ROOT / f"deploy/crds/{kind.group}_{kind.plural}.yaml"
        code, _out, err = cluster.run("apply", "--server-side", "-f", str(path))
        checks.expect(code == 0 and not err, f"{path.name} is accepted without a word: {err}")
    names = [f"crd/{k.plural}.{k.group}" for k in model.own_kinds()]
    code, _out, err = cluster.run("wait", "--for=condition=Established", "--timeout=60s", *names)
    checks.expect(code == 0, f"all kinds are established: {err}")


def check_names(cluster, checks, model):
    for kind in model.own_kinds():
        for name in [kind.plural, kind.singular, *kind.short_names]:
            full = f"{name}.{kind.group}" if name in ("jobs", "job", "cronjobs", "cronjob") else name
            code, out, err = cluster.run("get", full, "-A", "-o", "name")
            checks.expect(code == 0, f"kubectl get {full}: {err}")


def own_objects(model):
    kinds = {(k.api_version, k.name): k for k in model.own_kinds()}
    for path in sorted(TESTDATA.glob("*.json")):
        value = json.loads(path.read_text())
        kind = kinds.get((value["apiVersion"], value["kind"]))
        if kind:
            yield path.stem, kind, value


def check_objects(cluster, checks, model):
    for stem, kind, value in own_objects(model):
        value["metadata"].pop("finalizers", None)
        if not value["metadata"].get("generateName"):
            value["metadata"]["name"] = stem.replace("_", "-")
        code, out, err = cluster.run("create", "--validate=strict", "-o", "json", "-f", "-", text=json.dumps(value))
        checks.expect(code == 0 and not err, f"{stem} is taken under strict validation: {err}")
        if code != 0:
            continue
        stored = json.loads(out)
        wanted = {k: v for k, v in value.items() if k != "status" or not kind.has_status}
        checks.expect(is_contained(wanted, stored), f"{stem} comes back with all that was sent")
        if kind.has_status and "status" in value:
            name = stored["metadata"]["name"]
            stored["status"] = value["status"]
            code, out, err = cluster.run("replace", "--subresource=status", "--validate=strict", "-o", "json", "-f", "-",
                                         text=json.dumps(stored))
            checks.expect(code == 0 and not err, f"the status of {stem} ({name}) is taken: {err}")
            if code == 0:
                checks.expect(is_contained(value["status"], json.loads(out).get("status", {})),
                              f"the status of {stem} comes back with all that was sent")


# (kind, what is sent, path, what must be there)
DEFAULTS = [
    ("Job", {"spec": {}}, ["spec"], {"queue": "default", "maxRetry": 3}),
    ("Job", {"spec": {"networkTopology": {}}}, ["spec", "networkTopology"], {"mode": "hard"}),
    ("Job", {"spec": {"tasks": [{"partitionPolicy": {"totalPartitions": 1, "partitionSize": 1}}]}},
     ["spec", "tasks", 0, "partitionPolicy"], {"totalPartitions": 1, "partitionSize": 1, "minPartitions": 0}),
    ("CronJob", {"spec": {"schedule": "@daily", "jobTemplate": {"spec": {}}}}, ["spec"],
     {"schedule": "@daily", "concurrencyPolicy": "Allow", "suspend": False, "successfulJobsHistoryLimit": 3,
      "failedJobsHistoryLimit": 1, "jobTemplate": {"spec": {"queue": "default", "maxRetry": 3}}}),
    ("Queue", {"spec": {}}, ["spec"], {"weight": 1, "dequeueStrategy": "traverse"}),
    ("PodGroup", {"spec": {"subGroupPolicy": [{}]}}, ["spec"],
     {"queue": "default", "subGroupPolicy": [{"subGroupSize": 1, "minSubGroups": 0}]}),
    ("HyperJob", {"spec": {"replicatedJobs": [{"name": "a", "templateSpec": {"networkTopology": {}}}]}},
     ["spec", "replicatedJobs", 0],
     {"name": "a", "replicas": 1, "templateSpec": {"maxRetry": 3, "networkTopology": {"mode": "hard"}}}),
    ("HyperJob", {"spec": {"replicatedJobs": [{"name": "a", "templateSpec": {}, "replicas": 0}]}},
     ["spec", "replicatedJobs", 0], {"name": "a", "replicas": 0, "templateSpec": {"maxRetry": 3}}),
    ("JobFlow", {"spec": {"flows": [{"name": "a", "patch": {"jobSpec": {"networkTopology": {}}}}]}}, ["spec"],
     {"flows": [{"name": "a", "patch": {"jobSpec": {"networkTopology": {}}}}]}),
    ("JobTemplate", {"spec": {}}, ["spec"], {"queue": "default", "maxRetry": 3}),
]

# (kind, what is sent, a part of the refusal)
REFUSED = [
    ("Job", {"spec": {"tasks": []}}, "spec.tasks"),
    ("Job", {"spec": {"tasks": [{"replicas": -1}]}}, "spec.tasks[0].replicas"),
    ("Job", {"spec": {"tasks": [{"name": "Upper"}]}}, "spec.tasks[0].name"),
    ("Job", {"spec": {"tasks": [{"template": {"spec": {}}}]}}, "spec.tasks[0].template.spec.containers"),
    ("Job", {"spec": {"tasks": [{"topologyPolicy": "strict"}]}}, "spec.tasks[0].topologyPolicy"),
    ("Job", {"spec": {"policies": [{"event": "PodExploded"}]}}, "spec.policies[0].event"),
    ("Job", {"spec": {"volumes": [{"mountPath": ""}]}}, "spec.volumes[0].mountPath"),
    ("Job", {"spec": {"volumes": [{"mountPath": "/a:b"}]}}, "spec.volumes[0].mountPath"),
    ("Job", {"spec": {"queue": ""}}, "spec.queue"),
    ("Job", {"spec": {"minSuccess": 0}}, "spec.minSuccess"),
    ("Job", {"spec": {"networkTopology": {"mode": "firm"}}}, "spec.networkTopology.mode"),
    ("Job", {"spec": {"unheardOf": 1}}, "unknown field"),
    ("CronJob", {"spec": {"schedule": "@daily"}}, "spec.jobTemplate"),
    ("CronJob", {"spec": {"schedule": "@daily", "jobTemplate": {}, "concurrencyPolicy": "Maybe"}}, "spec.concurrencyPolicy"),
    ("Command", {"target": {"kind": "Job"}}, "target.uid"),
    ("Queue", {"spec": {"weight": 0}}, "spec.weight"),
    ("Queue", {"spec": {"weight": 65536}}, "spec.weight"),
    ("Queue", {"spec": {"parent": ""}}, "spec.parent"),
    ("Queue", {"spec": {"capability": {"cpu": "much"}}}, "spec.capability.cpu"),
    ("PodGroup", {"spec": {"queue": ""}}, "spec.queue"),
    ("PodGroup", {"status": {"phase": "Gone"}}, "status.phase"),
    ("NodeShard", {"spec": {}}, "spec.nodesDesired"),
    ("NodeShard", {}, "spec"),
    ("HyperJob", {"spec": {"replicatedJobs": [{"name": "a", "templateSpec": {}}, {"name": "a", "templateSpec": {}}]}},
     "Duplicate value"),
    ("HyperJob", {"spec": {"replicatedJobs": [{"name": "a"}]}}, "templateSpec"),
    ("HyperJob", {"spec": {"replicatedJobs": [{"name": "a", "templateSpec": {}, "replicas": -1}]}}, "replicas"),
    ("DataSourceClaim", {"spec": {"system": "s", "dataSourceType": "t", "dataSourceName": "n",
                                  "workload": {"apiVersion": "v1", "kind": "", "name": "x"}}}, "spec.workload.kind"),
    ("DataSource", {"spec": {"system": "s", "type": "t", "name": "n"}}, "spec.locality"),
    ("JobFlow", {"spec": {"flows": [{"name": ""}]}}, "spec.flows[0].name"),
    ("JobFlow", {"spec": {"jobRetainPolicy": "keep"}}, "spec.jobRetainPolicy"),
    ("JobTemplate", {"spec": {"tasks": []}}, "spec.tasks"),
    ("HyperNode", {"spec": {"tier": 1, "members": [{"type": "Node", "selector": {}}]}},
     "Either ExactMatch or RegexMatch or LabelMatch must be specified"),
    ("HyperNode", {"spec": {"tier": 1, "members": [{"type": "Node", "selector": {"exactMatch": {"name": "a"},
                                                                                 "labelMatch": {}}}]}},
     "Only one of ExactMatch, RegexMatch, or LabelMatch can be specified"),
    ("HyperNode", {"spec": {"members": []}}, "spec.tier"),
]


def dry_run(cluster, kinds, name, body):
    kind = kinds[name]
    value = {"apiVersion": kind.api_version, "kind": name, "metadata": {"name": "probe"}, **body}
    return cluster.run("create", "--dry-run=server", "--validate=strict", "-o", "json", "-f", "-", text=json.dumps(value))


def check_rules(cluster, checks, model):
    kinds = {k.name: k for k in model.own_kinds()}
    for name, body, path, wanted in DEFAULTS:
        code, out, err = dry_run(cluster, kinds, name, body)
        found = json.loads(out) if code == 0 else None
        for step in path if code == 0 else ():
            found = found[step]
        checks.expect(found == wanted, f"defaults of {name} {json.dumps(body)}: {found} {err}")
    for name, body, wanted in REFUSED:
        code, _out, err = dry_run(cluster, kinds, name, body)
        checks.expect(code != 0 and wanted in err, f"{name} {json.dumps(body)} is refused because of {wanted}: {err}")


def check_columns(cluster, checks, model):
    for kind in model.own_kinds():
        code, out, err = cluster.run("get", f"{kind.plural}.{kind.group}", "-A", "-o", "wide")
        heading = out.splitlines()[0].split() if out else []
        wanted = [c.name.upper() for c in kind.columns] or ["AGE"]
        checks.expect(heading[-len(wanted):] == wanted, f"columns of {kind.name}: {heading} {err}")


@contextlib.contextmanager
def own_server():
    process = subprocess.Popen([sys.executable, str(ROOT / "tools/kube/start"), "--quiet"], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.wait(timeout=60)


def check_all(kubeconfig, kubectl):
    checks = Checks()
    cluster = Cluster(kubeconfig, kubectl)
    model = check.read_folder(ROOT / "schema")
    apply_definitions(cluster, checks, model)
    check_names(cluster, checks, model)
    check_objects(cluster, checks, model)
    check_rules(cluster, checks, model)
    check_columns(cluster, checks, model)
    print(f"{checks.passed} passed, {len(checks.failed)} failed")
    return 1 if checks.failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kubeconfig", help="use this server instead of one of our own")
    parser.add_argument("--kubectl", default=str(ROOT / "build/kube/kubectl"))
    options = parser.parse_args()
    with contextlib.nullcontext(options.kubeconfig) if options.kubeconfig else own_server() as kubeconfig:
        return check_all(kubeconfig, options.kubectl)


if __name__ == "__main__":
    sys.exit(main())
