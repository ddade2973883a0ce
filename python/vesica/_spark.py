"""Jobs whose tasks Spark runs: what `vesica.spark` is made of. Executors import this module by its name."""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import sys
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Callable

import pyarrow

from . import _vesica
from ._arguments import checked, lacking
from ._errors import DataError, Error, NetworkError, UsageError
from ._options import ColumnOptions, Duration, OutputOptions, StagingDirectory, TableOptions, Texts
from ._progress import Listener, Progress
from ._runs import Result, texts
from ._spark_blocks import (
    Keys,
    cut_buckets,
    cut_one,
    digests_by_bucket,
    digests_by_partition,
    distinct_digests,
    rows_by_bucket,
    rows_that,
)
from ._tasks import SplitJob, arguments_of_job, limits_of
from ._vesica import Identity, Link, connect, listen

if TYPE_CHECKING:
    from pyspark import sql as _sql
    from typing_extensions import Unpack

    from ._options import SparkOptions

_LOG = logging.getLogger("vesica.spark")
_ROWS = ("matching", "rest", "all")
# Options of `vesica.receive` that a job on a cluster has not.
_LACKS = {
    **dict.fromkeys(TableOptions.__annotations__, "the table of a job on a cluster is `df`"),
    **dict.fromkeys(
        OutputOptions.__annotations__, "the rows of a job on a cluster are a data frame"
    ),
    **dict.fromkeys(
        [
            *ColumnOptions.__annotations__,
            *(
                "take_payload",
                "align",
                "offline",
                "offline_store",
                "attested",
                "work_dir",
                "clamp",
                "pad_to",
                "spine_file",
                "max_peer_groups",
            ),
        ],
        "not for jobs on a cluster",
    ),
    "memory": "that of a task is `task_memory`",
    "threads": "those of a task are `task_threads`",
    "split": "jobs of Spark match one key, and not several identifiers",
}
# What the engine refuses for tasks; known here before the table is read.
_NOT_REVEALED = ("inner-product", "shares", "threshold-matches", "union", "ids")
_ARGUMENTS = "spark.json"
_REPORT = "report.json"
# How many rounds in a row may pass in which no attempt begins: the peer's driver may be away for one.
_IDLE_ROUNDS = 3


@lacking(_LACKS)
@checked
def receive(
    df: _sql.DataFrame,
    *,
    on: Texts,
    link: Link,
    job: str,
    staging: StagingDirectory,
    gateway: str,
    wait: Duration = 3600,
    timeout: Duration = 120,
    progress: Callable[[Progress], None] | None = None,
    **options: Unpack[SparkOptions],
) -> _sql.DataFrame | Result:
    """The rows of `df` whose key the sender's table also has, with all columns.

    df            the table, as Spark has it
    on, link      as for `vesica.receive`, but for one key alone; the link is between the drivers, and its identity stays on
                  this one
    job           a name for this job among those in `staging`. The same call with the same name goes on with the job after
                  this driver was restarted; another job has another name
    staging       a directory of a file system that the driver and all executors have at the same path, and that has links,
                  locks and permissions as a disk has. It has what is left of a job until it is removed
    gateway       `host:port` of the gateway at which the tasks of both sides meet: `vesica gateway --admit
                  STAGING/JOB/gateway.json`, started by either side
    rows          `matching`, the `rest`, or `all` with a column `in_both`
    task_memory   approximate memory of a task, by which the number of buckets is chosen; the smaller one of both sides counts.
                  Numbers take 129M or more
    task_threads  threads of a task; `spark.task.cpus` if not given
    slots         tasks at once; as many as the cluster has cores for, if not given. More than the other side has only wait
    attempts      how often a bucket may be tried, 1 to 16; the smaller number of both sides counts. `max_peer_items` limits
                  what the peer may bring in all of them
    valid_for     how long tasks can begin: seconds, a text such as "7d", or a `timedelta`
    wait          how long until the other driver, or a task's peer, comes, written so too: as long as the slower side takes for
                  what it does alone
    timeout       how long the other driver, or a task's peer, may be silent, written so too
    progress      a function of a `vesica.Progress`, called after each attempt

    The other arguments are those of `vesica.receive`: `normalize`, `null`, `protocol`, `security`, `both`, `lambda_` and so on.
    With `reveal`, the numbers that it stands for: `size`, `sum` of the other side's values, or what `threshold` makes. The
    result is then a `vesica.Result`, opened by the two drivers in the end.

    The result reads `staging` and `df` whenever it is computed: write it before the job's directory is removed, and let
    Spark read a table that does not change. `staging/job/report.json` has what was done. Not for Spark Connect.

    Raises a subclass of `vesica.Error`; and what Spark raises, if a job of Spark fails that is not a bucket's. A peer that
    misbehaves in an attempt ends the job: `PeerError`, which the same call raises again.
    """
    arguments = {"on": on, "wait": wait, "timeout": timeout, **options}
    found = _run("receiver", df, link, job, staging, gateway, progress, arguments)
    assert found is not None
    return found


