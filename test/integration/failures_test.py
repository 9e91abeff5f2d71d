#!/usr/bin/env python3
"""When things go wrong: the program says what, why, and what to try next."""
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import unittest

import cluster as c


def pod_of(manifest):
    return manifest["spec"]["tasks"][0]["template"]["spec"]


class FailuresTest(unittest.TestCase):
    def test_the_cause_of_a_failed_job_is_told(self):
        deadline = json.loads(c.job_manifest("late", "echo working; sleep 100"))
        pod_of(deadline)["activeDeadlineSeconds"] = 1
        absent = json.loads(c.job_manifest("absent", ""))
        pod_of(absent)["containers"][0]["command"] = ["no-such-program"]
        cases = {
            "code": (c.job_manifest("code", "echo no input; exit 3"), ["container c: exit code 3"], "no input"),
            "late": (json.dumps(deadline), ["DeadlineExceeded", "container c: exit code 143 (SIGTERM)"], "working"),
            "absent": (json.dumps(absent), ["StartError", '"no-such-program" is not on this machine'], None),
            "lost": (c.job_manifest("lost", "definitely-not-there"), ["exit code 127 (command not found)"], "not found"),
        }
        with c.Cluster() as cluster:
            for name, (manifest, texts, written) in cases.items():
                with self.subTest(name):
                    done = cluster.basalt("run", "--no-logs", "-f", "-", text=manifest, check=False)
                    self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
                    explained = cluster.basalt("explain", name).stdout
                    for text in [f"{name}-t-0", "task t", *texts]:
                        self.assertIn(text, done.stdout)
                        self.assertIn(text, explained)
                    self.assertIn(f"basalt logs {name} -n default", done.stdout)
                    self.assertIn(f"basalt logs {name} -n default", explained)
                    if written:
                        self.assertRegex(done.stdout, rf"\| .*{written}")
                        self.assertRegex(explained, rf"\| .*{written}")
                    # The next step that is named works.
                    command = re.search(r"its log: basalt (logs \S+ -n \S+ --pod \S+)", done.stdout).group(1)
                    cluster.basalt(*command.split())
            reason = cluster.job("late")["status"]["state"]["message"]
            self.assertIn("late-t-0: DeadlineExceeded, exit code 143", reason)

    def test_a_job_that_crashes_again_and_again_says_so_while_it_runs(self):
        with c.Cluster() as cluster:
            manifest = c.job_manifest("loop", "exit 4", restart="OnFailure", maxRetry=100)
            done = cluster.basalt("run", "-f", "-", "--timeout", "10s", text=manifest, check=False)
            self.assertEqual(done.returncode, 124, done.stdout + done.stderr)
            self.assertIn("pod loop-t-0 (task t) CrashLoopBackOff: container c: exit code 4, restarted", done.stdout)

    def test_the_timeout_counts_while_an_old_job_ends(self):
        with c.Cluster() as cluster:
            ready = os.path.join(cluster.folder, "ready")
            slow = json.loads(c.job_manifest("slow", f"trap '' TERM; touch {ready}; while :; do sleep 1; done"))
            pod_of(slow)["terminationGracePeriodSeconds"] = 15
            cluster.basalt("run", "-d", "-f", "-", text=json.dumps(slow))
            c.wait_for("the pod", lambda: os.path.exists(ready))
            done = cluster.basalt("run", "--replace", "--timeout", "2s", "-f", "-", text=json.dumps(slow), check=False, timeout=12)
            self.assertEqual(done.returncode, 124, done.stdout + done.stderr)
            self.assertIn("the old job default/slow is still being deleted after 2s", done.stderr)

    def test_a_priority_class_that_does_not_exist_is_refused(self):
        with c.Cluster() as cluster:
            manifest = c.job_manifest("p", "true", priorityClassName="system-clustr-critical")
            done = cluster.basalt("run", "-f", "-", text=manifest, check=False)
            self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
            self.assertIn('there is no PriorityClass "system-clustr-critical"; did you mean "system-cluster-critical"?', done.stderr)
            self.assertIn("The cluster has: ", done.stderr)
            self.assertEqual(cluster.jobs(), [])

    def test_a_priority_class_that_does_not_exist_is_told_of_a_job_that_waits(self):
        with c.Cluster() as cluster:
            # As vcctl and kubectl submit it, who do not look first.
            path = os.path.join(cluster.folder, "p.yaml")
            with open(path, "w", encoding="utf-8") as out:
                out.write(c.job_manifest("p", "true", priorityClassName="system-clustr-critical"))
            sent = cluster.basalt("job", "run", "-f", path)
            self.assertIn('there is no PriorityClass "system-clustr-critical"', sent.stdout + sent.stderr)

            def explained():
                value = json.loads(cluster.basalt("explain", "p", "-o", "json").stdout)
                return value if value["reason"] == "PriorityClassMissing" else None
            value = c.wait_for("the reason", explained)
            self.assertIn('did you mean "system-cluster-critical"?', " ".join(value["remedies"]))

    def test_why_a_job_waits(self):
        with c.Cluster("--node-capacity", "cpu=2") as cluster:
            big = json.loads(c.job_manifest("big", "true"))
            pod_of(big)["containers"][0]["resources"] = {"requests": {"cpu": "500"}}
            cluster.basalt("run", "-d", "-f", "-", text=json.dumps(big))

            def explained():
                value = json.loads(cluster.basalt("explain", "big", "-o", "json").stdout)
                return value if value["short"] else None
            value = c.wait_for("the scheduler's reason", explained)
            self.assertEqual(value["reason"], "ClusterTooSmall", value)
            self.assertEqual(value["short"], [{"resource": "cpu", "requested": "500", "free": "2", "lacking": "498"}])
            self.assertEqual((value["queue"]["position"], value["queue"]["waiting"]), (1, 1))
            self.assertIn("can never fit", " ".join(value["remedies"]))
            shown = cluster.basalt("explain", "big").stdout
            self.assertIn("1 of 1 that wait", shown)


