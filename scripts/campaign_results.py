"""What came of a run beside what the oracle says: rows in any format, numbers of rows, shares, reports."""

from __future__ import annotations

import contextlib
import gzip
import json
import math
import sqlite3
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.ipc
import pyarrow.parquet
import random_tables as tables
from oracle import NULL, Cell, Key, Refused, is_text_of, text_form, units
from random_tables import Table


@dataclass
class Side:
    """One party: its table, its key, what it asks for and what should come of it."""

    role: str
    place: Path
    table: Table
    key: list[str]
    keys: list[Key] = field(default_factory=list)
    classes: list[str] = field(default_factory=list)
    row: str = ""
    labels: list[str] = field(default_factory=list)
    values: list[str] = field(default_factory=list)
    scale: int = 0
    output: str = ""
    arguments: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    # What may be refused, by rows that the oracle does not look for.
    possible: list[str] = field(default_factory=list)
    code: int = 0
    stderr: str = ""
    stdout: bytes = b""
    numbers: dict[int, Key] = field(default_factory=dict)


class Wrong(Exception):
    """The result differs from the oracle's."""


def expect(is_so: bool, why: str) -> None:
    if not is_so:
        raise Wrong(why)


def distinct(side: Side) -> dict[Key, int]:
    """The keys with their first rows."""
    first: dict[Key, int] = {}
    for row, item in enumerate(side.keys):
        if isinstance(item, tuple):
            first.setdefault(item, row)
    return first


def totals(side: Side) -> dict[Key, list[int]]:
    """The sums of the values of each key, in units."""
    found: dict[Key, list[int]] = {item: [0] * len(side.values) for item in distinct(side)}
    for row, item in enumerate(side.keys):
        if isinstance(item, tuple):
            for at, name in enumerate(side.values):
                found[item][at] += units(side.table.columns[name][row], side.scale)
    return found


def label_cell(table: Table, name: str, row: int) -> Cell:
    """What a label is once it has been handed over."""
    cell = table.columns[name][row]
    if table.format == "csv" and cell == NULL:
        cell = Cell("text", "")
    if cell == NULL or (cell.kind in ("text", "number") and cell.value in table.nulls):
        return NULL
    is_text = table.arrow is None or cell.kind == "uuid" or name in table.date64
    return Cell("text", text_form(cell)) if is_text else cell


def labels_of(side: Side, width: int) -> dict[Key, list[Cell]]:
    """What the sender hands over with each key."""
    found: dict[Key, list[Cell]] = {}
    for row, item in enumerate(side.keys):
        if not isinstance(item, tuple):
            continue
        these = [label_cell(side.table, name, row) for name in side.labels]
        if repr(found.setdefault(item, these)) != repr(these):
            raise Refused("two rows of a key hand over different values")
        texts = [
            "" if c == NULL else repr(c.value) if "float" in c.kind else text_form(c) for c in these
        ]
        if any(c in "\0\x0b\x7f" for text in texts for c in text):
            raise Refused("control characters")
        if sum(len(text.encode()) + 2 for text in texts) > width:
            raise Refused("labels are wider than the width")
    return found


def result_text(side: Side, path: Path) -> str:
    body = side.stdout if side.output == "-" else path.read_bytes()
    if path.name.endswith(".gz"):
        body = gzip.decompress(body)
    if path.name.endswith(".zst"):
        body = pa.CompressedInputStream(pa.BufferReader(body), "zstd").read()
    return body.decode("cp1252" if side.table.encoding == "cp1252" else "utf-8-sig")


def result_arrow(side: Side, path: Path, kind: str) -> Any:
    source = pa.BufferReader(side.stdout) if side.output == "-" else pa.OSFile(str(path))
    if kind == "parquet":
        return pa.parquet.read_table(source)
    with contextlib.suppress(pa.ArrowInvalid):
        return pa.ipc.open_file(source).read_all()
    source.seek(0)
    return pa.ipc.open_stream(source).read_all()


def same_arrays(want: Any, got: Any) -> bool:
    """Whether two columns of one type have the same values, bit for bit where they are floats."""
    if pa.types.is_dictionary(want.type):
        value = want.type.value_type
        return want.cast(value).equals(got.cast(value))
    if pa.types.is_floating(want.type):
        whole = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[want.type.bit_width]
        want, got = (
            pa.concat_arrays([chunk.view(whole) for chunk in a.chunks] or [pa.array([], whole)])
            for a in (want, got)
        )
    return want.equals(got)


