"""Checks the minimum Rust version that the workspace declares.

Always: no locked dependency declares a newer one. Clippy's `incompatible_msrv`, which `make lint`
runs, finds standard library items that are newer. With `--build`, the whole workspace is checked
with that toolchain if rustup has it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

from stages import CARGO, ROOT, run, say


def version(text: str) -> tuple[int, ...]:
    numbers = [int(part) for part in text.split("-")[0].split(".")]
    return tuple([*numbers, 0, 0][:3])


def too_new(packages: list[dict], minimum: str) -> list[str]:
    """Packages that declare a newer minimum, as `name version (needs X)`."""
    return [
        f"{package['name']} {package['version']} (needs Rust {package['rust_version']})"
        for package in packages
        if package["rust_version"] and version(package["rust_version"]) > version(minimum)
    ]


def build(minimum: str) -> int:
    try:
        command = ["rustup", "toolchain", "list"]
        installed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        installed = ""
    if not any(line.startswith(minimum) for line in installed.splitlines()):
        say(f"Rust {minimum} is not installed, so nothing was built with it.")
        say(f"To do that: rustup toolchain install {minimum} --profile minimal")
        return 0
    check = ["check", "--workspace", "--locked", "--all-targets"]
    return run(["rustup", "run", minimum, "cargo", *check])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", action="store_true", help="build with that toolchain")
    options = parser.parse_args()
    command = [CARGO, "metadata", "--format-version", "1", "--locked"]
    output = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    metadata = json.loads(output)
    members = set(metadata["workspace_members"])
    ours = [package for package in metadata["packages"] if package["id"] in members]
    declared = {package["rust_version"] for package in ours}
    if len(declared) != 1 or None in declared:
        say(f"the packages declare different minimum versions: {declared}")
        return 1
    (minimum,) = declared
    problems = too_new(metadata["packages"], minimum)
    for problem in problems:
        say(f"newer than Rust {minimum}: {problem}")
    if problems:
        return 1
    say(f"Rust {minimum}: {len(metadata['packages'])} locked packages allow it")
    return build(minimum) if options.build else 0


if __name__ == "__main__":
    sys.exit(main())
