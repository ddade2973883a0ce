"""Tests the crates with kernels for processors on aarch64, emulated on an x86-64 Debian.

The cross compiler and the emulator are Debian's packages, unpacked below the target directory: nothing is
installed, and no root is needed. Rust comes from rustup if that has the target, else from Debian too. After the
test suites, an emulated party of the command meets one of this machine, once for each protocol below, and
the result is compared with a plain intersection. Exits 1 if anything failed.
"""

from __future__ import annotations

import contextlib
import csv
import io
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from debian import is_here, unpack, wrapper
from run_tests import Tally
from stages import CARGO, ROOT, Clock, run, say, target_dir

TARGET = "aarch64-unknown-linux-gnu"
SUITES = "vesica-kernels vesica-primitives vesica-encodings vesica-correlations".split()
TOOLS = "gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static".split()
RUST = "rustc-web libstd-rust-web-dev:arm64".split()

# Tests that take minutes under emulation, and why they can be left out.
SLOW = {
    "cuckoo::parameters::tests::simulations_keep_to_the_bound": "simulates tables, without a kernel",
    "cuckoo::parameters::tests::the_bound_is_met": "the same",
    "polynomial::tests::small_cases_match_the_reference": "Lagrange's formula, bit by bit; "
    "gf2k::small_cases_match_the_reference and the tests of larger sizes run",
}

# With the options that they need; between them they use every kernel.
PROTOCOLS = {"vole": "", "spot-low": "--security semi-honest", "compact-dh": ""}

WORK = target_dir() / "aarch64"
UNPACKED = WORK / "root"
EMULATOR = UNPACKED / "usr/bin/qemu-aarch64-static"
DATA = ROOT / "crates" / "cli" / "data"


def has_target(target: str = TARGET) -> bool:
    """Whether rustup has the standard library for a target."""
    command = ["rustup", "target", "list", "--installed"]
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        return target in output.split()
    return False


def fetch(packages: list[str]) -> int:
    """Unpacks packages with what they need."""

    # The compilers run here; of what is for aarch64, only Rust's library is linked.
    def wanted(archive: Path) -> bool:
        return not archive.stem.endswith("_arm64") or archive.name.startswith("libstd-rust")

    return unpack(packages, WORK, ["amd64", "arm64"], wanted)


def environment() -> dict[str, str] | None:
    """What makes cargo build for aarch64 and run what it built; nothing if the tools cannot be fetched."""
    if not is_here("; on aarch64 itself, `make test` runs the same tests"):
        return None
    own_rust = has_target()
    if fetch(TOOLS if own_rust else TOOLS + RUST):
        say(f"the tools cannot be fetched; for Rust alone: rustup target add {TARGET}")
        return None
    compiler = wrapper(WORK, "cc", "bin/aarch64-linux-gnu-gcc", f"--sysroot={UNPACKED}")
    emulator = [EMULATOR, "-L", UNPACKED / "usr/aarch64-linux-gnu"]
    name = TARGET.replace("-", "_")
    env = {
        "CARGO_TARGET_DIR": str(WORK / "build"),
        f"CARGO_TARGET_{name.upper()}_LINKER": compiler,
        f"CARGO_TARGET_{name.upper()}_RUNNER": " ".join(map(str, emulator)),
        f"CC_{name}": compiler,
        f"AR_{name}": wrapper(WORK, "ar", "bin/aarch64-linux-gnu-ar"),
    }
    if not own_rust:
        env["RUSTC"] = wrapper(WORK, "rustc", "bin/rustc", "--sysroot", UNPACKED / "usr")
    return env


def suites(env: dict[str, str]) -> tuple[Tally, bool]:
    """The test suites; their totals, and whether they passed."""
    command = [CARGO, "test", "--locked", "--no-fail-fast", "--target", TARGET, "--lib", "--tests"]
    command += [word for suite in SUITES for word in ("--package", suite)]
    command += ["--", *(word for name in SLOW for word in ("--skip", name))]
    tally = Tally()
    return tally, run(command, env=env, each=tally.line) == 0