def kind_of_output(side: Side) -> str:
    suffixes = {"csv": "csv", "tsv": "csv", "psv": "csv", "jsonl": "jsonl", "parquet": "parquet"}
    suffixes |= {"arrow": "arrow", "feather": "arrow", "arrows": "arrow", "table": "table"}
    inner = side.output.removesuffix(".gz").removesuffix(".zst").rpartition(".")[2]
    return suffixes.get(inner, "arrow" if side.table.format == "arrows" else side.table.format)


def delimiter_of(side: Side) -> str:
    """The delimiter of a result in CSV."""
    own = side.table.csv.delimiter if side.table.format == "csv" else ","
    return {"out.tsv": "\t", "out.psv": "|"}.get(side.output, own)


def is_copy(side: Side) -> bool:
    """Whether rows of text are copied byte for byte."""
    kind = kind_of_output(side)
    is_same = kind == side.table.format and side.table.arrow is None
    return is_same and (kind != "csv" or delimiter_of(side) == side.table.csv.delimiter)


def check_rows(side: Side, rows: list[int], added: list[tuple[str, list[Cell]]]) -> None:
    """Compares a result with these rows of the table and the columns that were added."""
    table, kind = side.table, kind_of_output(side)
    path = side.place.parent / f"{side.role}-{side.output}"
    columns = [(name, [table.columns[name][row] for row in rows]) for name in table.names] + added
    copied = is_copy(side)
    if kind == "table":
        check_database(side, columns)
    elif kind == "csv":
        text = result_text(side, path)
        if copied and not added:
            lines = ([table.header] if table.csv.header else []) + [
                table.records[row] for row in rows
            ]
            want = "".join(line + table.csv.end for line in lines)
            expect(
                text.rstrip("\r\n") == want.rstrip("\r\n"),
                f"rows differ: {want!a} expected, {text!a} found",
            )
            return
        records = (table.csv if copied else tables.Csv(delimiter_of(side))).parse(text)
        has_header = table.csv.header
        if has_header:
            names = [name for name, _ in columns]
            expect(
                bool(records) and records[0] == names,
                f"header: {names!a} expected, {records[:1]!a} found",
            )
        check_texts(columns, records[has_header:])
    elif kind == "jsonl":
        lines = (
            result_text(side, path).splitlines()
            if not copied
            else result_text(side, path).split("\n")[:-1]
        )
        if copied and not added:
            want_lines = [table.records[row] for row in rows]
            expect(lines == want_lines, f"rows differ: {want_lines!a} expected, {lines!a} found")
            return
        check_json(columns, lines, copied)
    else:
        check_arrow(side, rows, added, result_arrow(side, path, kind), kind)


def check_texts(columns: list[tuple[str, list[Cell]]], records: list[list[str | None]]) -> None:
    count = len(columns[0][1])
    expect(len(records) == count, f"{count} rows expected, {len(records)} found")
    for row, record in enumerate(records):
        expect(len(record) == len(columns), f"{len(columns)} fields expected, {record!a} found")
        for (name, column), text in zip(columns, record):
            expect(
                is_text_of(column[row], text), f"{name!a}: {column[row]} expected, {text!a} found"
            )


def check_json(columns: list[tuple[str, list[Cell]]], lines: list[str], is_copy: bool) -> None:
    count = len(columns[0][1])
    expect(len(lines) == count, f"{count} rows expected, {len(lines)} found")
    bare = {"integer", "decimal", "number"}
    for row, line in enumerate(lines):
        got = json.loads(line, parse_int=tables.as_written, parse_float=tables.as_written)
        for name, column in columns:
            cell, value = column[row], got.get(name)
            text, is_bare = (
                (value.value, True) if isinstance(value, Cell) else (value, isinstance(value, bool))
            )
            text = str(text).lower() if isinstance(text, bool) else text
            expect(is_text_of(cell, text), f"{name!a}: {cell} expected, {value!a} found")
            finite = "float" in cell.kind and text not in ("NaN", "inf", "-inf")
            expect(
                is_bare == (cell.kind in bare or cell.kind == "bool" or finite),
                f"{name!a}: {cell}, {value!a} found",
            )
        if not is_copy:
            expect(list(got) == [name for name, _ in columns], f"fields {list(got)!a} found")


