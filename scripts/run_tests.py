"""Runs every test and ends on one line: `N passed, N failed, N skipped`.

Stages: the scripts' own tests, the tests of the whole workspace, the attacks of `research` among them, and the
documentation tests. Examples without tests are not built: `make lint` compiles those. Test binaries run side by side, as
soon as each is built, and what one prints appears when it has ended; one that has not ended after a quarter of an hour
is killed, and has failed. A later stage runs even if an earlier one failed. Exits 1 if anything failed.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock

from stages import CARGO, ROOT, Clock, run, say

PATIENCE = 15 * 60  # seconds

CARGO_RESULT = re.compile(r"^test result: \S+ (\d+) passed; (\d+) failed; (\d+) ignored;")
UNITTEST_RAN = re.compile(r"^Ran (\d+) tests? in")
UNITTEST_END = re.compile(r"^(?:OK|FAILED)(?: \((.*)\))?$")


class Tally:
    """Sums what the runners report."""

    def __init__(self) -> None:
        self.passed = self.failed = self.skipped = 0

    def line(self, line: str) -> None:
        line = line.rstrip()
        if match := CARGO_RESULT.match(line):
            passed, failed, ignored = map(int, match.groups())
            self.passed += passed
            self.failed += failed
            self.skipped += ignored
        elif match := UNITTEST_RAN.match(line):
            self.passed += int(match.group(1))
        elif match := UNITTEST_END.match(line):
            for part in (match.group(1) or "").split(", "):
                kind, _, count = part.partition("=")
                if kind in ("failures", "errors"):
                    self.passed -= int(count)
                    self.failed += int(count)
                elif kind == "skipped":
                    self.passed -= int(count)
                    self.skipped += int(count)

    def summary(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def commands() -> Counter[str]:
    """How many commands each package of the workspace has."""
    described = subprocess.check_output(
        [CARGO, *"metadata --no-deps --locked --format-version 1".split()], cwd=ROOT
    )
    packages = json.loads(described)["packages"]
    return Counter(
        package["id"]
        for package in packages
        for target in package["targets"]
        if "bin" in target["kind"]
    )


def binaries(messages: Iterable[str], missing: Counter[str]) -> Iterator[tuple[Path, Path]]:
    """The test binaries that Cargo tells of, and the directory that each expects to run in.

    Integration tests run the commands of their package, but Cargo builds these in any order: they are held back until
    none is `missing`, or the end.
    """
    held: list[tuple[str, tuple[Path, Path]]] = []
    for line in messages:
        message = json.loads(line)
        if message["reason"] != "compiler-artifact":
            continue
        package, kind = message["package_id"], message["target"]["kind"]
        if message["profile"]["test"]:
            found = Path(message["executable"]), Path(message["manifest_path"]).parent
            if kind == ["test"]:
                held.append((package, found))
            else:
                yield found
        elif kind == ["bin"]:
            missing[package] -= 1
        yield from (found for of, found in held if not missing[of])
        held = [(of, found) for of, found in held if missing[of]]
    yield from (found for _, found in held)


def read(command: list[str], tally: Tally) -> int:
    """Runs a command that says itself what passed. Returns its exit code."""
    return run(command, each=tally.line)


def execute(binary: Path, directory: Path) -> tuple[int, str]:
    """Runs a test binary. Returns its exit code and what it printed."""
    # A file, since a process that outlives the tests would keep a pipe open.
    with TemporaryFile() as printed:
        process = subprocess.Popen(
            [binary],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code, end = process.wait(PATIENCE), ""
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            code, end = process.wait(), f"killed after {PATIENCE} s\n"
        printed.seek(0)
        return code, printed.read().decode(errors="replace") + end


def side_by_side(command: list[str], tally: Tally) -> int:
    """Runs the test binaries that this command of Cargo's builds. Returns an exit code that is not 0, if there is one."""
    one_at_a_time = Lock()

    def told(binary: Path, directory: Path) -> int:
        code, printed = execute(binary, directory)
        with one_at_a_time:
            say(f"\n==> {binary.name}\n{printed}")
            for line in printed.splitlines():
                tally.line(line)
        return code

    missing = commands()
    command = [*command, "--no-run", "--message-format=json-render-diagnostics"]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as build:
            assert build.stdout is not None
            runs = [pool.submit(told, *found) for found in binaries(build.stdout, missing)]
        codes = [build.returncode, *(ran.result() for ran in runs)]
    return next((code for code in codes if code != 0), 0)


def main() -> int:
    unittest = [sys.executable, "-B", "-m", "unittest", "discover"]
    scripts = str(ROOT / "scripts")
    cargo = [CARGO, "test", *"--workspace --features vesica-cli/tee --locked".split()]
    # Many tests wait for a peer that is late, slow or dead.
    os.environ.setdefault("RUST_TEST_THREADS", str(2 * (os.cpu_count() or 1)))
    stages = [
        ("scripts", read, [*unittest, "-s", scripts, "-p", "test_*.py"]),
        ("cargo test", side_by_side, [*cargo, "--tests"]),
        ("documentation", read, [*cargo, "--no-fail-fast", "--doc"]),
    ]
    total, times, bad = Tally(), [], False
    for name, execute, command in stages:
        say(f"\n==> {name}: {' '.join(command)}")
        clock, tally = Clock(), Tally()
        code = execute(command, tally)
        if code != 0 and tally.failed == 0:
            say(f"==> {name} ended with exit code {code}")
            tally.failed += 1
        bad |= tally.failed > 0 or code != 0
        for field in ("passed", "failed", "skipped"):
            setattr(total, field, getattr(total, field) + getattr(tally, field))
        times.append(f"  {name}: {tally.summary()}, {clock.seconds():.0f} s")
    say("\n==> all stages")
    say("\n".join(times))
    say(total.summary())
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
