"""Checks that this commit can be published as a release.

    check_release.py vX.Y.Z     everything that has to be so before the tag is published
    check_release.py --crates   the crates, in the order in which they are published
    check_release.py --notes    what the changelog says of this version

The tag is the version of the workspace, whose minor number is that of the wire as long as the major one is 0. The changelog
and the table of versions that talk to each other know it. The addresses in Cargo.toml exist, as far as their names tell.
Exits 1 if something is wrong.
"""

from __future__ import annotations

import argparse
import re
import sys

import check_packages
from stages import ROOT, say

# Top-level names that nobody can have.
RESERVED = (".example", ".invalid", ".test")
WIRE = re.compile(r"^pub const VERSION: u16 = (\d+);", re.MULTILINE)


def notes(changelog: str, version: str) -> str | None:
    """The section of a version; nothing if there is none."""
    parts = re.split(r"^## \[(.*?)\].*\n", changelog, flags=re.MULTILINE)
    sections = dict(zip(parts[1::2], parts[2::2]))
    return sections[version].strip() if version in sections else None


def problems(
    tag: str, version: str, wire: int, changelog: str, table: str, known: list[str]
) -> list[str]:
    lines = []
    if tag != f"v{version}":
        lines.append(f"the tag is {tag}, and the version {version}")
    major, minor, _ = map(int, version.split("."))
    if major == 0 and minor != wire:
        lines.append(f"Cargo.toml: version {version} has version {wire} of the wire")
    if notes(changelog, version) is None:
        lines.append(f"CHANGELOG.md: no section [{version}]")
    if not re.search(rf"^\| {major}\.{minor} \|", table, re.MULTILINE):
        lines.append(f"docs/interoperability.md: no row for {major}.{minor}")
    for address in known:
        host = re.sub(r"^[a-z]+:(?://)?(?:[^@/]*@)?|/.*$", "", address)
        if host.endswith(RESERVED):
            lines.append(f"Cargo.toml: {address} does not exist")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    chosen = parser.add_mutually_exclusive_group(required=True)
    chosen.add_argument("tag", nargs="?", help="to be published")
    chosen.add_argument("--crates", action="store_true", help="name them, in order")
    chosen.add_argument("--notes", action="store_true", help="show them")
    options = parser.parse_args()
    metadata = check_packages.described()
    packages = check_packages.published(metadata)
    version = packages["vesica"]["version"]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    if options.crates:
        say("\n".join(check_packages.in_order(packages)))
        return 0
    if options.notes:
        say(notes(changelog, version) or "")
        return 0
    wire = WIRE.search((ROOT / "crates/session/src/terms.rs").read_text(encoding="utf-8"))
    assert wire is not None
    table = (ROOT / "docs/interoperability.md").read_text(encoding="utf-8")
    found = problems(
        options.tag, version, int(wire[1]), changelog, table, check_packages.addresses(metadata)
    )
    found += check_packages.problems(metadata)
    for line in found:
        say(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
