"""Runs what the package registry offers for PSI beside ours, in turns, and writes evaluation/peers.md.

    peers.py [--full] [--minutes M] [--no-build] [--no-runs]

The packages are installed, pinned, into an environment of their own below the target directory. Each raw result is kept at
once in evaluation/peers.jsonl, under what ran, the versions and the machine, so that a run that was stopped goes on. Two processes
on this machine; rows come from the same two files. With --no-runs, only writes the page anew. Exits 1 if a run failed.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from papers import BINARIES, MATPLOTLIB, about, build, interruptible, open_store
from published.measure import LAN, Cell, Failed, Lab, Link, Store, bench
from published.proxy import Proxy
from published.tables import digits, heading, line, shown
from python_package import environment
from reliability import replaced
from stages import ROOT, say

PACKAGES = ["openmined.psi==2.0.6", "spu==0.9.5"]
PAGE = ROOT / "evaluation" / "peers.md"
# CSV to CSV: what runs, and the keys per side up to which it is run by default, as powers of two.
SYSTEMS = {
    "vesica, malicious": 24,
    "vesica, semi-honest": 24,
    "spu:rr22": 24,
    "spu:rr22-low": 20,
    "spu:kkrt": 20,
    "spu:ecdh": 18,
    "openmined.psi": 14,
}
POWERS = (10, 12, 14, 16, 18, 20)
# CSV to CSV on this machine.
LARGE = (22, 24)
LINKS = (LAN, Link("100mbps-80ms"))
# In memory, without tables. spu has no call for that any more.
IN_MEMORY = {"openmined.psi:memory": 14}
OURS_IN_MEMORY = {
    security: [bench("auto", 1 << power, 1 << power, "--security", security) for power in POWERS]
    for security in ("malicious", "semi-honest")
}
ROUNDS = 3


class Case(NamedTuple):
    system: str
    power: int
    link: Link

    def key(self) -> tuple[str, ...]:
        return ("peers", self.system, str(1 << self.power), self.link.name)


def cases(full: bool) -> list[Case]:
    """All cases, so ordered that those that are compared follow each other."""
    return [
        Case(system, power, link)
        for link in LINKS
        for power in (*POWERS, *LARGE)
        for system, most in {**SYSTEMS, **IN_MEMORY}.items()
        if power <= most + (2 if full else 0) and (link == LAN or power <= 18 or full)
    ]


def write_tables(folder: Path, count: int) -> None:
    """Two tables of rows of some 50 bytes, half of the keys shared."""
    dice = random.Random(count)
    numbers = dice.sample(range(10**15), 2 * count - count // 2)
    for name, part in (("ours", numbers[:count]), ("theirs", numbers[-count:])):
        dice.shuffle(part)
        rows = (
            f"user.{number:x}@example.com,{row},2025-11-25\n" for row, number in enumerate(part)
        )
        with (folder / f"{name}.csv").open("w") as table:
            table.write("key,row,day\n")
            table.writelines(rows)


def tables_written(folder: Path, count: int) -> int:
    """Has another process write such tables, since what starts from a large one counts its memory; how many keys are shared."""
    context = multiprocessing.get_context("spawn")
    writer = context.Process(target=write_tables, args=(folder, count), daemon=True)
    writer.start()
    writer.join()
    if writer.exitcode != 0:
        raise OSError(f"no tables of {count} rows")
    return count // 2


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Turn(NamedTuple):
    """A run: seconds, bytes that a proxy has seen if there was one, and the receiver's peak memory."""

    seconds: float
    bytes: int | None
    memory: int


