"""Exceptions. Each says whose fault it was, as the exit codes of the command do."""

from __future__ import annotations

import sys
from typing import Any


class Error(Exception):
    """A run failed. One line says what is wrong; `hint`, if there is one, what to do about it.

    `exit_code` is what the command `vesica` exits with for the same failure.
    """

    exit_code = 1

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint
        self.check: dict[str, Any] | None = None
        """What `vesica.check` has found in the table that it refuses."""
        if hint is not None and sys.version_info >= (3, 11):
            self.add_note(f"hint: {hint}")


class UsageError(Error):
    """The caller asked for something impossible."""

    exit_code = 2


class DataError(Error):
    """The table cannot be used."""

    exit_code = 3


class NetworkError(Error):
    """The network failed, or the peer went away or is not there: perhaps somebody else is in its place."""

    exit_code = 4


class PeerError(Error):
    """The peer, having proved who it is, misbehaved."""

    exit_code = 5


class ContractError(Error):
    """The two sides want different jobs, and the line names the field and both values; or the peer expects another peer."""

    exit_code = 6


class ResourceError(Error):
    """A limit of this machine or of the run."""

    exit_code = 7


class StoppedError(Error):
    """This side stopped the run itself: its link was cancelled, or its look-up closed."""

    exit_code = 130


class RunWarning(UserWarning):
    """Something that the user should know but that does not end a run."""
