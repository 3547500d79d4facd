#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: tool
"""stook export and clients that mean ill: those that send nothing, half a request, a byte at a time, read no answer, or ask for the
dearest one keep nobody else from it; requests that are none; and names in Host that are not this exporter's."""
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading

STOOK = os.path.join(os.environ["STOOK_BUILD_DIR"], "bin/stook")
PROGRAM = os.path.join(os.environ["STOOK_TEST_DIR"], "prog_seen")
CROWD, SCRAPES, TRIES = 300, 5, 20  # more connections than the exporter keeps

target = subprocess.Popen([PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
assert target.stdout.readline() == "ready\n"


class Exporter:
    def __init__(self, *arguments, listen="127.0.0.1:0"):
        self.process = subprocess.Popen([STOOK, "export", "--listen", listen, "--pid", str(target.pid), *arguments],
                                        stdout=subprocess.PIPE, text=True)
        self.port = int(re.search(r":(\d+)/metrics\n$", self.process.stdout.readline())[1])

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)

    def ask(self, request):
        """The whole answer to these bytes."""
        with self.connect() as client:
            client.sendall(request)
            answer = b""
            while part := client.recv(65536):
                answer += part
        return answer

    def scrape(self):
        """The metrics; nothing, where this connection was the oldest one and made room."""
        try:
            return self.ask(GET % b"/metrics")
        except ConnectionError:
            return b""

    def status(self, request):
        answer = self.ask(request)
        assert answer.startswith(b"HTTP/1.1 "), (request, answer)
        return int(answer.split()[1])

    def host(self, name):
        return self.status(b"GET /metrics HTTP/1.1\r\nHost: " + name.encode() + b"\r\n\r\n")

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(100) == 0
        self.process.stdout.close()


# ---- what keeps others out ------------------------------------------------------------------------------
GET = b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n"
exporter = Exporter()
for name, first, more in (("nothing", b"", b""), ("half a request", b"GET /met", b""), ("byte by byte", b"GET /metrics HTTP/1.1\r\nX: ", b"x"),
                          ("no answer is read", GET % b"/metrics", b""), ("profiles", GET % b"/debug/pprof/heap?by=cache", b""),
                          ("a body without end", b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n", b"x" * 1000)):
    going, held, reopened = True, [], [0]

    def fill(first=first, more=more):
        """Holds CROWD connections; each that the exporter drops is opened again at once."""
        while going:
            while going and len(held) < CROWD:
                held.append(exporter.connect())
                held[-1].sendall(first)
                reopened[0] += 1
            for client in select.select(held, [], [], 0.01)[0] if not more else list(held):
                try:
                    if more:
                        client.send(more)
                    elif first.startswith(b"GET /m") and b"\r\n\r\n" in first:
                        continue  # its answer stays unread
                    elif client.recv(65536):
                        continue
                    else:
                        raise ConnectionError
                except OSError:
                    client.close()
                    held.remove(client)

    crowd = threading.Thread(target=fill, daemon=True)
    crowd.start()
    while reopened[0] < CROWD:
        pass
    for _ in range(SCRAPES):
        # From the crowd's own address, which opens hundreds while this thread waits for its turn, one may be the oldest.
        answer = next(filter(None, (exporter.scrape() for _ in range(TRIES))))
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n") and b"stook_export_processes 1\n" in answer, (name, answer[:300])
    assert exporter.process.poll() is None, name
    going = False
    crowd.join()
    for client in held:
        client.close()
    print(f"{name}: answered beside {reopened[0]} connections")

# ---- requests that are none -----------------------------------------------------------------------------
for request, status in ((b"GET /metrics HTTP/1.1\r\n\r\n", 400), (b"GET /metrics HTTP/1.0\r\n\r\n", 200), (b"\r\n" + GET % b"/metrics", 200),
                        (b"GET http://localhost/metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
                        (b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400), (b"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n", 400),
                        (b"GET / HTTP/1.1\nHost: localhost\n\n", 200), (b"GET / HTTP/2.0\r\nHost: localhost\r\n\r\n", 505),
                        (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 10000, 431),
                        (b"PUT / HTTP/1.1\r\nHost: localhost\r\n\r\n", 405), (GET % b"/metric", 404), (GET % b"/metrics?a=b", 200)):
    said = exporter.status(request)
    assert said == status, (request[:100], said, status)
exporter.ask(b"\0" * 20 + b"\r\n\r\n")
empty, body = exporter.ask(b"HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").split(b"\r\n\r\n", 1)
assert body == b"" and int(re.search(rb"Content-Length: (\d+)", empty)[1]) > 1000, empty

# ---- names ----------------------------------------------------------------------------------------------
for name in ("localhost", "LOCALHOST:9464", "127.0.0.1", f"127.0.0.1:{exporter.port}", "127.1.2.3", "[::1]:1", "[::1]"):
    assert exporter.host(name) == 200, name
for name in ("evil.example", "evil.example:9464", "localhost.evil.example", "127.0.0.1.evil.example", "192.0.2.1", "[2001:db8::1]", "[::1", "", ":1",
             "stats.example", "x" * 300):
    assert exporter.host(name) == 403, name
for path in (b"/", b"/targets", b"/debug/pprof/heap", b"/nothing"):
    refused = exporter.ask(b"GET %s HTTP/1.1\r\nHost: evil.example\r\n\r\n" % path)
    assert refused.startswith(b"HTTP/1.1 403 ") and b"--host" in refused and str(target.pid).encode() not in refused, refused
exporter.end()
named = Exporter("--host", "stats.example", "--host", "fd00::1", listen="0.0.0.0:0")
assert named.host("Stats.Example:80") == named.host("[fd00::1]:80") == named.host("127.0.0.1") == 200
assert named.host("0.0.0.0") == named.host("evil.example") == 403
named.end()
for wrong in ("", "a:1", "http://x", "x" * 256):
    assert subprocess.run([STOOK, "export", "--host", wrong], stderr=subprocess.DEVNULL, check=False).returncode == 2, wrong
target.communicate()
sys.exit(0)
