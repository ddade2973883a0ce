"""Puts the two sides' shares together: which rows match, and what their values are.

    python open_shares.py RECEIVER.csv SENDER.csv

The files are those that `vesica receive` and `vesica send` wrote with `--reveal shares` in one run, which has the same
name in both sides' summaries and reports; those of two runs give nonsense. Whoever has both learns the
intersection: this program shows what the files mean, and is no way to use them. The output is CSV: the receiver's rows
that match, counted from 1, the values of either side as signed numbers of units of their scale, and their payloads as texts.
"""

from __future__ import annotations

import csv
import sys
from itertools import zip_longest

VALUES = ("receiver_value", "sender_value")
PAYLOADS = ("receiver_payload", "sender_payload")


def signed(value: int) -> int:
    """A number modulo 2^64 as one between -2^63 and 2^63 - 1."""
    value %= 2**64
    return value - 2**64 if value >= 2**63 else value


def text(one: str, other: str) -> str:
    """The exclusive or of two payloads in hexadecimal digits, without the zeros after it."""
    both = zip(bytes.fromhex(one), bytes.fromhex(other))
    return bytes(a ^ b for a, b in both).rstrip(b"\0").decode()


def main(receiver: str, sender: str) -> None:
    with open(receiver, newline="") as ours, open(sender, newline="") as theirs:
        near, far = csv.DictReader(ours), csv.DictReader(theirs)
        columns = [name for name in VALUES if name in (near.fieldnames or [])]
        out = csv.writer(sys.stdout, lineterminator="\n")
        payloads = [name for name in PAYLOADS if name in (near.fieldnames or [])]
        out.writerow(["row", *columns, *payloads])
        rows = []
        for a, b in zip_longest(near, far):
            if a is None or b is None:
                sys.exit("the two files have different numbers of cells: they are not of one run")
            if a["match"] != b["match"]:
                values = [signed(int(a[c]) + int(b[c])) for c in columns]
                rows.append([int(a["row"]), *values, *(text(a[c], b[c]) for c in payloads)])
        out.writerows(sorted(rows))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
