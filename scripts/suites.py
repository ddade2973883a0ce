"""Reads tables that others wrote as pyarrow does: every column of apache/parquet-testing and apache/arrow-testing, the CSV
files of csv-spectrum and the texts of JSONTestSuite, in DIR/parquet-testing and so on.

Each column is the key of a run of `vesica receive` and `vesica send` on this machine, whose sender has half of the texts that
the column has by pyarrow and docs/tables.md: which rows match is compared, and every value of the result, which has all rows
in the file's own format and once as JSON Lines. A file that cannot be used has to be refused by a line that says why, before
the peer has ended its part. What counts as wrong: another value, a match too many or too few, a late error, a panic, a hang,
a code that the docs lack, and a damaged file that is read here alone. The packages come from PyPI, pinned, into a virtual
environment below the target directory. Exits 1 if anything was wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import multiprocessing
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import compare_profiles
import python_package
from oracle import Blank, Invalid, Refused, is_text_of, normal
from stages import say, target_dir

try:
    import pyarrow as pa
    import pyarrow.compute
    import pyarrow.ipc
    import pyarrow.parquet  # noqa: F401
    import random_tables as tables
    from campaign_results import same_arrays
except ImportError:
    pa = None  # Then main() makes an environment that has it.

# What pyarrow raises; LookupError for types that it has no class for, and names that it cuts.
UNREADABLE = (
    (pa.ArrowException, OSError, OverflowError, UnicodeDecodeError, LookupError) if pa else ()
)
WORK = target_dir() / "suites"
PATIENCE = 120  # seconds for a run
GRACE = 0.3  # seconds that the sender has once the receiver has failed
DOCUMENTED = {0, 2, 3, 7}
DECOY = "a text that no table has"
# What is known to be otherwise, and why.
KNOWN = {
    "arrow-testing/arrow-ipc-stream/crash-5e88bae6ac5250714e8c8bc73b9d67b949fadbb4": "pyarrow minds decimals of no digits",
    "parquet-testing/data/int96_from_spark.parquet": "pyarrow's numbers have no room for the year 290000",
    "parquet-testing/data/dict-page-offset-zero.parquet": "the library takes a field of Dremio's own for another",
}


class Wrong(Exception):
    """What should not be."""


class Late(Wrong):
    """A side has failed although the other has ended its part."""


class NotUsed(Exception):
    """The command says that it cannot use the table."""


@dataclass
class Ended:
    """A process that has ended."""

    code: int
    out: str
    err: str

    def why(self) -> str:
        """Its last words."""
        lines = [line for line in self.err.splitlines() if line.startswith("vesica: ")]
        return (lines or self.err.splitlines() or [""])[-1]


@dataclass
class Judged:
    """What came of a file: how many columns were equal as keys, why others were refused, and what is wrong."""

    path: Path
    columns: int = 0
    refused: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    # Damage elsewhere, which nobody sees before the rows are written.
    late: int = 0


def refused_or_wrong(ended: Ended) -> Exception:
    """Why a command did not do what it was told."""
    if ended.code not in DOCUMENTED or "panicked" in ended.err:
        return Wrong(f"code {ended.code}: {ended.err[-400:]}")
    return NotUsed(ended.why())


class Commands:
    """The command, in a directory of its own, and two identities."""

    def __init__(self, binary: Path, place: Path) -> None:
        self.binary, self.place = binary, place
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        self.prints = []
        for role in ("receive", "send"):
            self.prints.append(self.call("keygen", "--out", f"{role}.key").out.strip())

    def start(self, *words: str | Path) -> subprocess.Popen[str]:
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        command = [str(self.binary), *map(str, words)]
        return subprocess.Popen(
            command, cwd=self.place, stdin=subprocess.DEVNULL, errors="replace", **pipes
        )

    def end(self, process: subprocess.Popen[str], said: str = "") -> Ended:
        try:
            out, err = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise Wrong("it hangs") from None
        return Ended(process.returncode, out, said + err)

    def call(self, *words: str | Path) -> Ended:
        return self.end(self.start(*words))

    def run(self, receiver: Sequence[str | Path], sender: Sequence[str | Path]) -> None:
        """Both sides of a run."""
        sides = []
        for at, role in enumerate(("receive", "send")):
            words = [role, "--identity", f"{role}.key", "--peer", self.prints[1 - at]]
            words += ["--protocol", "dh", "--security", "semi-honest", "--progress", "none"]
            sides.append([*words, "--allow-empty", *((receiver, sender)[at])])
        listening = self.start(*sides[0], "--listen", "127.0.0.1:0")
        assert listening.stderr is not None
        said = ""
        while not (found := re.search(r"listening on (\S+)\n", said)):
            line = listening.stderr.readline()
            if not line:
                raise refused_or_wrong(self.end(listening, said))
            said += line
        connecting = self.start(*sides[1], "--connect", found.group(1))
        while connecting.poll() is None and not listening.poll():
            time.sleep(0.01)
        # A side that fails late has met the other, which is done then.
        with contextlib.suppress(subprocess.TimeoutExpired):
            connecting.wait(GRACE)
        connecting.kill()
        ended, other = self.end(listening, said), self.end(connecting)
        if ended.code == 0 and other.code == 0:
            return
        if ended.code == 0 or other.code == 0:
            raise Late(f"late: {ended.why()} {other.why()}")
        raise refused_or_wrong(ended)


def read(path: Path, columns: list[str] | None = None) -> Any:
    """A columnar file, or some of its columns, as pyarrow reads it."""
    if is_parquet(path):
        options: dict[str, Any] = {"coerce_int96_timestamp_unit": "us"}
        source = pa.parquet.ParquetFile(path, page_checksum_verification=True, **options)
        table = source.read() if columns is None else source.read(columns)
    else:
        with pa.OSFile(str(path)) as source:
            is_file = source.read(6) == b"ARROW1"
        with pa.OSFile(str(path)) as source:
            reader = pa.ipc.open_file(source) if is_file else pa.ipc.open_stream(source)
            table = reader.read_all()
    table.validate()
    return table


def leaves(name: str, column: Any) -> Iterator[tuple[str, Any]]:
    """The columns of a column that may be keys, by their paths."""
    if pa.types.is_struct(column.type):
        for at in range(column.type.num_fields):
            field_name = column.type.field(at).name
            child = pa.compute.struct_field(column, [at])
            yield from leaves(f"{name}.{field_name}", child)
    else:
        yield name, column


def texts_of(column: Any) -> list[bytes | None]:
    """The canonical text of each value of a key; nothing of a null, or of what has none."""
    texts: list[bytes | None] = []
    for cell in tables.cells(column):
        try:
            texts.append(normal("exact", cell))
        except (Blank, Invalid, OverflowError):
            texts.append(None)
    return texts


def same_columns(want: Any, got: Any) -> bool:
    if pa.types.is_run_end_encoded(want.type):
        want, got = (pa.compute.run_end_decode(a) for a in (want, got))
    if want.type == got.type and same_arrays(want, got):
        return True
    cells = [tables.cells(a) for a in (want, got)]
    if any(cell.kind == "nested" for cell in cells[0]):
        return repr(want.to_pylist()) == repr(got.to_pylist())
    return repr(cells[0]) == repr(cells[1])


def check_result(want: Any, matches: list[bool], path: Path) -> None:
    """Compares a result in the format of the file with the table."""
    got = read(path)
    *names, mark = got.column_names
    if names != want.column_names or mark != "in_both":
        raise Wrong(f"columns {want.column_names!a} expected, {got.column_names!a} found")
    if got.column(len(names)).to_pylist() != matches:
        raise Wrong("other rows match")
    for at, name in enumerate(names):
        if not same_columns(want.column(at), got.column(at)):
            raise Wrong(f"values of {name!a} of type {want.column(at).type} are others")


def check_lines(want: Any, path: Path) -> None:
    """Compares a result as JSON Lines with the table."""
    columns = [(name, tables.cells(want.column(at))) for at, name in enumerate(want.column_names)]
    lines = path.read_text().splitlines()
    if len(lines) != want.num_rows:
        raise Wrong(f"{want.num_rows} lines expected, {len(lines)} found")
    for row, line in enumerate(lines):
        got = json.loads(line, parse_int=str, parse_float=str, parse_constant=str)
        for name, cells in columns:
            value = str(got[name]).lower() if isinstance(got[name], bool) else got[name]
            try:
                same = is_text_of(cells[row], value)
            except (Invalid, OverflowError):
                continue  # A year that Python does not have.
            if not same:
                raise Wrong(f"{name!a}: {cells[row]} in row {row}, {value!a} found")


def is_parquet(path: Path) -> bool:
    return path.suffix == ".parquet" or "parquet" in path.parts[-3:-1]


def input_words(path: Path) -> list[str | Path]:
    """The options for a columnar file. Damaged ones may begin as text does."""
    is_damaged = "fuzz" in path.name or "crash" in path.name
    form = ["--format", "parquet" if is_parquet(path) else "arrow"] if is_damaged else []
    return ["--input", path, *form]


def judge_columns(commands: Commands, path: Path, judged: Judged) -> None:
    """A columnar file."""
    try:
        table = read(path)
    except UNREADABLE:
        judge_unreadable(commands, path, judged)
        return
    columns = [
        pair for at, n in enumerate(table.column_names) for pair in leaves(n, table.column(at))
    ]
    if not columns:
        judged.refused.append("it has no columns")
        return
    has_lines = False
    for name, column in columns:
        try:
            judge_key(commands, path, name, column, table, with_lines=not has_lines)
            judged.columns += 1
            has_lines = True
        except NotUsed as refused:
            judged.refused.append(str(refused))
            if "is damaged" in str(refused) and "fuzz" not in path.name:
                judged.wrong.append(f"{name!a}: {refused}")
        except Wrong as wrong:
            judged.wrong.append(f"{name!a}: {wrong}")


def judge_key(
    commands: Commands, path: Path, name: str, column: Any, table: Any, with_lines: bool
) -> None:
    """A run with a column as key; nothing of the result is compared without a table."""
    is_refused = ""
    try:
        texts = texts_of(column)
    except (Refused, UnicodeDecodeError, KeyError) as refused:
        # A KeyError is of a type that pyarrow has no class for.
        texts, is_refused = [None] * len(column), f"{refused} in a column of type {column.type}"
    chosen = set(sorted({text for text in texts if text is not None})[::2])
    keys = pa.array([*chosen, DECOY.encode()], pa.binary())
    with contextlib.suppress(pa.ArrowInvalid):
        keys = keys.cast(pa.string())
    pa.parquet.write_table(pa.table({"k": keys}), commands.place / "send.parquet")
    receiver = [*input_words(path), "--key", name.replace(",", "\\,"), "--rows", "all", "--output"]
    sender: list[str | Path] = ["--input", "send.parquet", "--key", "k"]
    out = commands.place / ("out.parquet" if is_parquet(path) else "out.dat")
    commands.run([*receiver, out], sender)
    if is_refused:
        raise Wrong(f"it is taken as a key: {is_refused}")
    if table is None:
        raise Wrong("its rows are written, and pyarrow does not read all of its columns")
    check_result(table, [text in chosen for text in texts], out)
    if with_lines and not any(
        cell.kind == "nested" for c in table.columns for cell in tables.cells(c)
    ):
        lines = commands.place / "out.jsonl"
        commands.run([*receiver, lines], sender)
        check_lines(table, lines)


def judge_unreadable(
    commands: Commands, path: Path, judged: Judged, with_pyarrow: bool = True
) -> None:
    """A file that pyarrow does not read as a whole. Where it reads a column, that may be a key, until rows are written."""
    ended = commands.call("check", *input_words(path), "--key", "\\,")
    names = re.search(r"columns are: (.*)", ended.err)
    if ended.code == 3 and names is None:
        judged.refused.append(ended.why())
        return
    if ended.code != 3 or names is None:
        raise refused_or_wrong(ended)
    for name in re.findall(r'"((?:[^"\\]|\\.)*)"', names.group(1)):
        try:
            is_tried = with_pyarrow and is_parquet(path)
            column = read(path, [name]).column(0) if is_tried else None
        except UNREADABLE:
            column = None
        try:
            nothing = pa.chunked_array([], pa.string())
            judge_key(commands, path, name, column or nothing, None, with_lines=False)
        except Late:
            judged.late += 1
        except NotUsed as refused:
            judged.refused.append(str(refused))
        except Wrong as wrong:
            judged.wrong.append(f"{name!a}: {wrong}")


def judge_csv(commands: Commands, path: Path, judged: Judged) -> None:
    """A file of csv-spectrum, whose rows are beside it in JSON."""
    want = json.loads((path.parent.parent / "json" / f"{path.stem}.json").read_text())
    names = list(want[0]) if want else ["a"]
    chosen = sorted({row[names[0]] for row in want if row[names[0]]})[::2]
    with open(commands.place / "send.csv", "w", newline="") as file:
        csv.writer(file).writerows([["k"], [DECOY], *([key] for key in chosen)])
    key = names[0].replace(",", "\\,")
    out = commands.place / "out.parquet"
    receiver = ["--input", path, "--key", key, "--rows", "all", "--output", out]
    try:
        commands.run(receiver, ["--input", "send.csv", "--key", "k"])
    except NotUsed as refused:
        judged.refused.append(str(refused))
        return
    # The suite does not tell a field with nothing in it from an empty text.
    got = [{n: v or "" for n, v in row.items() if n != "in_both"} for row in read(out).to_pylist()]
    if got != want:
        raise Wrong(f"{want!a} expected, {got!a} found")
    if read(out).column("in_both").to_pylist() != [row[names[0]] in chosen for row in want]:
        raise Wrong("other rows match")
    judged.columns += len(names)


def judge_json(commands: Commands, path: Path, judged: Judged) -> None:
    """A text of JSONTestSuite as a field of a line."""
    text = path.read_bytes()
    if b"\n" in text.strip() or b"\r" in text.strip():
        judged.refused.append("it has several lines")
        return
    table = commands.place / "t.jsonl"
    table.write_bytes(b'{"k":"a","v":' + text.strip() + b"}\n")
    (commands.place / "send.csv").write_text("k\na\n")
    out = commands.place / "out.parquet"
    receiver: list[str | Path] = ["--input", table, "--key", "k", "--output", out]
    try:
        commands.run(receiver, ["--input", "send.csv", "--key", "k"])
    except NotUsed as refused:
        judged.refused.append(str(refused))
        if path.name.startswith("y_"):
            raise Wrong(str(refused)) from None
        return
    if path.name.startswith("n_"):
        raise Wrong("broken JSON is read")
    got = read(out).column("v").to_pylist()
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return
    want = value if isinstance(value, str) or value is None else text.strip().decode()
    if path.name.startswith("y_") and got != [want]:
        raise Wrong(f"{want!a} expected, {got!a} found")
    judged.columns += 1


def judge(arguments: tuple[Path, Path, Path], with_pyarrow: bool = True) -> Judged:
    """What comes of a file, over which pyarrow may fall."""
    binary, path, place = arguments
    judged = Judged(path)
    commands = Commands(binary, place)
    try:
        if path.suffix == ".json":
            judge_json(commands, path, judged)
        elif path.suffix == ".csv":
            judge_csv(commands, path, judged)
        elif with_pyarrow:
            judge_columns(commands, path, judged)
        else:
            judge_unreadable(commands, path, judged, with_pyarrow)
    except Wrong as wrong:
        judged.wrong.append(str(wrong))
    except NotUsed as refused:
        judged.refused.append(str(refused))
    shutil.rmtree(place)
    return judged


def apart(arguments: tuple[Path, Path, Path]) -> Judged:
    """The same in a process of its own: pyarrow may fall over damaged files."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(
        target=lambda: sender.send(judge(arguments))
    )
    process.start()
    sender_end = time.monotonic() + 20 * PATIENCE
    while process.is_alive() and not receiver.poll(0.1) and time.monotonic() < sender_end:
        pass
    if receiver.poll():
        judged = receiver.recv()
        process.join()
        return judged
    process.kill()
    return judge(arguments, with_pyarrow=False)


