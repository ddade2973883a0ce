"""Runs jobs on Spark against a plain join, and computes from what they took what larger clusters take.

    scale_out.py [--rows N]... [--buckets N] [--case NAME]... [--no-page]

Each number of rows, a power of two, is run in every way of python/tests/measure_spark.py, with release builds. What that
prints is kept in evaluation/scale-out.jsonl, of which the tables of evaluation/scale-out.md are made; without --rows they are only
written anew, and with --no-page nothing is written. Exits 1 if a result is not that of the plain join.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import python_package
import spark
from published.tables import digits, heading, line
from reliability import replaced
from stages import CARGO, ROOT, run, say, target_dir

RAW = ROOT / "evaluation" / "scale-out.jsonl"
PAGE = ROOT / "evaluation" / "scale-out.md"
PRICES = ROOT / "crates" / "plan" / "data" / "prices.json"
PRICE = "aws-2026-b2b-regions"
# The machine of that price has two cores.
CORES_OF_PRICE = 2
CORES, LINK = 32, 10e9
ITEMS_OF_BUCKET = 1 << 20
# Places for each key in such buckets.
PADDING = 1.009
SIDES = ("near", "far")
STAGES = ("keys", "buckets", "tasks", "end")
# A bucket is a task where it is cut and run, and its result is read for the join.
BY_BUCKETS = ("buckets", "tasks", "end")
STEPS = ("keys", "buckets", "tasks", "join")
Record = dict[str, Any]


def measure(rows: list[int], words: list[str]) -> Iterator[Record] | None:
    """Runs the cases; nothing if what they need cannot be built."""
    made = spark.environment("release", "spark-release")
    if made is None or run([CARGO, "build", "--release", "--locked", "--package", "vesica-cli"]):
        return None
    python, env = made
    env["VESICA_COMMAND"] = str(target_dir() / "release" / "vesica")
    script = str(python_package.PACKAGE / "tests" / "measure_spark.py")
    return measured(python, env, script, rows, words)


def measured(
    python: str, env: dict[str, str], script: str, rows: list[int], words: list[str]
) -> Iterator[Record]:
    for number in rows:
        found: list[str] = []
        command = [python, script, "--rows", str(number), *words]
        if run(command, env=env, cwd=python_package.WORK, each=found.append):
            raise SystemExit(1)
        yield from (json.loads(text) for text in found if text.startswith("{"))


class Line(NamedTuple):
    """Seconds of a core: so many in any case, and so many for each row and for each bucket."""

    fixed: float
    row: float
    bucket: float

    @staticmethod
    def through(points: dict[tuple[int, int], float], by_buckets: bool) -> Line:
        """The closest to what so many rows in so many buckets took, by the squares of the relative errors."""
        wide = 3 if by_buckets else 2
        sums = [[0.0] * (wide + 1) for _ in range(wide)]
        for (rows, buckets), seconds in points.items():
            terms = [1.0, float(rows), float(buckets)][:wide]
            for place, term in enumerate(terms):
                for other, value in enumerate([*terms, seconds]):
                    sums[place][other] += term * value / max(seconds, 0.01) ** 2
        # Gauss and Jordan.
        for place in range(wide):
            head = sums[place][place]
            sums[place] = [value / head for value in sums[place]]
            for other in range(wide):
                if other != place:
                    times = sums[other][place]
                    sums[other] = [v - times * w for v, w in zip(sums[other], sums[place])]
        found = [max(0.0, row[-1]) for row in sums] + [0.0]
        return Line(*found[:3])

    def at(self, rows: float, cores: int = 1) -> float:
        return self.fixed + self.row * rows / cores


ON_EXECUTORS, ON_DRIVERS = ("executors", "workers"), ("drivers",)


def size_of(record: Record) -> tuple[int, int]:
    """Rows per side, and buckets."""
    return record["rows"], record["near"]["contract"]["buckets"]


def cpu(record: Record, side: str, stage: str, kinds: tuple[str, ...]) -> float:
    taken = record["stages"][side].get(stage, {"cpu": {}})["cpu"]
    return float(sum(taken.get(kind, 0) for kind in kinds))


class Parts:
    """What a job takes, by parts, from runs of several sizes."""

    def __init__(self, runs: list[Record]) -> None:
        def line_of(side: str, stage: str, kinds: tuple[str, ...]) -> Line:
            points = {
                size_of(run): cpu(run, side, stage, kinds) for run in runs if side in run["stages"]
            }
            return Line.through(points, stage in BY_BUCKETS)

        self.stages = {
            (side, stage): line_of(side, stage, ON_EXECUTORS) for side in SIDES for stage in STAGES
        }
        self.driver = line_of("near", "tasks", ON_DRIVERS)
        last = max((run for run in runs if run["case"] == "clusters"), key=size_of)
        contract = last["near"]["contract"]
        # How many different keys there are for each row.
        self.items = contract["receiver_size"] / last["rows"]
        padded = contract["receiver_bucket"] * contract["buckets"]
        sent, received = (last["near"][name] for name in ("bytes_sent", "bytes_received"))
        self.bytes = {"near": sent / padded, "far": received / padded}
        self.start = cpu(last, "near", "spark", ON_EXECUTORS + ON_DRIVERS)


class Forecast(NamedTuple):
    """Seconds of each part of a job, and what it takes."""

    start: float
    keys: float
    buckets: float
    tasks: float
    link: float
    join: float
    number: int
    waves: int
    sent: float

    @property
    def seconds(self) -> float:
        return self.start + self.keys + self.buckets + self.tasks + self.link + self.join

    def usd(self, cores: int) -> float:
        """Of both sides' cores and bytes, at list prices."""
        settings = json.loads(PRICES.read_text())["settings"]
        price = next(setting for setting in settings if setting["name"] == PRICE)["receiver"]
        hours = self.seconds / 3600
        machines = 2 * cores / CORES_OF_PRICE * price["usd_per_hour"] * hours
        return float(machines + self.sent / 1e9 * price["usd_per_gb_sent"])


