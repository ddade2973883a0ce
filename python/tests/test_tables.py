"""Tables of other libraries go in and come out."""

from __future__ import annotations

import contextlib
import copy
import datetime
import decimal
import pickle
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import adbc_driver_sqlite
import adbc_driver_sqlite.dbapi
import duckdb
import pandas
import polars
import pyarrow
import pyarrow.parquet
import pytest
from conftest import CUSTOMERS, DONORS, expected_rows

import vesica

SQLITE = adbc_driver_sqlite.dbapi.connect()
CURSOR = SQLITE.cursor()
CUSTOMER_SIDE = {"table": CUSTOMERS, "on": "contact", "normalize": {"contact": "email"}}


@pytest.fixture(autouse=True, scope="module")
def close_sqlite() -> Iterator[None]:
    yield
    CURSOR.close()
    SQLITE.close()


def donors_as(kind: str) -> Any:
    frame = polars.read_csv(DONORS, infer_schema=False)
    if kind == "polars":
        return frame
    if kind == "polars in chunks":
        return polars.concat([frame[:70], frame[70:71], frame[71:]], rechunk=False)
    if kind == "polars, sliced":
        return polars.concat([frame[:13], frame])[13:]
    if kind == "pandas":
        return pandas.read_csv(DONORS, dtype=str)
    if kind == "pandas categorical":
        return pandas.read_csv(DONORS, dtype=str).astype({"email": "category"})
    if kind == "pyarrow":
        return frame.to_arrow()
    if kind == "pyarrow reader":
        return frame.to_arrow().to_reader(max_chunksize=50)
    if kind == "duckdb":
        return duckdb.sql(f"select * from read_csv('{DONORS}', all_varchar = true)")
    assert kind == "adbc"
    CURSOR.adbc_ingest("donors", frame.to_arrow(), mode="replace")
    CURSOR.execute("select * from donors")
    return CURSOR.fetch_arrow()


@pytest.mark.parametrize(
    "kind",
    [
        "polars",
        "polars in chunks",
        "polars, sliced",
        "pandas",
        "pandas categorical",
        "pyarrow",
        "pyarrow reader",
        "duckdb",
        "adbc",
    ],
)
@pytest.mark.filterwarnings("ignore:.* rows have no usable key")
def test_every_library_gives_the_same_rows(kind: str) -> None:
    ours = {"table": donors_as(kind), "on": "email", "normalize": {"email": "email"}}
    received, sent = vesica.rehearse(ours, CUSTOMER_SIDE)
    expected = expected_rows()
    assert list(received.rows) == expected
    plain = polars.read_csv(DONORS, infer_schema=False)[expected]
    assert received.table.to_polars().with_columns(polars.col("email").cast(str)).equals(plain)
    assert received.size == 41
    assert len(received.table) == received.report["rows"] - 157 == 43
    assert (sent.rows, sent.size, sent.report["matches"]) == (None, None, None)
    # The same key columns on the sender's side.
    theirs = {"table": donors_as(kind), "on": "email", "normalize": {"email": "email"}}
    received, sent = vesica.rehearse(CUSTOMER_SIDE, theirs)
    assert (received.size, sent.report["rows"], sent.report["blanks"]) == (41, 200, 1)


def test_results_go_into_every_library() -> None:
    table = polars.DataFrame({"id": [1, 2, 3], "name": ["a", None, "c"]})
    received, _ = vesica.rehearse({"table": table, "on": "id"}, {"table": table[1:], "on": "id"})
    rows = [(2, None), (3, "c")]
    assert received.table.to_polars().rows() == rows
    frame = received.table.to_pandas()
    assert frame["id"].tolist() == [2, 3] and pandas.isna(frame["name"][0])
    assert pyarrow.table(received.table).to_pylist() == [
        {"id": 2, "name": None},
        {"id": 3, "name": "c"},
    ]
    assert pyarrow.schema(received.table).names == received.table.column_names == ["id", "name"]
    result = received.table
    assert duckdb.sql("select * from result order by id").fetchall() == rows
    # It can be read any number of times, and be an input again.
    again, _ = vesica.rehearse({"table": result, "on": "id"}, {"table": table, "on": "id"})
    assert again.table.to_polars().rows() == rows
    # Rows select from the frame that went in, with its index and types.
    frame = pandas.DataFrame({"id": [1, 2, 3]}, index=["x", "y", "z"])
    assert frame.iloc[received.rows].index.tolist() == ["y", "z"]
    # An array is a sequence from Python 3.10 on.
    index = received.rows if sys.version_info >= (3, 10) else list(received.rows)
    assert table[index].rows() == rows


