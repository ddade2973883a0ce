"""Refuses an import that points up, and a package without the workspace's lints.

The crates form layers. A crate may use crates of lower layers only, be it as a normal, a build or
a development dependency. `reference` uses none of ours and is used by tests only; `testing` uses `wire`
and what is below, and is used by the tests of what is above; `research` uses any and is used by none.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from stages import CARGO, ROOT, say

# Lowest first, by the folder below crates/; the last is beside it.
LAYERS = (
    "kernels",
    "files",
    "keys",
    "primitives",
    "wire",
    "correlations",
    "encodings",
    "oprf",
    "psi",
    "circuit",
    "plan",
    "tables",
    "session",
    "offline",
    "ledger",
    "lookup",
    "vesica",
    "cli",
    "python",
)
REFERENCE = "reference"
RESEARCH = "evaluation/research"
TESTING = "testing"
# Up to this layer `testing` uses crates, and above it the tests of crates use `testing`.
UNDER_TESTING = "wire"
PYTHON = "python"
# They have unsafe code.
OWN_LINTS = ("kernels", PYTHON)


def layer_of(manifest: str, root: Path) -> str | None:
    """The layer of a package: its folder below crates/, `reference`, `evaluation/research`, `testing` or `python`."""
    parts = Path(manifest).parent.relative_to(root).parts
    name = "/".join(parts)
    if name in (REFERENCE, RESEARCH, TESTING, PYTHON):
        return name
    if len(parts) == 2 and parts[0] == "crates" and parts[1] in LAYERS:
        return parts[1]
    return None


def height(layer: str) -> float:
    """The place of a layer, lowest first; that of `testing` is between two crates."""
    return LAYERS.index(UNDER_TESTING) + 0.5 if layer == TESTING else LAYERS.index(layer)


def wrong_imports(metadata: dict) -> list[str]:
    """What is wrong with the arrows between our packages; empty if nothing."""
    root = Path(metadata["workspace_root"])
    problems, layers = [], {}
    for package in metadata["packages"]:
        layer = layer_of(package["manifest_path"], root)
        if layer is None:
            problems.append(
                f"{package['name']}: its folder is no layer; add it to LAYERS in {Path(__file__).name}"
            )
        else:
            layers[package["name"]] = layer
    for package in metadata["packages"]:
        user = layers.get(package["name"])
        if user is None:
            continue
        for dependency in package["dependencies"]:
            used = layers.get(dependency["name"])
            if used is None:
                continue
            kind = dependency["kind"] or "normal"
            arrow = f"{package['name']} -> {dependency['name']} ({kind} dependency)"
            if user == REFERENCE:
                problems.append(f"{arrow}: reference uses nothing of ours")
            elif used == REFERENCE:
                if kind != "dev":
                    problems.append(f"{arrow}: reference is for tests only")
            elif used == RESEARCH:
                problems.append(f"{arrow}: research is no part of the product")
            elif used == TESTING and kind != "dev":
                problems.append(f"{arrow}: testing is for tests only")
            elif user != RESEARCH and height(used) >= height(user):
                problems.append(f"{arrow}: {used} is not below {user}")
    return problems


def without_lints(metadata: dict) -> list[str]:
    """Packages without the workspace's lints, which forbid `unsafe`, but for those that say their own."""
    root = Path(metadata["workspace_root"])
    problems = []
    for package in metadata["packages"]:
        manifest = Path(package["manifest_path"])
        text = manifest.read_text(encoding="utf-8")
        wanted = f"[lints{'.rust' if layer_of(str(manifest), root) in OWN_LINTS else ''}]"
        if wanted not in text.splitlines():
            problems.append(f"{manifest.relative_to(root)}: lacks {wanted}")
    return problems


def main() -> int:
    command = [CARGO, "metadata", "--no-deps", "--format-version", "1", "--locked"]
    output = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    metadata = json.loads(output)
    problems = wrong_imports(metadata) + without_lints(metadata)
    for problem in problems:
        say(problem)
    if not problems:
        say(f"{len(metadata['packages'])} packages, every import points down")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
