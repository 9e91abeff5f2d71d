"""Starts the servers that API tests talk to: Basalt's own, and a real kube-apiserver. Each in a folder of its own, on free
ports, stopped with the test."""
import contextlib
import os
import pathlib
import signal
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


def binary():
    return os.environ.get("BASALT_BINARY", str(ROOT / "build" / "basalt"))


def kubectl():
    return str(pathlib.Path(os.environ.get("BASALT_KUBE_DIR", ROOT / "build" / "kube")) / "kubectl")


def has_kube():
    return os.path.exists(kubectl())


class Basalt:
    """`basalt up --api-only` in a folder; can be killed and started again there."""

    def __init__(self, folder, *flags):
        self.folder = folder
        self.flags = flags
        self.process = None
        self.data = os.path.join(folder, "cluster")  # the log lies beside it: `up` wants a folder of its own
        self.kubeconfig = os.path.join(self.data, "kubeconfig")

    def start(self, timeout=20):
        self.log = open(os.path.join(self.folder, "up.log"), "ab")
        self.process = subprocess.Popen([binary(), "up", "--api-only", "--data-dir", self.data, *self.flags],
                                        stdout=subprocess.PIPE, stderr=self.log)
        deadline = time.monotonic() + timeout
        os.set_blocking(self.process.stdout.fileno(), True)
        line = self.process.stdout.readline().decode()
        if "ready at" not in line or time.monotonic() > deadline:
            raise RuntimeError(f"basalt up did not start: {line}\n" + open(self.log.name).read()[-2000:])
        return self

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self, timeout=20):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(timeout)
        if self.process:
            self.process.stdout.close()
            self.log.close()
        return self.process.returncode if self.process else 0


@contextlib.contextmanager
def basalt(*flags):
    with tempfile.TemporaryDirectory(prefix="basalt-api-") as folder:
        server = Basalt(folder, *(flags or ("--durability", "memory")))
        server.start()
        try:
            yield server
        except BaseException:
            print(open(os.path.join(folder, "up.log")).read()[-4000:])
            raise
        finally:
            server.stop()


@contextlib.contextmanager
def real_kube():
    process = subprocess.Popen([str(ROOT / "tools" / "kube" / "start"), "--quiet"], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE)
    try:
        path = process.stdout.readline().decode().strip()
        if not path:
            raise RuntimeError("tools/kube/start did not start")
        yield path
    finally:
        process.stdin.close()
        process.wait(60)
        process.stdout.close()
