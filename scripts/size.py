"""How large the code is: lines of code, comments and tests of each crate, now or beside an earlier commit.

    python3 scripts/size.py [--base REV]

Blank lines count nowhere. A line is test if its file is below `tests/` or is named `tests.rs`, `recorded.rs`,
`*_tests.rs` or `test_*.py`, or if it is in a module under `#[cfg(test)]`; comment if it holds nothing else; code
otherwise. Benchmarks and examples count as tests: nobody who uses a crate compiles them. With `--base` each cell is the
present number with its difference, and a last column says how many lines of code were moved: taken out of one file and
put into another with the same words. Data, prose and lock files do not count.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from stages import ROOT, say

TEST_FOLDERS = {"tests", "benches", "examples"}
TEST_FILE = re.compile(
    r"(?:^|/)(?:tests\.rs|harness\.rs|recorded\.rs|[^/]*_tests\.rs|test_[^/]*\.py)$"
)
# `crates/psi/src/lib.rs` counts for `psi`; what is not in a crate, for its top folder.
WHOLE = {"testing", "fuzz", "reference"}


@dataclass
class Size:
    """Lines by kind, and the lines of code themselves, file by file."""

    code: int = 0
    comments: int = 0
    tests: int = 0
    lines: dict[str, Counter[str]] = field(default_factory=dict)


def git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, check=False, capture_output=True, encoding="utf-8"
    )
    if done.returncode != 0:
        raise SystemExit(f"git {arguments[0]}: {done.stderr.strip()}")
    return done.stdout


def files(revision: str | None) -> Iterator[tuple[str, str]]:
    """Path and text of every source file of a commit, or of the working tree."""
    if revision is None:
        for path in git("ls-files", "*.rs", "*.py").splitlines():
            if (ROOT / path).is_file():
                yield path, (ROOT / path).read_text(encoding="utf-8")
        return
    listed = git("ls-tree", "-r", "--name-only", revision).splitlines()
    for path in listed:
        if path.endswith((".rs", ".py")):
            yield path, git("show", f"{revision}:{path}")


def crate_of(path: str) -> str:
    parts = PurePosixPath(path).parts
    return parts[1] if parts[0] == "crates" else parts[0]


def is_test(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return bool(TEST_FOLDERS & set(parts) or parts[0] in WHOLE or TEST_FILE.search(path))


def kinds(path: str, text: str) -> Iterator[tuple[str, str]]:
    """Each line that is not blank, with its kind: `code`, `comment` or `test`."""
    python, whole = path.endswith(".py"), is_test(path)
    in_text = False
    pending = False
    inside: int | None = None
    depth = 0
    for raw in text.splitlines():
        line = raw.strip()
        if not line:
            continue
        if python:
            quotes = line.count('"""')
            comment = in_text or line.startswith(("#", '"""'))
            in_text ^= quotes % 2 == 1
        else:
            comment = line.startswith("//")
            pending |= line == "#[cfg(test)]"
            bare = re.sub(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])\'|//.*', "", line)
            if pending and inside is None and line.endswith("{"):
                inside, pending = depth, False
            elif pending and line.endswith(";"):
                yield line, "test"
                pending = False
                continue
            depth += bare.count("{") - bare.count("}")
        test = whole or inside is not None or pending
        yield line, "test" if test else "comment" if comment else "code"
        if inside is not None and depth <= inside:
            inside = None


def measure(revision: str | None) -> dict[str, Size]:
    sizes: dict[str, Size] = {}
    for path, text in files(revision):
        size = sizes.setdefault(crate_of(path), Size())
        for line, kind in kinds(path, text):
            if kind == "code":
                size.code += 1
                size.lines.setdefault(path, Counter())[line] += 1
            elif kind == "comment":
                size.comments += 1
            else:
                size.tests += 1
    return sizes


def moved(before: dict[str, Size], now: dict[str, Size]) -> Counter[str]:
    """For each crate, lines of code that are new in one of its files and gone from another file of any crate."""
    then = {path: lines for size in before.values() for path, lines in size.lines.items()}
    here = {path: lines for size in now.values() for path, lines in size.lines.items()}
    gone: Counter[str] = Counter()
    for path, lines in then.items():
        gone.update(lines - here.get(path, Counter()))
    found: Counter[str] = Counter()
    for path, lines in sorted(here.items()):
        both = (lines - then.get(path, Counter())) & gone
        gone -= both
        # Braces and the like are moved by nobody.
        found[crate_of(path)] += sum(n for line, n in both.items() if len(line) > 3)
    return found


def cell(now: int, before: int | None) -> str:
    return str(now) if before is None or now == before else f"{now} ({now - before:+d})"


def main() -> int:
    parser = argparse.ArgumentParser(description="Lines of code, comments and tests of each crate.")
    parser.add_argument("--base", metavar="REV", help="a commit to compare with")
    base = parser.parse_args().base
    now = measure(None)
    before = measure(base) if base else None
    moves = moved(before, now) if before is not None else None
    say("| crate | code | comments | tests |" + (" moved |" if base else ""))
    say("|---|---|---|---|" + ("---|" if base else ""))
    names = sorted(now.keys() | (before or {}).keys())
    total, total_before = Size(), Size()
    for name in [*names, "all"]:
        size, old = now.get(name, Size()), (before or {}).get(name, Size())
        if name == "all":
            size, old = total, total_before
        else:
            for sum_, part in ((total, size), (total_before, old)):
                sum_.code += part.code
                sum_.comments += part.comments
                sum_.tests += part.tests
        row = [
            cell(getattr(size, kind), getattr(old, kind) if base else None)
            for kind in ("code", "comments", "tests")
        ]
        if moves is not None:
            row.append(str(sum(moves.values()) if name == "all" else moves[name]))
        say(f"| {name} | " + " | ".join(row) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