@lacking(_LACKS)
@checked
def send(
    df: _sql.DataFrame,
    *,
    on: Texts,
    link: Link,
    job: str,
    staging: StagingDirectory,
    gateway: str,
    wait: Duration = 3600,
    timeout: Duration = 120,
    progress: Callable[[Progress], None] | None = None,
    **options: Unpack[SparkOptions],
) -> _sql.DataFrame | Result | None:
    """Lets the receiver learn which of its rows have a key that `df` also has. The arguments are those of `receive`.

    Returns nothing; with `both`, on both sides, the rows of `df` that match, or the numbers.
    """
    arguments = {"on": on, "wait": wait, "timeout": timeout, **options}
    return _run("sender", df, link, job, staging, gateway, progress, arguments)


def _run(
    role: str,
    df: _sql.DataFrame,
    link: Link,
    job: str,
    staging: StagingDirectory,
    gateway: str,
    progress: Callable[[Progress], None] | None,
    arguments: dict[str, Any],
) -> _sql.DataFrame | Result | None:
    spark = df.sparkSession
    if not hasattr(spark, "_jsc"):
        raise UsageError(
            "Spark Connect: its client is no driver that meets the peer's; use a session of its own, or spark-submit"
        )
    rows, slots, threads = (arguments.pop(name) for name in ("rows", "slots", "task_threads"))
    if rows not in _ROWS:
        raise UsageError("rows: there are matching, rest, all")
    reveal = ",".join(texts(arguments["reveal"]))
    if any(name in reveal for name in _NOT_REVEALED):
        raise UsageError("reveal: jobs on a cluster are for matches, sizes, sums and thresholds")
    if reveal != "matches" and rows != "matching":
        raise UsageError("rows: a job for numbers has none")
    if str(spark.conf.get("spark.speculation", "false")).lower() == "true":
        raise UsageError(
            "spark.speculation: a second copy of a task would cost an attempt; turn it off"
        )
    wait, timeout = (_vesica.seconds(name, arguments[name]) for name in ("wait", "timeout"))
    learns = role == "receiver" or arguments["both"]
    directory = _directory(staging, job)
    limits = limits_of(directory, arguments)
    reading, options = arguments_of_job(arguments)
    if reading["identifiers"]:
        raise UsageError("on: jobs of Spark match one key, and not several identifiers")
    table = _Table(df.drop("in_both") if rows == "all" else df, reading)
    if learns and reveal == "matches":
        table.check_rows()
    cluster = _Cluster(
        spark,
        directory,
        gateway,
        _slots(spark, slots),
        _cpus(spark) if threads is None else threads,
        wait,
        timeout,
    )
    clock = _Clock()
    described = {name: reading[name] for name in ("on", "normalize", "null", "deny")}
    described["reveal"] = reveal
    if not os.path.lexists(os.path.join(directory, "job.json")):
        with table.distinct() as distinct:
            items = 0

            def count() -> int:
                nonlocal items
                try:
                    items = distinct.agg({"items": "sum"}).first()[0] or 0
                except Exception as failure:
                    raise _said_by_executors(failure) from failure
                clock.lap("keys")
                return items

            def cut() -> list[bytes]:
                # There is no job without it.
                _write(os.path.join(directory, _ARGUMENTS), described)
                return _cut(distinct, directory, items)

            _vesica.split_elsewhere(
                role, count, cut, reading, options, limits, link, Listener(None)
            )
            clock.lap("buckets")
    split = SplitJob(directory)
    if split.role != role:
        raise UsageError(f"job: {job} is one in which this side is the {split.role}")
    with open(os.path.join(directory, _ARGUMENTS), encoding="utf-8") as file:
        if json.load(file) != described:
            raise UsageError(
                f"job: {job} has other keys or another question; another job has another name"
            )
    report = os.path.join(directory, _REPORT)
    # With it the drivers are done with each other, and the peer's may be gone.
    if not os.path.lexists(report):
        done = _all_buckets(cluster, split, link, progress)
        clock.lap("tasks")
        if reveal != "matches":
            _total(cluster, split, link)
            clock.lap("total")
        contract = split.contract
        _write(report, {"role": role, "contract": contract, "seconds": clock.laps, **done})
    if not learns:
        return None
    if reveal != "matches":
        return split.total()
    return table.rows(directory, rows)


