#!/usr/bin/env python3
"""A metadata service shaped like Amoro's, for tests: what it answers depends on the table's name. Port 0, one thread a call.

    with amoro.Server() as server: ... server.url, server.calls["catalog.db.table"]
"""
import base64
import collections
import datetime
import hashlib
import http.server
import json
import socket
import struct
import sys
import threading
import time
import urllib.parse

ICEBERG = "/api/iceberg/rest/v1/catalogs/"
DASHBOARD = "/api/ams/v1/tables/catalogs/"
CATALOG = "/iceberg/v1/"  # any Iceberg REST catalog; its tables are under the prefix that its configuration names
BIG_BYTES = 50 << 20


def not_found(kind):
    return 404, {"error": {"message": "Table does not exist", "type": kind, "code": 404}}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        owner = self.server.owner
        url = urllib.parse.urlsplit(self.path)
        with owner.lock:
            owner.requests.append((self.path, dict(self.headers)))
        if url.path == "/api/ams/v1/health/status":
            return self.answer(200, {"message": "success", "code": 200, "result": {"ams_ha_state": "LEADER"}})
        if url.path.startswith(ICEBERG):
            parts = [urllib.parse.unquote(part) for part in url.path[len(ICEBERG):].split("/")]
            if len(parts) == 5 and parts[1] == "namespaces" and parts[3] == "tables":
                return self.table(parts[0], parts[2], parts[4])
        if url.path.startswith(CATALOG):
            return self.catalog(url)
        if url.path.startswith(DASHBOARD):
            parts = [urllib.parse.unquote(part) for part in url.path[len(DASHBOARD):].split("/")]
            if len(parts) == 6 and (parts[1], parts[3], parts[5]) == ("dbs", "tables", "details"):
                return self.details(parts[4], urllib.parse.parse_qs(url.query))
        return self.page(404, "<html>no such page</html>")

    def catalog(self, url):
        owner = self.server.owner
        if self.headers.get("Authorization") != f"Bearer {owner.token}":
            return self.answer(401, {"error": {"message": "no", "type": "NotAuthorizedException", "code": 401}})
        if url.path == CATALOG + "config":
            warehouse = urllib.parse.parse_qs(url.query).get("warehouse", [""])[0]
            return self.answer(200, {"defaults": {"prefix": "wrong"}, "overrides": {"prefix": f"catalogs/{warehouse}"}})
        parts = [urllib.parse.unquote(part) for part in url.path[len(CATALOG):].split("/")]
        if len(parts) == 6 and (parts[0], parts[2], parts[4]) == ("catalogs", "namespaces", "tables"):
            return self.table(parts[1], parts[3].replace("\x1f", "."), parts[5])
        return self.page(404, "<html>no such page</html>")

    def table(self, catalog, database, table):
        owner = self.server.owner
        with owner.lock:
            owner.calls[f"{catalog}.{database}.{table}"] += 1
            seen = owner.calls[f"{catalog}.{database}.{table}"]
        good = {"metadata-location": f"s3://warehouse/{table}/metadata/1.json", "config": {},
                "metadata": {"format-version": 2, "location": owner.locations.get(table, f"s3://warehouse/{table}")}}
        simple = {
            "missing": not_found("NoSuchTableException"), "nodatabase": not_found("NoSuchNamespaceException"),
            "denied": (401, {"error": {"message": "no", "type": "NotAuthorizedException", "code": 401}}),
            "forbidden": (403, {"error": {"message": "no", "type": "ForbiddenException", "code": 403}}),
            "external": (400, {"error": {"message": "not internal", "type": "IllegalArgumentException", "code": 400}}),
            "external2": (400, {"error": {"message": "not internal", "type": "IllegalArgumentException", "code": 400}}),
            "refused": (400, {"error": {"message": "not internal", "type": "IllegalArgumentException", "code": 400}}),
            "nolocation": (200, {"metadata": {"format-version": 2}}),
            "wrongtype": (200, {"metadata": {"location": 7}}),
            "unmapped": (200, {"metadata": {"location": "s3://elsewhere/secret-path/t"}}),
            "busy": (503, {"error": {"message": "busy", "type": "ServiceUnavailableException", "code": 503}}),
        }
        if table in simple:
            return self.answer(*simple[table])
        if table == "flaky" and seen <= 2:
            return self.answer(503, {})
        if table == "limited" and seen == 1:
            owner.limited_at = time.monotonic()
            return self.answer(429, {}, {"Retry-After": "1"})
        if table == "limited":
            owner.limited_for = time.monotonic() - owner.limited_at
        special = {"proxy404": lambda: self.page(404, "<html>not found</html>"), "html": lambda: self.page(200, "<html>hello</html>"),
                   "truncated": lambda: self.page(200, json.dumps(good)[:40], "application/json"),
                   "redirect": lambda: self.page(302, "", headers={"Location": "http://198.51.100.1/steal"}),
                   "slow": self.be_slow, "endless": self.never_end, "reset": self.reset, "half": self.break_off,
                   "big": lambda: self.big(good)}
        return special.get(table, lambda: self.answer(200, good))()

    def details(self, table, query):
        """Dashboard answers are HTTP 200 with a code inside; the credentials count, in one of three forms."""
        owner = self.server.owner
        today = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%d")
        signature = hashlib.md5((owner.api_key + today + owner.secret).encode()).hexdigest()
        header = self.headers.get("Authorization")
        accepted = {
            "token": query.get("apiKey") == [owner.api_key] and query.get("signature") == [signature],
            "basic": header == "Basic " + base64.b64encode(f"{owner.api_key}:{owner.secret}".encode()).decode(),
            "jwt": header == f"Bearer {owner.token}"}
        if not accepted[owner.auth]:
            return self.answer(200, {"message": "signature", "code": 403, "requestId": "1"})
        if table == "refused":
            return self.answer(200, {"message": "signature", "code": 403, "requestId": "1"})
        if table == "external2":
            return self.answer(200, {"message": "no such table", "code": 500, "requestId": "1"})
        return self.answer(200, {"message": "success", "code": 200, "result": {"baseLocation": f"s3://warehouse/{table}"}})

    def answer(self, status, body, headers=None):
        self.page(status, json.dumps(body), "application/json", headers)

    def page(self, status, text, kind="text/html", headers=None):
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(data)

    def be_slow(self):
        self.server.owner.ended.wait(30)
        self.close_connection = True

    def never_end(self):
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        self.wfile.write(b'{"metadata":{"snapshots":["')
        try:
            while not self.server.owner.ended.is_set():
                self.wfile.write(b"x" * (1 << 20))
        except OSError:
            pass

    def reset(self):
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()

    def break_off(self):
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b'{"metadata":')
        self.close_connection = True

    def big(self, good):
        """All snapshots of a large table, the location at the very end."""
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        head = b'{"metadata":{"snapshots":["'
        tail = b'"],"location":' + json.dumps(good["metadata"]["location"]).encode() + b"}}"
        self.send_header("Content-Length", str(len(head) + BIG_BYTES + len(tail)))
        self.end_headers()
        self.wfile.write(head)
        for _ in range(BIG_BYTES >> 20):
            self.wfile.write(b"s" * (1 << 20))
        self.wfile.write(tail)


class QuietServer(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """Clients that break off are part of the test."""


class Server:
    def __init__(self, api_key="key-4711", secret="hush-hush-4712", token="token-4713"):
        self.api_key, self.secret, self.token = api_key, secret, token
        self.auth = "token"  # of the dashboard: token (a signature), basic, jwt
        self.calls = collections.Counter()
        self.requests = []
        self.locations = {}  # table -> where it lies now
        self.limited_at = self.limited_for = 0
        self.lock = threading.Lock()
        self.ended = threading.Event()
        self.http = QuietServer(("127.0.0.1", 0), Handler)
        self.http.owner = self
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"

    def __enter__(self):
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.http.shutdown()
        self.http.server_close()


def main():
    """As a process: prints its address, then a number for every line `calls TABLE` or `limited`; ends with its input."""
    with Server() as server:
        print(server.url, flush=True)
        for line in sys.stdin:
            question, _, name = line.rstrip("\n").partition(" ")
            print(server.calls[name] if question == "calls" else int(server.limited_for * 1000), flush=True)


if __name__ == "__main__":
    main()
