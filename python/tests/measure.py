"""Time and memory of a receiver in Python against the command's, on the same tables.

    VESICA_COMMAND=target/release/vesica python measure.py [ROWS]

Both receive from the command, which reads Parquet: the command from Parquet to Parquet, Python from a polars frame to
the result's table. Prints medians of five runs, taken by turns.
"""

from __future__ import annotations

import os
import re
import resource
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


def peak() -> int:
    """The most memory that this process has had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def receiver(folder: Path, address: str) -> None:
    """A process of its own, whose memory is its peak: prints seconds, the frame's bytes, and the run's."""
    me = vesica.Identity.load(folder / "ours.key")
    peer = (folder / "theirs.fingerprint").read_text()
    frame = polars.read_parquet(folder / "ours.parquet")
    before, began = peak(), time.monotonic()
    link = vesica.connect(address, identity=me, peer=peer)
    result = vesica.receive(frame, on="email", link=link)
    print(time.monotonic() - began, frame.estimated_size(), peak() - before, result.size)


def main(rows: int) -> None:
    command = os.environ["VESICA_COMMAND"]
    seconds: dict[str, list[float]] = {"command": [], "Python": []}
    memory: list[tuple[int, int]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tables(folder, rows)
        keys = {side: vesica.Identity.generate() for side in ("ours", "theirs")}
        for side, key in keys.items():
            key.save(folder / f"{side}.key")
            (folder / f"{side}.fingerprint").write_text(key.fingerprint)
        for _ in range(RUNS):
            for face, times in seconds.items():
                line = [command, "send", "--input", folder / "theirs.parquet", "--key", "email"]
                line += ["--identity", folder / "theirs.key", "--peer", keys["ours"].fingerprint]
                line += ["--listen", "127.0.0.1:0"]
                sender = subprocess.Popen(line, stderr=subprocess.PIPE, text=True)
                assert sender.stderr is not None
                found = (re.match(r"listening on (\S+)", text) for text in sender.stderr)
                address = next(match.group(1) for match in found if match)
                began = time.monotonic()
                if face == "command":
                    line = [
                        command,
                        "receive",
                        "--input",
                        folder / "ours.parquet",
                        "--key",
                        "email",
                    ]
                    line += [
                        "--identity",
                        folder / "ours.key",
                        "--peer",
                        keys["theirs"].fingerprint,
                    ]
                    line += ["--connect", address, "--output", folder / "shared.parquet"]
                    subprocess.run(line, check=True, stderr=subprocess.DEVNULL)
                    times.append(time.monotonic() - began)
                else:
                    child = [sys.executable, __file__, "--receiver", str(folder), address]
                    out = subprocess.run(
                        child, check=True, stdout=subprocess.PIPE, text=True
                    ).stdout
                    took, frame, run, size = out.split()
                    assert int(size) == rows // 2
                    times.append(float(took))
                    memory.append((int(frame), int(run)))
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
