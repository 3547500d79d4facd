# SPDX-License-Identifier: MIT
"""Servers on Stook under load, for check-look.py and check-leaks.py."""
import glob
import os
import pathlib
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
WEB = """
import http.server, json
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    served = 0
    kept = {}
    def do_GET(self):
        Handler.served += self.path != "/count"
        if self.path == "/count":
            body = str(Handler.served).encode()
        else:
            rows = [{"id": i, "name": "row %d" % i, "tags": [str(i * k) for k in range(5)]} for i in range(40)]
            Handler.kept[Handler.served % 2000] = rows
            body = json.dumps(rows).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *arguments):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""
CLIENT = """
import http.client, sys
link = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
while True:
    link.request("GET", "/rows")
    link.getresponse().read()
"""


class Missing(Exception):
    pass


def need(*names):
    for name in names:
        if not (shutil.which(name) or glob.glob(f"/usr/lib/postgresql/*/bin/{name}")):
            raise Missing(name)
    return [shutil.which(name) or sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"))[-1] for name in names]


class Target:
    """A server on Stook and its load.  `pid` is the process that is looked into."""

    def __init__(self, stook, folder):
        self.on_stook = [stook, "run", "--"]
        self.folder = folder
        self.pid = 0
        self.running = []

    def start(self, words, **more):
        process = subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   **{"stdout": subprocess.DEVNULL, "cwd": self.folder, **more})
        self.running.append(process)
        return process

    def load(self):
        """Begins the load, which goes on."""

    def rest(self):
        """Ends the load."""
        while len(self.running) > 1:
            process = self.running.pop()
            process.kill()
            process.wait()

    def end(self):
        self.rest()
        for process in self.running:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait_for(what, fails):
    for _ in range(400):
        try:
            return what()
        except fails:
            time.sleep(0.05)
    return what()


class Redis(Target):
    name = "redis"

    def begin(self):
        server, self.benchmark = need("redis-server", "redis-benchmark")
        self.socket = f"{self.folder}/redis.socket"
        self.pid = self.start([*self.on_stook, server, "--port", "0", "--unixsocket", self.socket, "--save", "", "--dir", self.folder]).pid
        self.link = wait_for(self.connect, OSError)

    def connect(self):
        link = socket.socket(socket.AF_UNIX)
        link.connect(self.socket)
        return link

    def load(self):
        self.start([self.benchmark, "-s", self.socket, "-l", "-n", "200000", "-c", "20", "-r", "20000", "-d", "200", "-t", "set,get,lpush,lpop"])

    def requests(self):
        self.link.sendall(b"INFO stats\r\n")
        said = b""
        while b"total_commands_processed:" not in said or not said.endswith(b"\r\n"):
            said += self.link.recv(65536)
        return int(re.search(rb"total_commands_processed:(\d+)", said)[1])


class Postgres(Target):
    """The backend of one connection."""
    name = "postgresql"

    def begin(self):
        server, initdb, self.pgbench, self.psql = need("postgres", "initdb", "pgbench", "psql")
        self.user = []
        if os.getuid() == 0:  # it refuses to run as root
            user = pwd.getpwnam("nobody")
            os.chown(self.folder, user.pw_uid, user.pw_gid)
            self.user = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
        subprocess.run([*self.user, initdb, "-D", f"{self.folder}/data", "-A", "trust", "-U", "look", "-N"], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, cwd=self.folder)
        self.start([*self.user, *self.on_stook, server, "-D", f"{self.folder}/data", "-k", self.folder, "-c", "listen_addresses=", "-c", "fsync=off",
                    "-c", "autovacuum=off"])
        self.client = ["-h", self.folder, "-U", "look"]
        wait_for(lambda: subprocess.run([self.pgbench, *self.client, "-i", "-q", "postgres"], check=True, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL), subprocess.CalledProcessError)
        self.asks = subprocess.Popen([self.psql, *self.client, "-qAt", "postgres"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, query):
        self.asks.stdin.write(query + ";\n")
        self.asks.stdin.flush()
        return int(self.asks.stdout.readline())

    def load(self):
        self.start([self.pgbench, *self.client, "-n", "-c", "1", "-T", "100000", "postgres"])
        find = "select coalesce(max(pid), 0) from pg_stat_activity where application_name = 'pgbench'"
        while self.pid == 0 or self.pid != self.ask(find):  # it has a connection for its preparations first
            self.pid = self.ask(find)
            time.sleep(1)

    def requests(self):
        return self.ask("select txid_snapshot_xmax(txid_current_snapshot())")

    def rest(self):
        """pgbench stops, its connection stays."""
        if len(self.running) > 1:
            self.running[-1].send_signal(signal.SIGSTOP)
            time.sleep(0.5)

    def end(self):
        self.asks.stdin.close()
        self.asks.wait()
        while len(self.running) > 1:
            process = self.running.pop()
            process.kill()
            process.wait()
        self.running[0].send_signal(signal.SIGINT)
        self.running[0].wait(60)


class Python(Target):
    name = "python"
    web = WEB

    def begin(self):
        process = self.start([*self.on_stook, sys.executable, "-c", self.web], stdout=subprocess.PIPE, text=True)
        self.pid, self.port = process.pid, process.stdout.readline().strip()

    def load(self):
        for _ in range(2):
            self.start([sys.executable, "-c", CLIENT, self.port])

    def requests(self):
        with socket.create_connection(("127.0.0.1", int(self.port))) as link:
            link.sendall(b"GET /count HTTP/1.1\r\nConnection: close\r\n\r\n")
            said = b""
            while more := link.recv(65536):
                said += more
        return int(said.split(b"\r\n\r\n")[1])


class Example(Target):
    """examples/tenants: three threads, accounted caches, call sites."""
    name = "example"

    def begin(self):
        self.program = ROOT / "examples/tenants.c"

    def run(self, build, requests):
        return subprocess.Popen([f"{build}/examples/tenants", str(requests)], stdout=subprocess.DEVNULL, start_new_session=True)
