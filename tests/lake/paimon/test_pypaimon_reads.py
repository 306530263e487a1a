"""The reader of pypaimon, which knows nothing of us, sees the same rows."""

import pytest

from headwater.model.types import (
    ArrayType,
    BigIntType,
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    IntType,
    MapType,
    RowField,
    RowType,
    StringType,
    TimestampLtzType,
    TimestampType,
    TimeType,
)
from tests.lake.contract.changes import added, dropped, renamed

KEY = {"id": BigIntType(nullable=False), "part": StringType(nullable=False), "name": StringType()}
WIDE = {
    "id": BigIntType(nullable=False),
    "money": DecimalType(precision=12, scale=2),
    "large": DecimalType(precision=30, scale=3),
    "at": TimestampType(precision=6),
    "moment": TimestampLtzType(precision=3),
    "clock": TimeType(precision=3),
    "day": DateType(),
    "code": BinaryType(length=2),
    "flag": BooleanType(),
    "tags": ArrayType(element=StringType()),
    "counts": MapType(key=StringType(nullable=False), value=IntType()),
    "place": RowType(fields=(RowField(name="x", type=IntType(), field_id=50),)),
}


def read(table):
    builder = table.new_read_builder()
    splits = builder.new_scan().plan().splits()
    return builder.new_read().to_arrow(splits)


def same_rows(table, foreign) -> bool:
    expected = table.rows().sort_by("id")
    found = read(foreign(table)).select(expected.column_names).cast(expected.schema)
    return found.sort_by("id").equals(expected)


@pytest.mark.parametrize("key", [(), ("id",)], ids=["log", "keyed"])
def test_values_of_many_types_are_the_same(tables, foreign, key):
    table = tables.make(WIDE, key=key)
    values = [None, 1, "b"]
    rows = [dict.fromkeys(WIDE) | {"id": at} for at, _ in enumerate(values)]
    batch = table.batch(
        [
            *rows,
            {
                **dict.fromkeys(WIDE),
                "id": 9,
                "code": b"ab",
                "flag": True,
                "tags": ["a", None],
                "counts": [("k", 1)],
                "place": {"x": 4},
            },
        ]
    )

    table.tier(batch)

    assert same_rows(table, foreign)


def test_deleted_and_replaced_rows_are_gone(tables, foreign):
    table = tables.make(KEY, key=("id", "part"), partition_keys=("part",), bucket_count=2)
    table.tier([{"id": at, "part": "ab"[at % 2], "name": "old"} for at in range(20)])
    table.tier(
        [{"id": at, "part": "ab"[at % 2], "name": "new"} for at in range(10)],
        deleted=[at < 5 for at in range(10)],
    )

    assert same_rows(table, foreign)
    assert table.rows().num_rows == 15


def test_a_bucket_whose_only_file_deletes_reads_as_nothing(tables, foreign):
    table = tables.keyed()
    table.tier([{"id": 1, "name": "a"}], deleted=[True])

    assert read(foreign(table)).num_rows == 0
    assert table.values() == []


@pytest.mark.parametrize("key", [(), ("id",)], ids=["log", "keyed"])
def test_rows_are_the_same_after_compaction_and_merged_manifests(tables, foreign, key):
    columns = {"id": BigIntType(nullable=False), "name": StringType()}
    table = tables.make(columns, key=key)
    for turn in range(9):
        table.tier([{"id": turn * (1 if key else 10) + at, "name": f"{turn}"} for at in range(6)])
    table.compact()

    table.keeper.merge_manifests(on=table.head())

    assert same_rows(table, foreign)


@pytest.mark.parametrize("key", [(), ("id",)], ids=["log", "keyed"])
def test_rows_are_the_same_after_columns_changed(tables, foreign, key):
    columns = {"id": BigIntType(nullable=False), "a": StringType(), "b": IntType()}
    table = tables.make(columns, key=key)
    table.tier([{"id": 1, "a": "x", "b": 2}])
    table = table.evolved(added(dropped(renamed(table.spec, "a", "c"), "b"), "d", IntType()))

    table.tier([{"id": 2, "c": "y", "d": 5}])

    assert table.values() == [{"id": 1, "c": "x", "d": None}, {"id": 2, "c": "y", "d": 5}]
    assert same_rows(table, foreign)


def test_its_writer_and_ours_take_turns(tables, foreign):
    table = tables.make({"id": BigIntType(), "name": StringType()})
    table.tier([{"id": 1, "name": "ours"}])
    builder = foreign(table).new_batch_write_builder()
    write, commit = builder.new_write(), builder.new_commit()
    write.write_arrow_batch(table.batch([{"id": 2, "name": "theirs"}]))
    commit.commit(write.prepare_commit())
    boundary = table.head().boundary

    table.tier([{"id": 3, "name": "ours"}])

    assert [row["id"] for row in table.values()] == [1, 2, 3]
    assert boundary is not None
    assert table.source.snapshot(2).boundary == table.source.snapshot(1).boundary
    assert same_rows(table, foreign)


def test_a_filter_of_its_planner_uses_our_statistics(tables, foreign):
    table = tables.make({"id": BigIntType(), "name": StringType()})
    for turn in range(3):
        table.tier([{"id": turn * 10 + at, "name": "x"} for at in range(10)])
    builder = foreign(table).new_read_builder()

    wanted = builder.new_predicate_builder().greater_or_equal("id", 25)
    splits = builder.with_filter(wanted).new_scan().plan().splits()

    assert sum(len(split.file_paths) for split in splits) == 1


def test_a_tag_keeps_what_it_names_from_being_expired(tables, foreign):
    table = tables.make({"id": BigIntType(), "name": StringType()})
    for turn in range(6):
        table.tier([{"id": turn, "name": "x"}])
    foreign(table).create_tag("kept", snapshot_id=2)
    table.compact()
    retention = table.keeper.retention()

    everything_old = type(retention)(snapshots_min=1, age_ms=0)
    table.keeper.expire(everything_old, now_ms=table.head().committed_ms + 1)
    table.keeper.remove_orphans(older_than_ms=table.head().committed_ms + 10**6)

    tagged = foreign(table).copy({"scan.tag-name": "kept"})
    assert sorted(read(tagged)["id"].to_pylist()) == [0, 1]
    assert read(foreign(table)).num_rows == 6
