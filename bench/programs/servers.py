# SPDX-License-Identifier: MIT
"""Servers: started with a malloc, loaded, and stopped. What is measured is the server; who loads it runs without."""
import json
import os
import pathlib
import pwd
import re
import shutil
import signal
import socket
import subprocess
import time

import catalogue
import measure
import server

LOAD = str(measure.LIBEXEC / "stook-bench-load")


class Bench(server.Server):
    """One that this machine may have, and our program that loads it."""
    package = what = ""
    needs = ()
    connections = 40

    @classmethod
    def missing(cls):
        for need in cls.needs:
            if not catalogue.find(need):
                return f"{need} not found (Debian: {cls.package})"
        return None

    def load_by_protocol(self, protocol, address, requests, *more):
        done = subprocess.run([LOAD, protocol, str(address), str(self.connections), str(requests), *more],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
                              timeout=120)
        if done.returncode != 0:
            raise measure.Failed(done.stderr.strip())
        figures = json.loads(done.stdout)
        if figures.pop("failed"):
            raise measure.Failed("requests failed")
        figures.pop("requests")
        return figures


class Redis(Bench):
    name, package, needs = "redis", "redis-server", ("redis-server",)
    what = "strings, lists and hashes by 40 connections"

    def words(self):
        return [catalogue.find("redis-server"), "--port", "0", "--unixsocket", self.folder / "redis.socket",
                "--save", "", "--appendonly", "no", "--dir", self.folder]

    def ready(self):
        return server.can_connect(self.folder / "redis.socket")

    def load(self, size):
        return self.load_by_protocol("redis", self.folder / "redis.socket", max(1000, int(100000 * size)))


class Memcached(Bench):
    name, package, needs = "memcached", "memcached", ("memcached",)
    what = "sets and gets of log-uniform sizes by 40 connections"

    def words(self):
        user = ["-u", pwd.getpwuid(os.getuid()).pw_name] if os.getuid() == 0 else []
        return [catalogue.find("memcached"), "-s", self.folder / "memcached.socket", "-t", "2", "-m", "64", *user]

    def ready(self):
        return server.can_connect(self.folder / "memcached.socket")

    def load(self, size):
        return self.load_by_protocol("memcached", self.folder / "memcached.socket",
                                     max(1000, int(100000 * size)))


class Nginx(Bench):
    name, package, needs = "nginx", "nginx-light", ("nginx",)
    what = "a page of 20 KB by 40 connections that are kept"

    def __init__(self, folder):
        super().__init__(folder)
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            self.port = one.getsockname()[1]
        (folder / "page.txt").write_text("".join(f"line {i * 7919 % 10007}\n" for i in range(1600)), encoding="ascii")
        (folder / "nginx.conf").write_text(f"""
daemon off; worker_processes 2; pid {folder}/nginx.pid; error_log {folder}/error.log;
{'user root;' if os.getuid() == 0 else ''}
events {{ worker_connections 256; }}
http {{ access_log off; client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
  uwsgi_temp_path {folder}; scgi_temp_path {folder}; types {{ text/plain txt; }} keepalive_requests 1000000;
  server {{ listen 127.0.0.1:{self.port}; root {folder}; }} }}
""", encoding="ascii")

    def words(self):
        return [catalogue.find("nginx"), "-p", self.folder, "-c", self.folder / "nginx.conf"]

    def ready(self):
        return server.can_connect(("127.0.0.1", self.port))

    def load(self, size):
        return self.load_by_protocol("http", self.port, max(500, int(30000 * size)), "/page.txt")


class Postgres(Bench):
    name, package, needs = "postgresql", "postgresql", ("postgres", "initdb", "pgbench")
    what = "pgbench, 8 connections, in a database of its own"

    def __init__(self, folder):
        super().__init__(folder)
        self.user = None
        if os.getuid() == 0:  # it refuses to run as root
            self.user = pwd.getpwnam("nobody")
            os.chmod(folder.parent, 0o755)
            os.chown(folder, self.user.pw_uid, self.user.pw_gid)
        self.data = folder / "data"
        if not self.data.exists():
            self.as_user([catalogue.find("initdb"), "-D", self.data, "-A", "trust", "-U", "bench", "-N"])
            self.filled = False
        else:
            self.filled = True

    def setpriv(self):
        if not self.user:
            return []
        return [shutil.which("setpriv"), f"--reuid={self.user.pw_uid}", f"--regid={self.user.pw_gid}", "--clear-groups"]

    def as_user(self, words):
        subprocess.run([*self.setpriv(), *map(str, words)], check=True, cwd=self.folder, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)

    def words(self):
        return [*self.setpriv(), catalogue.find("postgres"), "-D", self.data, "-k", self.folder, "-c", "listen_addresses=",
                "-c", "fsync=off", "-c", "shared_buffers=32MB"]

    def ready(self):
        if not server.can_connect(self.folder / ".s.PGSQL.5432"):
            return False
        return subprocess.run(self.client("-i", "-s", "1", "-q") if not self.filled else
                              ["/bin/true"], check=False, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL).returncode == 0

    def client(self, *words):
        return [catalogue.find("pgbench"), "-h", str(self.folder), "-U", "bench", *words, "postgres"]

    def load(self, size):
        self.filled = True
        log = self.folder / "log"
        shutil.rmtree(log, ignore_errors=True)
        log.mkdir()
        each = max(20, int(1000 * size))
        done = subprocess.run(self.client("-n", "-c", "8", "-j", "1", "-t", str(each), "-l", f"--log-prefix={log}/l"),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False, timeout=120)
        rate = re.search(r"tps = ([0-9.]+) \(without", done.stdout)
        if done.returncode != 0 or not rate:
            raise measure.Failed(done.stderr.strip() or "pgbench failed")
        took = sorted(int(line.split()[2]) for path in log.iterdir() for line in path.read_text().splitlines())
        return {"requests_per_s": float(rate[1]),
                **{key: took[min(len(took) - 1, int(share * len(took)))]
                   for key, share in (("p50_us", .5), ("p99_us", .99), ("p999_us", .999))}}

    def end(self, how=signal.SIGINT):
        return super().end(how)


SERVERS = [Redis, Memcached, Nginx, Postgres]
