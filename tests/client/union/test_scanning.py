"""Scans of parts of a table, and of tables whose log does not tell what updates replaced."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from headwater.errors import PositionMissingError, RequestError, UnsupportedError
from tests.union.storage import Storage
from tests.union.story import Story, Traits


@pytest.fixture(scope="module")
def storage(tmp_path_factory) -> Iterator[Storage]:
    opened = Storage.open(tmp_path_factory.mktemp("scanning") / "data")
    yield opened
    opened.close()


@pytest.fixture
def cut(storage) -> Story:
    """Tell of a log table whose first rows are in the lake alone."""
    story = Story(storage, Traits(buckets=1))
    story.write(rows(1, 2))
    story.tier()
    story.storage.cut(story.table.info.table_id)
    story.write(rows(3))
    story.write(rows(4))
    return story


def rows(*numbers):
    return [{"id": each, "n": 0, "text": "a"} for each in numbers]


def ids(scan):
    return sorted(row["id"] for row in scan.to_pylist())


def moment(ms):
    return datetime.fromtimestamp(ms / 1000, UTC)


def test_a_scan_from_the_beginning_to_an_end_reads_the_lake_too(cut):
    assert ids(cut.table.scan(end={0: 3})) == [1, 2, 3]
    assert ids(cut.table.scan(start="earliest", end="latest")) == [1, 2, 3, 4]
    assert ids(cut.table.scan(start="earliest", end="earliest")) == []


def test_a_scan_can_begin_where_the_log_is(cut):
    assert ids(cut.table.scan(start={0: 3})) == [4]
    assert ids(cut.table.scan(start="latest")) == []


def test_a_start_that_only_the_lake_reaches_is_refused(cut):
    with pytest.raises(PositionMissingError, match="no offsets and no times"):
        cut.table.scan(start={0: 0}).to_arrow()
    with pytest.raises(PositionMissingError, match="no offsets and no times"):
        cut.table.scan(start=moment(1)).to_arrow()


def test_a_scan_can_begin_at_a_moment_of_the_log(cut):
    at = cut.storage.pass_time()
    cut.write(rows(5))

    assert ids(cut.table.scan(start=moment(at))) == [5]


def test_a_moment_before_the_beginning_of_the_log_is_refused(cut):
    with pytest.raises(PositionMissingError, match="does not reach back"):
        cut.table.scan(as_of=1).to_arrow()


def test_bounds_and_another_position_are_refused_together(cut):
    with pytest.raises(RequestError, match="cannot be combined with another position"):
        cut.table.scan(start={0: 3}, snapshot_id=1)


def test_rows_before_updates_that_the_log_does_not_tell_are_refused(storage):
    traits = Traits(is_keyed=True, buckets=1, options=(("table.changelog.image", "WAL"),))
    story = Story(storage, traits)
    story.write(rows(1, 2))
    view = story.table.view()
    offsets = story.table.offsets()

    story.write(rows(1))

    assert ids(story.table.scan()) == [1, 2]
    with pytest.raises(UnsupportedError, match="updated since"):
        view.scan().to_arrow()
    with pytest.raises(UnsupportedError, match="no rows before updates"):
        story.table.scan(offsets=offsets).to_arrow()


def test_rows_before_updates_are_told_by_the_lake_where_the_log_does_not(storage):
    traits = Traits(is_keyed=True, buckets=1, options=(("table.changelog.image", "WAL"),))
    story = Story(storage, traits)
    story.write(rows(1, 2))
    story.tier()
    story.write(rows(2, 3))
    view, offsets = story.table.view(), story.table.offsets()

    story.write(rows(3, 4))

    assert ids(view.scan()) == [1, 2, 3]
    assert ids(story.table.scan(offsets=offsets)) == [1, 2, 3]


def test_values_of_a_dropped_column_that_nobody_holds_any_more_are_refused(storage):
    story = Story(storage, Traits(is_keyed=True, buckets=1))
    story.add_column("late", "INT")
    story.write([{"id": 1, "late": 5}, {"id": 2, "late": 6}])
    view = story.table.view()

    story.drop_column("late")
    kept = view.scan(columns=["late"]).to_arrow()["late"].to_pylist()
    story.write(rows(1))

    assert sorted(kept) == [5, 6]
    assert ids(view.scan(columns=["id"])) == [1, 2]
    with pytest.raises(PositionMissingError, match="The values of 'late'"):
        view.scan().to_arrow()
