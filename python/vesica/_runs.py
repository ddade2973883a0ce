"""Runs, and what they leave."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import threading
import warnings
from array import array
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from html import escape
from typing import TYPE_CHECKING, Any, Callable, Union

from . import _vesica
from ._arguments import check_arguments, checked, renamed, warn_of_former
from ._errors import NetworkError, PeerError, RunWarning, StoppedError, UsageError
from ._options import (
    DEFAULTS,
    ColumnOptions,
    KeyOptions,
    Number,
    On,
    Rows,
    TableOptions,
    Texts,
    Threshold,
)
from ._progress import REHEARSAL, Listener
from ._sources import address, readable
from ._table import Table, facts
from ._vesica import Batches, Identity, Link

if TYPE_CHECKING:
    from typing_extensions import ParamSpec, Unpack

    from ._options import CheckOptions, ReceiveOptions, SendOptions

    _P = ParamSpec("_P")


@checked
def threshold(above: int, *, matches: bool = False) -> Threshold:
    """For `reveal`: how many keys match, if more than `above` do; or, with `matches`, the rows that match, if they have more
    keys than that. Otherwise `Result.below` is `above + 1`.

    >>> vesica.threshold(100), vesica.threshold(100, matches=True)
    ('threshold:100', 'threshold-matches:100')
    >>> table = polars.DataFrame({"id": range(100)})
    >>> for above in (19, 20):
    ...     received, _ = vesica.rehearse({"table": table[:60], "on": "id"}, {"table": table[40:], "on": "id"},
    ...         reveal=vesica.threshold(above), security="semi-honest")
    ...     received.size, received.below
    (20, None)
    (None, 21)
    """
    return Threshold(f"threshold{'-matches' * matches}:{above}")


@dataclass(frozen=True, repr=False)
class Result:
    """What a run left on this side."""

    report: dict[str, Any]
    """The report of the run, as `vesica receive --report` writes it."""
    matching: array[int] | None = None
    """Which of this side's rows match, counted from 0, ascending, or with `align` in the order that both sides share;
    `None` if this side does not learn it."""
    rows: array[int] | None = None
    """Which of this side's rows the result has, in its order: those of `table`, or of `output`. They are those that match,
    but with `rows="rest"` the others, and with `rows="all"` all of them; `None` if this side gets no rows."""
    _table: Table | None = field(default=None, repr=False)

    @property
    def table(self) -> Table:
        """The rows of the result, with all columns: those of this side's table that `rows` says, in this order.

        Raises UsageError if there are none: this side does not learn them, they were written to `output` or
        `output_table`, or the table is a CSV or JSON Lines file, which has no types.
        """
        if self.rows is None:
            raise UsageError("this run gave this side no rows")
        return table_of(self._table)

    @staticmethod
    def of(made: Rowed) -> Result:
        """Of what the engine hands over."""
        report, matching, rows, table = parts_of(made)
        return Result(report, matching, rows, table)

    @property
    def value(self) -> int | Decimal | None:
        """The number that this side learned, if there is one for it and enough keys match."""
        value: int | str | None = self.report["value"]
        return Decimal(value) if isinstance(value, str) else value

    @property
    def values(self) -> dict[str, int | Decimal] | None:
        """The numbers that this side learned, if there are several for it and enough keys match: `size`, and `sum`, or
        `sum-1` and so on in the order of the columns."""
        values: dict[str, int | str] | None = self.report["values"]
        return None if values is None else _decimals(values)

    @property
    def groups(self) -> dict[str, dict[str, int | Decimal] | None] | None:
        """The numbers of each `group`, by its name, as those of `values`; `None` in the place of those that are withheld, and if
        there are no groups."""
        groups = self.report.get("groups")
        if groups is None:
            return None
        numbers = {group["group"]: group["values"] for group in groups}
        return {name: None if of is None else _decimals(of) for name, of in numbers.items()}

    @property
    def size(self) -> int | None:
        """How many distinct keys both sides have; `None` if this side does not learn it."""
        if (self.report["values"] or {}).get("size") is not None:
            return int(self.report["values"]["size"])
        size: int | None = self.report["value" if self.report["reveal"] == "size" else "matches"]
        return size

    @property
    def below(self) -> int | None:
        """Fewer matches than this count, for one of the numbers if there are several: those of value 0 do not. `None` if the
        result is known."""
        below: int | None = self.report["below"]
        return below

    def _known(self) -> dict[str, Any]:
        learned = {
            "size": self.size,
            "value": self.value,
            "values": self.values,
            "groups": self.groups,
            "below": self.below,
        }
        return {name: value for name, value in learned.items() if value is not None}

    def _about(self) -> str:
        report = self.report
        return f"{report['protocol']}, {report['security']}, {report['seconds']:.3f} s"

    def __repr__(self) -> str:
        known = [f"{name}={value}" for name, value in self._known().items()]
        return f"<Result {', '.join([*known, self._about()])}>"

    def _repr_html_(self) -> str:
        return facts({**self._known(), "run": self._about()}, self._table)


Rowed = tuple[str, Union[bytes, None], Union[bytes, None], Union[Batches, None]]
"""What the engine hands over: a report, rows that match, rows of the result where these are others, and their table."""


def parts_of(
    made: Rowed,
) -> tuple[dict[str, Any], array[int] | None, array[int] | None, Table | None]:
    """The report, the rows that match, those of the result, and their table."""
    report, found, others, batches = made
    matching = None if found is None else array("q", found)
    rows = matching if others is None else array("q", others)
    return json.loads(report), matching, rows, None if batches is None else Table(batches)


@renamed(take_values="take_payload", value_width="payload_width")
@checked
def receive(
    table: Rows = None,
    *,
    on: On,
    link: Link,
    **options: Unpack[ReceiveOptions],
) -> Result:
    """Learns which rows of `table` have a key that the sender's table also has, or what else `reveal` says.

    The arguments are the command's options, with its defaults. Those from `reveal` to `lambda_` that set what is computed
    have to be the same on both sides; the peer is told if they are not.

    The table:

    table      a path, or several; a directory or a pattern stands for its files, and several files are one table. Or
               anything with `__arrow_c_stream__`: a frame of polars or pandas, a table of pyarrow, a relation of
               DuckDB, a result of ADBC. Or what is read when the run begins: a lazy frame of polars, a dataset of pyarrow,
               a table of deltalake or pyiceberg, a cursor of ADBC
    on         the key column, or several; both sides name corresponding columns in the same order. Or several identifiers, any
               of which suffices, each a name and its columns: `{"email": "mail", "phone": ["country", "tel"]}`. Both sides
               give the same names in the same order
    split      columns of identifiers whose texts are lists, and the character between elements: `{"mail": ";"}`. A column
               of lists needs none
    normalize  the profiles of key columns, as `{"email": "email", "mobile": "phone:GB"}`
    null       texts that stand for null in the key, as "NULL"
    deny       values that never match, as "test@test.com"; they are normalised as the key is, which has one column. The peer
               is told nothing of them
    query      SQL, in the place of `table`; it is asked once
    database   what is asked: "postgresql://…" or "sqlite:…", or an engine or URL of SQLAlchemy
    database_file   a file that holds such an address, in the place of `database`
    driver     the ADBC driver, by name or path; if None, the Python package adbc-driver-postgresql or
               adbc-driver-sqlite
    format     that of files: "csv", "jsonl", "parquet" or "arrow"; if None, by name and content
    delimiter  between the fields of a CSV file, one character or "tab"; if None, it is detected
    header     whether the first line of a CSV file has the names of the columns; if not, they are "1", "2", …
    quote      the character around fields that have a delimiter in them; None if fields are never quoted
    escape     the character that makes a quote after it a part of the field, as doubling the quote does
    skip_initial_space   spaces at the start of a field of CSV mean nothing, so that `1, "a, b"` has two fields
    skip_rows   lines above the table in each CSV file, or rows of a spreadsheet, such as a title, that are left out
    skip_footer   lines below the table in each CSV file, or rows of a spreadsheet, such as a total, that are left out
    sheet      that of a spreadsheet, by its name; if None, the first that is shown
    encoding   that of a text file, as "latin1"; if None, UTF-8
    allow_empty   take part with a table that has no usable key, which matches nothing; otherwise it is refused

    The result:

    output     a file for the matching rows, instead of `Result.table`; for shares, a CSV file. Its name decides the format:
               .csv, .jsonl, .parquet, .arrow or .arrows; any other name means that of the table
    output_table   instead of `output`, a table of `database` for the matching rows, as "matches" or "schema.matches". It is
               written in one transaction; a SQLite file has to be there, perhaps empty
    output_table_mode   `create` makes the table, and refuses one that is there; `append` adds rows to one that is there;
               `replace` makes it in the place of one that may be there, whose rights and indexes it does not have
    rows       which rows the result has: those that match, the rest, or all with a column `in_both`
    matched_by   with several identifiers: the name of a column of the result for the first identifier by which a row matches
    columns    the columns of `table` that the result has, in this order; all if None. Those that are added come after them
    spine_file   with `reveal="ids"`: a CSV file for the list of all ids, with the columns `spine_row` and `spine_id`
    take_payload   take the columns that the sender hands over, each under its name with `peer_` before it
    progress   a function of a `Progress`; "auto" shows a bar in a notebook and nothing elsewhere; or None

    What both sides agree on:

    reveal     `matches`, `size`, `sum`, `inner-product`, `shares`, `union`, `ids`, or what `threshold` makes; several of
               these numbers at once as `["size", "sum"]`
    both       the sender learns the matches or the number too; a dishonest receiver can lie to it
    align      with `both`: the matching rows come in one order on both sides, with a column `match_number` that both
               sides share
    min_size   the fewest keys that have to match for a number or rows above a threshold to be revealed
    security   the weakest to accept: against a peer that may do anything, against a sender that may, or against a peer
               that follows the protocol, which numbers need
    lambda_    bits of statistical security, 40 to 128
    post_quantum   hide both sets from whoever keeps the messages until there are large quantum computers; both sides
    protocol   its name, or "auto", which takes the fastest for the sizes
    optimize   what a circuit protocol saves; "auto" decides by `bandwidth` or the round trip
    bandwidth  that of the link, as "200mbps"
    offline    with `protocol="ole"`: where its correlations come from, "lattice", "ot", "dealer" or "tee"
    offline_store   with `protocol="ole"`: a directory of prepared correlations, of which the run takes one pair
    attested   with `offline` "dealer" or "tee": take only a pair whose makers have shown this platform and measurement

    Columns beside the key:

    payload    columns that a sender hands over with the rows that match; with `reveal="shares"`, the one column of texts of
               which both sides get shares
    payload_width   the bytes that these take together for each key, with `take_payload` the most to accept: 64 if None, and
               with shares to be given
    rows_per_key   rows of a key that the sender hands over at most, each with its own columns: the result has a row for each
               pair, as a join. The peer is told this number; with `take_payload` it is the most to accept. 1 if None
    value      the column of numbers to compute with, or several to sum
    value_scale   digits after the decimal point, for all columns to compute with, or one for each
    value_bound   the largest absolute value of a key, written as the values are, for all columns or one for each; the
               peer is told. If None, 2**31 - 1 units of the last digit
    value_repeated   what counts for a key that several rows have: their sum, or nothing: such a table is refused
    group      a column of the receiver's table that says in which group a key is: a size, or the sums of its values, is then
               learnt of each group (`Result.groups`). Rows without a text there are in none
    groups     the groups that are wanted, in this order; all that the column has if None
    group_sizes   what the sender learns of how many keys each has: "hidden", "told", or "padded:N", that none has more
    group_minimum   whether `min_size` withholds the numbers of "each" group with fewer matches, or "all"

    Noise, which makes numbers differentially private:

    epsilon    add noise to the numbers, so that they are private with this parameter, as "0.5": it protects this side's keys
               and values from a peer that follows the protocol, which is told
    epsilon_split   how `epsilon` is divided among the numbers, as `{"size": 1, "sum": 3}`; evenly if None. Under a minimum
               a sum also has a count, "sum-count"
    clamp      bring a noisy size into the range of sizes, on this side
    pad_to     bring random keys up to this number, which the peer is told in place of the number of keys

    The account of what is answered (`docs/ledger.md`):

    ledger     a file in which this run is written down before anything that depends on a key leaves; the first run makes it.
               Both sides then sign receipts. `epsilon` needs it
    ledger_answers   write down, too, which numbers were revealed to this side, or how many rows match
    rules      a TOML file with rules that the run is held to; one that they do not allow raises ResourceError
    purpose    what this side wants the answer for, up to 200 bytes, which the peer is told

    Limits:

    link       how to reach the sender, and who it is: `listen` or `connect`
    wait       how long this side waits for the peer to connect, from when its own table is read: seconds, a text such as
               "500ms", "30s", "5m", "2h" or "7d", or a `timedelta`
    timeout    how long a connected peer may be silent, written so too; a working one says every second that it is there
    deadline   how long the run may take from when the contract is agreed, written so too; ten times what the sizes take on a
               slow link and a slow machine if not given, and at least an hour
    memory     bytes, or a text such as "4G"; half of this machine's if not given. Larger sets run in buckets
    threads    to compute on; all of this machine's if not given
    work_dir   a directory from which a run goes on after a failure, if the same call is made again on both sides
    max_peer_items   the most distinct keys that the peer may bring
    max_peer_values   the most columns of values that the peer may have, 1 to 8
    max_peer_groups   the most groups of which the receiver may learn numbers, 1 to 1024; as many groups are as many answers
    max_peer_value_bound   the largest `value_bound` that the peer may declare, in units; any if None

    Raises a subclass of `Error`. Ctrl-C raises KeyboardInterrupt within some 100 ms, and the peer is told.

    >>> import polars, threading
    >>> donors = polars.DataFrame({"email": ["Ann@x.org", "bob@x.org", "eve@x.org"], "gift": [5, 10, 20]})
    >>> shop = polars.DataFrame({"contact": ["bob@x.org", "ann@x.org"]})
    >>> left, right = vesica.pair()
    >>> sender = threading.Thread(target=vesica.send, args=(shop,), kwargs={
    ...     "on": "contact", "normalize": {"contact": "email"}, "link": right})
    >>> sender.start()
    >>> result = vesica.receive(donors, on="email", normalize={"email": "email"}, link=left)
    >>> sender.join()
    >>> result.size, list(result.rows)
    (2, [0, 1])
    >>> result.table.to_polars()["gift"].to_list()
    [5, 10]

    A row can match by any of several identifiers:

    >>> donors = polars.DataFrame({"mail": ["ann@x.org", None], "tel": [None, "020 7946 0000"]})
    >>> shop = polars.DataFrame({"contact": ["ann@x.org", "eve@x.org"], "phone": [None, "+442079460000"]})
    >>> received, _ = vesica.rehearse(
    ...     {"table": donors, "on": {"email": "mail", "phone": "tel"}, "matched_by": "by",
    ...      "normalize": {"mail": "email", "tel": "phone:GB"}},
    ...     {"table": shop, "on": {"email": "contact", "phone": "phone"},
    ...      "normalize": {"contact": "email", "phone": "phone:GB"}})
    >>> received.table.to_polars()["by"].to_list()
    ['email', 'phone']

    The sender can hand over columns with the rows that match:

    >>> shop = {"table": polars.DataFrame({"id": [2, 3], "city": ["Bern", "Chur"]}), "on": "id"}
    >>> charity = {"table": polars.DataFrame({"id": [1, 2]}), "on": "id"}
    >>> received, _ = vesica.rehearse(charity | {"take_payload": True, "rows": "all"}, shop | {"payload": "city"})
    >>> received.table.to_polars().rows()
    [(1, False, None), (2, True, 'Bern')]
    """
    return _run("receiver", table, link, {"on": on, **options})


@renamed(value_width="payload_width")
@checked
def send(
    table: Rows = None,
    *,
    on: On,
    link: Link,
    **options: Unpack[SendOptions],
) -> Result:
    """Lets the receiver learn what `reveal` says about `table`; learns how many distinct keys the receiver has.

    The arguments are those of `receive`, but for `take_payload`. With `both`, on both sides, this side gets its
    matching rows, or the number, too; a dishonest receiver can lie about them. With `align`, on both sides, equal
    keys have equal numbers:

    >>> left = {"table": polars.DataFrame({"id": [5, 7, 7, 9]}), "on": "id"}
    >>> right = {"table": polars.DataFrame({"number": [9, 8, 7]}), "on": "number"}
    >>> ours, theirs = vesica.rehearse(left, right, both=True, align=True)
    >>> pairs = ours.table.to_polars().join(theirs.table.to_polars(), on="match_number")
    >>> sorted(pairs.select("id", "number").rows())
    [(7, 7), (7, 7), (9, 9)]

    >>> shop = {"table": polars.DataFrame({"id": [1, 2, 3], "spent": [10, 20, 30]}), "on": "id"}
    >>> charity = {"table": polars.DataFrame({"id": [2, 3, 4]}), "on": "id"}
    >>> received, sent = vesica.rehearse(charity, shop | {"value": "spent"}, reveal="sum", security="semi-honest")
    >>> received.value, sent.value, sent.report["peer_items"]
    (50, None, 3)
    >>> received, _ = vesica.rehearse(
    ...     charity, shop | {"value": ["spent", "id"]}, reveal=["size", "sum"], security="semi-honest")
    >>> received.values
    {'size': 2, 'sum-1': 50, 'sum-2': 5}

    Numbers of each group of the receiver's keys, which the sender allows:

    >>> seen = {"table": polars.DataFrame({"id": [2, 3, 4], "campaign": ["may", "june", "june"]}), "on": "id"}
    >>> received, _ = vesica.rehearse(
    ...     seen | {"group": "campaign"}, shop | {"max_peer_groups": 2}, reveal="size", security="semi-honest")
    >>> received.groups
    {'june': {'size': 1}, 'may': {'size': 1}}
    """
    return _run("sender", table, link, {"on": on, **options})


def _run(role: str, table: Rows, link: Link, arguments: dict[str, Any]) -> Result:
    listener = Listener(arguments.pop("progress"))
    if role == "sender":
        take_former_value(arguments)
    reading, options = arguments_of(arguments)
    with listener:
        return Result.of(_vesica.run(role, table, reading, options, link, listener))


def arguments_of(arguments: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """How a table is read, and the options, as the engine takes them."""
    reading = reading_of(arguments)
    arguments["reveal"] = ",".join(texts(arguments["reveal"]))
    arguments["terms"] = terms_of(arguments)
    arguments["max_peer_items"] = str(arguments["max_peer_items"])
    arguments["columns"] = columns_of(arguments)
    arguments["epsilon"] = _text(arguments["epsilon"])
    shares = arguments["epsilon_split"] or {}
    arguments["epsilon_split"] = [f"{name}={share}" for name, share in shares.items()]
    return reading, arguments


def _decimals(values: Mapping[str, int | str]) -> dict[str, int | Decimal]:
    """Numbers as a report has them."""
    return {name: Decimal(v) if isinstance(v, str) else v for name, v in values.items()}


def columns_of(arguments: dict[str, Any]) -> dict[str, Any]:
    """Takes the options that name columns beside the key."""
    columns = {name: arguments.pop(name) for name in ColumnOptions.__annotations__}
    return {
        **columns,
        "take_payload": arguments.pop("take_payload", False),
        "payload": texts(columns["payload"]),
        "value": texts(columns["value"]),
        "value_scale": _numbers(columns["value_scale"]),
        "value_bound": [str(bound) for bound in _numbers(columns["value_bound"])],
        "groups": texts(columns["groups"]),
    }


def take_former_value(arguments: dict[str, Any]) -> None:
    """Takes `value` for `payload` where columns are handed over, as it was called."""
    is_former = texts(arguments["reveal"]) == ["matches"] and arguments["payload"] is None
    if is_former and arguments["value"] is not None:
        warn_of_former("value of a sender whose receiver learns the matches is called payload")
        arguments["payload"], arguments["value"] = arguments["value"], None


def table_of(table: Table | None) -> Table:
    """The rows of a result, if they are in memory."""
    if table is None:
        raise UsageError(
            "the rows of the result are not in memory: they were written to `output` or to a database, or the table is a text file",
            "read a text file with polars or pandas and pass the frame",
        )
    return table


def terms_of(arguments: dict[str, Any]) -> dict[str, str]:
    """Takes the arguments that set terms."""
    arguments["lambda"] = arguments.pop("lambda_")
    given = {name: arguments.pop(name) for name in _vesica.TERMS if name in arguments}
    words = {True: "yes", False: "no"}
    return {
        name: words[value] if isinstance(value, bool) else str(value)
        for name, value in given.items()
        if value is not None
    }


# What the engine knows when it reads a table, of what is about its result.
_OF_RESULT = ("output_table", "output_table_mode", "matched_by", "columns")


def reading_of(arguments: dict[str, Any]) -> dict[str, Any]:
    """Takes the options that say how a table is read. Those that a function does not have are as if they were not given."""
    names = [*TableOptions.__annotations__, *KeyOptions.__annotations__, *_OF_RESULT]
    reading: dict[str, Any] = {name: arguments.pop(name, DEFAULTS.get(name)) for name in names}
    on = arguments.pop("on")
    # Identifiers have names, and a key has not.
    named = on if isinstance(on, Mapping) else {}
    return {
        **reading,
        "database": address(reading["database"]),
        "on": [] if named else texts(on),
        "identifiers": [(name, texts(columns)) for name, columns in named.items()],
        "split": dict(reading["split"] or {}),
        "columns": texts(reading["columns"]),
        "normalize": dict(reading["normalize"] or {}),
        "null": texts(reading["null"]),
        "deny": texts(reading["deny"]),
        "memory": _text(reading["memory"]),
    }


def texts(given: Texts | None) -> list[str]:
    """One text, or several."""
    if given is None or isinstance(given, str):
        return [] if given is None else [given]
    if isinstance(given, Mapping):
        raise TypeError(
            "several identifiers, and not a name or several, are for runs of two tables and look-ups"
        )
    names = list(given) if isinstance(given, Iterable) else [given]
    other = next((name for name in names if not isinstance(name, str)), None)
    if other is not None:
        raise TypeError(f"a name is a text, and not a {type(other).__name__}")
    return names


def _numbers(given: Number | Sequence[Number] | None) -> list[Number]:
    """One number, or several, or none."""
    if given is None:
        return []
    return list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given]


def _text(number: Number | None) -> str | None:
    """A number as the command reads it."""
    return None if number is None else str(number)


def _awaitable(run: Callable[_P, Result]) -> Callable[_P, Coroutine[Any, Any, Result]]:
    """The same run on a thread of its own, for programs of `asyncio`. If the task is cancelled, so is the link."""

    @functools.wraps(run)
    async def awaited(*args: _P.args, **kwargs: _P.kwargs) -> Result:
        running = asyncio.ensure_future(asyncio.to_thread(run, *args, **kwargs))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            link: Any = kwargs["link"]
            link.cancel()
            with contextlib.suppress(Exception):
                await running
            raise

    awaited.__name__ = awaited.__qualname__ = f"a{run.__name__}"
    awaited.__doc__ = (
        f"`{run.__name__}` for programs of asyncio. If the task is cancelled, the link is too."
    )
    return awaited


areceive = _awaitable(receive)
asend = _awaitable(send)


class Check(dict[str, Any]):
    """What a run would see of a table: the object that `vesica check --json` prints. As text, what
    `vesica check` prints.
    """

    def __init__(self, report: dict[str, Any], text: str) -> None:
        super().__init__(report)
        self._text = text

    def __str__(self) -> str:
        return self._text.rstrip()

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Check, (dict(self), self._text)


@renamed(value_width="payload_width")
@checked
def check(
    table: Rows = None,
    *,
    on: On,
    **options: Unpack[CheckOptions],
) -> Check:
    """Reports what a run would see of `table`: counts, blanks, repeated keys, and what normalisation changes.

    The arguments are those of `receive`, as a sender has them; of the columns of `payload` it says whether they fit. Needs no
    peer, and contains no value of the table, but for the keys of the first `show` rows, each value as it is and as it is
    compared.

    Raises what a run raises for a table that it refuses, such as DataError; the error's `check` has what was found.

    >>> donors = polars.DataFrame({"email": ["Ann@x.org", "ann@x.org", None]})
    >>> checked = vesica.check(donors, on="email", normalize={"email": "email"})
    >>> checked["rows"], checked["items"], checked["duplicates"], checked["blanks"], checked["changed"]
    (3, 1, 1, 1, 1)
    >>> vesica.check(donors, on="email", normalize={"email": "email"}, show=1)["shown"]
    [{'row': 1, 'values': [{'before': 'Ann@x.org', 'after': 'ann@x.org', 'is_invalid': False, 'is_denied': False}]}]
    """
    arguments: dict[str, Any] = {"on": on, **options}
    take_former_value(arguments)
    reading = reading_of(arguments)
    arguments["columns"] = columns_of(arguments)
    arguments["terms"] = {"reveal": ",".join(texts(arguments.pop("reveal")))}
    report, text, refusal = _vesica.check(table, reading, arguments)
    found = Check(json.loads(report), text)
    if refusal is not None:
        refusal.check = found
        raise refusal
    return found


def pair() -> tuple[Link, Link]:
    """Two links to each other within this process, with fresh identities: for tests and teaching. They meet over
    TLS on the loopback interface, as two machines would.

    >>> left, right = vesica.pair()
    >>> left.listens, right.listens
    (True, False)
    """
    left, right = Identity.generate(), Identity.generate()
    listening = _vesica.listen("127.0.0.1:0", identity=left, peer=right.fingerprint)
    connecting = _vesica.connect(listening.address, identity=right, peer=left.fingerprint)
    return listening, connecting


@checked
def rehearse(
    receiver: Mapping[str, Any], sender: Mapping[str, Any], **terms: Any
) -> tuple[Result, Result]:
    """Runs both parties in this process, for tests and teaching, and returns both results.

    `receiver` and `sender` are the arguments of `receive` and `send`, without a link; `terms` are those that are the
    same for both.

    Raises what the party raised that failed, not what that did to the other.

    >>> table = polars.DataFrame({"id": range(100)})
    >>> received, sent = vesica.rehearse(
    ...     {"table": table[:60], "on": "id"}, {"table": table[40:], "on": "id"},
    ...     reveal="size", security="semi-honest")
    >>> received.size, sent.size
    (20, None)
    """
    # What one party writes may be what the other reads.
    parties = {"receiver": receiver, "sender": sender}
    named = {
        f"{role}.{name}": (receive.__annotations__.get(name), value)
        for role, arguments in parties.items()
        for name, value in {**terms, **arguments}.items()
    }
    hints = {name: hint for name, (hint, _) in named.items()}
    check_arguments(hints, {name: value for name, (_, value) in named.items()})
    # One after the other: tables that are computed as they are read may share what computes them, as DuckDB's do.
    receiver, sender = _read(receiver), _read(sender)
    links = pair()
    failures: list[BaseException] = []
    results: dict[str, Result] = {}

    said: list[str] = []

    def party(role: str, link: Link, run: Any, arguments: Mapping[str, Any]) -> None:
        try:
            REHEARSAL.warnings = said
            results[role] = run(link=link, **{"progress": None, **terms, **arguments})
        except BaseException as failure:  # noqa: BLE001, raised again below
            failures.append(failure)
            for each in links:
                each.cancel()
        finally:
            REHEARSAL.warnings = None

    other = threading.Thread(target=party, args=("sender", links[1], send, sender))
    other.start()
    party("receiver", links[0], receive, receiver)
    other.join()
    if failures:
        # What one of them did to the other is not the reason.
        results_of_others = (NetworkError, PeerError, StoppedError)
        reasons = (f for f in failures if not isinstance(f, results_of_others))
        raise next(reasons, failures[0])
    for text in said:
        warnings.warn(text, RunWarning, stacklevel=2)
    return results["receiver"], results["sender"]


def _read(party: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arguments of a party, with the rows of its table in memory if they were not in files."""
    table = readable(party.get("table"))
    if not hasattr(table, "__arrow_c_stream__"):
        return party
    return {**party, "table": Table(Batches.of(table))}
