"""Options that several functions have: their types, in groups, and their defaults. A function has `**options` of the groups
that it takes, and `checked` in `_arguments` gives it a parameter for each."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any, Literal, TypedDict, Union

from ._progress import ProgressOption

Path = Union[str, "os.PathLike[str]"]
InputPath = Path
"""A file that is read."""
OutputPath = Path
"""A file, or an object, that is written."""
WorkDirectory = Path
"""The directory with which a run goes on."""
CourierDirectory = Path
"""The directory of a run by files."""
JobDirectory = Path
"""The directory of a job."""
StagingDirectory = Path
"""A directory for jobs."""
SetDirectory = Path
"""The directory of a published set."""
StateDirectory = Path
"""The state of look-ups."""
StoreDirectory = Path
"""A store of halves."""
InputSet = Path
"""A published set that is read; with `fetch` it is written."""
OutputSet = Path
"""A published set that is written."""
Rows = Any
"""A table: a path, several, an object with `__arrow_c_stream__`, or one of the others that `receive` names."""
Database = Any
"""A URI, or an engine or URL of SQLAlchemy."""
Texts = Union[str, Sequence[str]]
On = Union[Texts, Mapping[str, Texts]]
"""The columns of a key, or the names of identifiers with the columns of each."""
Number = Union[int, float, Decimal, str]
Duration = Union[float, str, timedelta]
"""Seconds, a text with a unit such as "5m", or a `timedelta`."""
# A union when it is evaluated, too: stubtest takes a `Literal` of several for one.
Mode = Union[Literal["create"], Literal["append"], Literal["replace"]]  # noqa: PYI030
Format = Union[Literal["csv"], Literal["parquet"], Literal["jsonl"], Literal["arrow"]]  # noqa: PYI030


class Threshold(str):
    """What `threshold` makes."""

    __slots__ = ()


Reveal = Union[
    Literal["matches", "size", "sum", "inner-product", "shares", "union", "ids"], Threshold
]


class TableOptions(TypedDict, total=False):
    """The query whose result is the table, and how files are read."""

    query: str | None
    database: Database | None
    database_file: InputPath | None
    driver: str | None
    format: Format | None
    delimiter: str | None
    header: bool
    quote: str | None
    escape: str | None
    skip_initial_space: bool
    skip_rows: int
    skip_footer: int
    sheet: str | None
    encoding: str | None


class ProfileOptions(TypedDict, total=False):
    """How the values of keys are compared."""

    normalize: Mapping[str, str] | None
    null: Texts
    deny: Texts


class KeyOptions(ProfileOptions, total=False):
    """How keys are made of the columns, and in how much memory."""

    memory: int | str | None
    split: Mapping[str, str] | None


class WorkOptions(KeyOptions, total=False):
    """The same, where keys are computed with too."""

    threads: int | None


class RowsOptions(TypedDict, total=False):
    """Which rows a result has."""

    rows: Literal["matching", "rest", "all"]


class OutputOptions(TypedDict, total=False):
    """Where the rows of a result go, and with which columns."""

    output: OutputPath | None
    output_table: str | None
    output_table_mode: Mode
    matched_by: str | None
    columns: Texts | None


class ResultOptions(OutputOptions, RowsOptions, total=False):
    """Both."""


class PayloadOptions(TypedDict, total=False):
    """Columns that are handed over."""

    payload: Texts | None
    payload_width: int | None
    rows_per_key: int | None


class ValueOptions(TypedDict, total=False):
    """Columns to compute with."""

    value: Texts | None
    value_scale: int | Sequence[int]
    value_bound: Number | Sequence[Number] | None
    value_repeated: Literal["sum", "refuse"]


class GroupOptions(TypedDict, total=False):
    """Groups of the receiver's keys."""

    group: str | None
    groups: Texts | None
    group_sizes: str | None
    group_minimum: Literal["each", "all"] | None


class ColumnOptions(PayloadOptions, ValueOptions, GroupOptions, total=False):
    """Columns beside the key."""


class WaitOptions(TypedDict, total=False):
    """How long to wait for a peer."""

    wait: Duration
    timeout: Duration


class DeadlineOptions(TypedDict, total=False):
    """How long to take in all."""

    deadline: Duration | None


class ConnectionOptions(WaitOptions, DeadlineOptions, total=False):
    """Both."""


class EmptyOptions(TypedDict, total=False):
    """Whether a table may have no keys."""

    allow_empty: bool


class ProgressOptions(TypedDict, total=False):
    """Who hears how far a run is."""

    progress: ProgressOption


class ShowOptions(TypedDict, total=False):
    """How many keys to show."""

    show: int


class RevealOptions(TypedDict, total=False):
    """What a run is for."""

    reveal: Reveal | Sequence[Reveal]


class LedgerOptions(TypedDict, total=False):
    """The account of what is answered."""

    ledger: OutputPath | None
    ledger_answers: bool


