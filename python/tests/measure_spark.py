"""Runs one job in several ways, compares every result with a plain join, and prints what each took, as lines of JSON.

    VESICA_COMMAND=target/release/vesica python measure_spark.py [--rows N] [--buckets N] [CASE ...]

    clusters   a cluster of Spark on each side, of one executor with one core
    command    such a cluster against tasks of the command
    process    `vesica receive` and `vesica send`, one thread each
    parts      what Spark does on one core with the receiver's table, bit by bit, without a peer

Seconds are of the clock and, by kind of process, of processors, as they are seen five times in a second.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import resource
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy
import pyarrow
from clusters import COLUMNS, Sides, descendants, eventually, processes
from pyarrow import compute, parquet

NUMBERS = {"near": "x", "far": "y"}
FILES = 8
# Bytes for each row of a bucket: of a task, and of a process, which needs some beside.
TASK_MEMORY, MEMORY = 186, 288
TICKS = os.sysconf("SC_CLK_TCK")
# What says that a step is over: on Spark by its name, in one process by what comes next.
STAGE = re.compile(r"^(?:INFO:vesica\.spark:(\w+): |(bucket 1 of|phase: done))", re.MULTILINE)
STAGES = {"bucket 1 of": "keys", "phase: done": "tasks"}


def keys_of(name: str, rows: int) -> Any:
    """Numbers of which four fifths of the rows have each once, and half of these are on the other side too; a tenth of the
    rows repeat one of them, and a tenth repeat others, the more often the smaller they are.
    """
    rng = numpy.random.default_rng({"near": 7, "far": 8}[name])
    single = rows - 2 * (rows // 10)
    first = 0 if name == "near" else single // 2
    skewed = first + numpy.minimum(rng.zipf(1.2, rows // 10), single) - 1
    hot = numpy.full(rows // 10, first + 1)
    keys = numpy.concatenate([numpy.arange(first, first + single), hot, skewed])
    rng.shuffle(keys)
    return keys


def write_table(path: Path, name: str, rows: int) -> None:
    """Addresses, written in two ways, and the numbers of the rows, in files as Spark writes them."""
    path.mkdir()
    before, after = (" User", "@Example.org") if name == "near" else ("user", "@example.org")
    keys, step = keys_of(name, rows), -(-rows // FILES)
    for part in range(FILES):
        some = pyarrow.array(keys[part * step : (part + 1) * step]).cast(pyarrow.string())
        texts = compute.binary_join_element_wise(before, some, after, "")
        numbers = pyarrow.array(range(part * step, part * step + len(some)), pyarrow.int64())
        table = pyarrow.table({COLUMNS[name]: texts, NUMBERS[name]: numbers})
        parquet.write_table(table, path / f"part-{part:05}.parquet")


def expected(folder: Path) -> Any:
    """The numbers of the receiver's rows whose key the sender has too, by a plain join of pyarrow."""
    sides = {}
    for name, column in COLUMNS.items():
        table = parquet.read_table(folder / f"{name}.parquet")
        keys = compute.ascii_lower(compute.ascii_trim_whitespace(table.column(column)))
        sides[name] = table.drop_columns(column).append_column("key", keys)
    joined = sides["near"].join(sides["far"], "key", join_type="left semi")
    return numpy.sort(joined.column("x").to_numpy())


def check(folder: Path, wanted: Any) -> None:
    """The result has these rows, each once, with the columns of the table."""
    found = parquet.read_table(folder / "near.out")
    numbers = found.column("x").to_numpy()
    assert numpy.array_equal(numpy.sort(numbers), wanted), "not the rows of a plain join"
    table = parquet.read_table(folder / "near.parquet", columns=["mail"])
    assert table.column("mail").take(found.column("x")).equals(found.column("mail"))


def kind_of(line: str) -> str:
    if "CoarseGrainedExecutorBackend" in line:
        return "executors"
    if "pyspark.daemon" in line or "pyspark/daemon" in line:
        return "workers"
    program = Path(line.partition(" ")[0]).name
    return "drivers" if program.startswith(("java", "python")) else "commands"


