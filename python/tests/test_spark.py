"""Jobs on two clusters of Spark in processes of their own, and on one against the command: make test-spark."""

from __future__ import annotations

import contextlib
import datetime
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import pytest
from clusters import COLUMNS, Sides, cheat, descendants, eventually, free_port, processes

import vesica

pyspark = pytest.importorskip("pyspark")
pytestmark = [
    pytest.mark.skipif(
        "VESICA_TEST_SPARK" not in os.environ, reason="needs Java too: make test-spark"
    ),
    # pyspark and its Python workers warn of themselves.
    pytest.mark.filterwarnings("default"),
]
ROWS = 4000
# Memory of a task that makes several buckets for numbers.
NUMBERS = "129M"
# Eight buckets.
TERMS = ["--protocol", "dh", "--security", "semi-honest", "--task-memory", "180K"]


class Place(Sides):
    """Two tables with keys that repeat very unevenly."""

    terms: ClassVar = TERMS

    def __init__(self, path: Path, command: str, rows: int = ROWS) -> None:
        import pyarrow
        from pyarrow import parquet

        super().__init__(path, command)
        rng = random.Random(7)
        near = [rng.randrange(0, 2 * rows) for _ in range(rows)]
        far = [rng.randrange(rows, 3 * rows) for _ in range(rows)]
        # A tenth of each table is one key: one that the other lacks, and one that both have.
        near[: rows // 10] = [7] * (rows // 10)
        near[-1] = far[: rows // 10][0] = rows + 11
        far[: rows // 10] = [rows + 11] * (rows // 10)
        self.near = [
            None if place == 5 else f" User{key}@Example.org" for place, key in enumerate(near)
        ]
        self.far = [f"user{key}@example.org" for key in far]
        numbers = list(range(rows))
        moment = datetime.datetime(2026, 1, 2, 3, 4, 5, 6, datetime.timezone.utc)
        # Columns of other types than keys are handed on too.
        more = [
            None if row % 7 == 0 else {"list": [row, None], "at": moment, "exact": Decimal(row)}
            for row in numbers
        ]
        kinds = [
            pyarrow.field("list", pyarrow.list_(pyarrow.int32())),
            pyarrow.field("at", pyarrow.timestamp("us", "UTC")),
            pyarrow.field("exact", pyarrow.decimal128(20, 2)),
        ]
        self.more = pyarrow.array(more, pyarrow.struct(kinds))
        table = pyarrow.table({"mail": self.near, "more": self.more, "x": numbers})
        parquet.write_table(table, path / "near.parquet")
        parquet.write_table(
            pyarrow.table({"contact": self.far, "y": numbers}), path / "far.parquet"
        )

    def expected(self, name: str) -> list[int]:
        """Which rows of a table are in the other, by a plain join."""
        keys = [[key and key.strip().lower() for key in table] for table in (self.near, self.far)]
        ours, theirs = keys if name == "near" else keys[::-1]
        there = set(theirs) - {None}
        return [row for row, key in enumerate(ours) if key in there]

    def written(self, name: str) -> dict[int, Any]:
        """The rows that a side has written: their numbers, and their marks."""
        import pyarrow
        from pyarrow import parquet

        table = parquet.read_table(self.path / f"{name}.out")
        number = "x" if name == "near" else "y"
        rows = table.column(number).to_pylist()
        assert len(set(rows)) == len(rows)
        keys = self.near if name == "near" else self.far
        assert [keys[row] for row in rows] == table.column(COLUMNS[name]).to_pylist()
        if name == "near":
            # Spark writes instants in a form without a time zone.
            more = table["more"].cast(self.more.type)
            assert more.to_pylist() == self.more.take(pyarrow.array(rows)).to_pylist()
        marks = table.column("in_both").to_pylist() if "in_both" in table.column_names else rows
        return dict(zip(rows, marks))


@pytest.fixture
def place(tmp_path: Path, command: str) -> Iterator[Place]:
    place = Place(tmp_path, command)
    yield place
    place.end()


def test_two_clusters_find_what_a_plain_join_finds(place: Place) -> None:
    near = place.submit("near", "--both", "--rows", "all")
    far = place.submit("far", "--both", "--rows", "rest")
    place.agreed()
    place.start_gateway()
    place.ends_well("near", near)
    place.ends_well("far", far)
    ours, theirs = place.expected("near"), place.expected("far")
    assert place.written("near") == {row: row in ours for row in range(ROWS)}
    assert sorted(place.written("far")) == sorted(set(range(ROWS)) - set(theirs))
    for name in ("near", "far"):
        report = place.report(name)
        assert report["contract"]["buckets"] == report["attempts"] == 8
        assert report["failures"] == []
        # What is left of all buckets has one size.
        for kind in ("keys", "attempt-0.bits"):
            sizes = {path.stat().st_size for path in place.job(name).glob(f"bucket-*.{kind}")}
            assert len(sizes) == 1
    assert place.report("near")["bytes_sent"] == place.report("far")["bytes_received"]


def test_tasks_that_queue_do_not_wait_for_each_other(place: Place) -> None:
    place.executors = (1, 1, 600)
    running = {name: place.submit(name, "--slots", "8") for name in COLUMNS}
    place.agreed()
    place.start_gateway()
    for name, process in running.items():
        place.ends_well(name, process)
        assert place.report(name)["failures"] == []
    assert sorted(place.written("near")) == place.expected("near")


def test_a_cluster_meets_the_command(place: Place) -> None:
    near = place.submit("near")
    _, rounds = place.far_by_the_command(TERMS)
    place.ends_well("near", near)
    assert rounds == ["".join(f"{bucket} 0\n" for bucket in range(8))]
    assert sorted(place.written("near")) == place.expected("near")


def test_a_cluster_opens_a_total_with_the_command(place: Place) -> None:
    terms = ["--protocol", "circuit-okvs", "--task-memory", NUMBERS, "--reveal", "size,sum"]
    near = place.submit("near", *terms)
    values = ["--value", "y", "--value-repeated", "sum"]
    meeting, rounds = place.far_by_the_command(["--security", "semi-honest", *terms, *values])
    assert rounds[0].count("\n") > 1
    total = [place.command, "total", *meeting]
    done = subprocess.run(total, check=True, capture_output=True, text=True)
    place.ends_well("near", near)
    assert done.stdout == ""
    rows = place.expected("far")
    size = len({place.far[row] for row in rows})
    # Spark may have something to say of its end.
    assert f"\nsize\t{size}\nsum\t{sum(rows)}\n" in place.log("near")


def test_a_peer_that_cheats_ends_the_job(place: Place) -> None:
    # In one bucket, with attempts left.
    place.terms = ["--protocol", "dh", "--security", "semi-honest"]
    near = place.submit("near")
    job = place.job("far")
    meeting = [*place.meeting("far"), "--wait", "240", "--progress", "none"]
    split = [place.command, "split", "--role", "sender", *meeting, *place.table("far")]
    subprocess.run([*split, *place.terms, "--job", str(job)], check=True)
    subprocess.run([place.command, "attempts", *meeting, "--job", str(job)], check=True)
    # The same tables for another protocol, on a machine of one's own.
    terms = ["--protocol", "kkrt", "--security", "semi-honest"]
    place.drivers = free_port()
    sides = []
    for name, role in (("near", "receiver"), ("far", "sender")):
        words = ["--role", role, *place.meeting(name), *place.table(name), *terms]
        words += ["--job", str(place.path / f"other-{name}"), "--progress", "none"]
        sides.append(place.start("other", [place.command, "split", *words]))
    assert [side.wait(60) for side in sides] == [0, 0], place.log("other")
    cheat(job, place.path / "other-far")
    place.start_gateway()
    words = ["--job", str(job), "--bucket", "0", "--gateway", place.gateway, "--progress", "none"]
    cheats = subprocess.run([place.command, "bucket", *words], check=False)
    assert cheats.returncode == 5
    assert near.wait(600) == 5, place.log("near")
    assert "is of a job that is over since attempt 0 at bucket 0: the peer" in place.log("near")
    # There is no other attempt, and none by a driver that is started again.
    assert place.submit("near").wait(600) == 5, place.log("near")
    begun = [path.name for path in place.job("near").glob("*.begun")]
    assert begun == ["bucket-0.attempt-0.begun"]
    assert not (place.path / "near.out").exists()


def executors(driver: Any) -> list[int]:
    backend = "CoarseGrainedExecutorBackend"
    return [pid for pid, _, group, line in processes() if group == driver.pid and backend in line]


def test_executors_are_killed(place: Place) -> None:
    near, far = place.submit("near"), place.submit("far")
    place.agreed()
    # Tasks of both wait for the gateway, which is not there yet.
    eventually(lambda: "8 of 8 buckets to run" in place.log("near"))
    victim = eventually(lambda: executors(near))[0]
    workers = descendants(victim)
    os.kill(victim, signal.SIGKILL)
    # No worker goes on without its executor, in native code or not.
    eventually(lambda: not workers & {pid for pid, _, _, _ in processes()}, 60)
    place.start_gateway()
    # Another one, among attempts that have begun.
    eventually(lambda: list(place.job("near").glob("*.begun")))
    for victim in executors(near)[:1]:
        os.kill(victim, signal.SIGKILL)
    place.ends_well("near", near)
    place.ends_well("far", far)
    assert sorted(place.written("near")) == place.expected("near")
    assert not (place.path / "far.out").exists()


def test_a_driver_and_the_gateway_are_restarted(place: Place) -> None:
    # What a driver leaves that dies while it waits for the peer's.
    place.job("near").mkdir(mode=0o700)
    (place.job("near") / "lock").touch()
    near, far = place.submit("near"), place.submit("far")
    place.agreed()
    eventually(lambda: "8 of 8 buckets to run" in place.log("near"))
    os.killpg(near.pid, signal.SIGKILL)
    near.wait()
    gateway = place.start_gateway()
    near = place.submit("near")
    eventually(lambda: list(place.job("near").glob("*.begun")))
    os.killpg(gateway.pid, signal.SIGKILL)
    gateway.wait()
    place.start_gateway()
    place.ends_well("near", near)
    place.ends_well("far", far)
    assert sorted(place.written("near")) == place.expected("near")


def test_sides_survive_random_kills(tmp_path: Path, command: str) -> None:
    seed = int(os.environ.get("VESICA_TEST_SEED", time.time_ns() % 10**6))
    print(f"VESICA_TEST_SEED={seed}")
    rng = random.Random(seed)
    place = Place(tmp_path, command, 8 * ROWS)
    place.wait = 20
    words = ["--attempts", "16"]
    try:
        running = {name: place.submit(name, *words) for name in COLUMNS}
        place.agreed()
        running["gateway"] = place.start_gateway()
        kills = 10
        while any(running[name].poll() != 0 for name in COLUMNS):
            for name in COLUMNS:
                # A side that has waited in vain for one that starts says so, and is called again.
                if running[name].poll() not in (None, 0):
                    assert running[name].returncode in (-signal.SIGKILL, 4), place.log(name)
                    # Spark writes into no directory that is there.
                    shutil.rmtree(place.path / f"{name}.out", ignore_errors=True)
                    running[name] = place.submit(name, *words)
            if running["gateway"].poll() is not None:
                running["gateway"] = place.start_gateway()
            time.sleep(rng.uniform(0, 6))
            alive = [name for name, process in running.items() if process.poll() is None]
            if kills == 0 or not {"near", "far"} & set(alive):
                continue
            name = rng.choice(alive)
            victims = executors(running[name])
            if victims and rng.random() < 0.6:
                os.kill(rng.choice(victims), signal.SIGKILL)
            else:
                os.killpg(running[name].pid, signal.SIGKILL)
            kills -= 1
        # A job may end before all.
        assert kills < 10
        assert place.report("near")["contract"]["buckets"] == 64
        assert sorted(place.written("near")) == place.expected("near")
    finally:
        place.end()


@contextlib.contextmanager
def session(**settings: str) -> Iterator[Any]:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]")
    for setting, value in settings.items():
        builder = builder.config(setting.replace("_", "."), value)
    session = builder.getOrCreate()
    try:
        yield session
    finally:
        session.stop()


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    from vesica import spark

    link, _ = vesica.pair()
    arguments = {"on": "id", "link": link, "job": "j", "staging": tmp_path, "gateway": "h:1"}
    with session() as cluster:
        for more, kind, line in [
            (
                {"reveal": "shares"},
                vesica.UsageError,
                "are for matches, sizes, sums and thresholds",
            ),
            ({"reveal": "size", "rows": "all"}, vesica.UsageError, "a job for numbers has none"),
            (
                {"reveal": "sum", "value": "id"},
                vesica.UsageError,
                "value: not for jobs on a cluster",
            ),
            ({"payload": "id"}, vesica.UsageError, "payload: not for jobs on a cluster"),
            ({"output": "x"}, vesica.UsageError, "output: the rows of a job"),
            ({"query": "x"}, vesica.UsageError, "query: the table of a job"),
            ({"threads": 2}, vesica.UsageError, "threads: those of a task are `task_threads`"),
            ({"on": {"n": "id"}}, vesica.UsageError, "on: jobs of Spark match one key"),
            ({"rows": "some"}, vesica.UsageError, "there are matching, rest, all"),
            ({"staging": "s3://bucket/x"}, vesica.UsageError, "is no path"),
            ({"staging": tmp_path / "none"}, vesica.UsageError, "no such directory"),
            ({"job": "../j"}, vesica.UsageError, "a name that a directory can have"),
            ({"slots": 0}, vesica.UsageError, "slots: at least one"),
            ({"on": "key"}, vesica.DataError, 'no column is called "key"'),
        ]:
            with pytest.raises(kind, match=line):
                spark.receive(cluster.range(3), **{**arguments, **more})
        for columns, kind, line in [
            ("1 id, 2 id", vesica.DataError, 'several columns are called "id"'),
            ("1 id, make_interval(1) x", vesica.UsageError, "cannot hand its columns to Python"),
        ]:
            with pytest.raises(kind, match=line):
                spark.receive(cluster.sql(f"select {columns}"), **arguments)
    with (
        session(spark_speculation="true") as cluster,
        pytest.raises(vesica.UsageError, match="a second copy of a task"),
    ):
        spark.send(cluster.range(3), **arguments)
    link.cancel()


def test_a_key_that_cannot_be_read_is_known_on_both_sides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow

    from vesica import spark

    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    near, far = vesica.pair()
    terms = {"on": "mail", "normalize": {"mail": "email"}}

    def peer() -> None:
        table = pyarrow.table({"mail": ["user1@example.org"]})
        with contextlib.suppress(vesica.StoppedError):
            job = tmp_path / "far"
            vesica.split(table, role="sender", job=job, link=far, wait=600, **terms)

    thread = threading.Thread(target=peer)
    with warnings.catch_warnings(record=True) as heard, session() as cluster:
        warnings.simplefilter("always")
        thread.start()
        df = cluster.createDataFrame([(b"user1@example.org",), (b"\xff",)], "mail binary")
        line = 'the table: partition 0: row 2: the value in column "mail" is not valid UTF-8'
        with pytest.raises(vesica.DataError, match=line):
            spark.receive(df, link=near, job="j", staging=tmp_path, gateway="h:1", **terms)
        told = "the peer reports a problem with its table"
        eventually(lambda: any(told in str(each.message) for each in heard), 60)
    far.cancel()
    thread.join()


def test_digests_that_begin_alike_are_told_apart() -> None:
    import numpy
    import pyarrow

    from vesica import _vesica

    def table(digests: list[bytes | None]) -> Any:
        return pyarrow.table({"digest": pyarrow.array(digests, pyarrow.binary(32))})

    def values(found: _vesica.Batches) -> list[Any]:
        return pyarrow.table(found).column(0).to_pylist()

    a, b, c, d = (
        bytes(each) + bytes(24) for each in (range(8), range(1, 9), b"\xff" * 8, b"8" * 8)
    )
    e = a[:31] + b"\1"
    for digests in [[], [a], [a, e, a], [c, None, e, b, a, c, e, a], [c, c], [d, c, d]]:
        once = sorted({digest for digest in digests if digest is not None})
        assert values(_vesica.distinct(table(digests))) == once
        asked = [a, b, c, d, e, bytes(32), b"9" * 32]
        found = values(_vesica.DigestSet(_vesica.distinct(table(digests))).has(table(asked)))
        assert found == [each in once for each in asked]
    many = [bytes(row) for row in numpy.random.default_rng(5).integers(0, 3, (4000, 32), "u1")]
    assert values(_vesica.distinct(table(many + many[::-1]))) == sorted(set(many))
    for wrong in [[b"short"], pyarrow.array([bytes(16)], pyarrow.binary(16)), [1]]:
        with pytest.raises(vesica.DataError, match="one column, of 32 bytes"):
            _vesica.distinct(pyarrow.table({"digest": wrong}))
    two = table([a, b]).append_column("n", pyarrow.array([1, 2]))
    for wrong in [two, table([a, None])]:
        with pytest.raises(vesica.DataError, match="one column, of 32 bytes"):
            _vesica.DigestSet(wrong)


def test_blocks_have_each_digest_once(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow

    from vesica import _spark_blocks as blocks
    from vesica._tasks import arguments_of_job

    monkeypatch.setattr(blocks, "_ROWS", 300)
    monkeypatch.setattr(blocks, "_BLOCK", 64)
    reading, _ = arguments_of_job({"on": "id"})
    ids = [None if row % 50 == 0 else f"{row * row % 701}" for row in range(2000)]
    batches = pyarrow.table({"x": range(2000), "id": ids}).to_batches(max_chunksize=70)
    keys = blocks.Keys([1], reading)
    found = list(blocks.digests_by_partition(keys, 4)(iter(batches)))
    # A key that repeats comes once for each time that rows are put into blocks.
    assert len(found) == 6
    partitions: dict[int, list[Any]] = {}
    for batch in found:
        for name, block in zip(*(column.to_pylist() for column in batch.columns)):
            partitions.setdefault(name, []).append(block)
    assert sorted(partitions) == [0, 1, 2, 3]
    once: list[bytes] = []
    for name, some in partitions.items():
        column = pyarrow.array(some, pyarrow.binary())
        batch = pyarrow.RecordBatch.from_arrays([column, column], ["name", "block"])
        for items, block in (
            [value.as_py() for value in (row.column(0)[0], row.column(1)[0])]
            for row in blocks.distinct_digests(iter([batch]))
        ):
            assert 32 * items == len(block)
            assert items < 128
            once += [block[place : place + 32] for place in range(0, len(block), 32)]
            assert all(int.from_bytes(digest[:8]) >> 62 == name for digest in once[-items:])
    table = pyarrow.table({"id": sorted({key for key in ids if key})})
    digests = pyarrow.table(blocks._vesica.KeyReader(reading).digests(table)).column(0).to_pylist()
    assert sorted(once) == sorted(digests)
    assert list(blocks.distinct_digests(iter([]))) == []


def test_an_output_that_is_there_is_refused_at_first(tmp_path: Path) -> None:
    from vesica._spark import _check_new

    with session() as cluster:
        _check_new(cluster, str(tmp_path / "new"))
        with pytest.raises(vesica.UsageError, match="is there already") as refused:
            _check_new(cluster, str(tmp_path))
    assert "not complete: remove it" in (refused.value.hint or "")


def test_rows_of_one_key_are_not_left_to_one_task(tmp_path: Path) -> None:
    from vesica._spark import _Table
    from vesica._tasks import arguments_of_job

    reading, _ = arguments_of_job({"on": "id"})
    with session() as cluster:
        df = cluster.createDataFrame([("a", 1, 2)], "id string, x int, x int")
        rows = _Table(df, reading).rows(str(tmp_path), "all")
        assert rows.columns == ["id", "x", "x", "in_both"]
        assert "REBALANCE_PARTITIONS_BY_COL" in rows._jdf.queryExecution().toString()


CONNECT = """
import pathlib, tempfile, vesica, vesica.spark
from pyspark.sql import SparkSession
session = SparkSession.builder.remote("local[1]").getOrCreate()
link, _ = vesica.pair()
try:
    vesica.spark.receive(session.range(3), on="id", link=link, job="j", staging=tempfile.mkdtemp(), gateway="h:1")
except vesica.UsageError as refused:
    print(refused)
session.stop()
"""


def test_spark_connect_says_that_it_does_not_work() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CONNECT], capture_output=True, text=True, timeout=240, check=False
    )
    assert "Spark Connect: its client is no driver" in done.stdout, done.stderr
