"""Jobs on two clusters of Spark in processes of their own, and on one against the command: make test-spark."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

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
LOG = """rootLogger.level = fatal
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
"""


def eventually(what: Callable[[], Any], seconds: float = 240) -> Any:
    """The first result that is true."""
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, "it has not come"
        time.sleep(0.1)
    return found


def processes() -> Iterator[tuple[int, int, int, str]]:
    """Number, parent and group of each process of this machine, and its command line."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            _, _, rest = (folder / "stat").read_text().rpartition(") ")
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        state, parent, group = rest.split()[:3]
        if state != "Z":
            yield int(folder.name), int(parent), int(group), line


def descendants(ancestor: int) -> set[int]:
    found, parents = {ancestor}, {pid: parent for pid, parent, _, _ in processes()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {ancestor}


class Place:
    """Two tables with keys that repeat very unevenly, identities, and staging directories of two sides."""

    def __init__(self, path: Path, command: str) -> None:
        import pyarrow
        from pyarrow import parquet

        self.path, self.command = path, command
        rng = random.Random(7)
        near = [rng.randrange(0, 2 * ROWS) for _ in range(ROWS)]
        far = [rng.randrange(ROWS, 3 * ROWS) for _ in range(ROWS)]
        # A tenth of each table is one key: one that the other lacks, and one that both have.
        near[: ROWS // 10] = [7] * (ROWS // 10)
        near[-1] = far[: ROWS // 10][0] = ROWS + 11
        far[: ROWS // 10] = [ROWS + 11] * (ROWS // 10)
        self.near = [
            None if row == 5 else f" User{key}@Example.org" for row, key in enumerate(near)
        ]
        self.far = [f"user{key}@example.org" for key in far]
        numbers = list(range(ROWS))
        parquet.write_table(pyarrow.table({"mail": self.near, "x": numbers}), path / "near.parquet")
        parquet.write_table(
            pyarrow.table({"contact": self.far, "y": numbers}), path / "far.parquet"
        )
        self.fingerprints = {}
        for name in ("near", "far"):
            identity = vesica.Identity.generate()
            identity.save(path / f"{name}.key")
            self.fingerprints[name] = identity.fingerprint
            (path / f"staging-{name}").mkdir()
        (path / "log4j2.properties").write_text(LOG)
        self.gateway, self.drivers = free_port(), free_port()
        self.running: list[subprocess.Popen[bytes]] = []

    def expected(self, name: str) -> list[int]:
        """Which rows of a table are in the other, by a plain join."""
        keys = [[key and key.strip().lower() for key in table] for table in (self.near, self.far)]
        ours, theirs = keys if name == "near" else keys[::-1]
        return [row for row, key in enumerate(ours) if key is not None and key in set(theirs)]

    def start(self, name: str, line: list[str], env: dict[str, str] | None = None) -> Any:
        with (self.path / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                line,
                stdout=log,
                stderr=log,
                env={**os.environ, **(env or {})},
                start_new_session=True,
            )
        self.running.append(process)
        return process

    def log(self, name: str) -> str:
        return (self.path / f"{name}.log").read_text(errors="replace")

    def meeting(self, name: str) -> list[str]:
        other = "far" if name == "near" else "near"
        point = ["--listen" if name == "near" else "--connect", self.drivers]
        identity = ["--identity", str(self.path / f"{name}.key")]
        return [*identity, "--peer", self.fingerprints[other], *point]

    def submit(self, name: str, *more: str) -> Any:
        """Starts a cluster of two executors and its driver."""
        python, column = sys.executable, {"near": "mail", "far": "contact"}[name]
        settings = {
            "spark.executor.memory": "600m",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "4",
        }
        line = [str(Path(python).parent / "spark-submit"), "--master", "local-cluster[2,1,600]"]
        line += ["--driver-memory", "512m"]
        for setting, value in settings.items():
            line += ["--conf", f"{setting}={value}"]
        options = f"-Dlog4j2.configurationFile={self.path / 'log4j2.properties'}"
        line += ["--driver-java-options", options, str(Path(vesica.__file__).parent / "spark.py")]
        line += ["receive" if name == "near" else "send", *self.meeting(name), *TERMS, *more]
        line += ["--input", str(self.path / f"{name}.parquet"), "--key", column]
        line += ["--normalize", f"{column}=email", "--output", str(self.path / f"{name}.out")]
        line += ["--job", "j", "--staging", str(self.path / f"staging-{name}")]
        line += ["--gateway", self.gateway, "--wait", "60"]
        env = {
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_HOSTNAME": "localhost",
            "SPARK_WORKER_DIR": str(self.path / f"work-{name}"),
            "PYSPARK_PYTHON": python,
            "PYSPARK_DRIVER_PYTHON": python,
        }
        return self.start(name, line, env)

    def job(self, name: str) -> Path:
        return self.path / f"staging-{name}" / "j"

    def agreed(self) -> None:
        """Waits until both sides have the job, and tasks can only wait for the gateway."""
        eventually(lambda: all((self.job(name) / "job.json").exists() for name in ("near", "far")))

    def start_gateway(self) -> Any:
        admit = str(self.job("near") / "gateway.json")
        return self.start(
            "gateway", [self.command, "gateway", "--listen", self.gateway, "--admit", admit]
        )

    def written(self, name: str) -> dict[int, Any]:
        """The rows that a side has written: their numbers, and their marks."""
        from pyarrow import parquet

        table = parquet.read_table(self.path / f"{name}.out")
        number = "x" if name == "near" else "y"
        rows = table.column(number).to_pylist()
        assert len(set(rows)) == len(rows)
        keys = self.near if name == "near" else self.far
        column = "mail" if name == "near" else "contact"
        assert [keys[row] for row in rows] == table.column(column).to_pylist()
        marks = table.column("in_both").to_pylist() if "in_both" in table.column_names else rows
        return dict(zip(rows, marks))

    def report(self, name: str) -> Any:
        return json.loads((self.job(name) / "report.json").read_text())

    def ends_well(self, name: str, process: Any) -> None:
        assert process.wait(300) == 0, self.log(name)

    def end(self) -> None:
        for process in self.running:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        # Executors notice that their driver is gone, and workers that their executor is.
        groups = {process.pid for process in self.running}
        eventually(lambda: not any(group in groups for _, _, group, _ in processes()), 60)


def free_port() -> str:
    link, _ = vesica.pair()
    link.cancel()
    return link.address


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


def far_by_the_command(place: Place, words: list[str]) -> tuple[list[str], list[str]]:
    """Runs the far side's tasks one by one. Returns what a driver needs to meet the other, and the rounds of attempts."""
    job = str(place.job("far"))
    meeting = [*place.meeting("far"), "--wait", "120", "--progress", "none", "--job", job]
    table = ["--input", str(place.path / "far.parquet"), "--key", "contact"]
    table += ["--normalize", "contact=email"]
    split = [place.command, "split", "--role", "sender", *meeting, *words, *table]
    subprocess.run(split, check=True)
    place.agreed()
    place.start_gateway()
    attempts = [place.command, "attempts", *meeting]
    rounds = []
    while todo := subprocess.run(attempts, check=True, capture_output=True, text=True).stdout:
        rounds.append(todo)
        for line in todo.splitlines():
            bucket, attempt = line.split()
            task = [place.command, "bucket", "--job", job, "--bucket", bucket]
            task += ["--attempt", attempt, "--gateway", place.gateway, "--progress", "none"]
            subprocess.run(task, check=True)
    return meeting, rounds


def test_a_cluster_meets_the_command(place: Place) -> None:
    near = place.submit("near")
    _, rounds = far_by_the_command(place, TERMS)
    place.ends_well("near", near)
    assert rounds == ["".join(f"{bucket} 0\n" for bucket in range(8))]
    assert sorted(place.written("near")) == place.expected("near")


def test_a_cluster_opens_a_total_with_the_command(place: Place) -> None:
    terms = ["--protocol", "circuit-okvs", "--task-memory", NUMBERS, "--reveal", "size,sum"]
    near = place.submit("near", *terms)
    values = ["--value", "y", "--value-repeated", "sum"]
    meeting, rounds = far_by_the_command(place, ["--security", "semi-honest", *terms, *values])
    assert rounds[0].count("\n") > 1
    total = [place.command, "total", *meeting]
    done = subprocess.run(total, check=True, capture_output=True, text=True)
    place.ends_well("near", near)
    assert done.stdout == ""
    rows = place.expected("far")
    size = len({place.far[row] for row in rows})
    assert place.log("near").endswith(f"size\t{size}\nsum\t{sum(rows)}\n")


def test_executors_are_killed(place: Place) -> None:
    near, far = place.submit("near"), place.submit("far")
    place.agreed()

    def executors() -> list[int]:
        backend = "CoarseGrainedExecutorBackend"
        return [pid for pid, _, group, line in processes() if group == near.pid and backend in line]

    # Tasks of both wait for the gateway, which is not there yet.
    eventually(lambda: "8 of 8 buckets to run" in place.log("near"))
    victim = eventually(executors)[0]
    workers = descendants(victim)
    os.kill(victim, signal.SIGKILL)
    # No worker goes on without its executor, in native code or not.
    eventually(lambda: not workers & {pid for pid, _, _, _ in processes()}, 60)
    place.start_gateway()
    # Another one, among attempts that have begun.
    eventually(lambda: list(place.job("near").glob("*.begun")))
    for victim in executors()[:1]:
        os.kill(victim, signal.SIGKILL)
    place.ends_well("near", near)
    place.ends_well("far", far)
    assert sorted(place.written("near")) == place.expected("near")
    assert not (place.path / "far.out").exists()


def test_a_driver_and_the_gateway_are_restarted(place: Place) -> None:
    # What a driver leaves that dies while it cuts the table up.
    place.job("near").mkdir(mode=0o700)
    for name in ("draft.json", "gateway.json"):
        (place.job("near") / name).write_text("{}")
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
            ({"rows": "some"}, vesica.UsageError, "there are matching, rest, all"),
            ({"staging": "s3://bucket/x"}, vesica.UsageError, "is no path"),
            ({"staging": tmp_path / "none"}, vesica.UsageError, "is no directory"),
            ({"job": "../j"}, vesica.UsageError, "a name that a directory can have"),
            ({"slots": 0}, vesica.UsageError, "slots: at least one"),
            ({"on": "key"}, vesica.DataError, 'no column is called "key"'),
        ]:
            with pytest.raises(kind, match=line):
                spark.receive(cluster.range(3), **{**arguments, **more})
    with (
        session(spark_speculation="true") as cluster,
        pytest.raises(vesica.UsageError, match="a second copy of a task"),
    ):
        spark.send(cluster.range(3), **arguments)
    link.cancel()


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
