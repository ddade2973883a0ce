"""What the scripts share: where things are, and running a command with its output shown."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CARGO = os.environ.get("CARGO", "cargo")
# What is built for tests. The tests of the Python package are in Python: `make test-python`.
WORKSPACE = (
    "--workspace --exclude vesica-python --features vesica-cli/tee,vesica/tracing --locked".split()
)
# Packages whose tests are slow to compile.
SLOW_TO_COMPILE = {"crates/kernels": "vesica-kernels", "evaluation/research": "vesica-research"}
QUICKLY_COMPILED = [*WORKSPACE, *(f"--exclude={name}" for name in SLOW_TO_COMPILE.values())]


def target_dir() -> Path:
    """Cargo's target directory for this workspace."""
    return ROOT / os.environ.get("CARGO_TARGET_DIR", "target")


def say(text: str) -> None:
    print(text, flush=True)


# How a command is started whose output is read here: standard error with standard output, as text.
READ: dict[str, Any] = {
    "stdin": subprocess.DEVNULL,
    "stdout": subprocess.PIPE,
    "stderr": subprocess.STDOUT,
    "text": True,
    "encoding": "utf-8",
    "errors": "replace",
}


def captured(command: Sequence[str | os.PathLike[str]]) -> subprocess.CompletedProcess[str]:
    """What a command printed, and its exit code, once it has ended."""
    return subprocess.run(command, cwd=ROOT, check=False, **READ)


def run(
    command: Sequence[str | os.PathLike[str]],
    *,
    env: dict[str, str] | None = None,
    cwd: Path = ROOT,
    each: Callable[[str], None] = lambda line: None,
) -> int:
    """Runs a command in the repository, passes its output on, hands each line to `each`."""
    try:
        process = subprocess.Popen(
            list(command),
            cwd=cwd,
            env={**os.environ, **(env or {})},
            **READ,
        )
    except OSError as error:
        say(f"cannot run {command[0]}: {error.strerror}")
        return 127
    assert process.stdout is not None
    with process.stdout as lines:
        for line in lines:
            sys.stdout.write(line)
            sys.stdout.flush()
            each(line)
    return process.wait()


class Clock:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self.start = time.monotonic()

    def seconds(self) -> float:
        return time.monotonic() - self.start


def in_turn(parts: Iterable[tuple[str, Callable[[], int]]]) -> int:
    """Runs parts with these names one after the other, all of them, and then says how long each took, and which failed:
    what did not return 0. Returns an exit code.
    """
    results = []
    for name, part in parts:
        say(f"\n==> {name}")
        clock = Clock()
        results.append((name, part() == 0, clock.seconds()))
    say("")
    for name, passed, seconds in results:
        say(f"  {'ok    ' if passed else 'FAILED'}  {name}, {seconds:.0f} s")
    return int(not all(passed for _, passed, _ in results))