def files(suites: Path) -> list[Path]:
    """The tables of the suites."""
    found = [
        *suites.glob("parquet-testing/**/*.parquet"),
        *suites.glob("arrow-testing/parquet/**/*"),
        *suites.glob("arrow-testing/arrow-ipc-*/**/*"),
        *suites.glob("arrow-testing/forward-compatibility/*"),
        *suites.glob("csv-spectrum/csvs/*.csv"),
        *suites.glob("json-test-suite/test_parsing/*.json"),
    ]
    others = (".gz", ".md", ".data")
    return sorted(path for path in found if path.is_file() and path.suffix not in others)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("suites", type=Path, metavar="DIR", help="where the four suites are")
    parser.add_argument("--only", metavar="TEXT", help="files whose paths contain this")
    parser.add_argument("--jobs", type=int, default=2, help="files side by side")
    parser.add_argument("--all", action="store_true", help="also say what is refused")
    parser.add_argument("--vesica", type=Path, default=target_dir() / "release/vesica")
    arguments = parser.parse_args()
    if pa is None:
        return python_package.run_with("campaign", compare_profiles.PACKAGES, __file__)
    paths = [path for path in files(arguments.suites) if (arguments.only or "") in str(path)]
    if not paths:
        say(f"there are no suites in {arguments.suites}")
        return 1
    binary = arguments.vesica.resolve()
    work = [(binary, path.resolve(), WORK / str(at)) for at, path in enumerate(paths)]
    columns = equal = wrong = late = known = 0
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for judged in pool.map(apart, work):
            name = judged.path.relative_to(arguments.suites.resolve())
            if str(name) in KNOWN:
                known += 1
                continue
            columns += judged.columns
            wrong += bool(judged.wrong)
            equal += judged.columns > 0 and not judged.wrong
            late += judged.late > 0
            for why in judged.wrong:
                say(f"{name}: {why}")
            for why in sorted(set(judged.refused)) if arguments.all else []:
                say(f"{name}: refused: {why}")
    refused = len(paths) - equal - wrong - known
    say(
        f"{len(paths)} files: {equal} equal, with {columns} columns as keys, {refused} refused ({late} of them for damage "
        f"to another column than the key, once rows are written), {known} known to differ, {wrong} wrong"
    )
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
