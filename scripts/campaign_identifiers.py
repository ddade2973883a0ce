"""Random pairs of tables whose rows match by any of several identifiers, and results with several rows per key, against an
oracle in Python that was written from docs/identifiers.md and docs/joins.md alone.

Runs over TLS and look-ups against a published set. What counts, the options and the packages are those of campaign.py.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import random
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Union

import compare_profiles
import python_package
from campaign import DOCUMENTED, WORK, Outcome, argument_parser, fingerprint, make_identities, play

try:
    import pyarrow as pa
    import pyarrow.ipc
    import pyarrow.parquet
except ImportError:
    pa = None  # Then main() makes an environment that has it.

Raw = Union[str, int, None]
Item = tuple[str, ...]
NULL_WORD = "NULL"
PROFILES = {"mail": "email", "code": "exact", "number": "integer", "word": "text"}
TEXTS = ("csv", "jsonl")
SUFFIXES = ["csv", "csv", "csv.gz", "tsv", "jsonl", "parquet", "arrow", "arrows"]
WIDTHS = [40, 40, 200]


def spelled(rng: random.Random, domain: str, number: int) -> Raw:
    """A value of a domain, in one of its spellings."""
    if domain == "mail":
        text = f"u{number}@x.org"
        return rng.choice([text, text, text.upper(), f" {text}", text.title()])
    if domain == "number":
        return rng.choice([str(number), f"00{number}", f"+{number}", f"{number}.0"])
    if domain == "word":
        text = f"é w{number}"
        return rng.choice([text, text.upper(), f" {text} ", text.replace(" ", "  ")])
    # Some are equal to values of other domains.
    return (
        str(number) if number % 3 == 0 else f"u{number}@x.org" if number % 3 == 1 else f"C{number}"
    )


def drawn(rng: random.Random, domain: str, pool: range) -> Raw:
    chance = rng.random()
    if chance < 0.12:
        return None
    if chance < 0.16:
        return ""
    if chance < 0.19:
        return NULL_WORD
    if chance < 0.22 and domain != "code":
        return "no thing"
    return spelled(rng, domain, rng.choice(pool))


def canonical(domain: str, raw: Raw, has_null_word: bool) -> str | None:
    """What is compared; nothing if the value is blank, and `invalid` has a text of its own."""
    if raw is None or (raw == NULL_WORD and has_null_word):
        return None
    text = str(raw)
    if domain == "code":
        return text or None
    text = " ".join(text.split())
    if not text:
        return None
    if domain == "word":
        return text.lower()
    if domain == "mail":
        return text.lower() if re.fullmatch(r"\S+@\S+", text) else "invalid"
    return str(int(text.partition(".")[0])) if re.fullmatch(r"\+?\d+(\.0)?", text) else "invalid"


@dataclass
class Column:
    """A column of identifiers: values, or lists of them with what separates these in texts."""

    name: str
    domain: str
    cells: list[Any]
    is_list: bool = False
    separator: str = ""


@dataclass
class Source:
    """What campaign.play() asks of a table."""

    stdin: Path | None = None


@dataclass
class Side:
    """One party, and what it is given."""

    role: str
    place: Path
    format: str
    rows: int
    columns: list[Column] = field(default_factory=list)
    identifiers: list[tuple[str, list[Column]]] = field(default_factory=list)
    items: list[list[Item]] = field(default_factory=list)
    verdicts: Counter[str] = field(default_factory=Counter)
    payload: list[tuple[Raw, ...]] = field(default_factory=list)
    has_null_word: bool = False
    lacks_payload: bool = False
    matched_by: str = ""
    which: str = "matching"
    output: str = ""
    arguments: list[str] = field(default_factory=list)
    table: Source = field(default_factory=Source)
    refusals: list[str] = field(default_factory=list)
    # What may be refused, by its words.
    possible: str = ""
    code: int = 0
    stderr: str = ""
    stdout: bytes = b""


class Wrong(Exception):
    """The result differs from the oracle's."""


def expect(is_so: bool, why: str) -> None:
    if not is_so:
        raise Wrong(why)


# Tables.


def draw_list(rng: random.Random, side: Side, column: Column, pool: range, length: int) -> Any:
    """A list; in JSON Lines perhaps a value by itself; null."""
    if rng.random() < 0.1 and column.separator == "":
        return None
    values = [drawn(rng, column.domain, pool) for _ in range(length)]
    if values and rng.random() < 0.15:
        values[-1] = values[0]
    if side.format == "jsonl" and column.separator == "" and rng.random() < 0.3:
        return drawn(rng, column.domain, pool)
    if column.separator:
        return [f"{'' if v is None else v}".strip() for v in values]
    return values


