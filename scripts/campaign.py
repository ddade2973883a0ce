"""Random pairs of tables and options, run by `vesica receive` and `vesica send` over TLS on this machine, against an
oracle in Python: which rows match and what the result has, numbers and shares.

What counts: `wrong`, a run that ended with 0 and another result, another report or a missing warning; `refused`, an
error, foreseen or not; `raised`, a panic, a hang or an exit code that the docs lack. `--only N` runs one pair again and
keeps its files. The packages come from PyPI, pinned, into a virtual environment below the target directory. Exits 1 if
anything was wrong or raised.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import random
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import compare_profiles
import databases
import python_package
from oracle import CLASSES, NULL, Cell, Key, Refused, key, printed
from stages import run, say, target_dir

try:
    import pyarrow as pa
    import random_tables as tables
    from campaign_results import (
        Side,
        Wrong,
        check_matches,
        check_report,
        check_rows,
        check_shares,
        distinct,
        expect,
        is_copy,
        kind_of_output,
        labels_of,
        totals,
        unkept,
    )
    from random_tables import Table
except ImportError:
    pa = None  # Then main() makes an environment that has it.

WORK = target_dir() / "campaign"
PATIENCE = 120  # seconds for a pair
FREE = 0.7  # seconds that the other side has once one has failed
DOCUMENTED = {0, 2, 3, 4, 5, 6, 7}
MASKS = (
    "vole compact-dh dh kkrt spot-low spot-fast sparse-okvs compact-dh-sh1 compact-dh-sh2".split()
)
CIRCUITS = ["auto", "auto", "auto", "circuit-okvs", "circuit-rb-psm1", "circuit-rb-psm2"]
OUTPUTS = "out.dat out.dat out.csv out.tsv out.psv out.jsonl out.parquet out.arrow out.arrows out.feather out.csv.gz".split()
OUTPUTS += ["out.jsonl.zst", "-", "table"]
COLUMN_NAMES = [
    "id",
    "Name",
    "a b",
    "x,y",
    "Größe",
    'q"q',
    "e-mail",
    "v",
    "n",
    "last",
    "peer_n",
    "z.z",
]


@dataclass
class Outcome:
    """What came of a pair: `fine`, `wrong`, `foreseen`, `unforeseen` or `raised`, and why."""

    kind: str
    why: str = ""


def class_of(column: Sequence[Cell], table: Table) -> str:
    if table.arrow is None:
        return "text"
    cell = next((cell for cell in column if cell != NULL), NULL)
    if cell.kind == "decimal" and cell.value.as_tuple().exponent == 0:
        return "integer"
    return CLASSES.get(cell.kind, "text") if cell != NULL else ""


def make_side(
    rng: random.Random,
    place: Path,
    role: str,
    spec: list[tuple[str, str]],
    task: str,
    driver: Path | None,
    pool: tuple[int, int],
) -> Side:
    place.mkdir()
    rows = (
        rng.choice([0, 1, 2, 5, 12, 30, 100, 100, 300, 1000])
        if rng.random() < 0.2
        else rng.randrange(5, 40)
    )
    first, end = pool
    numbers = [rng.randrange(first, end) for _ in range(rows)]
    if rng.random() < 0.4:
        numbers = list(dict.fromkeys(numbers))
        rows = len(numbers)
    medium = rng.choice(
        ["csv"] * 3 + ["jsonl"] * 2 + ["columnar"] * 4 + (["sqlite"] if driver else [])
    )
    names = rng.sample(COLUMN_NAMES, len(COLUMN_NAMES))
    roles: list[str] = []
    arrays: list[pa.Array] = []
    for at, (domain, profile) in enumerate(spec):
        with_nulls = [
            None if rng.random() < 0.04 else tables.abstract(domain, n if at == 0 else n * at % 5)
            for n in numbers
        ]
        roles.append("key")
        if medium == "columnar":
            arrays.append(tables.arrow_column(rng, domain, profile, with_nulls))
        else:
            texts = [None if v is None else tables.spelled(rng, domain, v) for v in with_nulls]
            arrays.append(pa.array(texts, pa.string()))
    roles.append("row")
    arrays.append(pa.array([str(row) for row in range(rows)], pa.string()))
    columns = rng.choice([1, 1, 2, 3]) if task == "sum" else 1
    scale = rng.choice([0, 1, 2])
    for _ in range(columns if task in ("sum", "inner-product", "shares") else 0):
        amounts = [
            Decimal(rng.randrange(-3, 2000) * rng.choice([0, 1, 1])).scaleb(-scale)
            for _ in range(rows)
        ]
        roles.append("value")
        if medium == "columnar" and rng.random() < 0.7:
            arrays.append(pa.array(amounts, pa.decimal128(20, 3)))
        else:
            arrays.append(pa.array([f"{amount:f}" for amount in amounts], pa.string()))
    for _ in range(rng.randrange(1, 4)):
        roles.append("label")
        if medium == "columnar":
            arrays.append(tables.extra_column(rng, rows, True, numbers))
        else:
            texts = ["", "x", "ü", "a,b", 'q"q', "12", None, "semi;", "-1.5"][: rng.randrange(3, 9)]
            arrays.append(pa.array([texts[n % len(texts)] for n in numbers], pa.string()))
    if medium == "columnar":
        roles.append("extra")
        arrays.append(tables.extra_column(rng, rows, False, numbers))
    order = rng.sample(range(len(roles)), len(roles))
    roles, arrays, names = (
        [roles[i] for i in order],
        [arrays[i] for i in order],
        names[: len(order)],
    )
    names[roles.index("row")] = "rid"
    if rng.random() < 0.03:
        names[roles.index("label")] = rng.choice(["in_both", "match_number"])
    texts_of = (
        [[value.as_py() for value in array] for array in arrays] if medium != "columnar" else []
    )
    is_nested = [
        r == "key" and "." not in n and tables.is_plain(a) and rng.random() < 0.2
        for r, n, a in zip(roles, names, arrays)
    ]
    named = list(names)
    if medium == "columnar":
        arrays = [
            pa.StructArray.from_arrays([array], ["in"]) if nested else array
            for array, nested in zip(arrays, is_nested)
        ]
        table = tables.write_columns(rng, place, names, arrays, rows)
        named = [f"{name}.in" if nested else name for name, nested in zip(names, is_nested)]
    elif medium == "csv":
        table = tables.write_csv(rng, place, names, texts_of, rows)
    elif medium == "jsonl":
        profiles = iter(spec)
        tokens = []
        for at in sorted(range(len(order)), key=lambda at: order[at]):
            has_floats = roles[at] != "key" or next(profiles)[1] in ("integer", "decimal")
            these = [NULL if v is None else Cell("text", v) for v in texts_of[at]]
            is_row = roles[at] == "row"
            tokens.append(
                [
                    json.dumps(c.value) if is_row else tables.json_token(rng, c, has_floats)
                    for c in these
                ]
            )
        tokens = [tokens[i] for i in order]
        table = tables.write_jsonl(rng, place, names, tokens, rows)
    else:
        assert driver is not None
        as_cells = [
            [NULL if v is None else Cell("text", v) for v in column]
            if r != "label" or rng.random() < 0.5
            else tables.numbers_of(rng, numbers)
            for r, column in zip(roles, texts_of)
        ]
        for at, (r, column) in enumerate(zip(roles, texts_of)):
            whole = [None if v is None else tables.whole(v) for v in column]
            if r == "key" and None not in [w for w, v in zip(whole, column) if v is not None]:
                as_cells[at] = [NULL if w is None else Cell("integer", w) for w in whole]
        table = tables.write_sqlite(rng, place, names, as_cells, driver)
    if medium == "csv":
        named = table.names
    # A key is named by its place in the spec, not in the table.
    places = sorted((i for i, r in enumerate(roles) if r == "key"), key=lambda i: order[i])
    side = Side(role, place, table, [named[i] for i in places], scale=scale)
    side.row = named[roles.index("row")]
    side.values = [named[i] for i, r in enumerate(roles) if r == "value"]
    side.labels = [named[i] for i, r in enumerate(roles) if r == "label"]
    return add_input(rng, side, spec)


def is_ascii(column: Sequence[Cell]) -> bool:
    return all(cell.kind != "text" or cell.value.isascii() for cell in column)


def add_input(rng: random.Random, side: Side, spec: list[tuple[str, str]]) -> Side:
    table = side.table
    files = sorted(path for path in side.place.iterdir() if path.suffix != ".db")
    if rng.random() < 0.1 and not any(path.suffix in (".gz", ".zst") for path in files):
        files = [path.rename(path.with_suffix(".dat")) for path in files]
    if len(files) == 1 and files[0].suffix not in (".gz", ".zst") and rng.random() < 0.15:
        side.arguments += [
            "--input",
            "-",
            "--format",
            "arrow" if table.format == "arrows" else table.format,
        ]
        table.stdin = files[0]
    elif files:
        form = rng.choice(["list", "list", "folder", "pattern"])
        paths = {"list": files, "folder": [side.place], "pattern": [side.place / "part-[0-9]*"]}[
            form
        ]
        for path in rng.sample(paths, len(paths)):
            side.arguments += ["--input", str(path)]
    if "--delimiter" in table.arguments and table.csv.delimiter != "^" and rng.random() < 0.3:
        at = table.arguments.index("--delimiter")
        del table.arguments[at : at + 2]
        side.possible.append("several delimiters fit")
    side.arguments += table.arguments
    for name, (_, profile) in zip(side.key, spec):
        side.arguments += ["--key", name.replace(",", "\\,")]
        if profile != "exact" or rng.random() < 0.2:
            side.arguments += ["--normalize", f"{name}={profile}"]
    words = rng.sample(tables.NULL_WORDS, rng.choice([0, 0, 0, 1, 2]))
    table.nulls = frozenset(words)
    for word in words:
        side.arguments += ["--null", word]
    profiles = [profile for _, profile in spec]
    columns = [table.columns[name] for name in side.key]
    side.classes = [class_of(column, table) for column in columns]
    try:
        side.keys = [key(profiles, row, table.nulls) for row in zip(*columns)]
    except (Refused, UnicodeDecodeError) as refused:
        side.refusals.append(str(refused))
    if table.format == "jsonl" and not set(side.key) <= set(table.names):
        side.refusals.append("no line has a column of the key")
    if table.encoding == "cp1252" and any(not is_ascii(column) for column in columns):
        side.refusals.append("a key is not in UTF-8")
    if not side.keys or not any(isinstance(item, tuple) for item in side.keys):
        if side.keys and not side.refusals and rng.random() < 0.5:
            side.arguments.append("--allow-empty")
        else:
            side.refusals.append("no row has a key")
    return side


@functools.cache
def fingerprint(binary: Path, identity: Path) -> str:
    return subprocess.check_output(
        [binary, "fingerprint", "--identity", identity], text=True
    ).strip()


def play(binary: Path, sides: list[Side], place: Path) -> str:
    """Runs both sides; returns why that is no orderly end, if it is none."""
    identities = [WORK / f"{name}.key" for name in ("receive", "send")]
    prints = [fingerprint(binary, identity) for identity in identities]
    processes: list[subprocess.Popen[bytes]] = []
    address, until = "127.0.0.1:0", time.monotonic() + PATIENCE
    with contextlib.ExitStack() as stack:
        for at, side in enumerate(sides):
            command = [
                str(binary),
                side.role,
                *side.arguments,
                "--identity",
                str(identities[at]),
                "--peer",
                prints[1 - at],
            ]
            command += [
                "--listen" if at == 0 else "--connect",
                address,
                "--progress",
                "none",
                "--wait",
                "100",
            ]
            command += ["--report", str(place / f"{side.role}.json")]
            (place / f"{side.role}.command").write_text(shlex.join(command) + "\n")
            out = stack.enter_context(open(place / f"{side.role}.stdout", "wb"))
            err = stack.enter_context(open(place / f"{side.role}.stderr", "wb"))
            source = stack.enter_context(open(side.table.stdin or "/dev/null", "rb"))
            processes.append(subprocess.Popen(command, stdin=source, stdout=out, stderr=err))
            while at == 0 and processes[0].poll() is None and time.monotonic() < until:
                said = (place / f"{side.role}.stderr").read_text(errors="replace")
                if match := re.search(r"listening on (\S+)", said):
                    address = match.group(1)
                    break
                time.sleep(0.01)
        end, is_late = until, False
        while any(process.poll() is None for process in processes):
            if any(process.poll() not in (None, 0) for process in processes):
                end = min(end, time.monotonic() + FREE)
            if time.monotonic() > end:
                is_late = end == until
                for process in processes:
                    process.kill()
                break
            time.sleep(0.01)
        killed = []
        for side, process in zip(sides, processes):
            side.code = process.wait()
            killed.append(side.code == -9)
            side.stderr = (place / f"{side.role}.stderr").read_text(errors="replace")
            side.stdout = (place / f"{side.role}.stdout").read_bytes()
    for side in sides:
        if "panicked" in side.stderr or (side.code not in DOCUMENTED and side.code != -9):
            return f"{side.role} ended with {side.code}: {side.stderr[-300:]}"
    return "hang" if is_late else ""


def pair(number: int, seed: int, binary: Path, driver: Path | None, place: Path) -> Outcome:
    rng = random.Random(f"{seed}/{number}")
    task = rng.choice(
        ["matches"] * 12
        + ["size", "sum", "sum", "inner-product", "threshold", "threshold-matches", "shares"]
    )
    domains = [rng.choice(list(tables.DOMAINS)) for _ in range(rng.choice([1, 1, 1, 1, 2, 2, 3]))]
    spec = [(domain, rng.choice(tables.DOMAINS[domain])) for domain in domains]
    # Mostly the same pool on both sides, so that many keys match.
    pools = rng.choice(
        [[(0, 40), (0, 40)]] * 5 + [[(0, 15), (0, 15)], [(0, 40), (20, 60)], [(0, 400), (0, 40)]]
    )
    sides = [
        make_side(rng, place / role, role, spec, task, driver, pool)
        for role, pool in zip(("receive", "send"), rng.sample(pools, 2))
    ]
    checks = choose(rng, sides, task, spec, driver, place)
    if failure := play(binary, sides, place):
        return Outcome("raised", failure)
    refusals = [reason for side in sides for reason in side.refusals]
    failed = [side for side in sides if side.code]
    if failed:
        lines = [
            line
            for side in failed
            for line in side.stderr.splitlines()
            if line.startswith("vesica:")
        ]
        return Outcome(
            "foreseen" if refusals or any(side.possible for side in sides) else "unforeseen",
            f"{[s.code for s in sides]} {lines[:2]} ({refusals})",
        )
    if refusals:
        return Outcome("wrong", f"ended with 0, refused by the docs: {refusals}")
    try:
        checks()
    except (
        Wrong,
        pa.ArrowException,
        sqlite3.Error,
        OSError,
        ValueError,
        KeyError,
        IndexError,
    ) as wrong:
        return Outcome("wrong", f"{type(wrong).__name__}: {wrong}")
    return Outcome("fine", task)


def choose(
    rng: random.Random,
    sides: list[Side],
    task: str,
    spec: list[tuple[str, str]],
    driver: Path | None,
    place: Path,
) -> Any:
    """Adds the options of a run; returns what compares its end with the oracle."""
    receiver, sender = sides
    common = set(distinct(receiver)) & set(distinct(sender))
    shared: list[str] = []
    both = task not in ("threshold-matches", "shares") and rng.random() < 0.3
    align = both and task == "matches" and rng.random() < 0.5
    takes = task == "matches" and rng.random() < 0.45
    semi_honest = task != "matches" or rng.random() < 0.5
    minimum, rows_of, labels = 0, ["matching", "matching"], {}
    if semi_honest:
        shared += ["--security", "semi-honest"]
    if task != "matches" and task != "threshold-matches":
        shared += ["--protocol", rng.choice(CIRCUITS)]
    elif task == "matches":
        others = ["ole-lattice", "ole-ot"] if semi_honest and not takes else []
        names = ["auto", *(MASKS + others if semi_honest else ["vole", "compact-dh"])]
        shared += ["--protocol", rng.choice(names)]
    if both:
        shared.append("--both")
    if align:
        shared.append("--align")
    writers = (
        sides
        if task == "shares" or (both and task == "matches")
        else sides[:1]
        if "matches" in task
        else []
    )
    for at, side in enumerate(sides):
        if align or side not in writers or task != "matches":
            continue
        rows_of[at] = rng.choice(
            ["matching", "matching", "all", *([] if takes and at == 0 else ["rest"])]
        )
        side.arguments += ["--rows", rows_of[at]]
    if takes:
        has_floats = any(
            "float" in c.kind for name in sender.labels for c in sender.table.columns[name]
        )
        width = 256 if has_floats else rng.choice([256, 256, 256, 12])
        sender.arguments += ["--payload-width", str(width)]
        sender.arguments += [
            "--payload",
            ",".join(name.replace(",", "\\,") for name in sender.labels),
        ]
        receiver.arguments += ["--take-payload", "--payload-width", "256"]
        with_keys = [row for row, item in enumerate(sender.keys) if isinstance(item, tuple)]
        columns = [sender.table.columns[name] for name in sender.labels]
        handed = [[column[row] for row in with_keys] for column in columns]
        if sender.table.encoding == "cp1252" and not all(map(is_ascii, handed)):
            sender.refusals.append("labels are not in UTF-8")
        try:
            labels = labels_of(sender, width)
        except Refused as refused:
            sender.refusals.append(str(refused))
    for side in writers:
        if task == "shares":
            side.output = "out.csv"
        else:
            side.output = rng.choice([name for name in OUTPUTS if driver or name != "table"])
        add_output(side, driver, place, task == "shares")
        mark = "match_number" if align else "in_both"
        adds = align or rows_of[sides.index(side)] == "all"
        if adds and task == "matches" and mark in side.table.names:
            side.refusals.append(f"a column is called {mark}")
        is_mixed = side.table.encoding == "cp1252" and task != "shares"
        if is_mixed and (not is_copy(side) or (takes and side is receiver)):
            # Whether they are looked at may depend on the rows that match.
            side.possible.append("rows are not in UTF-8")
    counted, sums = len(common), []
    valued = [side for side in sides if side.values]
    if task in ("sum", "shares"):
        valued = [rng.choice(sides)]
    if task == "shares" and rng.random() < 0.5:
        valued = sides
    if task in ("sum", "inner-product", "shares"):
        counted, sums = add_values(rng, valued, common)
    reveal = task
    if task in ("sum", "inner-product") and rng.random() < 0.4:
        reveal = f"size,{task}"
    if task in ("threshold", "threshold-matches"):
        minimum = rng.choice([0, 1, 3, 8]) + 1
        reveal = f"{task}:{minimum - 1}"
    elif task in ("size", "sum", "inner-product") and rng.random() < 0.5:
        minimum = rng.choice([1, 2, 5, 20])
        shared += ["--min-size", str(minimum)]
    shared += ["--reveal", reveal] if reveal != "matches" or rng.random() < 0.2 else []
    for side in sides:
        side.arguments += shared
    is_below = counted < minimum

    def warned() -> None:
        for (_, profile), ours, theirs in zip(spec, receiver.classes, sender.classes):
            pairs = [{"integer", "text"}] + ([{"integer", "decimal"}] if profile == "exact" else [])
            differ = ours and theirs and ours != theirs and {ours, theirs} not in pairs
            if profile in ("exact", "exact/1", "text") and differ:
                expect("by their texts" in receiver.stderr, f"no warning of {ours} and {theirs}")

    def check() -> None:
        reports = [check_report(side, place) for side in sides]
        for side in writers if task != "shares" else []:
            is_mixed = side.table.encoding == "cp1252"
            expect(
                is_mixed == ("not UTF-8" in side.stderr), f"{side.role}: a warning of the encoding"
            )
        warned()
        if task == "shares":
            check_shares(sides, common, valued)
        elif task == "matches":
            for at, side in enumerate(writers):
                check_matches(
                    sides, side, rows_of[at], align, common, labels if takes and at == 0 else None
                )
            if align:
                expect(sides[0].numbers == sides[1].numbers, "the sides have other numbers")
            expect(
                reports[0]["matches"] == len(common), f"{reports[0]['matches']} matches reported"
            )
        elif task == "threshold-matches":
            kept = [
                row for row, item in enumerate(receiver.keys) if item in common and not is_below
            ]
            check_rows(receiver, kept, [])
        else:
            scale = sum(side.scale for side in valued)
            numbers = (
                [("size", str(len(common)))]
                if reveal.startswith("size") or task == "threshold"
                else []
            )
            numbers += [
                (task if len(sums) == 1 else f"{task}-{at + 1}", printed(total, scale))
                for at, total in enumerate(sums)
            ]
            want = (
                numbers[0][1]
                if len(numbers) == 1
                else "\n".join(f"{name}\t{text}" for name, text in numbers)
            )
            want = f"fewer than {minimum}" if is_below else want
            for side in sides[: 1 + both]:
                expect(
                    side.stdout.decode() == want + "\n",
                    f"{want!a} expected, {side.stdout!a} found by {side.role}",
                )

    return check


def add_output(side: Side, driver: Path | None, place: Path, is_shares: bool) -> None:
    kind, table = kind_of_output(side), side.table
    if side.output == "table":
        base = place / f"{side.role}.db"
        base.touch()
        if "--database" in side.arguments:
            base = side.place / "table.db"
            base.rename(place / f"{side.role}.db")
            at = side.arguments.index("--database") + 1
            side.arguments[at] = f"sqlite:{place / f'{side.role}.db'}"
        else:
            side.arguments += ["--database", f"sqlite:{base}", "--driver", str(driver)]
        side.arguments += ["--output-table", "result"]
        cells = (cell for column in table.columns.values() for cell in column)
        side.possible += {why for cell in cells if (why := unkept(cell)) is not None}
        kinds = [] if table.arrow is None else table.arrow.schema.types
        # A column that is all null shows by its type alone.
        side.possible += [str(t) for t in kinds if t.num_fields or pa.types.is_run_end_encoded(t)]
    else:
        side.arguments += [
            "--output",
            "-" if side.output == "-" else str(place / f"{side.role}-{side.output}"),
        ]
    if (
        kind in ("csv", "jsonl", "table")
        and not is_shares
        and any(c.kind == "nested" for column in table.columns.values() for c in column)
    ):
        side.refusals.append("nested columns in text")


def add_values(rng: random.Random, valued: list[Side], common: set[Key]) -> tuple[int, list[int]]:
    """Adds the options of values; returns how many keys count for a minimum, and the sums or the sum of products."""
    each: list[dict[Key, list[int]]] = []
    for side in valued:
        try:
            each.append(totals(side))
        except Refused as refused:
            side.refusals.append(str(refused))
            return 0, []
        side.arguments += ["--value", ",".join(name.replace(",", "\\,") for name in side.values)]
        side.arguments += ["--value-scale", str(side.scale)]
        largest = max((abs(n) for row in each[-1].values() for n in row), default=0)
        bound = max(largest + rng.choice([0, 1, 1000]), 1)
        side.arguments += ["--value-bound", printed(bound, side.scale)]
        if rng.random() < 0.1 and len(distinct(side)) < sum(
            isinstance(item, tuple) for item in side.keys
        ):
            side.arguments += ["--value-repeated", "refuse"]
            side.refusals.append("keys repeat")
    products = [
        [a[item][at] * (b[item][at] if b else 1) for item in common]
        for a, b in [(each[0], each[1] if len(each) > 1 else None)]
        for at in range(len(valued[0].values))
    ]
    return min(sum(n != 0 for n in column) for column in products), [
        sum(column) for column in products
    ]


def campaign(arguments: argparse.Namespace, driver: Path | None) -> int:
    numbers = range(arguments.pairs) if arguments.only is None else [arguments.only]
    counts: Counter[str] = Counter()

    def one(number: int) -> tuple[int, Outcome, Path]:
        place = WORK / f"{arguments.seed}-{number}"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        return number, pair(number, arguments.seed, arguments.vesica, driver, place), place

    with ThreadPoolExecutor(arguments.jobs) as pool:
        for number, outcome, place in pool.map(one, numbers):
            counts[outcome.kind] += 1
            is_bad = outcome.kind in ("wrong", "raised")
            if is_bad or outcome.kind == "unforeseen" or arguments.only is not None:
                say(f"{number}: {outcome.kind}: {outcome.why}")
            if not is_bad and arguments.only is None:
                shutil.rmtree(place)
    refused = counts["foreseen"] + counts["unforeseen"]
    say(
        f"{counts.total()} pairs: {counts['fine']} as expected, {counts['wrong']} wrong, {refused} refused "
        f"({counts['unforeseen']} of them not foreseen), {counts['raised']} raised"
    )
    return int(counts["wrong"] + counts["raised"] > 0)


def argument_parser(about: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pairs", type=int, default=500)
    parser.add_argument("--only", type=int, metavar="N", help="one pair, whose files are kept")
    parser.add_argument("--jobs", type=int, default=2, help="pairs side by side")
    parser.add_argument("--vesica", type=Path, default=target_dir() / "release/vesica")
    return parser


def make_identities(binary: Path) -> int:
    """Makes the identities of both sides, unless they are there; 1 if that fails."""
    WORK.mkdir(parents=True, exist_ok=True)
    identities = [WORK / f"{role}.key" for role in ("receive", "send")]
    missing = [identity for identity in identities if not identity.exists()]
    return int(any(run([binary, "keygen", "--out", identity]) for identity in missing))


def main() -> int:
    arguments = argument_parser(__doc__.split("\n", 1)[0]).parse_args()
    if pa is None:
        return python_package.run_with("campaign", compare_profiles.PACKAGES, __file__)
    databases.WORK.mkdir(parents=True, exist_ok=True)
    if make_identities(arguments.vesica):
        return 1
    folder = databases.drivers()
    found = sorted(folder.glob("adbc_driver_sqlite/libadbc_driver_sqlite.*")) if folder else []
    return campaign(arguments, found[0] if found else None)


if __name__ == "__main__":
    sys.exit(main())
