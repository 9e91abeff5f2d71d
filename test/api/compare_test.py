#!/usr/bin/env python3
"""Runs every script of API calls against Basalt's server and against a real kube-apiserver: both must answer the same, but
for times, UIDs and versions. With --basalt-only it only checks that the scripts run (no real server on the machine)."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import api_script
import clusters


def scripts():
    return sorted((pathlib.Path(__file__).resolve().parent / "scripts").glob("*.api"))


def run_all(server):
    transcripts = {}
    for script in scripts():
        namespace = "t-" + script.stem.replace("_", "-")
        code, text = server.call("POST", "/api/v1/namespaces", '{"metadata": {"name": "%s"}}' % namespace)
        assert code == 201, text
        transcripts[script.stem] = api_script.run_script(server, api_script.parse_script(script.read_text()), namespace)
    return transcripts


def main():
    with clusters.basalt() as mine:
        ours = run_all(api_script.Server("basalt", mine.kubeconfig))
    with clusters.real_kube() as kubeconfig:
        real = run_all(api_script.Server("kube-apiserver", kubeconfig))
    steps = failed = 0
    for name, transcript in ours.items():
        for (request, code, body), (_, real_code, real_body) in zip(transcript, real[name], strict=True):
            steps += 1
            if code == real_code and body == real_body:
                continue
            failed += 1
            print(f"{name}: {request}: basalt {code}, kube-apiserver {real_code}")
            if body != real_body:
                print(api_script.difference(body, real_body))
    print(f"api: {steps - failed} passed, {failed} failed")
    return 1 if failed or steps == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
