"""Jobs whose buckets are tasks of their own."""

from __future__ import annotations

import json
import os
from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Literal

from . import _vesica
from ._arguments import checked, lacking
from ._errors import UsageError
from ._options import (
    DEFAULTS,
    Duration,
    GroupOptions,
    JobDirectory,
    On,
    Path,
    PayloadOptions,
    ReceiveOptions,
    ResultOptions,
    Rows,
    TaskOptions,
)
from ._progress import Listener, ProgressOption
from ._runs import Result, arguments_of, reading_of, table_of
from ._table import Table
from ._vesica import Link

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._options import CollectOptions, SplitOptions, TotalOptions, WaitOptions


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
        """Opens the job that `directory` has.

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
        wait: Duration = 120,
        timeout: Duration = 120,
        progress: ProgressOption = "auto",
        check: Callable[[], None] | None = None,
    ) -> dict[str, Any]:
        """Makes an attempt at a bucket, against the peer's task for the same attempt, and leaves the result in the
        directory. Returns `bucket`, `attempt`, `bytes_sent` and `bytes_received`.

        The two tasks meet at a `gateway`, or one does `listen` and the other `connect`: give the address, `host:port`, of one
        of the three. `check` is called some hundred times a second; if it raises, the task ends and the peer is told. `threads`,
        `wait`, `timeout` and `progress` are as for `receive`.

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
        **options: Unpack[WaitOptions],
    ) -> list[tuple[int, int]]:
        """Meets the peer's driver, which calls this too, or `vesica attempts`. Returns the attempts that both sides make
        next, as pairs of bucket and attempt; none once there is all that is needed. The arguments are those of `receive`.

        Raises a subclass of `Error`: ResourceError if no attempt is left for a bucket, or one side has lost a result that it
        had confirmed; DataError if that is this side, and the file is damaged; PeerError if the peer has misbehaved in a task;
        ContractError if the peer's job is another one.
        """
        return self._job.next_attempts(link, {**options}, Listener(None))

    @checked
    def total(
        self,
        *,
        link: Link | None = None,
        **options: Unpack[TotalOptions],
    ) -> Result:
        """Opens the total of a job for numbers with the peer's driver, which calls this too, or `vesica total`, once all
        buckets have a result. The result has what this side learns, as after `receive`; its report has no seconds, bytes or
        rows. Without a link it is what this side has from before. The arguments are those of `receive`.

        Called again on both sides, it opens nothing more if they have theirs, and the same total otherwise, as often as a
        bucket may be tried.

        Raises a subclass of `Error`: UsageError if a bucket has no result on both sides, if there is no total yet, or for a
        job that is for matches; ContractError if the peer's results are of other attempts.
        """
        if link is None:
            return Result(json.loads(self._job.total()))
        waiting: dict[str, Any] = {**options}
        ledger, answers = waiting.pop("ledger"), waiting.pop("ledger_answers")
        report = self._job.open_total(link, waiting, ledger, answers, Listener(None))
        return Result(json.loads(report))

    @checked
    def collect(
        self,
        table: Rows = None,
        *,
        on: On,
        **options: Unpack[CollectOptions],
    ) -> Collected:
        """The rows of the table that match, or those that `rows` says, once all buckets have a result. The arguments are those
        of `receive`, for the table that was split.

        Raises a subclass of `Error`: UsageError if a bucket has no result, DataError for a table that has changed, or a result
        that is damaged.
        """
        given: dict[str, Any] = {"on": on, **options}
        rows, output, threads = (given.pop(name) for name in ("rows", "output", "threads"))
        account = given.pop("ledger"), given.pop("ledger_answers")
        reading = reading_of(given)
        found, others, batches = self._job.collect(table, reading, rows, output, threads, account)
        matching = array("q", found)
        result = matching if others is None else array("q", others)
        return Collected(matching, result, None if batches is None else Table(batches))

    def __repr__(self) -> str:
        return f"<SplitJob of the {self.role}, buckets={self.buckets}, attempts={self.attempts}>"


@dataclass(frozen=True, repr=False)
class Collected:
    """The rows that match by the results of tasks."""

    matching: array[int]
    """Which rows match, counted from 0, ascending."""
    rows: array[int]
    """Which rows the result has, ascending: those of `table`, or of `output`. They are those that match, but with
    `rows="rest"` the others, and with `rows="all"` all of them."""
    _table: Table | None = None

    @property
    def table(self) -> Table:
        """The rows of the result, with all columns and in the order of the table.

        Raises UsageError if they were written to `output` or to a database, or the table is a text file.
        """
        return table_of(self._table)

    def __repr__(self) -> str:
        return f"<Collected, rows={len(self.rows)}>"


# Options of `receive` that a job has not.
_LACKS = {
    **dict.fromkeys(ResultOptions.__annotations__, "the rows of a job come from `collect`"),
    **dict.fromkeys(
        [*PayloadOptions.__annotations__, "take_payload"],
        "a job in tasks does not go with columns to hand over",
    ),
    **dict.fromkeys(
        ("offline", "offline_store", "attested"),
        "a job in tasks does not go with stored correlations",
    ),
    **dict.fromkeys(
        [*GroupOptions.__annotations__, "max_peer_groups"],
        "a job in tasks does not go with numbers by group",
    ),
    "align": "a job in tasks does not go with one order on both sides",
    "clamp": "the numbers of a job come from `total`",
    "pad_to": "a job in tasks does not go with a padded set",
    "spine_file": "a job in tasks reveals no ids",
    "work_dir": "a job in tasks goes on from its own directory",
}


@lacking(_LACKS)
@checked
def split(
    table: Rows = None,
    *,
    on: On,
    role: Literal["receiver", "sender"],
    job: JobDirectory,
    link: Link,
    **options: Unpack[SplitOptions],
) -> SplitJob:
    """Agrees on a job with the peer, which calls this in the other role, and cuts `table` up for tasks that each run a
    bucket of it: what the command `vesica split` does.

    role         `receiver` or `sender`
    job          a directory for the job, which only this user may read; tasks need all of it
    task_memory  approximate memory of a task, by which the number of buckets is chosen; numbers take 129M or more
    attempts     how often a bucket may be tried, 1 to 16; the smaller number of both sides counts. `max_peer_items` limits what
                 the peer may bring in all of them
    valid_for    how long tasks can begin: seconds, a text such as "7d", or a `timedelta`

    The other arguments are those of `receive`, `on`, `link` and `reveal` among them; a job is for matches of keys that are
    hashed, whose rows `collect` finds, or for numbers over them, which `total` opens.

    Raises a subclass of `Error`. Ctrl-C raises KeyboardInterrupt, and the peer is told.
    """
    arguments: dict[str, Any] = {"on": on, **options}
    listener = Listener(arguments.pop("progress"))
    limits = limits_of(job, arguments)
    reading, of_job = arguments_of_job(arguments)
    with listener:
        _vesica.split(role, table, reading, of_job, limits, link, listener)
    return SplitJob(job)


def arguments_of_job(arguments: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """How a table is read, and the options of a job. Those that it has not are as if they were not given."""
    return arguments_of({**dict.fromkeys(ReceiveOptions.__annotations__), **DEFAULTS, **arguments})


def limits_of(job: Path, arguments: dict[str, Any]) -> dict[str, Any]:
    """Takes the options of tasks."""
    limits = {name: arguments.pop(name) for name in TaskOptions.__annotations__}
    return {**limits, "job": os.fspath(job), "task_memory": str(limits["task_memory"])}
