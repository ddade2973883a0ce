"""Private set intersection between two tables.

Two parties each hold a table. The receiver learns which of its rows have a key that the sender's table also has; the
sender learns how many distinct keys the receiver has, and nothing else.

    import vesica

    me = vesica.Identity.load("charity.key")
    link = vesica.connect("shop.example:7340", identity=me, peer="vs1:…")
    result = vesica.receive(donors, on="email", normalize={"email": "email"}, link=link)
    result.table.to_polars()

The other side calls `send`, and one of the two `listen` instead of `connect`. A side can also `publish` its table once, for
others to `lookup`, and parties that are never online together `exchange` messages.
"""

import atexit as _atexit

from ._errors import (
    ContractError,
    DataError,
    Error,
    NetworkError,
    PeerError,
    ResourceError,
    RunWarning,
    StoppedError,
    UsageError,
)
from ._exchange import Exchanged, exchange
from ._plan import plan
from ._progress import Progress
from ._published import LookupResult, OpenLookup, lookup, open_lookup, publish, serve
from ._runs import (
    Check,
    Result,
    areceive,
    asend,
    check,
    pair,
    receive,
    rehearse,
    send,
    threshold,
)
from ._table import Table
from ._tasks import Collected, SplitJob, split
from ._vesica import Identity, Link, Server, __version__, connect, listen
from ._vesica import wait_for_runs as _wait_for_runs

__all__ = [
    "Check",
    "Collected",
    "ContractError",
    "DataError",
    "Error",
    "Exchanged",
    "Identity",
    "Link",
    "LookupResult",
    "NetworkError",
    "OpenLookup",
    "PeerError",
    "Progress",
    "ResourceError",
    "Result",
    "RunWarning",
    "Server",
    "SplitJob",
    "StoppedError",
    "Table",
    "UsageError",
    "__version__",
    "areceive",
    "asend",
    "check",
    "connect",
    "exchange",
    "listen",
    "lookup",
    "open_lookup",
    "pair",
    "plan",
    "publish",
    "receive",
    "rehearse",
    "send",
    "serve",
    "split",
    "threshold",
]

# A run that Ctrl-C ended may still be taking leave of its peer.
_atexit.register(_wait_for_runs, 2.0)
