"""Checks that fuzz/Cargo.lock has the versions of the root's lock file.

What is fuzzed must be what is shipped. `make lock` brings them in step.
"""

from __future__ import annotations

import re
import sys

from stages import CARGO, ROOT, run, say

PACKAGE = re.compile(r'^\[\[package\]\]\nname = "([^"]+)"\nversion = "([^"]+)"$', re.MULTILINE)


def versions(lock: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for name, version in PACKAGE.findall(lock):
        found.setdefault(name, set()).add(version)
    return found


def differences(root: str, fuzz: str) -> list[str]:
    """Packages of which the second lock file has a version that the first has not."""
    ours = versions(root)
    return [
        f"{name} {', '.join(sorted(found))} in fuzz/Cargo.lock, {', '.join(sorted(ours[name]))} here"
        for name, found in versions(fuzz).items()
        if name in ours and not found <= ours[name]
    ]


def main() -> int:
    files = (ROOT / "Cargo.lock", ROOT / "fuzz" / "Cargo.lock")
    problems = differences(*(path.read_text(encoding="utf-8") for path in files))
    for problem in problems:
        say(problem)
    # Also that it fits the manifests as they are.
    command = ["tree", "--quiet", "--locked", "--depth", "0", "--manifest-path", "fuzz/Cargo.toml"]
    if problems or run([CARGO, *command]) != 0:
        say("run: make lock")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
