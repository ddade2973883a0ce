"""Digests and rows on Spark's executors, in blocks: for a row of 32 bytes Spark takes as long as for one of a megabyte."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Callable, NamedTuple

import numpy
import pyarrow
from pyarrow import compute, ipc

from . import _vesica
from ._errors import DataError

# Rows are put into blocks once there are so many, or so many bytes of them.
_ROWS, _BYTES = 1 << 20, 32 << 20
# Digests, each once, are in blocks of about so many.
_BLOCK = 1 << 19
_DIGEST = pyarrow.field("digest", pyarrow.binary(32))

# Batches of Arrow become others, on an executor.
Step = Callable[[Iterator[Any]], Iterator[Any]]


class Keys(NamedTuple):
    """How keys are read: the places of their columns, and what the package asks for."""

    places: list[int]
    reading: dict[str, Any]

    def digests(self, batches: Iterable[Any]) -> Iterator[tuple[Any, _vesica.Batches]]:
        """Many rows at a time, and the digests of their keys: null where there is no usable key."""
        before = 0
        reader = _vesica.KeyReader(self.reading)
        for rows in _gathered(batches):
            columns = [rows.column(place) for place in self.places]
            table = pyarrow.table(columns, names=self.reading["on"])
            try:
                found = reader.digests(table)
            except DataError as failure:
                raise DataError(_of_partition(str(failure), before)) from None
            before += rows.num_rows
            yield rows, found


def _gathered(batches: Iterable[Any]) -> Iterator[Any]:
    """The same rows in few batches."""
    held: list[Any] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _ROWS or size >= _BYTES:
            yield from pyarrow.Table.from_batches(held).combine_chunks().to_batches()
            held, rows, size = [], 0, 0
    if held:
        yield from pyarrow.Table.from_batches(held).combine_chunks().to_batches()


def _of_partition(line: str, before: int) -> str:
    """What is wrong with a batch, with the row's number among those of its partition."""
    from pyspark import TaskContext

    context = TaskContext.get()
    partition = 0 if context is None else context.partitionId()
    line = re.sub(r"\brow (\d+)", lambda row: f"row {before + int(row[1])}", line, count=1)
    return f"partition {partition}: {line.removeprefix('the table: ')}"


def _column(found: _vesica.Batches) -> Any:
    """The only column of a table of the package."""
    column = pyarrow.table(found).column(0)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _words(buffer: Any) -> Any:
    """Digests one after the other, four words each."""
    return numpy.frombuffer(buffer or b"", "u8").reshape(-1, 4)


def _heads(digests: Any) -> Any:
    """The first words of digests, by which these are in order."""
    return digests[:, 0].view(">u8").astype("u8")


def _array(digests: Any) -> Any:
    """Digests as a column."""
    buffers = [None, pyarrow.py_buffer(digests)]
    return pyarrow.Array.from_buffers(_DIGEST.type, len(digests), buffers)


def _table(digests: Any) -> Any:
    """Digests as the package takes them."""
    return pyarrow.table({"digest": _array(digests)})


def _binary(bounds: Any, content: Any) -> Any:
    """The strings between these bounds."""
    buffers = [None, pyarrow.py_buffer(bounds.astype("i4")), pyarrow.py_buffer(content)]
    return pyarrow.Array.from_buffers(pyarrow.binary(), len(bounds) - 1, buffers)


def _runs(names: Any) -> tuple[Any, Any]:
    """Each name once, and where runs of the same name begin and end."""
    begins = numpy.flatnonzero(names[1:] != names[:-1]) + 1
    bounds = numpy.concatenate([[0], begins, [len(names)]] if len(names) else [[0]])
    return names[bounds[:-1]].astype("i4"), bounds


def _digests_under(names: Any, digests: Any) -> Any:
    """A row for each name, with its digests as a block; names ascend."""
    found, bounds = _runs(names)
    columns = [pyarrow.array(found), _binary(bounds * 32, digests)]
    return pyarrow.RecordBatch.from_arrays(columns, ["name", "block"])


def _buckets(job: _vesica.SplitJob, digests: Any) -> Any:
    """The bucket of each digest of a table that is not null, in few bits, since such numbers are sorted fast."""
    return _column(job.buckets_of(digests)).to_numpy().astype("u2")


def digests_by_partition(keys: Keys, partitions: int) -> Step:
    """Digests of rows by the number of their partition. Those that are near each other and the same become one."""

    def step(batches: Iterator[Any]) -> Iterator[Any]:
        for _, digests in keys.digests(batches):
            once = _words(_column(_vesica.distinct(digests)).buffers()[1])
            yield _digests_under((_heads(once) >> 32) * partitions >> 32, once)

    return step


