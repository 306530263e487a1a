"""Data files keep to their size, and a round to its memory."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater.lake.paimon import write as writer
from headwater.model.types import BigIntType, DecimalType, StringType, TimestampType

COLUMNS = {"id": BigIntType(nullable=False), "name": StringType()}
COUNT = 20_000


def rows(table, *, name: str) -> pa.RecordBatch:
    names = [f"{name}-{at * 7919 % COUNT:09d}" for at in range(COUNT)]
    return pa.record_batch([pa.array(range(COUNT)[::-1]), pa.array(names)], schema=table.schema)


@pytest.fixture(params=[(), ("id",)], ids=["log", "keyed"])
def table(tables, request):
    return tables.make(COLUMNS, key=request.param, properties={"target-file-size": "64 kb"})


def test_files_do_not_grow_far_beyond_their_target(table):
    table.tier(rows(table, name="x"))

    (split, *more) = table.source.plan(table.head().snapshot_id)
    files = [file for each in (split, *more) for file in each.files]
    assert len(files) > 1
    assert all(file.byte_count < 3 * 64 * 1024 for file in files)
    assert table.rows().num_rows == COUNT


def test_a_compacted_bucket_of_several_files_is_read_in_the_order_of_keys(tables):
    table = tables.make(COLUMNS, key=("id",), properties={"target-file-size": "64 kb"})
    for turn in range(3):
        table.tier(rows(table, name=f"{turn}"))
    table.compact()
    source = table.source
    (split,) = source.plan(table.head().snapshot_id)

    found = pa.Table.from_batches(source.read(split, in_key_order=True))

    assert len(split.files) > 1
    assert all(file.is_plain for file in split.files)
    assert found["id"].to_pylist() == list(range(COUNT))
    assert table.rows().num_rows == COUNT


def test_a_round_that_does_not_fit_into_memory_becomes_several_runs(tables, monkeypatch):
    monkeypatch.setattr(writer, "_BUFFER_BYTES_MAX", 1)
    table = tables.make(COLUMNS, key=("id",))
    (task,) = table.committer.write_tasks([((), 0)], on=None)
    writing = table.lake.writer(table.spec, task)

    for name in ("a", "b", "c"):
        writing.write(table.batch([{"id": 1, "name": name}, {"id": 2, "name": name}]))
    writing.write(table.batch([{"id": 2, "name": "?"}]), deleted=pa.array([True]))
    table.commit([writing.finish()], on=None)

    assert table.head().file_count == 4
    assert table.values() == [{"id": 1, "name": "c"}]


def test_an_aborted_round_leaves_no_file(tables, own, monkeypatch):
    monkeypatch.setattr(writer, "_BUFFER_BYTES_MAX", 1)
    table = tables.make(COLUMNS, key=("id",))
    (task,) = table.committer.write_tasks([((), 0)], on=None)
    writing = table.lake.writer(table.spec, task)
    writing.write(table.batch([{"id": 1, "name": "a"}]))

    writing.abort()

    held = own(table)
    assert held.files.list(f"{held.root}/bucket-0") == []


def test_decimals_and_moments_have_the_forms_of_paimons_own_files(tables):
    columns = {
        "small": DecimalType(precision=9, scale=2),
        "middle": DecimalType(precision=18, scale=2),
        "large": DecimalType(precision=19, scale=2),
        "fine": TimestampType(precision=9),
    }
    table = tables.make(columns)
    table.tier([dict.fromkeys(columns)])
    (split,) = table.source.plan(table.head().snapshot_id)

    schema = pq.ParquetFile(split.files[0].path).schema

    kinds = [schema.column(at).physical_type for at in range(4)]
    assert kinds == ["INT32", "INT64", "FIXED_LEN_BYTE_ARRAY", "INT96"]
