"""Every home of a table against every other, on one awkward table.

DuckDB's join of the keys as texts, in the forms of docs/tables.md, says which rows match. PostgreSQL takes part where
scripts/databases.py has started a server.
"""

from __future__ import annotations

import contextlib
import csv
import datetime
import decimal
import json
import os
import sqlite3
import urllib.parse
import zoneinfo
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import adbc_driver_postgresql.dbapi
import duckdb
import polars
import pyarrow
import pyarrow.parquet
import pytest

import vesica

# Relations of older versions of DuckDB do not keep their connections.
CONNECTIONS: list[Any] = []
HOMES = ["csv", "jsonl", "parquet", "arrow", "sqlite", "pandas", "polars", "duckdb"]
if "PGHOST" in os.environ:
    HOMES.append("postgresql")
DATABASES = ["sqlite", "postgresql"]

KEY = ["name", "code", "n", "price", "day", "seen", "flag"]
# Columns that have nothing to do with the key.
OTHERS = [f"c{i}" for i in range(300)]
BERLIN = "Europe/Berlin"
SCHEMA = pyarrow.schema(
    [
        ("row", pyarrow.int64()),
        ("name", pyarrow.string()),
        ("code", pyarrow.string()),
        ("n", pyarrow.int64()),
        ("price", pyarrow.decimal128(12, 3)),
        ("day", pyarrow.date32()),
        ("seen", pyarrow.timestamp("us", BERLIN)),
        ("flag", pyarrow.bool_()),
        *((name, pyarrow.string()) for name in OTHERS),
    ]
)
NAMES = ["Zoë", "Łukasz", "O'Brien, Ann", 'naïve "q"', "名前", " padded ", "Zoe\u0308"]
SIDES = {"ours": 1, "theirs": 3}


def rows_of(side: str) -> list[dict[str, Any]]:
    """Some of the keys are in both tables, and some in several rows."""
    rows = []
    for row in range(80):
        i = row // 2 * SIDES[side] % 60
        seen = datetime.datetime(2024, 2, 29, 8, 30, tzinfo=zoneinfo.ZoneInfo("UTC"))
        rows.append(
            {
                "row": row,
                "name": f"{NAMES[i % len(NAMES)]}{i}" if i % 8 != 3 else None,
                "code": f"{i:05}",
                # A whole column of these is one of floats in pandas.
                "n": i - 30 if i % 11 != 5 else None,
                "price": decimal.Decimal(25 * i - 300).scaleb(-2),
                "day": datetime.date(2000, 1, 1 + i % 30),
                "seen": seen + datetime.timedelta(milliseconds=250 * i),
                "flag": i % 3 == 0,
            }
        )
    return rows


def texts(row: dict[str, Any]) -> list[str | None]:
    """What docs/tables.md says that each value is compared as."""
    whole, _, cents = f"{row['price']:.2f}".partition(".")
    seconds, _, fraction = f"{row['seen']:%Y-%m-%dT%H:%M:%S.%f}".partition(".")
    return [
        row["name"],
        row["code"],
        None if row["n"] is None else str(row["n"]),
        f"{whole}.{cents.rstrip('0')}".rstrip("."),
        row["day"].isoformat(),
        seconds + ("" if int(fraction) == 0 else f".{fraction[:3]}") + "Z",
        str(row["flag"]).lower(),
    ]


def typed(side: str) -> pyarrow.Table:
    rows = [row | dict.fromkeys(OTHERS, "x") for row in rows_of(side)]
    return pyarrow.Table.from_pylist(rows, schema=SCHEMA)


def postgresql() -> str:
    """The server's address, with a password in it."""
    host, user, password = (
        urllib.parse.quote(os.environ[f"PG{name}"], safe="")
        for name in ("HOST", "USER", "PASSWORD")
    )
    return f"postgresql://{user}:{password}@/postgres?host={host}"


