"""Refuses options of the command in texts of other crates.

A library names an `Argument`, and a face spells it: `--memory` for the command, `memory` in Python. A text with an
option in it would be wrong in the other one. Comments and tests are not looked at.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from check_cycles import TESTS
from stages import ROOT, say

COMMAND = "cli"
OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")
# Comments come first: quotes in them begin no text. A raw string has no escapes.
TOKENS = re.compile(
    r"""//[^\n]*|/\*.*?\*/|'(?:\\.[^']*|[^\\'])'|r(?P<hashes>\#*)"(?P<raw>.*?)"(?P=hashes)|"(?P<text>(?:\\.|[^"\\])*)\"""",
    re.DOTALL,
)


def texts(sources: dict[str, str]) -> Iterator[tuple[str, str]]:
    """The texts of these files, by their paths, after their paths and lines."""
    for path, code in sorted(sources.items()):
        code = TESTS.split(code)[0]
        for token in TOKENS.finditer(code):
            line = code.count("\n", 0, token.start()) + 1
            yield f"{path}:{line}", token["text"] or token["raw"] or ""


def problems(sources: dict[str, str]) -> list[str]:
    """The options in texts of these files, by their paths."""
    return [f"{at}: {option}" for at, text in texts(sources) for option in OPTION.findall(text)]


def sources(root: Path) -> dict[str, str]:
    """The files of all crates, and of the Python package, without tests."""
    files = [*root.glob("crates/*/src/**/*.rs"), *root.glob("python/src/**/*.rs")]
    return {
        str(path.relative_to(root)): path.read_text(encoding="utf-8")
        for path in files
        if path.name not in ("tests.rs", "harness.rs") and "tests" not in path.parts
    }


def libraries(root: Path) -> dict[str, str]:
    """Those of all crates but the command's."""
    command = f"crates/{COMMAND}/"
    return {name: code for name, code in sources(root).items() if not name.startswith(command)}


def main() -> int:
    found = problems(libraries(ROOT))
    for line in found:
        say(f"{line} stands in a text of a library: name the Argument")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
