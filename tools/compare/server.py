# SPDX-License-Identifier: MIT
"""A server: started with a malloc, loaded, and stopped. What is measured is the server; what loads it runs without."""
import pathlib
import signal
import socket
import time

import measure


class Server:
    """A server in a folder of its own. Subclasses say how it is started and what loads it."""
    name = ""

    def __init__(self, folder):
        self.folder = folder
        self.run = None

    def words(self):
        raise NotImplementedError

    def load(self, size):
        raise NotImplementedError

    def ready(self):
        raise NotImplementedError

    def command(self):
        return measure.Command([str(word) for word in self.words()], cwd=self.folder)

    def begin(self, malloc, look=None):
        self.run = measure.Run(self.command(), malloc, look=look)
        end = time.monotonic() + 20
        while not self.ready():
            if self.run.has_ended() or time.monotonic() > end:
                self.end()
                raise measure.Failed(f"{self.name} did not start")
            time.sleep(0.02)

    def end(self, how=signal.SIGTERM):
        """Stops it; what it used."""
        run_, self.run = self.run, None
        run_.stop(how)
        return run_.wait(20)[1]


def can_connect(address):
    family = socket.AF_UNIX if isinstance(address, (str, pathlib.Path)) else socket.AF_INET
    with socket.socket(family) as one:
        try:
            one.connect(str(address) if family == socket.AF_UNIX else address)
            return True
        except OSError:
            return False


def run(server, malloc, size):
    """One run: requests a second, latencies, and what the server used for them."""
    begin = time.monotonic()
    server.begin(malloc)
    try:
        figures = server.load(size)
    finally:
        used = server.end()
    return figures | used | {"wall_s": time.monotonic() - begin}


def run_sampled(server, malloc, size, pause):
    server.begin(malloc)
    sampler = measure.Sampler(server.run, pause)
    try:
        server.load(size)
    finally:
        figures = sampler.stop()
        server.end()
    return figures
