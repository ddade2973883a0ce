"""Private set intersection between two tables.

Two parties each hold a table. The receiver learns which of its rows have a key that the sender's table also has; the
sender learns how many distinct keys the receiver has, and nothing else.

    import vesica

    me = vesica.Identity.load("charity.key")
    link = vesica.connect("shop.example:7340", identity=me, peer="vs1:…")
    result = vesica.receive(donors, on="email", normalize={"email": "email"}, link=link)
    result.table.to_polars()

The other side calls `send`, and one of the two `listen` instead of `connect`.
"""

import atexit

from ._errors import (
    ContractError,
    DataError,
    Error,
    NetworkError,
    PeerError,
    ResourceError,
    RunWarning,
    UsageError,
)
from ._plan import plan
from ._progress import Progress
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
from ._vesica import Identity, Link, __version__, connect, listen, wait_for_runs

__all__ = [
    "Check",
    "Collected",
    "ContractError",
    "DataError",
    "Error",
    "Identity",
    "Link",
    "NetworkError",
    "PeerError",
    "Progress",
    "ResourceError",
    "Result",
    "RunWarning",
    "SplitJob",
    "Table",
    "UsageError",
    "__version__",
    "areceive",
    "asend",
    "check",
    "connect",
    "listen",
    "pair",
    "plan",
    "receive",
    "rehearse",
    "send",
    "split",
    "threshold",
]

# A run that Ctrl-C ended may still be taking leave of its peer.
atexit.register(wait_for_runs, 2.0)
