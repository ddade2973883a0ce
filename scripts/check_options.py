"""Refuses options of the command in texts of other crates.

A library names an `Argument`, and a face spells it: `--memory` for the command, `memory` in Python. A text with an
option in it would be wrong in the other one. Comments and tests are not looked at.
"""

from __future__ import annotations

import re
import sys
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


def problems(sources: dict[str, str]) -> list[str]:
    """The options in texts of these files, by their paths."""
    lines = []
    for path, code in sorted(sources.items()):
        code = TESTS.split(code)[0]
        for token in TOKENS.finditer(code):
            line = code.count("\n", 0, token.start()) + 1
            text = token["text"] or token["raw"] or ""
            lines += [f"{path}:{line}: {option}" for option in OPTION.findall(text)]
    return lines


def sources(root: Path) -> dict[str, str]:
    """The files of all crates but the command's, and of the Python package, without tests."""
    files = [*root.glob("crates/*/src/**/*.rs"), *root.glob("python/src/**/*.rs")]
    names = {str(path.relative_to(root)): path for path in files}
    ours = {
        name: path
        for name, path in names.items()
        if not name.startswith(f"crates/{COMMAND}/")
        and path.name not in ("tests.rs", "harness.rs")
        and "tests" not in path.parts
    }
    return {name: path.read_text(encoding="utf-8") for name, path in ours.items()}


def main() -> int:
    found = problems(sources(ROOT))
    for line in found:
        say(f"{line} stands in a text of a library: name the Argument")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
