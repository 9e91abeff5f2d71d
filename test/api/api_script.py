"""Scripts of API calls, run against any Kubernetes API, with a transcript that two servers can be compared by.

A script is a text file of steps, separated by blank lines:

    # a comment
    POST /api/v1/namespaces/$ns/configmaps
    {"metadata": {"name": "a"}}

    save version .metadata.resourceVersion
    GET /api/v1/namespaces/$ns/configmaps?watch=1&resourceVersion=$version&timeoutSeconds=1

A step is optional directives (`save NAME PATH` keeps a part of the answer for later steps, `type MEDIA` sets the content
type, `accept MEDIA` the Accept header, `ignore PATH` leaves a part out of the comparison, `only CODE` compares the status
code alone, `until CODE` repeats the request until that code comes, for at most ten seconds), then METHOD PATH, then the body. `$ns` is a namespace of the script's own.
"""
import base64
import http.client
import json
import re
import ssl
import tempfile
import time
import urllib.parse

# What differs between any two servers, or between two runs on one.
VOLATILE = {"uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "selfLink", "lastTransitionTime",
            "continue", "remainingItemCount", "clusterIP", "clusterIPs", "startTime"}
# Who wrote which field, kept by servers that know server-side apply; and a hash that only etcd's migrations read.
IGNORED = {"managedFields", "storageVersionHash"}
DIRECTIVES = ("save", "type", "accept", "ignore", "only", "until")
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class Step:
    def __init__(self, line):
        self.line = line
        self.method = ""
        self.path = ""
        self.body = ""
        self.saves = []
        self.ignores = []
        self.content_type = ""
        self.accept = "application/json"
        self.only_code = False
        self.until = 0


def parse_script(text):
    steps = []
    for block in re.split(r"\n[ \t]*\n", text):
        lines = [(number, line) for number, line in enumerate(block.split("\n"), 1) if not line.startswith("#")]
        lines = [(number, line) for number, line in lines if line.strip()]
        if not lines:
            continue
        step = Step(lines[0][1])
        while lines and lines[0][1].split()[0] in DIRECTIVES:
            words = lines.pop(0)[1].split(None, 2)
            if words[0] == "save":
                step.saves.append((words[1], words[2]))
            elif words[0] == "ignore":
                step.ignores.append(words[1])
            elif words[0] == "type":
                step.content_type = words[1]
            elif words[0] == "accept":
                step.accept = " ".join(words[1:])
            elif words[0] == "until":
                step.until = int(words[1])
            elif words[0] == "only":
                step.only_code = True
        if not lines:
            raise ValueError(f"a step without a request: {step.line}")
        step.method, step.path = lines.pop(0)[1].split(None, 1)
        step.body = "\n".join(line for _, line in lines)
        if not step.content_type:
            step.content_type = "application/merge-patch+json" if step.method == "PATCH" else "application/json"
        steps.append(step)
    return steps


def part_of(value, path):
    for name in [p for p in path.split(".") if p]:
        match = re.fullmatch(r"(\w*)\[(\d+)\]", name)
        if match:
            value = value[match.group(1)] if match.group(1) else value
            value = value[int(match.group(2))]
        else:
            value = value[name]
    return value


def without(value, path):
    names = [p for p in path.split(".") if p]
    at = value
    for name in names[:-1]:
        if isinstance(at, list):
            for item in at:
                without(item, ".".join(names[names.index(name):]))
            return
        if not isinstance(at, dict) or name not in at:
            return
        at = at[name]
    for item in at if isinstance(at, list) else [at]:
        if isinstance(item, dict):
            item.pop(names[-1], None)


def normalise(value, namespace):
    if isinstance(value, dict):
        result = {}
        for key, item in sorted(value.items()):
            if key in IGNORED:
                continue
            if key in VOLATILE and item is not None and not isinstance(item, dict):
                result[key] = "*"
            elif item is not None or key == "object":
                result[key] = normalise(item, namespace)
        # A server may leave an empty map or list out, or not.
        return {k: v for k, v in result.items() if v not in ({}, [])}
    if isinstance(value, list):
        return [normalise(item, namespace) for item in value]
    if isinstance(value, str):
        return UUID.sub("*", value.replace(namespace, "$ns"))
    return value


class Server:
    """One API server, reached as its kubeconfig says (a file made by this project: JSON or simple YAML)."""

    def __init__(self, name, kubeconfig):
        self.name = name
        fields = dict(re.findall(r"^\s*(?:- )?\s*\"?([\w-]+)\"?:\s*\"?([^\"\s,]+)\"?,?\s*$", open(kubeconfig).read(), re.M))
        self.url = urllib.parse.urlparse(fields["server"])
        self.context = ssl.create_default_context()
        self.context.load_verify_locations(cadata=self._data(fields, "certificate-authority").decode())
        with tempfile.NamedTemporaryFile() as certificate, tempfile.NamedTemporaryFile() as key:
            certificate.write(self._data(fields, "client-certificate"))
            key.write(self._data(fields, "client-key"))
            certificate.flush()
            key.flush()
            self.context.load_cert_chain(certificate.name, key.name)

    @staticmethod
    def _data(fields, name):
        if name + "-data" in fields:
            return base64.b64decode(fields[name + "-data"])
        return open(fields[name], "rb").read()

    def call(self, method, path, body="", content_type="application/json", accept="application/json", timeout=30):
        connection = http.client.HTTPSConnection(self.url.hostname, self.url.port, context=self.context, timeout=timeout)
        try:
            headers = {"Accept": accept}
            if body:
                headers["Content-Type"] = content_type
            connection.request(method, path, body=body.encode() if body else None, headers=headers)
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()


def run_script(server, steps, namespace):
    """Runs the steps and returns one entry each: (request, code, normalised body)."""
    names = {"ns": namespace}
    transcript = []

    def filled(text):
        return re.sub(r"\$(\w+)", lambda m: str(names.get(m.group(1), m.group(0))), text)

    for step in steps:
        code, text = server.call(step.method, filled(step.path), filled(step.body), step.content_type, step.accept)
        deadline = time.monotonic() + 10
        while step.until and code != step.until and time.monotonic() < deadline:
            time.sleep(0.05)
            code, text = server.call(step.method, filled(step.path), filled(step.body), step.content_type, step.accept)
        if "watch=1" in step.path and code == 200:
            body = [json.loads(line) for line in text.splitlines() if line.strip()]
        else:
            try:
                body = json.loads(text)
            except ValueError:
                body = text
        for name, path in step.saves:
            names[name] = part_of(body, path)
        shown = json.loads(json.dumps(body))
        for path in step.ignores:
            for one in shown if isinstance(shown, list) else [shown]:
                without(one, path)
        transcript.append((f"{step.method} {step.path}", code, None if step.only_code else normalise(shown, namespace)))
    return transcript


def difference(mine, other):
    """The first lines in which two normalised bodies differ, for people."""
    import difflib
    a = json.dumps(mine, indent=1, sort_keys=True).splitlines()
    b = json.dumps(other, indent=1, sort_keys=True).splitlines()
    lines = [line for line in difflib.unified_diff(b, a, "kube-apiserver", "basalt", lineterm="", n=1)][2:]
    return "\n".join(lines[:30])