def put(folder: Path, side: str, home: str) -> dict[str, Any]:
    """Puts a table where it is to be; gives the arguments with which it is read."""
    path = folder / f"{side}.{home}"
    rows = rows_of(side)
    cells = [[str(row["row"]), *texts(row), *["x"] * len(OTHERS)] for row in rows]
    header = ["row", *KEY, *OTHERS]
    if home == "csv":
        with open(path, "w", newline="", encoding="utf-8") as out:
            csv.writer(out).writerows([header, *cells])
    elif home == "jsonl":
        with open(path, "w", encoding="utf-8") as out:
            for row, line in zip(rows, cells):
                line = dict(zip(header, line)) | {name: row[name] for name in ("n", "flag")}
                print(json.dumps(line, ensure_ascii=False), file=out)
    elif home == "parquet":
        pyarrow.parquet.write_table(typed(side), path)
    elif home == "arrow":
        polars.from_arrow(typed(side)).write_ipc(path)
    elif home == "sqlite":
        with contextlib.closing(sqlite3.connect(path)) as database, database:
            others = ", ".join(f"{name} text" for name in OTHERS)
            database.execute(
                "create table people (row integer, name text, code text, n integer, price text,"
                f" day text, seen text, flag text, {others})"
            )
            marks = ", ".join("?" * len(header))
            database.executemany(f"insert into people values ({marks})", cells)
        return {"query": "select * from people order by row", "database": f"sqlite:{path}"}
    elif home == "postgresql":
        others = ", ".join(f"{name} text default 'x'" for name in OTHERS)
        types = "name text, code varchar(9), n bigint, price numeric(10,2), day date"
        with adbc_driver_postgresql.dbapi.connect(postgresql()) as database:
            with database.cursor() as cursor:
                cursor.execute(f"drop table if exists {side}")
                cursor.execute(
                    f"create table {side} (row bigint, {types}, seen timestamptz, flag boolean, {others})"
                )
                for line in cells:
                    quoted = (
                        "null" if cell is None else "'{}'".format(cell.replace("'", "''"))
                        for cell in line[: len(KEY) + 1]
                    )
                    cursor.execute(
                        f"insert into {side} (row, {', '.join(KEY)}) values ({', '.join(quoted)})"
                    )
            database.commit()
        return {"query": f"select * from {side} order by row", "database": postgresql()}
    elif home == "pandas":
        return {"table": typed(side).to_pandas()}
    elif home == "polars":
        return {"table": polars.from_arrow(typed(side))}
    else:
        assert home == "duckdb"
        # A connection of its own: the two sides read at the same time.
        CONNECTIONS.append(duckdb.connect())
        return {"table": CONNECTIONS[-1].from_arrow(typed(side))}
    return {"table": path}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[str, str], Any]]:
    folder = tmp_path_factory.mktemp("tables")
    yield {(side, home): put(folder, side, home) for side in SIDES for home in HOMES}


@pytest.fixture(scope="module")
def expected() -> list[int]:
    for side in SIDES:
        columns = ", ".join(f"{name} varchar" for name in KEY)
        duckdb.execute(f"create or replace temp table keys_of_{side} (row bigint, {columns})")
        marks = ", ".join("?" * (len(KEY) + 1))
        lines = [[row["row"], *texts(row)] for row in rows_of(side)]
        duckdb.executemany(f"insert into keys_of_{side} values ({marks})", lines)
    joined = duckdb.execute(
        f"select row from keys_of_ours semi join keys_of_theirs using ({', '.join(KEY)}) order by row"
    )
    rows = [row for (row,) in joined.fetchall()]
    assert 10 < len(rows) < 40
    return rows


@pytest.mark.filterwarnings("ignore:.* rows have no usable key")
# A home that writes types as texts meets one that does not.
@pytest.mark.filterwarnings("ignore:key column .* on one side and")
@pytest.mark.parametrize("theirs", HOMES)
@pytest.mark.parametrize("ours", HOMES)
def test_every_home_of_a_table_against_every_other(
    ours: str, theirs: str, tables: dict[tuple[str, str], Any], expected: list[int]
) -> None:
    terms = {"on": KEY, "normalize": {"n": "integer"}}
    received, sent = vesica.rehearse(tables["ours", ours], tables["theirs", theirs], **terms)
    assert list(received.rows) == expected
    assert (received.report["rows"], sent.report["rows"]) == (80, 80)
    if ours not in ("csv", "jsonl"):
        assert received.table.to_polars()["row"].to_list() == expected
        assert len(received.table.column_names) == len(KEY) + len(OTHERS) + 1


@pytest.mark.filterwarnings("ignore:.* rows have no usable key")
# A home that writes types as texts meets one that does not.
@pytest.mark.filterwarnings("ignore:key column .* on one side and")
@pytest.mark.parametrize("target", [home for home in HOMES if home in DATABASES])
@pytest.mark.parametrize("ours", HOMES)
def test_results_of_every_home_in_a_database(
    ours: str,
    target: str,
    tables: dict[tuple[str, str], Any],
    expected: list[int],
    tmp_path: Path,
) -> None:
    if ours in DATABASES and ours != target:
        pytest.skip("one database is asked and written to")
    (tmp_path / "results.db").touch()
    if ours == target:
        place = tables["ours", ours]["database"]
    else:
        place = postgresql() if target == "postgresql" else f"sqlite:{tmp_path / 'results.db'}"
    to = {"database": place, "output_table": "results", "output_table_mode": "replace"}
    terms = {"on": KEY, "normalize": {"n": "integer"}}
    received, _ = vesica.rehearse(tables["ours", ours] | to, tables["theirs", "csv"], **terms)
    assert received.report["rows_written"] == len(expected)
    texts = "cast(row as varchar), name, code, cast(price as varchar)"
    asked = f"select {texts} from results order by cast(row as integer)"
    if target == "sqlite":
        with contextlib.closing(sqlite3.connect(place[len("sqlite:") :])) as database:
            found = database.execute(asked).fetchall()
    else:
        with adbc_driver_postgresql.dbapi.connect(place) as database, database.cursor() as cursor:
            cursor.execute(asked)
            found = cursor.fetchall()
    rows = rows_of("ours")
    assert [(int(row), name, code) for row, name, code, _ in found] == [
        (row, rows[row]["name"], rows[row]["code"]) for row in expected
    ]
    assert [decimal.Decimal(price) for *_, price in found] == [rows[r]["price"] for r in expected]
