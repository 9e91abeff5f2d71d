#!/usr/bin/env python3
"""Writes the templates of the Helm chart (deploy/chart/templates) from the plain manifests (deploy/*.yaml), so that both
always have the same content; --check compares only.

In a manifest a line `key: value # chart: EXPRESSION` becomes `key: EXPRESSION`; the namespace becomes the release's, and
names that begin with `volcano-` begin with the release's name. --check also fills the templates with values.yaml and the
release `volcano` in `volcano-system` and compares the result with the manifests. A manifest of OPTIONAL becomes a template
that is there only if its value says so.
"""
import argparse
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
TEMPLATES = DEPLOY / "chart/templates"
MARK = re.compile(r"^(?P<indent>\s*(?:- )?)(?P<key>[\w.-]+: )?(?P<value>\S.*?) # chart: (?P<expression>.+)$")
# manifest -> the value that switches it on
OPTIONAL = {"scheduler/scheduler.yaml": "scheduler.enabled"}
HEADER = "# Made by tools/gen/chart.py from deploy/{name}; do not edit.\n"
# Names of objects, not labels: they carry the release's name. Webhook configurations keep theirs, which the program knows.
RELEASE_NAME = re.compile(r"\bvolcano-(controllers|admission|scheduler)(?!-service-)")


def template_of(text):
    lines = []
    for line in text.splitlines():
        match = MARK.match(line)
        if match:
            line = match["indent"] + (match["key"] or "") + match["expression"]
        lines.append(line)
    text = "\n".join(lines) + "\n"
    text = RELEASE_NAME.sub(r"{{ .Release.Name }}-\1", text)
    return text.replace("volcano-system", "{{ .Release.Namespace }}")


def read_values(path):
    """Just enough YAML for values.yaml: nested maps of scalars."""
    values, stack = {}, [(-1, "")]
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.strip().startswith("#"):
            continue
        match = re.match(r"^( *)([\w-]+):(?: (.+))?$", line)
        if not match:
            sys.exit(f"{path}:{number}: this reader takes nested maps of scalars only")
        indent = len(match[1])
        while stack[-1][0] >= indent:
            stack.pop()
        name = (stack[-1][1] + "." if stack[-1][1] else "") + match[2]
        if match[3] is None:
            stack.append((indent, name))
        else:
            values[name] = match[3].strip()
    return values


def fill(text, values):
    def value_of(match):
        name = match[1]
        if name == "Release.Name":
            return "volcano"
        if name == "Release.Namespace":
            return "volcano-system"
        key = name.removeprefix("Values.")
        if key not in values:
            sys.exit(f"chart: a template uses .{name}, which values.yaml does not have")
        used.add(key)
        return values[key]
    used = set()
    filled = re.sub(r"\{\{ \.([\w.]+) \}\}", value_of, text)
    return filled, used


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    problems, used_values = [], set()
    values = read_values(DEPLOY / "chart/values.yaml")
    wanted = {}
    for manifest in sorted(DEPLOY.glob("*.yaml")) + [DEPLOY / name for name in OPTIONAL]:
        if manifest.name == "namespace.yaml":
            continue  # helm makes the namespace
        text = manifest.read_text()
        template = template_of(text)
        name = str(manifest.relative_to(DEPLOY))
        header = HEADER.format(name=name)
        if name in OPTIONAL:
            wanted[manifest.name] = header + "{{- if .Values." + OPTIONAL[name] + " }}\n" + template + "{{- end }}\n"
            used_values.add(OPTIONAL[name])
        else:
            wanted[manifest.name] = header + template
        filled, used = fill(template, values)
        used_values |= used
        plain = re.sub(r" # chart: .+$", "", text, flags=re.M)
        if filled != plain:
            for number, (a, b) in enumerate(zip(filled.splitlines(), plain.splitlines()), 1):
                if a != b:
                    problems.append(f"{manifest.name}:{number}: the chart's default gives {a.strip()!r}, the manifest {b.strip()!r}")
    for key in sorted(set(values) - used_values):
        problems.append(f"values.yaml: {key} is not used by any template")
    TEMPLATES.mkdir(parents=True, exist_ok=True)
    for path in TEMPLATES.glob("*.yaml"):
        if path.name not in wanted:
            if arguments.check:
                problems.append(f"{path.relative_to(ROOT)} has no manifest")
            else:
                path.unlink()
    for name, text in wanted.items():
        path = TEMPLATES / name
        if arguments.check:
            if not path.exists() or path.read_text() != text:
                problems.append(f"{path.relative_to(ROOT)} is out of date: run make generate")
        else:
            path.write_text(text)
    for problem in problems:
        print(f"chart: {problem}", file=sys.stderr)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
