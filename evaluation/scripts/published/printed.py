"""The papers' own figures, as they were typed from the papers into evaluation/papers/printed."""

from __future__ import annotations

import json
from typing import Union

from stages import ROOT

FOLDER = ROOT / "evaluation" / "papers" / "printed"
PAPERS = ("prty19", "rt21", "cgs22", "kbm23", "ltsxq26")

Value = Union[str, float, int, None]


class Row(dict):
    """A row of a table, by the names of its columns."""

    def number(self, column: str) -> float | None:
        """The figure of a column; nothing if the paper has none there, or a word such as DNF."""
        value = self[column]
        return float(value) if isinstance(value, (int, float)) else None

    def size(self, column: str) -> int:
        return size(self[column])

    def bytes(self, column: str) -> float | None:
        """The bytes of a column by the row's unit, which is what the paper calls a megabyte or kilobyte."""
        value = self.number(column)
        return None if value is None else value * self["unit"]


class Paper:
    """The tables of a paper."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.text = json.loads((FOLDER / f"{name}.json").read_text())

    def __getitem__(self, table: str) -> list[Row]:
        found = self.text["tables"][table]
        columns = found["columns"]
        for row in found["rows"]:
            if len(row) != len(columns):
                raise ValueError(f"{self.name}, table {table}: {len(row)} cells of {len(columns)}")
        return [Row(zip(columns, row)) for row in found["rows"]]


def size(text: Value) -> int:
    """A number of items, as 4096 or 2^12."""
    base, power, exponent = str(text).partition("^")
    return int(base) ** int(exponent) if power else int(base)
