"""What a run will take, before it."""

from __future__ import annotations

import json
from typing import Any

from . import _vesica
from ._arguments import checked
from ._options import InputPath
from ._runs import terms_of


@checked
def plan(
    receiver_size: int,
    sender_size: int | None = None,
    *,
    reveal: str = "matches",
    security: str | None = None,
    lambda_: int = 40,
    post_quantum: bool = False,
    min_size: int | None = None,
    optimize: str | None = None,
    value_columns: int = 1,
    items: int | None = None,
    bandwidth: int | None = None,
    rtt: float = 0.0,
    threads: int = 1,
    prices: InputPath | None = None,
    calibration: InputPath | None = None,
) -> dict[str, Any]:
    """What a run over sets of these sizes would take with each protocol that serves: the object that
    `vesica plan --json` prints.

    receiver_size, sender_size   distinct keys of each side; the second is the first if None
    reveal, security, lambda_, post_quantum, min_size, optimize   as for `receive`; any security that serves if None
    value_columns   columns of numbers to sum, 1 to 8
    items           bits of keys that are numbers, 1 to 64; None for other keys
    bandwidth       bits per second; no limit if None
    rtt             seconds of a round trip
    threads         of each side
    prices          a file with what a machine and its traffic cost; those that are built in if None
    calibration     the file that `vesica plan --calibrate` has written; that of this machine if None

    Seconds are those of this machine if it is calibrated; each forecast has them as `likely`, `low` and `high`.

    Raises UsageError if no protocol serves, and DataError for a file that cannot be used.

    >>> answer = vesica.plan(1000, 2**20, bandwidth=100_000_000, rtt=0.08)
    >>> answer["auto"], answer["forecasts"][0]["protocol"] == answer["fastest"]
    ('vole', True)
    >>> seconds = answer["forecasts"][0]["seconds"]
    >>> seconds["low"] < seconds["likely"] < seconds["high"]
    True
    """
    asked = dict(locals())
    asked["sender_size"] = receiver_size if sender_size is None else sender_size
    asked["terms"] = terms_of(asked)
    answer: dict[str, Any] = json.loads(_vesica.plan(asked))
    return answer