def forecast(
    parts: Parts, sizes: dict[str, float], cores: int, link: float | None, number: int | None = None
) -> Forecast:
    """A job of so many rows on so many cores of each side, where in each step one side waits for the other."""
    if number is None:
        fewest = max(sizes.values()) * parts.items / ITEMS_OF_BUCKET
        number = min(1024, 2 ** max(0, math.floor(math.log2(fewest) + 0.5)))
    waves = -(-number // cores)

    def slower(stage: str) -> float:
        lines = {side: parts.stages[side, stage] for side in SIDES}
        return max(
            line.at(sizes[side], cores) + line.bucket * number / cores
            for side, line in lines.items()
        )

    # The buckets of a wave run at once, each on one core of each side.
    tasks = 0.0
    for side in SIDES:
        took = parts.stages[side, "tasks"]
        tasks += waves * (took.bucket + took.row * sizes[side] / number)
    first = max(parts.stages[side, "tasks"].fixed for side in SIDES)
    join = parts.stages["near", "end"]
    driver = parts.driver.fixed + parts.driver.bucket * number
    sent = {side: parts.bytes[side] * sizes[side] * parts.items * PADDING for side in SIDES}
    return Forecast(
        parts.start,
        slower("keys"),
        slower("buckets"),
        max(first + tasks, driver),
        0.0 if link is None else 8 * max(sent.values()) / link,
        join.at(sizes["near"], cores) + join.bucket * number / cores,
        number,
        waves,
        sum(sent.values()),
    )


Runs = dict[str, dict[tuple[int, int], Record]]


def load_runs() -> Runs:
    """The last record of each case, number of rows and number of buckets."""
    found: Runs = {}
    for text in RAW.read_text().splitlines():
        record = json.loads(text)
        size = (record["rows"], 0) if record["case"] == "parts" else size_of(record)
        found.setdefault(record["case"], {})[size] = record
    return found


def power(number: float) -> str:
    exact = math.log2(number)
    return f"2^{exact:.0f}" if exact == int(exact) else f"10^{math.log10(number):.0f}"


def microseconds(seconds: float, rows: float) -> str:
    return digits(1e6 * seconds / rows, 2)


def table_of_parts(runs: Runs) -> list[str]:
    """Microseconds of a core for each row of a side, by step."""
    lines = heading("rows per side, buckets", "side", *STEPS, "drivers")
    shown = [*runs["clusters"].items(), *runs.get("command", {}).items()]
    for (rows, buckets), took in sorted(shown, key=lambda pair: pair[0]):
        for side, name in zip(SIDES, ("receiver", "sender")):
            if side not in took["stages"]:
                continue
            cells = [microseconds(cpu(took, side, stage, ON_EXECUTORS), rows) for stage in STAGES]
            if side == "far":
                cells[-1] = ""
            drivers = sum(cpu(took, side, stage, ON_DRIVERS) for stage in STAGES)
            name = name if took["case"] == "clusters" else f"{name}, against the command"
            size = f"{power(rows)}, {buckets}"
            lines.append(line([size, name, *cells, microseconds(drivers, rows)]))
    return lines


# What Spark does of itself to read keys and rows, hand them to Python and back, shuffle and write rows.
OWN = ("python", "shuffled")
EMPTY_JOBS = 64


def part(took: Record, name: str, turn: int) -> float:
    return sum(took[f"{name}{turn}"]["cpu"].get(kind, 0) for kind in ON_EXECUTORS)


def table_of_reading(runs: Runs) -> list[str]:
    """What there is in the first step, without a peer."""
    steps = ("read", "python", "hash", "distinct", "shuffled")
    lines = heading(
        "rows", "reading", "to Python and back", "hashing", "distinct", "rows, shuffled"
    )
    for (rows, _), took in sorted(runs["parts"].items()):
        read, python, hashed, distinct, shuffled = (part(took, step, 1) for step in steps)
        found = [read, python - read, hashed - python, distinct - hashed, shuffled]
        lines.append(line([power(rows), *(microseconds(step, rows) for step in found)]))
    return lines


def table_of_overhead(runs: Runs) -> list[str]:
    """Spark against one process in the same buckets: the receiver's seconds for each bucket, and in all."""
    lines = heading(
        "rows per side, buckets",
        *("one process", "task", "empty task", "times"),
        *("in all: one process", "Spark", "Spark's own", "times"),
    )
    for size, alone in sorted(runs["process"].items()):
        took = next(
            (runs[case][size] for case in ("clusters", "command") if size in runs[case]), None
        )
        own = runs["parts"].get((size[0], 0))
        if took is None or own is None:
            continue
        rows, buckets = size
        one = cpu(alone, "near", "tasks", ("commands",)) / buckets
        task = cpu(took, "near", "tasks", ON_EXECUTORS) / buckets
        empty = part(own, "empty", 1) / EMPTY_JOBS
        whole = alone["near"]["cpu"]
        every = sum(cpu(took, "near", stage, ON_EXECUTORS) for stage in STAGES)
        spark = sum(part(own, name, 0) for name in OWN) + empty * buckets
        cells = [
            one,
            task,
            empty,
            (task - empty) / one,
            whole,
            every,
            spark,
            (every - spark) / whole,
        ]
        lines.append(line([f"{power(rows)}, {buckets}", *(digits(cell) for cell in cells)]))
    return lines


def table_of_check(runs: Runs) -> list[str]:
    """The largest run's receiver against what the smaller ones say of it, on one core."""
    known = [*runs["clusters"].values(), *runs.get("command", {}).values()]
    largest = max(known, key=size_of)
    smaller = [run for run in known if run["rows"] < largest["rows"]]
    rows, buckets = size_of(largest)
    lines = heading(f"{power(rows)} in {buckets} buckets, receiver", "computed", "measured")
    # As many as a line has unknowns.
    if len(smaller) < 3:
        return lines
    parts = Parts(smaller)
    for step, stage in zip(STEPS, STAGES):
        part = parts.stages["near", stage]
        computed = part.at(rows) + part.bucket * buckets
        taken = cpu(largest, "near", stage, ON_EXECUTORS)
        lines.append(line([step, digits(computed), digits(taken)]))
    return lines


def table_of_clusters(runs: Runs) -> list[str]:
    parts = Parts([*runs["clusters"].values(), *runs.get("command", {}).values()])
    steps = ("start", *STEPS[:3], "link", STEPS[3])
    lines = heading("keys", "executors", "buckets", "waves", "GB", *steps, "minutes", "USD")
    for near, far in ((1e9, 1e9), (2.0**30, 2.0**33)):
        # Each key once in as many rows as the measured tables have for one.
        sizes = {"near": near / parts.items, "far": far / parts.items}
        said = forecast(parts, sizes, CORES, LINK)
        took = (said.start, said.keys, said.buckets, said.tasks, said.link, said.join)
        cells = [f"{power(near)} against {power(far)}", f"2 of {CORES} cores", str(said.number)]
        cells += [str(said.waves), digits(said.sent / 1e9), *(f"{step:.0f}" for step in took)]
        lines.append(line([*cells, f"{said.seconds / 60:.1f}", f"{said.usd(CORES):.2f}"]))
    return lines


def blocks() -> dict[str, list[str]]:
    """The tables of the page."""
    runs = load_runs()
    return {
        "parts": table_of_parts(runs),
        "reading": table_of_reading(runs),
        "overhead": table_of_overhead(runs),
        "check": table_of_check(runs),
        "clusters": table_of_clusters(runs),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, action="append", default=[])
    parser.add_argument("--buckets", type=int, default=16)
    parser.add_argument("--case", action="append", default=[], help="all if none")
    parser.add_argument("--no-page", action="store_true", help="write nothing")
    options = parser.parse_args()
    if options.rows:
        words = ["--buckets", str(options.buckets), *options.case]
        found = measure(options.rows, words)
        if found is None:
            return 1
        for record in found:
            if not options.no_page:
                with open(RAW, "a") as file:
                    file.write(json.dumps(record) + "\n")
    if not options.no_page:
        PAGE.write_text(replaced(PAGE.read_text(), blocks(), keep=False))
        say(f"wrote {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
