#!/usr/bin/env python3
"""Runs Kubernetes' own conformance tests (conformance_test.go, built by `go test -c -o build/kube/conformance.test`) against `basalt up` and against a
real kube-apiserver, and writes the table of docs/user/conformance.md from what it saw.

    run.py                                 both servers, all specs, prints the table
    run.py --table docs/user/conformance.md
    run.py --server basalt --only FILE     exits 1 unless every spec named in FILE passes (the kube lane does this)
    run.py --server kube --results FILE    keeps the results of this run in FILE; those of the other server stay there
    run.py --from FILE --table TABLE       runs nothing: the table of results that were kept
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

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "test" / "api"))
import api_script
import clusters

KUBE = pathlib.Path(os.environ.get("BASALT_KUBE_DIR", ROOT / "build" / "kube"))
PROGRAM = os.environ.get("BASALT_CONFORMANCE", str(KUBE / "conformance.test"))
AGNHOST = os.environ.get("BASALT_AGNHOST", str(KUBE / "agnhost"))
FOCUS = r"\[sig-(api-machinery|apps|scheduling)\].*\[Conformance\]"
# A kube-apiserver alone has neither controllers nor a scheduler: of the others it could serve none.
KUBE_ONLY = "[sig-api-machinery]"
SECTIONS = {"[sig-api-machinery]": "The API server", "[sig-apps]": "Workloads", "[sig-scheduling]": "Scheduling"}
# What the images of the tests' pods run on process nodes, if the pods name no command. Of web servers' images the tests want
# no more than pods that run.
IMAGES = {"agnhost": AGNHOST, "busybox": "sh", "pause": "sleep infinity", "httpd": "sleep infinity", "nginx": "sleep infinity"}
# Of a port that all pods of a machine share there can be one user at a time.
SHARED_PORT = ("AdmissionWebhook", "CustomResourceConversionWebhook", "CustomResourceFieldSelectors", "] StatefulSet ", "serve a basic image")
# Specs have limits of time of their own, which a busy machine can miss: so many that failed are repeated, one at a time.
REPEATED_MAX = 3
# A spec that needs what neither server has (images, nodes) waits for it for many minutes: it is ended after these.
SPEC_SECONDS = 120
SLOW_SECONDS = 700  # of specs that wait for minutes themselves: until a server has forgotten its history, or to see that nothing happens
SLOW = re.compile(r"\[Slow\]|there exists conflict between pods|CronJob should (replace|schedule multiple)")


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


def images():
    return [word for name, program in IMAGES.items() for word in ("--image", f"{name}={program}")]


@contextlib.contextmanager
def basalt_cluster(flags=()):
    with tempfile.TemporaryDirectory(prefix="basalt-conformance-") as folder:
        log = open(os.path.join(folder, "up.log"), "wb")
        data = os.path.join(folder, "cluster")
        process = subprocess.Popen([clusters.binary(), "up", "--data-dir", data, "--durability", "memory", "--nodes", "2", *images(), *flags],
                                   stdout=subprocess.PIPE, stderr=log)
        try:
            line = process.stdout.readline().decode()
            if "ready at" not in line:
                raise RuntimeError(f"basalt up did not start: {line}")
            threading.Thread(target=process.stdout.read, daemon=True).start()
            yield os.path.join(data, "kubeconfig")
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
            log.close()


@contextlib.contextmanager
def kube_cluster(_=()):
    with clusters.real_kube() as kubeconfig:
        caretaker = Caretaker(api_script.Server("kube", kubeconfig))
        caretaker.start()
        try:
            yield kubeconfig
        finally:
            caretaker.done.set()
            caretaker.join()


def call_program(kubeconfig, focus, folder, name, unready_nodes, more=(), seconds=None):
    """Runs the specs that match; returns {spec: (state, seconds, message, labels)}. After `seconds` the program is asked
    to end, which a spec reports as its failure. `unready_nodes`: how many nodes may be unready; -1 for all of them."""
    report = os.path.join(folder, f"{name}.json")
    with open(os.path.join(folder, f"{name}.log"), "wb") as log:
        process = subprocess.Popen([PROGRAM, "--provider=skeleton", f"--kubeconfig={kubeconfig}", f"--ginkgo.focus={focus}",
                                    f"--ginkgo.json-report={report}", "--ginkgo.timeout=60m", "--ginkgo.no-color",
                                    f"--ginkgo.poll-progress-after={SLOW_SECONDS}s", "--ginkgo.grace-period=10s",
                                    "--minStartupPods=0", "--disable-log-dump",
                                    f"--kubectl-path={clusters.kubectl()}", f"--allowed-not-ready-nodes={unready_nodes}", *more],
                                   stdout=log, stderr=subprocess.STDOUT, env={**os.environ, "KUBECONFIG": kubeconfig})
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
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
        result[text] = (spec["State"], spec["RunTime"] / 1e9, " ".join(message.split())[:300], labels)
    return result


def matching_specs(focus, folder):
    """The specs that the program has for this focus."""
    specs = call_program("/dev/null", focus, folder, "list", "-1", ("--ginkgo.dry-run",))
    return {text: labels for text, (state, _, _, labels) in specs.items()}


def exactly(specs):
    return "|".join(re.escape(spec).replace("\\ ", " ") + "$" for spec in specs)


def in_threads(count, work, items):
    """Calls work(item) for all items, `count` at once, in their order."""
    pending = list(items)
    lock = threading.Lock()

    def run():
        while True:
            with lock:
                if not pending:
                    return
                item = pending.pop(0)
            work(item)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def run_specs(kubeconfig, specs, folder, processes, spec_seconds, has_pods):
    """Specs that may not run beside others come last, one after the other. Each in a program of its own, which takes a
    few seconds more and can be ended alone; without seconds for a spec as many programs as there are processes."""
    alone = [spec for spec in specs if "[Serial]" in spec or has_pods and any(name in spec for name in SHARED_PORT)]
    hopeless = [pattern for pattern, _ in reasons()]
    others = sorted(spec for spec in specs if spec not in alone)
    results = {}

    def run(job):
        name, share = job
        seconds = spec_seconds
        if spec_seconds and SLOW.search(share[0]) and not any(pattern.search(share[0]) for pattern in hopeless):
            seconds = SLOW_SECONDS
        found = call_program(kubeconfig, exactly(share), folder, name, 0 if has_pods else -1, seconds=seconds)
        results.update(found)
        for spec in share:
            state, took = (*found.get(spec, ("not run", 0, "", [])),)[:2]
            print(f"{state:8} {took:5.0f} s  {spec}", flush=True)

    if spec_seconds:
        # The slowest first, so that nobody waits for it at the end.
        others.sort(key=lambda spec: not SLOW.search(spec))
        jobs = [(f"spec-{number}", [spec]) for number, spec in enumerate(others)]
    else:
        jobs = [(f"share-{number}", others[number::processes]) for number in range(processes) if others[number::processes]]
    in_threads(processes, run, jobs)
    shares = [[spec] for spec in alone] if spec_seconds else [alone] if alone else []
    in_threads(1, run, [(f"serial-{number}", share) for number, share in enumerate(shares)])
    return results


def repeat_failed(kubeconfig, specs, results, folder):
    """Specs that failed beside others run once more, alone, and what they said the first time is told; more than
    REPEATED_MAX are not a matter of time."""
    failed = [spec for spec in specs if results.get(spec, ("not run",))[0] != "passed"]
    if len(failed) > REPEATED_MAX:
        return
    for number, spec in enumerate(failed):
        state, took, message = (*results.get(spec, ("not run", 0, "")),)[:3]
        print(f"{state} after {took:.0f} s, runs again alone: {spec}\n    {message}", flush=True)
        results.update(call_program(kubeconfig, exactly([spec]), folder, f"again-{number}", 0))
        print(f"{results.get(spec, ('not run',))[0]} alone: {spec}", flush=True)


def reasons():
    """[(pattern, why such a spec cannot pass on Basalt)] of cannot_pass.txt."""
    lines = (HERE / "cannot_pass.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.split(": ", 1) for line in lines if line.strip() and not line.startswith("#")]
    return [(re.compile(pattern), reason) for pattern, reason in pairs]


def short_name(spec):
    for section in SECTIONS:
        spec = spec.replace(section + " ", "")
    return spec.replace(" [Conformance]", "").replace("|", "/")


def table_of(columns):
    """Markdown of {server: {"specs": {spec: [state, seconds, message]}}}."""
    names = [name for name in ("Basalt", "kube-apiserver") if name in columns]
    lines = ["# Conformance",
             "",
             "Kubernetes' own conformance tests, made by `test/conformance/run.py --table` from what it saw; not to be edited by hand.",
             "Neither server pulls images. Basalt's process nodes run programs of this machine in place of some of the tests' images",
             "(`basalt up --image`); the kube-apiserver stands alone, without nodes, controllers and a scheduler: specs that need one of",
             "them fail there, and those of workloads and scheduling are not run."]
    for section, title in SECTIONS.items():
        shown = [name for name in names if name == "Basalt" or section == KUBE_ONLY]
        specs = sorted({spec for name in shown for spec in columns[name]["specs"] if spec.startswith(section)})
        if specs:
            lines += ["", f"## {title}", ""] + section_of(specs, {name: columns[name]["specs"] for name in shown})
    return "\n".join(lines) + "\n"


def section_of(specs, results):
    known = reasons()
    states = {name: {spec: found.get(spec, ["not run"])[0] for spec in specs} for name, found in results.items()}
    lines = ["| server | passed | failed |", "|---|---|---|"]
    for name, found in states.items():
        passed = sum(1 for state in found.values() if state == "passed")
        failed = sum(1 for state in found.values() if state not in ("passed", "not run"))
        lines.append(f"| {name} | {passed} | {failed} |")
    lines += ["", "| spec | " + " | ".join(states) + " | why not |", "|---|" + "---|" * len(states) + "---|"]
    for spec in specs:
        cells = [state if state in ("passed", "not run") else "**failed**" for state in (states[name][spec] for name in states)]
        reason = next((why for pattern, why in known if pattern.search(spec)), "")
        lines.append(f"| {short_name(spec)} | " + " | ".join(cells) + f" | {reason if cells[0] == '**failed**' else ''} |")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", choices=["basalt", "kube", "both"], default="both")
    parser.add_argument("--focus", default=FOCUS)
    parser.add_argument("--without", help="a pattern of specs that are left out")
    parser.add_argument("--only", help="a file with one spec per line: all of them must pass")
    parser.add_argument("--up", default="", help="more flags of `basalt up`")
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--seconds", type=int, default=SPEC_SECONDS, help="after which a spec is ended, unless it is marked [Slow]")
    parser.add_argument("--table", help="where the table goes; standard output without it")
    parser.add_argument("--results", help="a JSON file where the results are kept, beside those of the other server")
    parser.add_argument("--from", dest="kept", help="runs nothing and takes the results from this file")
    parser.add_argument("--keep", help="a folder for logs and reports")
    options = parser.parse_args()
    columns, failures, missing = run_all(options) if not options.kept else ({}, [], False)
    kept = {}
    for path in (options.kept, options.results):
        if path and os.path.exists(path):
            kept.update(json.loads(pathlib.Path(path).read_text(encoding="utf-8")))
    for title, column in columns.items():
        kept.setdefault(title, {"specs": {}})["specs"].update(column["specs"])
    if options.results:
        pathlib.Path(options.results).write_text(json.dumps(kept, indent=1, sort_keys=True), encoding="utf-8")
    for title, spec, (state, took, message) in failures:
        print(f"{title}: {state} after {took:.0f} s: {spec}\n    {message}", file=sys.stderr)
    if options.table:
        pathlib.Path(options.table).write_text(table_of(kept), encoding="utf-8")
    elif not options.only:
        print(table_of(kept))
    passed = sum(1 for column in columns.values() for result in column["specs"].values() if result[0] == "passed")
    print(f"{passed} passed, {len(failures)} failed")
    return 1 if options.only and (failures or missing) else 0


def run_all(options):
    """-> {server: results}, failures, whether a spec did not run at all."""
    columns = {}
    with contextlib.ExitStack() as stack:
        folder = options.keep or stack.enter_context(tempfile.TemporaryDirectory(prefix="basalt-conformance-logs-"))
        os.makedirs(folder, exist_ok=True)
        specs = matching_specs(options.focus, folder)
        if options.without:
            specs = {spec: labels for spec, labels in specs.items() if not re.search(options.without, spec)}
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
            chosen = {spec: labels for spec, labels in specs.items() if name == "basalt" or spec.startswith(KUBE_ONLY)}
            with cluster(options.up.split()) as kubeconfig:
                results = run_specs(kubeconfig, chosen, logs, options.processes, None if options.only else options.seconds,
                                    name == "basalt")
                if options.only:
                    repeat_failed(kubeconfig, chosen, results, logs)
            columns[title] = {"specs": {spec: [state, round(took, 1), message] for spec, (state, took, message, _) in results.items()}}
    failures = [(title, spec, result) for title, column in columns.items() for spec, result in sorted(column["specs"].items())
                if result[0] != "passed"]
    return columns, failures, any(len(column["specs"]) != len(specs) for title, column in columns.items() if title == "Basalt")


if __name__ == "__main__":
    sys.exit(main())