def _directory(staging: str | os.PathLike[str], job: str) -> str:
    root = os.fspath(staging)
    if "://" in root:
        raise UsageError(
            "staging: an address is no path; name a directory that the driver and all executors have"
        )
    if not job or os.path.basename(job) != job or job.startswith("."):
        raise UsageError("job: a name that a directory can have")
    if not os.path.isdir(root):
        raise UsageError("staging: there is no such directory")
    return os.path.join(os.path.abspath(root), job)


def _slots(spark: _sql.SparkSession, slots: int | None) -> int:
    if slots is not None:
        if slots < 1:
            raise UsageError("slots: at least one")
        return slots
    return max(1, int(spark.sparkContext.defaultParallelism) // _cpus(spark))


def _cpus(spark: _sql.SparkSession) -> int:
    """Processors of a task."""
    return int(spark.conf.get("spark.task.cpus", "1") or 1)


def _said_by_executors(failure: Exception) -> Exception:
    """What is wrong with a table or an executor, if a failure of Spark's has that in it; or else the failure."""
    found = re.search(r"vesica\._errors\.DataError: (.*)", str(failure))
    if found is not None:
        return DataError(f"the table: {found[1]}")
    found = re.search(r"(?:ModuleNotFound|Import)Error: (.*)", str(failure))
    return failure if found is None else ImportError(f"an executor: {found[1]}")


def _write(path: str, value: dict[str, Any]) -> None:
    """Writes a file for this user alone, complete or not at all."""
    part = f"{path}.part"
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(value, file, indent=2)
    os.replace(part, path)


class _Clock:
    def __init__(self) -> None:
        self._last = time.monotonic()
        self.laps: dict[str, float] = {}

    def lap(self, name: str) -> None:
        now = time.monotonic()
        self.laps[name] = round(now - self._last, 3)
        self._last = now
        _LOG.info("%s: %.1f s", name, self.laps[name])


class _Table:
    """A data frame and its keys. Its columns go by their places: Spark may have several of one name."""

    def __init__(self, df: _sql.DataFrame, reading: dict[str, Any]) -> None:
        for name in reading["on"]:
            if (number := df.columns.count(name)) != 1:
                called = "several columns are" if number else "no column is"
                raise DataError(f'{called} called "{name}"')
        self._columns = df.columns
        self._df = df.toDF(*map(str, range(len(df.columns))))
        places = [df.columns.index(name) for name in reading["on"]]
        self._keys = Keys(places, reading)
        # What is wrong with the columns is known before a task of Spark finds it.
        keys = _arrow_schema(self._df.select(*map(str, places)))
        none = pyarrow.table(keys.empty_table().columns, names=reading["on"])
        _vesica.KeyReader(reading).digests(none)

    def distinct(self) -> _Persisted:
        """Each digest once, in blocks; on the executors' disks, so that the table is read once."""
        partitions = int(self._df.sparkSession.conf.get("spark.sql.shuffle.partitions") or 200)
        columns = self._df.select(*map(str, self._keys.places))
        alone = Keys(list(range(len(columns.columns))), self._keys.reading)
        blocks = columns.mapInArrow(
            digests_by_partition(alone, partitions), "name int, block binary"
        )
        by_partition = blocks.repartitionById(partitions, "name")
        return _Persisted(by_partition.mapInArrow(distinct_digests, "items long, block binary"))

    def check_rows(self) -> None:
        """Refuses rows that executors cannot hand on."""
        _arrow_schema(self._df)

    def rows(self, directory: str, which: str) -> _sql.DataFrame:
        """The rows that match, or the rest, or all with a mark, once all buckets have a result."""
        schema, columns = self._df.schema, self._columns
        arrow = _arrow_schema(self._df)
        by_bucket = rows_by_bucket(directory, self._keys, arrow)
        blocks = self._df.mapInArrow(by_bucket, "name int, block binary")
        if which == "all":
            schema, columns = schema.add("in_both", "boolean"), [*columns, "in_both"]
        # Spark cuts up what is large because many rows have one key.
        found = blocks.hint("rebalance", "name").mapInArrow(
            rows_that(which, directory, arrow), schema
        )
        return found.toDF(*columns)


def _arrow_schema(df: _sql.DataFrame) -> Any:
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_schema

    try:
        return to_arrow_schema(df.schema, timezone="UTC")
    except PySparkException as failure:
        raise UsageError(f"the table: Spark cannot hand its columns to Python: {failure}") from None


class _Persisted:
    def __init__(self, df: _sql.DataFrame) -> None:
        self._df = df

    def __enter__(self) -> _sql.DataFrame:
        from pyspark import StorageLevel

        return self._df.persist(StorageLevel.DISK_ONLY)

    def __exit__(self, *_: object) -> None:
        self._df.unpersist()


def _cut(distinct: _sql.DataFrame, directory: str, items: int) -> list[bytes]:
    """Puts the digests into buckets, each into its file. Returns the hashes of the buckets."""
    draft = _vesica.SplitJob.open_draft(directory)
    number = json.loads(draft.contract)["buckets"]
    blocks = distinct.mapInArrow(digests_by_bucket(directory), "name int, block binary")
    by_bucket = blocks.repartitionById(number, "name")
    buckets = by_bucket.mapInArrow(cut_buckets(directory), "bucket int, items long, hash binary")
    cut = buckets.collect()
    found = sum(row["items"] for row in cut)
    if found != items:
        raise DataError(
            f"the number of keys was {items} at first, and {found} then; let Spark read a table that does not change"
        )
    hashes = {int(row["bucket"]): bytes(row["hash"]) for row in cut}
    for bucket in range(number):
        if bucket not in hashes:
            hashes[bucket] = cut_one(draft, bucket, [])
    return [hashes[bucket] for bucket in sorted(hashes)]


class _Cluster:
    """Where tasks run, and how."""

    def __init__(
        self,
        spark: _sql.SparkSession,
        directory: str,
        gateway: str,
        slots: int,
        threads: int,
        wait: float,
        timeout: float,
    ) -> None:
        self._spark = spark
        self._directory = directory
        self._slots = slots
        self.wait = wait
        self.timeout = timeout
        self._task = {"gateway": gateway, "threads": threads, "wait": wait, "timeout": timeout}

    def _run(self, bucket: int, attempt: int, group: str) -> dict[str, Any]:
        """Makes an attempt as a job of Spark with one task. A failure is a result."""
        task = _task(self._directory, bucket, attempt, self._task)
        context = self._spark.sparkContext
        context.setJobGroup(group, f"bucket {bucket}, attempt {attempt}")
        # An RDD, since planning a query takes the driver longer than all else of such a job.
        one = context.parallelize([bucket], 1)
        try:
            [text] = one.mapPartitions(task).collect()
        except Exception as failure:  # noqa: BLE001, whatever a cluster can do
            line = str(failure).strip().partition("\n")[0]
            return {"error": f"Spark: {line}", "kind": "NetworkError"}
        result: dict[str, Any] = json.loads(text)
        return result

    def round(
        self, todo: list[tuple[int, int]]
    ) -> Iterator[tuple[tuple[int, int], dict[str, Any]]]:
        """Makes attempts, until one does not begin, since the peer's tasks or the gateway are not there, or one catches the
        peer: drivers meet again.
        """
        over, ended = threading.Event(), set[int]()
        groups = [f"vesica {uuid.uuid4().hex}" for _ in todo]
        tracker = self._spark.sparkContext.statusTracker()

        def run(place: int) -> dict[str, Any] | None:
            # Spark runs jobs in the order in which they come. That is the order of buckets, as on the other side: if only
            # one of these has room, and another bucket there, both wait for the peer's task in vain.
            while place > 0 and place - 1 not in ended:
                if tracker.getJobIdsForGroup(groups[place - 1]):
                    break
                time.sleep(0.01)
            try:
                if over.is_set():
                    return None
                result = self._run(*todo[place], groups[place])
                if "error" in result and (not self._has_begun(*todo[place]) or self._is_over()):
                    over.set()
                return result
            finally:
                ended.add(place)

        with ThreadPoolExecutor(self._slots) as pool:
            for attempt, result in zip(todo, pool.map(run, range(len(todo)))):
                if result is not None:
                    yield attempt, result

    def _has_begun(self, bucket: int, attempt: int) -> bool:
        return self._has(f"bucket-{bucket}.attempt-{attempt}.begun")

    def _is_over(self) -> bool:
        """Whether the job is over. The drivers' next meeting raises that."""
        return self._has("over.json")

    def _has(self, name: str) -> bool:
        return os.path.lexists(os.path.join(self._directory, name))


def _task(
    directory: str, bucket: int, attempt: int, options: dict[str, Any]
) -> Callable[[Iterable[int]], Iterable[str]]:
    def run(buckets: Iterable[int]) -> Iterator[str]:
        # A worker that has not read all is not used again.
        for _ in buckets:
            pass
        parent = os.getppid()

        def check() -> None:
            if os.getppid() != parent:
                raise NetworkError("the executor of this task is gone")

        try:
            split = SplitJob(directory)
            result = split.run(bucket, attempt, progress=None, check=check, **options)
        except Error as failure:
            result = {"error": str(failure), "kind": type(failure).__name__}
        yield json.dumps(result)

    return run


def _all_buckets(
    cluster: _Cluster,
    split: SplitJob,
    link: Link,
    progress: Callable[[Progress], None] | None,
) -> dict[str, Any]:
    """Runs buckets until both sides have all that they need."""
    made, sent, received = 0, 0, 0
    failures: list[dict[str, Any]] = []
    previous: list[tuple[int, int]] = []
    idle = 0
    while True:
        # The peer's tasks may just have begun to wait for ours.
        todo = split.next_attempts(link=link, wait=2 * cluster.wait, timeout=cluster.timeout)
        if not todo:
            return {
                "attempts": made,
                "failures": failures,
                "bytes_sent": sent,
                "bytes_received": received,
            }
        idle = idle + 1 if todo == previous else 0
        if idle == _IDLE_ROUNDS:
            why = failures[-1]["error"] if failures else "tasks of the peer have not come"
            raise NetworkError(f"no attempt has begun in {idle} rounds: {why}")
        previous = todo
        _LOG.info("%d of %d buckets to run", len(todo), split.buckets)
        for (bucket, attempt), result in cluster.round(todo):
            made += 1
            if "error" in result:
                failures.append({"bucket": bucket, "attempt": attempt, **result})
                why = result["error"]
                _LOG.warning("bucket %d, attempt %d failed: %s", bucket, attempt, why)
            else:
                sent += result["bytes_sent"]
                received += result["bytes_received"]
            if progress is not None:
                progress(Progress("buckets", bucket + 1, split.buckets, None, None, sent, received))


def _total(cluster: _Cluster, split: SplitJob, link: Link) -> None:
    """Opens the total with the other driver. One that was restarted first asks for attempts, and meets in vain once."""
    for left in reversed(range(_IDLE_ROUNDS)):
        try:
            split.total(link=link, wait=2 * cluster.wait, timeout=cluster.timeout)
            return
        except NetworkError as failure:
            if left == 0:
                raise
            _LOG.warning("the total is not opened yet: %s", failure)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="vesica.spark", description="Private set intersection between tables of two clusters."
    )
    parser.add_argument("role", choices=["receive", "send"])
    parser.add_argument("--input", required=True, help="table, as Spark reads it")
    parser.add_argument("--format", default="parquet", help="format of the table; parquet")
    parser.add_argument("--key", required=True, help="key columns, separated by commas")
    parser.add_argument("--normalize", action="append", default=[], metavar="COL=PROFILE")
    parser.add_argument("--rows", choices=_ROWS, default="matching")
    parser.add_argument("--output", help="where Spark writes the rows that match, in that format")
    parser.add_argument("--job", required=True, help="name of the job")
    parser.add_argument("--staging", required=True, help="directory that all executors have")
    parser.add_argument("--gateway", required=True, help="HOST:PORT at which tasks meet")
    parser.add_argument("--identity", required=True, help="identity, read by the driver alone")
    parser.add_argument("--peer", required=True, help="the peer's fingerprint, vs1:…")
    point = parser.add_mutually_exclusive_group(required=True)
    point.add_argument("--listen", help="wait for the other driver at HOST:PORT")
    point.add_argument("--connect", help="connect to the other driver at HOST:PORT")
    parser.add_argument("--task-memory", default="1G")
    parser.add_argument("--task-threads", type=int)
    parser.add_argument("--slots", type=int)
    parser.add_argument("--attempts", type=int, default=4)
    parser.add_argument(
        "--max-peer-items",
        default=2**28,
        metavar="N",
        help="most keys that the peer may bring, in all attempts together, such as 2^30",
    )
    parser.add_argument("--wait", default=3600)
    parser.add_argument("--protocol", default="auto")
    parser.add_argument("--security", default="malicious")
    parser.add_argument(
        "--reveal", default="matches", help="matches, size, sum, size,sum or threshold:N"
    )
    parser.add_argument(
        "--min-size", type=int, help="least number of matches for a number to be told"
    )
    parser.add_argument("--both", action="store_true", help="the sender learns the result too")
    return parser


