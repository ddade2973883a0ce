"""Tables and databases of other libraries, as what the engine reads."""

from __future__ import annotations

from typing import Any

# What makes a stream of record batches of an object, in the order in which these are tried.
STREAMS = (
    # A lake of Delta, deleted rows left out; releases before 1.6 have a dataset instead, and refuse what it cannot tell.
    ("deltalake", "DeltaTable", ("scan",)),
    ("deltalake", "DeltaTable", ("to_pyarrow_dataset", "scanner", "to_reader")),
    ("pyiceberg", "Table", ("scan", "to_arrow_batch_reader")),
    ("pyiceberg", "DataScan", ("to_arrow_batch_reader",)),
    ("polars", "LazyFrame", ("collect",)),
    ("pyarrow", "Dataset", ("scanner", "to_reader")),
    ("pyarrow", "Scanner", ("to_reader",)),
    # What has executed a query.
    ("adbc_driver_manager", "Cursor", ("fetch_record_batch",)),
)


def _calls(table: Any) -> tuple[str, ...]:
    """The calls that make a stream of `table`, if it is of one of these libraries."""
    kinds = [(kind.__module__.split(".")[0], kind.__name__) for kind in type(table).__mro__]
    for package, name, calls in STREAMS:
        if (package, name) in kinds and hasattr(table, calls[0]):
            return calls
    return ()


def is_stream(table: Any) -> bool:
    """Whether `readable` makes an object with `__arrow_c_stream__` of it."""
    return hasattr(table, "__arrow_c_stream__") or bool(_calls(table))


def readable(table: Any) -> Any:
    """`table`, or what other libraries would read it with: an object with `__arrow_c_stream__`. This may take as long as
    the table takes to be computed."""
    if not hasattr(table, "__arrow_c_stream__"):
        for call in _calls(table):
            table = getattr(table, call)()
    return table


def address(database: Any) -> str | None:
    """The URI of a database that is given as one, or as an engine or URL of SQLAlchemy."""
    url = getattr(database, "url", database)
    if not hasattr(url, "render_as_string"):
        return url  # type: ignore[no-any-return]
    if url.get_backend_name() == "sqlite":
        return f"sqlite:{url.database}"
    url = url.set(drivername=url.get_backend_name())
    return url.render_as_string(hide_password=False)  # type: ignore[no-any-return]
