"""Two sides on one machine, each with a cluster of Spark or the command: what tests and measurements share."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import vesica

LOG = """rootLogger.level = fatal
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
"""
COLUMNS = {"near": "mail", "far": "contact"}


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


def free_port() -> str:
    """Where nobody listens. No connection takes it as its own end meanwhile, as one to itself may: it is below those ports."""
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.randrange(first // 2, first)
        with socket.socket() as tried, contextlib.suppress(OSError):
            tried.bind(("127.0.0.1", port))
            return f"127.0.0.1:{port}"


def cheat(directory: Path, other: Path) -> None:
    """Makes the tasks of a job prove that they are this job's, and then run the protocol of another job of the same tables."""
    file = directory / "job.json"
    job, contract = json.loads(file.read_text()), json.loads((other / "job.json").read_text())
    assert job["contract"]["protocol"] != contract["contract"]["protocol"]
    file.write_text(json.dumps({**job, "contract": contract["contract"]}))


class Sides:
    """Identities and staging directories of two sides, whose tables are `near.parquet` and `far.parquet`."""

    # Options of the job, of Spark, and of one executor: how many, cores and MiB of each.
    terms: ClassVar[list[str]] = []
    settings: ClassVar[dict[str, str]] = {}
    executors = (2, 1, 600)
    wait = 60

    def __init__(self, path: Path, command: str) -> None:
        self.path, self.command = path, command
        self.fingerprints = {}
        for name in COLUMNS:
            identity = vesica.Identity.generate()
            identity.save(path / f"{name}.key")
            self.fingerprints[name] = identity.fingerprint
            (path / f"staging-{name}").mkdir()
        (path / "log4j2.properties").write_text(LOG)
        self.gateway, self.drivers = free_port(), free_port()
        self.running: list[subprocess.Popen[bytes]] = []

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

    def table(self, name: str) -> list[str]:
        column = COLUMNS[name]
        table = ["--input", str(self.path / f"{name}.parquet"), "--key", column]
        return [*table, "--normalize", f"{column}=email"]

    def submit(self, name: str, *more: str) -> Any:
        """Starts a cluster and its driver."""
        words = [str(Path(vesica.__file__).parent / "spark.py")]
        words += ["receive" if name == "near" else "send", *self.meeting(name), *self.terms, *more]
        words += [*self.table(name), "--output", str(self.path / f"{name}.out")]
        words += ["--job", "j", "--staging", str(self.path / f"staging-{name}")]
        words += ["--gateway", self.gateway, "--wait", str(self.wait)]
        return self.start_spark(name, *words)

    def start_spark(self, name: str, *words: str) -> Any:
        """Starts a cluster and a program as its driver."""
        python, (number, cores, memory) = sys.executable, self.executors
        settings = {
            "spark.executor.memory": f"{memory}m",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "4",
            **self.settings,
        }
        master = f"local-cluster[{number},{cores},{memory}]"
        line = [str(Path(python).parent / "spark-submit"), "--master", master]
        line += ["--driver-memory", "512m"]
        for setting, value in settings.items():
            line += ["--conf", f"{setting}={value}"]
        options = f"-Dlog4j2.configurationFile={self.path / 'log4j2.properties'}"
        line += ["--driver-java-options", options, *words]
        env = {
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_HOSTNAME": "localhost",
            "SPARK_WORKER_DIR": str(self.path / f"work-{name}"),
            "SPARK_LOCAL_DIRS": str(self.path / f"spark-{name}"),
            "PYSPARK_PYTHON": python,
            "PYSPARK_DRIVER_PYTHON": python,
        }
        return self.start(name, line, env)

    def job(self, name: str) -> Path:
        return self.path / f"staging-{name}" / "j"

    def agreed(self) -> None:
        """Waits until both sides have the job, and tasks can only wait for the gateway."""

        def have_it() -> bool:
            assert not any(process.poll() for process in self.running), self.log("near")
            return all((self.job(name) / "job.json").exists() for name in COLUMNS)

        eventually(have_it, 3600)

    def start_gateway(self) -> Any:
        admit = str(self.job("near") / "gateway.json")
        return self.start(
            "gateway", [self.command, "gateway", "--listen", self.gateway, "--admit", admit]
        )

    def far_by_the_command(self, words: list[str]) -> tuple[list[str], list[str]]:
        """Runs the far side's tasks one by one. Returns what a driver needs to meet the other, and the rounds of attempts."""
        job = str(self.job("far"))
        wait = ["--wait", str(2 * self.wait), "--progress", "none"]
        meeting = [*self.meeting("far"), *wait, "--job", job]
        split = [self.command, "split", "--role", "sender", *meeting, *words, *self.table("far")]
        subprocess.run(split, check=True)
        self.agreed()
        self.start_gateway()
        attempts = [self.command, "attempts", *meeting]
        rounds = []
        while todo := subprocess.run(attempts, check=True, capture_output=True, text=True).stdout:
            rounds.append(todo)
            for line in todo.splitlines():
                bucket, attempt = line.split()
                task = [self.command, "bucket", "--job", job, "--bucket", bucket]
                task += ["--attempt", attempt, "--gateway", self.gateway, *wait]
                subprocess.run(task, check=True)
        return meeting, rounds

    def report(self, name: str) -> Any:
        return json.loads((self.job(name) / "report.json").read_text())

    def ends_well(self, name: str, process: Any, seconds: float = 600) -> None:
        assert process.wait(seconds) == 0, self.log(name)

    def end(self) -> None:
        for process in self.running:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        # Executors notice that their driver is gone, and workers that their executor is.
        groups = {process.pid for process in self.running}
        eventually(lambda: not any(group in groups for _, _, group, _ in processes()), 60)
