"""Refuses two kinds of message with one code.

A message's `Kind` has a code on the wire, in whichever crate it is declared. No code may stand twice: a frame of one
protocol would be read as one of another. Tests are not looked at; they have codes of their own from 200 on, which no
message may have.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from check_cycles import TESTS
from stages import ROOT, say

KIND = re.compile(r"\bconst (\w+): Kind = Kind \{\s*code: (\d+),")
FOR_TESTS = 200


def problems(sources: dict[str, str]) -> list[str]:
    """What is wrong with the codes in these texts, by their paths."""
    lines, owners = [], {}
    for path, text in sorted(sources.items()):
        for name, code in KIND.findall(TESTS.split(text)[0]):
            owner = f"{path}: {name}"
            if int(code) >= FOR_TESTS:
                lines.append(f"{owner} has code {code}, which is for tests")
            elif code in owners:
                lines.append(f"{owner} has code {code}, and so has {owners[code]}")
            owners.setdefault(code, owner)
    return lines


def sources(root: Path) -> dict[str, str]:
    """The crates' own files and those of research, without harnesses of tests."""
    files = [*root.glob("crates/*/src/**/*.rs"), *root.glob("evaluation/research/src/**/*.rs")]
    ours = (path for path in files if path.name not in ("tests.rs", "harness.rs"))
    return {str(path.relative_to(root)): path.read_text(encoding="utf-8") for path in ours}


def main() -> int:
    found = problems(sources(ROOT))
    for line in found:
        say(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
