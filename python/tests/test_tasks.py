"""Jobs whose buckets are tasks of their own: from Python to Python, and against the command."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars
import pyarrow
import pytest
from clusters import cheat

import vesica
from vesica import _vesica
from vesica._tasks import TaskListener, arguments_of_job, limits_of

OURS = polars.DataFrame({"id": [*range(3000), 5, 5], "x": range(3002)})
THEIRS = polars.DataFrame({"number": range(1500, 4500)})
MATCHING = list(range(1500, 3000))
# Eight buckets.
TERMS: dict[str, Any] = {"protocol": "dh", "security": "semi-honest", "task_memory": "180K"}


@pytest.fixture
def jobs(
    tmp_path: Path, background: Callable[..., Callable[[], Any]]
) -> tuple[vesica.SplitJob, vesica.SplitJob, tuple[vesica.Link, vesica.Link]]:
    left, right = vesica.pair()
    arguments = {"role": "sender", "job": tmp_path / "far", "on": "number", "link": right}
    far = background(vesica.split, THEIRS, **arguments, **TERMS)
    near = vesica.split(OURS, role="receiver", job=tmp_path / "near", on="id", link=left, **TERMS)
    return near, far(), (left, right)


def free_port() -> str:
    link, _ = vesica.pair()
    link.cancel()
    return link.address


def test_tasks_find_what_one_run_finds(
    tmp_path: Path, jobs: Any, background: Callable[..., Callable[[], Any]]
) -> None:
    near, far, (left, right) = jobs
    assert (near.buckets, near.attempts, near.role, far.role) == (8, 4, "receiver", "sender")
    all_buckets = [(bucket, 0) for bucket in range(8)]
    told = background(far.next_attempts, link=right)
    assert near.next_attempts(link=left) == all_buckets == told()
    for bucket, attempt in all_buckets:
        address = free_port()
        other = background(far.run, bucket, attempt, listen=address, threads=1)
        done = near.run(bucket, attempt, connect=address, threads=1)
        theirs = other()
        assert (done["bucket"], done["attempt"]) == (bucket, attempt)
        assert done["bytes_sent"] == theirs["bytes_received"] > 0
    told = background(far.next_attempts, link=right)
    assert near.next_attempts(link=left) == [] == told()
    found = near.collect(OURS, on="id")
    assert list(found.rows) == MATCHING
    assert found.table.to_polars()["id"].to_list() == MATCHING
    assert repr(found) == "<Collected, rows=1500>"
    rest = near.collect(OURS, on="id", rows="rest")
    assert list(rest.matching) == MATCHING
    assert list(rest.rows) == [row for row in range(3002) if row not in found.rows]
    assert rest.table.to_polars().equals(OURS[list(rest.rows)])
    every = near.collect(OURS, on="id", rows="all")
    assert (list(every.matching), list(every.rows)) == (MATCHING, list(range(3002)))
    assert every.table.to_polars()["in_both"].sum() == 1500
    with pytest.raises(vesica.UsageError, match="this side learns no matches"):
        far.collect(THEIRS, on="number")
    with pytest.raises(vesica.DataError, match="other keys"):
        near.collect(OURS[1:], on="id")
    with pytest.raises(vesica.UsageError, match="has had attempt 0 at bucket 3"):
        near.run(3, connect="127.0.0.1:1")
    # The sender has heard that the receiver has its result, and does not answer again.
    with pytest.raises(vesica.UsageError, match="that the peer has confirmed"):
        far.run(3, 1, connect="127.0.0.1:1")
    result = tmp_path / "near" / "bucket-3.attempt-0.bits"
    result.write_bytes(result.read_bytes()[:-1])
    with pytest.raises(vesica.DataError, match=f"damaged or gone: {result.name}"):
        near.collect(OURS, on="id")
    told = background(far.next_attempts, link=right)
    with pytest.raises(vesica.DataError, match=f"damaged or gone: {result.name}"):
        near.next_attempts(link=left)
    with pytest.raises(vesica.ResourceError, match="lacks a result of bucket 3"):
        told()


def test_a_peer_that_cheats_ends_the_job(
    tmp_path: Path, background: Callable[..., Callable[[], Any]]
) -> None:
    left, right = vesica.pair()

    def split(name: str, protocol: str) -> vesica.SplitJob:
        terms: dict[str, Any] = {"protocol": protocol, "security": "semi-honest"}
        far = {"role": "sender", "job": tmp_path / f"far-{name}", "on": "number", "link": right}
        other = background(vesica.split, THEIRS, **far, **terms)
        near = {"role": "receiver", "job": tmp_path / f"near-{name}", "on": "id", "link": left}
        job = vesica.split(OURS, **near, **terms)
        other()
        return job

    near = split("dh", "dh")
    split("kkrt", "kkrt")
    cheat(tmp_path / "far-dh", tmp_path / "far-kkrt")
    far = vesica.SplitJob(tmp_path / "far-dh")
    address = free_port()
    other = background(far.run, 0, listen=address, threads=1)
    line = "is of a job that is over since attempt 0 at bucket 0: the peer"
    with pytest.raises(vesica.PeerError, match=line):
        near.run(0, connect=address, threads=1)
    with pytest.raises(vesica.PeerError):
        other()
    # No other attempt, by whatever process.
    again = vesica.SplitJob(near.directory)
    with pytest.raises(vesica.PeerError, match=line):
        again.run(0, 1, connect="127.0.0.1:1")
    with pytest.raises(vesica.PeerError, match=line):
        again.next_attempts(link=left)


def test_drivers_open_the_total_of_numbers(
    tmp_path: Path, background: Callable[..., Callable[[], Any]]
) -> None:
    left, right = vesica.pair()
    terms = {"reveal": ["size", "sum"], "security": "semi-honest", "both": True}
    arguments = {"role": "sender", "job": tmp_path / "far", "on": "number", "link": right}
    theirs = THEIRS.with_columns(value=2)
    other = background(vesica.split, theirs, **arguments, value="value", **terms)
    near = vesica.split(OURS, role="receiver", job=tmp_path / "near", on="id", link=left, **terms)
    far = other()
    with pytest.raises(vesica.UsageError, match="has no total yet"):
        near.total()
    for bucket in range(near.buckets):
        address = free_port()
        other = background(far.run, bucket, listen=address, threads=1)
        near.run(bucket, connect=address, threads=1)
        other()
    for _ in range(2):
        other = background(far.total, link=right)
        for result in (near.total(link=left), other(), near.total(), far.total()):
            assert result.values == {"size": 1500, "sum": 3000}
            assert result.size == 1500
    with pytest.raises(vesica.UsageError, match="is for numbers"):
        near.collect(OURS, on="id")


def test_rows_go_to_a_file(
    jobs: Any, background: Callable[..., Callable[[], Any]], tmp_path: Path
) -> None:
    near, far, _ = jobs
    for bucket in range(8):
        address = free_port()
        other = background(far.run, bucket, listen=address, threads=1)
        near.run(bucket, connect=address, threads=1)
        other()
    OURS.write_parquet(tmp_path / "ours.parquet")
    output = tmp_path / "shared.parquet"
    found = vesica.SplitJob(near.directory).collect(
        tmp_path / "ours.parquet", on="id", output=output
    )
    assert polars.read_parquet(output)["id"].to_list() == MATCHING == list(found.rows)
    with pytest.raises(vesica.UsageError, match="were written to `output`"):
        _ = found.table
    with pytest.raises(vesica.UsageError, match="`output` and `table` are the same file"):
        near.collect(tmp_path / "ours.parquet", on="id", output=tmp_path / "ours.parquet")
    database = tmp_path / "shared.db"
    database.touch()
    table: dict[str, Any] = {"database": f"sqlite:{database}", "output_table": "shared"}
    with pytest.raises(vesica.UsageError, match="either output or output_table"):
        near.collect(OURS, on="id", output=output, **table)
    assert list(near.collect(OURS, on="id", **table).rows) == MATCHING
    with contextlib.closing(sqlite3.connect(database)) as opened:
        assert opened.execute("select id from shared").fetchall() == [(row,) for row in MATCHING]


def test_what_cannot_be_is_refused(tmp_path: Path, jobs: Any) -> None:
    near, _, (left, _) = jobs
    arguments = {"role": "receiver", "job": tmp_path / "new", "on": "id", "link": left}
    for more, line in [
        ({"role": "both"}, "role: a side is the receiver or the sender"),
        ({"output": "x"}, "output: the rows of a job"),
        ({"output_table": "x"}, "output_table: the rows of a job"),
        ({"rows": "rest"}, "rows: the rows of a job"),
        ({"columns": "x"}, "columns: the rows of a job"),
        ({"payload": "x"}, "payload: a job in tasks does not go with columns"),
        ({"align": True}, "align: a job in tasks does not go with one order"),
        ({"offline": "ot"}, "offline: a job in tasks does not go with stored"),
        ({"work_dir": tmp_path}, "work_dir: a job in tasks goes on from its own"),
        ({"task_memory": "much"}, "task_memory: a size is"),
        ({"attempts": 17}, "attempts"),
        ({"valid_for": 0}, "valid_for: give a number"),
        (
            {"reveal": vesica.threshold(3, matches=True), "security": "semi-honest"},
            "a job in tasks does not go with threshold-matches",
        ),
        ({"job": near.directory}, "has a job already"),
    ]:
        with pytest.raises(vesica.UsageError, match=line):
            vesica.split(OURS, **{**arguments, **more})
    with pytest.raises(vesica.UsageError, match="one of gateway, listen and connect"):
        near.run(0)
    with pytest.raises(vesica.UsageError, match="there is no attempt 0 at bucket 8"):
        near.run(8, connect="127.0.0.1:1")
    with pytest.raises(vesica.DataError, match="has no job of this version"):
        vesica.SplitJob(tmp_path)
    with pytest.raises(vesica.UsageError, match="has no result of bucket 0"):
        near.collect(OURS, on="id")


def split_elsewhere(directory: Path, link: vesica.Link, cut: Callable[[], Any]) -> None:
    """Splits OURS as if its keys were on other machines."""
    arguments = {"on": "id", "attempts": 4, "valid_for": 3600, **TERMS}
    limits = limits_of(directory, arguments)
    reading, options = arguments_of_job(arguments)
    items = OURS["id"].n_unique()
    _vesica.split_elsewhere(
        "receiver", lambda: items, cut, reading, options, limits, link, TaskListener(None)
    )


def arrow(digests: polars.DataFrame) -> pyarrow.Table:
    return digests.to_arrow().cast(pyarrow.schema([("digest", pyarrow.binary(32))]))


def digests(ids: polars.DataFrame) -> polars.DataFrame:
    reading, _ = arguments_of_job({"on": "id"})
    return polars.DataFrame(_vesica.KeyReader(reading).digests(ids))


def test_keys_on_other_machines_meet_a_table_on_this_one(
    tmp_path: Path, background: Callable[..., Callable[[], Any]]
) -> None:
    left, right = vesica.pair()
    near = tmp_path / "near"

    def cut() -> list[bytes]:
        draft = _vesica.SplitJob.open_draft(near)
        # Each once, in no order; an empty bucket need not be among them.
        all_digests = digests(OURS).unique()
        bucket = polars.DataFrame(draft.buckets_of(arrow(all_digests)))["bucket"]
        parts = [arrow(all_digests.filter(bucket == number)) for number in range(8)]
        hashes = [draft.cut(number, part) for number, part in enumerate(parts)]
        assert hashes[3] == draft.cut(3, parts[3].take([*reversed(range(len(parts[3])))]))
        with pytest.raises(vesica.UsageError, match="there is no attempt 0 at bucket 8"):
            draft.cut(8, parts[0])
        with pytest.raises(vesica.Error, match="digests repeat"):
            draft.cut(0, pyarrow.concat_tables([parts[0], parts[0][:1]]))
        with pytest.raises(vesica.Error, match="too many items"):
            draft.cut(0, arrow(all_digests))
        assert draft.cut(0, parts[0]) == hashes[0]
        return hashes

    arguments = {"role": "sender", "job": tmp_path / "far", "on": "number", "link": right}
    other = background(vesica.split, THEIRS, **arguments, **TERMS)
    split_elsewhere(near, left, cut)
    far, job = other(), vesica.SplitJob(near)
    for bucket in range(8):
        address = free_port()
        task = background(far.run, bucket, listen=address, threads=1)
        job.run(bucket, connect=address, threads=1)
        task()
    found = [polars.DataFrame(_vesica.SplitJob.open(near).matches(bucket)) for bucket in range(8)]
    expected = digests(OURS[MATCHING]).unique()
    assert polars.concat(found).sort("digest").equals(expected.sort("digest"))
    # Whoever has the table can collect as well.
    assert list(job.collect(OURS, on="id").rows) == [*MATCHING]


@pytest.mark.parametrize(
    ("fails", "kind", "line"),
    [("raises", RuntimeError, "no machine"), ("lacks", vesica.Error, "not all buckets were cut")],
)
def test_keys_that_cannot_be_cut_leave_no_job(
    tmp_path: Path,
    background: Callable[..., Callable[[], Any]],
    fails: str,
    kind: type[Exception],
    line: str,
) -> None:
    left, right = vesica.pair()

    def cut() -> list[bytes]:
        if fails == "raises":
            raise RuntimeError("no machine")
        return [bytes(32)]

    arguments = {"role": "sender", "job": tmp_path / "far", "on": "number", "link": right}
    other = background(vesica.split, THEIRS, **arguments, **TERMS)
    with pytest.raises(kind, match=line):
        split_elsewhere(tmp_path / "near", left, cut)
    with pytest.raises(vesica.Error):
        other()
    for side in ("near", "far"):
        assert not (tmp_path / side).exists()
        with pytest.raises(vesica.DataError, match="has no job of this version"):
            vesica.SplitJob(tmp_path / side)
    with pytest.raises(vesica.DataError, match="has no job of this version"):
        _vesica.SplitJob.open_draft(tmp_path / "near")


def test_a_task_ends_when_it_is_not_wanted(jobs: Any) -> None:
    near, _, _ = jobs
    began = time.monotonic()

    def check() -> None:
        if time.monotonic() - began > 0.5:
            raise RuntimeError("not wanted")

    with pytest.raises(RuntimeError, match="not wanted"):
        near.run(0, listen="127.0.0.1:0", check=check)
    assert time.monotonic() - began < 30
    # It has not begun.
    assert not os.path.exists(os.path.join(near.directory, "bucket-0.attempt-0.begun"))


def test_the_command_is_the_other_side(
    jobs: Any,
    command: str,
    background: Callable[..., Callable[[], Any]],
    child: Callable[..., subprocess.Popen[str]],
) -> None:
    near, far, _ = jobs
    for bucket in range(8):
        address = free_port()
        line = [command, "bucket", "--job", far.directory, "--bucket", str(bucket)]
        task = child([*line, "--listen", address, "--progress", "none"])
        near.run(bucket, connect=address)
        assert task.wait(60) == 0, task.stderr
    assert list(near.collect(OURS, on="id").rows) == MATCHING
