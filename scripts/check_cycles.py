"""Refuses import cycles between the modules of a crate.

Modules of one folder form layers as crates do: if `csv` imports `source`, nothing that `source` imports may import
`csv`. An import counts for the two neighbours whose folders it goes between, however deep in them it starts and ends,
and a name that a module passes on by `pub use` counts as the module that it comes from. A module and those below it
are one: they may import each other. Tests are not looked at.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from stages import ROOT, say

Module = tuple[str, ...]

# Comments and plain string literals.
NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"', re.DOTALL)
TESTS = re.compile(r"#\[cfg\(test\)\]\s*mod \w+\s*\{")
USE = re.compile(r"\buse\s+([^;]+);")
INLINE = re.compile(r"\b((?:crate|super)(?:::\w+)+)")


def code_of(source: Path) -> str:
    """The text without comments, strings and the tests at its end."""
    return TESTS.split(NOT_CODE.sub(" ", source.read_text(encoding="utf-8")))[0]


def leaves(tree: str, prefix: str = "") -> Iterator[str]:
    """The paths of a `use` tree."""
    tree = tree.strip()
    head, brace, rest = tree.partition("{")
    if not brace:
        if tree:
            yield (prefix + tree).split(" as ")[0].strip()
        return
    part, depth = "", 0
    for letter in rest[: rest.rindex("}")] + ",":
        depth += (letter == "{") - (letter == "}")
        if letter == "," and depth == 0:
            yield from leaves(part, prefix + head)
            part = ""
        else:
            part += letter


def paths(code: str) -> Iterator[list[str]]:
    """Every path that the code imports or writes out."""
    for use in USE.finditer(code):
        for path in leaves(use.group(1)):
            yield path.split("::")
    for path in INLINE.finditer(USE.sub(" ", code)):
        yield path.group(1).split("::")


class Crate:
    """The modules of a crate and what they import of each other."""

    def __init__(self, sources: Path) -> None:
        self.code: dict[Module, str] = {}
        for source in sorted(sources.rglob("*.rs")):
            parts = list(source.relative_to(sources).with_suffix("").parts)
            if parts[-1] in ("lib", "main", "mod"):
                parts.pop()
            if "tests" not in parts:
                self.code[tuple(parts)] = code_of(source)
        self.passed_on = {module: self.names(module) for module in self.code}

    def names(self, module: Module) -> dict[str, Module]:
        """The names that a module has from modules below it."""
        found = {}
        for use in USE.finditer(self.code[module]):
            for path in leaves(use.group(1)):
                parts = [part for part in path.split("::") if part not in ("crate", "self")]
                if (*module, parts[0]) in self.code:
                    found[parts[-1]] = (*module, *parts[:-1])
        return found

    def target(self, module: Module, path: list[str]) -> Module | None:
        """The module that a path in `module` leads to; nothing if it leaves the crate."""
        if path[0] == "crate":
            at: Module = ()
            path = path[1:]
        elif path[0] in ("super", "self"):
            at = module
            while path and path[0] in ("super", "self"):
                at = at[:-1] if path[0] == "super" else at
                path = path[1:]
        elif (*module, path[0]) in self.code:
            at = module
        else:
            return None
        for part in path:
            if (*at, part) in self.code:
                at = (*at, part)
                continue
            while part in self.passed_on.get(at, {}):
                at = self.passed_on[at][part]
            break
        return at

    def imports(self) -> dict[Module, dict[str, set[str]]]:
        """For each folder, which of its modules import which others of it."""
        folders: dict[Module, dict[str, set[str]]] = {}
        for module, code in self.code.items():
            for path in paths(code):
                target = self.target(module, path)
                if target is None:
                    continue
                common = 0
                while common < min(len(module), len(target)) and module[common] == target[common]:
                    common += 1
                if common < min(len(module), len(target)):
                    folder = folders.setdefault(module[:common], {})
                    folder.setdefault(module[common], set()).add(target[common])
                    folder.setdefault(target[common], set())
        return folders


def cycle(arrows: dict[str, set[str]]) -> list[str]:
    """Modules that import each other in a ring, if there are any."""
    done: set[str] = set()

    def walk(module: str, way: list[str]) -> list[str]:
        if module in way:
            return way[way.index(module) :]
        if module in done:
            return []
        for used in sorted(arrows[module]):
            if ring := walk(used, [*way, module]):
                return ring
        done.add(module)
        return []

    for module in sorted(arrows):
        if ring := walk(module, []):
            return ring
    return []


def cycles(sources: Path) -> list[str]:
    """A line for each folder below `sources` that has a ring."""
    lines = []
    for folder, arrows in sorted(Crate(sources).imports().items()):
        if ring := cycle(arrows):
            lines.append("::".join((*folder, "{" + " -> ".join([*ring, ring[0]]) + "}")))
    return lines


def main() -> int:
    beside = [ROOT / name for name in ("reference", "evaluation/research", "testing")]
    folders = [*sorted((ROOT / "crates").iterdir()), *beside]
    problems = [f"{f.name}: {line}" for f in folders for line in cycles(f / "src")]
    for problem in problems:
        say(f"modules import each other: {problem}")
    if not problems:
        say(f"{len(folders)} crates, no module imports itself through others")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
