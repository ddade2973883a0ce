"""Published sets: one side publishes once, others ask later."""

from __future__ import annotations

import json
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Union

from . import _vesica
from ._arguments import check_arguments, checked, renamed
from ._errors import UsageError
from ._options import (
    Duration,
    FindOptions,
    InputSet,
    KeyOptions,
    On,
    OutputPath,
    OutputSet,
    Rows,
    SetDirectory,
    StateDirectory,
    Texts,
)
from ._progress import Listener
from ._runs import parts_of, reading_of, table_of, texts
from ._table import Table, facts
from ._vesica import Identity, Link, Server

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from ._options import LookupOptions, OpenOptions, PublishOptions

Key = Union[str, int, bytes]
"""A value of a key column."""


@renamed(database="set_dir")
@checked
def publish(
    table: Rows = None,
    *,
    on: On,
    identity: Identity,
    set_dir: SetDirectory,
    output: OutputSet,
    add: Rows = None,
    remove: Rows = None,
    rotate: bool = False,
    payload: Texts = (),
    payload_width: int | None = None,
    queries: int | None = None,
    max_keys: int | None = None,
    lambda_: int | None = None,
    **options: Unpack[PublishOptions],
) -> dict[str, Any]:
    """Publishes the keys of `table`, or what has changed since: `add` and `remove` are tables of keys that come and leave.
    Returns what `vesica publish` reports.

    The arguments are the command's options, with its defaults. Those that are not here are those of `receive`.

    identity   that which signs the set, and serves it
    set_dir    directory for the secret key and the count of queries; keep it like the table itself
    output     the file of the set, for clients; what changes later goes to files beside it
    rotate     publish the table under a new key in place of the old one
    payload    columns that a client gets with the rows that it finds
    payload_width   the bytes that these take together for each key; 64 if not given
    queries    how many the key answers in its life, of all clients together; 2**20 if not given; a key
               that replaces another answers as many as that
    max_keys   how many are ever published under the key; as many as the table has if not given
    lambda_    statistical security in bits, of all queries together; 40 if not given

    Raises a subclass of `Error`; the set and its database have not changed then. The same call goes on with what was
    computed.
    """
    declared = {
        "rotate": rotate,
        "payload": texts(payload),
        "payload_width": payload_width,
        "queries": queries,
        "max_keys": max_keys,
        "lambda_": lambda_,
    }
    changes = add is not None or remove is not None
    if changes == (table is not None or options["query"] is not None):
        raise UsageError("give a table to publish, or what to add to one or to remove")
    given = [name for name, value in declared.items() if value]
    if changes and given:
        line = (
            "is declared when a set is first published, and holds for what is added: leave it out"
        )
        raise UsageError(f"{given[0]}: {line}")
    arguments: dict[str, Any] = {"on": on, **options}
    listener = Listener(arguments.pop("progress"))
    reading = reading_of(arguments)
    arguments.update(declared, set_dir=set_dir, output=output)
    arguments["lambda"] = 40 if lambda_ is None else lambda_
    with listener:
        report = _vesica.publish(table, add, remove, reading, arguments, identity, listener)
    published: dict[str, Any] = json.loads(report)
    return published


@renamed(database="set_dir")
@checked
def serve(
    set_dir: SetDirectory,
    address: str,
    *,
    identity: Identity,
    clients: Sequence[str],
    quota: int,
    set: InputSet | None = None,
    connections: int = 1024,
    threads: int | None = None,
    timeout: Duration = 120,
    deadline: Duration | None = None,
    ledger: OutputPath | None = None,
) -> Server:
    """Answers those who look keys up in a published set, at `address`, `host:port`, until the server is stopped.

    set_dir      the directory that `publish` has made
    identity     that which has published the set
    clients      the fingerprints of those who may ask
    quota        the most queries of each client under the key
    set          the file of the set, which clients may then fetch
    connections  the most at once
    threads      to answer on; all of this machine's if not given
    timeout      how long a client may stay connected without a question: seconds, a text such as "5m", or a `timedelta`
    deadline     how long a client may keep one connection waiting in all; ten times what its bytes take on a slow link if not
                 given, and at least an hour
    ledger       a file in which each question is written down before it is answered (`docs/ledger.md`)

    In a `with` statement the server is stopped at the end; `Server.wait` waits for Ctrl-C.

    Raises NetworkError if the port is taken, and UsageError if the set cannot be served.
    """
    arguments = dict(locals())
    if isinstance(clients, str):
        raise TypeError("clients are a list of fingerprints")
    arguments["clients"] = list(clients)
    del arguments["identity"]
    return _vesica.serve(arguments, identity)


@dataclass(frozen=True, repr=False)
class LookupResult:
    """What a look-up has found."""

    report: dict[str, Any]
    """The report of the look-up, as `vesica lookup --log-format json` writes it."""
    matching: array[int]
    """Which rows are in the set, counted from 0, ascending."""
    rows: array[int]
    """Which rows the result has, ascending: those of `table`, or of `output`. They are those in the set, but with
    `rows="rest"` the others, and with `rows="all"` all of them."""
    _table: Table | None = field(default=None, repr=False)

    @property
    def table(self) -> Table:
        """The rows of the result, with all columns, in the table's order, and after these the publisher's columns.

        Raises UsageError if they were written to `output`, or the table is a CSV or JSON Lines file, which has no types.
        """
        return table_of(self._table)

    @property
    def matches(self) -> int:
        """How many distinct keys are in the set."""
        matches: int = self.report["matches"]
        return matches

    def _known(self) -> dict[str, Any]:
        known = {name: self.report[name] for name in ("matches", "asked", "left", "release")}
        recalled = self.report.get("recalled")
        return {**known, "recalled": recalled} if recalled else known

    def __repr__(self) -> str:
        known = [f"{name}={value}" for name, value in self._known().items() if value is not None]
        return f"<LookupResult {', '.join(known)}>"

    def _repr_html_(self) -> str:
        return facts(self._known(), self._table)


