"""Files that writers make: how large, under which names, and what becomes of replaced rows."""

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater.errors import LakeRewrittenError, LakeTableDiffersError, UnsupportedError
from headwater.lake.iceberg.files import local_path
from headwater.lake.iceberg.write import IcebergKeyedWriter, written_of
from headwater.model.types import BigIntType, DoubleType, SmallIntType, StringType, TimeType
from tests.lake.tables import KEYED


def test_files_are_closed_at_their_size(tables):
    small = {"write.target-file-size-bytes": "2000", "write.parquet.row-group-limit": "100"}
    table = tables.make(properties=small)

    table.tier([{"id": at, "name": str(at)} for at in range(1000)])

    splits = table.source.plan(table.head().snapshot_id)
    assert sum(len(split.files) for split in splits) > 1
    assert sorted(row["id"] for row in table.values()) == list(range(1000))


def test_properties_decide_the_compression(tables):
    table = tables.make(properties={"write.parquet.compression-codec": "snappy"})

    (result,) = table.write([{"id": 1, "name": "a"}], on=None)

    (file,) = written_of(result).added
    group = pq.read_metadata(local_path(file.file_path)).row_group(0)
    assert group.column(0).compression == "SNAPPY"


def test_rows_that_a_later_part_of_a_round_replaces_are_deleted_by_position(tables):
    table = tables.keyed()
    (task,) = table.committer.write_tasks([((), 0)], on=None)
    writer = IcebergKeyedWriter.of(table.spec, task, config=table.lake.config)
    writer.held_bytes_max = 1

    for name in "abc":
        writer.write(table.batch([{"id": 1, "name": name}, {"id": ord(name), "name": name}]))
    writer.write(table.batch([{"id": 97, "name": ""}]), deleted=pa.array([True]))
    table.commit([writer.finish()], on=None)

    assert sorted((row["id"], row["name"]) for row in table.values()) == [
        (1, "c"),
        (98, "b"),
        (99, "c"),
    ]


def test_keys_that_others_wrote_meanwhile_are_not_there_twice(tables, foreign):
    table = tables.keyed()
    first = table.tier([{"id": 1, "name": "old"}])
    late = table.write([{"id": 2, "name": "ours"}], on=first)
    foreign(table.spec).append(
        pa.table(table.batch([{"id": 2, "name": "theirs"}])).cast(
            foreign(table.spec).schema().as_arrow()
        )
    )

    with pytest.raises(LakeRewrittenError):
        table.commit(late, on=table.head())
    assert sorted(row["name"] for row in table.values()) == ["old", "theirs"]


def test_files_say_whether_they_can_be_read_by_name(tables):
    table = tables.make()
    table.tier([{"id": 1, "name": "a"}])
    columns = tuple(
        replace(column, name=column.name.upper()) for column in table.spec.schema.columns
    )
    renamed = table.evolved(replace(table.spec, schema=replace(table.spec.schema, columns=columns)))

    renamed.tier([{"ID": 2, "NAME": "b"}])

    files = [
        file for split in renamed.source.plan(renamed.head().snapshot_id) for file in split.files
    ]
    assert sorted(file.is_plain for file in files) == [False, True]
    assert sorted(row["ID"] for row in renamed.values()) == [1, 2]


def test_rows_in_a_bucket_that_is_not_icebergs_are_refused(tables):
    table = tables.keyed(bucket_count=4)
    rows = table.batch([{"id": 1, "name": "a"}])
    wrong = (table.buckets(rows)[0] + 1) % 4
    (task,) = table.committer.write_tasks([((), wrong)], on=None)

    with pytest.raises(LakeTableDiffersError, match=r"table\.datalake\.format"):
        table.lake.writer(table.spec, task).write(rows)


@pytest.mark.parametrize("kind", [DoubleType(nullable=False), SmallIntType(nullable=False)])
def test_a_bucket_key_that_iceberg_cannot_spread_is_refused(tables, kind):
    with pytest.raises(UnsupportedError):
        tables.keyed({"id": kind, "name": StringType()})


def test_two_bucket_keys_are_refused(tables):
    columns = {"id": BigIntType(nullable=False), "name": StringType(nullable=False)}

    with pytest.raises(UnsupportedError, match="exactly one"):
        tables.make(columns, bucket_keys=("id", "name"))


def test_times_finer_than_their_partitions_are_refused(tables):
    columns = {**KEYED, "at": TimeType(precision=6, nullable=False)}

    with pytest.raises(UnsupportedError, match=r"TIME\(3\)"):
        tables.make(columns, partition_keys=("at",))
