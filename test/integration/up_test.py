#!/usr/bin/env python3
"""`basalt up`, `down` and `status`: a cluster starts, runs jobs, ends cleanly, is killed, and goes on."""
import collections
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import unittest

import cluster as c


def lines_of(path):
    return pathlib.Path(path).read_text().split() if os.path.exists(path) else []


def is_alive(pid):
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


class UpTest(unittest.TestCase):
    def test_a_gang_runs_and_its_outcome_is_the_exit_code(self):
        with c.Cluster() as cluster:
            done = cluster.basalt("run", "-f", "-", text=c.job_manifest("good", "echo it works", replicas=3))
            self.assertEqual(done.stdout.count("it works"), 3, done.stdout)
            self.assertEqual(cluster.job("good")["status"]["state"]["phase"], "Completed")
            failing = c.job_manifest("bad", "exit 7", policies=[{"event": "PodFailed", "action": "AbortJob"}])
            done = cluster.basalt("run", "-f", "-", text=failing, check=False)
            self.assertNotEqual(done.returncode, 0, done.stdout)

    def test_ctrl_c_ends_the_processes_of_the_pods(self):
        with c.Cluster() as cluster:
            pids = os.path.join(cluster.folder, "pids")
            command = f"echo $$ >> {pids}; exec sleep 1000"
            cluster.basalt("run", "--detach", "-f", "-", text=c.job_manifest("long", command, replicas=2))
            c.wait_for("two processes", lambda: len(lines_of(pids)) == 2)
            self.assertEqual(cluster.stop(signal.SIGINT), 0, cluster.printed())
            c.wait_for("their end", lambda: not any(is_alive(pid) for pid in lines_of(pids)), 10)

    def test_what_is_finished_stays_finished_over_a_restart(self):
        with c.Cluster() as cluster:
            marks = os.path.join(cluster.folder, "marks")
            cluster.basalt("run", "-f", "-", text=c.job_manifest("once", f"echo x >> {marks}", replicas=4))
            before = cluster.job("once")
            cluster.stop()
            cluster.start()
            after = c.wait_for("the job", lambda: cluster.job("once"))
            self.assertEqual(after["metadata"]["uid"], before["metadata"]["uid"])
            # Something new has run meanwhile, so the old job would have had its time as well.
            cluster.basalt("run", "-f", "-", text=c.job_manifest("next", "true"))
            self.assertEqual(cluster.job("once")["status"]["state"]["phase"], "Completed")
            self.assertEqual(len(lines_of(marks)), 4)

    def test_killed_with_fifty_jobs_all_finish_and_none_runs_again_after_success(self):
        with c.Cluster("--node-capacity", "cpu=8,pods=200") as cluster:
            marks = os.path.join(cluster.folder, "marks")
            go = os.path.join(cluster.folder, "go")
            for i in range(50):
                # Half of them end at once; the others wait until they are told to go on.
                wait = "" if i % 2 else f"while [ ! -e {go} ]; do sleep 0.1; done; "
                command = f"{wait}echo job-{i} >> {marks}"
                cluster.basalt("run", "--detach", "-f", "-", text=c.job_manifest(f"job-{i}", command, restart="OnFailure"))

            def phases():
                return collections.Counter(job.get("status", {}).get("state", {}).get("phase") for job in cluster.jobs())
            c.wait_for("25 finished and 25 running jobs", lambda: phases() == {"Completed": 25, "Running": 25})
            cluster.kill()
            finished = lines_of(marks)
            self.assertEqual(len(finished), 25)
            cluster.start()
            pathlib.Path(go).touch()
            c.wait_for("50 finished jobs", lambda: phases() == {"Completed": 50})
            runs = collections.Counter(lines_of(marks))
            self.assertEqual({name: runs[name] for name in finished}, dict.fromkeys(finished, 1))
            self.assertEqual(len(runs), 50)

    def test_the_end_of_the_cluster_fails_no_job(self):
        with c.Cluster() as cluster:
            marks = os.path.join(cluster.folder, "marks")
            go = os.path.join(cluster.folder, "go")
            command = f"echo x >> {marks}; while [ ! -e {go} ]; do sleep 0.1; done"
            cluster.basalt("run", "--detach", "-f", "-", text=c.job_manifest("long", command, replicas=2, restart="Never"))
            c.wait_for("two processes", lambda: len(lines_of(marks)) == 2)
            cluster.stop()
            cluster.start()
            c.wait_for("two new processes", lambda: len(lines_of(marks)) == 4)
            pathlib.Path(go).touch()
            c.wait_for("the end", lambda: cluster.job("long")["status"]["state"]["phase"] == "Completed")

    def test_in_the_background(self):
        with tempfile.TemporaryDirectory(prefix="basalt-detach-") as folder:
            def basalt(*arguments):
                return subprocess.run([c.BINARY, *arguments, "--data-dir", folder], capture_output=True, text=True, check=False,
                                      timeout=60)
            self.assertEqual(basalt("status").returncode, 1)
            up = basalt("up", "--detach")
            self.assertEqual(up.returncode, 0, up.stderr)
            self.assertIn("ready at", up.stdout)
            try:
                second = basalt("up", "--detach")
                self.assertEqual(second.returncode, 1)
                self.assertIn("already running as process", second.stderr)
                status = basalt("status", "-o", "json")
                self.assertEqual(status.returncode, 0, status.stdout + status.stderr)
                self.assertTrue(json.loads(status.stdout)["running"])
            finally:
                down = basalt("down")
            self.assertEqual(down.returncode, 0, down.stderr)
            self.assertEqual(basalt("status").returncode, 1)
            self.assertIn("No cluster runs", basalt("down").stdout)

    def test_wrong_flags_name_the_flag(self):
        for arguments, fragment in ((("--nodes", "-1"), "--nodes"), (("--port", "99999"), "--port"),
                                    (("--node-capacity", "cpu"), "NAME=QUANTITY"), (("--durabilty", "full"), "--durability")):
            with self.subTest(arguments):
                done = subprocess.run([c.BINARY, "up", *arguments], capture_output=True, text=True, check=False, timeout=60)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(fragment, done.stderr)


if __name__ == "__main__":
    unittest.main()