def test_types_of_keys_and_of_other_columns() -> None:
    day, when = datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 12, 30)
    table = polars.DataFrame(
        {
            "day": [day, day, None],
            "count": [1, 2, 3],
            "price": [decimal.Decimal("1.50"), decimal.Decimal("2.00"), None],
            "when": [when, None, when],
            "list": [[1, 2], [], None],
            "struct": [{"a": 1}, {"a": 2}, None],
            "kind": polars.Series(["u", "v", "u"], dtype=polars.Categorical),
        }
    )
    side = {"table": table, "on": ["day", "count"]}
    other = {"table": duckdb.sql("select '2024-02-29' as d, 2 as c"), "on": ["d", "c"]}
    with pytest.warns(vesica.RunWarning, match="1 of 3 rows have no usable key"):
        received, _ = vesica.rehearse(side, other)
    assert received.table.to_polars().equals(table[1:2])


def test_paths(tmp_path: Path) -> None:
    table = polars.DataFrame({"id": range(100), "name": [f"n{i}" for i in range(100)]})
    peer = {"table": table[90:], "on": "id"}
    for name in ("t.csv", "t.parquet", "t.ndjson", "t.arrow"):
        path = tmp_path / name
        write = {"csv": table.write_csv, "parquet": table.write_parquet}
        write |= {"ndjson": table.write_ndjson, "arrow": table.write_ipc}
        write[path.suffix[1:]](path)
        for given in (path, str(path)):
            received, _ = vesica.rehearse({"table": given, "on": "id"}, peer)
            assert list(received.rows) == list(range(90, 100))
            if path.suffix in (".parquet", ".arrow"):
                assert received.table.to_polars().equals(table[90:])
            else:
                with pytest.raises(vesica.UsageError, match="text file") as error:
                    _ = received.table
                assert "polars" in error.value.hint


def test_output(tmp_path: Path) -> None:
    table = polars.DataFrame({"id": range(100), "name": [f"n{i}" for i in range(100)]})
    peer = {"table": table[90:], "on": "id"}
    for name in ("o.parquet", "o.arrow", "o.arrows"):
        output = tmp_path / name
        received, _ = vesica.rehearse({"table": table, "on": "id", "output": output}, peer)
        read = {"parquet": polars.read_parquet, "arrow": polars.read_ipc}
        read["arrows"] = polars.read_ipc_stream
        assert read[output.suffix[1:]](output).equals(table[90:])
        assert (received.report["rows_written"], len(received.rows)) == (10, 10)
        with pytest.raises(vesica.UsageError, match="not in memory"):
            _ = received.table
    # A path keeps its format.
    table.write_csv(tmp_path / "t.csv")
    ours = {"table": tmp_path / "t.csv", "on": "id", "output": tmp_path / "o.csv"}
    vesica.rehearse(ours, peer)
    assert polars.read_csv(tmp_path / "o.csv").equals(table[90:])
    before = sorted(tmp_path.iterdir())
    for given, output in ((table, "x.csv"), (table, "x.xlsx"), (tmp_path / "t.csv", "x.parquet")):
        with pytest.raises(vesica.UsageError):
            vesica.rehearse({"table": given, "on": "id", "output": tmp_path / output}, peer)
    with pytest.raises(vesica.UsageError):
        vesica.rehearse({"table": table, "on": "id", "output": tmp_path / "no" / "x.arrow"}, peer)
    assert sorted(tmp_path.iterdir()) == before


