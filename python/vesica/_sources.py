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


def readable(table: Any) -> Any:
    """`table`, or what other libraries would read it with: an object with `__arrow_c_stream__`."""
    if hasattr(table, "__arrow_c_stream__"):
        return table
    kinds = [(kind.__module__.split(".")[0], kind.__name__) for kind in type(table).__mro__]
    for package, name, calls in STREAMS:
        if (package, name) in kinds and hasattr(table, calls[0]):
            for call in calls:
                table = getattr(table, call)()
            return table
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