def check_arrow(
    side: Side, rows: list[int], added: list[tuple[str, list[Cell]]], got: Any, kind: str
) -> None:
    source = side.table.arrow
    names = [*side.table.names, *(name for name, _ in added)]
    expect(got.column_names == names, f"columns {names!a} expected, {got.column_names!a} found")
    expect(got.num_rows == len(rows), f"{len(rows)} rows expected, {got.num_rows} found")
    for at, name in enumerate(names):
        have = got.column(at)
        if source is None or at >= len(side.table.names):
            want = (
                [side.table.columns[name][row] for row in rows]
                if at < len(side.table.names)
                else added[at - len(side.table.names)][1]
            )
            if source is None and at < len(side.table.names):
                want = [c if c == NULL else Cell("text", text_form(c)) for c in want]
            found = tables.cells(have)
            expect(
                repr(found) == repr(want),
                f"{name!a}: {want} expected, {found} found of {have.type}",
            )
            continue
        taken, kept = source.column(name), have.type == source.column(name).type
        taken, have = (
            pyarrow.compute.run_end_decode(a) if pa.types.is_run_end_encoded(a.type) else a
            for a in (taken, have)
        )
        # Views cannot be taken from.
        taken, have = (
            a.cast(pa.string()) if pa.types.is_string_view(a.type) else a for a in (taken, have)
        )
        taken = taken.take(pa.array(rows, pa.int64()))
        if kept:
            expect(same_arrays(taken, have), f"{name!a}: {taken} expected, {have} found")
            continue
        same = kind == side.table.format.rstrip("s") and side.table.parts == 1
        expect(
            not same or pa.types.is_dictionary(taken.type),
            f"{name!a}: {taken.type} expected, {have.type} found",
        )
        wanted, found = tables.cells(taken), tables.cells(have)
        if taken.type == pa.date64():
            wanted = [
                c if c == NULL else Cell("timestamp", c.value * 86400 * 10**9) for c in wanted
            ]
        if any(c.kind == "nested" for c in wanted):
            wanted, found = taken.to_pylist(), have.to_pylist()
        expect(
            repr(wanted) == repr(found),
            f"{name!a}: {wanted} expected, {found} found, {taken.type} as {have.type}",
        )


def unkept(cell: Cell) -> str | None:
    """Why SQLite does not keep a value, if it does not."""
    if "float" in cell.kind and math.isnan(cell.value):
        return "NaN"
    if cell.kind == "integer" and cell.value >= 2**63:
        return "integers beyond 2^63"
    return None


def check_database(side: Side, columns: list[tuple[str, list[Cell]]]) -> None:
    """Compares a table of SQLite's, which has null for what it does not keep of the peer's columns."""
    base = sqlite3.connect(side.place.parent / f"{side.role}.db")
    cursor = base.execute("select * from result order by rowid")
    names, records = [entry[0] for entry in cursor.description], cursor.fetchall()
    base.close()
    expect(len(names) == len(columns), f"{len(columns)} columns expected, {names!a} found")
    expect(
        len(records) == len(columns[0][1]),
        f"{len(columns[0][1])} rows expected, {len(records)} found",
    )
    lost = 0
    for at, (name, column) in enumerate(columns):
        for cell, record in zip(column, records):
            got = record[at]
            if at >= len(side.table.names) and unkept(cell) is not None:
                good = got is None
                lost += 1
            elif cell.kind in ("integer", "bool", "float", "float32", "bytes", "null"):
                good = cell.value == got
            elif cell.kind in ("uuid", "timestamp", "date"):
                good = got is not None
            else:
                good = text_form(cell) == got
            expect(good, f"{name!a}: {cell} expected, {got!a} found")
    warned = "of the peer's, and has null instead" in side.stderr
    expect(warned == (lost > 0), f"{lost} values are lost, and {warned} is whether it says so")


def added_columns(
    side: Side,
    rows: list[int],
    is_all: bool,
    common: set[Key],
    labels: dict[Key, list[Cell]] | None,
    sender: Side,
) -> list[tuple[str, list[Cell]]]:
    added: list[tuple[str, list[Cell]]] = []
    if is_all:
        added.append(("in_both", [Cell("bool", side.keys[row] in common) for row in rows]))
    taken = [*side.table.names, *(name for name, _ in added)]
    for at, name in enumerate([] if labels is None else sender.labels):
        name = f"peer_{name}"
        while name in taken:
            name += "_"
        taken.append(name)
        added.append(
            (
                name,
                [labels[side.keys[row]][at] if side.keys[row] in common else NULL for row in rows],
            )
        )
    return added


