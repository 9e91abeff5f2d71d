#!/usr/bin/env python3
"""Walks the tree and refuses what the house style forbids. Prints `file:line: what` and exits 1 if anything was found.

Rules: includes point downward only; sources stay below a size; waiting, time and randomness go through src/rt;
our code does not throw; every folder has a README; TODO names an issue; text files are clean; every header compiles alone.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys

import headers

# From the lowest layer to the highest. A file may include its own layer and the ones it is allowed here.
ALLOWED = {
    "base": [],
    "json": ["base"],
    "yaml": ["base", "json"],
    "rt": ["base"],
    "net": ["base", "rt"],
    "api": ["base", "json"],
    "cel": ["base", "json", "api"],
    "kube": ["base", "json", "yaml", "rt", "net", "api"],
    "crds": ["base", "json", "yaml", "rt", "kube"],
    "apiserver": ["base", "json", "yaml", "rt", "net", "api", "cel", "kube"],
    "federation": ["base", "json", "rt", "api", "kube"],
    "node": ["base", "json", "rt", "net", "api", "kube"],
    "scheduler": ["base", "json", "rt", "api", "kube"],
    "webhooks": ["base", "json", "yaml", "rt", "net", "api", "kube"],
    "admission": ["base", "json", "yaml", "rt", "net", "api", "kube", "crds", "apiserver", "webhooks"],
    "controllers": ["base", "json", "yaml", "rt", "net", "api", "kube"],
    "workloads": ["base", "json", "rt", "api", "kube", "controllers"],
    "sim": ["base", "json", "yaml", "rt", "net", "api", "kube", "crds", "apiserver", "federation", "node", "scheduler",
            "webhooks", "admission", "controllers"],
    "cli": ["base", "json", "yaml", "rt", "net", "api", "kube", "crds", "apiserver", "federation", "node", "scheduler",
            "webhooks", "admission", "controllers", "workloads"],
}
# Tests of any layer may run on the simulated cluster and write their objects as YAML.
TEST_MAY_INCLUDE = ("sim", "yaml", "crds")
SOURCE_LINES_MAX = 600
LINE_LENGTH_MAX = 160
# (pattern, folders in which it is allowed, explanation)
BANNED = [
    (re.compile(r"std::this_thread"), ("src/rt/",), "waits go through rt::Runtime"),
    (re.compile(r"std::(j?thread)\b"), ("src/rt/",), "threads are rt::Thread"),
    (re.compile(r"(system|steady|high_resolution)_clock::now"), ("src/rt/", "bench/"), "time comes from rt::Runtime"),
    (re.compile(r"(?<![\w:.>])(rand|srand|random|drand48)\(\)"), ("src/rt/",), "randomness comes from rt::Runtime"),
    (re.compile(r"std::random_device"), ("src/rt/",), "randomness comes from rt::Runtime"),
    (re.compile(r"std::async\b"), (), "work is done by rt::Executor or rt::Thread"),
    (re.compile(r"(?<![\w:.>])(usleep|nanosleep|sleep)\("), ("src/rt/",), "waits go through rt::Runtime"),
    (re.compile(r"(?<![\w])throw\b(?!\s*\()"), (), "expected failures are Result values"),
    (re.compile(r"std::regex"), (), "use RE2; std::regex is slow and recursive"),
    (re.compile(r"\bfor \([^;]*[^:]:[^:;]*\w\(\)->"), (),
     "the temporary is gone before the first round: keep it in a variable"),
]
TEST_MAY_USE = ("std::this_thread", "std::(j?thread)")
TODO = re.compile(r"\b(TODO|FIXME|XXX)\b(?!\(#\d+\))")
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')
HEADER_ONLY_TESTS = ("_test.cc", "_test_support.h")


def tracked_files(root):
    out = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=root, check=True,
                         capture_output=True, text=True).stdout
    return [line for line in out.splitlines() if (root / line).is_file()]


def layer_of(path):
    parts = path.split("/")
    return parts[1] if parts[0] == "src" and len(parts) > 2 else None


def strip_comments_and_strings(line):
    line = re.sub(r'"(\\.|[^"\\])*"', '""', line)
    return line.split("//", 1)[0]


def check_includes(path, lines):
    layer = layer_of(path)
    if layer is None:
        return
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        target = match.group(1)
        if "/" not in target:
            yield number, f'include "{target}" by its full path from src/'
            continue
        other = target.split("/", 1)[0]
        if other == layer or other not in ALLOWED:
            continue
        is_test = path.endswith(("_test.cc", "test_support.h")) or "/testing/" in path
        allowed = ALLOWED.get(layer)
        if allowed is None:
            yield number, f"folder src/{layer} is not in the layer table of tools/tidy/tidy.py"
            return
        if other not in allowed and not (is_test and other in TEST_MAY_INCLUDE):
            yield number, f"src/{layer} may not include src/{other} (layers point downward)"


def is_generated(path):
    return "/gen/" in path


def check_source(path, lines):
    if not is_generated(path) and len(lines) > SOURCE_LINES_MAX:
        yield 1, f"{len(lines)} lines; split at {SOURCE_LINES_MAX}, by idea"
    if path.endswith(".h") and "#pragma once" not in "\n".join(lines[:40]):
        yield 1, "header without #pragma once"
    yield from check_includes(path, lines)
    in_product = path.startswith(("src/", "apps/"))
    for number, line in enumerate(lines, 1):
        code = strip_comments_and_strings(line)
        if in_product and not path.endswith("_test.cc") and "/testing/" not in path:
            for pattern, allowed, why in BANNED:
                if pattern.search(code) and not path.startswith(allowed or ("\0",)):
                    yield number, f"'{pattern.search(code).group(0)}': {why}"


def check_text(path, lines, raw):
    if raw and not raw.endswith(b"\n"):
        yield len(lines), "no newline at the end"
    for number, line in enumerate(lines, 1):
        if line.rstrip() != line:
            yield number, "trailing white space"
        if "\t" in line and not path.endswith(("Makefile", ".go", "go.mod", "go.sum", ".tsv", ".md")):
            yield number, "tab"
        if TODO.search(line) and not path.startswith("tools/tidy/"):
            yield number, "a TODO names its issue: TODO(#12)"
        if path.startswith(("src/", "apps/")) and path.endswith((".cc", ".h")) and len(line) > LINE_LENGTH_MAX and not is_generated(path):
            yield number, f"line longer than {LINE_LENGTH_MAX}"


def check_readmes(root, files):
    folders = set()
    for path in files:
        parts = path.split("/")
        if parts[0] in ("src", "apps", "schema", "deploy", "bench", "fuzz", "test", "tools", "examples", "docs") and len(parts) > 1:
            folders.add("/".join(parts[:2]) if len(parts) > 2 and parts[0] in ("src", "apps", "test", "tools") else parts[0])
    for folder in sorted(folders):
        if folder in ("src", "apps", "tools", "docs", "test"):
            continue
        if not (root / folder / "README.md").is_file():
            yield folder, 1, "folder without a README.md"


def check_file(path, raw):
    """All findings of one file, without those that need the whole tree. Yields (line, message)."""
    if b"\0" in raw:
        return
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        yield 1, "not UTF-8"
        return
    lines = text.split("\n")
    if lines and lines[-1] == "":
        lines.pop()
    if path.endswith((".cc", ".h")):
        yield from check_source(path, lines)
    if path.endswith((".cc", ".h", ".py", ".md", ".cmake", "CMakeLists.txt", ".schema", ".sh", "Makefile")):
        yield from check_text(path, lines, raw)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--no-headers", action="store_true", help="leave out the compilation of headers")
    options = parser.parse_args()
    root = pathlib.Path(__file__).resolve().parents[2]
    files = tracked_files(root)
    findings = []
    for path in files:
        if path.startswith(("fuzz/corpus/",)) or "/testdata/" in path:
            continue
        findings += [(path, number, message) for number, message in check_file(path, (root / path).read_bytes())]
    findings += check_readmes(root, files)
    if not options.no_headers:
        findings += headers.check(root, files, os.cpu_count() or 1)
    for path, number, message in findings:
        print(f"{path}:{number}: {message}")
    print(f"tidy: {len(files)} files, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
