"""Everything that is checked without running the code, or the checks that are named. Exits 1 if any fails.

ruff and typos come from PyPI, pinned, into a virtual environment below the target directory.
"""

from __future__ import annotations

import argparse
import os
import sys

from stages import CARGO, ROOT, in_turn, run, say, target_dir

TOOLS = "ruff==0.17.5 typos==1.52.0"


def tool(name: str) -> str | None:
    """A pinned tool, installed on first use; nothing if it cannot be installed."""
    venv = target_dir() / "lint-venv"
    programs = venv / ("Scripts" if os.name == "nt" else "bin")
    stamp = venv / "installed"
    if not stamp.is_file() or stamp.read_text() != TOOLS:
        python = str(programs / ("python.exe" if os.name == "nt" else "python"))
        pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        made = run([sys.executable, "-m", "venv", "--clear", str(venv)])
        if made != 0 or run([*pip, *TOOLS.split()]) != 0:
            say(f"cannot install {TOOLS}: Python's venv and pip, and a package index, are needed")
            return None
        stamp.write_text(TOOLS)
    return str(programs / (f"{name}.exe" if os.name == "nt" else name))


def formatting() -> int:
    fuzz = ["--manifest-path", "fuzz/Cargo.toml"]
    code = run([CARGO, "fmt", "--all", "--check"])
    return run([CARGO, "fmt", *fuzz, "--check"]) or code


def python_checks() -> int:
    binary = tool("ruff")
    if binary is None:
        return 1
    code = run([binary, "check", "."])
    return run([binary, "format", "--check", "."]) or code


def spelling() -> int:
    binary = tool("typos")
    return 1 if binary is None else run([binary, "--format", "brief"])


def main() -> int:
    here, python = ROOT / "scripts", [sys.executable, "-B"]
    # With the verifiers of reports, which are no part of an ordinary build.
    workspace = ["--workspace", "--locked", "--features", "vesica-cli/tee,vesica/tracing"]
    # Each feature only adds: what is left without all of them is what can fail to build.
    bare = [CARGO, "clippy", "--locked", "--package", "vesica", "--package", "vesica-tables"]
    bare += ["--no-default-features", "--", "-Dwarnings"]
    checks = [
        ("format", formatting),
        ("layers", lambda: run([*python, str(here / "check_layers.py")])),
        ("import cycles", lambda: run([*python, str(here / "check_cycles.py")])),
        ("links", lambda: run([*python, str(here / "check_links.py")])),
        ("message codes", lambda: run([*python, str(here / "check_kinds.py")])),
        ("secrets in Debug", lambda: run([*python, str(here / "check_debug.py")])),
        ("options in libraries", lambda: run([*python, str(here / "check_options.py")])),
        ("counts", lambda: run([*python, str(here / "check_counts.py")])),
        ("packages", lambda: run([*python, str(here / "check_packages.py")])),
        ("minimum Rust version", lambda: run([*python, str(here / "check_msrv.py")])),
        ("lock files", lambda: run([*python, str(here / "check_locks.py")])),
        ("Python", python_checks),
        ("spelling", spelling),
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
    parser = argparse.ArgumentParser(description=__doc__)
    names = [name for name, _ in checks]
    parser.add_argument("checks", nargs="*", metavar="CHECK", help=", ".join(names))
    wanted = parser.parse_args().checks
    if unknown := set(wanted) - set(names):
        parser.error(f"no check is called {min(unknown)!r}")
    return in_turn([check for check in checks if not wanted or check[0] in wanted])


if __name__ == "__main__":
    sys.exit(main())
