"""Builds the command for Windows on an x86-64 Debian, and runs it under wine.

    windows.py            everything
    windows.py PART…      some of it, in this order: build, alone, refusals, runs, tests

`alone` runs the command's demo, `refusals` gives it what it must refuse, and `runs` lets it meet the command of this
machine, in both roles, the result compared with a plain intersection. `tests` runs the suites of what asks Windows itself:
files, their access control lists, and sockets.

The compilers and wine are Debian's packages, unpacked below the target directory: nothing is installed, and no root is
needed. Rust comes from rustup if that has the target, else from Debian, whose standard library is built from its source.
Wine stands for Windows as far as it goes: it makes lists of the permissions of Unix. Exits 1 if anything failed.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from aarch64 import has_target, meetings
from debian import is_here, unpack, wrapper
from stages import CARGO, captured, in_turn, run, say, target_dir

TARGET = "x86_64-pc-windows-gnu"
TOOLS = "gcc-mingw-w64-x86-64-posix wine64".split()
RUST = "rustc-web rust-web-src libstd-rust-web-dev".split()
SUITES = "vesica-files vesica-wire".split()

WORK = target_dir() / "windows"
UNPACKED = WORK / "root"
PREFIX = WORK / "prefix"
PROGRAM = WORK / "build" / TARGET / "debug/vesica.exe"

# Tests that fail under wine, and why.
LEFT_OUT = {
    "id::tests::a_copy_is_another_file": "files have the numbers of a Unix file system, which are given out again",
}

# Wine 8 lacks the library from which Rust's standard library takes random bytes.
SHIM = """
#include <windows.h>
#include <ntsecapi.h>
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE bytes, SIZE_T length) {
    return RtlGenRandom(bytes, (ULONG)length);
}
"""


def start_and_end(rustc: str) -> int:
    """Two objects that every program has, which are no part of what Cargo builds."""
    sources = UNPACKED / "usr/lib/rustlib/src/rust/library/rtstartup"
    folder = UNPACKED / "usr/lib/rustlib" / TARGET / "lib"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("rsbegin", "rsend"):
        command = [rustc, "--target", TARGET, "--emit=obj", "-o", str(folder / f"{name}.o")]
        if code := run([*command, str(sources / f"{name}.rs")], env={"RUSTC_BOOTSTRAP": "1"}):
            return code
    return 0


def tools() -> dict[str, str] | None:
    """What makes cargo build for Windows, and run what it built; nothing if the tools cannot be fetched."""
    if not is_here():
        return None
    own_rust = has_target(TARGET)
    WORK.mkdir(parents=True, exist_ok=True)
    if unpack(TOOLS if own_rust else TOOLS + RUST, WORK, ["amd64"]):
        say(f"the tools cannot be fetched; for Rust alone: rustup target add {TARGET}")
        return None
    tool = "x86_64-w64-mingw32-"
    compiler = wrapper(WORK, "cc", f"bin/{tool}gcc-posix")
    imports = wrapper(WORK, f"{tool}dlltool", f"bin/{tool}dlltool")
    flags = f"-C target-feature=+crt-static -C link-self-contained=no -C dlltool={imports}"
    # In the place of a script that looks for it where it would be installed.
    wrapper(WORK, "root/usr/lib/wine/wineserver", "lib/wine/wineserver64", "-p0")
    name = TARGET.replace("-", "_")
    env = {
        "CARGO_TARGET_DIR": str(WORK / "build"),
        f"CARGO_TARGET_{name.upper()}_LINKER": compiler,
        f"CARGO_TARGET_{name.upper()}_RUNNER": wrapper(WORK, "wine", "lib/wine/wine64"),
        f"CARGO_TARGET_{name.upper()}_RUSTFLAGS": flags,
        f"CC_{name}": compiler,
        f"AR_{name}": wrapper(WORK, "ar", f"bin/{tool}ar"),
        "WINEPREFIX": str(PREFIX),
        "WINEDEBUG": "-all",
        # Neither .NET nor a browser is fetched.
        "WINEDLLOVERRIDES": "mscoree,mshtml=",
    }
    if not own_rust:
        rustc = wrapper(WORK, "rustc", "bin/rustc", "--sysroot", UNPACKED / "usr")
        env |= {"RUSTC": rustc, "RUSTC_BOOTSTRAP": "1"}
        env["CARGO_UNSTABLE_BUILD_STD"] = "std,panic_unwind,test"
        if start_and_end(rustc):
            return None
    return env


def wine(env: dict[str, str]) -> list[str] | None:
    """The command under wine, once there is a place for what that takes for a machine."""
    variables = [f"{name}={value}" for name, value in env.items() if name.startswith("WINE")]
    runner = ["env", *variables, env[f"CARGO_TARGET_{TARGET.replace('-', '_').upper()}_RUNNER"]]
    system = PREFIX / "drive_c/windows/system32"
    library = system / "bcryptprimitives.dll"
    if not library.is_file():
        system.mkdir(parents=True, exist_ok=True)
        # Debian's wine looks for these where they would be installed.
        for needed in (UNPACKED / "usr/x86_64-w64-mingw32/lib").glob("*.dll"):
            shutil.copy(needed, system)
        if run([*runner, "wineboot", "--init"]):
            return None
        source = WORK / "shim.c"
        source.write_text(SHIM)
        compiler = env[f"CC_{TARGET.replace('-', '_')}"]
        if run([compiler, "-shared", "-o", str(library), str(source), "-ladvapi32"]):
            return None
    return [*runner, str(PROGRAM)]


def tests(env: dict[str, str]) -> bool:
    for name, reason in LEFT_OUT.items():
        say(f"left out: {name}: {reason}")
    # A list that lets everybody write becomes a mode of Unix, of which this would take a part away.
    os.umask(0)
    command = [CARGO, "test", "--locked", "--no-fail-fast", "--target", TARGET, "--lib"]
    command += [word for suite in SUITES for word in ("--package", suite)]
    command += ["--", *(word for name in LEFT_OUT for word in ("--skip", name))]
    return wine(env) is not None and run(command, env=env) == 0


def build(env: dict[str, str]) -> bool:
    command = [CARGO, "build", "--locked", "--package", "vesica-cli"]
    return run([*command, "--target", TARGET], env=env) == 0 and run(command) == 0


def alone(env: dict[str, str]) -> bool:
    program = wine(env)
    if program is None:
        return False
    right = True
    for words, answer in (["--version"], "vesica "), (["demo"], "a plain intersection"):
        done = captured([*program, *words])
        answered = done.returncode == 0 and answer in done.stdout
        say(f"vesica {' '.join(words)}: {'ok' if answered else 'FAILED'}")
        if not answered:
            say(done.stdout)
        right &= answered
    return right


# What a run is given besides a private key of its own, and how it ends.
REFUSALS = {
    "--output out.csv": (4, "nobody listens"),
    "--output out.csv --identity exposed.key": (2, "other users can read it"),
    "--output hard.csv": (2, "are the same file"),
    "--output new.csv --report NEW.csv": (2, "are the same file"),
    "--output out.csv --work-dir others": (2, "can be changed by other users"),
    "--output out.csv --work-dir others/own": (2, "can be moved by other users"),
}


def refusals(env: dict[str, str]) -> bool:
    """What would put a secret or an input at risk is refused: wine makes lists of the permissions of Unix."""
    program = wine(env)
    if program is None:
        return False
    right = True
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "table.csv").write_text("id\n1\n")
        os.link(folder / "table.csv", folder / "hard.csv")
        made = [
            captured([*program, "keygen", "--out", f"{name}/{key}.key"]) for key in ("own", "peer")
        ]
        peer = re.search(r"vs1:\S+", made[1].stdout)
        assert peer is not None
        shutil.copy(folder / "own.key", folder / "exposed.key")
        (folder / "exposed.key").chmod(0o644)
        (folder / "others").mkdir()
        (folder / "others").chmod(0o777)
        for words, (code, answer) in REFUSALS.items():
            more = words if "--identity" in words else f"{words} --identity own.key"
            options = f"--input table.csv --key id --connect 127.0.0.1:1 --wait 1 {more}"
            done = captured(
                ["env", "-C", name, *program, "receive", "--peer", peer[0], *options.split()]
            )
            answered = done.returncode == code and answer in done.stdout
            say(f"{words}: {'ok' if answered else 'FAILED'}")
            if not answered:
                say(done.stdout)
            right &= answered
    return right


def runs(env: dict[str, str]) -> bool:
    program = wine(env)
    return program is not None and not meetings("Windows", program).failed


PARTS: dict[str, Callable[[dict[str, str]], bool]] = {
    "build": build,
    "alone": alone,
    "refusals": refusals,
    "runs": runs,
    "tests": tests,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], help="some of it")
    chosen = parser.parse_args().parts or list(PARTS)
    env = tools()
    if env is None:
        return 1
    parts = [(name, PARTS[name]) for name in PARTS if name in chosen]
    return in_turn((name, lambda part=part: int(not part(env))) for name, part in parts)


if __name__ == "__main__":
    sys.exit(main())
