"""A proxy that slows a TCP connection down: bandwidth of each direction, half a round trip, and bytes counted."""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
import time

from .measure import LAN, Link

PIECE = 1 << 14
# At most so much is on its way in one direction, as in `vesica bench`.
WINDOW = 1 << 22


def connected(port: int) -> socket.socket:
    """A connection to a program that may still be starting."""
    for _ in range(400):
        try:
            return socket.create_connection(("127.0.0.1", port))
        except OSError:
            time.sleep(0.05)
    raise TimeoutError("nobody listens")


class Proxy:
    """Listens on a port of the loopback interface and passes everything on to another one."""

    def __init__(self, target: int, link: Link = LAN) -> None:
        self.target, self.link = target, link
        self.delay = float((link.round_trip or "0ms").removesuffix("ms")) / 2000
        self.lock = threading.Lock()
        self.bytes = 0
        # When the last piece of each direction has left: connections share the link.
        self.left = [0.0, 0.0]
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def close(self) -> None:
        self.listener.close()

    def accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                threading.Thread(target=self.join, args=(near,), daemon=True).start()

    def join(self, near: socket.socket) -> None:
        far = connected(self.target)
        threads = []
        for direction, (source, sink) in enumerate(((near, far), (far, near))):
            pieces: queue.Queue[tuple[float, bytes]] = queue.Queue(WINDOW // PIECE)
            threads += [
                threading.Thread(target=self.read, args=(direction, source, pieces), daemon=True),
                threading.Thread(target=self.write, args=(sink, pieces), daemon=True),
            ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        near.close()
        far.close()

    def departure(self, direction: int, count: int) -> float:
        """When a piece that is ready now has left."""
        with self.lock:
            self.bytes += count
            start = max(time.monotonic(), self.left[direction])
            self.left[direction] = start + self.link.transmission(count)
            return self.left[direction]

    def read(self, direction: int, source: socket.socket, pieces: queue.Queue) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(PIECE):
                pieces.put((self.departure(direction, len(data)) + self.delay, data))
        pieces.put((time.monotonic() + self.delay, b""))

    def write(self, sink: socket.socket, pieces: queue.Queue) -> None:
        with contextlib.suppress(OSError):
            while True:
                arrival, data = pieces.get()
                time.sleep(max(0.0, arrival - time.monotonic()))
                if not data:
                    sink.shutdown(socket.SHUT_WR)
                    return
                sink.sendall(data)
        # The other end is gone: what comes in is dropped, so that the reader ends.
        while pieces.get()[1]:
            pass
