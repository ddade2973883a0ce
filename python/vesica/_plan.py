"""What a run will take, before it."""

from __future__ import annotations

import json
from typing import Any

from . import _vesica
from ._arguments import InputPath, checked
from ._runs import terms_of


@checked
def plan(
    receiver_size: int,
    sender_size: int | None = None,
    *,
    reveal: str = "matches",
    security: str | None = None,
    lambda_: int = 40,
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

    `bandwidth` is in bits per second, without a limit if it is `None`, and `rtt`, the round trip, in seconds. `items` is
    the number of bits of keys that are numbers. Seconds are those of this machine if `vesica plan --calibrate` has
    measured it, or a calibration is given; each forecast has them as `likely`, `low` and `high`.

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