class FolderTest(unittest.TestCase):
    def up(self, *arguments):
        return subprocess.run([c.BINARY, "up", *arguments], capture_output=True, text=True, check=False, timeout=60)

    def test_a_port_that_is_taken(self):
        with socket.socket() as holder, tempfile.TemporaryDirectory(prefix="basalt-port-") as folder:
            holder.bind(("127.0.0.1", 0))
            holder.listen()
            port = holder.getsockname()[1]
            for flags in ((), ("--detach",)):
                done = self.up("--data-dir", folder, "--port", str(port), *flags)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn(f"port {port} of 127.0.0.1 cannot be taken", done.stderr)
                self.assertIn(f"held by process {os.getpid()} (", done.stderr)
                self.assertIn("--port", done.stderr)
                self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)

    def test_folders_that_will_not_do(self):
        with tempfile.TemporaryDirectory(prefix="basalt-folder-") as folder:
            pathlib.Path(folder, "thesis.tex").write_text("x")
            done = self.up("--data-dir", folder)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn('holds files that are not a cluster\'s, such as "thesis.tex"', done.stderr)
            self.assertEqual(os.listdir(folder), ["thesis.tex"])
            done = self.up("--data-dir", os.path.join(folder, "thesis.tex", "sub"), "--detach")
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("cannot be made", done.stderr)
            self.assertIn("--data-dir", done.stderr)

    def test_a_second_cluster_in_the_same_folder(self):
        with c.Cluster() as cluster:
            for flags in ((), ("--detach",)):
                done = self.up("--data-dir", cluster.data, *flags)
                self.assertEqual(done.returncode, 1)
                self.assertIn(f"already running as process {cluster.process.pid}", done.stderr)

    def test_a_full_disk_is_told(self):
        disk = tempfile.mkdtemp(prefix="basalt-disk-")
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", disk], capture_output=True, check=False)
        if mounted.returncode != 0:
            shutil.rmtree(disk)
            self.skipTest("a small disk cannot be mounted here: " + mounted.stderr.decode())
        try:
            with c.Cluster() as cluster:
                cluster.stop()
                cluster.data = os.path.join(disk, "cluster")
                cluster.start()
                filler = pathlib.Path(disk, "filler")
                descriptor = os.open(filler, os.O_CREAT | os.O_WRONLY)
                try:
                    while True:
                        os.write(descriptor, bytes(4096))
                except OSError:
                    pass  # the disk is full
                finally:
                    os.close(descriptor)
                manifest = c.job_manifest("waits", "echo at last")
                done = cluster.basalt("run", "--timeout", "8s", "-f", "-", text=manifest, check=False)
                self.assertNotEqual(done.returncode, 0, done.stdout)
                self.assertRegex(done.stdout + done.stderr, "(?i)disk .*is full|No space left")
                status = subprocess.run([c.BINARY, "status", "--data-dir", cluster.data], capture_output=True, text=True, check=False,
                                        timeout=60)
                self.assertEqual(status.returncode, 1, status.stdout)
                self.assertIn("is full", status.stdout)
                doctor = cluster.basalt("doctor", check=False)
                self.assertEqual(doctor.returncode, 1, doctor.stdout)
                self.assertIn("is full", doctor.stdout)
                if cluster.jobs():
                    self.assertIn("is full", cluster.basalt("explain", "waits").stdout)
                # All goes on by itself.
                filler.unlink()
                if not cluster.jobs():
                    cluster.basalt("run", "-d", "-f", "-", text=manifest)
                c.wait_for("the job", lambda: cluster.job("waits")["status"].get("state", {}).get("phase") == "Completed", 90)
        finally:
            subprocess.run(["umount", "-l", disk], check=False)
            shutil.rmtree(disk, ignore_errors=True)


if __name__ == "__main__":
    unittest.main()
