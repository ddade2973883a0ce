"""Random tables for campaign.py, in every format, and what is in them: as cells, read back by pyarrow or Python."""

from __future__ import annotations

import gzip
import hashlib
import ipaddress
import json
import random
import re
import sqlite3
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.ipc
import pyarrow.parquet
from compare_profiles import damaged
from oracle import NULL, PER_SECOND, Cell, moment

# Profiles that go with each domain of keys.
DOMAINS = {
    "word": ["exact", "exact", "exact/1", "text"],
    "integer": ["exact", "exact/1", "text", "integer", "integer:40", "decimal"],
    "decimal": ["exact", "exact/1", "decimal", "decimal", "integer"],
    "date": ["exact", "date", "timestamp"],
    "timestamp": ["exact", "timestamp", "timestamp:ms", "timestamp:s"],
    "time": ["exact"],
    "uuid": ["exact", "uuid", "uuid"],
    "ipv4": ["exact", "ipv4", "ipv4", "ipv6"],
    "ipv6": ["ipv6"],
    "email": ["email", "pair-email", "text"],
    "phone": ["phone:GB", "phone:DE", "pair-phone:GB"],
    "digest": ["sha256-hex", "pair-email", "exact"],
    "bool": ["exact"],
}
WORDS = [
    *(
        "a",
        "Å",
        "Straße",
        "İx",
        "x,y",
        'say "x"',
        "two\nlines",
        "semi;colon",
        "tab\tx",
        "bar|x",
        " pad ",
    ),
    *(
        "ﬁne",
        "0",
        "007",
        "NULL",
        "n/a",
        "1e5",
        "true",
        "=1+1",
        "zero\u200bwidth",
        "日本",
        "e\u0301",
        "'",
    ),
]
STRINGS = [
    pa.string(),
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.dictionary(pa.int32(), pa.string()),
]
PIECES = [*"0123456789-+:. TtZzUC/{}abFXx,%[]()u@_\u00e9\u00a0\u3000\u0661\uff11\u200b"]
NULL_WORDS = ["NULL", "n/a", "\\N"]


