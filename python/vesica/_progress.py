"""How far a run is, and a bar in notebooks."""

from __future__ import annotations

import sys
import time
import warnings
from dataclasses import dataclass
from typing import Any, Callable, Literal, Union

from ._errors import RunWarning


@dataclass(frozen=True)
class Progress:
    """How far a run is."""

    stage: str
    """`reading`, `meeting`, `connected`, the phases of the protocol, `writing`."""
    done: int | None
    """Items of the stage's current step that are done, where their number is known."""
    total: int | None
    """Items of that step."""
    bucket: int | None
    """The running bucket, counted from 1, in runs of several."""
    buckets: int | None
    """How many buckets there are."""
    bytes_sent: int
    """Bytes sent to the peer so far, including framing but not TLS."""
    bytes_received: int
    """Bytes received from the peer so far."""


ProgressOption = Union[Callable[[Progress], None], Literal["auto"], None]


class Listener:
    """Hears of a run's events."""

    def __init__(self, progress: ProgressOption) -> None:
        if progress == "auto":
            progress = NotebookBar() if in_notebook() else None
        self._progress = progress

    def warn(self, text: str) -> None:
        # To the caller of `receive` or `send`.
        warnings.warn(text, RunWarning, stacklevel=4)

    def progress(self, *values: Any) -> None:
        if self._progress is not None:
            self._progress(Progress(*values))


def in_notebook() -> bool:
    """Whether a notebook's kernel runs this."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")


class NotebookBar:
    """Shows progress below a notebook's cell."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._shown = 0.0
        self._stage = ""

    def __call__(self, progress: Progress) -> None:
        from IPython.display import HTML, display

        now = time.monotonic()
        if progress.stage == self._stage and now - self._shown < 0.1:
            return
        self._stage, self._shown = progress.stage, now
        html = HTML(bar(progress))
        if self._handle is None:
            self._handle = display(html, display_id=True)
        else:
            self._handle.update(html)


def bar(progress: Progress) -> str:
    """A progress element and a line of text, in HTML."""
    known = progress.total is not None
    filled = f' value="{progress.done}" max="{max(progress.total or 0, 1)}"' if known else ""
    moved = (progress.bytes_sent + progress.bytes_received) / 1e6
    text = f"{progress.stage}, {moved:.1f} MB"
    if progress.bucket is not None:
        text += f", bucket {progress.bucket} of {progress.buckets}"
    return f"<progress{filled}></progress> <small>{text}</small>"
