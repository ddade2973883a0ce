"""Tables of other libraries go in and come out."""

from __future__ import annotations

import contextlib
import copy
import datetime
import decimal
import json
import pickle
import sqlite3
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import adbc_driver_sqlite
import adbc_driver_sqlite.dbapi
import deltalake
import deltalake.exceptions
import duckdb
import fsspec
import pandas
import polars
import pyarrow
import pyarrow.dataset
import pyarrow.fs
import pyarrow.parquet
import pytest
import sqlalchemy
from conftest import CUSTOMERS, DONORS, expected_rows
from pyiceberg.catalog.sql import SqlCatalog

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
    if kind == "polars, lazy":
        return frame.lazy()
    if kind == "pyarrow dataset":
        return pyarrow.dataset.dataset(frame.to_arrow())
    if kind == "pyarrow scanner":
        return pyarrow.dataset.dataset(frame.to_arrow()).scanner()
    CURSOR.adbc_ingest("donors", frame.to_arrow(), mode="replace")
    CURSOR.execute("select * from donors")
    if kind == "adbc cursor":
        return CURSOR
    assert kind == "adbc"
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
        "adbc cursor",
        "polars, lazy",
        "pyarrow dataset",
        "pyarrow scanner",
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


def ids(table: Any) -> list[int]:
    """The ids of all rows that a run sees."""
    peer = {"table": polars.DataFrame({"id": range(100)}), "on": "id"}
    received, _ = vesica.rehearse({"table": table, "on": "id"}, peer)
    assert vesica.check(table, on="id")["rows"] == received.size
    return sorted(received.table.to_polars()["id"])


def test_deleted_rows_of_a_delta_table_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "lake"
    rows = pyarrow.table({"id": range(10), "name": [f"n{i}" for i in range(10)]})
    deltalake.write_deltalake(path, rows)
    deltalake.DeltaTable(path).delete("id < 4")
    assert ids(deltalake.DeltaTable(path)) == list(range(4, 10))
    assert ids(deltalake.DeltaTable(path, version=0)) == list(range(10))
    with pytest.raises(vesica.DataError, match="a Delta table"):
        vesica.check(path, on="id")


