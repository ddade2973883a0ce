"""Makes the tables of this folder, with pyarrow 26 and polars 2: what other writers write and our
own libraries cannot. Run it in this folder.

`lists.parquet` is from pyarrow 18.1, which does not write how many bytes the texts of a column have.
`shared.parquet` is not from here: the Rust library wrote it, 3000 rows whose texts are one entry of a dictionary."""

import datetime as dt

import openpyxl
import polars as pl
import pyarrow as pa
from odf.opendocument import OpenDocumentSpreadsheet
from odf.table import Table, TableCell, TableRow
from odf.text import P
from pyarrow import parquet as pq

NUMBERS = [1, 2, 3]

# Every unit of time, with and without a zone. Parquet has no seconds: they are stored as
# milliseconds, and the embedded Arrow schema says what they were.
columns = {"id": pa.array(NUMBERS)}
for unit in ["s", "ms", "us", "ns"]:
    for name, zone in [
        ("none", None),
        ("utc", "UTC"),
        ("berlin", "Europe/Berlin"),
        ("offset", "+02:00"),
    ]:
        columns[f"{unit}_{name}"] = pa.array(NUMBERS, pa.timestamp(unit, zone))
    columns[f"duration_{unit}"] = pa.array(NUMBERS, pa.duration(unit))
for unit in ["s", "ms"]:
    columns[f"time_{unit}"] = pa.array(NUMBERS, pa.time32(unit))
for unit in ["us", "ns"]:
    columns[f"time_{unit}"] = pa.array(NUMBERS, pa.time64(unit))
columns["date32"] = pa.array(NUMBERS, pa.date32())
columns["date64"] = pa.array([86_400_000 * n for n in NUMBERS], pa.date64())
times = pa.table(columns)
pq.write_table(
    times, "times.parquet", compression="NONE", write_statistics=False, use_dictionary=False
)
with pa.OSFile("times.arrow", "wb") as file, pa.ipc.new_file(file, times.schema) as writer:
    writer.write_table(times)

# A compression that is seldom used, in a column that need not be the key.
pq.write_table(
    pa.table({"id": NUMBERS, "note": ["a", "b", "c"]}),
    "brotli.parquet",
    compression={"id": "snappy", "note": "brotli"},
    store_schema=False,
    write_statistics=False,
)

# A type that we do not read.
wide = pl.DataFrame({"id": NUMBERS, "big": pl.Series(NUMBERS, dtype=pl.Int128)})
wide.write_parquet("int128.parquet", compression="uncompressed", statistics=False)
wide.write_ipc("int128.arrow")
wide.write_ipc_stream("int128.arrows")

# Texts of 1 MiB in lists, in lists of lists and in maps, all of them one entry of a dictionary.
ROWS = 3000
texts = pa.DictionaryArray.from_arrays(
    pa.array([0] * ROWS, pa.int32()), pa.array(["x" * (1 << 20)])
)
ends = pa.array(range(ROWS + 1), pa.int32())
lists = pa.table(
    {
        "id": pa.array(range(ROWS)),
        "list": pa.ListArray.from_arrays(ends, texts),
        "lists": pa.ListArray.from_arrays(ends, pa.ListArray.from_arrays(ends, texts)),
        "map": pa.MapArray.from_arrays(ends, pa.array(["k"] * ROWS), texts),
    }
)
pq.write_table(
    lists,
    "lists.parquet",
    compression="ZSTD",
    compression_level=19,
    use_dictionary=[
        "list.list.element",
        "lists.list.element.list.element",
        "map.key_value.key",
        "map.key_value.value",
    ],
    column_encoding={"id": "DELTA_BINARY_PACKED"},
    dictionary_pagesize_limit=2 << 20,
    store_schema=False,
    write_statistics=False,
)

# Timestamps of 96 bits, as Spark and Hive write them, far from now; with an embedded schema of seconds too.
DAYS = [dt.datetime(9999, 12, 31), dt.datetime(2024, 2, 29, 8, 30), dt.datetime(1600, 1, 1)]
for name, unit in (("int96", "us"), ("int96-seconds", "s")):
    pq.write_table(
        pa.table({"at": pa.array(DAYS, pa.timestamp(unit))}),
        f"{name}.parquet",
        use_deprecated_int96_timestamps=True,
        store_schema=unit == "s",
        write_statistics=False,
    )

# Pages with checksums, which our own library does not write.
pq.write_table(
    pa.table({"id": NUMBERS, "note": ["a", "b", "c"]}),
    "checksums.parquet",
    compression="NONE",
    store_schema=False,
    use_dictionary=False,
    write_page_checksum=True,
    write_statistics=False,
)

# Workbooks, with openpyxl 3.1 and odfpy 1.4: a title, a table and a total, and a second sheet.
BORN = [dt.date(1984, 1, 2), dt.date(2000, 12, 31)]
SEEN = [dt.datetime(2024, 2, 29, 8, 30), dt.datetime(2024, 2, 29)]
people = [
    ["Export of customers"],
    [],
    ["mail", "phone", "born", "seen", "score", "active", "note"],
    ["ann@x.org", 4930123456, BORN[0], SEEN[0], 0.1, True, 'says "hi", twice'],
    ["bob@x.org", "+44 20 7946 0000", BORN[1], SEEN[1], 7, False, None],
    ["c@x.org", None, None, None, 1e-9, None, None],
    ["Total", 3],
]
other = [["id"], [1], [2]]

workbook = openpyxl.Workbook()
sheet = workbook.active
sheet.title = "People"
for row in people:
    sheet.append(row)
# A formula that was never computed.
sheet["G6"] = "=1/0"
sheet.merge_cells("A1:G1")
second = workbook.create_sheet("Other")
for row in other:
    second.append(row)
workbook.save("people.xlsx")


def cell(value):
    if value is None:
        return TableCell()
    if isinstance(value, bool):
        made = TableCell(valuetype="boolean", booleanvalue=str(value).lower())
    elif isinstance(value, (int, float)):
        made = TableCell(valuetype="float", value=repr(value))
    elif isinstance(value, dt.date):
        made = TableCell(valuetype="date", datevalue=value.isoformat())
    else:
        made = TableCell(valuetype="string")
    made.addElement(P(text=str(value)))
    return made


document = OpenDocumentSpreadsheet()
for name, rows in [("People", people), ("Other", other)]:
    table = Table(name=name)
    for row in rows:
        made = TableRow()
        for value in row:
            made.addElement(cell(value))
        table.addElement(made)
    document.spreadsheet.addElement(table)
document.save("people.ods")
