"""Jobs whose buckets are tasks of their own."""

from __future__ import annotations

import inspect
import json
import os
from array import array
from collections.abc import Mapping
from typing import Any, Callable

from . import _vesica
from ._arguments import (
    Database,
    InputPath,
    JobDirectory,
    OutputPath,
    Path,
    Rows,
    check_arguments,
    checked,
)
from ._errors import UsageError
from ._progress import Listener, ProgressOption
from ._runs import (
    Format,
    Mode,
    Result,
    Texts,
    arguments_of,
    reading_of,
    receive,
)
from ._table import Table
from ._vesica import Link


class TaskListener(Listener):
    """Hears of a task's events, and asks whether it is still wanted."""

    def __init__(self, progress: ProgressOption, check: Callable[[], None] | None = None) -> None:
        super().__init__(progress)
        self._check = check

    def check(self) -> None:
        if self._check is not None:
            self._check()


class SplitJob:
    """A job that `split` has cut up in a directory. What the command `vesica bucket` does with it, `run` does.

    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> def cut(role, ids, link):
    ...     table = polars.DataFrame({"id": ids})
    ...     vesica.split(table, role=role, job=folder / role, on="id", link=link)
    >>> left, right = vesica.pair()
    >>> import threading
    >>> other = threading.Thread(target=cut, args=("sender", [2, 3], right))
    >>> other.start(); cut("receiver", [1, 2], left); other.join()
    >>> job = vesica.SplitJob(folder / "receiver")
    >>> job
    <SplitJob of the receiver, buckets=1, attempts=4>
    """

    @checked
    def __init__(self, directory: JobDirectory) -> None:
        """Opens the job that a directory has.

        Raises UsageError if there is none of this version.
        """
        self._directory = os.fspath(directory)
        self._job = _vesica.SplitJob.open(self._directory)

    @property
    def directory(self) -> str:
        """The directory, with which a machine runs tasks."""
        return self._directory

    @property
    def role(self) -> str:
        """`receiver` or `sender`."""
        return self._job.role

    @property
    def contract(self) -> dict[str, Any]:
        """What both sides have agreed on."""
        contract: dict[str, Any] = json.loads(self._job.contract)
        return contract

    @property
    def buckets(self) -> int:
        """How many buckets there are."""
        return int(self.contract["buckets"])

    @property
    def attempts(self) -> int:
        """How often each bucket may be tried."""
        return int(self.contract["bucket_attempts"])

    @checked
    def run(
        self,
        bucket: int,
        attempt: int = 0,
        *,
        gateway: str | None = None,
        listen: str | None = None,
        connect: str | None = None,
        threads: int | None = None,
        wait: float = 120,
        timeout: float = 120,
        progress: ProgressOption = "auto",
        check: Callable[[], None] | None = None,
    ) -> dict[str, Any]:
        """Makes an attempt at a bucket, against the peer's task for the same attempt, and leaves the result in the
        directory. Returns `bucket`, `attempt`, `bytes_sent` and `bytes_received`.

        The two tasks meet at a gateway, or one listens and the other connects: give the address, `host:port`, of one of
        the three. `check` is called some hundred times a second; if it raises, the task ends and the peer is told.

        Raises a subclass of `Error`: UsageError for an attempt that was begun before, or another one at a bucket of which the
        peer has confirmed its result, DataError for keys other than those that were split. PeerError if the peer misbehaves
        ends the job: every later attempt raises it too.
        """
        given = {"gateway": gateway, "listen": listen, "connect": connect}
        points = [(kind, address) for kind, address in given.items() if address is not None]
        if len(points) != 1:
            raise UsageError("give one of gateway, listen and connect")
        listener = TaskListener(progress, check)
        waiting = {"wait": wait, "timeout": timeout}
        with listener:
            report = self._job.run(bucket, attempt, points[0], waiting, threads, listener)
        done: dict[str, Any] = json.loads(report)
        return done

    @checked
    def next_attempts(
        self,
        *,
        link: Link,
        wait: float = 120,
        timeout: float = 120,
    ) -> list[tuple[int, int]]:
        """Meets the peer's driver, which calls this too, or `vesica attempts`. Returns the attempts that both sides make
        next, as pairs of bucket and attempt; none once there is all that is needed.

        Raises a subclass of `Error`: ResourceError if no attempt is left for a bucket, or one side has lost a result that it
        had confirmed; DataError if that is this side, and the file is damaged; PeerError if the peer has misbehaved in a task;
        ContractError if the peer's job is another one.
        """
        waiting = {"wait": wait, "timeout": timeout}
        return self._job.next_attempts(link, waiting, Listener(None))

    @checked
    def total(
        self,
        *,
        link: Link | None = None,
        wait: float = 120,
        timeout: float = 120,
    ) -> Result:
        """Opens the total of a job for numbers with the peer's driver, which calls this too, or `vesica total`, once all
        buckets have a result. The result has what this side learns, as after `receive`; its report has no seconds, bytes or
        rows. Without a link it is what this side has from before.

        Called again on both sides, it opens nothing more if they have theirs, and the same total otherwise, as often as a
        bucket may be tried.

        Raises a subclass of `Error`: UsageError if a bucket has no result on both sides, if there is no total yet, or for a
        job that is for matches; ContractError if the peer's results are of other attempts.
        """
        if link is None:
            return Result(json.loads(self._job.total()))
        waiting = {"wait": wait, "timeout": timeout}
        return Result(json.loads(self._job.open_total(link, waiting, Listener(None))))

    @checked
    def collect(
        self,
        table: Rows = None,
        *,
        on: Texts,
        output: OutputPath | None = None,
        output_table: str | None = None,
        output_table_mode: Mode = "create",
        normalize: Mapping[str, str] | None = None,
        memory: int | str | None = None,
        threads: int | None = None,
        null: Texts = (),
        query: str | None = None,
        database: Database | None = None,
        database_file: InputPath | None = None,
        driver: str | None = None,
        format: Format | None = None,
        delimiter: str | None = None,
        header: bool = True,
        quote: str | None = '"',
        escape: str | None = None,
        encoding: str | None = None,
    ) -> Collected:
        """The rows of the table that match, once all buckets have a result. The arguments are those of `receive`, for the
        table that was split.

        Raises a subclass of `Error`: UsageError if a bucket has no result, DataError for a table that has changed, or a result
        that is damaged.
        """
        arguments = dict(locals())
        del arguments["self"]
        table, output = arguments.pop("table"), arguments.pop("output")
        threads = arguments.pop("threads")
        rows, batches = self._job.collect(table, reading_of(arguments), output, threads)
        return Collected(array("q", rows), None if batches is None else Table(batches))

    def __repr__(self) -> str:
        return f"<SplitJob of the {self.role}, buckets={self.buckets}, attempts={self.attempts}>"


