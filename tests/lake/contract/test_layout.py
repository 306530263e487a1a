"""Rows lie by partition and bucket, and splits know where."""

import pytest

from headwater.lake.split import UNKNOWN_BUCKET
from headwater.model.types import (
    BigIntType,
    BinaryType,
    BooleanType,
    BytesType,
    CharType,
    DateType,
    DoubleType,
    FloatType,
    IntType,
    SmallIntType,
    StringType,
    TimestampLtzType,
    TimestampType,
    TimeType,
    TinyIntType,
)

# Two values of each type, and the texts that partition names have for them.
PARTITIONS = {
    BooleanType(): ([True, False], ["true", "false"]),
    TinyIntType(): ([-1, 7], ["-1", "7"]),
    SmallIntType(): ([-300, 300], ["-300", "300"]),
    IntType(): ([-70000, 70000], ["-70000", "70000"]),
    BigIntType(): ([-(2**40), 2**40], [str(-(2**40)), str(2**40)]),
    FloatType(): ([0.5, -1.25], ["0_5", "-1_25"]),
    DoubleType(): ([0.1, -1e10], ["0_1", "-1_0E10"]),
    StringType(): (["east", "we-st_1"], ["east", "we-st_1"]),
    CharType(length=2): (["ab", "cd"], ["ab", "cd"]),
    BytesType(): ([b"\x01", b"\xff\x00"], ["01", "ff00"]),
    BinaryType(length=2): ([b"\x01\x02", b"\xff\x00"], ["0102", "ff00"]),
    DateType(): ([0, 20000], ["1970-01-01", "2024-10-04"]),
    TimeType(precision=3): ([0, 3_723_004], ["00-00-00_000", "01-02-03_004"]),
    TimestampType(precision=3): (
        [0, 1_700_000_000_123],
        ["1970-01-01-00-00-00_", "2023-11-14-22-13-20_123"],
    ),
    TimestampType(precision=6): (
        [-1, 1_700_000_000_123_456],
        ["1969-12-31-23-59-59_999999", "2023-11-14-22-13-20_123456"],
    ),
    TimestampLtzType(precision=6): (
        [-1, 1_700_000_000_123_456],
        ["1969-12-31-23-59-59_999999", "2023-11-14-22-13-20_123456"],
    ),
}


def partitioned(tables, kind, *, is_keyed: bool):
    columns = {"id": BigIntType(nullable=False), "p": kind.not_null(), "name": StringType()}
    key = ("id", "p") if is_keyed else ()
    return tables.make(columns, key=key, partition_keys=("p",))


@pytest.mark.parametrize("is_keyed", [False, True], ids=["log", "keyed"])
@pytest.mark.parametrize("kind", PARTITIONS, ids=str)
def test_a_partition_of_every_type_keeps_its_rows_and_its_text(tables, kind, is_keyed):
    values, texts = PARTITIONS[kind]
    table = partitioned(tables, kind, is_keyed=is_keyed)
    rows = table.batch([{"id": at, "p": values[at % 2], "name": str(at)} for at in range(4)])

    table.tier(rows)

    found = table.rows().sort_by("id").combine_chunks()
    assert found.to_batches()[0].equals(rows)
    splits = table.source.plan(table.head().snapshot_id)
    assert {split.partition for split in splits} == {(("p", text),) for text in texts}


def test_a_split_holds_the_rows_of_its_own_partition(tables):
    table = partitioned(tables, DateType(), is_keyed=True)
    table.tier([{"id": at, "p": at % 3, "name": "x"} for at in range(9)])

    found = {}
    for split in table.source.plan(table.head().snapshot_id):
        for batch in table.source.read(split):
            found.setdefault(split.partition, []).extend(batch["id"].to_pylist())

    assert {part: sorted(ids) for part, ids in found.items()} == {
        (("p", f"1970-01-0{day + 1}"),): [day, day + 3, day + 6] for day in range(3)
    }


def test_several_partition_keys_come_in_their_order(tables):
    day, land = DateType(nullable=False), StringType(nullable=False)
    columns = {"id": BigIntType(), "day": day, "land": land}
    table = tables.make(columns, partition_keys=("land", "day"))

    table.tier([{"id": 1, "day": 0, "land": "de"}, {"id": 2, "day": 1, "land": "fr"}])

    splits = table.source.plan(table.head().snapshot_id)
    assert {split.partition for split in splits} == {
        (("land", "de"), ("day", "1970-01-01")),
        (("land", "fr"), ("day", "1970-01-02")),
    }
    assert [row["id"] for row in table.values()] == [1, 2]


@pytest.mark.parametrize("key", [(), ("id",)], ids=["log", "keyed"])
@pytest.mark.parametrize(
    "kind", [BigIntType(nullable=False), StringType(nullable=False)], ids=["bigint", "string"]
)
def test_a_split_knows_the_bucket_of_its_rows(tables, key, kind):
    table = tables.make(
        {"id": kind, "name": StringType()}, key=key, bucket_keys=("id",), bucket_count=4
    )
    ids = list(range(40)) if kind == BigIntType(nullable=False) else [str(at) for at in range(40)]
    rows = table.batch([{"id": each, "name": "x"} for each in ids])
    bucket_of = dict(zip(ids, table.buckets(rows), strict=True))

    table.tier(rows)

    found = {}
    for split in table.source.plan(table.head().snapshot_id):
        for batch in table.source.read(split):
            found.update(dict.fromkeys(batch["id"].to_pylist(), split.bucket))
    assert found == bucket_of


def test_a_bucket_of_a_keyed_table_is_one_split(tables):
    table = tables.keyed(bucket_count=3)
    for _ in range(3):
        table.tier([{"id": at, "name": "x"} for at in range(30)])

    buckets = [split.bucket for split in table.source.plan(table.head().snapshot_id)]

    assert sorted(buckets) == [0, 1, 2]


def test_rows_without_a_bucket_key_are_in_no_known_bucket(tables):
    table = tables.make(bucket_count=3)

    table.tier([{"id": 1, "name": "a"}])

    splits = table.source.plan(table.head().snapshot_id)
    assert [split.bucket for split in splits] == [UNKNOWN_BUCKET]


def test_only_one_bucket_of_many_can_hold_rows(tables):
    table = tables.keyed(bucket_count=8)

    table.tier([{"id": 5, "name": "a"}])

    assert len(table.source.plan(table.head().snapshot_id)) == 1
    assert table.values() == [{"id": 5, "name": "a"}]


def test_a_partition_key_may_stand_anywhere_in_the_primary_key(tables):
    columns = {
        "a": BigIntType(nullable=False),
        "day": DateType(nullable=False),
        "b": StringType(nullable=False),
        "v": BigIntType(),
    }
    table = tables.make(
        columns, key=("b", "day", "a"), partition_keys=("day",), bucket_keys=("a",), bucket_count=2
    )
    rows = [{"a": at, "day": at % 2, "b": "k", "v": at} for at in range(6)]

    table.tier(rows)
    table.tier([{**row, "v": 100} for row in rows[:3]])

    assert [row["v"] for row in table.rows().sort_by("a").to_pylist()] == [100, 100, 100, 3, 4, 5]


def test_files_tell_their_rows_and_bytes(tables):
    table = tables.make()
    table.tier([{"id": at, "name": "x"} for at in range(7)])

    (split,) = table.source.plan(table.head().snapshot_id)

    assert split.row_count == 7
    assert all(file.is_plain and file.byte_count > 0 for file in split.files)
    assert table.head().row_count == 7
    assert table.head().file_count == 1
    assert table.head().byte_count >= split.files[0].byte_count
