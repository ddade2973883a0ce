"""Measures whole runs, two processes over loopback, and prints one line for each.

    bench.py [--runs N] [--network NAME] [PROTOCOL:RECEIVER_SIZE:SENDER_SIZE ...]

Takes the release build of `vesica`; `make bench` builds it before. Seconds are medians.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

from stages import ROOT, say, target_dir

CASES = (
    "compact-dh:256:256",
    "compact-dh:1024:1024",
    "compact-dh:4096:4096",
    "compact-dh:65536:65536",
    "compact-dh:256:65536",
    "compact-dh-sh1:256:256",
    "compact-dh-sh2:256:256",
    "dh:256:256",
    "dh:65536:65536",
    "dh:1048576:1048576",
    "kkrt:65536:65536",
    "kkrt:1048576:1048576",
    "spot-low:65536:65536",
    "spot-low:1048576:1048576",
    "spot-fast:65536:65536",
    "spot-fast:1048576:1048576",
    "sparse-okvs:65536:65536",
    "sparse-okvs:1048576:1048576",
)


def mebibytes(count: int | None) -> str:
    """The count in MiB; a dash where the system does not tell."""
    return "-" if count is None else str(count >> 20)


def measure(case: str, options: argparse.Namespace) -> bool:
    protocol, receiver, sender = case.split(":")
    command = [str(target_dir() / "release" / "vesica"), "bench", "--json"]
    command += ["--protocol", protocol, "--receiver-size", receiver, "--sender-size", sender]
    command += ["--runs", str(options.runs), "--network", options.network]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        say(f"{case}: failed with exit code {done.returncode}")
        return False
    result = json.loads(done.stdout)
    seconds, sent, memory = result["seconds"], result["bytes"], result["peak_memory_bytes"]
    say(
        f"{protocol:15} {receiver:>8} {sender:>8}"
        f" {seconds['offline']:10.4f} {seconds['online']:10.4f} {seconds['total']:10.4f}"
        f" {sent['receiver_to_sender']:12} {sent['sender_to_receiver']:12}"
        f" {mebibytes(memory['receiver']):>6} {mebibytes(memory['sender']):>6}"
    )
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", default=CASES, metavar="PROTOCOL:N:N")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--network", default="lan")
    options = parser.parse_intermixed_args()
    say(
        f"{'protocol':15} {'receiver':>8} {'sender':>8}"
        f" {'offline s':>10} {'online s':>10} {'total s':>10}"
        f" {'to sender B':>12} {'to receiver B':>12} {'MiB r':>6} {'MiB s':>6}"
    )
    # Every case is measured, whether or not an earlier one failed.
    results = [measure(case, options) for case in options.cases]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
