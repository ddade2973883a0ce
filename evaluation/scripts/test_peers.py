"""Runs beside other software are counted and slowed down as said, and go on where they stopped."""

from __future__ import annotations

import csv
import re
import socket
import tempfile
import threading
import time
import unittest
from pathlib import Path
from unittest import mock

import peers
from peers import LINKS, PAGE, Case, Findings, Turn, cases, run_all, tables_written
from published.measure import LAN, Cell, Failed, Link, Store
from published.proxy import Proxy


class Echo:
    """Answers what it gets with the same."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        peer, _ = self.listener.accept()
        with peer:
            while data := peer.recv(1 << 16):
                peer.sendall(data)


def echoed(link: Link, count: int) -> tuple[float, int]:
    """Seconds until so many bytes have come back, and bytes that the proxy counted."""
    echo = Echo()
    proxy = Proxy(echo.port, link)
    with socket.create_connection(("127.0.0.1", proxy.port)) as near:
        start = time.monotonic()
        near.sendall(bytes(count))
        near.shutdown(socket.SHUT_WR)
        got = 0
        while data := near.recv(1 << 16):
            got += len(data)
        took = time.monotonic() - start
    proxy.close()
    echo.listener.close()
    assert got == count
    return took, proxy.bytes


class Proxies(unittest.TestCase):
    def test_bytes_and_bandwidth(self) -> None:
        self.assertEqual(echoed(LAN, 300_000)[1], 600_000)
        # What comes back follows what goes out by a piece.
        took, passed = echoed(Link("8mbps"), 300_000)
        self.assertEqual(passed, 600_000)
        self.assertGreater(took, 0.3)
        self.assertLess(took, 3)

    def test_a_round_trip_counts_once(self) -> None:
        took, _ = echoed(Link("100mbps-200ms"), 10)
        self.assertGreaterEqual(took, 0.2)
        self.assertLess(took, 2)


class FakeRing:
    """Takes as long as the power says; one system fails."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.turns: list[Case] = []

    def turn(self, case: Case, shared: int) -> Turn:
        self.turns.append(case)
        if case.system == "spu:kkrt":
            raise Failed("no such run")
        return Turn(case.power / 10 + len(self.turns) / 1000, 8 << case.power, 1 << 20)


class Runs(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        for name, value in (
            ("say", lambda text: None),
            ("POWERS", (3, 4)),
            ("LARGE", (22,)),
            ("tables_written", mock.Mock()),
        ):
            patch = mock.patch.object(peers, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def store(self) -> Store:
        return Store(self.folder / "peers.jsonl", "v", "m")

    def test_systems_take_turns_and_a_stop_loses_nothing(self) -> None:
        ring = FakeRing(self.folder)
        self.assertEqual(run_all(self.store(), ring, False, 0), [])
        self.assertEqual(ring.turns, [])
        failed = run_all(self.store(), ring, False, None)
        self.assertEqual(set(failed), {"no such run"})
        first = [case.system for case in ring.turns[:3]]
        self.assertEqual(len(set(first)), 3, "one after the other, not one three times")
        again = FakeRing(self.folder)
        run_all(self.store(), again, False, None)
        self.assertEqual({case.system for case in again.turns}, {"spu:kkrt"})

    def test_the_page_has_medians(self) -> None:
        store = self.store()
        run_all(store, FakeRing(self.folder), False, None)
        findings = Findings(store)
        found = findings.seconds(Case("spu:rr22", 3, LAN))
        times = store.result(Case("spu:rr22", 3, LAN).key())["seconds"]
        self.assertEqual(found, Cell(sorted(times)[1]))
        self.assertIsNone(findings.seconds(Case("spu:kkrt", 3, LAN)))
        costs = findings.costs()
        self.assertIn("| spu:rr22 | 2^4 | 64 | 1 |", costs)
        large = findings.large()
        self.assertRegex(large[4], r"^\| spu:rr22 \| 2\.2\d \| 0\.00105 GB \|$")
        self.assertEqual(len(large), 2 + 3, "none of what takes minutes")
        names = findings.plot()["series"]
        self.assertIn("vesica, malicious", names)
        self.assertNotIn("spu:kkrt", names)

    def test_what_is_compared_follows_each_other(self) -> None:
        listed = cases(False)
        self.assertEqual(len({(c.power, c.link) for c in listed}), 2 * len(LINKS) + 1)
        groups = [(c.power, c.link) for c in listed]
        self.assertEqual(groups, sorted(groups, key=groups.index))


class Files(unittest.TestCase):
    def test_tables_share_half_of_their_keys(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            shared = tables_written(Path(folder), 100)
            keys = []
            for name in ("ours", "theirs"):
                with (Path(folder) / f"{name}.csv").open(newline="") as table:
                    keys.append([row["key"] for row in csv.DictReader(table)])
        self.assertEqual([len(set(part)) for part in keys], [100, 100])
        self.assertEqual(len(set(keys[0]) & set(keys[1])), shared)

    def test_the_page_has_its_blocks(self) -> None:
        names = set(re.findall(r"<!-- begin (\S+) -->", PAGE.read_text()))
        blocks = {"memory", "memory-proxy", "machine", "csv", "large", "proxy", "costs"}
        self.assertEqual(names, blocks)


if __name__ == "__main__":
    unittest.main()