class Processors(threading.Thread):
    """What the processes of each side have taken of processors up to each moment."""

    def __init__(self, sides: Sides, roots: dict[str, int]) -> None:
        super().__init__(daemon=True)
        self._sides, self._roots = sides, roots
        self._over = threading.Event()
        # Of each process that there has been, by number and start.
        self._seen: dict[str, dict[tuple[int, str], tuple[str, float]]] = {}
        # By side: when stages ended, and what had been taken by then.
        self.marks: dict[str, list[tuple[str, float, dict[str, float]]]] = {
            name: [("begin", time.time(), {})] for name in roots
        }

    def _taken(self, name: str) -> dict[str, float]:
        seen = self._seen.setdefault(name, {})
        members = descendants(self._roots[name]) | {self._roots[name]}
        for pid, _, _, line in processes():
            if pid in members:
                try:
                    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
                except OSError:
                    continue
                number = pid, fields[19]
                # A process that ends has no line any more.
                kind = seen[number][0] if number in seen and not line else kind_of(line)
                seen[number] = kind, sum(map(int, fields[11:13])) / TICKS
        taken: dict[str, float] = {}
        for kind, seconds in seen.values():
            taken[kind] = taken.get(kind, 0) + seconds
        return taken

    def run(self) -> None:
        while not self._over.wait(0.2):
            for name, root in self._roots.items():
                if not Path(f"/proc/{root}").exists():
                    continue
                taken, now = self._taken(name), time.time()
                marks = self.marks[name]
                over = STAGE.findall(self._sides.log(name))
                done = ["begin", *(step or STAGES[line] for step, line in over), "end"]
                if marks[-1][0] == "end":
                    marks.pop()
                marks += [(stage, now, taken) for stage in done[len(marks) : -1]]
                marks.append(("end", now, taken))

    def stop(self) -> None:
        self._over.set()
        self.join()

    def stages(self) -> dict[str, dict[str, Any]]:
        """Seconds of each stage, by the clock and by kind of process."""
        found: dict[str, dict[str, Any]] = {}
        for name, marks in self.marks.items():
            stages = found[name] = {}
            for (_, since, before), (stage, until, after) in zip(marks, marks[1:]):
                cpu = {kind: round(after[kind] - before.get(kind, 0), 2) for kind in after}
                stages[stage] = {"seconds": round(until - since, 2), "cpu": cpu}
        return found


@contextlib.contextmanager
def watched(sides: Sides, roots: dict[str, int]) -> Iterator[Processors]:
    processors = Processors(sides, roots)
    processors.start()
    try:
        yield processors
    finally:
        processors.stop()


class Measured(Sides):
    executors = (1, 1, 1536)
    wait = 1800
    settings: ClassVar = {"spark.task.cpus": "1", "spark.sql.shuffle.partitions": "16"}

    def __init__(self, path: Path, command: str, rows: int) -> None:
        super().__init__(path, command)
        self.memory = str(MEMORY * rows)
        self.words = ["--protocol", "vole", "--task-memory", str(TASK_MEMORY * rows)]

    def clusters(self) -> dict[str, Any]:
        running = {name: self.submit(name, *self.words) for name in COLUMNS}
        with watched(self, {name: process.pid for name, process in running.items()}) as clock:
            self.agreed()
            self.start_gateway()
            for name, process in running.items():
                self.ends_well(name, process, 7200)
        return {"stages": clock.stages(), **{name: self.report(name) for name in COLUMNS}}

    def against_command(self) -> dict[str, Any]:
        near = self.submit("near", *self.words)
        with watched(self, {"near": near.pid}) as clock:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            self.far_by_the_command(self.words)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            self.ends_well("near", near, 7200)
        return {"stages": clock.stages(), "near": self.report("near"), "cpu_of_commands": cpu}

    def in_processes(self) -> dict[str, Any]:
        (self.path / "near.out").mkdir()
        output = ["--output", str(self.path / "near.out" / "part.parquet")]
        running, began = {}, time.time()
        for name, role, more in (("near", "receive", output), ("far", "send", [])):
            line = [self.command, role, *self.meeting(name), *self.table(name), *more]
            line += ["--protocol", "vole", "--memory", self.memory, "--threads", "1"]
            line += ["--report", str(self.path / f"{name}.json"), "--progress", "plain"]
            running[name] = self.start(name, line)
        found: dict[str, Any] = {}
        with watched(self, {name: process.pid for name, process in running.items()}) as clock:
            for name, process in running.items():
                _, status, usage = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
                assert process.returncode == 0, self.log(name)
                report = json.loads((self.path / f"{name}.json").read_text())
                found[name] = {**report, "cpu": usage.ru_utime + usage.ru_stime}
        return {"seconds": round(time.time() - began, 2), "stages": clock.stages(), **found}


