#!/usr/bin/env python3
"""Kills the server (SIGKILL) while 10,000 writes go on, starts it again, and checks that every acknowledged write is there."""
import concurrent.futures
import http.client
import json
import pathlib
import random
import sys
import tempfile
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import api_script
import clusters

WRITES = 10_000
WRITERS = 16
KILLS = 3


class Writer:
    """Creates objects over one kept connection and remembers those that the server acknowledged."""

    def __init__(self, server, first, last):
        self.server = server
        self.names = [f"w{i}" for i in range(first, last)]
        self.acknowledged = {}

    def run(self, stop):
        connection = None
        while self.names and not stop.is_set():
            name = self.names[-1]
            try:
                if connection is None:
                    connection = http.client.HTTPSConnection(self.server.url.hostname, self.server.url.port,
                                                             context=self.server.context, timeout=10)
                connection.request("POST", "/api/v1/namespaces/default/configmaps",
                                   json.dumps({"metadata": {"name": name}, "data": {"v": name}}),
                                   {"Content-Type": "application/json"})
                response = connection.getresponse()
                body = json.loads(response.read())
            except (OSError, http.client.HTTPException, ValueError):
                # The write may or may not have happened: it is not tried again, so that a 409 cannot hide a loss.
                self.names.pop()
                connection = None
                return
            assert response.status == 201, body
            self.acknowledged[name] = body["metadata"]["resourceVersion"]
            self.names.pop()


def main():
    rng = random.Random(7)
    acknowledged = {}
    newest = 0
    with tempfile.TemporaryDirectory(prefix="basalt-crash-") as folder:
        cluster = clusters.Basalt(folder, "--durability", "full").start()
        server = api_script.Server("basalt", cluster.kubeconfig)
        share = WRITES // WRITERS
        writers = [Writer(server, i * share, (i + 1) * share) for i in range(WRITERS)]
        for round_number in range(KILLS + 1):
            stop = threading.Event()
            target = sum(len(w.acknowledged) for w in writers) + rng.randint(WRITES // 20, WRITES // (KILLS + 2))
            with concurrent.futures.ThreadPoolExecutor(WRITERS) as pool:
                running = [pool.submit(writer.run, stop) for writer in writers]
                if round_number < KILLS:
                    while sum(len(w.acknowledged) for w in writers) < target and not all(f.done() for f in running):
                        concurrent.futures.wait(running, timeout=0.01, return_when=concurrent.futures.FIRST_COMPLETED)
                    cluster.kill()
                for future in running:
                    future.result()
            if round_number < KILLS:
                cluster = clusters.Basalt(folder, "--durability", "full").start()
            for writer in writers:
                acknowledged.update(writer.acknowledged)
            code, text = server.call("GET", "/api/v1/namespaces/default/configmaps", timeout=60)
            assert code == 200, text
            listing = json.loads(text)
            found = {item["metadata"]["name"]: item for item in listing["items"]}
            for name, version in acknowledged.items():
                assert name in found, f"the acknowledged write of {name} is lost"
                assert found[name]["metadata"]["resourceVersion"] == version, f"{name} has another version"
                assert found[name]["data"]["v"] == name
            revision = int(listing["metadata"]["resourceVersion"])
            assert revision >= newest and revision >= max(map(int, acknowledged.values()))
            newest = revision
        assert cluster.stop() == 0
    print(f"crash: {len(acknowledged)} acknowledged writes through {KILLS} kills, none lost")
    assert len(acknowledged) > WRITES // 2
    print("1 passed, 0 failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