def test_several_files_are_one_table(tmp_path: Path) -> None:
    """A list, a directory or a pattern; the order is that of the paths, and rows are counted over all files."""
    table = polars.DataFrame({"id": range(100), "name": [f"n{i}" for i in range(100)]})
    parts = tmp_path / "parts"
    parts.mkdir()
    for i in range(4):
        table[25 * i : 25 * (i + 1)].write_parquet(parts / f"part-{i}.parquet")
    (parts / "_SUCCESS").touch()
    peer = {"table": table[20:30], "on": "id"}
    for given in (
        [parts / f"part-{i}.parquet" for i in (3, 1, 0, 2)],
        tuple(str(parts / f"part-{i}.parquet") for i in range(4)),
        [parts],
        str(parts),
        parts / "part-?.parquet",
    ):
        output = tmp_path / "o.parquet"
        received, _ = vesica.rehearse({"table": given, "on": "id"}, peer)
        assert list(received.rows) == list(range(20, 30))
        assert received.table.to_polars().equals(table[20:30])
        vesica.rehearse({"table": given, "on": "id", "output": output}, peer)
        assert polars.read_parquet(output).equals(table[20:30])
        checked = vesica.check(given, on="id")
        assert (checked["rows"], checked["files"]) == (100, 4)
    before = sorted(parts.iterdir())
    for given, output in (
        ([parts / "part-0.parquet", parts / "part-0.parquet"], tmp_path / "x.parquet"),
        (parts, parts / "x.parquet"),
        ([parts / "part-0.parquet"], parts / "part-0.parquet"),
    ):
        with pytest.raises(vesica.UsageError):
            vesica.rehearse({"table": given, "on": "id", "output": output}, peer)
    for given in (parts / "none-*.parquet", [parts, tmp_path / "none.parquet"]):
        with pytest.raises(vesica.DataError):
            vesica.check(given, on="id")
    assert sorted(parts.iterdir()) == before


def test_a_query_is_a_table(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute("create table customers (contact text, orders integer)")
        rows = [("ann@x.org", 3), ("bob@x.org", 4), (None, 5)]
        database.executemany("insert into customers values (?, ?)", rows)
    before = path.read_bytes()
    asked = {"query": "select * from customers order by orders", "on": "contact"}
    address = tmp_path / "address"
    address.write_text(f"sqlite:{path}\n")
    address.chmod(0o600)
    peer = {"table": polars.DataFrame({"mail": ["bob@x.org", "eve@x.org"]}), "on": "mail"}
    output = tmp_path / "shared.parquet"
    for more in (
        {"database": f"sqlite:{path}"},
        {"database_file": address},
        {"database": f"file:{path}", "driver": "sqlite"},
        {"database": str(path), "driver": adbc_driver_sqlite._driver_path()},
    ):
        with pytest.warns(vesica.RunWarning, match="1 of 3 rows have no usable key"):
            received, _ = vesica.rehearse(asked | more, peer)
        assert (list(received.rows), received.table.to_polars().rows()) == ([1], [("bob@x.org", 4)])
        checked = vesica.check(**asked, **more)
        assert (checked["items"], checked["blanks"]) == (2, 1)
    with pytest.warns(vesica.RunWarning, match="1 of 3 rows have no usable key"):
        vesica.rehearse(asked | more | {"output": output}, peer)
    assert polars.read_parquet(output).rows() == [("bob@x.org", 4)]
    database = {"database": f"sqlite:{path}"}
    for wrong, error in (
        ({"query": "select nothing from customers"} | database, vesica.DataError),
        ({"database": f"sqlite:{tmp_path / 'none.db'}"}, vesica.DataError),
        ({"on": "mail"} | database, vesica.DataError),
        ({"output": path} | database, vesica.UsageError),
        ({"database_file": address, "output": address}, vesica.UsageError),
        ({"format": "csv"} | database, vesica.UsageError),
    ):
        with pytest.raises(error) as raised:
            vesica.rehearse(asked | wrong, peer)
        assert "\n" not in str(raised.value)
    address.chmod(0o644)
    with pytest.raises(vesica.UsageError, match="other users can read it"):
        vesica.check(**asked, database_file=address)
    assert path.read_bytes() == before


def test_no_message_has_a_password() -> None:
    uri = "postgresql://ann:s3cret@127.0.0.1:1/shop"
    for more in ({"driver": "nobody"}, {"driver": adbc_driver_sqlite._driver_path()}):
        with pytest.raises(vesica.Error) as error:
            vesica.check(query="select 1 as id", on="id", database=uri, **more)
        assert "s3cret" not in f"{error.value} {error.value.hint} {error.value!r}"


def test_relations_of_one_connection_are_rehearsed() -> None:
    for _ in range(5):
        ours, theirs = duckdb.sql("select range id from range(20000)"), duckdb.sql("select 7 id")
        received, _ = vesica.rehearse({"table": ours, "on": "id"}, {"table": theirs, "on": "id"})
        assert list(received.rows) == [7]


def test_results_are_copied_and_pickled() -> None:
    table = polars.DataFrame({"id": [1, 2, 3], "name": ["a", None, "c"]})
    received, sent = vesica.rehearse({"table": table, "on": "id"}, {"table": table[1:], "on": "id"})
    for made in (copy.copy, copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))):
        again = made(received)
        assert (again.report, again.rows) == (received.report, received.rows)
        assert again.table.to_polars().equals(received.table.to_polars())
        assert made(sent).report == sent.report
    checked = vesica.check(table, on="id")
    again = pickle.loads(pickle.dumps(checked))
    assert (dict(again), str(again)) == (dict(checked), str(checked))


