"""Runs the random runs and lives, the fault matrix and the timing gate, and writes what they found into docs/reliability.md.

    reliability.py [--percent N] [--debug] [--protocol NAME]... [--command NAME]... [TEST...]

The tests print each table between `<!-- begin NAME -->` and `<!-- end NAME -->`; the page has the same marks, and
between them the same tables with their rows added up by protocol or command. With --percent, that part of the runs. With
--protocol, those of these protocols, and with --command, the system calls of these commands: their rows replace the
page's, or come after them. Exits 1, and leaves the page alone, if a test fails.
"""

from __future__ import annotations

import argparse
import re
import sys

from stages import CARGO, ROOT, run, say

PAGE = ROOT / "docs" / "reliability.md"
BEGIN = re.compile(r"<!-- begin (\S+) -->$")
END = re.compile(r"<!-- end (\S+) -->$")


class Blocks:
    """The lines between the marks of each name."""

    def __init__(self) -> None:
        self.found: dict[str, list[str]] = {}
        self.name: str | None = None

    def line(self, line: str) -> None:
        line = line.rstrip()
        # The test runner writes the name of the test in front of what the test prints first.
        if match := BEGIN.search(line):
            self.name = match.group(1)
            self.found[self.name] = []
        elif END.search(line):
            self.name = None
        elif self.name is not None:
            self.found[self.name].append(line)


# Tables whose rows are added up, and how many of their columns say what a row is about. The first of these stays.
ABOUT = {
    "random-memory": 1,
    "random-tls": 1,
    "frames": 2,
    "bytes": 2,
    "kills": 3,
    "system-calls": 2,
}
# Faults after which matches may be missing, or a value may have changed; of frames, both kinds have a row.
CHANGING = ("replay", "swap", "flip")
KINDS = ("cut, stall, lost, delay, truncate", ", ".join(CHANGING))


def cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip("|").split("|")]


def line(row: list[str]) -> str:
    return "|" + "".join(f" {cell} |" if cell else " |" for cell in row)


def added(name: str, lines: list[str]) -> list[str]:
    """The table with one row for each protocol or command; of frames, with two."""
    about = ABOUT[name]
    sums: dict[tuple[str, ...], list[str]] = {}
    for row in map(cells, lines[2:]):
        # All functions of a circuit are one.
        first = row[0].partition(",")[0] if row[0].startswith("circuit-") else row[0]
        key = (first, KINDS[row[1] in CHANGING]) if name == "frames" else (first,)
        counts = sums.setdefault(key, [""] * (len(row) - about))
        for place, count in enumerate(row[about:]):
            if count:
                counts[place] = str(int(counts[place] or 0) + int(count))
    head = cells(lines[0])
    head = [head[0], *head[1 : 2 if name == "frames" else 1], *head[about:]]
    body = [line([*key, *counts]) for key, counts in sums.items()]
    return [line(head), f"|{'---|' * len(head)}", *body]


def delay(text: str) -> float:
    """Nanoseconds of a time as the gate prints it."""
    for unit, factor in (("ns", 1), ("\u00b5s", 1e3), ("ms", 1e6)):
        if text.endswith(unit):
            return float(text.removesuffix(unit)) * factor
    return float("inf")


def compared(lines: list[str]) -> list[str]:
    """For each protocol: how many comparisons, the least p-value, the longest delay that is just seen."""
    rows: dict[str, list[list[str]]] = {}
    for row in map(cells, lines[2:]):
        rows.setdefault(row[0], []).append(row)
    body = []
    for name, found in rows.items():
        least = min((row[6] for row in found), key=float)
        seen = max((row[7] for row in found), key=delay)
        body.append(line([name, str(len(found)), least, seen]))
    return ["| protocol | comparisons | least p | sees |", "|---|---|---|---|", *body]


def shown(name: str, lines: list[str]) -> list[str]:
    """A table as the page has it."""
    if name == "timing":
        return compared(lines)
    return added(name, lines) if name in ABOUT else lines


def subject(row: str) -> str:
    """The protocol or command of a table's row: its first cell, up to a comma."""
    return row.removeprefix("|").partition("|")[0].partition(",")[0].strip()


def merged(old: list[str], new: list[str]) -> list[str]:
    """The old table with the rows of the new one instead of its own for the same subjects."""
    known = {subject(row) for row in new[2:]}
    return old[:2] + [row for row in old[2:] if subject(row) not in known] + new[2:]


def replaced(page: str, blocks: dict[str, list[str]], keep: bool) -> str:
    """The page with these blocks in the place of its own; if `keep`, with its rows for other subjects."""
    for name, lines in blocks.items():
        begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
        before, found, rest = page.partition(begin)
        old, closed, after = rest.partition(end)
        if not found or not closed:
            raise ValueError(f"the page has no block {name}")
        if keep:
            lines = merged(old.splitlines(), lines)
        page = before + begin + "".join(f"{line}\n" for line in lines) + end + after
    return page


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--percent", type=int, default=100, help="part of the runs")
    parser.add_argument("--debug", action="store_true", help="do not optimise")
    parser.add_argument("--protocol", action="append", default=[], help="all if none")
    parser.add_argument("--command", action="append", default=[], help="all if none")
    parser.add_argument(
        "tests", nargs="*", metavar="TEST", help="names or parts of names; all if none"
    )
    options = parser.parse_args()
    command = [CARGO, "test", "--locked", "--package", "vesica-cli", "--test", "e2e"]
    if not options.debug:
        command.append("--release")
    command += ["--", "--ignored", "--nocapture", "--test-threads=1"]
    command += options.tests or ["random::", "faults::", "crash::", "life::", "lives::", "timing::"]
    blocks = Blocks()
    env = {"VESICA_RELIABILITY_PERCENT": str(options.percent)}
    if options.protocol:
        env["VESICA_RELIABILITY_PROTOCOLS"] = ",".join(options.protocol)
    if options.command:
        env["VESICA_RELIABILITY_COMMANDS"] = ",".join(options.command)
    code = run(command, env=env, each=blocks.line)
    if code != 0:
        return 1
    some = bool(options.protocol or options.command)
    tables = {name: shown(name, lines) for name, lines in blocks.found.items()}
    page = replaced(PAGE.read_text(encoding="utf-8"), tables, some)
    PAGE.write_text(page, encoding="utf-8")
    say(f"written: {', '.join(blocks.found)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
