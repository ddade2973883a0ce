"""Markdown: numbers, and rows in which ours stand below the paper's."""

from __future__ import annotations

from collections.abc import Sequence

from .measure import Cell

MISSING = "-"


def digits(value: float, count: int = 3) -> str:
    """The value with so many digits that count."""
    if value == 0:
        return "0"
    if value < 1e-4:
        return f"{value:.1e}"
    text = f"{value:.{count}g}"
    if "e" in text:
        text = f"{value:.0f}"
    whole = text.partition(".")[0]
    return f"{int(whole):,}" if len(whole) > 4 else text


def shown(cell: Cell | None) -> str:
    """A cell of ours; computed ones are in italics, with a dagger if from a run with fewer items."""
    if cell is None:
        return MISSING
    text = digits(cell.value)
    return f"*{text}*†" if cell.is_scaled else f"*{text}*" if cell.is_computed else text


def ratio(paper: float | None, here: Cell | None) -> str:
    """How many times as much the paper's figure is."""
    if paper is None or here is None or here.value == 0:
        return ""
    return digits(paper / here.value, 2)


def heading(*cells: str) -> list[str]:
    return [line(cells), "|" + "---|" * len(cells)]


def line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


class Row:
    """A row of the paper's, and ours or why there is none."""

    def __init__(self, label: str, paper: Sequence[float | str | None]) -> None:
        self.label, self.paper = label, paper

    def numbers(self) -> list[float | None]:
        return [value if isinstance(value, (int, float)) else None for value in self.paper]

    def lines(
        self,
        here: Sequence[Cell | None] | str,
        compared: Sequence[bool] | None = None,
        label: str = "here",
    ) -> list[str]:
        """Up to four lines: the paper's, ours, the ratio, and of seconds the ratio where the yardstick is 1.

        With a reason in place of ours, one. Only cells that are `compared` have ratios: all, if it is not said.
        """
        first = [
            MISSING if v is None else v if isinstance(v, str) else digits(v) for v in self.paper
        ]
        if isinstance(here, str):
            return [line([self.label, here, *first])]
        found = [line([self.label, "paper", *first]), line(["", label, *map(shown, here)])]
        theirs = self.numbers()
        if compared is not None:
            theirs = [value if wanted else None for value, wanted in zip(theirs, compared)]
        at_one = [
            None if cell is None or cell.at_one is None else Cell(cell.at_one) for cell in here
        ]
        for name, ours in (("ratio", here), ("at yardstick 1", at_one)):
            ratios = [ratio(paper, cell) for paper, cell in zip(theirs, ours)]
            found += [line(["", name, *ratios])] if any(ratios) else []
        return found


def megabytes(cell: Cell | None) -> Cell | None:
    return None if cell is None else cell._replace(value=cell.value / 1e6)


def bits_per_item(cell: Cell | None, items: int) -> Cell | None:
    return None if cell is None else cell._replace(value=8 * cell.value / items)


def scaled(value: float | None, by: float) -> float | None:
    return None if value is None else value * by
