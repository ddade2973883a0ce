"""Runs, and what they leave."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import json
import threading
import warnings
from array import array
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from html import escape
from typing import TYPE_CHECKING, Any, Callable, Literal, Union

from . import _vesica
from ._arguments import (
    Database,
    InputPath,
    OutputPath,
    Rows,
    StoreDirectory,
    WorkDirectory,
    check_arguments,
    checked,
)
from ._errors import NetworkError, PeerError, RunWarning, StoppedError, UsageError
from ._progress import REHEARSAL, Listener, ProgressOption
from ._sources import address, readable
from ._table import Table, facts
from ._vesica import Batches, Identity, Link

if TYPE_CHECKING:
    from typing_extensions import ParamSpec

    _P = ParamSpec("_P")

Texts = Union[str, Sequence[str]]
Number = Union[int, float, Decimal, str]
# A union when it is evaluated, too: stubtest takes a `Literal` of several for one.
Mode = Union[Literal["create"], Literal["append"], Literal["replace"]]  # noqa: PYI030
Format = Union[Literal["csv"], Literal["parquet"], Literal["jsonl"], Literal["arrow"]]  # noqa: PYI030


class Threshold(str):
    """What `threshold` makes."""

    __slots__ = ()


Reveal = Union[Literal["matches", "size", "sum", "inner-product", "shares"], Threshold]


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
        if values is None:
            return None
        return {name: Decimal(v) if isinstance(v, str) else v for name, v in values.items()}

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
        return facts({**self._known(), "run": self._about()})


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


@checked
def receive(
    table: Rows = None,
    *,
    on: Texts,
    link: Link,
    output: OutputPath | None = None,
    output_table: str | None = None,
    output_table_mode: Mode = "create",
    reveal: Reveal | Sequence[Reveal] = "matches",
    rows: Literal["matching", "rest", "all"] = "matching",
    take_values: bool = False,
    value: Texts | None = None,
    value_width: int | None = None,
    value_scale: int | Sequence[int] = 0,
    value_bound: Number | Sequence[Number] | None = None,
    value_repeated: Literal["sum", "refuse"] = "sum",
    payload: str | None = None,
    payload_width: int | None = None,
    normalize: Mapping[str, str] | None = None,
    protocol: str = "auto",
    offline: str | None = None,
    offline_store: StoreDirectory | None = None,
    attested: str | None = None,
    security: Literal["malicious", "malicious-sender", "semi-honest"] = "malicious",
    both: bool = False,
    align: bool = False,
    min_size: int | None = None,
    optimize: Literal["time", "traffic", "auto"] = "time",
    bandwidth: str | None = None,
    max_peer_items: int = 2**28,
    max_peer_value_bound: int | None = None,
    max_peer_values: int = 8,
    lambda_: int = 40,
    memory: int | str | None = None,
    threads: int | None = None,
    wait: float = 120,
    timeout: float = 120,
    deadline: float | None = None,
    work_dir: WorkDirectory | None = None,
    allow_empty: bool = False,
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
    progress: ProgressOption = "auto",
) -> Result:
    """Learns which rows of `table` have a key that the sender's table also has, or what else `reveal` says.

    The arguments are the command's options, with its defaults. Those from `reveal` to `lambda_` that set what is computed
    have to be the same on both sides; the peer is told if they are not.

    The table:

    table      a path, or several; a directory or a pattern stands for its files, and several files are one table. Or
               anything with `__arrow_c_stream__`: a frame of polars or pandas, a table of pyarrow, a relation of
               DuckDB, a result of ADBC. Or what is read when the run begins: a lazy frame of polars, a dataset of pyarrow,
               a table of deltalake or pyiceberg, a cursor of ADBC
    on         the key column, or several; both sides name corresponding columns in the same order
    normalize  the profiles of key columns, as `{"email": "email", "mobile": "phone:GB"}`
    null       texts that stand for null in the key, as "NULL"
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
    take_values   take the columns that the sender hands over, each under its name with `peer_` before it
    progress   a function of a `Progress`; "auto" shows a bar in a notebook and nothing elsewhere; or None

    What both sides agree on:

    reveal     `matches`, `size`, `sum`, `inner-product`, `shares`, or what `threshold` makes; several of these numbers at
               once as `["size", "sum"]`
    both       the sender learns the matches or the number too; a dishonest receiver can lie to it
    align      with `both`: the matching rows come in one order on both sides, with a column `match_number` that both
               sides share
    min_size   the fewest keys that have to match for a number or rows above a threshold to be revealed
    security   the weakest to accept: against a peer that may do anything, against a sender that may, or against a peer
               that follows the protocol, which numbers need
    lambda_    bits of statistical security, 40 to 128
    protocol   its name, or "auto", which takes the fastest for the sizes
    optimize   what a circuit protocol saves; "auto" decides by `bandwidth` or the round trip
    bandwidth  that of the link, as "200mbps"
    offline    with `protocol="ole"`: where its correlations come from, "lattice", "ot", "dealer" or "tee"
    offline_store   with `protocol="ole"`: a directory of prepared correlations, of which the run takes one pair
    attested   with `offline` "dealer" or "tee": take only a pair whose makers have shown this platform and measurement

    Values:

    value      the column to compute with, or several to sum; of a sender whose receiver learns the matches, columns to
               hand over
    value_width   bytes that the columns handed over take together for each key; with `take_values` the most to accept
    value_scale   digits after the decimal point, for all columns to compute with, or one for each
    value_bound   the largest absolute value of a key, written as the values are, for all columns or one for each; the
               peer is told. If None, 2**31 - 1 units of the last digit
    value_repeated   what counts for a key that several rows have: their sum, or nothing: such a table is refused
    payload    with `reveal="shares"`: a column of texts of which both sides get shares too
    payload_width   the bytes that it takes for each key

    Limits:

    link       how to reach the sender, and who it is: `listen` or `connect`
    wait       seconds that this side waits for the peer to connect, from when its own table is read
    timeout    seconds that a connected peer may be silent; a working one says every second that it is there
    deadline   seconds that the run may take from when the contract is agreed; ten times what the sizes take on a slow
               link and a slow machine if not given, and at least an hour
    memory     bytes, or a text such as "4G"; half of this machine's if not given. Larger sets run in buckets
    threads    to compute on; all of this machine's if not given
    work_dir   a directory from which a run goes on after a failure, if the same call is made again on both sides
    max_peer_items   the most distinct keys that the peer may bring
    max_peer_values   the most columns of values that the peer may have, 1 to 8
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

    The sender can hand over columns with the rows that match:

    >>> shop = {"table": polars.DataFrame({"id": [2, 3], "city": ["Bern", "Chur"]}), "on": "id"}
    >>> charity = {"table": polars.DataFrame({"id": [1, 2]}), "on": "id"}
    >>> received, _ = vesica.rehearse(charity | {"take_values": True, "rows": "all"}, shop | {"value": "city"})
    >>> received.table.to_polars().rows()
    [(1, False, None), (2, True, 'Bern')]
    """
    return _run("receiver", **locals())


def _with_arguments_of(
    run: Callable[_P, Result],
) -> Callable[[Callable[..., Result]], Callable[_P, Result]]:
    """For a function that takes what `run` takes: every argument stands once."""
    signature = inspect.signature(run)

    def decorated(other: Callable[..., Result]) -> Callable[_P, Result]:
        @functools.wraps(other)
        def called(*args: _P.args, **kwargs: _P.kwargs) -> Result:
            given = signature.bind(*args, **kwargs)
            given.apply_defaults()
            return other(**given.arguments)

        called.__signature__ = signature  # type: ignore[attr-defined]
        called.__annotations__ = run.__annotations__
        return called

    return decorated


@checked
@_with_arguments_of(receive)
def send(**arguments: Any) -> Result:
    """Lets the receiver learn what `reveal` says about `table`; learns how many distinct keys the receiver has.

    The arguments are those of `receive`, but for `take_values`. With `both`, on both sides, this side gets its
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
    """
    return _run("sender", **arguments)


def _run(role: str, **arguments: Any) -> Result:
    table, link = arguments.pop("table"), arguments.pop("link")
    listener = Listener(arguments.pop("progress"))
    reading, options = arguments_of(arguments)
    with listener:
        return Result.of(_vesica.run(role, table, reading, options, link, listener))


def arguments_of(arguments: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """How a table is read, and the options, as the engine takes them."""
    reading = reading_of(arguments)
    arguments["reveal"] = ",".join(texts(arguments["reveal"]))
    arguments["terms"] = terms_of(arguments)
    arguments["max_peer_items"] = str(arguments["max_peer_items"])
    arguments["value"] = texts(arguments["value"])
    arguments["value_scale"] = _numbers(arguments["value_scale"])
    arguments["value_bound"] = [str(bound) for bound in _numbers(arguments["value_bound"])]
    return reading, arguments


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
    return {name: str(value) for name, value in given.items() if value is not None}


def reading_of(arguments: dict[str, Any]) -> dict[str, Any]:
    """Takes the arguments that say how a table is read."""
    names = "format delimiter header quote escape encoding"
    reading = {name: arguments.pop(name) for name in names.split()}
    # Where a table may be the result of a query, and a result may go to a table.
    asks = "query" in arguments
    names = "query database database_file driver"
    query = {name: arguments.pop(name) if asks else None for name in names.split()}
    names = "output_table output_table_mode"
    query.update((name, arguments.pop(name, None)) for name in names.split())
    return {
        **reading,
        **query,
        "database": address(query["database"]),
        "on": texts(arguments.pop("on")),
        "normalize": dict(arguments.pop("normalize") or {}),
        "null": texts(arguments.pop("null")),
        "memory": _text(arguments.pop("memory")),
    }


def texts(given: Texts | None) -> list[str]:
    """One text, or several."""
    if given is None or isinstance(given, str):
        return [] if given is None else [given]
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


def _text(number: int | str | None) -> str | None:
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


@checked
def check(
    table: Rows = None,
    *,
    on: Texts,
    value: Texts | None = None,
    value_width: int | None = None,
    show: int = 0,
    normalize: Mapping[str, str] | None = None,
    memory: int | str | None = None,
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
) -> Check:
    """Reports what a run would see of `table`: counts, blanks, repeated keys, and what normalisation changes.

    The arguments are those of `receive`; `value` names columns to hand over, as for `send`, of which it says whether they
    fit. Needs no peer, and contains no value of the table, but for the keys of the first `show` rows, each value as it is and
    as it is compared.

    Raises DataError for a table that cannot be used.

    >>> donors = polars.DataFrame({"email": ["Ann@x.org", "ann@x.org", None]})
    >>> checked = vesica.check(donors, on="email", normalize={"email": "email"})
    >>> checked["rows"], checked["items"], checked["duplicates"], checked["blanks"], checked["changed"]
    (3, 1, 1, 1, 1)
    >>> vesica.check(donors, on="email", normalize={"email": "email"}, show=1)["shown"]
    [{'row': 1, 'values': [{'before': 'Ann@X.org', 'after': 'ann@x.org', 'is_invalid': False}]}]
    """
    arguments = dict(locals())
    table, columns = arguments.pop("table"), texts(value)
    report, text = _vesica.check(table, reading_of(arguments), columns, value_width, show)
    return Check(json.loads(report), text)


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
