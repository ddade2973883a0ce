"""The command `vesica`, which `pip install vesica` gives too; `python -m vesica` is the same."""

from __future__ import annotations

import os
import signal
import sys

from ._vesica import run_command


def main() -> int:
    """Runs the command that this process was started with. Returns its exit code."""
    # A standard stream that is closed stays so for the command; nothing that is opened takes its number.
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    # The command handles Ctrl-C itself.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return run_command([sys.executable, "-m", "vesica"], sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