def distinct_digests(batches: Iterator[Any]) -> Iterator[Any]:
    """Of the blocks of a partition, each digest once."""
    blocks = [_words(block.as_buffer()) for batch in batches for block in batch.column(1)]
    if not blocks:
        return
    largest = max(blocks, key=len)
    parts = 1 + sum(map(len, blocks)) // _BLOCK
    # Digests are uniform, and blocks in the order of their first words.
    bounds = _heads(largest[numpy.arange(1, parts) * len(largest) // parts])
    cut = [numpy.split(block, numpy.searchsorted(_heads(block), bounds)) for block in blocks]
    for pieces in zip(*cut):
        once = _column(_vesica.distinct(_table(numpy.concatenate(pieces))))
        columns = [
            pyarrow.array([len(once)], pyarrow.int64()),
            _binary(numpy.array([0, 32 * len(once)]), once.buffers()[1]),
        ]
        yield pyarrow.RecordBatch.from_arrays(columns, ["items", "block"])


def digests_by_bucket(directory: str) -> Step:
    """Digests, of which each comes once, by the bucket of a draft."""

    def step(batches: Iterator[Any]) -> Iterator[Any]:
        draft = _vesica.SplitJob.open_draft(directory)
        for batch in batches:
            for block in batch.column(1):
                digests = _words(block.as_buffer())
                buckets = _buckets(draft, _table(digests))
                order = numpy.argsort(buckets, kind="stable")
                yield _digests_under(buckets[order], digests[order])

    return step


def cut_one(draft: _vesica.SplitJob, bucket: int, blocks: list[Any]) -> bytes:
    """Puts the digests of a bucket into its file. Returns their hash."""
    digests = numpy.concatenate([_words(None), *blocks])
    return bytes(draft.cut(bucket, _table(digests)))


def cut_buckets(directory: str) -> Step:
    """Puts blocks into the files of their buckets."""

    def step(batches: Iterator[Any]) -> Iterator[Any]:
        draft = _vesica.SplitJob.open_draft(directory)
        blocks: dict[int, list[Any]] = {}
        for batch in batches:
            for bucket, block in zip(batch.column(0).to_pylist(), batch.column(1)):
                blocks.setdefault(bucket, []).append(_words(block.as_buffer()))
        for bucket, found in blocks.items():
            hashed = cut_one(draft, bucket, found)
            columns = [
                pyarrow.array([bucket], pyarrow.int32()),
                pyarrow.array([sum(map(len, found))], pyarrow.int64()),
                pyarrow.array([hashed], pyarrow.binary()),
            ]
            yield pyarrow.RecordBatch.from_arrays(columns, ["bucket", "items", "hash"])

    return step


def rows_by_bucket(directory: str, keys: Keys, schema: Any) -> Step:
    """Rows of this schema, with their digests, by the bucket of their key."""
    keyed = schema.append(_DIGEST)

    def step(batches: Iterator[Any]) -> Iterator[Any]:
        job = _vesica.SplitJob.open(directory)
        number = json.loads(job.contract)["buckets"]
        for rows, digests in keys.digests(batches):
            column = _column(digests)
            usable = column.is_valid().to_numpy(zero_copy_only=False)
            # Rows without a usable key match nothing in whatever bucket, and no key has a digest of zeros.
            buckets = (numpy.arange(len(usable)) % number).astype("u2")
            buckets[usable] = _buckets(job, digests)
            columns = [*rows.cast(schema).columns, _array(_words(column.buffers()[1]))]
            order = numpy.argsort(buckets, kind="stable")
            names, bounds = _runs(buckets[order])
            rows = pyarrow.RecordBatch.from_arrays(columns, schema=keyed).take(order)
            blocks = [
                rows.slice(begin, end - begin).serialize() for begin, end in zip(bounds, bounds[1:])
            ]
            ends = numpy.cumsum([0, *(block.size for block in blocks)])
            columns = [pyarrow.array(names), _binary(ends, b"".join(blocks))]
            yield pyarrow.RecordBatch.from_arrays(columns, ["name", "block"])

    return step


def rows_that(which: str, directory: str, schema: Any) -> Step:
    """Of rows in blocks the `matching` ones, the `rest`, or `all` with a column that says which match."""
    keyed, marked = schema.append(_DIGEST), schema.append(pyarrow.field("in_both", pyarrow.bool_()))

    def marks(batches: Iterator[Any]) -> Iterator[Any]:
        job = _vesica.SplitJob.open(directory)
        matches: dict[int, _vesica.DigestSet] = {}
        for batch in batches:
            for bucket, block in zip(batch.column(0).to_pylist(), batch.column(1)):
                if bucket not in matches:
                    matches[bucket] = _vesica.DigestSet(job.matches(bucket))
                *columns, digests = ipc.read_record_batch(block.as_buffer(), keyed).columns
                found = _column(matches[bucket].has(pyarrow.table({"digest": digests})))
                yield pyarrow.RecordBatch.from_arrays([*columns, found], schema=marked)

    def step(batches: Iterator[Any]) -> Iterator[Any]:
        for rows in _gathered(marks(batches)):
            if which == "all":
                yield rows
                continue
            *columns, there = rows.columns
            wanted = there if which == "matching" else compute.invert(there)
            yield pyarrow.RecordBatch.from_arrays(columns, schema=schema).filter(wanted)

    return step
