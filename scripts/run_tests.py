"""Runs every test and ends on one line: `N passed, N failed, N skipped`.

Stages: the scripts' own tests, the tests of the whole workspace, the attacks of `research` among them, and the
documentation tests. Examples without tests are not built: `make lint` compiles those. A later stage runs even if an
earlier one failed. Exits 1 if anything failed.

The programs with tests run as `cargo test` would run them, but two at a time: many tests wait for a peer that is late,
slow or dead. What one prints is shown when it has ended.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from stages import CARGO, ROOT, Clock, run, say

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


def programs(options: list[str]) -> list[tuple[Path, Path]] | None:
    """Compiles all tests: each program, those of whole runs first, with its folder. Nothing if that failed."""
    command = [CARGO, "test", *options, "--tests", "--no-run"]
    command.append("--message-format=json-render-diagnostics")
    built = subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.PIPE, encoding="utf-8")
    if built.returncode != 0:
        return None
    artifacts = [json.loads(line) for line in built.stdout.splitlines() if line.startswith("{")]
    tests = [a for a in artifacts if a.get("executable") and a["profile"]["test"]]
    tests.sort(key=lambda test: "test" not in test["target"]["kind"])
    return [(Path(test["executable"]), Path(test["manifest_path"]).parent) for test in tests]


def run_programs(options: list[str], each: Callable[[str], None]) -> int:
    """Compiles and runs all tests, and hands each line that they print to `each`."""
    found = programs(options)
    if found is None:
        return 1

    def output(program: Path, folder: Path) -> tuple[int, str]:
        done = subprocess.run(
            [program],
            cwd=folder,
            env={**os.environ, "CARGO_MANIFEST_DIR": str(folder)},
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
        )
        return done.returncode, done.stdout

    failed = False
    with ThreadPoolExecutor(2) as pool:
        running = {pool.submit(output, *program): program[0].name for program in found}
        for done in as_completed(running):
            code, text = done.result()
            say(f"\n     Running {running[done]}\n{text.rstrip()}")
            for line in text.splitlines():
                each(line)
            failed |= code != 0
    return int(failed)


def main() -> int:
    python = [sys.executable, "-B"]
    discover = [
        *python,
        "-m",
        "unittest",
        "discover",
        "-s",
        str(ROOT / "scripts"),
        "-p",
        "test_*.py",
    ]
    options = "--workspace --features vesica-cli/tee --locked".split()
    documentation = [CARGO, "test", *options, "--no-fail-fast", "--doc"]
    os.environ.setdefault("RUST_TEST_THREADS", str(2 * (os.cpu_count() or 1)))
    stages: list[tuple[str, Callable[[Callable[[str], None]], int]]] = [
        ("scripts", lambda each: run(discover, each=each)),
        ("workspace", lambda each: run_programs(options, each)),
        ("documentation", lambda each: run(documentation, each=each)),
    ]
    total, times, bad = Tally(), [], False
    for name, stage in stages:
        say(f"\n==> {name}")
        clock, tally = Clock(), Tally()
        code = stage(tally.line)
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