def check_report(side: Side, place: Path) -> dict[str, Any]:
    report = json.loads((place / f"{side.role}.json").read_text())
    usable = [item for item in side.keys if isinstance(item, tuple)]
    want = {
        "rows": len(side.keys),
        "items": len(set(usable)),
        "duplicates": len(usable) - len(set(usable)),
    }
    want |= {"blanks": side.keys.count("blank"), "invalid": side.keys.count("invalid")}
    got = {name: report[name] for name in want}
    expect(got == want, f"{side.role}'s report: {want} expected, {got} found")
    unusable = want["blanks"] + want["invalid"] > 0
    expect(
        unusable == ("no usable key" in side.stderr),
        f"{side.role}: a warning of rows without a key",
    )
    return report


def check_matches(
    sides: list[Side],
    side: Side,
    which: str,
    align: bool,
    common: set[Key],
    labels: dict[Key, list[Cell]] | None,
) -> None:
    rows = [
        row
        for row, item in enumerate(side.keys)
        if which == "all" or (item in common) == (which == "matching")
    ]
    sender = sides[1]
    if align:
        rows, numbers = aligned(side, common)
        added = [("match_number", [Cell("integer", n) for n in numbers])]
        added += added_columns(side, rows, False, common, labels, sender)
    else:
        added = added_columns(side, rows, which == "all", common, labels, sender)
    check_rows(side, rows, added)


def read_numbers(side: Side) -> list[tuple[int, int]]:
    """The row and the number of each row of a result in the common order."""
    kind, path = kind_of_output(side), side.place.parent / f"{side.role}-{side.output}"
    if kind == "table":
        base = sqlite3.connect(side.place.parent / f"{side.role}.db")
        found: list[Any] = base.execute(
            f'select "{side.row}", match_number from result order by rowid'
        ).fetchall()
        base.close()
    elif kind == "csv":
        style = side.table.csv if is_copy(side) else tables.Csv(delimiter_of(side))
        records = style.parse(result_text(side, path))[side.table.csv.header :]
        at = side.table.names.index(side.row)
        found = [(record[at], record[len(side.table.names)]) for record in records]
    elif kind == "jsonl":
        lines = [json.loads(line) for line in result_text(side, path).split("\n")[:-1]]
        found = [(line[side.row], line["match_number"]) for line in lines]
    else:
        got = result_arrow(side, path, kind)
        found = list(zip(got[side.row].to_pylist(), got["match_number"].to_pylist()))
    return [(int(row), int(number)) for row, number in found]


def aligned(side: Side, common: set[Key]) -> tuple[list[int], list[int]]:
    """The rows of a result in the common order and their numbers, if these are as the docs say."""
    found = read_numbers(side)
    rows, numbers = [row for row, _ in found], [number for _, number in found]
    want = [row for row, item in enumerate(side.keys) if item in common]
    expect(sorted(rows) == want, f"rows {want} expected in some order, {rows} found")
    expect(found == sorted(found, key=lambda pair: (pair[1], pair[0])), f"order {found}")
    side.numbers = {number: side.keys[row] for row, number in found}
    expect(sorted(side.numbers) == list(range(1, len(common) + 1)), f"numbers {numbers}")
    expect(all(side.numbers[number] == side.keys[row] for row, number in found), f"numbers {found}")
    return rows, numbers


def check_shares(sides: list[Side], common: set[Key], valued: list[Side]) -> None:
    """Adds the two files up."""
    texts = [
        (side.place.parent / f"{side.role}-out.csv").read_text().splitlines() for side in sides
    ]
    near, far = ([line.split(",") for line in text] for text in texts)
    expect(near[0][1:] == far[0] and len(near) == len(far), f"headers {near[0]} and {far[0]}")
    first, rows = distinct(sides[0]), {}
    opened = [
        [(int(a) + int(b)) % 2**64 for a, b in zip(x[1:], y)] for x, y in zip(near[1:], far[1:])
    ]
    for cells, line in zip(opened, near[1:]):
        matches = cells[0] % 2 == 1
        expect(matches or not any(cells[1:]), f"shares of no match: {cells}")
        if matches:
            rows[int(line[0]) - 1] = [n - 2**64 if n >= 2**63 else n for n in cells[1:]]
    each = [totals(side) for side in valued]
    want = {first[item]: [n for sums in each for n in sums[item]] for item in common}
    expect(rows == want, f"shares: {want} expected, {rows} found")
