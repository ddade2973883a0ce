"""Builds the command as `make test` does, and runs its demo: two parties on this machine find the rows that they share.

Says first what it does and how long that takes, and what to install where something is missing.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

from check_msrv import version
from stages import CARGO, QUICKLY_COMPILED, ROOT, run, say, target_dir

COMMAND = target_dir() / "debug" / "vesica"


def minimum() -> str:
    """The oldest Rust with which the workspace builds."""
    declared = re.search(r'^rust-version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)
    assert declared is not None
    return declared.group(1)


def installed() -> str | None:
    """The version of Rust that is here; nothing if there is none."""
    try:
        said = subprocess.run(
            ["rustc", "--version"], cwd=ROOT, check=True, capture_output=True, text=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return said.stdout.split()[1]


def missing(rust: str | None, oldest: str, cargo: str | None, compiler: str | None) -> list[str]:
    """What to install, a line each."""
    lines = []
    if rust is None or cargo is None:
        lines.append(f"Rust {oldest} or newer is missing: https://www.rust-lang.org/tools/install")
    elif version(rust) < version(oldest):
        lines.append(f"Rust {rust} is too old, {oldest} is needed: rustup update stable")
    if compiler is None:
        lines.append(
            "a C compiler is missing (cc): apt-get install gcc libc6-dev, dnf install gcc, or"
            " xcode-select --install"
        )
    return lines


def main() -> int:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    lines = missing(installed(), minimum(), shutil.which(CARGO), compiler)
    if lines:
        say("\n".join(["the demo cannot be built:", *lines]))
        return 1
    if not COMMAND.exists():
        say(
            "Building the command, once: some 160 seconds on two cores. Then both parties run on this"
            " machine, in less than a second."
        )
    built = run([CARGO, "build", "--quiet", *QUICKLY_COMPILED, "--bin", "vesica"])
    return built or subprocess.call([COMMAND, "demo"])


if __name__ == "__main__":
    sys.exit(main())