def make_side(
    rng: random.Random, place: Path, role: str, spec: Any, pool: range, rows: int
) -> Side:
    place.mkdir()
    form = rng.choice(["csv"] * 4 + ["jsonl"] * 3 + ["parquet"] * 2 + ["arrow", "arrows"])
    side = Side(role, place, form, rows, has_null_word=rng.random() < 0.3)
    for name, domains in spec:
        chosen: list[Column] = []
        for domain in domains:
            is_free = [
                column
                for column in side.columns
                if column.domain == domain
                and column not in chosen
                and (len(domains) == 1 or not column.is_list)
            ]
            if is_free and rng.random() < 0.35:
                chosen.append(rng.choice(is_free))
                continue
            column = Column(f"{'kab'[len(side.columns) % 3]} {len(side.columns)}", domain, [])
            column.is_list = len(domains) == 1 and rng.random() < 0.4
            if column.is_list and (form == "csv" or rng.random() < 0.3):
                column.separator = rng.choice(";|, /=é")
            if column.separator == " " and domain == "word":
                column.separator = ";"
            width = rng.choice([2, 3])
            is_fixed = form in ("parquet", "arrow", "arrows") and rng.random() < 0.2
            for _ in range(rows):
                length = width if is_fixed else rng.choice([0, 1, 1, 2, 3, 5])
                column.cells.append(
                    draw_list(rng, side, column, pool, length)
                    if column.is_list
                    else drawn(rng, domain, pool)
                )
            side.columns.append(column)
            chosen.append(column)
        side.identifiers.append((name, chosen))
    for row in range(rows):
        items_of(side, row)
    return side


def values_of(column: Column, row: int, has_null_word: bool) -> list[str | None]:
    """The canonical values of a cell: each element of a list that is neither null nor empty."""
    cell = column.cells[row]
    elements = cell if isinstance(cell, list) else [cell]
    if column.separator:
        text = column.separator.join("" if e is None else str(e) for e in elements)
        if text == NULL_WORD and has_null_word:
            return [None]
        elements = [element.strip() for element in text.split(column.separator)]
    return [canonical(column.domain, element, has_null_word) for element in elements]


def items_of(side: Side, row: int) -> None:
    found: list[Item] = []
    has_invalid = False
    for name, columns in side.identifiers:
        if len(columns) == 1:
            every = [[value] for value in values_of(columns[0], row, side.has_null_word)]
        else:
            cells = [canonical(c.domain, c.cells[row], side.has_null_word) for c in columns]
            every = [cells]
        for values in every:
            if None in values:
                continue
            if "invalid" in values:
                has_invalid = True
                continue
            found.append((name, *[value for value in values if value is not None]))
    side.items.append(found)
    if not found:
        side.verdicts["invalid" if has_invalid else "blanks"] += 1


def text_of(side: Side, column: Column, row: int) -> Raw:
    cell = column.cells[row]
    if not column.separator:
        return cell
    pad = " " if row % 3 == 1 and column.separator != " " else ""
    elements = cell if isinstance(cell, list) else [cell]
    return column.separator.join(f"{pad}{'' if e is None else e}{pad}" for e in elements)


