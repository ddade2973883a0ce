"""Rows in memory."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from ._vesica import Batches

if TYPE_CHECKING:
    import polars


class Table:
    """Rows in memory, for any library that reads Arrow: it has `__arrow_c_stream__`.

    >>> import polars
    >>> donors = polars.DataFrame({"email": ["a@x.org", "b@x.org"], "gift": [5, 10]})
    >>> shop = polars.DataFrame({"email": ["b@x.org", "c@x.org"]})
    >>> received, _ = vesica.rehearse({"table": donors, "on": "email"}, {"table": shop, "on": "email"})
    >>> received.table
    <Table of 1 row: email, gift>
    >>> received.table.to_polars().rows()
    [('b@x.org', 10)]
    """

    def __init__(self, batches: Batches) -> None:
        self._batches = batches

    @property
    def column_names(self) -> list[str]:
        """The names of the columns."""
        return self._batches.column_names

    def __len__(self) -> int:
        return len(self._batches)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """A capsule with a stream of record batches."""
        return self._batches.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """A capsule with the schema."""
        return self._batches.__arrow_c_schema__()

    def to_polars(self) -> polars.DataFrame:
        """A polars data frame; needs polars."""
        import polars

        return polars.DataFrame(self)

    def to_pandas(self) -> Any:
        """A pandas data frame; needs pandas, and pyarrow, with which pandas reads Arrow."""
        return self.to_arrow().to_pandas()

    def to_arrow(self) -> Any:
        """A table of pyarrow, whose buffers are these; needs pyarrow. For functions that read Arrow in no other way.

        >>> table = polars.DataFrame({"id": [1, 2]})
        >>> received, _ = vesica.rehearse({"table": table, "on": "id"}, {"table": table, "on": "id"})
        >>> polars.from_arrow(received.table.to_arrow()).rows()
        [(1,), (2,)]
        """
        import pyarrow

        return pyarrow.table(self)

    def __copy__(self) -> Table:
        return self

    def __deepcopy__(self, _: Any) -> Table:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _table_of, (self._batches.to_ipc(),)

    def __repr__(self) -> str:
        return f"<Table of {self._rows()}: {', '.join(self._names())}>"

    def _repr_html_(self) -> str:
        names = "".join(f"<th>{escape(name)}</th>" for name in self._names())
        lines = [names]
        for row in self._batches.preview(_SHOWN):
            lines.append("".join(f"<td>{_cell(text)}</td>" for text in row[:_SHOWN]))
        rows = "".join(f"<tr>{line}</tr>" for line in lines)
        return f"<table>{rows}</table><small>{self._rows()}</small>"

    def _names(self) -> list[str]:
        """The names of the first columns, and how many there are besides."""
        names = [_short(name, 40) for name in self.column_names[:_SHOWN]]
        others = len(self.column_names) - len(names)
        return names + [f"and {others} more"] * (others > 0)

    def _rows(self) -> str:
        return "1 row" if len(self) == 1 else f"{len(self)} rows"


# Rows and columns that are shown of a table.
_SHOWN = 10


def _short(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _cell(text: str | None) -> str:
    return "<em>null</em>" if text is None else escape(_short(text, 80))


def _table_of(stream: bytes) -> Table:
    """A table that was pickled."""
    return Table(Batches.from_ipc(stream))


def facts(known: dict[str, Any], rows: Table | None) -> str:
    """Names and values for a notebook, and the first rows of a result that is in memory."""
    lines = (
        f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>"
        for name, value in known.items()
    )
    shown = "" if rows is None else rows._repr_html_()
    return f"<table>{''.join(lines)}</table>{shown}"
