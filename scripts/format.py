"""Formats every Rust file with rustfmt, or with `--check` says which are not formatted.

`cargo fmt` does not find the modules that macros declare.
"""

from __future__ import annotations

import argparse
import sys

from stages import ROOT, run

FOLDERS = ("crates", "examples", "fuzz", "python", "reference", "research", "testing")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = ["--check"] if parser.parse_args().check else []
    files = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.rs"))]
    ours = [path for path in files if "target" not in path.relative_to(ROOT).parts]
    return run(["rustfmt", "--edition", "2024", *check, *ours])


if __name__ == "__main__":
    sys.exit(main())
