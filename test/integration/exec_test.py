#!/usr/bin/env python3
"""Commands beside the containers of `basalt up`, by real kubectl over a WebSocket."""
import json
import os
import pathlib
import subprocess
import unittest

import cluster as c

KUBECTL = pathlib.Path(os.environ.get("BASALT_KUBE_DIR", c.ROOT / "build" / "kube")) / "kubectl"
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {
    "terminationGracePeriodSeconds": 1,
    "volumes": [{"name": "data", "emptyDir": {}}],
    "containers": [
        {"name": "main", "image": "none", "command": ["/bin/sh", "-c", "echo up; exec sleep 1000"],
         "env": [{"name": "COLOUR", "value": "blue"}], "volumeMounts": [{"name": "data", "mountPath": "/data"}]},
        {"name": "other", "image": "none", "command": ["/bin/sleep", "1000"],
         "env": [{"name": "COLOUR", "value": "red"}]}]}}


@unittest.skipUnless(KUBECTL.exists(), "no kubectl: 'make kube' builds it")
class ExecTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = c.Cluster()
        cls.cluster.__enter__()
        cls.environment = dict(os.environ, KUBECONFIG=os.path.join(cls.cluster.data, "kubeconfig"), HOME=cls.cluster.data)
        done = cls.kubectl("apply", "-f", "-", text=json.dumps(POD))
        assert done.returncode == 0, done.stderr
        done = cls.kubectl("wait", "--for=condition=Ready", "pod/p", "--timeout=60s")
        assert done.returncode == 0, done.stderr

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__(None, None, None)

    @classmethod
    def kubectl(cls, *arguments, text=None, timeout=60):
        return subprocess.run([KUBECTL, *arguments], env=cls.environment, input=text, text=True, capture_output=True,
                              timeout=timeout)

    def test_output_and_exit_code_come_back(self):
        done = self.kubectl("exec", "p", "-c", "main", "--", "/bin/sh", "-c", "echo out; echo err >&2; echo $COLOUR; exit 7")
        self.assertEqual((done.returncode, done.stdout), (7, "out\nblue\n"), done.stderr)
        self.assertIn("err\n", done.stderr)
        self.assertIn("exit code 7", done.stderr)
        done = self.kubectl("exec", "p", "-c", "other", "--", "/bin/sh", "-c", "echo $COLOUR")
        self.assertEqual((done.returncode, done.stdout), (0, "red\n"), done.stderr)
        # Without a name it is the first container.
        self.assertEqual(self.kubectl("exec", "p", "--", "/bin/sh", "-c", "echo $COLOUR").stdout, "blue\n")

    def test_much_output_is_complete(self):
        done = self.kubectl("exec", "p", "-c", "main", "--", "/bin/sh", "-c", "seq 1 200000")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.split(), [str(i) for i in range(1, 200001)])

    def test_a_command_ends_with_its_client(self):
        marker = f"987{os.getpid()}"
        client = subprocess.Popen([KUBECTL, "exec", "p", "-c", "main", "--", "/bin/sh", "-c", f"echo here; exec sleep {marker}"],
                                  env=self.environment, stdout=subprocess.PIPE, text=True)
        self.assertEqual(client.stdout.readline(), "here\n")
        # The shell says so before it becomes the sleep.
        c.wait_for("the command", lambda: self.running(marker) == 1)
        client.kill()
        client.wait()
        client.stdout.close()
        c.wait_for("the command's end", lambda: self.running(marker) == 0)

    @staticmethod
    def running(marker):
        found = 0
        for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes().split(b"\0")
            except OSError:
                continue
            found += words[0].endswith(b"sleep") and marker.encode() in words
        return found

    def test_what_cannot_be_is_said(self):
        for arguments, words in ((("exec", "p", "-c", "main", "--", "/no/such/program"), "/no/such/program"),
                                 (("exec", "p", "-c", "nobody", "--", "/bin/true"), "nobody"),
                                 (("exec", "q", "--", "/bin/true"), "not found"),
                                 (("exec", "-i", "p", "-c", "main", "--", "/bin/cat"), "leave out -i and -t"),
                                 (("attach", "p", "-c", "main"), "kubectl logs -f p")):
            done = self.kubectl(*arguments, text="")
            self.assertNotEqual(done.returncode, 0, arguments)
            self.assertIn(words, done.stdout + done.stderr, arguments)


if __name__ == "__main__":
    unittest.main()
