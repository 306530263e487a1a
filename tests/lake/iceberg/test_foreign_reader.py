"""pyiceberg's own reader, which knows nothing of Headwater, reads the same rows."""

from dataclasses import replace

import pytest
from pyiceberg.transforms import BucketTransform, IdentityTransform

from headwater.model.schema import Column
from headwater.model.types import BigIntType, DateType, IntType, StringType

PARTED = {"id": BigIntType(nullable=False), "day": DateType(nullable=False), "name": StringType()}


def by_id(table) -> list[dict[str, object]]:
    return sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"])


def test_rows_of_a_log_table(tables, foreign):
    table = tables.make()
    table.tier([{"id": 1, "name": "a"}, {"id": 2, "name": None}])
    table.tier([{"id": 3, "name": "c"}])

    assert by_id(foreign(table.spec)) == table.values()


def test_replaced_and_deleted_rows_are_gone(tables, foreign):
    table = tables.keyed(bucket_count=2)
    table.tier([{"id": at, "name": "old"} for at in range(20)])
    table.tier([{"id": at, "name": "new"} for at in range(0, 20, 3)])
    table.tier([{"id": 3, "name": ""}, {"id": 4, "name": ""}], deleted=[True, True])

    found = by_id(foreign(table.spec))

    assert found == sorted(table.values(), key=lambda row: row["id"])
    assert [row["id"] for row in found] == [at for at in range(20) if at not in (3, 4)]


@pytest.mark.parametrize("key", [(), ("id", "day")], ids=["log", "keyed"])
def test_partitions_and_buckets_are_those_of_iceberg(tables, foreign, key):
    layout = {"partition_keys": ("day",), "bucket_keys": ("id",), "bucket_count": 3}
    table = tables.make(PARTED, key=key, **layout)
    table.tier([{"id": at, "day": at % 2, "name": "x"} for at in range(30)])

    seen = foreign(table.spec)

    assert len(by_id(seen)) == 30
    transforms = [type(field.transform) for field in seen.spec().fields]
    assert transforms == [IdentityTransform, BucketTransform]
    # Whoever plans by bucket finds the row where Iceberg's own function says it is.
    assert [len(seen.scan(row_filter=f"id = {at}").to_arrow()) for at in range(30)] == [1] * 30


def test_columns_that_came_went_and_changed_their_names(tables, foreign):
    table = tables.make({"id": BigIntType(), "a": StringType(), "b": IntType()})
    table.tier([{"id": 1, "a": "x", "b": 7}])
    schema = table.spec.schema
    first, second, _ = schema.columns
    columns = (first, replace(second, name="c"), Column(name="a", type=IntType(), column_id=9))
    evolved = table.evolved(
        replace(table.spec, schema=replace(schema, columns=columns, highest_field_id=9))
    )

    evolved.tier([{"id": 2, "c": "y", "a": 8}])

    assert by_id(foreign(table.spec)) == [
        {"id": 1, "c": "x", "a": None},
        {"id": 2, "c": "y", "a": 8},
    ]


def test_rows_after_compaction_and_expiry(tables, foreign):
    table = tables.keyed()
    for turn in range(6):
        table.tier([{"id": at, "name": str(turn)} for at in range(turn, 10)])
    before = table.values()

    table.compact()

    seen = foreign(table.spec)
    assert by_id(seen) == sorted(before, key=lambda row: row["id"])
    summary = seen.current_snapshot().summary
    assert summary["total-data-files"] == "1"
    assert summary["total-delete-files"] == summary["total-position-deletes"] == "0"
    assert summary["total-records"] == "10"
    assert summary["total-files-size"] == str(
        sum(f.file.file_size_in_bytes for f in seen.scan().plan_files())
    )


def test_a_data_file_has_one_file_of_deletes_however_many_rounds_there_are(tables, foreign):
    table = tables.keyed()
    table.tier([{"id": at, "name": "old"} for at in range(100)])
    for at in range(3):
        table.tier([{"id": at, "name": "new"}])

    (task, *others) = sorted(
        foreign(table.spec).scan().plan_files(), key=lambda each: -each.file.record_count
    )

    assert [file.record_count for file in task.delete_files] == [3]
    assert all(not each.delete_files for each in others)
