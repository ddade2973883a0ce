"""Checks what we depend on: licences, one version of each crate, and known vulnerabilities.

Licences and versions are read from `cargo metadata`. Vulnerabilities come from RustSec's database by way of
cargo-deny, if that is installed and the database can be reached; otherwise this says that they were not checked.
Exits 1 for a licence that is not listed here, a crate in two versions that is not listed here, or a vulnerability.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys

from stages import CARGO, ROOT, run, say

ALLOWED = {
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-1-Clause",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    # Of data: the certificates that Android's builds trust.
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
}

# Crates that others want in two versions; nothing here can change that.
TWICE = {
    "base64",
    "constant_time_eq",
    "crypto-common",
    "derive_more",
    "derive_more-impl",
    "digest",
    "getrandom",
    "hashbrown",
    "itertools",
    "logos",
    "logos-codegen",
    "logos-derive",
    "quick-xml",
    "r-efi",
    "syn",
    "thiserror",
    "thiserror-impl",
    "unicode-width",
    "windows-sys",
}

TERM = re.compile(r"\(|\)|\bOR\b|\bAND\b|[\w.-]+(?: WITH [\w.-]+)?")


def is_allowed(licence: str) -> bool:
    """Whether an SPDX expression lets us choose licences that are all allowed."""
    words = []
    for term in TERM.findall(licence.replace("/", " OR ")):
        if term in ("(", ")"):
            words.append(term)
        elif term in ("OR", "AND"):
            words.append(term.lower())
        else:
            words.append(str(term in ALLOWED))
    # Nothing but parentheses, `or`, `and`, `True` and `False`.
    return bool(words) and bool(eval(" ".join(words), {"__builtins__": {}}))


def problems(metadata: dict) -> list[str]:
    """What is wrong with the licences and versions of the crates that are not ours."""
    found, versions = [], {}
    for package in metadata["packages"]:
        if package["source"] is None:
            continue
        name, version = package["name"], package["version"]
        versions.setdefault(name, set()).add(version)
        if not is_allowed(package["license"] or ""):
            found.append(f"{name} {version}: licence {package['license']}")
    for name, several in sorted(versions.items()):
        if len(several) > 1 and name not in TWICE:
            found.append(f"{name}: versions {', '.join(sorted(several))}")
    found += [
        f"{name}: only one version is left; take it off the list"
        for name in sorted(TWICE)
        if len(versions.get(name, ())) < 2
    ]
    return found


def vulnerabilities() -> int:
    """0 if there are none, or nobody can say."""
    deny = [CARGO, "deny"]
    if run([*deny, "--version"]) != 0:
        say("vulnerabilities were not checked: cargo-deny is not installed")
        return 0
    if run([*deny, "fetch", "db"]) != 0:
        say("vulnerabilities were not checked: the database cannot be reached")
        return 0
    return run([*deny, "check", "advisories"])


def main() -> int:
    command = [CARGO, "metadata", "--all-features", "--format-version", "1", "--locked"]
    output = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    metadata = json.loads(output)
    found = problems(metadata)
    for problem in found:
        say(problem)
    if not found:
        say(f"{len(metadata['packages'])} crates, licences and versions as expected")
    return 1 if vulnerabilities() != 0 or found else 0


if __name__ == "__main__":
    sys.exit(main())
