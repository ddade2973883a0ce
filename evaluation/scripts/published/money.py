"""What a run costs in a cloud: PRTY19, section 6.2."""

from __future__ import annotations

import json

from stages import ROOT

PRICES = ROOT / "crates" / "plan" / "data" / "prices.json"


def cost(setting: str, seconds: float, sent: tuple[float, float]) -> float:
    """USD of a run of so many seconds in which receiver and sender send so many bytes."""
    settings = {one["name"]: one for one in json.loads(PRICES.read_text())["settings"]}
    prices = settings[setting]
    total = prices["usd_per_gb_of_both"] * sum(sent) / 1e9
    for side, count in zip(("receiver", "sender"), sent):
        total += prices[side]["usd_per_hour"] * seconds / 3600
        total += prices[side]["usd_per_gb_sent"] * count / 1e9
    return total