def abstract(domain: str, number: int) -> Any:
    """The value of a domain that has this number."""
    if domain == "word":
        return WORDS[number % len(WORDS)] + ("" if number < len(WORDS) else str(number))
    if domain == "integer":
        return [number, -number, number * 10**6 + 1, 2**31 + number][number % 4]
    if domain == "decimal":
        return Decimal(number * (-1) ** number * 25).scaleb(-number % 3)
    if domain == "date":
        return date(1970, 1, 1) + timedelta(days=number * 97 - 2000)
    if domain == "timestamp":
        step = [10**9, 86400 * 10**9, 250 * 10**6, 10**3, 1][number % 5]
        return (number * 77 - 1000) * step
    if domain == "time":
        return number * 613 % 86400 * 10**9 + [0, 25 * 10**7, 1000][number % 3]
    if domain == "uuid":
        return uuid.UUID(int=number * 2**120 // 199 + number)
    if domain in ("ipv4", "ipv6"):
        mapped = 0xFFFF << 32 if domain == "ipv6" and number % 3 == 0 else 0
        spread = number << 96 if domain == "ipv6" and not mapped else 0
        return ipaddress.ip_address(mapped + spread + number * 2654435761 % 2**32)
    if domain == "email":
        return f"user{number}{['', '+tag', '.x', 'é'][number % 4]}@{['b.example', 'bücher.example'][number % 2]}"
    if domain == "phone":
        return f"2079460{number % 1000:03}"
    if domain == "digest":
        return hashlib.sha256(str(number).encode()).hexdigest()
    return number % 2 == 0


def spelled(rng: random.Random, domain: str, value: Any) -> str:
    """A text that may stand for a value: mostly the plain one, sometimes one that only a profile understands."""
    plain = {
        "date": lambda: value.isoformat(),
        "timestamp": lambda: moment(value),
        "decimal": lambda: f"{value:f}",
    }
    text = plain.get(domain, lambda: str(value))()
    other: list[str] = []
    if domain == "bool":
        text = "true" if value else "false"
    elif domain == "time":
        seconds = value // 10**9
        text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        text += {0: "", 25: ".250"}.get(value % 10**9 // 10**7, ".000001")
    elif domain == "phone":
        text = f"+44{value}"
        other = [f"0{value}", f"+44 20 {value[2:]}", f"0044{value}", f"(020) {value[2:]} x12", "12"]
    elif domain == "word":
        other = [text.upper(), f" {text} ", text.replace(" ", "\u00a0")]
    elif domain in ("integer", "decimal"):
        sign, digits = text[: text.startswith("-")], text.lstrip("-")
        other = [
            f"{sign}00{digits}",
            f"{text}.0" if "." not in text else f"{text}00",
            f" {text}",
            "1e3",
            "1,000",
        ]
        other += [f"+{text}"] if not sign else []
    elif domain == "date":
        other = [
            text.replace("-", ""),
            f"{text}T00:00:00Z",
            f"{text} 00:00",
            text[::-1],
            f"{text} 12:00",
            "2023-02-29",
        ]
    elif domain == "timestamp":
        other = [
            text.replace("T", " ").replace("Z", ""),
            text.replace("Z", "+00:00"),
            str(value // 10**6),
        ]
        other += [
            moment(value + 3600 * 10**9).replace("Z", "+0100"),
            text.replace("Z", " UTC"),
            "yesterday",
        ]
    elif domain == "uuid":
        other = [text.upper(), value.hex, f"{{{text}}}", f"urn:uuid:{text}", text[:-1]]
    elif domain == "ipv4":
        other = [str(int(value)), f" {text}", "1.2.3", "01.2.3.4"]
    elif domain == "ipv6":
        other = [value.exploded, text.upper(), f"{text}%eth0"]
        other += [str(value.ipv4_mapped)] if value.ipv4_mapped else []
    elif domain == "email":
        other = [
            text.upper(),
            f" {text}",
            f"{text}.",
            hashlib.sha256(text.encode()).hexdigest(),
            "nobody",
        ]
    elif domain == "digest":
        other = [text.upper(), text[1:]]
    text = rng.choice(other) if other and rng.random() < 0.15 else text
    return damaged(text, PIECES, rng) if rng.random() < 0.03 else text


def arrow_column(rng: random.Random, domain: str, profile: str, values: Sequence[Any]) -> pa.Array:
    """Values of a domain in one of the types that may hold them."""
    exact = [value for value in values if value is not None]
    kind: Any = None
    data: list[Any] = []
    if domain == "integer" and rng.random() < 0.7:
        kinds = [
            pa.int64(),
            pa.int32(),
            pa.uint64(),
            pa.int16(),
            pa.decimal128(20, 2),
            pa.decimal256(40, 0),
        ]
        kind = rng.choice(kinds + ([pa.float64()] * 3 if profile == "integer" else []))
        data = [Decimal(v) if v is not None and pa.types.is_decimal(kind) else v for v in values]
    elif domain == "decimal" and rng.random() < 0.7:
        kind = rng.choice(
            [pa.decimal128(18, 2), pa.decimal128(38, 6), pa.decimal256(50, 3), pa.decimal64(15, 2)]
        )
        data = list(values)
    elif domain == "date" and rng.random() < 0.7:
        kind = rng.choice(
            [pa.date32(), pa.date64(), *([pa.timestamp("s")] if profile != "exact" else [])]
        )
        data = list(values)
        if pa.types.is_timestamp(kind):
            return pa.array(data, pa.date32()).cast(kind)
    elif domain == "timestamp" and rng.random() < 0.7:
        unit = rng.choice(list(PER_SECOND))
        counts = [None if v is None else v // (10**9 // PER_SECOND[unit]) for v in values]
        if f"timestamp:{unit}" == profile and rng.random() < 0.5:
            return pa.array(counts, pa.int64())
        zone = rng.choice([None, "UTC", "Europe/Berlin", "+02:00"])
        return pa.array(counts, pa.int64()).cast(pa.timestamp(unit, zone))
    elif domain == "time" and rng.random() < 0.7:
        kind = rng.choice([pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")])
        size = 10**9 // PER_SECOND[kind.unit]
        counts = [None if v is None else v // size for v in values]
        return pa.array(counts, pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)
    elif domain == "uuid" and rng.random() < 0.6:
        kind = rng.choice(
            [pa.binary(16), pa.uuid()]
            if profile == "exact"
            else [pa.binary(16), pa.uuid(), pa.binary()]
        )
        data = [None if v is None else v.bytes for v in values]
        if kind == pa.uuid():
            return pa.ExtensionArray.from_storage(kind, pa.array(data, pa.binary(16)))
    elif domain in ("ipv4", "ipv6") and profile == domain and rng.random() < 0.6:
        kind = rng.choice([pa.binary(), pa.binary(len(exact[0].packed) if exact else 4)])
        data = [None if v is None else v.packed for v in values]
        if domain == "ipv4" and rng.random() < 0.5:
            kind, data = pa.int64(), [None if v is None else int(v) for v in values]
    elif domain == "digest" and profile != "exact" and rng.random() < 0.5:
        kind = rng.choice([pa.binary(32), pa.binary()])
        data = [None if v is None else bytes.fromhex(v) for v in values]
    elif domain == "bool" and rng.random() < 0.7:
        kind, data = pa.bool_(), list(values)
    if kind is not None:
        try:
            return pa.array(data, kind)
        except (pa.ArrowInvalid, OverflowError):
            pass
    texts = [None if v is None else spelled(rng, domain, v) for v in values]
    if domain == "word" and rng.random() < 0.1:
        return pa.array([None if t is None else t.encode() for t in texts], pa.binary())
    return pa.array(texts, pa.string()).cast(rng.choice(STRINGS))


def extra_column(rng: random.Random, rows: int, is_label: bool, numbers: Sequence[int]) -> pa.Array:
    """Any type, also such as keys cannot have; of a label's the value follows from the number."""
    plain: list[tuple[pa.DataType, list[Any]]] = [
        (pa.int8(), [0, -128, 127]),
        (pa.uint64(), [0, 2**64 - 1]),
        (pa.int64(), [-(2**63), 5, 2**53 + 1]),
        (pa.float64(), [0.1, -0.0, float("nan"), 5e-324, float("-inf"), 7.0, 1e300]),
        (pa.float32(), [0.1, 16777216.0, float("nan"), 1e-45]),
        (pa.bool_(), [True, False]),
        (pa.string(), ["", "x", "ü", "a,b", 'q"q', "tab\tx", "12", "line\nend"]),
        (pa.large_string(), ["", "y" * 20]),
        (pa.decimal128(12, 3), [Decimal("1.500"), Decimal("-0.001")]),
        (pa.date32(), [0, -719162, 20000]),
        (pa.date64(), [86400000, 0]),
        (pa.time32("s"), [0, 86399]),
        (pa.time64("us"), [1, 3600 * 10**6]),
        (pa.timestamp("s"), [0, 10**9]),
        (pa.timestamp("ns", "Europe/Berlin"), [1, 10**18]),
        (pa.timestamp("us", "UTC"), [-1, 10**15]),
        (pa.timestamp("ms", "-03:30"), [1]),
        (pa.binary(16), [b"0123456789abcdef"]),
        (pa.dictionary(pa.int8(), pa.string()), ["p", "q"]),
    ]
    nested: list[tuple[pa.DataType, list[Any]]] = [
        (pa.binary(), [b"", b"\xff\x00", b"text"]),
        (pa.list_(pa.int32()), [[], [1, None], [2]]),
        (
            pa.struct([("a", pa.int32()), ("b", pa.string())]),
            [{"a": 1, "b": "x"}, {"a": None, "b": ""}],
        ),
        (pa.map_(pa.string(), pa.int64()), [[("k", 1)], []]),
        (pa.duration("ms"), [1, -5]),
        (pa.null(), [None]),
        (pa.large_list(pa.string()), [["a"], []]),
    ]
    kind, pool = rng.choice(plain if is_label or rng.random() < 0.8 else nested)
    pool = [*pool, None] if rng.random() < 0.5 else pool
    chosen = (
        [pool[number % len(pool)] for number in numbers] if is_label else rng.choices(pool, k=rows)
    )
    if pa.types.is_temporal(kind) and not pa.types.is_duration(kind):
        bits = pa.int32() if kind.bit_width == 32 else pa.int64()
        return pa.array(chosen, bits).cast(kind)
    return pa.array(chosen, kind)


def cells(array: pa.Array | pa.ChunkedArray) -> list[Cell]:
    """What is in a column."""
    if isinstance(array, pa.ChunkedArray):
        return [cell for chunk in array.chunks for cell in cells(chunk)]
    kind, types = array.type, pa.types
    if types.is_run_end_encoded(kind):
        return cells(pyarrow.compute.run_end_decode(array))
    if types.is_dictionary(kind):
        return cells(array.dictionary_decode())
    if isinstance(kind, pa.UuidType):
        return cells(array.storage)
    name, scale = "nested", 1
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_decimal(kind):
        name = (
            "bool" if types.is_boolean(kind) else "integer" if types.is_integer(kind) else "decimal"
        )
    elif types.is_date(kind):
        name, array = "date", array.cast(pa.int32() if kind == pa.date32() else pa.int64())
    elif types.is_time(kind) or types.is_timestamp(kind):
        name, scale = "time" if types.is_time(kind) else "timestamp", 10**9 // PER_SECOND[kind.unit]
        array = array.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    elif types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        name = "text"
    elif types.is_fixed_size_binary(kind) and kind.byte_width == 16:
        name = "uuid"
    elif (
        types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_fixed_size_binary(kind)
        or types.is_binary_view(kind)
    ):
        name = "bytes"
    elif types.is_float64(kind) or types.is_float32(kind):
        name = "float" if types.is_float64(kind) else "float32"
    values = (
        array.to_pylist() if name != "nested" else [None if not v else 0 for v in array.is_valid()]
    )
    if kind == pa.date64():
        # Some writers put instants there.
        days = [Cell("date", (v or 0) // 86400000) for v in values]
        instants = [Cell("timestamp", (v or 0) * 10**6) for v in values]
        each = zip(values, days, instants)
        return [NULL if v is None else i if v % 86400000 else day for v, day, i in each]
    return [NULL if v is None else Cell(name, v * scale if scale > 1 else v) for v in values]


@dataclass
class Csv:
    """How a CSV table is written."""

    delimiter: str = ","
    quote: str = '"'
    escape: str = ""
    header: bool = True
    end: str = "\n"

    def field(self, rng: random.Random, text: str | None) -> str:
        if text is None:
            return ""
        special = {self.delimiter, self.quote, "\n", "\r"} & set(text)
        if text and not special and (not self.quote or rng.random() < 0.9):
            return text
        doubled = self.escape + self.quote if self.escape and rng.random() < 0.5 else self.quote * 2
        text = text.replace(self.escape, self.escape * 2) if self.escape else text
        return f"{self.quote}{text.replace(self.quote, doubled)}{self.quote}"

    def parse(self, text: str) -> list[list[str | None]]:
        """All fields of all rows; nothing where a field is empty and has no quotes."""
        rows: list[list[str | None]] = []
        row: list[str | None] = []
        at = 0
        while at < len(text):
            value, quoted = "", bool(self.quote) and text[at] == self.quote
            at += quoted
            while at < len(text):
                c, following = text[at], text[at + 1 : at + 2]
                if quoted and c == self.escape:
                    value, at = value + following, at + 2
                elif quoted and c == self.quote:
                    if following != self.quote:
                        at += 1
                        break
                    value, at = value + c, at + 2
                elif not quoted and (c == self.delimiter or c in "\r\n"):
                    break
                else:
                    value, at = value + c, at + 1
            row.append(value if value or quoted else None)
            if at < len(text) and text[at] == self.delimiter:
                at += 1
                if at < len(text) and text[at] not in "\r\n":
                    continue
                row.append(None)
            at += 2 if text[at : at + 2] == "\r\n" else 1
            rows.append(row)
            row = []
        return rows


@dataclass
class Table:
    """A table on disk, and what is in it."""

    format: str
    names: list[str]
    columns: dict[str, list[Cell]]
    arguments: list[str]
    arrow: pa.Table | None = None
    records: list[str] = field(default_factory=list)
    header: str = ""
    csv: Csv = field(default_factory=Csv)
    stdin: Path | None = None
    parts: int = 1
    nulls: frozenset[str] = frozenset()
    # Columns of date64, which pyarrow reads in Parquet as date32.
    date64: frozenset[str] = frozenset()
    # What a text is in, if it is not what it is said to be in.
    encoding: str = "utf-8"


def json_token(rng: random.Random, cell: Cell, has_floats: bool) -> str | None:
    """A value as JSON has it, or nothing where the field is left away; a number with a point bare if there may be one."""
    if cell.kind == "null":
        return rng.choice(["null", None])
    if cell.kind == "bool" and rng.random() < 0.7:
        return str(cell.value).lower()
    if cell.kind == "text":
        text = str(cell.value)
        pattern = r"-?(0|[1-9][0-9]*)(\.[0-9]+)?" if has_floats else r"0|-?[1-9][0-9]*"
        is_number = re.fullmatch(pattern, text) is not None and text != "-0"
        return (
            text
            if is_number and rng.random() < 0.5
            else json.dumps(text, ensure_ascii=rng.random() < 0.5)
        )
    return json.dumps(cell.value)


def as_written(token: str) -> Cell:
    return Cell("number", token)


def from_token(token: str | None) -> Cell:
    value = (
        NULL
        if token is None or token == "null"
        else json.loads(token, parse_int=as_written, parse_float=as_written)
    )
    if isinstance(value, Cell):
        return value
    return Cell("bool" if isinstance(value, bool) else "text", value)


def split(rng: random.Random, rows: int) -> list[range]:
    cuts = sorted(rng.randrange(rows + 1) for _ in range(rng.choice([0, 0, 0, 1, 3])))
    return [range(a, b) for a, b in zip([0, *cuts], [*cuts, rows])]


def packed(rng: random.Random, text: bytes, name: str) -> tuple[bytes, str]:
    """The bytes, perhaps compressed, and the file's name."""
    if rng.random() < 0.15:
        return gzip.compress(text), name + ".gz"
    if rng.random() < 0.1:
        return pa.Codec("zstd").compress(text, asbytes=True), name + ".zst"
    return text, name


def write_csv(
    rng: random.Random, place: Path, names: list[str], columns: list[list[str | None]], rows: int
) -> Table:
    style = Csv(
        rng.choice(",,,;\t|^"),
        rng.choice('""""\''),
        rng.choice(["", "", "\\"]),
        rng.random() < 0.85,
    )
    style.end = rng.choice(["\n", "\n", "\r\n"])
    records = [
        style.delimiter.join(style.field(rng, column[row]) for column in columns)
        for row in range(rows)
    ]
    header = style.delimiter.join(style.field(rng, name) for name in names) if style.header else ""
    arguments = ["--delimiter", "tab" if style.delimiter == "\t" else style.delimiter]
    arguments += ["--quote", style.quote] if style.quote != '"' else []
    arguments += ["--escape", style.escape] if style.escape else []
    arguments += [] if style.header else ["--no-header"]
    encodings = ["utf-8"] * 5 + ["utf-8-sig", "windows-1252", "shift_jis", "utf-16"]
    encoding, parts = rng.choice(encodings), split(rng, rows)
    texts = [
        "".join(
            line + style.end
            for line in ([header] if style.header else []) + [records[row] for row in part]
        )
        for part in parts
    ]
    try:
        data = [text.encode({"windows-1252": "cp1252"}.get(encoding, encoding)) for text in texts]
    except UnicodeEncodeError:
        encoding, data = "utf-8", [text.encode() for text in texts]
    arguments += ["--encoding", encoding] if not encoding.startswith("utf-8") else []
    is_mixed = encoding == "windows-1252" and header.isascii() and not "".join(texts).isascii()
    if is_mixed and rng.random() < 0.7:
        arguments, encoding = arguments[:-2], "cp1252"
    if rows and rng.random() < 0.1 and style.end:
        last = "".join(texts[-1]).removesuffix(style.end)
        data[-1] = data[-1] if encoding != "utf-8" else last.encode()
    for number, body in enumerate(data):
        body, name = packed(rng, body, f"part-{number}.csv")
        (place / name).write_bytes(body)
    named = names if style.header else [str(at + 1) for at in range(len(names))]
    texts_of = [[NULL if v is None else Cell("text", v) for v in column] for column in columns]
    table = Table("csv", named, dict(zip(named, texts_of)), arguments, csv=style, parts=len(parts))
    table.records, table.header = records, header
    table.encoding = encoding if encoding == "cp1252" else "utf-8"
    return table


def write_jsonl(
    rng: random.Random, place: Path, names: list[str], columns: list[list[str | None]], rows: int
) -> Table:
    """`columns` are tokens of JSON."""

    def record(row: int) -> str:
        members = [(name, column[row]) for name, column in zip(names, columns)]
        return "{" + ", ".join(f"{json.dumps(n)}: {t}" for n, t in members if t is not None) + "}"

    records = [record(row) for row in range(rows)]
    encoding = rng.choice(["utf-8"] * 8 + ["utf-16"])
    for number, part in enumerate(parts := split(rng, rows)):
        text = "".join(records[row] + rng.choice(["\n", "\n", "\n\n"]) for row in part)
        body, name = packed(rng, text.encode(encoding), f"part-{number}.jsonl")
        (place / name).write_bytes(body)
    # Fields count in the order in which they first appear.
    first = {
        name: next((r for r in range(rows) if column[r] is not None), rows)
        for name, column in zip(names, columns)
    }
    named = sorted((name for name in names if first[name] < rows), key=lambda name: first[name])
    known = {name: [from_token(token) for token in column] for name, column in zip(names, columns)}
    arguments = [] if encoding == "utf-8" else ["--encoding", encoding]
    return Table("jsonl", named, known, arguments, records=records, parts=len(parts))


def is_plain(array: pa.Array) -> bool:
    """Whether pyarrow makes structs and runs of a type, and reads them again."""
    return array.type in (pa.string(), pa.int64(), pa.int32(), pa.bool_(), pa.date32())


def in_runs(array: pa.Array) -> pa.Array:
    """A column in runs (run-end encoded), if pyarrow makes runs of its type."""
    return pyarrow.compute.run_end_encode(array) if is_plain(array) else array


def without_types(piece: pa.Table) -> pa.Table:
    """A part whose columns are of the null type where all of their values are null."""
    for at, name in enumerate(piece.column_names):
        if piece.num_rows and piece.column(at).null_count == piece.num_rows:
            piece = piece.set_column(at, name, pa.nulls(piece.num_rows))
    return piece


def write_columns(
    rng: random.Random, place: Path, names: list[str], arrays: list[pa.Array], rows: int
) -> Table:
    format = rng.choice(["parquet", "parquet", "arrow", "arrows"])
    if format != "parquet" and rng.random() < 0.2:
        arrays = [in_runs(array) if rng.random() < 0.3 else array for array in arrays]
    whole = pa.table(arrays, names=names)
    tables, parts, with_schema = [], split(rng, rows), rng.random() < 0.8
    for number, part in enumerate(parts):
        piece, path = whole.slice(part.start, len(part)), place / f"part-{number}.{format}"
        if rng.random() < 0.3:
            piece = without_types(piece)
        if format == "parquet":
            codec = rng.choice(["snappy", "gzip", "lz4", "zstd", "brotli", "none"])
            pa.parquet.write_table(
                piece,
                path,
                compression=codec,
                row_group_size=rng.choice([3, 1000]),
                store_schema=with_schema,
                data_page_version=rng.choice(["1.0", "2.0"]),
                use_dictionary=rng.random() < 0.5,
            )
            tables.append(pa.parquet.ParquetFile(path).read())
            continue
        options = pa.ipc.IpcWriteOptions(compression=rng.choice([None, "lz4", "zstd"]))
        make = pa.ipc.new_file if format == "arrow" else pa.ipc.new_stream
        piece = piece.unify_dictionaries()
        with make(path, piece.schema, options=options) as writer:
            writer.write_table(piece, max_chunksize=rng.choice([2, 1000]))
        tables.append(piece)
    arrow = pa.concat_tables(tables, promote_options="permissive")
    known = {name: cells(arrow[name]) for name in names}
    for name in names:
        if pa.types.is_struct(arrow[name].type) and arrow[name].type.num_fields == 1:
            known[f"{name}.in"] = cells(pyarrow.compute.struct_field(arrow[name], [0]))
    table = Table(format, names, known, [], arrow, parts=len(parts))
    if with_schema or format != "parquet":
        table.date64 = frozenset(n for n, a in zip(names, arrays) if a.type == pa.date64())
    return table


def numbers_of(rng: random.Random, numbers: Sequence[int]) -> list[Cell]:
    """A column of numbers that follow from others, as SQLite's driver reads it."""
    pool = rng.choice([[0, -(2**62), 5], [0.5, -1e300, 7.0, 0.1]])
    kind = "integer" if isinstance(pool[0], int) else "float"
    return [Cell(kind, pool[number % len(pool)]) for number in numbers]


def whole(text: str) -> int | None:
    """A text as an integer of 64 bits, if it is one."""
    is_one = re.fullmatch(r"0|-?[1-9][0-9]{0,17}", text) is not None
    return int(text) if is_one else None


def write_sqlite(
    rng: random.Random, place: Path, names: list[str], columns: list[list[Cell]], driver: Path
) -> Table:
    def value(cell: Cell) -> Any:
        return cell.value if cell.kind in ("text", "integer", "float", "null") else str(cell.value)

    base = sqlite3.connect(place / "table.db")
    quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in names)
    base.execute(f"create table t ({quoted})")
    marks = ", ".join("?" * len(names))
    base.executemany(
        f"insert into t values ({marks})", zip(*[[value(c) for c in column] for column in columns])
    )
    base.commit()
    base.close()
    arguments = [
        "--query",
        f"select {quoted} from t order by rowid",
        "--database",
        f"sqlite:{place / 'table.db'}",
    ]
    table = Table("arrows", names, dict(zip(names, columns)), [*arguments, "--driver", str(driver)])
    # The driver takes a column without values for integers.
    kinds = {"integer": pa.int64(), "float": pa.float64(), "text": pa.string()}
    arrays = [
        pa.array(
            [c.value for c in column],
            kinds[next((c.kind for c in column if c != NULL), "integer")],
        )
        for column in columns
    ]
    table.arrow = pa.table(arrays, names=names)
    return table
