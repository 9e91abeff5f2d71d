#!/usr/bin/env python3
"""Writes src/apiserver/proto/gen/tables.cc: which protobuf field of which message is which JSON field.

The facts come from the Kubernetes Go modules that tools/kube/go.mod pins: numbers and types from their generated.proto,
JSON names, pointers and "omitempty" from their Go structs. Needs those modules in the Go module cache, and nothing else.

  generate.py           write the file
  generate.py --check   compare instead; without the modules say so and succeed
"""
import os
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUTPUT = ROOT / "src/apiserver/proto/gen/tables.cc"

# module, folder in it, apiVersion of its kinds ("" if it has messages only)
PACKAGES = [
    ("k8s.io/apimachinery", "pkg/api/resource", ""),
    ("k8s.io/apimachinery", "pkg/apis/meta/v1", ""),
    ("k8s.io/apimachinery", "pkg/runtime", ""),
    ("k8s.io/apimachinery", "pkg/util/intstr", ""),
    ("k8s.io/apiextensions-apiserver", "pkg/apis/apiextensions/v1", "apiextensions.k8s.io/v1"),
    ("k8s.io/api", "admissionregistration/v1", "admissionregistration.k8s.io/v1"),
    ("k8s.io/api", "apps/v1", "apps/v1"),
    ("k8s.io/api", "authentication/v1", "authentication.k8s.io/v1"),
    ("k8s.io/api", "authorization/v1", "authorization.k8s.io/v1"),
    ("k8s.io/api", "autoscaling/v1", "autoscaling/v1"),
    ("k8s.io/api", "autoscaling/v2", "autoscaling/v2"),
    ("k8s.io/api", "batch/v1", "batch/v1"),
    ("k8s.io/api", "certificates/v1", "certificates.k8s.io/v1"),
    ("k8s.io/api", "coordination/v1", "coordination.k8s.io/v1"),
    ("k8s.io/api", "core/v1", "v1"),
    ("k8s.io/api", "discovery/v1", "discovery.k8s.io/v1"),
    ("k8s.io/api", "events/v1", "events.k8s.io/v1"),
    ("k8s.io/api", "flowcontrol/v1", "flowcontrol.apiserver.k8s.io/v1"),
    ("k8s.io/api", "networking/v1", "networking.k8s.io/v1"),
    ("k8s.io/api", "node/v1", "node.k8s.io/v1"),
    ("k8s.io/api", "policy/v1", "policy/v1"),
    ("k8s.io/api", "rbac/v1", "rbac.authorization.k8s.io/v1"),
    ("k8s.io/api", "scheduling/v1", "scheduling.k8s.io/v1"),
    ("k8s.io/api", "storage/v1", "storage.k8s.io/v1"),
    ("k8s.io/kube-aggregator", "pkg/apis/apiregistration/v1", "apiregistration.k8s.io/v1"),
]
# Kinds that every group version has; their apiVersion says nothing.
META = "k8s.io.apimachinery.pkg.apis.meta.v1."
ANY_VERSION_KINDS = ["DeleteOptions", "Status"]

# Messages whose JSON is no object with their fields.
EXTENSIONS = "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1."
SPECIAL = {
    "k8s.io.apimachinery.pkg.api.resource.Quantity": "Quantity",
    "k8s.io.apimachinery.pkg.util.intstr.IntOrString": "IntOrString",
    "k8s.io.apimachinery.pkg.runtime.RawExtension": "Raw",
    META + "FieldsV1": "Raw",
    META + "Time": "Time",
    META + "MicroTime": "MicroTime",
    META + "Duration": "Duration",
    EXTENSIONS + "JSON": "Raw",
    EXTENSIONS + "JSONSchemaPropsOrArray": "Union",
    EXTENSIONS + "JSONSchemaPropsOrBool": "Union",
    EXTENSIONS + "JSONSchemaPropsOrStringArray": "Union",
}
SCALARS = {"bool": "Bool", "int32": "Int32", "int64": "Int64", "double": "Double", "string": "Text", "bytes": "Bytes"}


class GenerateError(Exception):
    pass


def module_cache():
    if os.environ.get("GOMODCACHE"):
        return pathlib.Path(os.environ["GOMODCACHE"])
    go_path = os.environ.get("GOPATH", "").split(os.pathsep)[0]
    return (pathlib.Path(go_path) if go_path else pathlib.Path.home() / "go") / "pkg/mod"


def pinned_versions():
    text = (ROOT / "tools/kube/go.mod").read_text()
    return dict(re.findall(r"^\s*(k8s\.io/[\w-]+) => k8s\.io/[\w-]+ (v\S+)$", text, re.M))


