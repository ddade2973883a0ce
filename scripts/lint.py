"""Everything that is checked without running the code. Exits 1 if any check fails.

ruff comes from PyPI, pinned, into a virtual environment below the target directory.
"""

from __future__ import annotations

import os
import sys

from stages import CARGO, ROOT, Clock, run, say, target_dir

RUFF = "ruff==0.17.5"


def ruff() -> str | None:
    """The pinned ruff, installed on first use; nothing if it cannot be installed."""
    venv = target_dir() / "lint-venv"
    binary = venv / ("Scripts/ruff.exe" if os.name == "nt" else "bin/ruff")
    stamp = venv / "installed"
    if stamp.is_file() and stamp.read_text() == RUFF:
        return str(binary)
    python = venv / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet", RUFF]
    if run([sys.executable, "-m", "venv", "--clear", str(venv)]) != 0 or run(pip) != 0:
        say(f"cannot install {RUFF}: Python's venv and pip, and a package index, are needed")
        return None
    stamp.write_text(RUFF)
    return str(binary)


def python_checks() -> int:
    binary = ruff()
    if binary is None:
        return 1
    code = run([binary, "check", "."])
    return run([binary, "format", "--check", "."]) or code


def main() -> int:
    here, python = ROOT / "scripts", [sys.executable, "-B"]
    # With the verifiers of reports, which are no part of an ordinary build.
    workspace = ["--workspace", "--locked", "--features", "vesica-cli/tee"]
    # Each feature only adds: what is left without all of them is what can fail to build.
    bare = [CARGO, "clippy", "--locked", "--package", "vesica", "--package", "vesica-tables"]
    bare += ["--no-default-features", "--", "-Dwarnings"]
    checks = [
        ("format", lambda: run([*python, str(here / "format.py"), "--check"])),
        ("layers", lambda: run([*python, str(here / "check_layers.py")])),
        ("import cycles", lambda: run([*python, str(here / "check_cycles.py")])),
        ("links", lambda: run([*python, str(here / "check_links.py")])),
        ("message codes", lambda: run([*python, str(here / "check_kinds.py")])),
        ("secrets in Debug", lambda: run([*python, str(here / "check_debug.py")])),
        ("options in libraries", lambda: run([*python, str(here / "check_options.py")])),
        ("minimum Rust version", lambda: run([*python, str(here / "check_msrv.py")])),
        ("lock files", lambda: run([*python, str(here / "check_locks.py")])),
        ("Python", python_checks),
        ("clippy", lambda: run([CARGO, "clippy", *workspace, "--all-targets", "--", "-Dwarnings"])),
        ("without features", lambda: run(bare)),
        (
            "rustdoc",
            lambda: run(
                [CARGO, "doc", *workspace, "--lib", "--no-deps"],
                env={"RUSTDOCFLAGS": "-Dwarnings"},
            ),
        ),
    ]
    results = []
    for name, check in checks:
        say(f"\n==> {name}")
        clock = Clock()
        results.append((name, check() == 0, clock.seconds()))
    say("\n==> lint")
    for name, passed, seconds in results:
        say(f"  {'ok    ' if passed else 'FAILED'}  {name}, {seconds:.0f} s")
    return 0 if all(passed for _, passed, _ in results) else 1


if __name__ == "__main__":
    sys.exit(main())
