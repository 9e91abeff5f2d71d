#!/usr/bin/env python3
"""Every file of examples/ by the real program: its outcome, what it prints, and how long it may take."""
import pathlib
import subprocess
import tempfile
import unittest

import cluster as c

EXAMPLES = c.ROOT / "examples"

# name -> exit code of `basalt run`, what must be in its output
EXPECTED = {
    "hello-gang": (0, ["worker-0 | hello from worker 0", "hello-gang Completed"]),
    "server-worker": (0, ["the sum of all numbers is 111", "which said thanks"]),
    "ring": (0, ["rank 0 has the token after 8 hops"]),
    "sweep": (0, ["rate 25: loss 75", "sweep Completed"]),
    "restart-on-failure": (0, ["worker-0 | attempt 1", "Restarting", "restart-on-failure Completed"]),
    "abort-on-failure": (4, ["something is wrong", "abort-on-failure Aborted"]),
    "complete-on-master-exit": (0, ["the model is ready", "complete-on-master-exit Completed"]),
    "depends-on": (0, ["all tasks were ready before this one", "depends-on Completed"]),
    "fair-share": (0, ["vision-2 Completed", "speech-1 Completed"]),
    "priorities": (0, ["patient-1 Completed", "urgent Completed"]),
}
# Run elsewhere: they need more than one cluster, or are no jobs to follow.
ELSEWHERE = {"jobflow", "cronjob", "hyperjob", "hyper-job", "data-follow", "data-moved"}


class ExamplesTest(unittest.TestCase):
    def test_each_example_is_expected_somewhere(self):
        names = {path.stem for path in EXAMPLES.glob("*.yaml")}
        self.assertEqual(names - ELSEWHERE, set(EXPECTED))

    def test_every_example_runs(self):
        with c.Cluster("--nodes", "2") as cluster:
            for name, (exit_code, texts) in EXPECTED.items():
                with self.subTest(name):
                    done = cluster.basalt("run", "-f", str(EXAMPLES / f"{name}.yaml"), "--timeout", "100s", check=False)
                    report = f"{name}:\n{done.stdout}\n{done.stderr}"
                    self.assertEqual(done.returncode, exit_code, report)
                    for text in texts:
                        self.assertIn(text, done.stdout, report)
            urgent, patient = (cluster.job(name)["status"]["conditions"] for name in ("urgent", "patient-1"))

            def ended(conditions):
                return next(one["lastTransitionTime"] for one in conditions if one["status"] == "Completed")
            self.assertLessEqual(ended(urgent), ended(patient), "the urgent job goes ahead")

    def test_a_flow_runs_its_jobs_in_order(self):
        with c.Cluster("--nodes", "1") as cluster:
            cluster.basalt("run", "-f", str(EXAMPLES / "jobflow.yaml"))
            c.wait_for("the flow to succeed", lambda: "Succeed" in cluster.basalt("jobflow", "list").stdout, timeout=100)
            ended = {job["metadata"]["name"]: job["status"]["state"] for job in cluster.jobs()}
            self.assertEqual(set(ended), {f"jobflow-{step}" for step in ("prepare", "train-small", "train-large", "evaluate")})
            self.assertEqual({state["phase"] for state in ended.values()}, {"Completed"})
            last = max(ended, key=lambda name: (ended[name]["lastTransitionTime"], name == "jobflow-evaluate"))
            self.assertEqual(last, "jobflow-evaluate")

    def test_a_cron_job_runs_its_jobs(self):
        with c.Cluster("--nodes", "1") as cluster:
            # A minute is long.
            often = pathlib.Path(cluster.folder) / "cronjob.yaml"
            text = (EXAMPLES / "cronjob.yaml").read_text()
            self.assertIn('"* * * * *"', text)
            often.write_text(text.replace('"* * * * *"', '"@every 1s"'))
            cluster.basalt("run", "-f", str(often))
            c.wait_for("a job to complete", lambda: any(
                job["metadata"]["name"].startswith("cronjob-") and job.get("status", {}).get("state", {}).get("phase") == "Completed"
                for job in cluster.jobs()), timeout=100)

    def test_without_a_cluster_run_starts_one(self):
        # No kubeconfig anywhere: an empty home, a folder of its own.
        with tempfile.TemporaryDirectory(prefix="basalt-run-") as folder:
            environment = {"PATH": "/usr/bin:/bin", "HOME": folder, "NO_COLOR": "1"}
            done = subprocess.run([str(pathlib.Path(c.BINARY).resolve()), "run", "-f", str(EXAMPLES / "hello-gang.yaml")],
                                  cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("Starting a cluster for this run", done.stderr)
            self.assertIn("hello-gang Completed", done.stdout)


if __name__ == "__main__":
    unittest.main()
