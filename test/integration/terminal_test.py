#!/usr/bin/env python3
"""What `basalt run`, `explain` and `tree` show in a real terminal (tmux): golden screens with the passing time taken out."""
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import cluster as c

RUNNING = """\
job default/demo created
worker-0 | ready
worker-1 | ready
default/demo  Running  Ns
  master  [....................] 0/1  1 running
  worker  [....................] 0/2  2 running
"""
HALF_DONE = """\
default/demo  Running  Ns
  master  [....................] 0/1  1 running
  worker  [####################] 2/2  2 succeeded
"""
NARROW = """\
default/demo  Running  Ns
  master  0/1  1 running
  worker  0/2  2 running
"""
EXPLAINED = """\
job default/big: Pending for Ns
It waits because
  ClusterTooSmall (Ns)
  the gang needs more than all nodes have: cpu: 1k requested, 2 free, 998 short
Gang
  2 pods must start together; 0 exist, 0 are placed
What is short
  RESOURCE   REQUESTED   FREE   SHORT
  cpu        1k          2      998
Place in the queue "default"
  1 of 1 that wait
What helps
  - it can never fit as it is: add nodes with 998 of cpu, or ask for less
"""
EXPLAINED_NARROW = """\
job default/big: Pending for Ns
It waits because
  ClusterTooSmall (Ns)
  the gang needs more than all nodes
  have: cpu: 1k requested, 2 free, 998
  short
Gang
  2 pods must start together; 0 exist, 0
  are placed
What is short
  RESOURCE   REQUESTED   FREE   SHORT
  cpu        1k          2      998
Place in the queue "default"
  1 of 1 that wait
What helps
  - it can never fit as it is: add nodes
    with 998 of cpu, or ask for less
"""
TREE = """\
job/demo  Running  min 3, Ns
├─ podgroup/demo-UID  Running  queue default, minMember 3
├─ task/master  1 of 1 pods
│  └─ pod/demo-master-0  Running  on local-0
└─ task/worker  2 of 2 pods
   ├─ pod/demo-worker-0  Running  on local-0
   └─ pod/demo-worker-1  Running  on local-0
"""
TREE_NARROW = """\
job/demo  Running  min 3, Ns
├─ podgroup/demo-UID…  Running…
├─ task/master  1 of 1 pods
│  └─ pod/demo-master-0  Running  on lo…
└─ task/worker  2 of 2 pods
   ├─ pod/demo-worker-0  Running  on lo…
   └─ pod/demo-worker-1  Running  on lo…
"""
QUESTION = "Leave the job running (l), delete it (d) or go on watching (w)? [l]"


class Terminal:
    """One program in a tmux of its own, with a server and a socket that nobody else uses."""

    def __init__(self, cluster, columns, *arguments):
        self.folder = tempfile.mkdtemp(prefix="terminal-", dir=cluster.folder)
        self.socket = os.path.join(self.folder, "tmux")
        self.status = os.path.join(self.folder, "status")
        environment = {**cluster.environment(), "TERM": "xterm", "LC_ALL": "C.UTF-8"}
        command = f"{c.BINARY} {' '.join(arguments)}; echo $? > {self.status}.new; mv {self.status}.new {self.status}; exec sleep 600"
        subprocess.run(["tmux", "-u", "-S", self.socket, "-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", "24",
                        command], env=environment, check=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(["tmux", "-S", self.socket, "kill-server"], check=False)

    def screen(self):
        shown = subprocess.run(["tmux", "-S", self.socket, "capture-pane", "-p"], capture_output=True, text=True, check=True).stdout
        lines = [re.sub(r"\b\d+m?\d*s\b", "Ns", line.rstrip()) for line in shown.splitlines()]
        lines = [re.sub(r"(?<=podgroup/demo-)[0-9a-f-]+", "UID", line) for line in lines]
        # The newest event comes and goes.
        lines = [line for line in lines if line and not re.match(r"^  [A-Z]\w+: ", line)]
        return "\n".join(lines) + "\n"

    def press(self, *keys):
        subprocess.run(["tmux", "-S", self.socket, "send-keys", *keys], check=True)

    def exit_code(self):
        c.wait_for("the program to end", lambda: os.path.exists(self.status))
        with open(self.status, encoding="utf-8") as status:
            return int(status.read())


def manifest(cluster):
    """A master and two workers that each wait for a file."""
    def task(name, replicas, words):
        wait = f"while [ ! -e {cluster.folder}/{name}-may-end ]; do sleep 0.05; done"
        return {"name": name, "replicas": replicas, "template": {"spec": {
            "restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": "none", "command": ["/bin/sh", "-c", f"{words}{wait}"],
                            "resources": {"requests": {"cpu": "10m"}}}]}}}
    path = os.path.join(cluster.folder, "demo.yaml")
    with open(path, "w", encoding="utf-8") as out:
        json.dump({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "demo"},
                   "spec": {"minAvailable": 3, "schedulerName": "volcano",
                            "tasks": [task("master", 1, ""), task("worker", 2, "echo ready; ")]}}, out)
    return path


