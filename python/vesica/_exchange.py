"""Runs between parties that are never online together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from . import _vesica
from ._arguments import CourierDirectory, Database, InputPath, OutputPath, Rows, checked
from ._progress import Listener, ProgressOption
from ._runs import Format, Mode, Result, Texts, reading_of, terms_of
from ._vesica import Identity


@dataclass(frozen=True, repr=False)
class Exchanged:
    """What a step of a run by courier has made."""

    message: bytes | None
    """The message for the peer, if there is one."""
    result: Result | None
    """What the run left on this side, if it is over here."""

    def __repr__(self) -> str:
        of = "no message" if self.message is None else f"a message of {len(self.message)} bytes"
        result = "the run goes on" if self.result is None else self.result
        return f"<Exchanged {of}, {result}>"


@checked
def exchange(
    step: Literal["offer", "start", "answer", "finish"],
    message: bytes | None = None,
    *,
    table: Rows = None,
    on: Texts,
    role: Literal["receiver", "sender"],
    identity: Identity,
    peer: str,
    state: CourierDirectory,
    output: OutputPath | None = None,
    output_table: str | None = None,
    output_table_mode: Mode = "create",
    normalize: Mapping[str, str] | None = None,
    protocol: str = "auto",
    security: Literal["malicious", "malicious-sender", "semi-honest"] = "malicious",
    both: bool = False,
    max_peer_items: int = 2**28,
    lambda_: int = 40,
    memory: int | str | None = None,
    threads: int | None = None,
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
) -> Exchanged:
    """Takes a step of a run between parties that are never online together: `message` is the peer's last, and any courier
    carries them.

    The arguments are the options of `vesica exchange`, and what `receive` has of them; each step repeats those of the
    first. The last step again, with the same message and keys, makes the same message. With `both`, the receiver's last
    message comes with its rows: send it at a time that does not depend on how long they took.

    state      directory for what this side keeps from step to step, encrypted. A copy of it takes no step; once there is a
               result, it can go

    Raises a subclass of `Error`: DataError for a message that is not the peer's next, and for a table with other keys than
    in the first step; UsageError where the run is over.

    >>> import tempfile
    >>> shop, charity = vesica.Identity.generate(), vesica.Identity.generate()
    >>> sender = {"table": polars.DataFrame({"id": [2, 3]}), "on": "id", "role": "sender", "identity": shop,
    ...     "peer": charity.fingerprint, "state": tempfile.mkdtemp()}
    >>> receiver = {"table": polars.DataFrame({"id": [1, 2]}), "on": "id", "role": "receiver", "identity": charity,
    ...     "peer": shop.fingerprint, "state": tempfile.mkdtemp()}
    >>> offer = vesica.exchange("offer", **sender).message
    >>> question = vesica.exchange("start", offer, **receiver).message
    >>> answer = vesica.exchange("answer", question, **sender).message
    >>> list(vesica.exchange("finish", answer, **receiver).result.rows)
    [1]
    """
    arguments: dict[str, Any] = dict(locals())
    listener = Listener(arguments.pop("progress"))
    reading = reading_of(arguments)
    arguments["terms"] = terms_of(arguments)
    arguments["max_peer_items"] = str(max_peer_items)
    for name in ("step", "message", "table", "identity"):
        del arguments[name]
    with listener:
        made, over = _vesica.exchange(step, message, table, reading, arguments, identity, listener)
    if over is None:
        return Exchanged(made, None)
    return Exchanged(made, Result.of(over))
