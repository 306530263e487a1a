"""A limit gives as many rows as are wanted, or all that there are."""

import pytest

from tests.union.machine import counted
from tests.union.story import Story, Traits

FORMATS = ("iceberg", "paimon")


def rows(numbers, *, n=0):
    return [{"id": each, "n": n, "text": "a"} for each in numbers]


def with_few_left(storage, lake_format, *, is_tiered) -> Story:
    """Return a table by key with many changes in each bucket, of which few rows are left."""
    story = Story(storage, Traits(format=lake_format, is_keyed=True, buckets=3))
    story.write(rows(range(30)))
    if is_tiered:
        story.tier()
    story.write(rows(range(30), n=1))
    story.delete([{"id": each} for each in range(3, 30)])
    return story


@pytest.mark.parametrize("lake_format", FORMATS)
@pytest.mark.parametrize("is_tiered", [False, True])
def test_changes_that_leave_no_row_do_not_count(storage, lake_format, is_tiered):
    story = with_few_left(storage, lake_format, is_tiered=is_tiered)

    found = [story.table.scan(limit=limit).to_arrow() for limit in range(5)]

    assert [each.num_rows for each in found] == [0, 1, 2, 3, 3]
    assert all(counted(each) <= story.expected() for each in found)


@pytest.mark.parametrize("lake_format", FORMATS)
def test_keys_that_changes_leave_do_not_count_where_the_lake_has_no_files(storage, lake_format):
    story = Story(storage, Traits(format=lake_format, is_keyed=True, buckets=3))
    story.write(rows(range(30)))
    story.delete([{"id": each} for each in range(30)])
    story.tier()
    story.write(rows(range(30)))
    story.delete([{"id": each} for each in range(3, 30)])

    found = [story.table.scan(limit=limit).to_arrow().num_rows for limit in range(5)]

    assert found == [0, 1, 2, 3, 3]


@pytest.mark.parametrize("lake_format", FORMATS)
def test_deleted_rows_of_files_do_not_count(storage, lake_format):
    story = with_few_left(storage, lake_format, is_tiered=True)
    story.tier()

    found = [story.table.scan(limit=limit).to_arrow().num_rows for limit in range(5)]

    assert found == [0, 1, 2, 3, 3]


@pytest.mark.parametrize("lake_format", FORMATS)
def test_rows_of_lake_and_log_count_together(storage, lake_format):
    story = Story(storage, Traits(format=lake_format, buckets=3))
    story.write(rows(range(5)))
    story.tier()
    story.write(rows(range(5, 10)))

    found = [story.table.scan(limit=limit).to_arrow().num_rows for limit in (0, 1, 6, 10, 11)]

    assert found == [0, 1, 6, 10, 10]
