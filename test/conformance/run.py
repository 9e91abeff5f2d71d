#!/usr/bin/env python3
"""Runs Kubernetes' own conformance tests (conformance_test.go, built by `go test -c -o build/kube/conformance.test`) against `basalt up` and against a
real kube-apiserver, and writes the table of docs/user/conformance.md from what it saw.

    run.py                             both servers, all specs of sig-api-machinery, prints the table
    run.py --table docs/user/conformance.md
    run.py --server basalt --only FILE   exits 1 unless every spec named in FILE passes (the kube lane does this)
"""
import argparse
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "test" / "api"))
import api_script
import clusters

KUBE = pathlib.Path(os.environ.get("BASALT_KUBE_DIR", ROOT / "build" / "kube"))
PROGRAM = os.environ.get("BASALT_CONFORMANCE", str(KUBE / "conformance.test"))
FOCUS = r"\[sig-api-machinery\].*\[Conformance\]"
SPEC_SECONDS = 150


class Caretaker(threading.Thread):
    """Does for a kube-apiserver without its controller manager what the tests' framework waits for: a node that is ready,
    and in each namespace a default account and the authority's certificate; lets deleted namespaces go."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server = server
        self.done = threading.Event()

    def run(self):
        self.server.call("POST", "/api/v1/nodes", json.dumps({"metadata": {"name": "node-1"}}))
        self.server.call("PUT", "/api/v1/nodes/node-1/status", json.dumps({
            "metadata": {"name": "node-1"},
            "status": {"conditions": [{"type": "Ready", "status": "True"}],
                       "capacity": {"cpu": "8", "memory": "8Gi", "pods": "110"},
                       "allocatable": {"cpu": "8", "memory": "8Gi", "pods": "110"}}}))
        while not self.done.wait(0.2):
            with contextlib.suppress(OSError, ValueError):
                self.look_after_namespaces()

    def look_after_namespaces(self):
        _, text = self.server.call("GET", "/api/v1/namespaces")
        for namespace in json.loads(text).get("items", []):
            name = namespace["metadata"]["name"]
            if "deletionTimestamp" in namespace["metadata"]:
                self.empty(name)
                namespace["spec"] = {"finalizers": []}
                self.server.call("PUT", f"/api/v1/namespaces/{name}/finalize", json.dumps(namespace))
                continue
            base = f"/api/v1/namespaces/{name}"
            if self.server.call("GET", f"{base}/serviceaccounts/default")[0] == 404:
                self.server.call("POST", f"{base}/serviceaccounts", json.dumps({"metadata": {"name": "default"}}))
            if self.server.call("GET", f"{base}/configmaps/kube-root-ca.crt")[0] == 404:
                self.server.call("POST", f"{base}/configmaps",
                                 json.dumps({"metadata": {"name": "kube-root-ca.crt"}, "data": {"ca.crt": "-"}}))

    def empty(self, name):
        for kind in ("pods", "configmaps", "secrets", "services", "serviceaccounts", "resourcequotas", "limitranges"):
            self.server.call("DELETE", f"/api/v1/namespaces/{name}/{kind}")


@contextlib.contextmanager
def basalt_cluster():
    with tempfile.TemporaryDirectory(prefix="basalt-conformance-") as folder:
        log = open(os.path.join(folder, "up.log"), "wb")
        process = subprocess.Popen([clusters.binary(), "up", "--data-dir", folder, "--durability", "memory"],
                                   stdout=subprocess.PIPE, stderr=log)
        try:
            line = process.stdout.readline().decode()
            if "ready at" not in line:
                raise RuntimeError(f"basalt up did not start: {line}")
            threading.Thread(target=process.stdout.read, daemon=True).start()
            yield os.path.join(folder, "kubeconfig")
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
            log.close()


@contextlib.contextmanager
def kube_cluster():
    with clusters.real_kube() as kubeconfig:
        caretaker = Caretaker(api_script.Server("kube", kubeconfig))
        caretaker.start()
        try:
            yield kubeconfig
        finally:
            caretaker.done.set()
            caretaker.join()


def call_program(kubeconfig, focus, folder, name, more=()):
    """Runs the specs that match; returns {spec: (state, seconds, message)}."""
    report = os.path.join(folder, f"{name}.json")
    with open(os.path.join(folder, f"{name}.log"), "wb") as log:
        subprocess.run([PROGRAM, "--provider=skeleton", f"--kubeconfig={kubeconfig}", f"--ginkgo.focus={focus}",
                        f"--ginkgo.json-report={report}", "--ginkgo.timeout=60m", "--ginkgo.no-color",
                        f"--ginkgo.poll-progress-after={SPEC_SECONDS * 2}s", "--allowed-not-ready-nodes=-1",
                        "--minStartupPods=0", "--disable-log-dump", *more],
                       stdout=log, stderr=subprocess.STDOUT, env={**os.environ, "KUBECONFIG": kubeconfig}, check=False)
    if not os.path.exists(report):
        raise RuntimeError(open(os.path.join(folder, f"{name}.log")).read()[-3000:])
    with open(report, encoding="utf-8") as file:
        suites = json.load(file)
    result = {}
    for spec in suites[0]["SpecReports"] or []:
        if spec["LeafNodeType"] != "It" or spec["State"] == "skipped" and not spec.get("Failure"):
            continue
        text = " ".join([*(spec["ContainerHierarchyTexts"] or []), spec["LeafNodeText"]])
        labels = [label for part in (spec.get("ContainerHierarchyLabels") or []) for label in part or []] + (spec.get("LeafNodeLabels") or [])
        message = (spec.get("Failure") or {}).get("Message", "")
        result[text] = (spec["State"], spec["RunTime"] / 1e9, message.strip().split("\n")[0][:200], labels)
    return result


def matching_specs(focus, folder):
    """The specs that the program has for this focus."""
    specs = call_program("/dev/null", focus, folder, "list", ("--ginkgo.dry-run",))
    return {text: labels for text, (state, _, _, labels) in specs.items()}


def exactly(specs):
    return "|".join(re.escape(spec).replace("\\ ", " ") + "$" for spec in specs)


def run_specs(kubeconfig, specs, folder, processes):
    """Specs that may not run beside others come last, one after the other."""
    alone = [spec for spec, labels in specs.items() if "[Serial]" in spec]
    others = sorted(spec for spec in specs if spec not in alone)
    results = {}
    shares = [others[i::processes] for i in range(processes)]

    def run(number, share):
        if share:
            results.update(call_program(kubeconfig, exactly(share), folder, f"share-{number}"))

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(shares)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    run("serial", alone)
    return results


def table_of(columns, seconds):
    """Markdown; columns: server -> {spec: (state, seconds, message)}."""
    specs = sorted({spec for results in columns.values() for spec in results})
    names = list(columns)
    lines = ["# Conformance",
             "",
             "Kubernetes' own conformance tests, made by `test/conformance/run.py --table` from a run; not to be edited by hand.",
             "The kube-apiserver stands alone, without a controller manager, nodes or images: what needs one of them fails there too.",
             "",
             "| server | passed | failed | seconds |", "|---|---|---|---|"]
    for name in names:
        passed = sum(1 for result in columns[name].values() if result[0] == "passed")
        lines.append(f"| {name} | {passed} | {len(columns[name]) - passed} | {seconds[name]:.0f} |")
    lines += ["", "| spec | " + " | ".join(names) + " |", "|---|" + "---|" * len(names)]
    for spec in specs:
        cells = [columns[name].get(spec, ("not run",))[0] for name in names]
        lines.append(f"| {spec.replace('|', '/')} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", choices=["basalt", "kube", "both"], default="both")
    parser.add_argument("--focus", default=FOCUS)
    parser.add_argument("--only", help="a file with one spec per line: all of them must pass")
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--table", help="where the table goes; standard output without it")
    parser.add_argument("--keep", help="a folder for logs and reports")
    options = parser.parse_args()
    columns, seconds = {}, {}
    with contextlib.ExitStack() as stack:
        folder = options.keep or stack.enter_context(tempfile.TemporaryDirectory(prefix="basalt-conformance-logs-"))
        os.makedirs(folder, exist_ok=True)
        specs = matching_specs(options.focus, folder)
        if options.only:
            with open(options.only, encoding="utf-8") as file:
                wanted = [line.strip() for line in file if line.strip() and not line.startswith("#")]
            unknown = [spec for spec in wanted if spec not in specs]
            assert not unknown, f"no such specs: {unknown}"
            specs = {spec: specs[spec] for spec in wanted}
        for name, cluster in (("basalt", basalt_cluster), ("kube", kube_cluster)):
            if options.server not in (name, "both"):
                continue
            title = "Basalt" if name == "basalt" else "kube-apiserver"
            logs = os.path.join(folder, name)
            os.makedirs(logs, exist_ok=True)
            began = time.monotonic()
            with cluster() as kubeconfig:
                columns[title] = run_specs(kubeconfig, specs, logs, options.processes)
            seconds[title] = time.monotonic() - began
    failures = [(title, spec, result) for title, results in columns.items() for spec, result in sorted(results.items())
                if result[0] != "passed"]
    for title, spec, (state, took, message, _) in failures:
        print(f"{title}: {state} after {took:.0f} s: {spec}\n    {message}", file=sys.stderr)
    text = table_of(columns, seconds)
    if options.table:
        pathlib.Path(options.table).write_text(text, encoding="utf-8")
    elif not options.only:
        print(text)
    passed = sum(1 for results in columns.values() for result in results.values() if result[0] == "passed")
    missing = options.only and any(len(results) != len(specs) for results in columns.values())
    print(f"{passed} passed, {len(failures)} failed")
    return 1 if options.only and (failures or missing) else 0


if __name__ == "__main__":
    sys.exit(main())