def strip_comments(text):
    return re.sub(r"^\s*//.*$", "", text, flags=re.M)


def read_proto(text):
    """-> package, {message: [(number, name, type, label)]}, label one of Single, Repeated, Map."""
    text = strip_comments(text)
    package = re.search(r"^package ([\w.]+);", text, re.M).group(1)
    messages = {}
    for name, body in re.findall(r"^message (\w+) \{\n(.*?)^\}", text, re.M | re.S):
        fields = []
        for line in filter(None, (line.strip() for line in body.splitlines())):
            if match := re.fullmatch(r"map<string, ([\w.]+)> (\w+) = (\d+);", line):
                fields.append((int(match[3]), match[2], match[1], "Map"))
            elif match := re.fullmatch(r"(optional|repeated) ([\w.]+) (\w+) = (\d+);", line):
                fields.append((int(match[4]), match[3], match[2], "Single" if match[1] == "optional" else "Repeated"))
            else:
                raise GenerateError(f"{package}.{name}: cannot read: {line}")
        messages[name] = sorted(fields)
    return package, messages


def read_go(folder):
    """-> {struct: {number: (JSON name or None if inlined, is a pointer, omits zero)}}, lists, kinds."""
    structs, lists, kinds = {}, set(), set()
    for path in sorted(folder.glob("*.go")):
        if path.name.endswith("_test.go") or path.name.startswith(("zz_generated", "generated.pb")):
            continue
        text = strip_comments(path.read_text())
        lists.update(re.findall(r"^type (\w+) \[\]\w+$", text, re.M))
        for name, body in re.findall(r"^type (\w+) struct \{\n(.*?)^\}", text, re.M | re.S):
            fields = structs.setdefault(name, {})
            for line in body.splitlines():
                read_go_field(name, line, fields)
            if re.search(r"^\s*(metav1\.)?TypeMeta\s+`", body, re.M) and not name.endswith("List"):
                kinds.add(name)
    return structs, lists, kinds


def read_go_field(struct, line, fields):
    declaration, _, tags = line.partition("`")
    number = re.search(r'protobuf:"\w+,(\d+),', tags)
    if not number:
        return
    words = declaration.split(None, 1)
    json_tag = re.search(r'json:"([^"]*)"', tags)
    name, *options = json_tag[1].split(",") if json_tag else ("-",)
    is_inline = name == "" and "inline" in options
    if name == "" and not is_inline:
        raise GenerateError(f"{struct}: a field without a JSON name: {line.strip()}")
    fields[int(number[1])] = (None if is_inline else name, words[-1].strip().startswith("*"),
                              "omitempty" in options or "omitzero" in options)


class Model:
    def __init__(self):
        self.protos = {}   # full name -> fields
        self.structs = {}  # full name -> Go fields
        self.lists = set()
        self.kinds = []    # (apiVersion, kind, full name)
        self.order = []    # full names in the order of the table
        self.index = {}

    def load(self, folder, api_version):
        package, messages = read_proto((folder / "generated.proto").read_text())
        structs, lists, kinds = read_go(folder)
        for name, fields in messages.items():
            self.protos[f"{package}.{name}"] = [(number, field, self.resolve(package, kind), label)
                                                for number, field, kind, label in fields]
        self.structs.update({f"{package}.{name}": fields for name, fields in structs.items()})
        self.lists.update(f"{package}.{name}" for name in lists)
        if api_version:
            self.kinds += [(api_version, kind, f"{package}.{kind}") for kind in kinds if kind in messages]

    @staticmethod
    def resolve(package, name):
        if name in SCALARS:
            return name
        return name[1:] if name.startswith(".") else f"{package}.{name}"

    def reach(self):
        """Numbers the messages that the kinds need, by name."""
        pending, seen = [full for _, _, full in self.kinds], set()
        while pending:
            full = pending.pop()
            if full in seen:
                continue
            if full not in self.protos:
                raise GenerateError(f"no message {full}; is its package missing?")
            seen.add(full)
            if self.form(full) in ("Object", "Union"):
                pending += [kind for _, _, kind, _ in self.protos[full] if kind not in SCALARS]
        self.order = sorted(seen, key=lambda full: (full.rpartition(".")[2], full))
        self.index = {full: position for position, full in enumerate(self.order)}

    def form(self, full):
        return SPECIAL.get(full) or ("Items" if full in self.lists else "Object")

    def facts(self, full):
        """-> [(number, JSON name, form, shape, keeps zero, message index)]"""
        form = self.form(full)
        if form not in ("Object", "Union", "Items"):
            return []
        return [self.fact(full, form, *field) for field in self.protos[full]]

    def fact(self, full, form, number, proto_name, kind, label):
        name, is_pointer, omits = proto_name, True, False
        if form == "Object":
            if number not in self.structs.get(full, {}):
                raise GenerateError(f"{full}: no Go field has number {number} ({proto_name})")
            name, is_pointer, omits = self.structs[full][number]
        if name == "-":
            raise GenerateError(f"{full}.{proto_name} has no JSON form")
        if name is None:
            return number, "", "Message", "Inline", False, self.index[kind]
        if kind not in SCALARS:
            return number, name, "Message", label, False, self.index[kind]
        return number, name, SCALARS[kind], label, label == "Single" and (is_pointer or not omits), 0