class Ring:
    """Where runs take place: a directory, the other packages' Python and our command."""

    def __init__(self, folder: Path, python: str) -> None:
        self.folder, self.python = folder, python
        self.vesica = str(BINARIES / "vesica")
        self.prints = {
            name: subprocess.run(
                [self.vesica, "keygen", "--out", f"{name}.key"],
                cwd=folder,
                capture_output=True,
                text=True,
                check=True,
            ).stdout.strip()
            for name in ("receiver", "sender")
        }

    def turn(self, case: Case, shared: int) -> Turn:
        (self.folder / "out.csv").unlink(missing_ok=True)
        turn = self.ours(case) if case.system.startswith("vesica") else self.theirs(case, shared)
        if case.system not in IN_MEMORY:
            with (self.folder / "out.csv").open() as out:
                rows = sum(1 for _ in out) - 1
            if rows != shared:
                raise Failed(f"{case}: {rows} rows in place of {shared}")
        return turn

    def proxied(self, port: int, link: Link) -> Proxy | None:
        return None if link == LAN else Proxy(port, link)

    def ours(self, case: Case) -> Turn:
        port, security = free_port(), case.system.rpartition(" ")[2]
        proxy = self.proxied(port, case.link)

        def words(command: str, table: str, other: str) -> list[str]:
            me = {"receive": "receiver", "send": "sender"}[command]
            return [
                *(self.vesica, command, "--input", table, "--key", "key", "--progress", "none"),
                *("--identity", f"{me}.key", "--peer", self.prints[other], "--security", security),
                *("--threads", "1"),
            ]

        send = [*words("send", "theirs.csv", "receiver"), "--listen", f"127.0.0.1:{port}"]
        connect = f"127.0.0.1:{proxy.port if proxy else port}"
        receive = [
            *words("receive", "ours.csv", "sender"),
            "--connect",
            connect,
            "--output",
            "out.csv",
        ]
        start = time.monotonic()
        sender, receiver = self.start(send), self.start(receive)
        _, memory = ended(receiver)
        seconds = time.monotonic() - start
        ended(sender)
        return Turn(seconds, self.counted([proxy]), memory)

    def theirs(self, case: Case, shared: int) -> Turn:
        ports = [free_port(), free_port()]
        proxies = [self.proxied(port, case.link) for port in ports]
        seen = [proxy.port if proxy else port for proxy, port in zip(proxies, ports)]

        def party(rank: int, table: str, out: str) -> subprocess.Popen[str]:
            settings = {
                "system": case.system,
                "rank": rank,
                "port": ports[rank],
                "other": seen[1 - rank],
                "input": str(self.folder / table),
                "output": str(self.folder / out),
            }
            return self.start([self.python, "-m", "published.peer_party", json.dumps(settings)])

        receiver, sender = party(0, "ours.csv", "out.csv"), party(1, "theirs.csv", "out-1.csv")
        said, memory = ended(receiver)
        ended(sender)
        # Libraries log to standard output as well.
        found = json.loads(
            next(text for text in said.splitlines() if text.startswith('{"seconds"'))
        )
        if found["matches"] != shared:
            raise Failed(f"{case}: {found['matches']} matches in place of {shared}")
        return Turn(found["seconds"], self.counted(proxies), memory)

    def counted(self, proxies: list[Proxy | None]) -> int | None:
        used = [proxy for proxy in proxies if proxy is not None]
        for proxy in used:
            proxy.close()
        return sum(proxy.bytes for proxy in used) if used else None

    def start(self, words: list[str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            words,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT / "scripts")},
        )


def ended(process: subprocess.Popen[str]) -> tuple[str, int]:
    """What it printed, and its peak memory in bytes."""
    said = process.stdout.read() if process.stdout else ""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise Failed(f"{process.args}: exit code {process.returncode}\n{said[-400:]}")
    return said, usage.ru_maxrss * 1024


def run_all(store: Store, ring: Ring, full: bool, minutes: float | None) -> list[str]:
    """Runs what is missing, the systems in turns; what failed."""
    start, failed = time.monotonic(), []
    left = [case for case in cases(full) if not store.has(case.key())]
    groups: dict[tuple[int, Link], list[Case]] = {}
    for case in left:
        groups.setdefault((case.power, case.link), []).append(case)
    done = 0
    for (power, _), group in groups.items():
        if minutes is not None and time.monotonic() - start > 60 * minutes:
            say(f"stopped: {len(left) - done} cases are left")
            return failed
        shared = tables_written(ring.folder, 1 << power)
        turns: dict[Case, list[Turn]] = {case: [] for case in group}
        for number in range(ROUNDS):
            for case in list(turns):
                spent = time.monotonic() - start
                rest = spent / done * (len(left) - done) / 60 if done else 0
                say(
                    f"{len(left) - done} cases left, some {rest:.0f} min: {case.key()}, {number + 1}"
                )
                try:
                    turns[case].append(ring.turn(case, shared))
                except (Failed, ValueError, StopIteration) as failure:
                    say(f"{case}: {failure}")
                    failed.append(str(failure))
                    del turns[case]
        for case, found in turns.items():
            result = {
                "seconds": [turn.seconds for turn in found],
                "bytes": found[-1].bytes,
                "peak_memory_bytes": {"receiver": max(turn.memory for turn in found)},
            }
            store.put(case.key(), result, sum(turn.seconds for turn in found))
        done += len(group)
    return failed