def _print(total: Result) -> None:
    """Prints numbers as the command does."""
    if total.below is not None:
        print(f"fewer than {total.below}")
    elif total.value is not None:
        print(total.value)
    for name, value in (total.values or {}).items():
        print(f"{name}\t{value}")


def _check_new(spark: Any, output: str) -> None:
    """Refuses an output that is there before there is a job, rather than after it."""
    path = spark._jvm.org.apache.hadoop.fs.Path(output)
    if path.getFileSystem(spark._jsc.hadoopConfiguration()).exists(path):
        raise UsageError(
            f"output: {output} is there already",
            "what a driver left that ended while it wrote is not complete: remove it, and call again",
        )


def main(words: list[str] | None = None) -> int:
    """What `spark-submit` runs: one side of a job, from a table to a table. Returns the exit code of the command."""
    from pyspark.sql import SparkSession

    options = vars(_parser().parse_args(words))
    logging.basicConfig(stream=sys.stderr)
    _LOG.setLevel(logging.INFO)
    run = {"receive": receive, "send": send}[options.pop("role")]
    source, form, output = (options.pop(name) for name in ("input", "format", "output"))
    address, listens = options.pop("listen"), True
    if address is None:
        address, listens = options.pop("connect"), False
    else:
        del options["connect"]
    try:
        identity = Identity.load(options.pop("identity"))
        meet = listen if listens else connect
        link = meet(address, identity=identity, peer=options.pop("peer"))
        options["on"] = options.pop("key").split(",")
        pairs = (text.partition("=") for text in options.pop("normalize"))
        options["normalize"] = {name: profile for name, _, profile in pairs}
        spark = SparkSession.builder.appName("vesica").getOrCreate()
        _LOG.info("spark: version %s", spark.version)
        if output is not None:
            _check_new(spark, output)
        found = run(spark.read.format(form).load(source), link=link, **options)
        if isinstance(found, Result):
            _print(found)
        elif found is not None and output is not None:
            found.write.format(form).save(output)
    except Error as failure:
        print(f"vesica.spark: {failure}", file=sys.stderr)
        if failure.hint is not None:
            print(f"hint: {failure.hint}", file=sys.stderr)
        return failure.exit_code
    return 0
