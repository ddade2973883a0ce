"""The largest value among the keys that both sides have, computed on shares with MPyC (`pip install mpyc==0.11`).

    python largest_value.py -M3 COLUMN RECEIVER.csv SENDER.csv

Nobody learns which rows match, or another value. Party 0 has the receiver's file, party 1 the sender's, and party 2 has
none: MPyC needs an honest majority. `-M3` runs all three on this machine, where each reads its own file only; on three
machines, each gives `-P` options with the addresses, and the other file's name may be anything. Values have to be below
2^62 in size. A comparison of large numbers takes MPyC some milliseconds per cell.
"""

from __future__ import annotations

import csv
import sys

from mpyc.runtime import mpc

# What is added to tell cells that do not match from values.
LOW = -(2**62)


def signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


def read(path: str, column: str) -> list[tuple[int, int]]:
    """The share of whether each cell matches, and the share of its value."""
    with open(path, newline="") as file:
        return [(int(row["match"]), signed(int(row[column]))) for row in csv.DictReader(file)]


async def main(column: str, files: list[str]) -> None:
    number = mpc.SecInt(72)
    cells = read(files[mpc.pid], column) if mpc.pid < 2 else []
    await mpc.start()
    count, other = await mpc.transfer(len(cells), senders=[0, 1])
    if count != other:
        sys.exit("the two files have different numbers of cells: they are not of one run")

    def shared(of: int, party: int) -> list:
        own = [cell[of] for cell in cells] if mpc.pid == party else [None] * count
        return mpc.input([number(value) for value in own], senders=party)

    best = number(LOW)
    pairs = zip(shared(0, 0), shared(0, 1), shared(1, 0), shared(1, 1))
    for bit, other_bit, share, other_share in pairs:
        matches = bit + other_bit - 2 * bit * other_bit
        total = share + other_share
        # Modulo 2^64, with a sign.
        value = total - 2**64 * (total >= 2**63) + 2**64 * (total < -(2**63))
        best = mpc.max(best, mpc.if_else(matches, value, number(LOW)))
    largest = await mpc.output(best)
    await mpc.shutdown()
    print("nothing matches" if largest == LOW else f"largest value: {largest}")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    mpc.run(main(sys.argv[1], sys.argv[2:]))