class AccountOptions(LedgerOptions, total=False):
    """The account of a side that runs with a peer."""

    rules: InputPath | None
    purpose: str | None


class TermOptions(AccountOptions, total=False):
    """What both sides agree on, whatever they do, and what a side writes down of it."""

    protocol: str
    security: Literal["malicious", "malicious-sender", "semi-honest"]
    both: bool
    max_peer_items: int
    lambda_: int


class OnlineOptions(RevealOptions, total=False):
    """What they agree on besides where they meet."""

    post_quantum: bool
    min_size: int | None
    optimize: Literal["time", "traffic", "auto"]
    bandwidth: str | None
    max_peer_value_bound: int | None
    max_peer_values: int
    epsilon: Number | None
    epsilon_split: Mapping[str, int] | None


class TaskOptions(TypedDict, total=False):
    """What the tasks of a job may take."""

    task_memory: int | str
    attempts: int
    valid_for: Duration


class JobOptions(
    TermOptions, OnlineOptions, DeadlineOptions, EmptyOptions, TaskOptions, total=False
):
    """Those of a job, wherever its table is."""


class SplitOptions(
    TableOptions,
    WorkOptions,
    ValueOptions,
    JobOptions,
    WaitOptions,
    ProgressOptions,
    total=False,
):
    """Those of `split`."""


class SparkOptions(ProfileOptions, RowsOptions, JobOptions, total=False):
    """Those of `vesica.spark`."""

    task_threads: int | None
    slots: int | None


class CheckOptions(
    TableOptions,
    KeyOptions,
    ColumnOptions,
    RevealOptions,
    EmptyOptions,
    ShowOptions,
    total=False,
):
    """Those of `check`."""


class PublishOptions(TableOptions, WorkOptions, ProgressOptions, total=False):
    """Those of `publish`."""


class OpenOptions(WorkOptions, ConnectionOptions, EmptyOptions, LedgerOptions, total=False):
    """Those of `open_lookup`."""


class FindOptions(TableOptions, ResultOptions, ProgressOptions, total=False):
    """Those of `OpenLookup.find`."""


class LookupOptions(OpenOptions, FindOptions, total=False):
    """Those of `lookup`."""


class TotalOptions(WaitOptions, LedgerOptions, total=False):
    """Those of `SplitJob.total`."""


class CollectOptions(TableOptions, WorkOptions, ResultOptions, LedgerOptions, total=False):
    """Those of `SplitJob.collect`."""


class ExchangeOptions(CollectOptions, TermOptions, EmptyOptions, ProgressOptions, total=False):
    """Those of `exchange`."""


class SendOptions(ExchangeOptions, ColumnOptions, ConnectionOptions, OnlineOptions, total=False):
    """Those of `send`."""

    offline: str | None
    offline_store: StoreDirectory | None
    attested: str | None
    align: bool
    work_dir: WorkDirectory | None
    clamp: bool
    pad_to: int | None
    spine_file: OutputPath | None
    max_peer_groups: int


class ReceiveOptions(SendOptions, total=False):
    """Those of `receive`."""

    take_payload: bool


class Options(ReceiveOptions, TaskOptions, ShowOptions, total=False):
    """All that have a default."""


# Those that are not None.
DEFAULTS: Options = {
    "task_memory": "1G",
    "attempts": 4,
    "valid_for": 604800,
    "output_table_mode": "create",
    "reveal": "matches",
    "rows": "matching",
    "take_payload": False,
    "value_scale": 0,
    "value_repeated": "sum",
    "show": 0,
    "protocol": "auto",
    "security": "malicious",
    "both": False,
    "align": False,
    "clamp": False,
    "ledger_answers": False,
    "post_quantum": False,
    "optimize": "time",
    "max_peer_items": 2**28,
    "max_peer_values": 8,
    "max_peer_groups": 1,
    "lambda_": 40,
    "wait": 120,
    "timeout": 120,
    "allow_empty": False,
    "null": (),
    "deny": (),
    "header": True,
    "quote": '"',
    "skip_initial_space": False,
    "skip_rows": 0,
    "skip_footer": 0,
    "progress": "auto",
}

# As `help` shows them.
ORDER = (
    "task_memory task_threads slots attempts valid_for output output_table output_table_mode reveal rows matched_by "
    "columns spine_file take_payload payload payload_width rows_per_key value value_scale value_bound value_repeated group "
    "groups group_sizes group_minimum show "
    "epsilon epsilon_split clamp pad_to ledger ledger_answers rules purpose normalize protocol offline offline_store "
    "attested security post_quantum both align min_size optimize bandwidth max_peer_items "
    "max_peer_value_bound max_peer_values max_peer_groups lambda_ memory threads wait timeout deadline work_dir allow_empty null deny "
    "split query database database_file driver format delimiter header quote escape skip_initial_space skip_rows "
    "skip_footer sheet encoding progress"
).split()
