"""A cluster of the built program in a folder of its own, for the tests here."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("BASALT_BINARY", str(ROOT / "build" / "basalt"))
KUBECTL = pathlib.Path(os.environ.get("BASALT_KUBE_DIR", ROOT / "build" / "kube")) / "kubectl"
needs_kubectl = unittest.skipUnless(KUBECTL.exists() or os.environ.get("CI") == "true", "no kubectl: 'make kube' builds it")


def wait_for(what, condition, timeout=60):
    """Waits until the condition gives something true, and returns that."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout} s for {what}")
        time.sleep(0.02)


class Cluster:
    """`basalt up` in the foreground of a child process. Can be killed and started again on its folder."""

    def __init__(self, *flags):
        self.folder = tempfile.mkdtemp(prefix="basalt-up-")
        self.data = os.path.join(self.folder, "cluster")
        self.flags = flags
        self.process = None
        self.output = os.path.join(self.folder, "up.out")

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self):
        with open(self.output, "wb") as out:
            self.process = subprocess.Popen([BINARY, "up", "--data-dir", self.data, *self.flags], stdout=out, stderr=subprocess.STDOUT)

        def is_ready():
            if self.process.poll() is not None:
                raise AssertionError("basalt up ended: " + self.printed())
            return "ready at" in self.printed()
        wait_for("basalt up to be ready", is_ready)
        return self

    def printed(self):
        return pathlib.Path(self.output).read_text(errors="replace")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self, how=signal.SIGINT, timeout=60):
        if self.process and self.process.poll() is None:
            self.process.send_signal(how)
            self.process.wait(timeout)
        return self.process.returncode

    def environment(self):
        return {**os.environ, "KUBECONFIG": os.path.join(self.data, "kubeconfig"), "NO_COLOR": "1"}

    def basalt(self, *arguments, text=None, timeout=120, check=True):
        """Runs the command line against the cluster; returns the finished process."""
        done = subprocess.run([BINARY, *arguments], env=self.environment(), input=text, capture_output=True, text=True,
                              timeout=timeout, check=False)
        if check and done.returncode != 0:
            raise AssertionError(f"basalt {' '.join(arguments)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}\n"
                                 + self.printed()[-4000:])
        return done

    def job(self, name):
        return json.loads(self.basalt("job", "view", "-N", name, "-o", "json").stdout)

    def jobs(self):
        return json.loads(self.basalt("job", "list", "-o", "json").stdout)["items"]


def job_manifest(name, command, replicas=1, restart="Never", policies=(), **spec):
    """A job of one task whose pods run a shell command."""
    return json.dumps({
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name},
        "spec": {
            "minAvailable": replicas, "schedulerName": "volcano", "policies": list(policies), **spec,
            "tasks": [{"name": "t", "replicas": replicas, "template": {"spec": {
                "restartPolicy": restart,
                "containers": [{"name": "c", "image": "none", "command": ["/bin/sh", "-c", command],
                                "resources": {"requests": {"cpu": "10m"}}}]}}}]}})
