"""How far a run is, and a bar in notebooks."""

from __future__ import annotations

import sys
import threading
import time
import warnings
from dataclasses import dataclass, replace
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


REHEARSAL = threading.local()
"""Has a list `warnings` on the threads of a rehearsal: a party that fails worries the other one for nothing."""


class Listener:
    """Hears of a run's events."""

    def __init__(self, progress: ProgressOption) -> None:
        if progress == "auto":
            progress = NotebookBar() if in_notebook() else None
        self._progress = progress
        self._held: list[str] | None = getattr(REHEARSAL, "warnings", None)

    def __enter__(self) -> None:
        pass

    def __exit__(self, failure: type[BaseException] | None, *_: object) -> None:
        if isinstance(self._progress, NotebookBar):
            self._progress.end("done" if failure is None else "failed")

    def warn(self, text: str) -> None:
        if self._held is not None:
            self._held.append(text)
            return
        # To the caller of the package.
        level, frame = 1, sys._getframe().f_back
        while frame is not None and frame.f_globals.get("__package__") == __package__:
            level, frame = level + 1, frame.f_back
        warnings.warn(text, RunWarning, stacklevel=level + 1)

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
        self._last: Progress | None = None

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        same = self._last is not None and progress.stage == self._last.stage
        self._last = progress
        if not same or now - self._shown >= 0.1:
            self._shown = now
            self._show(progress)

    def end(self, how: str) -> None:
        """Shows that the run is over."""
        if self._last is not None:
            self._show(replace(self._last, stage=how, done=1, total=1, bucket=None))

    def _show(self, progress: Progress) -> None:
        from IPython.display import HTML, display

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
