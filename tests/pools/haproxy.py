# SPDX-License-Identifier: MIT
"""HAProxy under load on the loopback, for check.py and compare.py: an origin, the proxy, and h2load as the client."""
import contextlib
import os
import pathlib
import random
import re
import resource
import signal
import socket
import subprocess
import time

ORIGIN = """
global
  nbthread 1
  maxconn 8000
defaults
  mode http
  timeout client 60s
  timeout http-keep-alive 60s
frontend origin
  bind 127.0.0.1:{origin}
  http-request return status 200 content-type text/plain file {folder}/body
"""
PROXY = """
global
  nbthread 2
  maxconn 8000
  stats socket {folder}/control level admin
  {globals}
defaults
  mode http
  timeout connect 10s
  timeout client 60s
  timeout server 60s
  timeout queue 60s
  default_backend origin
frontend keep
  bind 127.0.0.1:{keep}
frontend close
  bind 127.0.0.1:{close}
  option httpclose
frontend h2
  bind 127.0.0.1:{h2} proto h2
backend origin
  http-reuse always
  server one 127.0.0.1:{origin}
"""
PORTS = ("origin", "keep", "close", "h2")


class Wrong(Exception):
    """What a server did that it must not do."""


def free_ports(n):
    """Below those that the kernel gives to clients, which would take one meanwhile."""
    ports = set()
    while len(ports) < n:
        port = random.randrange(10000, 30000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            ports.add(port)
    return list(ports)


def wait_for(what, condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise Wrong(f"{what}: not after {seconds} s")
        time.sleep(0.05)


class Proxy:
    """An origin, and the proxy `program` in front of it."""

    def __init__(self, programs, program, folder, words=(), globals_="", environment=(), master=False):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True)
        self.folder.chmod(0o755)
        (self.folder / "body").write_bytes(b"0123456789abcdef" * 64)
        self.ports = dict(zip(PORTS, free_ports(len(PORTS))))
        self.errors = self.folder / "stderr"
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536), hard))
        self.origin = self.start(programs / "haproxy-own", ORIGIN, "origin", ["-db"], {}, "")
        mode = ["-W"] if master else ["-db"]
        self.process = self.start(programs / program, PROXY, "proxy", [*mode, *words], dict(environment), globals_)
        try:
            wait_for("the proxy serves", self.serves)
        except Wrong:
            self.end()
            raise

    def start(self, program, text, name, words, environment, globals_):
        path = self.folder / f"{name}.cfg"
        path.write_text(text.format(folder=self.folder, globals=globals_, **self.ports))
        with open(self.errors if name == "proxy" else os.devnull, "w", encoding="utf-8") as errors:
            return subprocess.Popen([program, "-f", path, *words], stdin=subprocess.DEVNULL, stdout=errors, stderr=errors,
                                    env=os.environ | environment)

    def serves(self):
        for process in (self.process, self.origin):
            if process.poll() is not None:
                raise Wrong(f"{process.args[0].name} ended with {process.returncode}: {self.said()}")
        try:
            with socket.create_connection(("127.0.0.1", self.ports["close"]), 5) as link:
                link.sendall(b"GET / HTTP/1.0\r\n\r\n")
                said = b""
                while more := link.recv(65536):
                    said += more
        except OSError:
            return False
        return said.endswith((self.folder / "body").read_bytes())

    def said(self):
        return self.errors.read_text(encoding="utf-8", errors="replace")

    def command(self, words):
        """An answer of the control socket; the proxy may refuse it where allocations fail."""
        for _ in range(50):
            try:
                with socket.socket(socket.AF_UNIX) as link:
                    link.connect(str(self.folder / "control"))
                    link.sendall(words.encode() + b"\n")
                    said = b""
                    while more := link.recv(65536):
                        said += more
            except OSError:
                said = b""
            if said:
                return said.decode()
            time.sleep(0.1)
        raise Wrong(f"the control socket does not answer {words}")

    def pools(self):
        """{name: objects in use}, as the port shows them."""
        return {name: int(used) for name, used in re.findall(r"^(\w\S*) +\d+ +(\d+) +\d+ ", self.command("show pools"), re.M)}

    def load(self, port, requests, connections, *words):
        """Starts a client."""
        words = [*words] if port == "h2" else ["--h1", *words]
        return subprocess.Popen(["h2load", "-n", str(requests), "-c", str(connections), *words,
                                 f"http://127.0.0.1:{self.ports[port]}/"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True)

    def end(self):
        for process in (self.process, self.origin):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in (self.process, self.origin):
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        return self.process.returncode


def answered(client):
    """How many requests were answered with 2xx."""
    said = client.communicate(timeout=600)[0]
    found = re.search(r"status codes: (\d+) 2xx", said)
    if not found:
        raise Wrong(f"h2load: {said[-500:]}")
    return int(found[1])