def write(rng: random.Random, side: Side) -> None:
    """Writes the table, as one file or two, and adds the options that say how to read it."""
    names = ["rid", *[column.name for column in side.columns], "pay", "amt"]
    rows: list[list[Any]] = []
    for row in range(side.rows):
        cells = [text_of(side, column, row) for column in side.columns]
        rows.append([f"r{row}", *cells, *side.payload[row]])
    order = rng.sample(range(len(names)), len(names))
    names = [names[i] for i in order]
    rows = [[row[i] for i in order] for row in rows]
    cut = rng.randrange(1, side.rows) if side.rows > 1 and rng.random() < 0.15 else side.rows
    parts = [part for part in (rows[:cut], rows[cut:]) if part]
    if side.format == "csv":
        write_csv(rng, side, names, parts)
    elif side.format == "jsonl":
        met: set[str] = set()
        for number, part in enumerate(parts):
            lines = []
            for row in part:
                pairs = {n: v for n, v in zip(names, row) if v is not None or rng.random() < 0.5}
                is_number = rng.random() < 0.3
                for column in side.columns:
                    if column.domain == "number" and is_number and not column.separator:
                        pairs = {
                            n: as_number(v) if n == column.name else v for n, v in pairs.items()
                        }
                met |= set(pairs)
                lines.append(json.dumps(pairs, ensure_ascii=rng.random() < 0.5))
            (side.place / f"part-{number}.jsonl").write_text("\n".join(lines) + "\n")
        if not {column.name for column in side.columns} <= met:
            side.refusals.append("no line has a column of the key")
        side.lacks_payload = not {"pay", "amt"} <= met
    else:
        schema = {}
        for column in side.columns:
            plain = pa.string()
            is_list = column.is_list and not column.separator
            cells = [e for c in column.cells for e in (c if isinstance(c, list) else [c])]
            can_count = all(e is None or re.fullmatch(r"\d+", str(e)) for e in cells)
            if column.domain == "number" and can_count and not column.separator:
                plain = pa.int64()
            elif not is_list and rng.random() < 0.3:
                plain = rng.choice([pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
            if is_list:
                lengths = {len(c) for c in column.cells if c is not None}
                kinds = [pa.list_(plain), pa.large_list(plain)]
                if len(lengths) == 1 and lengths != {0}:
                    kinds = [pa.list_(plain, lengths.pop())]
                schema[column.name] = rng.choice(kinds)
            else:
                schema[column.name] = plain
        schema |= {"rid": pa.string(), "pay": pa.string(), "amt": pa.int32()}
        for number, part in enumerate(parts):
            arrays = {
                name: pa.array([counted(row[at], schema[name]) for row in part], schema[name])
                for at, name in enumerate(names)
            }
            write_columnar(rng, side, pa.table(arrays), side.place / f"part-{number}.{side.format}")
    files = sorted(side.place.iterdir())
    if len(files) == 1 and rng.random() < 0.12:
        side.table.stdin = files[0]
        form = "arrow" if side.format == "arrows" else side.format
        side.arguments += ["--input", "-", "--format", form]
    else:
        for path in files:
            side.arguments += ["--input", str(path)]


def as_number(value: Any) -> Any:
    """Digits as numbers of JSON, also within lists."""
    if isinstance(value, list):
        return [as_number(element) for element in value]
    is_plain = isinstance(value, str) and re.fullmatch(r"0|[1-9]\d*", value)
    return int(value) if is_plain else value


def counted(value: Any, kind: Any) -> Any:
    if isinstance(value, list):
        return [counted(element, kind.value_type) for element in value]
    return int(value) if value is not None and pa.types.is_integer(kind) else value


def write_columnar(rng: random.Random, side: Side, table: Any, path: Path) -> None:
    size = rng.choice([1, 3, 1000])
    if side.format == "parquet":
        pyarrow.parquet.write_table(table, path, row_group_size=size)
        return
    make = pyarrow.ipc.new_file if side.format == "arrow" else pyarrow.ipc.new_stream
    # The other format has one dictionary for a column.
    unified = table.unify_dictionaries()
    with make(str(path), table.schema) as writer:
        for batch in unified.to_batches(max_chunksize=size):
            writer.write_batch(batch)


def write_csv(rng: random.Random, side: Side, names: list[str], parts: list[Any]) -> None:
    """With lines above and below the table, in several encodings."""
    above = rng.choice([0, 0, 0, 1, 2, 4])
    below = rng.choice([0, 0, 0, 1, 2])
    says_separator = rng.random() < 0.15 and above == 0
    delimiter = ";" if says_separator else ","
    end = rng.choice(["\n", "\r\n"])
    encoding = rng.choice(["utf-8"] * 6 + ["utf-8-sig", "utf-16"])
    is_packed = rng.random() < 0.15
    for number, part in enumerate(parts):
        out = io.StringIO()
        if says_separator:
            out.write(f"sep=;{end}")
        for _ in range(above):
            out.write(
                rng.choice(["A title, of two", "", "   ", "a;b;c", '"quoted", x', 'one " quote'])
                + end
            )
        writer = csv.writer(
            out, delimiter=delimiter, lineterminator=end, quoting=rng.choice([0, 1])
        )
        writer.writerow(names)
        for row in part:
            writer.writerow(["" if value is None else value for value in row])
            if rng.random() < 0.03:
                out.write(end)
        blanks = rng.choice([0, 0, 1, 3]) if below else 0
        out.write(end * blanks)
        for at in range(below):
            out.write(f"Total {at},12" + end)
            out.write(end * rng.choice([0, 0, 2]))
        text = out.getvalue()
        if rng.random() < 0.3:
            text = text.removesuffix(end)
        data = (
            codecs.BOM_UTF16_LE + text.encode("utf-16-le")
            if encoding == "utf-16"
            else text.encode(encoding)
        )
        if encoding == "utf-16" and rng.random() < 0.5:
            data = text.encode("utf-16-le")
        path = side.place / f"part-{number}.csv{'.gz' if is_packed else ''}"
        path.write_bytes(gzip.compress(data) if is_packed else data)
    if encoding == "utf-16":
        side.arguments += ["--encoding", "utf-16le"]
    side.arguments += ["--skip-rows", str(above)] if above else []
    side.arguments += ["--skip-footer", str(below)] if below else []
    side.arguments += ["--delimiter", delimiter] if not says_separator else []


def add_identifiers(side: Side) -> None:
    for name, columns in side.identifiers:
        side.arguments.append(f"--match={name}={','.join(column.name for column in columns)}")
    for column in side.columns:
        if column.domain != "code":
            side.arguments += ["--normalize", f"{column.name}={PROFILES[column.domain]}"]
        if column.separator:
            side.arguments += ["--split", f"{column.name}={column.separator}"]
    if side.has_null_word:
        side.arguments += ["--null", NULL_WORD]
    if not any(side.items):
        side.arguments.append("--allow-empty")


# What is handed over.


def add_payload(rng: random.Random, side: Side) -> None:
    """The same for rows that share an identifier, or any."""
    group = list(range(side.rows))

    def root(row: int) -> int:
        while group[row] != row:
            row = group[row]
        return row

    first: dict[Item, int] = {}
    for row, items in enumerate(side.items):
        for item in items:
            group[root(row)] = root(first.setdefault(item, row))
    is_random = rng.random() < 0.15
    texts = ["", "x", "ü", "a,b", 'q"q', "two\nlines", "tab\t", NULL_WORD]
    for row in range(side.rows):
        of = rng.randrange(50) if is_random else root(row)
        text = None if of % 11 == 3 else f"{texts[of % 8]}{of if of % 4 else ''}"
        side.payload.append((text, None if of % 7 == 1 else of))


def handed_over(side: Side, row: int) -> tuple[str | None, str | None]:
    """The payload of a row as the other side gets it."""
    texts = [None if value is None else str(value) for value in side.payload[row]]
    if side.format == "csv":
        texts = [text or "" for text in texts]
    if side.has_null_word:
        texts = [None if text == NULL_WORD else text for text in texts]
    return texts[0], texts[1]


def rows_of_items(side: Side) -> dict[Item, list[int]]:
    found: dict[Item, list[int]] = defaultdict(list)
    for row, items in enumerate(side.items):
        for item in dict.fromkeys(items):
            found[item].append(row)
    return found


# Results.


def read_result(path: Path, suffix: str) -> list[dict[str, str | None]]:
    """The rows of a result, each value as text; null and the empty text are one in CSV."""
    kind = suffix.split(".")[0]
    data = path.read_bytes()
    if suffix.endswith(".gz"):
        data = gzip.decompress(data)
    if kind in ("csv", "tsv"):
        text = data.decode("utf-8-sig")
        delimiter = "\t" if kind == "tsv" else ";" if text.split("\n", 1)[0].count(";") > 0 else ","
        lines = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        table = [line for line in lines if line]
        expect(all(len(line) == len(table[0]) for line in table), "rows of several lengths")
        return [dict(zip(table[0], line)) for line in table[1:]]
    if kind == "jsonl":
        rows = [json.loads(line) for line in data.decode().splitlines() if line]
    elif kind == "parquet":
        rows = pyarrow.parquet.read_table(io.BytesIO(data)).to_pylist()
    else:
        make = pyarrow.ipc.open_file if kind == "arrow" else pyarrow.ipc.open_stream
        rows = make(io.BytesIO(data)).read_all().to_pylist()
    return [{name: plain(value) for name, value in row.items()} for row in rows]


def plain(value: Any) -> str | None:
    return None if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def expected_rows(
    side: Side, other: Side, takes: bool, per_key: int
) -> list[tuple[str | None, ...]]:
    """The result by the docs: row, in_both, matched by, and what was handed over."""
    theirs = rows_of_items(other)
    result: list[tuple[str | None, ...]] = []
    for row, items in enumerate(side.items):
        item = next((item for item in items if item in theirs), None)
        if side.which == ("matching" if item is None else "rest"):
            continue
        start: list[str | None] = [f"r{row}"]
        if side.which == "all":
            start.append("false" if item is None else "true")
        if side.matched_by:
            start.append(None if item is None else item[0])
        if not takes:
            result.append(tuple(start))
        elif item is None:
            result.append((*start, None, None))
        else:
            rows = theirs[item] if per_key > 1 else theirs[item][:1]
            result.extend((*start, *handed_over(other, of)) for of in rows)
    return result


def check_result(side: Side, other: Side, place: Path, takes: bool, per_key: int) -> int:
    want = expected_rows(side, other, takes, per_key)
    found = read_result(place / f"{side.role}.{side.output}", side.output)
    names = ["rid"] + (["in_both"] if side.which == "all" else [])
    names += [side.matched_by] if side.matched_by else []
    names += [f"peer_pay{'_' * (side.matched_by == 'peer_pay')}", "peer_amt"] if takes else []
    is_csv = side.output.split(".")[0] in ("csv", "tsv")
    got = [tuple(row.get(name) for name in names) for row in found]
    if is_csv:
        want = [tuple(value or "" for value in row) for row in want]
    for at, (a, b) in enumerate(zip(want, got)):
        expect(a == b, f"{side.role}: row {at} of the result: {a} expected, {b} found")
    expect(len(want) == len(got), f"{side.role}: {len(want)} rows expected, {len(got)} found")
    return len(want)


def check_report(side: Side, place: Path, want: dict[str, int]) -> None:
    report = json.loads((place / f"{side.role}.json").read_text())
    # What a list repeats is once in its row.
    items = [item for row in side.items for item in dict.fromkeys(row)]
    want |= {
        "rows": side.rows,
        "items": len(set(items)),
        "duplicates": len(items) - len(set(items)),
    }
    want |= {"blanks": side.verdicts["blanks"], "invalid": side.verdicts["invalid"]}
    got = {name: report.get(name) for name in want}
    expect(got == want, f"{side.role}'s report: {want} expected, {got} found")


# Pairs.


def choose_spec(rng: random.Random) -> list[tuple[str, list[str]]]:
    spec = []
    for number in range(rng.choice([1, 2, 2, 3, 4])):
        domains = [rng.choice(list(PROFILES)) for _ in range(rng.choice([1, 1, 1, 2, 3]))]
        spec.append((f"{'ab.-_'[number]}{number}", domains))
    return spec


def pair(number: int, seed: int, binary: Path, place: Path) -> Outcome:
    rng = random.Random(f"identifiers/{seed}/{number}")
    spec = choose_spec(rng)
    pools = rng.choice(
        [[range(20), range(20)]] * 3 + [[range(60), range(30, 90)], [range(8), range(8)]]
    )
    is_large = rng.random() < 0.04
    sides = []
    for role, pool in zip(("receive", "send"), pools):
        rows = rng.choice([1500, 3000]) if is_large else rng.choice([1, 2, 3, 5, 10, 20, 40])
        pool = range(pool.start, pool.start + rows) if is_large else pool
        side = make_side(rng, place / role, role, spec, pool, rows)
        add_payload(rng, side)
        write(rng, side)
        add_identifiers(side)
        sides.append(side)
    receiver, sender = sides
    is_lookup = rng.random() < 0.12 and any(sender.items) and not is_large
    takes = rng.random() < 0.55
    per_key = 1
    if takes:
        per_key = add_joins(rng, receiver, sender, is_lookup)
    both = not is_lookup and rng.random() < 0.25
    for side in sides[: 1 + both]:
        rest = [] if takes and side is receiver and not is_lookup else ["rest"]
        side.which = rng.choice(["matching", "matching", "all", *rest])
        side.arguments += ["--rows", side.which]
        if rng.random() < 0.6:
            side.matched_by = rng.choice(["how", "rid ", "peer_pay"])
            side.arguments += ["--matched-by", side.matched_by]
        has_lists = any(column.is_list and not column.separator for column in side.columns)
        has_typed_lists = has_lists and side.format not in TEXTS
        columnar = ["parquet", "arrow", "arrows"]
        side.output = rng.choice(columnar if has_typed_lists and rng.random() < 0.95 else SUFFIXES)
        if has_typed_lists and side.output not in columnar:
            side.refusals.append("lists in text")
        side.arguments += ["--output", str(place / f"{side.role}.{side.output}")]
    if is_lookup:
        return finish(sides, place, takes, per_key, False, look_up(binary, sides, place))
    protocols = ["auto", "auto", "vole", "compact-dh", "kkrt"] + ([] if takes else ["oprf-dh"])
    protocol = "compact-dh" if is_large and rng.random() < 0.5 else rng.choice(protocols)
    shared = ["--protocol", protocol] + (["--both"] if both else [])
    shared += ["--security", "semi-honest"] if protocol == "kkrt" else []
    for side in sides:
        side.arguments += shared
        if is_large or rng.random() < 0.3:
            side.arguments += ["--memory", rng.choice(["300K", "1M", "4M", "16M"])]
            side.possible = "bytes of memory, which do not suffice"
    return finish(sides, place, takes, per_key, both, play(binary, sides, place))


def add_joins(rng: random.Random, receiver: Side, sender: Side, is_lookup: bool) -> int:
    """The options of columns that are handed over; returns how many rows a key may have."""
    most = max((len(rows) for rows in rows_of_items(sender).values()), default=1)
    per_key = 1 if is_lookup or rng.random() < 0.4 else rng.choice([2, 3, 5, 5])
    if per_key > 1 and most > per_key and rng.random() < 0.7:
        per_key = most
    width = rng.choice(WIDTHS + ([800] if per_key <= 5 else []))
    while per_key * (width + 1) > 4096:
        width //= 2
    widths = [
        sum(2 + len((t or "").encode()) for t in handed_over(sender, row))
        for row in range(sender.rows)
    ]
    if sender.lacks_payload:
        sender.refusals.append("no line has a column to hand over")
    usable = [row for row, items in enumerate(sender.items) if items]
    if any(widths[row] > width for row in usable):
        sender.refusals.append("wider than the width")
    sender.arguments += ["--payload", "pay,amt", "--payload-width", str(width)]
    if per_key > 1:
        sender.arguments += ["--rows-per-key", str(per_key)]
    if not is_lookup:
        receiver.arguments += ["--take-payload", "--payload-width", str(width)]
        accepted = per_key + rng.choice([0, 0, 1])
        if per_key > 1 and rng.random() < 0.05:
            accepted = per_key - 1
            receiver.refusals.append("more rows per key than accepted")
        if accepted > 1 and accepted * (width + 1) <= 4096:
            receiver.arguments += ["--rows-per-key", str(accepted)]
        elif accepted != per_key and per_key > 1:
            receiver.arguments += ["--rows-per-key", str(min(per_key, accepted))]
        elif per_key > 1:
            receiver.arguments += ["--rows-per-key", str(per_key)]
    if per_key > 1 and most > per_key:
        sender.refusals.append("more rows of a key than declared")
    if per_key == 1:
        for rows in rows_of_items(sender).values():
            if len({handed_over(sender, row) for row in rows}) > 1:
                sender.refusals.append("rows of a key hand over different values")
                break
    return per_key


def look_up(binary: Path, sides: list[Side], place: Path) -> str:
    """Publishes the sender's table, serves it, and looks the receiver's up; why that is no orderly end, if it is none."""
    receiver, sender = sides
    ours, theirs = WORK / "receive.key", WORK / "send.key"
    database, published = place / "database", place / "set.vset"

    def command(words: list[str], name: str) -> list[str]:
        line = [str(binary), *words]
        (place / f"{name}.command").write_text(shlex.join(line) + "\n")
        return line

    def ended(side: Side, line: list[str], name: str) -> None:
        with open(side.table.stdin or "/dev/null", "rb") as source:
            done = subprocess.run(line, stdin=source, capture_output=True, timeout=120, check=False)
        side.code, side.stdout = done.returncode, done.stdout
        side.stderr = done.stderr.decode(errors="replace")
        (place / f"{name}.stderr").write_text(side.stderr)

    words = [
        "publish",
        *sender.arguments,
        "--progress",
        "none",
        "--identity",
        str(theirs),
        "--set-dir",
        str(database),
    ]
    ended(sender, command([*words, "--output", str(published)], "publish"), "publish")
    if sender.code == 0:
        (place / "clients").write_text(f"{fingerprint(binary, ours)} receive\n")
        words = [
            "serve",
            "--set-dir",
            str(database),
            "--listen",
            "127.0.0.1:0",
            "--identity",
            str(theirs),
        ]
        words += ["--clients", str(place / "clients"), "--quota", "100000"]
        with open(place / "serve.stderr", "wb") as err:
            server = subprocess.Popen(command(words, "serve"), stdout=err, stderr=err)
        try:
            until, found = time.monotonic() + 30, None
            while found is None and server.poll() is None and time.monotonic() < until:
                found = re.search(r"(127\.0\.0\.1:[1-9]\d*)", (place / "serve.stderr").read_text())
                time.sleep(0.02)
            if found is None:
                return "the server does not listen"
            words = [
                "lookup",
                *receiver.arguments,
                "--progress",
                "none",
                "--set",
                str(published),
                "--connect",
                found.group(1),
            ]
            words += ["--identity", str(ours), "--peer", fingerprint(binary, theirs)]
            words += ["--report", str(place / "receive.json")]
            ended(receiver, command(words, "lookup"), "lookup")
        finally:
            server.terminate()
            server.wait()
    for side in sides:
        if "panicked" in side.stderr or side.code not in DOCUMENTED:
            return f"{side.role} ended with {side.code}: {side.stderr[-300:]}"
    return ""


def finish(
    sides: list[Side], place: Path, takes: bool, per_key: int, both: bool, failure: str
) -> Outcome:
    """What came of a run."""
    receiver, sender = sides
    if failure:
        return Outcome("raised", failure)
    refusals = [reason for side in sides for reason in side.refusals]
    failed = [side for side in sides if side.code not in (0, -9)]
    if failed:
        is_possible = any(s.possible and s.possible in f.stderr for s in sides for f in failed)
        kind = "foreseen" if refusals or is_possible else "unforeseen"
        return Outcome(
            kind, "; ".join(f"{s.role} {s.code}: {s.stderr.strip()[-200:]}" for s in failed)
        )
    if refusals:
        return Outcome("wrong", f"not refused: {refusals}")
    try:
        is_lookup = (place / "lookup.command").exists()
        common = set(rows_of_items(receiver)) & set(rows_of_items(sender))
        written = check_result(receiver, sender, place, takes, per_key)
        numbers = {"rows_written": written}
        if not is_lookup:
            numbers |= {"peer_items": len(rows_of_items(sender)), "matches": len(common)}
        check_report(receiver, place, numbers)
        if not is_lookup:
            numbers = {"peer_items": len(rows_of_items(receiver))}
            if both:
                written = check_result(sender, receiver, place, False, 1)
                numbers |= {"matches": len(common), "rows_written": written}
            check_report(sender, place, numbers)
    except (Wrong, OSError, ValueError, KeyError, IndexError, pa.ArrowException) as wrong:
        return Outcome("wrong", f"{type(wrong).__name__}: {wrong}")
    return Outcome("fine")


def campaign(arguments: Any) -> int:
    numbers = range(arguments.pairs) if arguments.only is None else [arguments.only]
    counts: Counter[str] = Counter()

    def one(number: int) -> tuple[int, Outcome, Path]:
        place = WORK / f"identifiers-{arguments.seed}-{number}"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        return number, pair(number, arguments.seed, arguments.vesica, place), place

    with ThreadPoolExecutor(arguments.jobs) as pool:
        for number, outcome, place in pool.map(one, numbers):
            counts[outcome.kind] += 1
            is_bad = outcome.kind in ("wrong", "raised")
            if is_bad or outcome.kind == "unforeseen" or arguments.only is not None:
                python_package.say(f"{number}: {outcome.kind}: {outcome.why}")
            if not is_bad and arguments.only is None:
                shutil.rmtree(place)
    refused = counts["foreseen"] + counts["unforeseen"]
    python_package.say(
        f"{counts.total()} pairs with identifiers: {counts['fine']} as expected, {counts['wrong']} wrong, "
        f"{refused} refused ({counts['unforeseen']} of them not foreseen), {counts['raised']} raised"
    )
    return int(counts["wrong"] + counts["raised"] > 0)


def main() -> int:
    arguments = argument_parser(__doc__.split("\n\n", 1)[0]).parse_args()
    if pa is None:
        return python_package.run_with("campaign", compare_profiles.PACKAGES, __file__)
    return make_identities(arguments.vesica) or campaign(arguments)


if __name__ == "__main__":
    sys.exit(main())
