#!/usr/bin/env python3
"""Clients read, write and watch the same few objects at the same time, over HTTPS, while the server is killed (SIGKILL) and
started again. Their history must be linearizable (history_checker.py). With --real: against a real kube-apiserver, without
kills, which shows that the checker accepts what a right server does."""
import http.client
import json
import pathlib
import random
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import api_script
import clusters
from history_checker import NEVER, History, Listing, Operation, WatchEvent, WatchSegment, check

CLIENTS = 6
KEYS = [f"object-{i}" for i in range(4)]
OPERATIONS = 600  # of each client
KILLS = 3
PATH = "/api/v1/namespaces/default/configmaps"
LABEL = {"app": "history"}
SELECTOR = "labelSelector=app%3Dhistory"


class Connection:
    """One kept connection; made anew after a failure."""

    def __init__(self, server):
        self.server = server
        self.connection = None

    def call(self, method, path, body=None, timeout=10):
        """(code, object); raises OSError or HTTPException when no whole answer came."""
        if self.connection is None:
            self.connection = http.client.HTTPSConnection(self.server.url.hostname, self.server.url.port,
                                                          context=self.server.context, timeout=timeout)
        try:
            self.connection.request(method, path, json.dumps(body) if body is not None else None,
                                    {"Content-Type": "application/json"})
            response = self.connection.getresponse()
            return response.status, json.loads(response.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.close()
            raise OSError(str(error)) from error

    def close(self):
        if self.connection is not None:
            self.connection.close()
        self.connection = None


class Client(threading.Thread):
    """Draws operations, carries them out one after the other, and notes what came of them."""

    def __init__(self, number, server, seed):
        super().__init__(name=f"client-{number}")
        self.number = number
        self.random = random.Random(seed)
        self.connection = Connection(server)
        self.operations, self.listings = [], []
        self.seen = {}  # key -> the version that this client saw last
        self.failure = None
        self.count = 0

    def run(self):
        try:
            for self.count in range(1, OPERATIONS + 1):
                self.step()
        except Exception as error:  # shown by the main thread
            self.failure = error
            raise
        finally:
            self.connection.close()

    def step(self):
        key = self.random.choice(KEYS)
        draw = self.random.random()
        if draw < 0.05:
            self.list()
        elif draw < 0.40:
            self.carry_out("get", key)
        elif draw < 0.55:
            self.carry_out("create", key)
        elif draw < 0.65 and key in self.seen:
            self.carry_out("delete", key)
        elif key in self.seen:
            self.carry_out("update", key)
        else:
            self.carry_out("get", key)

    def request_of(self, kind, key, value, expected):
        body = {"metadata": {"name": key, "labels": LABEL}, "data": {"v": value}}
        if kind == "get":
            return "GET", f"{PATH}/{key}", None
        if kind == "create":
            return "POST", PATH, body
        if kind == "delete":
            return "DELETE", f"{PATH}/{key}", {"preconditions": {"resourceVersion": str(expected)}}
        body["metadata"]["resourceVersion"] = str(expected)
        return "PUT", f"{PATH}/{key}", body

    def carry_out(self, kind, key):
        value = f"{self.number}-{self.count}" if kind in ("create", "update") else None
        expected = self.seen.get(key) if kind in ("update", "delete") else None
        op = Operation(kind, key, time.monotonic(), NEVER, "unknown", value, expected)
        try:
            code, answer = self.connection.call(*self.request_of(kind, key, value, expected))
        except OSError:
            if kind != "get":
                self.operations.append(op)
            time.sleep(0.02)  # the server is away; the pace only, nothing depends on it
            return
        op.end = time.monotonic()
        self.note(op, code, answer)
        self.operations.append(op)

    def note(self, op, code, answer):
        if code in (200, 201):
            op.outcome = "ok"
            if op.kind == "delete":
                op.outcome = "deleted"
                self.seen.pop(op.key, None)
                return
            op.revision = int(answer["metadata"]["resourceVersion"])
            if op.kind == "get":
                op.value = answer["data"]["v"]
            self.seen[op.key] = op.revision
        elif code == 404:
            op.outcome = "missing"
            self.seen.pop(op.key, None)
        elif code == 409:
            op.outcome = "exists" if answer.get("reason") == "AlreadyExists" else "conflict"
            self.seen.pop(op.key, None)
        else:
            raise AssertionError(f"{op.kind} {op.key}: {code} {answer}")

    def list(self):
        start = time.monotonic()
        try:
            code, answer = self.connection.call("GET", f"{PATH}?{SELECTOR}")
        except OSError:
            time.sleep(0.02)
            return
        assert code == 200, answer
        self.listings.append(Listing(start, time.monotonic(), int(answer["metadata"]["resourceVersion"]),
                                     {item["metadata"]["name"]: (int(item["metadata"]["resourceVersion"]), item["data"]["v"])
                                      for item in answer["items"]}))


class Observer(threading.Thread):
    """Watches from a list on; each unbroken watch is a segment. After a break it goes on where it was, or lists anew."""

    def __init__(self, server):
        super().__init__(name="observer")
        self.server = server
        self.segments, self.listings = [], []
        self.done = threading.Event()
        self.failure = None

    def run(self):
        after = None
        try:
            while not self.done.is_set():
                try:
                    if after is None:
                        after = self.list()
                    after = self.watch(after)
                except (OSError, http.client.HTTPException, ValueError):
                    time.sleep(0.02)
        except Exception as error:
            self.failure = error
            raise

    def list(self):
        start = time.monotonic()
        code, answer = Connection(self.server).call("GET", f"{PATH}?{SELECTOR}")
        if code != 200:
            raise OSError(answer)
        revision = int(answer["metadata"]["resourceVersion"])
        self.listings.append(Listing(start, time.monotonic(), revision,
                                     {item["metadata"]["name"]: (int(item["metadata"]["resourceVersion"]), item["data"]["v"])
                                      for item in answer["items"]}))
        return revision

    def watch(self, after):
        connection = http.client.HTTPSConnection(self.server.url.hostname, self.server.url.port, context=self.server.context,
                                                 timeout=30)
        segment = WatchSegment(after, after, [])
        try:
            connection.request("GET", f"{PATH}?watch=1&resourceVersion={after}&{SELECTOR}&timeoutSeconds=2")
            response = connection.getresponse()
            if response.status == 410:
                return None
            if response.status != 200:
                raise OSError(response.status)
            for line in response:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return None
                meta = event["object"]["metadata"]
                segment.events.append(WatchEvent(event["type"], meta["name"], int(meta["resourceVersion"]),
                                                 event["object"]["data"]["v"]))
                segment.until = segment.events[-1].revision
        finally:
            connection.close()
            if segment.events:
                self.segments.append(segment)
        return segment.until


def run_clients(server, kill=None):
    observer = Observer(server)
    observer.start()
    clients = [Client(i, server, seed=1000 + i) for i in range(CLIENTS)]
    for client in clients:
        client.start()
    if kill:
        kill(clients)
    for client in clients:
        client.join()
    observer.done.set()
    observer.join()
    for thread in [*clients, observer]:
        assert thread.failure is None, thread.failure
    history = History([op for client in clients for op in client.operations],
                      observer.listings + [each for client in clients for each in client.listings], observer.segments)
    # The end is known to all: what is there must be the sum of the history.
    observer.listings.clear()
    observer.list()
    history.listings += observer.listings
    return history


def kill_now_and_then(cluster, restarted):
    rng = random.Random(7)
    total = CLIENTS * OPERATIONS

    def kill(clients):
        for number in range(1, KILLS + 1):
            target = total * number // (KILLS + 1) + rng.randint(0, total // 20)
            while sum(client.count for client in clients) < target and any(client.is_alive() for client in clients):
                time.sleep(0.002)
            cluster.kill()
            cluster.start()
            restarted.append(number)
    return kill


def report(history, what):
    violations = check(history)
    for violation in violations[:20]:
        print("violation:", violation)
    outcomes = {}
    for op in history.operations:
        outcomes[op.outcome] = outcomes.get(op.outcome, 0) + 1
    events = sum(len(segment.events) for segment in history.watches)
    print(f"linearizability, {what}: {len(history.operations)} operations {outcomes}, {len(history.listings)} lists, "
          f"{events} events in {len(history.watches)} watches: {len(violations)} violations")
    assert outcomes.get("ok", 0) > CLIENTS * OPERATIONS // 4 and events > OPERATIONS // 4, "too little happened to judge"
    return not violations


def main():
    if "--real" in sys.argv:
        with clusters.real_kube() as kubeconfig:
            passed = report(run_clients(api_script.Server("kube", kubeconfig)), "a real kube-apiserver")
    else:
        with tempfile.TemporaryDirectory(prefix="basalt-history-") as folder:
            cluster = clusters.Basalt(folder, "--durability", "full").start()
            server = api_script.Server("basalt", cluster.kubeconfig)
            restarted = []
            try:
                passed = report(run_clients(server, kill_now_and_then(cluster, restarted)), f"{KILLS} kills")
            finally:
                cluster.stop()
            assert len(restarted) == KILLS
    print("1 passed, 0 failed" if passed else "0 passed, 1 failed")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
