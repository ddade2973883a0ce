"""What the tests share: the sample tables, the command, and child processes."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import vesica

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "crates" / "cli" / "data"
DONORS, CUSTOMERS = DATA / "donors.csv", DATA / "customers.csv"


def rows_of(path: Path) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8") as table:
        return list(csv.DictReader(table))


def expected_rows() -> list[int]:
    """Which donors are customers: a plain intersection."""
    customers = {row["contact"].strip().lower() for row in rows_of(CUSTOMERS)} - {""}
    donors = (row["email"].strip().lower() for row in rows_of(DONORS))
    return [i for i, email in enumerate(donors) if email in customers]


@pytest.fixture(scope="session")
def command() -> str:
    """The command `vesica`, built from the same sources."""
    return os.environ["VESICA_COMMAND"]


@pytest.fixture
def background() -> Iterator[Callable[..., Callable[[], Any]]]:
    """Runs a function on a thread; the call that it returns waits for the result, or raises what it raised."""
    threads = []

    def start(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Callable[[], Any]:
        outcome: list[tuple[bool, Any]] = []

        def work() -> None:
            try:
                outcome.append((True, function(*args, **kwargs)))
            except BaseException as error:  # noqa: BLE001
                outcome.append((False, error))

        thread = threading.Thread(target=work)
        thread.start()
        threads.append(thread)

        def finish() -> Any:
            thread.join(60)
            assert not thread.is_alive()
            done, value = outcome[0]
            if not done:
                raise value
            return value

        return finish

    yield start
    for thread in threads:
        thread.join(60)


@pytest.fixture
def child() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a child process: Python code, or a command line."""
    processes = []

    def start(code: str | list[str]) -> subprocess.Popen[str]:
        line = [sys.executable, "-c", code] if isinstance(code, str) else code
        process = subprocess.Popen(
            line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8"
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def identities(tmp_path: Path) -> tuple[vesica.Identity, vesica.Identity]:
    """Ours, and the peer's; their files are `ours.key` and `theirs.key` in `tmp_path`."""
    ours, theirs = vesica.Identity.generate(), vesica.Identity.generate()
    ours.save(tmp_path / "ours.key")
    theirs.save(tmp_path / "theirs.key")
    return ours, theirs
