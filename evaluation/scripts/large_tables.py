"""Runs large tables with little memory, and prints what each side took.

    large_tables.py [--rows N] [--parts N] [--memory SIZE] [--directory DIR] [--protocol NAME] [CASE ...]

A case is `parts` (both tables in part files, half of the keys shared) or `repeated-receiver` or `repeated-sender` (one
key in all but three of N rows of that side, in one column of one file). The release build of `vesica` runs both parties
over TLS on this machine, and the rows that come out are checked. Memory is the peak of the process, of which its
binary and stacks are some tens of MiB.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from stages import say, target_dir

CASES = {"parts": None, "repeated-receiver": "receive", "repeated-sender": "send"}
"""The cases, and who has the table of one key."""
CHUNK = 1 << 16
HOT = 3
"""Rows of a table of one key that have another."""


class Failed(Exception):
    """A run that did not do what it should."""


def write_parts(directory: Path, first: int, rows: int, parts: int) -> None:
    """The numbers from `first` on as keys, in files of CSV."""
    directory.mkdir()
    for part in range(parts):
        start, end = first + rows * part // parts, first + rows * (part + 1) // parts
        with open(directory / f"part-{part:05}.csv", "w") as file:
            file.write("id\n")
            chunks = (range(at, min(at + CHUNK, end)) for at in range(start, end, CHUNK))
            file.writelines("\n".join(map(str, chunk)) + "\n" for chunk in chunks)


def write_repeated(path: Path, rows: int) -> None:
    """One key in all rows but the first, the middle and the last."""
    middle = rows // 2
    with open(path, "w") as file:
        file.write("id\nfirst\n")
        for begin, end, last in ((1, middle, "middle\n"), (middle + 1, rows - 1, "last\n")):
            chunks = range(begin, end, CHUNK)
            file.writelines("hot\n" * (min(at + CHUNK, end) - at) for at in chunks)
            file.write(last)


def write_few(path: Path) -> None:
    """The keys of such a table but for `middle`, and one that it has not."""
    path.write_text("id\nother\nlast\nhot\nfirst\n")


class Party:
    """A process, and what it took."""

    def __init__(self, directory: Path, words: list[str]) -> None:
        self.name = words[0]
        self.errors = directory / f"{self.name}.err"
        binary = str(target_dir() / "release" / "vesica")
        with open(self.errors, "w") as errors:
            self.process = subprocess.Popen([binary, *words], cwd=directory, stderr=errors)

    def end(self) -> tuple[int, int, float]:
        """The exit code, the peak of memory in MiB, and the seconds that processors worked for it."""
        _, status, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        return self.process.returncode, usage.ru_maxrss >> 10, usage.ru_utime + usage.ru_stime

    def said(self) -> str:
        return self.errors.read_text()

    def endpoint(self) -> str:
        while self.process.poll() is None:
            for line in self.said().splitlines():
                if line.startswith("listening on "):
                    return line.split()[-1]
            time.sleep(0.01)
        raise Failed(self.said())


def keygen(directory: Path, name: str) -> str:
    binary = str(target_dir() / "release" / "vesica")
    words = [binary, "keygen", "--out", name]
    done = subprocess.run(words, cwd=directory, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def lines(path: Path) -> Iterator[bytes]:
    with open(path, "rb") as file:
        yield from file


def run(directory: Path, tables: dict[str, str], words: list[str]) -> str:
    """Runs both sides; a line of what they took."""
    prints = {name: keygen(directory, f"{name}.key") for name in tables}
    sides = {}
    for name, peer in (("send", "receive"), ("receive", "send")):
        own = ["--key", "id", "--identity", f"{name}.key", "--peer", prints[peer]]
        own += ["--input", tables[name], "--report", f"{name}.json", "--progress", "plain", *words]
        if name == "send":
            sides[name] = Party(directory, [name, "--listen", "127.0.0.1:0", *own])
        else:
            place = ["--connect", sides["send"].endpoint(), "--output", "out.csv"]
            sides[name] = Party(directory, [name, *place, *own])
    start = time.monotonic()
    took = {name: sides[name].end() for name in ("receive", "send")}
    seconds = time.monotonic() - start
    for name, (code, _, _) in took.items():
        if code != 0:
            raise Failed(sides[name].said())
    report = json.loads((directory / "receive.json").read_text())
    sent = report["bytes_sent"] + report["bytes_received"]
    peaks = ", ".join(
        f"{name} {peak} MiB and {cpu:.0f} s of CPU" for name, (_, peak, cpu) in took.items()
    )
    buckets = report["contract"]["buckets"]
    return (
        f"{report['protocol']}, buckets {buckets}, {seconds:.1f} s, {sent / 1e6:.1f} MB, {peaks}, "
        f"rows written {report['rows_written']}"
    )


def parts(directory: Path, rows: int, number: int, words: list[str]) -> str:
    write_parts(directory / "ours", 0, rows, number)
    write_parts(directory / "theirs", rows // 2, rows, number)
    took = run(directory, {"send": "theirs", "receive": "ours"}, words)
    found = lines(directory / "out.csv")
    next(found)
    n = rows // 2
    for line in found:
        if line != b"%d\n" % n:
            raise Failed(f"row {n} is {line!r}")
        n += 1
    if n != rows:
        raise Failed(f"the result ends before row {n}")
    return took


def repeated(directory: Path, role: str, rows: int, words: list[str]) -> str:
    other = {"receive": "send", "send": "receive"}[role]
    write_repeated(directory / "many.csv", rows)
    write_few(directory / "few.csv")
    took = run(directory, {role: "many.csv", other: "few.csv"}, words)
    found = lines(directory / "out.csv")
    if role == "send":
        expected = [b"id\n", b"last\n", b"hot\n", b"first\n"]
        if list(found) != expected:
            raise Failed("other rows than expected")
        return took
    counts: dict[bytes, int] = {}
    for line in found:
        counts[line] = counts.get(line, 0) + 1
    if counts != {b"id\n": 1, b"first\n": 1, b"last\n": 1, b"hot\n": rows - HOT}:
        raise Failed(f"other rows than expected: {counts}")
    return took


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1 << 26)
    parser.add_argument("--parts", type=int, default=64)
    parser.add_argument("--memory", default="2G")
    parser.add_argument("--protocol", default="auto")
    parser.add_argument("--directory", type=Path, help="where the tables and results are; removed")
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    options = parser.parse_args()
    if any(case not in CASES for case in options.cases):
        parser.error(f"the cases are {', '.join(CASES)}")
    words = ["--memory", options.memory, "--protocol", options.protocol]
    for case in options.cases or CASES:
        with tempfile.TemporaryDirectory(dir=options.directory) as name:
            directory = Path(name)
            try:
                role = CASES[case]
                if role is None:
                    took = parts(directory, options.rows, options.parts, words)
                else:
                    took = repeated(directory, role, options.rows, words)
            except Failed as why:
                print(f"{case}: {why}", file=sys.stderr)
                return 1
            say(f"{case}, {options.rows} rows, --memory {options.memory}: {took}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
