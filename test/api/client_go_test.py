#!/usr/bin/env python3
"""Real client-go (test/client-go) against Basalt's server and against a real kube-apiserver: the same checks pass on both."""
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import clusters

PROGRAM = os.environ.get("CLIENT_GO_CHECK", os.path.join(os.path.dirname(clusters.kubectl()), "client-go-check"))


def check(name, kubeconfig):
    done = subprocess.run([PROGRAM, kubeconfig], text=True, capture_output=True, timeout=150)
    print(f"{name}: {done.stdout.strip()}{done.stderr[-2000:] if done.returncode else ''}")
    return done.returncode == 0 and " 0 failed" in done.stdout


def main():
    with clusters.basalt() as server:
        passed = check("basalt", server.kubeconfig)
    with clusters.real_kube() as kubeconfig:
        passed = check("kube-apiserver", kubeconfig) and passed
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
