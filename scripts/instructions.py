"""Counts the instructions that each kernel takes per item, portable and with AVX2, and prints a table.

Valgrind counts the instructions of one run of each benchmark of `crates/kernels`, and takes off those of a run that
sets everything up and measures nothing. It does not know AVX-512. Counts do not depend on what else a machine does, but
on the compiler. Exits 1 if a count cannot be had.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys

from stages import CARGO, ROOT, say

BACKENDS = ["Portable", "Avx2"]

# What is counted: its name, the benchmark, one to take off, and the number of items.
BAND = "band, 2^14 rows"
KERNELS = [
    ("`band`, rows eliminated, per row", f"{BAND}/insert", None, 1 << 14),
    ("`band`, solving back, per column", f"{BAND}/insert and solve", f"{BAND}/insert", 17141),
    ("`band`, decoding, per row", f"{BAND}/combine", None, 1 << 14),
    ("`curve25519`, ladder, per point", "curve25519/multiply", None, 1 << 10),
    (
        "`curve25519`, one point by many scalars, per scalar",
        "curve25519/multiply one point",
        None,
        1 << 10,
    ),
    ("`curve25519`, Elligator decoding, per point", "curve25519/decode", None, 1 << 10),
    ("`code`, convolution, per row of 16 bytes", "code, 2^17 rows/convolve", None, 1 << 17),
    (
        "`code`, convolution, per row of 32 bytes",
        "code, 2^17 rows/convolve, 32 bytes",
        None,
        1 << 17,
    ),
    ("`blake3`, 64 bytes, per hash", "blake3/keyed_hash_many, 64 bytes", None, 1 << 12),
    ("`binary`, GF(2^256), per product", "binary, 2^16 elements/multiply", None, 1 << 16),
    ("`transpose`, per 128 bits", "transpose, 2^20 rows/transpose128", None, 1 << 20),
]


def program() -> str | None:
    """The benchmarks, built."""
    command = [CARGO, "bench", "--locked", "--package", "vesica-kernels", "--no-run"]
    command += ["--message-format", "json-render-diagnostics"]
    built = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    messages = [json.loads(line) for line in built.stdout.splitlines()]
    found = [m["executable"] for m in messages if m.get("target", {}).get("name") == "kernels"]
    return found[-1] if found else None


def instructions(benchmarks: str, name: str) -> int:
    """The instructions of a run of this benchmark, setup included."""
    valgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    command = [*valgrind, benchmarks, "--test", "--exact", name]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    # A process that the benchmark starts comes before it.
    counts = re.findall(rb"Collected : (\d+)", result.stderr)
    if result.returncode or not counts:
        raise RuntimeError(f"{name}: valgrind fails")
    if name and b"Success" not in result.stdout:
        raise RuntimeError(f"there is no benchmark {name}")
    return int(counts[-1])


def main() -> int:
    if not shutil.which("valgrind"):
        say("this needs Valgrind")
        return 1
    benchmarks = program()
    if benchmarks is None:
        return 1
    nothing = instructions(benchmarks, "")
    say("| kernel, per | " + " | ".join(BACKENDS) + " |\n|---|" + "---|" * len(BACKENDS))
    for title, name, less, items in KERNELS:
        counts = []
        for backend in BACKENDS:
            taken = instructions(benchmarks, f"{name}/{backend}")
            taken -= instructions(benchmarks, f"{less}/{backend}") if less else nothing
            counts.append(f"{taken / items:.3g}" if taken < 100 * items else f"{taken // items}")
        say(f"| {title} | " + " | ".join(counts) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