class OpenLookup:
    """A published set that is open for look-ups; `open_lookup` makes it. Its methods may be called from any thread, and take
    turns. Ctrl-C in one of them closes it.
    """

    def __init__(self, handle: _vesica.LookupHandle, link: Link, form: dict[str, Any]) -> None:
        self._handle = handle
        self._link = link
        self._form = form

    @checked
    def find(
        self,
        table: Rows = None,
        **options: Unpack[FindOptions],
    ) -> LookupResult:
        """Learns which rows of `table` are in the set, as `lookup` does, with its arguments.

        The server sees when the next question comes, and when this is closed. If that is as soon as the rows are here, it
        learns how long they took, and so about how many there are: ask and close at times that do not depend on what was
        found, or take `lookup`, which leaves before it looks.
        """
        return self._find(table, {**options}, False)

    def _find(self, table: Rows, options: dict[str, Any], is_last: bool) -> LookupResult:
        listener = Listener(options.pop("progress"))
        rows, output = options.pop("rows"), options.pop("output")
        reading = reading_of({**options, **self._form})
        with listener:
            found = self._handle.find(table, reading, rows, output, is_last, listener)
        report, matching, numbers, batches = parts_of(found)
        none = array("q")
        return LookupResult(report, matching or none, numbers or none, batches)

    def get(self, *key: Key) -> dict[str, str | None] | None:
        """What the publisher has put beside a key: its columns by their names. `None` if the key is not in the set.

        A `key` of several columns is as many values. The server learns that one key was asked about, unless it was before.

        Raises DataError for a key that its normalisation refuses.
        """
        check_arguments({}, {"key": list(key)})
        columns = self._handle.get(list(key), Listener(None))
        return None if columns is None else dict(columns)

    def has(self, *key: Key) -> bool:
        """Whether a `key` is in the set, asked as by `get`."""
        return self.get(*key) is not None

    def close(self) -> None:
        """Leaves the server, and frees the directory of the state."""
        self._handle.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


@checked
def open_lookup(
    set: InputSet,
    *,
    on: On,
    link: Link,
    fetch: bool = False,
    state: StateDirectory | None = None,
    **options: Unpack[OpenOptions],
) -> OpenLookup:
    """Opens the file of a published set for any number of look-ups, which share what was verified and answered, and one
    connection to the server. Without `state` it forgets the answers when it is closed.

    The arguments are those of `lookup`. Connects when there is something to ask or to fetch, and again if the connection is
    lost. A release that is published later is seen once the set is opened again.

    >>> import tempfile
    >>> here = tempfile.mkdtemp()
    >>> shop, charity = vesica.Identity.generate(), vesica.Identity.generate()
    >>> customers = polars.DataFrame({"contact": ["ann@x.org", "bob@x.org"], "tier": ["gold", None]})
    >>> published = vesica.publish(customers, on="contact", normalize={"contact": "email"}, payload="tier",
    ...     identity=shop, set_dir=f"{here}/set", output=f"{here}/customers.vset")
    >>> published["keys"]
    2
    >>> with vesica.serve(f"{here}/set", "127.0.0.1:0", identity=shop, clients=[charity.fingerprint],
    ...                   quota=100) as server:
    ...     link = vesica.connect(server.address, identity=charity, peer=shop.fingerprint)
    ...     with vesica.open_lookup(f"{here}/customers.vset", on="email", normalize={"email": "email"},
    ...                             link=link) as customers:
    ...         customers.get("Ann@x.org"), customers.has("eve@x.org")
    ({'tier': 'gold'}, False)
    """
    arguments: dict[str, Any] = {"set": set, "fetch": fetch, "state": state, **options}
    form = {"on": on, **{name: arguments.pop(name) for name in KeyOptions.__annotations__}}
    reading = reading_of({**form})
    return OpenLookup(_vesica.open_lookup(reading, arguments, link, Listener(None)), link, form)


@checked
def lookup(
    table: Rows = None,
    *,
    on: On,
    set: InputSet,
    link: Link,
    fetch: bool = False,
    state: StateDirectory | None = None,
    **options: Unpack[LookupOptions],
) -> LookupResult:
    """Learns which rows of `table` have a key that is in a published set. The server learns how many keys it is asked about.
    The connection ends before anything is looked at that depends on which of them are in the set.

    The arguments are the options of `vesica lookup`, with its defaults, and what `receive` has of them.

    set        the file of the set; those of later releases are beside it
    link       how to reach the server, and who it is: `connect`
    fetch      get from the server what of the set's files is missing here; a server with `set` hands them out
    state      directory for what the server has answered, encrypted: no key is asked about again; after a look-up that was
               cut, the next one has what that has paid for, and pays for nothing else that it asked about
    output, output_table   a file or a table for the rows, instead of `LookupResult.table`

    Raises a subclass of `Error`.
    """
    others: dict[str, Any] = {"on": on, "link": link, "fetch": fetch, "state": state, **options}
    of_find = {name: others.pop(name) for name in FindOptions.__annotations__}
    with open_lookup(set, **others) as opened:
        return opened._find(table, of_find, True)
