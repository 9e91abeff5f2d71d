#!/usr/bin/env python3
"""Commands beside the containers of `basalt up`, by real kubectl over a WebSocket."""
import fcntl
import json
import os
import pathlib
import pty
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
import unittest

import cluster as c

SERVER = """
import os, socket
server = socket.create_server((os.environ["BASALT_POD_IP"], 0))
with open("port.new", "w") as file:
    file.write(str(server.getsockname()[1]))
os.rename("port.new", "port")
while True:
    server.accept()[0].sendall(b"hello\\n")
"""
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {
    "terminationGracePeriodSeconds": 1,
    "volumes": [{"name": "data", "emptyDir": {}}],
    "containers": [
        {"name": "main", "image": "none", "command": ["/bin/sh", "-c", "echo up; exec sleep 1000"],
         "env": [{"name": "COLOUR", "value": "blue"}], "volumeMounts": [{"name": "data", "mountPath": "/data"}]},
        {"name": "other", "image": "none", "command": ["/bin/sleep", "1000"],
         "env": [{"name": "COLOUR", "value": "red"}]},
        {"name": "speaker", "image": "none", "command": ["/bin/sh", "-c", "i=0; while :; do i=$((i+1)); echo line $i; sleep 0.2; done"]},
        {"name": "server", "image": "none", "command": [sys.executable, "-c", SERVER]}]}}