@unittest.skipUnless(shutil.which("tmux") or os.environ.get("CI") == "true", "tmux is not installed")
class TerminalTest(unittest.TestCase):
    maxDiff = None

    def expect(self, terminal, golden):
        def shows():
            screen = terminal.screen()
            return screen.endswith(golden) or screen == golden
        try:
            c.wait_for("the screen", shows)
        except AssertionError:
            self.assertEqual(terminal.screen(), golden)

    def release(self, cluster, task):
        open(os.path.join(cluster.folder, f"{task}-may-end"), "w", encoding="utf-8").close()

    def test_progress_question_and_end(self):
        with c.Cluster() as cluster, Terminal(cluster, 80, "run", "-f", manifest(cluster)) as terminal:
            self.expect(terminal, RUNNING)
            terminal.press("C-c")
            c.wait_for("the question", lambda: QUESTION in terminal.screen())
            terminal.press("w", "Enter")
            self.release(cluster, "worker")
            self.expect(terminal, HALF_DONE)
            self.release(cluster, "master")
            self.assertEqual(terminal.exit_code(), 0)
            lines = terminal.screen().splitlines()
            self.assertEqual(lines[-1], "job default/demo Completed after Ns: master 1 succeeded; worker 2 succeeded")
            self.assertFalse([line for line in lines if "[#" in line or "[." in line], "the display is gone at the end")

    def test_a_narrow_terminal_has_no_bars_and_ctrl_c_can_delete(self):
        with c.Cluster() as cluster, Terminal(cluster, 40, "run", "-f", manifest(cluster)) as terminal:
            self.expect(terminal, NARROW)
            terminal.press("C-c")
            c.wait_for("the question", lambda: "[l]" in terminal.screen())
            terminal.press("d", "Enter")
            self.assertEqual(terminal.exit_code(), 130)
            self.assertIn("job default/demo deleted", terminal.screen())
            self.assertEqual(cluster.jobs(), [])

    def test_why_a_job_waits_and_what_it_consists_of(self):
        with c.Cluster("--node-capacity", "cpu=2") as cluster:
            cluster.basalt("run", "--detach", "-f", manifest(cluster))
            big = json.loads(c.job_manifest("big", "true", replicas=2))
            big["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "500"}}
            cluster.basalt("run", "--detach", "-f", "-", text=json.dumps(big))
            c.wait_for("the scheduler's word", lambda: json.loads(cluster.basalt("explain", "big", "-o", "json").stdout)["short"])
            c.wait_for("the other job", lambda: cluster.job("demo")["status"]["state"]["phase"] == "Running")
            for columns, command, golden in ((100, "explain big", EXPLAINED), (40, "explain big", EXPLAINED_NARROW),
                                             (100, "tree demo", TREE), (40, "tree demo", TREE_NARROW)):
                with self.subTest(command, columns=columns), Terminal(cluster, columns, *command.split()) as terminal:
                    self.assertEqual(terminal.exit_code(), 0)
                    self.expect(terminal, golden)


if __name__ == "__main__":
    unittest.main()
