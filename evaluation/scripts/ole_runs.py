"""Runs `ole` on tables of addresses, phone numbers and e-mail addresses, and prints what each phase costs.

    ole_runs.py [--rows N] [--shared N] [CASE:OFFLINE ...]

A case is addresses, phones or e-mails; OFFLINE is dealer, lattice or ot. The release build of `vesica` makes a pair of
tuples ahead, between two processes or three over loopback and TLS, and then runs on two CSV files of N rows each, which
share half unless told otherwise. Checks the rows that come out; bytes are those of both directions.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from stages import say, target_dir


class Case(NamedTuple):
    """A kind of key: how one is made of a number, how many there are, what the command is told."""

    write: Callable[[int], str]
    keys: int
    profile: str
    terms: list[str]


def address(number: int) -> str:
    return ".".join(str(byte) for byte in number.to_bytes(4, "big"))


CASES = {
    "addresses": Case(address, 1 << 32, "ipv4", ["--items", "32"]),
    # Ten digits, the first of which is not 0 or 1.
    "phones": Case(
        lambda number: str(2 * 10**9 + number), 8 * 10**9, "integer:34", ["--items", "34"]
    ),
    "e-mails": Case(
        lambda number: f"user.{number:x}@mail{number % 97}.example", 1 << 40, "email", []
    ),
}
DEFAULT = [
    "addresses:dealer",
    "addresses:lattice",
    "addresses:ot",
    "phones:dealer",
    "phones:lattice",
    "phones:ot",
    "e-mails:dealer",
]
COST = re.compile(r"; (\d+) bytes sent, (\d+) received, ([\d.]+) s$", re.MULTILINE)


class Failed(Exception):
    """A command that did not do what it should."""


class Place:
    """A directory with identities, in which the command runs."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.binary = target_dir() / "release" / "vesica"
        self.prints = {name: self.keygen(name) for name in ("receiver", "sender", "dealer")}

    def keygen(self, name: str) -> str:
        process = self.start(["keygen", "--out", f"{name}.key"])
        out, err = process.communicate()
        if process.returncode != 0:
            raise Failed(err)
        return out.strip()

    def start(self, words: list[str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.binary, *words],
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def listen(self, words: list[str]) -> tuple[subprocess.Popen[str], list[str]]:
        """Starts a command that listens; also where, as the option for others."""
        process = self.start([*words, "--listen", "127.0.0.1:0", "--progress", "plain"])
        assert process.stderr is not None
        said = []
        for line in process.stderr:
            said.append(line)
            if line.startswith("listening on "):
                return process, ["--connect", line.split()[-1]]
        raise Failed("".join(said))

    def connect(self, words: list[str], endpoint: list[str]) -> subprocess.Popen[str]:
        return self.start([*words, *endpoint, "--progress", "none"])

    def role(self, role: str) -> list[str]:
        peer = {"receiver": "sender", "sender": "receiver"}[role]
        return ["--identity", f"{role}.key", "--peer", self.prints[peer]]


def ended(*processes: subprocess.Popen[str]) -> list[str]:
    """What each has said on standard error."""
    said = [process.communicate()[1] for process in processes]
    for process, line in zip(processes, said):
        if process.returncode != 0:
            raise Failed(line)
    return said


def prepare(place: Place, case: Case, offline: str, rows: int) -> tuple[int, float]:
    """Makes a pair; the bytes that both parties sent and received, and the seconds of the slower one."""
    terms = ["--receiver-size", str(rows), "--sender-size", str(rows), *case.terms]

    def make(role: str) -> list[str]:
        words = ["offline", "make", "--for", "ole", "--offline", offline, "--role", role]
        return [*words, *terms, *place.role(role), "--offline-store", f"{role}.store"]

    if offline == "dealer":
        words = ["dealer", "--identity", "dealer.key"]
        words += ["--receiver", place.prints["receiver"], "--sender", place.prints["sender"]]
        dealer, endpoint = place.listen(words)
        by = ["--dealer", place.prints["dealer"]]
        parties = [place.connect(make(role) + by, endpoint) for role in ("receiver", "sender")]
        *said, _ = ended(*parties, dealer)
    else:
        receiver, endpoint = place.listen(make("receiver"))
        said = ended(receiver, place.connect(make("sender"), endpoint))
    costs = []
    for line in said:
        match = COST.search(line)
        if match is None:
            raise Failed(line)
        costs.append((int(match[1]), int(match[2]), float(match[3])))
    # Without a dealer, what one has sent the other has received.
    counted = costs if offline == "dealer" else costs[:1]
    total = sum(sent + received for sent, received, _ in counted)
    return total, max(seconds for _, _, seconds in costs)


def write(path: Path, keys: list[str]) -> None:
    path.write_text("row,key\n" + "".join(f"{i},{key}\n" for i, key in enumerate(keys)))


def exchange(place: Place, case: Case, offline: str) -> dict[str, object]:
    """The receiver's report."""

    def words(command: str, role: str, table: str) -> list[str]:
        return [
            *(command, "--input", table, "--key", "key", "--normalize", f"key={case.profile}"),
            *("--protocol", "ole", "--offline", offline, "--security", "semi-honest"),
            *("--offline-store", f"{role}.store", "--report", f"{role}.json"),
            *place.role(role),
        ]

    sender, endpoint = place.listen(words("send", "sender", "theirs.csv"))
    receive = [*words("receive", "receiver", "ours.csv"), "--output", "out.csv"]
    ended(place.connect(receive, endpoint), sender)
    report = json.loads((place.directory / "receiver.json").read_text())
    assert isinstance(report, dict)
    return report


def measure(name: str, offline: str, rows: int, shared: int) -> str:
    """A row of the table."""
    case = CASES[name]
    dice = random.Random(rows)
    numbers = dice.sample(range(case.keys), 2 * rows - shared)
    ours, theirs = numbers[:rows], numbers[rows - shared :]
    dice.shuffle(ours)
    dice.shuffle(theirs)
    with tempfile.TemporaryDirectory() as directory:
        place = Place(Path(directory))
        keys = [case.write(number) for number in ours]
        write(place.directory / "ours.csv", keys)
        write(place.directory / "theirs.csv", [case.write(number) for number in theirs])
        offline_bytes, offline_seconds = prepare(place, case, offline, rows)
        report = exchange(place, case, offline)
        out = (place.directory / "out.csv").read_text().splitlines()[1:]
    common = set(theirs)
    expected = [f"{i},{keys[i]}" for i, number in enumerate(ours) if number in common]
    if out != expected or len(out) != shared:
        raise Failed(f"{name}:{offline}: wrong rows")
    online_bytes = int(report["bytes_sent"]) + int(report["bytes_received"])
    return (
        f"| {name} | {rows} | `{offline}` | {offline_bytes / 1e6:.1f} MB | {offline_seconds:.1f} s"
        f" | {online_bytes / 1e6:.1f} MB | {float(report['seconds']):.2f} s |"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10**6)
    parser.add_argument("--shared", type=int, help="rows that both have; half if not given")
    parser.add_argument("cases", nargs="*", default=DEFAULT, metavar="CASE:OFFLINE")
    options = parser.parse_args()
    shared = options.rows // 2 if options.shared is None else options.shared
    say("| keys | rows per side | tuples | offline | | online | |\n|---|---|---|---|---|---|---|")
    for case in options.cases:
        name, _, offline = case.partition(":")
        try:
            say(measure(name, offline, options.rows, shared))
        except Failed as failed:
            say(f"{case}: {str(failed).strip()}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
