"""Time and memory of a receiver in Python against the command's, on the same tables.

    VESICA_COMMAND=target/release/vesica python measure.py [ROWS]

Both receive from the command, which reads Parquet: the command from Parquet to Parquet, Python from a polars frame to
the result's table. Prints medians of five runs, taken by turns.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import polars

import vesica

RUNS = 5


def tables(folder: Path, rows: int) -> None:
    """Half of the keys are shared."""
    for name, first in (("ours", 0), ("theirs", rows // 2)):
        numbers = polars.int_range(first, first + rows, eager=True)
        frame = polars.DataFrame({"email": numbers.cast(str) + "@example.com", "n": numbers})
        frame = frame.with_columns(
            text=polars.lit("some text of a row, ") + polars.col("n").cast(str)
        )
        frame.sample(fraction=1, shuffle=True, seed=first).write_parquet(folder / f"{name}.parquet")


def memory_of(field: str) -> int:
    """What the kernel says of this process's memory, in bytes: `VmRSS` now, `VmHWM` at most."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(rf"{field}:\s+(\d+) kB", status).group(1)) * 1024


def receiver(folder: Path, address: str) -> None:
    """A process of its own: prints seconds, the frame's bytes, and the most that the run takes beside it."""
    me = vesica.Identity.load(folder / "ours.key")
    peer = (folder / "theirs.fingerprint").read_text()
    frame = polars.read_parquet(folder / "ours.parquet")
    # The peak begins here.
    Path("/proc/self/clear_refs").write_text("5")
    before, began = memory_of("VmRSS"), time.monotonic()
    link = vesica.connect(address, identity=me, peer=peer)
    result = vesica.receive(frame, on="email", link=link)
    took = time.monotonic() - began
    print(took, frame.estimated_size(), memory_of("VmHWM") - before, result.size)


def run_of(face: str, folder: Path, address: str) -> list[str]:
    """The line that starts a receiver."""
    if face == "Python":
        return [sys.executable, __file__, "--receiver", str(folder), address]
    line = [os.environ["VESICA_COMMAND"], "receive", "--input", f"{folder}/ours.parquet"]
    line += ["--key", "email", "--identity", f"{folder}/ours.key", "--connect", address]
    line += ["--peer", (folder / "theirs.fingerprint").read_text()]
    return [*line, "--output", f"{folder}/shared.parquet"]


def main(rows: int) -> None:
    seconds: dict[str, list[float]] = {"command": [], "Python": []}
    memory: list[tuple[int, int]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tables(folder, rows)
        for side in ("ours", "theirs"):
            key = vesica.Identity.generate()
            key.save(folder / f"{side}.key")
            (folder / f"{side}.fingerprint").write_text(key.fingerprint)
        send = [os.environ["VESICA_COMMAND"], "send", "--input", f"{folder}/theirs.parquet"]
        send += ["--key", "email", "--identity", f"{folder}/theirs.key", "--listen", "127.0.0.1:0"]
        send += ["--peer", (folder / "ours.fingerprint").read_text()]
        for _ in range(RUNS):
            for face, times in seconds.items():
                sender = subprocess.Popen(send, stderr=subprocess.PIPE, text=True)
                assert sender.stderr is not None
                found = (re.match(r"listening on (\S+)", text) for text in sender.stderr)
                address = next(match.group(1) for match in found if match)
                began = time.monotonic()
                done = subprocess.run(
                    run_of(face, folder, address), check=True, capture_output=True, text=True
                )
                took = time.monotonic() - began
                if face == "Python":
                    # Without starting the interpreter and reading the frame.
                    inner, frame, run, size = done.stdout.split()
                    assert int(size) == rows // 2
                    took = float(inner)
                    memory.append((int(frame), int(run)))
                times.append(took)
                sender.communicate()
    for face, times in seconds.items():
        print(f"{face}: {statistics.median(times):.2f} s of {[round(t, 2) for t in sorted(times)]}")
    frame, run = max(memory)
    print(f"Python's frame has {frame / 2**20:.0f} MiB, its run took {run / 2**20:.0f} MiB more")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--receiver"]:
        receiver(Path(sys.argv[2]), sys.argv[3])
    else:
        main(int(sys.argv[1]) if sys.argv[1:] else 2**20)
