"""Moments of logs that lose their beginning while a reader asks for them."""

from collections.abc import Iterator

import pytest

from headwater.errors import OffsetOutOfRangeError, PositionMissingError
from headwater.model.boundary import LakeBucket
from tests.client.union.test_scanning import ids, moment, rows
from tests.engines.spark.reading.reader_run import batch_reader, read_batch
from tests.union.cutting import Cut
from tests.union.storage import Storage
from tests.union.story import Story, Traits

QUESTIONS_MAX = 8
REFUSED = "refused"
LOG = Traits(buckets=1)
KEYED = Traits(is_keyed=True, buckets=1)
ALONE = Traits(is_keyed=True, buckets=1, options=(("table.datalake.enabled", False),))


@pytest.fixture(scope="module")
def storage(tmp_path_factory) -> Iterator[Storage]:
    opened = Storage.open(tmp_path_factory.mktemp("moments") / "data")
    yield opened
    opened.close()


@pytest.fixture
def outcomes(storage, monkeypatch):
    """Cut a log after each question that a reader asks, and return what it read each time."""

    def found(read, traits):
        seen = []
        for questions in range(1, QUESTIONS_MAX):
            story, at = cut_once(storage, traits)
            with monkeypatch.context() as patched:
                cut = Cut(patched, story, after=questions)
                seen.append(rows_or_refusal(read, story, at))
            if not cut.is_done:
                return seen
        raise AssertionError(f"More than {QUESTIONS_MAX} questions were asked.")

    return found


def cut_once(storage, traits) -> tuple[Story, int]:
    """Tell of rows 1 to 4, of which the log has no 1, and of a moment between 2 and 3."""
    story = Story(storage, traits)
    story.write(rows(1))
    story.write(rows(2))
    storage.cut(story.table.info.table_id, kept={LakeBucket(None, 0): 1}, checked=False)
    at = storage.pass_time()
    story.write(rows(3))
    story.write(rows(4))
    return story, at


def rows_or_refusal(read, story, at):
    try:
        return read(story, at)
    except (OffsetOutOfRangeError, PositionMissingError):
        return REFUSED


def test_rows_by_key_at_a_moment_are_right_or_refused_when_their_log_is_cut(outcomes):
    seen = outcomes(lambda story, at: ids(story.table.scan(as_of=at)), KEYED)

    assert REFUSED in seen
    assert all(each in (REFUSED, [1, 2]) for each in seen), seen


def test_spark_reads_rows_by_key_at_a_moment_right_or_not_at_all_when_the_log_is_cut(outcomes):
    def read(story, at):
        options = {"scan__timestamp-millis": str(at)}
        reader = batch_reader(story.table, story.storage.address, **options)
        return sorted(read_batch(reader)["id"].to_pylist())

    seen = outcomes(read, ALONE)

    assert REFUSED in seen
    assert all(each in (REFUSED, [1, 2]) for each in seen), seen


def test_a_log_at_a_moment_has_no_rows_written_later_when_it_is_cut(outcomes):
    seen = outcomes(lambda story, at: ids(story.table.scan(as_of=at)), LOG)

    assert REFUSED in seen
    assert all(each in (REFUSED, [2]) for each in seen), seen


def test_a_scan_from_a_moment_has_all_rows_since_or_none_when_the_log_is_cut(outcomes):
    seen = outcomes(lambda story, at: ids(story.table.scan(start=moment(at))), LOG)

    assert REFUSED in seen
    assert all(each in (REFUSED, [3, 4]) for each in seen), seen
