"""Which accounts have a password of a published list of breached ones, without showing either side's passwords.

    python check_passwords.py accounts.csv --set breached.vset --connect HOST:PORT --identity FILE --peer vs1:…

`accounts.csv` has the columns `account` and `password`. The list is published once, from a table with one column:

    vesica publish --input breached.csv --key password --identity list.key --set-dir breached.db \
        --output breached.vset --queries 2^24 --max-keys 2^21
    vesica serve --set-dir breached.db --listen 0.0.0.0:7341 --identity list.key --clients clients --quota 100000

The server learns how many different passwords are new to it; nobody else learns anything. Passwords reach `vesica` through
a pipe and are on no disk. With `--state DIR` a password that was checked before is not asked about again.
"""

from __future__ import annotations

import argparse
import csv
import io
import subprocess
import sys


def breached(accounts: str, options: list[str]) -> list[str]:
    """The accounts whose passwords are on the list."""
    words = ["vesica", "lookup", "--input", accounts, "--key", "password", "--progress", "none"]
    found = subprocess.run([*words, *options], stdout=subprocess.PIPE, text=True, check=False)
    if found.returncode != 0:
        sys.exit(found.returncode)
    return [row["account"] for row in csv.DictReader(io.StringIO(found.stdout))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "accounts", help="CSV with the columns account and password; - is standard input"
    )
    # All others are those of `vesica lookup`.
    options, others = parser.parse_known_args()
    for account in breached(options.accounts, others):
        print(account)


if __name__ == "__main__":
    main()
