#!/usr/bin/env python3
"""The second stage of the Dockerfile installs every library that the program is linked with."""
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# In every Debian image, because apt needs them.
BASE = {"libc6", "libgcc-s1", "libstdc++6"}


def main():
    binary = os.environ.get("BASALT_BINARY", str(ROOT / "build/basalt"))
    dynamic = subprocess.run(["readelf", "-d", binary], capture_output=True, text=True, check=True).stdout
    needed = re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic)
    assert needed, "readelf names no libraries"
    stages = (ROOT / "Dockerfile").read_text().split("\nFROM ")
    last_stage = next(stage for stage in stages if " AS basalt\n" in stage)
    problems = []
    for library in needed:
        owners = subprocess.run(["dpkg", "-S", f"*/{library}"], capture_output=True, text=True).stdout.splitlines()
        packages = {line.split(":")[0] for line in owners}
        if not packages & BASE and not any(re.search(rf"(?<!\S){re.escape(package)}(?!\S)", last_stage) for package in packages):
            problems.append(f"{library} (of {', '.join(sorted(packages)) or 'no package'}) is not installed by the Dockerfile")
    print("\n".join(problems))
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