class Terminal:
    """A program on a pseudo terminal, as somebody sits before it."""

    def __init__(self, command, environment, rows, columns):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(command[0], command, environment)
        self.resize(rows, columns)
        self.text = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.fd)
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)

    def resize(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text):
        os.write(self.fd, text.encode())

    def expect(self, words, timeout=60):
        deadline = time.monotonic() + timeout
        while words not in self.text:
            if not select.select([self.fd], [], [], max(0, deadline - time.monotonic()))[0]:
                raise AssertionError(f"waited for {words!r}, read {self.text!r}")
            try:
                self.text += os.read(self.fd, 65536).decode(errors="replace")
            except OSError as error:
                raise AssertionError(f"ended before {words!r}, read {self.text!r}") from error
        self.text = self.text.split(words, 1)[1]

    def wait(self):
        while True:  # until it has closed its terminal
            try:
                if not os.read(self.fd, 65536):
                    break
            except OSError:
                break
        pid, self.pid = self.pid, 0
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@c.needs_kubectl
class ExecTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = c.Cluster()
        cls.cluster.__enter__()
        cls.addClassCleanup(cls.cluster.__exit__, None, None, None)
        cls.environment = dict(os.environ, KUBECONFIG=os.path.join(cls.cluster.data, "kubeconfig"), HOME=cls.cluster.data)
        done = cls.kubectl("apply", "-f", "-", text=json.dumps(POD))
        assert done.returncode == 0, done.stderr
        done = cls.kubectl("wait", "--for=condition=Ready", "pod/p", "--timeout=60s")
        assert done.returncode == 0, done.stderr

    @classmethod
    def kubectl(cls, *arguments, text=None, timeout=60):
        return subprocess.run([c.KUBECTL, *arguments], env=cls.environment, input=text, text=True, capture_output=True,
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
        client = subprocess.Popen([c.KUBECTL, "exec", "p", "-c", "main", "--", "/bin/sh", "-c", f"echo here; exec sleep {marker}"],
                                  env=self.environment, stdout=subprocess.PIPE, text=True)
        self.assertEqual(client.stdout.readline(), "here\n")
        # The shell says so before it becomes the sleep.
        c.wait_for("the command", lambda: self.running(marker) == 1)
        client.kill()
        client.wait()
        client.stdout.close()
        c.wait_for("the command's end", lambda: self.running(marker) == 0)

    def test_input_arrives_and_ends(self):
        done = self.kubectl("exec", "-i", "p", "-c", "main", "--", "/bin/sh", "-c", "cat; echo end; exit 5", text="a\nb\n")
        self.assertEqual((done.returncode, done.stdout), (5, "a\nb\nend\n"), done.stderr)
        # A command that does not read ends all the same, and so does one that reads when there is none.
        self.assertEqual(self.kubectl("exec", "-i", "p", "-c", "main", "--", "/bin/true", text="x" * 5_000_000).returncode, 0)
        self.assertEqual(self.kubectl("exec", "p", "-c", "main", "--", "/bin/cat").stdout, "")

    def test_an_archive_goes_there_and_back(self):
        folder = pathlib.Path(self.cluster.folder)
        source = folder / "source"
        source.mkdir()
        contents = {f"f{i}": os.urandom(10 << 20) for i in range(3)}
        for name, data in contents.items():
            (source / name).write_bytes(data)
        archive = subprocess.run(["tar", "cf", "-", "-C", source, "."], capture_output=True, check=True).stdout
        self.assertEqual(self.kubectl("exec", "p", "-c", "main", "--", "mkdir", "store").returncode, 0)
        there = subprocess.run([c.KUBECTL, "exec", "-i", "p", "-c", "main", "--", "tar", "xf", "-", "-C", "store"],
                               env=self.environment, input=archive, capture_output=True, timeout=120)
        self.assertEqual(there.returncode, 0, there.stderr)
        back = subprocess.run([c.KUBECTL, "exec", "p", "-c", "main", "--", "tar", "cf", "-", "-C", "store", "."],
                              env=self.environment, capture_output=True, timeout=120)
        self.assertEqual(back.returncode, 0, back.stderr)
        target = folder / "target"
        target.mkdir()
        subprocess.run(["tar", "xf", "-", "-C", target], input=back.stdout, check=True)
        for name, data in contents.items():
            self.assertEqual((target / name).read_bytes(), data, name)
        done = self.kubectl("cp", "-c", "main", str(source / "f0"), "p:store/copied", timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.kubectl("cp", "-c", "main", "p:store/copied", str(folder / "copied"), timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((folder / "copied").read_bytes(), contents["f0"])

    def test_who_waits_for_a_command_or_a_client_ends_with_the_other(self):
        marker = f"986{os.getpid()}"
        # The command reads nothing of what is more than the buffers hold; killing its client ends it.
        client = subprocess.Popen([c.KUBECTL, "exec", "-i", "p", "-c", "main", "--", "/bin/sleep", marker], env=self.environment,
                                  stdin=subprocess.PIPE)
        c.wait_for("the command", lambda: self.running(marker) == 1)
        os.set_blocking(client.stdin.fileno(), False)
        sent = 0
        while sent < 100_000_000:
            _, writable, _ = select.select([], [client.stdin], [], 2)
            if not writable:
                break
            sent += os.write(client.stdin.fileno(), b"x" * 65536)
        self.assertLess(sent, 100_000_000)
        client.kill()
        client.wait()
        client.stdin.close()
        c.wait_for("the command's end", lambda: self.running(marker) == 0)
        # The client reads nothing of what is more than the buffers hold.
        client = subprocess.Popen([c.KUBECTL, "exec", "p", "-c", "main", "--", "/bin/sh", "-c", f"yes & exec sleep {marker}"],
                                  env=self.environment, stdout=subprocess.PIPE)
        c.wait_for("the command", lambda: self.running(marker) == 1)
        client.kill()
        client.wait()
        client.stdout.close()
        c.wait_for("the command's end", lambda: self.running(marker) == 0)

    def test_a_terminal(self):
        """What somebody types at `kubectl exec -it p -- sh`."""
        with Terminal([str(c.KUBECTL), "exec", "-it", "p", "-c", "main", "--", "/bin/sh"], self.environment, rows=31, columns=97) as shell:
            shell.type("echo $TERM; tty\r")
            shell.expect("xterm")
            shell.expect("/dev/pts/")
            # A size comes beside what is typed, perhaps later.
            for rows, columns in ((31, 97), (12, 34)):
                shell.resize(rows, columns)
                shell.type(f"until [ \"$(stty size)\" = '{rows} {columns}' ]; do sleep 0.05; done; echo resi''zed\r")
                shell.expect("resized")
            # Ctrl-C ends the program in front, not the shell.
            marker = f"985{os.getpid()}"
            shell.type(f"sleep {marker}; echo never\r")
            c.wait_for("the program in front", lambda: self.running(marker) == 1)
            shell.type("\x03")
            c.wait_for("its end", lambda: self.running(marker) == 0)
            shell.type("echo af''ter\r")
            shell.expect("after")
            shell.type("exit 6\r")
            self.assertEqual(shell.wait(), 6)

    def test_attaching_shows_what_comes(self):
        client = subprocess.Popen([c.KUBECTL, "attach", "p", "-c", "speaker"], env=self.environment, stdout=subprocess.PIPE, text=True)
        # It may begin with any line that is printed after it came.
        first = int(client.stdout.readline().split()[1])
        self.assertEqual(client.stdout.readline(), f"line {first + 1}\n")
        client.kill()
        client.wait()
        client.stdout.close()

    def test_a_port_is_reached_at_the_address_of_the_pod(self):
        address = self.kubectl("get", "pod", "p", "-o", "jsonpath={.status.podIP}").stdout
        port = c.wait_for("the port", lambda: self.kubectl("exec", "p", "-c", "server", "--", "cat", "port").stdout.strip())
        with socket.create_connection((address, int(port)), timeout=60) as connection, connection.makefile() as file:
            self.assertEqual(file.readline(), "hello\n")

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
                                 (("attach", "-i", "p", "-c", "main"), "kubectl exec -it p -- COMMAND")):
            done = self.kubectl(*arguments, text="")
            self.assertNotEqual(done.returncode, 0, arguments)
            self.assertIn(words, done.stdout + done.stderr, arguments)


if __name__ == "__main__":
    unittest.main()