class Collected:
    """The rows that match by the results of tasks."""

    def __init__(self, rows: array[int], table: Table | None) -> None:
        self.rows = rows
        """Which rows match, counted from 0, ascending: those of `table`, or of `output`."""
        self.matching = rows
        """The same, by the name that it has where a result can have other rows too."""
        self._table = table

    @property
    def table(self) -> Table:
        """The matching rows, with all columns and in the order of the table.

        Raises UsageError if they were written to `output` or to a database, or the table is a text file.
        """
        if self._table is None:
            raise UsageError(
                "the matching rows are not in memory: they were written to `output` or to a database, or the table is a text file",
                "read a text file with polars or pandas and pass the frame",
            )
        return self._table

    def __repr__(self) -> str:
        return f"<Collected, rows={len(self.rows)}>"


def split(
    table: Rows = None,
    *,
    role: str,
    job: JobDirectory,
    task_memory: int | str = "1G",
    attempts: int = 4,
    valid_for: float = 604800,
    **arguments: Any,
) -> SplitJob:
    """Agrees on a job with the peer, which calls this in the other role, and cuts `table` up for tasks that each run a
    bucket of it: what the command `vesica split` does.

    role         `receiver` or `sender`
    job          a directory for the job, which only this user may read; tasks need all of it
    task_memory  approximate memory of a task, by which the number of buckets is chosen; numbers take 129M or more
    attempts     how often a bucket may be tried, 1 to 16; the smaller number of both sides counts. `max_peer_items` limits what
                 the peer may bring in all of them
    valid_for    for how many seconds tasks can begin

    The other arguments are those of `receive`, `on`, `link` and `reveal` among them; a job is for matches of keys that are
    hashed, whose rows `collect` finds, or for numbers over them, which `total` opens.

    Raises a subclass of `Error`. Ctrl-C raises KeyboardInterrupt, and the peer is told.
    """
    hints = {**receive.__annotations__, **split.__annotations__}
    check_arguments(hints, {**arguments, "table": table, "role": role, "job": job})
    reading, options, rest = arguments_of_split(role, arguments)
    limits = limits_of(job, task_memory, attempts, valid_for)
    listener = Listener(rest["progress"])
    with listener:
        _vesica.split(role, table, reading, options, limits, rest["link"], listener)
    return SplitJob(job)


def arguments_of_split(
    role: str, arguments: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """How a table is read, the options of the job, and the link and the progress."""
    if role not in ("receiver", "sender"):
        raise UsageError("role: there are receiver, sender")
    bound = inspect.signature(receive).bind(None, **arguments)
    bound.apply_defaults()
    for name in ("output", "output_table", "rows"):
        if name in arguments:
            raise UsageError(f"{name}: the rows of a job come from `collect`")
    given = dict(bound.arguments)
    rest = {name: given.pop(name) for name in ("table", "link", "progress")}
    reading, options = arguments_of(given)
    return reading, options, rest


def limits_of(job: Path, task_memory: int | str, attempts: int, valid_for: float) -> dict[str, Any]:
    return {
        "job": os.fspath(job),
        "task_memory": str(task_memory),
        "attempts": attempts,
        "valid_for": valid_for,
    }
