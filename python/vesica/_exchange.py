"""Runs between parties that are never online together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from . import _vesica
from ._arguments import checked
from ._options import CourierDirectory, On, Rows
from ._progress import Listener
from ._runs import Result, reading_of, terms_of
from ._vesica import Identity

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._options import ExchangeOptions


@dataclass(frozen=True, repr=False)
class Exchanged:
    """What a step of a run by files has made."""

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
    on: On,
    role: Literal["receiver", "sender"],
    identity: Identity,
    peer: str,
    state: CourierDirectory,
    **options: Unpack[ExchangeOptions],
) -> Exchanged:
    """Takes a step of a run between parties that are never online together: `message` is the peer's last, and any courier
    carries them.

    The arguments are the options of `vesica exchange`; those that are not here are those of `receive`. Each step repeats those
    of the first. The last step again, with the same message and keys, makes the same message. With `both`, the receiver's last
    message comes with its rows: send it at a time that does not depend on how long they took.

    step       "offer" by the sender, "start" by the receiver, "answer" by the sender, "finish" by the receiver; with `both`
               the sender finishes too
    message    the peer's last, but for an offer
    role       "receiver" or "sender"
    identity   this side's
    peer       the peer's fingerprint
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
    arguments: dict[str, Any] = {"on": on, "role": role, "peer": peer, "state": state, **options}
    listener = Listener(arguments.pop("progress"))
    reading = reading_of(arguments)
    arguments["terms"] = terms_of(arguments)
    arguments["max_peer_items"] = str(arguments["max_peer_items"])
    with listener:
        made, over = _vesica.exchange(step, message, table, reading, arguments, identity, listener)
    if over is None:
        return Exchanged(made, None)
    return Exchanged(made, Result.of(over))
