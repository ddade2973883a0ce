"""Checks what the crates publish, and in which order, without building anything.

Each published crate uses published crates only, by version; what its tests need besides has no version, so that Cargo leaves
it out. Each package holds both licences and a README without links out of it, whose example the documentation tests
compile, and asks for hosted documentation of all features. The README of `vesica` says how many other crates it builds. The
addresses of the workspace, of the repository and for reports of security faults, stand in Cargo.toml alone. Exits 1 if something is wrong.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from stages import CARGO, ROOT, say

LICENCES = ("LICENSE-APACHE", "LICENSE-MIT")
LINK = re.compile(r"\]\(([^()\s]+)\)|^\[[^\]]+\]: (\S+)", re.MULTILINE)
ELSEWHERE = re.compile(r"(?:https?|mailto):|#")
EXAMPLE = re.compile(r"^```rust(?:,no_run)?\n", re.MULTILINE)
COMPILES_README = '#[cfg(doctest)]\n#[doc = include_str!("../README.md")]'
# What the README of `vesica` says of other crates, and the features with which it builds so many.
COUNTS = {
    r"Besides its own crates it builds (\d+)": [],
    r"without default\s+features (\d+)": ["--no-default-features"],
    r"With all features it builds (\d+)": ["--all-features"],
}


def described() -> dict:
    command = [CARGO, "metadata", "--format-version", "1", "--locked", "--no-deps"]
    return json.loads(subprocess.check_output(command, cwd=ROOT))


def published(metadata: dict) -> dict[str, dict]:
    return {p["name"]: p for p in metadata["packages"] if p["publish"] != []}


def in_order(packages: dict[str, dict]) -> list[str]:
    """The names of packages, each after those that it uses."""
    found: list[str] = []

    def add(name: str) -> None:
        for used in packages[name]["dependencies"]:
            if used["kind"] != "dev" and used["name"] in packages:
                add(used["name"])
        if name not in found:
            found.append(name)

    for name in sorted(packages):
        add(name)
    return found


def wrong_uses(packages: dict[str, dict]) -> list[str]:
    """Dependencies that keep a package from being published."""
    lines = []
    for name, package in packages.items():
        for used in package["dependencies"]:
            ours, has_version = used.get("path") is not None, used["req"] != "*"
            arrow = f"{name} -> {used['name']}"
            if not ours or (used["name"] in packages and has_version):
                continue
            if used["kind"] != "dev":
                lines.append(f"{arrow}: published crates use published crates, by version")
            elif has_version:
                lines.append(f"{arrow}: what is not published, and tests alone use, has no version")
    return lines


def wrong_package(package: dict, files: Iterable[str], readme: str, library: str) -> list[str]:
    """What is wrong with one package, of these files."""
    lines = [f"{name} is not in it" for name in (*LICENCES, "README.md") if name not in files]
    if not package["repository"] or not package["description"]:
        lines.append("it has no repository or no description")
    hosted = ((package["metadata"] or {}).get("docs") or {}).get("rs") or {}
    if not hosted.get("all-features"):
        lines.append("its hosted documentation leaves features out")
    links = ("".join(found) for found in LINK.findall(readme))
    lines += [f"README.md: {to} leaves it" for to in links if not ELSEWHERE.match(to)]
    if any("lib" in target["kind"] for target in package["targets"]) and "sh\n" not in readme:
        if not EXAMPLE.search(readme):
            lines.append("README.md has no example")
        if COMPILES_README not in library:
            lines.append("no test compiles the example of README.md")
    return [f"{package['name']}: {line}" for line in lines]


def files_of(name: str) -> list[str]:
    command = [CARGO, "package", "--list", "--allow-dirty", "--locked", "--package", name]
    return subprocess.check_output(command, cwd=ROOT, text=True).splitlines()


def others_built(features: list[str]) -> int:
    """How many crates but ours the crate `vesica` builds on Linux."""
    command = [CARGO, "tree", "--locked", "--package", "vesica", "--edges", "no-dev"]
    command += ["--prefix", "none", "--target", "x86_64-unknown-linux-gnu", *features]
    lines = subprocess.check_output(command, cwd=ROOT, text=True).splitlines()
    crates = {" ".join(line.split()[:2]) for line in lines if line}
    return sum(not crate.startswith("vesica") for crate in crates)


def wrong_counts(readme: str) -> list[str]:
    lines = []
    for pattern, features in COUNTS.items():
        said, built = re.search(pattern, readme), others_built(features)
        if said is None or int(said[1]) != built:
            lines.append(f"vesica: README.md: {' '.join(features)} it builds {built} others")
    return lines


def addresses(metadata: dict) -> list[str]:
    """The addresses of the workspace."""
    named = {package["repository"] for package in metadata["packages"]} - {None}
    return sorted({*named, *((metadata["metadata"] or {}).get("addresses") or {}).values()})


def elsewhere(texts: Iterable[tuple[str, str]], known: list[str]) -> list[str]:
    """Files that spell an address, which only Cargo.toml does."""
    bare = [address.partition(":")[2].lstrip("/") for address in known]
    return [
        f"{path}: {address}: addresses stand in Cargo.toml alone"
        for path, text in texts
        for address in bare
        if address in text and path != "Cargo.toml"
    ]


def tracked() -> Iterable[tuple[str, str]]:
    for path in subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines():
        if (ROOT / path).is_file():
            yield path, (ROOT / path).read_bytes().decode("utf-8", "ignore")


def problems(metadata: dict) -> list[str]:
    packages = published(metadata)
    lines = wrong_uses(packages)
    for name, package in packages.items():
        folder = Path(package["manifest_path"]).parent
        readme = (folder / "README.md").read_text(encoding="utf-8")
        library = (folder / "src" / "lib.rs").read_text(encoding="utf-8")
        lines += wrong_package(package, files_of(name), readme, library)
    lines += wrong_counts((ROOT / "crates/vesica/README.md").read_text(encoding="utf-8"))
    return lines + elsewhere(tracked(), addresses(metadata))


def main() -> int:
    metadata = described()
    found = problems(metadata)
    for line in found:
        say(line)
    if not found:
        say(f"{len(published(metadata))} crates can be published")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
