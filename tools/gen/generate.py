#!/usr/bin/env python3
"""Writes everything that follows from schema/: C++ types and codecs, CRDs, the API reference, names.

  generate.py           write what changed, remove what no longer belongs
  generate.py --check   write nothing; list the files that are stale and exit 1 if there are any
"""

import argparse
import pathlib
import sys

import check
import cpp
import crd
import docs
import model as schema_model
import names

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Folders that hold nothing but generated files and a README.md.
OWNED = ("src/api/gen", "deploy/crds", "docs/api")


def outputs(model):
    """All generated files: {path: text}."""
    result = {}
    for module in (crd, docs, cpp, names):
        result.update(module.files(model))
    return dict(sorted(result.items()))


def stale(root, wanted):
    """Paths that differ from what they should be, with the reason."""
    for path, text in wanted.items():
        file = root / path
        if not file.is_file():
            yield path, "missing"
        elif file.read_text() != text:
            yield path, "changed"
    for folder in OWNED:
        for file in sorted((root / folder).glob("*")):
            path = f"{folder}/{file.name}"
            if path not in wanted and file.name != "README.md":
                yield path, "does not belong there"


def main(arguments=None, root=ROOT):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing, fail if a file is stale")
    options = parser.parse_args(arguments)
    try:
        wanted = outputs(check.read_folder(root / "schema"))
    except schema_model.SchemaError as error:
        print(error, file=sys.stderr)
        return 2
    found = list(stale(root, wanted))
    if options.check:
        for path, reason in found:
            print(f"stale: {path} ({reason})", file=sys.stderr)
        if found:
            print("run tools/gen/generate.py", file=sys.stderr)
        return 1 if found else 0
    for path, reason in found:
        file = root / path
        if path in wanted:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(wanted[path])
        else:
            file.unlink()
        print(f"{path}: {'written' if path in wanted else 'removed'}")
    print(f"generate: {len(wanted)} files, {len(found)} written or removed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
