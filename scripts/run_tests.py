"""Runs every test and ends on one line: `N passed, N failed, N skipped`.

Stages: the scripts' own tests, `cargo test` of the whole workspace, the attacks of `research` among it, and the
documentation tests. Examples without tests are not built: `make lint` compiles those. A later stage runs even if an
earlier one failed. Exits 1 if anything failed.
"""

from __future__ import annotations

import os
import re
import sys

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


def main() -> int:
    python = [sys.executable, "-B"]
    scripts = str(ROOT / "scripts")
    options = "--workspace --features vesica-cli/tee --locked"
    # Many tests wait for a peer that is late, slow or dead.
    os.environ.setdefault("RUST_TEST_THREADS", str(2 * (os.cpu_count() or 1)))
    stages = [
        ("scripts", [*python, "-m", "unittest", "discover", "-s", scripts, "-p", "test_*.py"]),
        ("cargo test", [CARGO, "test", *options.split(), "--no-fail-fast", "--tests"]),
        ("documentation", [CARGO, "test", *options.split(), "--no-fail-fast", "--doc"]),
    ]
    total, times, bad = Tally(), [], False
    for name, command in stages:
        say(f"\n==> {name}: {' '.join(command)}")
        clock, tally = Clock(), Tally()
        code = run(command, each=tally.line)
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