def test_what_arrow_has_no_table_for_is_an_error() -> None:
    left, _ = vesica.pair()
    for column in (polars.Series([1]), polars.DataFrame({"id": [1]}, schema={"id": polars.Int128})):
        with pytest.raises(vesica.DataError, match="is no table of columns with names"):
            vesica.receive(column, on="id", link=left)


def test_a_table_is_a_path_or_exports_arrow() -> None:
    left, _ = vesica.pair()
    for table in ([{"id": 1}], 7, object()):
        with pytest.raises(TypeError, match="a table is a path, several, or has __arrow_c_str"):
            vesica.receive(table, on="id", link=left)
    spent = polars.DataFrame({"id": [1]}).to_arrow().to_reader()
    spent.read_all()
    with pytest.raises(vesica.DataError, match="has no data rows"):
        vesica.check(spent, on="id")


def test_damaged_batches_are_refused() -> None:
    """pyarrow builds and exports columns without looking at them."""
    offsets = pyarrow.py_buffer(b"\0\0\0\0\2\0\0\0")
    text = pyarrow.Array.from_buffers(
        pyarrow.string(), 1, [None, offsets, pyarrow.py_buffer(b"\xff\xfe")]
    )
    far = pyarrow.Array.from_buffers(
        pyarrow.string(), 2, [None, pyarrow.py_buffer(b"\0\0\0\0\xff\xff\0\0\2\0\0\0"), offsets]
    )
    for column in (text, far):
        table = pyarrow.table({"mail": column, "n": [1, 2][: len(column)]})
        with pytest.raises(vesica.DataError, match='is damaged: column "mail"'):
            vesica.check(table, on="mail")
        # Columns that are no key are written with the rows, and so are validated as well.
        with pytest.raises(vesica.DataError, match='is damaged: column "mail"'):
            vesica.rehearse({"table": table, "on": "n"}, {"table": table, "on": "n"})


def test_a_stream_that_fails_is_an_error() -> None:
    def batches() -> Any:
        yield pyarrow.record_batch({"id": [1, 2]})
        raise RuntimeError("the source is gone")

    schema = pyarrow.schema({"id": pyarrow.int64()})
    reader = pyarrow.RecordBatchReader.from_batches(schema, batches())
    with pytest.raises(vesica.DataError, match=r"cannot be read: .*the source is gone"):
        vesica.check(reader, on="id")