def render(model, versions):
    pinned = ", ".join(sorted({f"{module} {versions[module]}" for module, _, _ in PACKAGES}))
    out = ["// Generated by tools/gen_proto from " + pinned + "; do not edit.", '#include "apiserver/proto/tables.h"', "",
           "namespace basalt::apiserver::proto {", "namespace {", "", "using enum Form;", "using enum Shape;",
           "using enum MessageForm;", "", "// number, form, shape, keeps zero, message, JSON name",
           "constexpr FieldFact kFields[] = {"]
    ranges, total = [], 0
    for full in model.order:
        facts = model.facts(full)
        ranges.append((total, len(facts)))
        total += len(facts)
        entries = [f'{{{n}, {form}, {shape}, {int(keeps)}, {message}, "{name}"}}'
                   for n, name, form, shape, keeps, message in facts]
        out += wrap(entries)
    out += ["};", "", "// first field, fields, form, name, package", "constexpr MessageFact kMessages[] = {"]
    out += wrap([f'{{{first}, {count}, {model.form(full)}, "{full.rpartition(".")[2]}", {package_name(full)}}}'
                 for full, (first, count) in zip(model.order, ranges)])
    out += ["};", "", "// apiVersion, kind, message; an empty apiVersion stands for every one",
            "constexpr KindFact kKinds[] = {"]
    out += wrap([f'{{"{version}", "{kind}", {model.index[full]}}}' for version, kind, full in sorted(model.kinds)])
    out += ["};", "", "}  // namespace", "", "std::span<const FieldFact> field_facts() { return kFields; }",
            "std::span<const MessageFact> message_facts() { return kMessages; }",
            "std::span<const KindFact> kind_facts() { return kKinds; }", "", "}  // namespace basalt::apiserver::proto"]
    if total > 0xFFFF or len(model.order) > 0xFFFF:
        raise GenerateError("the tables outgrow 16-bit indices")
    return "\n".join(out) + "\n"


def package_name(full):
    """The package as OpenAPI documents spell it: the domain the other way round, with the hyphens of the module."""
    package = full.rpartition(".")[0].replace("_", "-")
    return '"io.k8s' + package.removeprefix("k8s.io") + '"'


def wrap(entries):
    lines, line = [], ""
    for entry in entries:
        if line and len(line) + len(entry) + 2 > 118:
            lines.append("  " + line)
            line = ""
        line += (" " if line else "") + entry + ","
    return lines + (["  " + line] if line else [])


def main(arguments):
    if arguments not in ([], ["--check"]):
        print("usage: generate.py [--check]", file=sys.stderr)
        return 2
    versions, cache = pinned_versions(), module_cache()
    folders = [cache / f"{module}@{versions[module]}" / folder for module, folder, _ in PACKAGES]
    missing = [folder for folder in folders if not (folder / "generated.proto").is_file()]
    if missing:
        text = "gen_proto: the pinned Kubernetes modules are not in the Go module cache"
        if arguments:
            print(text + "; the comparison was skipped")
            return 0
        print(text + "; `make kube` fetches them", file=sys.stderr)
        return 1
    model = Model()
    for folder, (_, _, api_version) in zip(folders, PACKAGES):
        model.load(folder, api_version)
    model.kinds += [("", kind, META + kind) for kind in ANY_VERSION_KINDS]
    model.reach()
    text = render(model, versions)
    if not arguments:
        OUTPUT.parent.mkdir(parents=True, exist_ok=True)
        OUTPUT.write_text(text)
    elif not OUTPUT.is_file() or OUTPUT.read_text() != text:
        print(f"gen_proto: {OUTPUT.relative_to(ROOT)} is not what generate.py writes", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except GenerateError as error:
        print(f"gen_proto: {error}", file=sys.stderr)
        sys.exit(1)