PARTS = """
import sys, time
from pyspark.sql import SparkSession
from vesica._spark import _Table
from vesica._spark_blocks import Keys, digests_by_partition
from vesica._tasks import arguments_of_job
spark = SparkSession.builder.getOrCreate()
df = spark.read.parquet(sys.argv[1])
reading, _ = arguments_of_job({"on": "mail", "normalize": {"mail": "email"}})
table = _Table(df, reading)
def noop(frame):
    frame.write.format("noop").mode("overwrite").save()
def same(batches):
    yield from batches
def hashed():
    step = digests_by_partition(Keys([0], reading), 16)
    noop(df.select("mail").mapInArrow(step, "name int, block binary"))
def distinct():
    with table.distinct() as found:
        found.count()
def shuffled():
    rows = df.repartition(16, "mail").mapInArrow(same, df.schema)
    rows.write.mode("overwrite").parquet(sys.argv[2])
def read_all(numbers):
    for _ in numbers:
        pass
    yield 0
def empty():
    for number in range(64):
        spark.sparkContext.parallelize([number], 1).mapPartitions(read_all).collect()
# The first pass warms up: its first part is what a job begins with, in a Spark that has compiled nothing.
for turn in range(2):
    for name, part in (
        ("python", lambda: noop(df.select("mail").mapInArrow(same, df.select("mail").schema))),
        ("read", lambda: noop(df.select("mail"))),
        ("hash", hashed),
        ("distinct", distinct),
        ("shuffled", shuffled),
        ("empty", empty),
    ):
        began = time.time()
        part()
        print(f"INFO:vesica.spark:{name}{turn}: {time.time() - began}", file=sys.stderr, flush=True)
        time.sleep(0.5)
"""


def parts(sides: Measured) -> dict[str, Any]:
    script = sides.path / "parts.py"
    script.write_text(PARTS)
    tables = [str(sides.path / name) for name in ("near.parquet", "shuffled.parquet")]
    process = sides.start_spark("near", str(script), *tables)
    with watched(sides, {"near": process.pid}) as clock:
        sides.ends_well("near", process, 3600)
    return clock.stages()["near"]


def machine() -> dict[str, Any]:
    load = eventually(lambda: Path("/proc/loadavg").read_text()).split()[0]
    info = Path("/proc/cpuinfo").read_text()
    model = re.search(r"model name\s*: (.*)", info)
    return {"processor": model[1] if model else "", "cores": os.cpu_count(), "load": float(load)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1 << 20)
    # Some more than are asked for if they are small, since they are padded.
    parser.add_argument("--buckets", type=int, default=16)
    cases = ["clusters", "command", "process", "parts"]
    parser.add_argument("cases", nargs="*", choices=[[], *cases], metavar="CASE")
    options = parser.parse_args()
    command = os.environ["VESICA_COMMAND"]
    with tempfile.TemporaryDirectory(prefix="vesica-") as name:
        tables, wanted = Path(name), None
        for side in COLUMNS:
            write_table(tables / f"{side}.parquet", side, options.rows)
        for case in options.cases or cases:
            folder = tables / case
            folder.mkdir()
            for side in COLUMNS:
                (folder / f"{side}.parquet").symlink_to(tables / f"{side}.parquet")
            sides = Measured(folder, command, options.rows // options.buckets)
            took: dict[str, Any] = {"case": case, "rows": options.rows, **machine()}
            try:
                took |= {
                    "clusters": sides.clusters,
                    "command": sides.against_command,
                    "process": sides.in_processes,
                    "parts": lambda sides=sides: parts(sides),
                }[case]()
            finally:
                sides.end()
            if case != "parts":
                wanted = expected(tables) if wanted is None else wanted
                check(folder, wanted)
                took["matching_rows"] = len(wanted)
            print(json.dumps(took), flush=True)
            shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
