"""What results say of rows: `rows` are those of `table`, and `matching` those that match."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas
import polars
import pyarrow
import pytest

import vesica

# The key of the last row is blank, so that it is among the rest.
IDS = ["5", "1", "7", "3", "1", "9", None]
TABLE = polars.DataFrame({"id": IDS, "name": [f"row {i}" for i in range(len(IDS))]})
OTHERS = polars.DataFrame({"id": ["1", "9", "100"]})
MATCHING = [1, 4, 5]
# By each value of `rows`.
ROWS = {"matching": MATCHING, "rest": [0, 2, 3, 6], "all": list(range(len(IDS)))}

KINDS = {
    "polars": lambda _: TABLE,
    "polars, lazy": lambda _: TABLE.lazy(),
    "pandas": lambda _: TABLE.to_pandas(),
    "pyarrow": lambda _: TABLE.to_arrow(),
    "pyarrow reader": lambda _: TABLE.to_arrow().to_reader(max_chunksize=2),
    "duckdb": lambda _: relation(TABLE),
    "parquet": lambda place: written(place, "parquet"),
    "arrow": lambda place: written(place, "arrow"),
    "csv": lambda place: written(place, "csv"),
    "jsonl": lambda place: written(place, "jsonl"),
    "two files": lambda place: [written(place, "parquet", 0, 3), written(place, "parquet", 3, 7)],
    "query": lambda place: queried(place),
}
TEXT = ("csv", "jsonl")
NO_KEY = "ignore:.* rows have no usable key:vesica.RunWarning"


def written(place: Path, format: str, first: int = 0, end: int = len(IDS)) -> Path:
    path = place / f"table-{first}.{format}"
    table = TABLE[first:end]
    write = {"csv": table.write_csv, "parquet": table.write_parquet}
    write |= {"jsonl": table.write_ndjson, "arrow": table.write_ipc}
    write[format](path)
    return path


def relation(rows: Any) -> Any:
    return duckdb.sql("select * from rows")


def queried(place: Path) -> dict[str, str]:
    """The arguments of a query whose result is the table."""
    path = place / "table.db"
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute("create table t (id text, name text)")
        database.executemany("insert into t values (?, ?)", TABLE.rows())
    return {"query": "select * from t order by rowid", "database": f"sqlite:{path}"}


def given(kind: str, place: Path) -> dict[str, Any]:
    """The arguments for the table."""
    table = KINDS[kind](place)
    return table if isinstance(table, dict) else {"table": table}


def check(result: Any, kind: str, rows: str, order: list[int] | None = None) -> None:
    matching = MATCHING if order is None else order
    expected = ROWS[rows] if order is None else order
    assert list(result.matching) == matching
    assert list(result.rows) == expected
    # As the page on Python recommends.
    assert TABLE.to_pandas().iloc[result.rows]["name"].tolist() == [f"row {i}" for i in expected]
    if kind in TEXT:
        with pytest.raises(vesica.UsageError, match="text file"):
            _ = result.table
        return
    table = result.table.to_polars()
    assert table["name"].to_list() == [f"row {i}" for i in expected]
    if rows == "all":
        assert table["in_both"].to_list() == [i in MATCHING for i in expected]


@pytest.mark.filterwarnings(NO_KEY)
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_those_of_the_table(kind: str, rows: str, tmp_path: Path) -> None:
    sender = {"table": OTHERS, "on": "id"}
    receiver = {**given(kind, tmp_path), "on": "id", "rows": rows}
    received, sent = vesica.rehearse(receiver, sender)
    check(received, kind, rows)
    assert received.report["rows_written"] is None
    assert sent.rows is None and sent.matching is None
    # A sender that learns the matches, and a result in a file.
    output = tmp_path / "out.parquet"
    ours = {**given(kind, tmp_path / "sent"), "on": "id", "rows": rows, "output": output}
    _, sent = vesica.rehearse(sender, ours, both=True)
    assert (list(sent.matching), list(sent.rows)) == (MATCHING, ROWS[rows])
    assert polars.read_parquet(output)["name"].to_list() == [f"row {i}" for i in ROWS[rows]]


@pytest.fixture(autouse=True)
def another_place(tmp_path: Path) -> None:
    (tmp_path / "sent").mkdir()


@pytest.mark.filterwarnings(NO_KEY)
@pytest.mark.parametrize("kind", ["polars", "pandas", "parquet", "query"])
def test_rows_in_one_order_are_those_of_the_table(kind: str, tmp_path: Path) -> None:
    sender = {"table": OTHERS, "on": "id"}
    receiver = {**given(kind, tmp_path), "on": "id"}
    received, sent = vesica.rehearse(receiver, sender, both=True, align=True)
    assert sorted(received.rows) == MATCHING
    check(received, kind, "matching", list(received.rows))
    theirs = {number: OTHERS["id"][row] for number, row in zip(numbers(sent), sent.rows)}
    ours = {number: IDS[row] for number, row in zip(numbers(received), received.rows)}
    assert theirs == ours


def numbers(result: vesica.Result) -> list[int]:
    found: list[int] = result.table.to_polars()["match_number"].to_list()
    return found


@pytest.fixture
def published(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """What look-ups take to ask about the other table."""
    shop, charity = vesica.Identity.generate(), vesica.Identity.generate()
    database, output = tmp_path / "database", tmp_path / "set.vset"
    vesica.publish(OTHERS, on="id", identity=shop, set_dir=database, output=output)
    clients = [charity.fingerprint]
    with vesica.serve(
        database, "127.0.0.1:0", identity=shop, clients=clients, quota=1000
    ) as server:
        link = vesica.connect(server.address, identity=charity, peer=shop.fingerprint)
        yield {"set": output, "on": "id", "link": link}


@pytest.mark.filterwarnings(NO_KEY)
def test_rows_of_look_ups_are_those_of_the_table(published: dict[str, Any], tmp_path: Path) -> None:
    with vesica.open_lookup(**published) as opened:
        for kind in KINDS:
            for rows in ROWS:
                place = tmp_path / f"{kind}-{rows}"
                place.mkdir()
                check(opened.find(**given(kind, place), rows=rows), kind, rows)  # type: ignore[arg-type]
    for rows, expected in ROWS.items():
        check(vesica.lookup(TABLE, **published, rows=rows), "polars", rows)
        output = tmp_path / f"{rows}.parquet"
        found = vesica.lookup(TABLE, **published, rows=rows, output=output)
        assert (list(found.matching), list(found.rows)) == (MATCHING, expected)


@pytest.mark.filterwarnings(NO_KEY)
@pytest.mark.parametrize("kind", ["polars", "pandas", "parquet", "csv", "query"])
def test_rows_of_other_runs_are_those_of_the_table(
    kind: str, tmp_path: Path, background: Any
) -> None:
    ours, theirs = vesica.Identity.generate(), vesica.Identity.generate()
    sender = {"table": OTHERS, "on": "id", "role": "sender", "identity": theirs}
    sender |= {"peer": ours.fingerprint, "state": tmp_path / "theirs"}
    receiver = {**given(kind, tmp_path), "on": "id", "role": "receiver", "identity": ours}
    receiver |= {"peer": theirs.fingerprint, "state": tmp_path / "ours"}
    message = vesica.exchange("offer", **sender).message
    message = vesica.exchange("start", message, **receiver).message
    message = vesica.exchange("answer", message, **sender).message
    finished = vesica.exchange("finish", message, **receiver).result
    check(finished, kind, "matching")
    # Tasks of a job.
    left, right = vesica.pair()
    job = {"role": "sender", "job": tmp_path / "sender", "on": "id", "link": right}
    other = background(vesica.split, OTHERS, **job)
    table = given(kind, tmp_path / "sent")
    split = {key: value for key, value in table.items() if key != "table"}
    job = {"role": "receiver", "job": tmp_path / "receiver", "on": "id", "link": left, **split}
    mine = vesica.split(table.get("table"), **job)
    tasks = other()
    address = vesica.pair()[0].address
    running = background(tasks.run, 0, listen=address)
    mine.run(0, connect=address)
    running()
    check(mine.collect(**table, on="id"), kind, "matching")


def test_numbers_have_no_rows() -> None:
    sides = ({"table": TABLE[:6], "on": "id"}, {"table": OTHERS, "on": "id"})
    for both in (False, True):
        for result in vesica.rehearse(*sides, reveal="size", security="semi-honest", both=both):
            assert (result.rows, result.matching) == (None, None)
            with pytest.raises(vesica.UsageError, match="no rows"):
                _ = result.table


def test_no_rows_are_no_rows_of_the_table() -> None:
    none = polars.DataFrame({"id": ["100", "101"]})
    with pytest.warns(vesica.RunWarning, match="no key matches"):
        received, _ = vesica.rehearse({"table": TABLE[:6], "on": "id"}, {"table": none, "on": "id"})
    assert (list(received.matching), list(received.rows), len(received.table)) == ([], [], 0)
    with pytest.warns(vesica.RunWarning, match="no key matches"):
        received, _ = vesica.rehearse(
            {"table": TABLE[:6], "on": "id", "rows": "rest"}, {"table": none, "on": "id"}
        )
    assert (list(received.matching), list(received.rows)) == ([], list(range(6)))
    assert pandas.DataFrame(received.table.to_pandas())["name"].tolist()[0] == "row 0"
    assert pyarrow.table(received.table).num_rows == 6