def test_deletion_vectors_of_a_delta_table_count(tmp_path: Path) -> None:
    path = tmp_path / "lake"
    deltalake.write_deltalake(path, pyarrow.table({"id": range(10)}))
    # No writer for Python makes one: rows 1, 2 and 5 as a bitmap in Roaring's portable format, and that in Z85.
    bitmap = struct.pack("<2I2HI3H", 12346, 1, 0, 2, 16, 1, 2, 5)
    vector = struct.pack("<IQI", 1681511377, 1, 0) + bitmap
    size, vector = len(vector), vector + bytes(-len(vector) % 4)
    digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    words = [int.from_bytes(vector[at : at + 4], "big") for at in range(0, len(vector), 4)]
    text = "".join(digits[word // 85**place % 85] for word in words for place in (4, 3, 2, 1, 0))
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    log = path / "_delta_log" / f"{0:020}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        if "protocol" in action:
            action["protocol"] = {"minReaderVersion": 3, "minWriterVersion": 7, **features}
        if "add" in action:
            deleted = {"pathOrInlineDv": text, "sizeInBytes": size, "cardinality": 3}
            action["add"]["deletionVector"] = {"storageType": "i", **deleted}
            action["add"]["stats"] = json.dumps({"numRecords": 10})
    log.write_text("".join(json.dumps(action) + "\n" for action in actions))
    for checksum in log.parent.glob("*.crc"):
        checksum.unlink()
    table = deltalake.DeltaTable(path)
    if hasattr(table, "scan"):
        assert ids(table) == [0, 3, 4, 6, 7, 8, 9]
    else:
        with pytest.raises(deltalake.exceptions.DeltaProtocolError):
            ids(table)


@pytest.mark.filterwarnings("ignore:Delete operation did not match any records")
def test_deleted_rows_of_an_iceberg_table_are_left_out(tmp_path: Path) -> None:
    catalog = SqlCatalog("lakes", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("shop")
    rows = pyarrow.table({"id": pyarrow.array(range(10), pyarrow.int64())})
    table = catalog.create_table("shop.people", schema=rows.schema)
    table.append(rows)
    table.delete("id < 4")
    assert ids(table) == ids(table.scan()) == list(range(4, 10))
    first = table.snapshots()[0].snapshot_id
    assert ids(table.scan(snapshot_id=first)) == list(range(10))
    catalog.close()


def test_sqlite_values_of_several_types_are_exact_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    # More than the driver looks at before it chooses a type.
    many = 70_000
    kept: list[tuple[list[Any], list[Any]]] = [
        ([2**53 + 1, 5], [2**53 + 1, 5]),
        ([2**53, 0.5], [2.0**53, 0.5]),
        ([2**53 + 1, "x", None], [str(2**53 + 1), "x", None]),
        ([None, None], [None, None]),
    ]
    refused: list[tuple[list[Any], str]] = [
        ([2**53 + 1, 0.5], "integer, real"),
        ([0.5, "x"], "real, text"),
        ([7] * many + ["x"], "integer, text"),
        ([7] * many + [0.5], "integer, real"),
        ([None] * many + ["x"], "text"),
        ([b"a", "b"], "blob, text"),
    ]
    for number, (values, read) in enumerate([*kept, *refused]):
        with contextlib.closing(sqlite3.connect(path)) as database, database:
            database.execute(f"create table t{number} (id integer primary key, v)")
            columns = [(value,) for value in values]
            database.executemany(f"insert into t{number} (v) values (?)", columns)
        ours = {"query": f"select * from t{number}; -- all", "database": f"sqlite:{path}"}
        peer = {"table": polars.DataFrame({"id": range(many + 2)}), "on": "id"}
        if isinstance(read, list):
            received, _ = vesica.rehearse({**ours, "on": "id"}, peer)
            assert received.table.to_polars()["v"].to_list() == read
            continue
        words = f'column "v" has values of SQLite\'s types {read}, all of which'
        with pytest.raises(vesica.DataError, match=words) as raised:
            vesica.check(**ours, on="id")
        assert {"CAST(…", "COALESCE(…,"} <= set((raised.value.hint or "").split())
        ours["query"] = f"select id, cast(coalesce(v, '') as text) v from t{number}"
        assert vesica.check(**ours, on="id")["rows"] == len(values)


def test_engines_of_sqlalchemy_are_databases(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    engine = sqlalchemy.create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        connection.exec_driver_sql("create table t (id integer)")
        connection.exec_driver_sql("insert into t values (5), (7)")
    engine.dispose()
    for database in (engine, engine.url, str(engine.url)):
        assert vesica.check(query="select * from t", database=database, on="id")["items"] == 2
    url = sqlalchemy.make_url("postgresql+psycopg2://ann:s3cret@127.0.0.1:1/shop")
    for asked in (url, url.render_as_string(hide_password=False)):
        with pytest.raises(vesica.DataError, match="cannot be reached") as raised:
            vesica.check(query="select 1 as id", on="id", database=asked)
        assert "s3cret" not in f"{raised.value} {raised.value.hint}"


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
    # The name decides, whatever the table is.
    table.write_csv(tmp_path / "t.csv")
    texts = table.select(polars.all().cast(polars.String))
    for given in (table, tmp_path / "t.csv"):
        vesica.rehearse({"table": given, "on": "id", "output": tmp_path / "o.csv"}, peer)
        assert polars.read_csv(tmp_path / "o.csv").equals(table[90:])
    vesica.rehearse(
        {"table": tmp_path / "t.csv", "on": "id", "output": tmp_path / "o.parquet"}, peer
    )
    assert polars.read_parquet(tmp_path / "o.parquet").equals(texts[90:])
    before = sorted(tmp_path.iterdir())
    with pytest.raises(vesica.UsageError):
        vesica.rehearse({"table": table, "on": "id", "output": tmp_path / "x.xlsx"}, peer)
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


def test_a_dataset_may_be_read_through_python(tmp_path: Path) -> None:
    frame = polars.DataFrame({"id": range(1000)})
    frame.write_parquet(tmp_path / "table.parquet")
    files = pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(fsspec.filesystem("file")))
    dataset = pyarrow.dataset.dataset(str(tmp_path / "table.parquet"), filesystem=files)
    side = {"table": dataset, "on": "id"}
    received, _ = vesica.rehearse(side, {"table": frame, "on": "id"})
    assert received.size == 1000


def test_a_check_says_which_texts_do_not_fit() -> None:
    frame = polars.DataFrame({"id": [1, 2], "x": [0.1, 5e-324], "n": ["Bern", "Winterthur"]})
    with pytest.raises(vesica.UsageError, match="width is for columns"):
        vesica.check(frame, on="id", payload_width=10)
    with pytest.raises(vesica.DataError, match="take") as refused:
        vesica.check(frame, on="id", payload=["x", "n"], payload_width=16)
    checked = refused.value.check
    assert checked is not None
    assert checked["labels"]["columns"] == [["x", "float64"], ["n", "text"]]
    assert checked["labels"]["too_wide"] == {"count": 1, "rows": [2]}
    needed = checked["labels"]["needed"]
    sides = {"table": frame, "on": "id"}
    with pytest.raises(vesica.DataError, match=f"take {needed} bytes"):
        vesica.rehearse(
            sides | {"take_payload": True, "payload_width": 64},
            sides | {"payload": ["x", "n"], "payload_width": needed - 1},
        )
    vesica.rehearse(
        sides | {"take_payload": True}, sides | {"payload": ["x", "n"], "payload_width": needed}
    )


def test_a_result_goes_to_a_table_of_a_database(tmp_path: Path) -> None:
    path = tmp_path / "shared.db"
    path.touch()
    day = datetime.date(2024, 2, 29)
    frame = polars.DataFrame(
        {"id": [1, 2, 3], "price": [decimal.Decimal("1.50"), None, None], "day": [None, day, None]}
    )
    ours = {"table": frame, "on": "id", "take_payload": True, "output_table": "shared"}
    peer = {
        "table": polars.DataFrame({"id": [1, 2], "city": ["Bern", None]}),
        "on": "id",
        "payload": "city",
    }

    def rows() -> list[tuple[Any, ...]]:
        with contextlib.closing(sqlite3.connect(path)) as database:
            return database.execute("select * from shared order by id").fetchall()

    database = {"database": f"sqlite:{path}"}
    received, _ = vesica.rehearse(ours | database, peer)
    assert received.report["rows_written"] == 2
    written = [(1, "1.50", None, "Bern"), (2, None, "2024-02-29", None)]
    assert rows() == written
    with pytest.raises(vesica.UsageError, match="written to `output`"):
        _ = received.table
    with pytest.raises(vesica.UsageError, match='table "shared": there is such a table') as raised:
        vesica.rehearse(ours | database, peer)
    assert 'output_table_mode="append"' in str(raised.value.hint)
    append = {
        "output_table_mode": "append",
        "database": sqlalchemy.create_engine(f"sqlite:///{path}"),
    }
    vesica.rehearse(ours | append, peer)
    assert rows() == [row for row in written for _ in range(2)]
    # From the database into it, and a table that lacks a column.
    asked = {"query": "select 2 as id, 'x' as more", "on": "id", "output_table": "shared"}
    plain = {"table": peer["table"], "on": "id"}
    with pytest.raises(vesica.UsageError, match='it has no column "more"'):
        vesica.rehearse(asked | append, plain)
    vesica.rehearse(asked | database | {"output_table_mode": "replace"}, plain)
    assert rows() == [(2, "x")]
    with pytest.raises(vesica.DataError, match="no such file"):
        vesica.rehearse(ours | {"database": f"sqlite:{tmp_path / 'none.db'}"}, peer)
    assert rows() == [(2, "x")] and [p.name for p in tmp_path.iterdir()] == ["shared.db"]


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


WORKBOOKS = Path(__file__).parents[2] / "vectors" / "tables"


@pytest.mark.parametrize("name", ["people.xlsx", "people.ods"])
def test_spreadsheets_are_tables(name: str, tmp_path: Path) -> None:
    output = tmp_path / "out.csv"
    ours = {"table": WORKBOOKS / name, "on": "mail", "skip_rows": 2, "skip_footer": 1}
    theirs = {"table": polars.DataFrame({"mail": ["ann@x.org"]}), "on": "mail"}
    received, _ = vesica.rehearse({**ours, "columns": ["born", "phone"], "output": output}, theirs)
    assert list(received.rows) == [0]
    assert output.read_text() == "born,phone\n1984-01-02,4930123456\n"
    checked = vesica.check(WORKBOOKS / name, on="id", sheet="Other")
    assert (checked["rows"], checked["format"]) == (2, "csv")
    with pytest.raises(vesica.UsageError, match="no sheet is called"):
        vesica.check(WORKBOOKS / name, on="id", sheet="none")


def test_a_result_has_the_columns_that_are_asked_for(tmp_path: Path) -> None:
    frame = polars.DataFrame({"id": [1, 2], "a": ["x", "y"], "b": [0.5, 1.5]})
    theirs = {"table": polars.DataFrame({"id": [2]}), "on": "id"}
    ours = {"table": frame, "on": "id", "columns": ["b", "id"]}
    received, _ = vesica.rehearse(ours, theirs)
    assert received.table.to_polars().equals(frame[1:].select("b", "id"))
    output = tmp_path / "out.csv"
    vesica.rehearse({**ours, "columns": "a", "rows": "all", "output": output}, theirs)
    assert output.read_text() == "a,in_both\nx,false\ny,true\n"
    with pytest.raises(vesica.DataError, match="no column is called"):
        vesica.rehearse({**ours, "columns": ["c"]}, theirs)
    with pytest.raises(vesica.UsageError, match="twice"):
        vesica.rehearse({**ours, "columns": ["a", "a"]}, theirs)
