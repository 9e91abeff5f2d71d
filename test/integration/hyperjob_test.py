#!/usr/bin/env python3
"""`basalt up --clusters 3`: a hyper job is split over member clusters and followed to its end."""
import json
import os
import pathlib
import subprocess
import unittest

import cluster as c

EXAMPLE = str(pathlib.Path(c.ROOT) / "examples" / "hyperjob.yaml")


class HyperJobTest(unittest.TestCase):
    def test_split_progress_and_result(self):
        with c.Cluster("--clusters", "3") as cluster:
            done = cluster.basalt("run", "-f", EXAMPLE, timeout=200)
            last = done.stdout.strip().splitlines()[-1]
            self.assertTrue(last.startswith("hyperjob default/hello Completed"), done.stdout)
            self.assertIn("hello-evaluator-0@member3 Completed", last)
            listed = json.loads(cluster.basalt("hyperjob", "list", "-o", "json").stdout)["items"]
            self.assertEqual(listed[0]["status"]["splitCount"], 3)
            # The pods ran in the members, and the one that names a cluster ran there.
            member = os.path.join(cluster.data, "member3", "kubeconfig")
            jobs = subprocess.run([c.BINARY, "job", "list", "-o", "name", "--kubeconfig", member], capture_output=True, text=True,
                                  check=True, timeout=60).stdout
            self.assertIn("hello-evaluator-0", jobs)


if __name__ == "__main__":
    unittest.main()