class Findings:
    """What the page shows."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def seconds(self, case: Case) -> Cell | None:
        result = self.store.result(case.key())
        return None if result is None else Cell(statistics.median(result["seconds"]))

    def table(self, link: Link, systems: dict[str, int]) -> list[str]:
        lines = heading("seconds", *(f"2^{power}" for power in POWERS))
        for system in systems:
            cells = [self.seconds(Case(system, power, link)) for power in POWERS]
            lines.append(line([system, *map(shown, cells)]))
        return lines

    def large(self) -> list[str]:
        """Seconds from CSV to CSV and memory, of what runs with large sets."""
        powers = [f"2^{power}" for power in LARGE]
        memory = [f"memory of the receiver, {power}" for power in powers]
        lines = heading("seconds", *powers, *memory)
        for system in SYSTEMS:
            cases = [Case(system, power, LAN) for power in LARGE]
            results = [self.store.result(case.key()) for case in cases]
            if any(results):
                peaks = [
                    digits(result["peak_memory_bytes"]["receiver"] / 1e9) + " GB" if result else "-"
                    for result in results
                ]
                lines.append(line([system, *(shown(self.seconds(case)) for case in cases), *peaks]))
        return lines

    def costs(self) -> list[str]:
        """Bytes per key through the proxy, and memory, at the largest size that has both."""
        lines = heading("", "keys", "bits per key", "memory of the receiver, MiB")
        for system in SYSTEMS:
            for power in reversed(POWERS):
                result = self.store.result(Case(system, power, LINKS[1]).key())
                if result is not None:
                    bits = 8 * result["bytes"] / (1 << power)
                    memory = result["peak_memory_bytes"]["receiver"] / 2**20
                    lines.append(line([system, f"2^{power}", digits(bits), digits(memory)]))
                    break
        return lines

    def plot(self) -> dict[str, Any]:
        series = {}
        for system in SYSTEMS:
            powers = (*POWERS, *LARGE)
            cells = {1 << power: self.seconds(Case(system, power, LAN)) for power in powers}
            series[system] = [[n, cell.value] for n, cell in cells.items() if cell is not None]
        return {
            "file": "peers",
            "kind": "lines",
            "title": "CSV to CSV, two processes on one machine",
            "x": "keys per side",
            "y": "seconds",
            "dashed": [system for system in SYSTEMS if not system.startswith("vesica")],
            "series": {name: points for name, points in series.items() if points},
        }


def memory_table(findings: Findings, lab: Lab, link: Link) -> list[str]:
    """Ours by `vesica bench`, whose seconds begin when the keys have been read, over the link that it emulates."""
    lines = heading(link.name, *(f"2^{power}" for power in POWERS))
    for security, subjects in OURS_IN_MEMORY.items():
        cells = []
        for subject in subjects:
            lab.want(subject, link)
            cells.append(lab.seconds(subject, link))
        lines.append(line([f"vesica, {security}", *map(shown, cells)]))
    for system in IN_MEMORY:
        cells = [findings.seconds(Case(system, power, link)) for power in POWERS]
        lines.append(line([system.removesuffix(":memory"), *map(shown, cells)]))
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="larger sets for the slow ones too")
    parser.add_argument("--minutes", type=float, help="stop after so many")
    parser.add_argument(
        "--no-build", action="store_true", help="take the release build that there is"
    )
    parser.add_argument("--no-runs", action="store_true", help="write the page from the results")
    options = parser.parse_args()
    python = environment("peers", PACKAGES)
    if python is None or (not options.no_build and build()):
        return 1
    store = open_store(PAGE.with_suffix(".jsonl"), "vesica", versions=PACKAGES)
    if store is None:
        return 1
    lab = Lab(store, BINARIES, options.full)
    failed: list[str] = []
    if not options.no_runs:
        with tempfile.TemporaryDirectory() as folder:
            failed = run_all(store, Ring(Path(folder), python), options.full, options.minutes)
    findings = Findings(store)
    for link in LINKS:
        memory_table(findings, lab, link)
    if not options.no_runs:
        lab.run(options.minutes)
    blocks = {
        "machine": about(lab),
        "csv": findings.table(LAN, SYSTEMS),
        "large": findings.large(),
        "proxy": findings.table(LINKS[1], SYSTEMS),
        "costs": findings.costs(),
        "memory": memory_table(findings, lab, LAN),
        "memory-proxy": memory_table(findings, lab, LINKS[1]),
    }
    PAGE.write_text(replaced(PAGE.read_text(), blocks, keep=False))
    drawing = environment("papers", MATPLOTLIB)
    if drawing is None:
        return 1
    command = [
        drawing,
        str(ROOT / "evaluation" / "scripts" / "published" / "plots.py"),
        str(PAGE.parent),
    ]
    drawn = subprocess.run(command, input=json.dumps([findings.plot()]), text=True, check=False)
    return drawn.returncode or int(bool(failed or lab.failed))


if __name__ == "__main__":
    sys.exit(interruptible(main))