class Party:
    """One party of a run."""

    def __init__(self, program: list[str], arguments: str, folder: Path) -> None:
        command = [*program, *arguments.split()]
        self.process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )

    def address(self) -> str | None:
        """Where it listens, if it does."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if match := re.match(r"listening on (\S+)", line):
                return match.group(1)
            say(line.rstrip())
        return None

    def finish(self, seconds: float = 600) -> bool:
        """Whether it succeeded; if not, shows what it said."""
        try:
            _, said = self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            _, said = self.process.communicate()
        if self.process.returncode:
            say(said)
        return self.process.returncode == 0


def intersection() -> str:
    """The donors whose address a customer has."""
    with open(DATA / "customers.csv", newline="") as table:
        customers = {row["contact"].strip().lower() for row in csv.DictReader(table)} - {""}
    out = io.StringIO()
    with open(DATA / "donors.csv", newline="") as table:
        rows = csv.DictReader(table)
        assert rows.fieldnames is not None
        result = csv.DictWriter(out, rows.fieldnames, lineterminator="\n")
        result.writeheader()
        result.writerows(row for row in rows if row["email"].strip().lower() in customers)
    return out.getvalue()


def meet(receiver: list[str], sender: list[str], options: str, folder: Path) -> bool:
    """One run; whether both parties succeeded and the result is right."""
    key = {}
    for name, program in (("receiver", receiver), ("sender", sender)):
        keygen = [*program, "keygen", "--out", f"{name}.key"]
        output = subprocess.run(keygen, cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
        key[name] = re.search(r"vs1:\S+", output.stdout)[0]
    peer = Party(
        sender,
        f"send --input {DATA}/customers.csv --key contact --normalize contact=email {options} "
        f"--listen 127.0.0.1:0 --identity sender.key --peer {key['receiver']}",
        folder,
    )
    address = peer.address()
    if address is None:
        peer.finish()
        return False
    party = Party(
        receiver,
        f"receive --input {DATA}/donors.csv --key email --normalize email=email {options} "
        f"--connect {address} --identity receiver.key --peer {key['sender']} --output shared.csv",
        folder,
    )
    received = party.finish()
    # Without a receiver the sender would go on waiting.
    sent = peer.finish(60 if received else 0)
    return received and sent and (folder / "shared.csv").read_text() == intersection()


def meetings(how: str, other: list[str]) -> Tally:
    """Runs of another program with that of this machine, receiving and sending in turn."""
    tally = Tally()
    native = [str(target_dir() / "debug/vesica")]
    for i, (protocol, more) in enumerate(PROTOCOLS.items()):
        receiver, sender = (native, other) if i % 2 else (other, native)
        with tempfile.TemporaryDirectory() as folder:
            options = f"--protocol {protocol} {more}"
            right = meet(receiver, sender, options, Path(folder))
        tally.passed += right
        tally.failed += not right
        role = "sender" if i % 2 else "receiver"
        say(f"{protocol}, {how} {role}: {'ok' if right else 'FAILED'}")
    return tally


def runs(env: dict[str, str]) -> Tally:
    """Runs of the emulated command with that of this machine."""
    build = [CARGO, "build", "--locked", "--package", "vesica-cli"]
    if run([*build, "--target", TARGET], env=env) or run(build):
        tally = Tally()
        tally.failed += 1
        return tally
    emulator = env[f"CARGO_TARGET_{TARGET.replace('-', '_').upper()}_RUNNER"].split()
    return meetings("emulated", [*emulator, str(WORK / "build" / TARGET / "debug/vesica")])


def main() -> int:
    clock = Clock()
    env = environment()
    if env is None:
        return 1
    for name, reason in SLOW.items():
        say(f"left out: {name}: {reason}")
    total, passed = suites(env)
    met = runs(env)
    total.passed += met.passed
    total.failed += met.failed
    say(f"\naarch64: {total.summary()}, {clock.seconds():.0f} s")
    return 0 if passed and not total.failed else 1


if __name__ == "__main__":
    sys.exit(main())
