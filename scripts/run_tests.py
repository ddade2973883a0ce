"""Runs tests and ends on one line: `N passed, N failed, N skipped`.

    run_tests.py            the scripts' own tests, and the quick ones of the workspace
    run_tests.py slow       its slow ones, and those of the documentation
    run_tests.py measure    finds out which are slow, and rewrites slow_tests.txt

Examples without tests are not built: `make lint` compiles those. Test binaries run side by side, as soon as each is
built, and what one prints appears when it has ended; one that has not ended after 25 minutes is killed, and has
failed. A later stage runs even if an earlier one failed. Exits 1 if anything failed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock
from typing import NamedTuple

from stages import CARGO, QUICKLY_COMPILED, ROOT, SLOW_TO_COMPILE, WORKSPACE, Clock, run, say

PATIENCE = 25 * 60  # seconds
SLOW = ROOT / "scripts" / "slow_tests.txt"
# Seconds of a processor that a test takes with what it starts, and of the clock, unless it is slow.
OF_PROCESSOR, OF_CLOCK = 1.0, 4.0

CARGO_RESULT = re.compile(r"^test result: \S+ (\d+) passed; (\d+) failed; (\d+) ignored;")
# A test that failed, of Cargo's or of Python's; and where one gave up, with the words in the next line.
FAILED = re.compile(r"^test (.*) \.\.\. FAILED$|^(?:FAIL|ERROR): (.*)$")
PANICKED = re.compile(r"^thread '(.*?)' .*panicked at (.*):$")
UNITTEST_RAN = re.compile(r"^Ran (\d+) tests? in")
UNITTEST_END = re.compile(r"^(?:OK|FAILED)(?: \((.*)\))?$")


class Tally:
    """Sums what the runners report, and keeps what they say of failures."""

    def __init__(self) -> None:
        self.passed = self.failed = self.skipped = 0
        # Those that failed, and where the last panic of each test was that had one, which may have been caught.
        self.failures: dict[str, None] = {}
        self.panics: dict[str, str] = {}
        self.panicked: str | None = None

    def line(self, line: str) -> None:
        line = line.rstrip()
        if self.panicked is not None:
            self.panics[self.panicked] += f": {line}"
            self.panicked = None
        elif match := PANICKED.match(line):
            self.panicked = match.group(1)
            self.panics[self.panicked] = match.group(2)
        elif match := FAILED.match(line):
            self.failures[match.group(1) or match.group(2)] = None
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

    def told(self) -> list[str]:
        """The failures, a line each."""
        return [f"FAILED {name} {self.panics.get(name, '')}".rstrip() for name in self.failures]

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


class Binary(NamedTuple):
    """A test binary that is built."""

    path: Path
    # Of its package, in which it expects to run.
    directory: Path
    # Of its target.
    name: str

    def __str__(self) -> str:
        return f"{os.path.relpath(self.directory, ROOT)} {self.name}"


# The words with which to run a binary; nothing if it is not to be.
Choice = Callable[[Binary], "list[str] | None"]
# Runs what a command of Cargo's builds, sums up what it reports, and returns an exit code.
Stage = Callable[["list[str]", Tally], int]


def slow_tests() -> dict[str, list[str]]:
    """The slow tests of each binary."""
    found: dict[str, list[str]] = {}
    for line in SLOW.read_text().splitlines():
        binary, _, test = line.rpartition(" ")
        found.setdefault(binary, []).append(test)
    return found


def binaries(messages: Iterable[str], missing: Counter[str]) -> Iterator[Binary]:
    """The test binaries that Cargo tells of.

    Integration tests run the commands of their package, but Cargo builds these in any order: they are held back until
    none is `missing`, or the end.
    """
    held: list[tuple[str, Binary]] = []
    for line in messages:
        message = json.loads(line)
        if message["reason"] != "compiler-artifact":
            continue
        package, target = message["package_id"], message["target"]
        if message["profile"]["test"]:
            directory = Path(message["manifest_path"]).parent
            found = Binary(Path(message["executable"]), directory, target["name"])
            if target["kind"] == ["test"]:
                held.append((package, found))
            else:
                yield found
        elif target["kind"] == ["bin"]:
            missing[package] -= 1
        yield from (found for of, found in held if not missing[of])
        held = [(of, found) for of, found in held if missing[of]]
    yield from (found for _, found in held)


def read(command: list[str], tally: Tally) -> int:
    """Runs a command that says itself what passed. Returns its exit code."""
    return run(command, each=tally.line)


def execute(binary: Binary, words: list[str]) -> tuple[int, str]:
    """Runs a test binary. Returns its exit code and what it printed."""
    # A file, since a process that outlives the tests would keep a pipe open.
    with TemporaryFile() as printed:
        process = subprocess.Popen(
            [binary.path, *words],
            cwd=binary.directory,
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


def tests_of(binary: Binary, *words: str) -> list[str]:
    _, printed = execute(binary, ["--list", *words])
    return [line.removesuffix(": test") for line in printed.splitlines() if line.endswith(": test")]


def slow_of(binary: Binary) -> list[str]:
    """The slow tests of a binary, which has each of them."""
    listed = slow_tests().get(str(binary), [])
    if listed and (missing := set(listed) - set(tests_of(binary))):
        raise ValueError(f"{SLOW.name}: {binary} has no test {', '.join(sorted(missing))}")
    return listed


def quick(binary: Binary) -> list[str]:
    """The words with which a binary runs all but its slow tests."""
    return ["--exact", *(word for test in slow_of(binary) for word in ("--skip", test))]


def slow(binary: Binary) -> list[str] | None:
    """The words with which a binary runs its slow tests, if it has any."""
    if os.path.relpath(binary.directory, ROOT) in SLOW_TO_COMPILE:
        return []
    listed = slow_of(binary)
    return ["--exact", *listed] if listed else None


def side_by_side(words_of: Choice, command: list[str], tally: Tally) -> int:
    """Runs the test binaries that this command of Cargo's builds, each with the words that `words_of` gives it, if any.

    Returns an exit code that is not 0, if there is one.
    """
    one_at_a_time = Lock()

    def told(binary: Binary) -> int:
        try:
            words = words_of(binary)
        except ValueError as problem:
            say(str(problem))
            tally.failures[str(problem)] = None
            return 1
        if words is None:
            return 0
        code, printed = execute(binary, words)
        with one_at_a_time:
            say(f"\n==> {binary}\n{printed}")
            for line in printed.splitlines():
                tally.line(line)
        return code

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        with building(command) as build:
            runs = [
                pool.submit(told, binary) for binary in binaries(build.stdout or [], commands())
            ]
        codes = [build.returncode, *(ran.result() for ran in runs)]
    return next((code for code in codes if code != 0), 0)


def building(command: list[str]) -> subprocess.Popen[str]:
    """Cargo, as it builds tests and says so."""
    command = [*command, "--no-run", "--message-format=json-render-diagnostics"]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def measure(command: list[str]) -> int:
    """Runs each test alone, and writes down those that are slow."""
    with building(command) as build:
        found = list(binaries(build.stdout or [], commands()))
    tests = []
    for binary in found:
        heavy = tests_of(binary, "--ignored")
        tests += [(binary, test) for test in tests_of(binary) if test not in heavy]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        taken = list(pool.map(lambda test: alone(*test), tests))
    if build.returncode != 0 or None in taken:
        return 1
    slow = [
        f"{binary} {test}\n"
        for (binary, test), found in zip(tests, taken)
        if found and (found[0] > OF_PROCESSOR or found[1] > OF_CLOCK)
    ]
    SLOW.write_text("".join(sorted(slow)))
    return 0


def alone(binary: Binary, test: str) -> tuple[float, float] | None:
    """The seconds that a test takes of a processor, with what it starts and waits for, and of the clock; nothing if it
    fails.
    """
    clock = Clock()
    process = subprocess.Popen(
        [binary.path, "--exact", test],
        cwd=binary.directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    found = usage.ru_utime + usage.ru_stime, clock.seconds()
    failed = " FAILED" if process.returncode != 0 else ""
    say(f"{found[0]:6.1f} {found[1]:6.1f} {binary} {test}{failed}")
    return None if failed else found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("which", nargs="?", choices=["slow", "measure"])
    which = parser.parse_args().which
    unittest = [sys.executable, "-B", "-m", "unittest", "discover"]
    scripts, evaluation = str(ROOT / "scripts"), str(ROOT / "evaluation" / "scripts")
    # Those of the evaluation use what all scripts share.
    os.environ["PYTHONPATH"] = scripts
    cargo = [CARGO, "test", *WORKSPACE]
    # Many tests wait for a peer that is late, slow or dead.
    os.environ.setdefault("RUST_TEST_THREADS", str(4 * (os.cpu_count() or 1)))
    quickly_compiled = [CARGO, "test", *QUICKLY_COMPILED, "--tests"]
    if which == "measure":
        return measure(quickly_compiled)
    stages: list[tuple[str, Stage, list[str]]] = [
        ("scripts", read, [*unittest, "-s", scripts, "-p", "test_*.py"]),
        ("scripts of the evaluation", read, [*unittest, "-s", evaluation, "-p", "test_*.py"]),
        ("quick tests", partial(side_by_side, quick), quickly_compiled),
    ]
    if which == "slow":
        stages = [
            ("slow tests", partial(side_by_side, slow), [*cargo, "--tests"]),
            ("documentation", read, [*cargo, "--no-fail-fast", "--doc"]),
        ]
    total, times, bad = Tally(), [], False
    failures: list[str] = []
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
        failures += tally.told()
        times.append(f"  {name}: {tally.summary()}, {clock.seconds():.0f} s")
    say("\n==> all stages")
    say("\n".join(times))
    if bad:
        say("\n".join(failures))
    say(total.summary())
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
