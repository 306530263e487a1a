"""What lake and log do not hold together is an error, and strangers in the lake are no harm."""

import pytest

from headwater.errors import (
    InvalidTokenError,
    LakeSnapshotMissingError,
    LogGapError,
    OffsetOutOfRangeError,
    PositionMissingError,
)
from tests.union.engines import ENGINES
from tests.union.machine import counted
from tests.union.story import Story, Traits

FORMATS = ("iceberg", "paimon")


@pytest.fixture(params=FORMATS)
def lake_format(request):
    return request.param


@pytest.fixture(params=[False, True], ids=["log", "keyed"])
def story(storage, lake_format, request) -> Story:
    return Story(storage, Traits(format=lake_format, is_keyed=request.param, buckets=1))


@pytest.fixture
def log_story(storage, lake_format) -> Story:
    return Story(storage, Traits(format=lake_format, buckets=1))


@pytest.fixture
def keyed_story(storage, lake_format) -> Story:
    return Story(storage, Traits(format=lake_format, is_keyed=True, buckets=1))


def rows(*numbers, n=0):
    return [{"id": each, "n": n, "text": "a"} for each in numbers]


def force_a_gap(story):
    """Make the log begin after the end of the lake, as only a broken retention would."""
    story.write(rows(1, 2))
    story.tier()
    story.write(rows(3, 4))
    story.write(rows(5))
    story.storage.cut(story.table.info.table_id, checked=False)
    story.write(rows(6))


def test_a_gap_between_lake_and_log_is_an_error(story):
    force_a_gap(story)

    with pytest.raises(LogGapError) as caught:
        story.table.scan().to_arrow()

    assert caught.value.hint


def test_by_key_a_gap_is_closed_by_what_the_storage_holds_if_that_is_asked_for(keyed_story):
    force_a_gap(keyed_story)

    assert counted(keyed_story.table.scan(mode="log").to_arrow()) == keyed_story.expected()


def test_a_gap_does_not_hide_a_partition_that_only_the_lake_has(storage, lake_format):
    traits = Traits(format=lake_format, is_keyed=True, is_partitioned=True, buckets=1)
    story = Story(storage, traits)
    story.write([{**row, "day": "mon"} for row in rows(1, 2)])
    story.write([{**row, "day": "tue"} for row in rows(3)])
    story.tier()
    story.drop_partition("mon")
    story.write([{**row, "day": "tue"} for row in rows(4, 5)])

    storage.cut(story.table.info.table_id, checked=False)
    story.write([{**row, "day": "tue"} for row in rows(6)])

    with pytest.raises(LogGapError):
        story.table.scan().to_arrow()


@pytest.mark.parametrize("name", ["arrow", "duckdb", "polars", "datafusion"])
def test_a_gap_is_an_error_in_every_engine(log_story, name):
    token = _token_before_gap(log_story)
    engine = ENGINES[name](log_story.storage.client)

    with pytest.raises(Exception, match=r"offset|log"):
        engine.rows(str(log_story.table.path), token, columns=None, where=[])

    engine.close()


def _token_before_gap(story):
    story.write(rows(1, 2))
    story.tier()
    story.write(rows(3, 4))
    token = story.table.view().token()
    story.storage.cut(story.table.info.table_id, checked=False)
    return token


def test_a_token_whose_rows_are_gone_says_so(log_story):
    token = _token_before_gap(log_story)

    with pytest.raises(PositionMissingError) as caught:
        log_story.table.view(token=token).scan().to_arrow()

    assert caught.value.hint


def test_a_token_goes_over_to_a_snapshot_that_holds_what_its_own_does_not(story):
    story.write(rows(1, 2))
    story.tier()
    story.write(rows(2, 3, n=5))
    token, position = story.table.view().token(), story.now()
    story.tier()

    story.cut()

    assert counted(story.table.view(token=token).scan().to_arrow()) == story.expected(position)


def test_a_snapshot_that_expired_says_which_there_are(story):
    story.write(rows(1))
    first = story.tier()
    story.write(rows(2))
    second = story.tier()
    story.expire_snapshots(keep=1)

    with pytest.raises(LakeSnapshotMissingError, match=str(second.snapshot_id)):
        story.table.scan(snapshot_id=first.snapshot_id).to_arrow()


def test_a_token_outlives_its_snapshot_where_logs_allow(story):
    story.write(rows(1, 2))
    story.tier()
    token, position = story.table.view().token(), story.now()
    story.compact(reports=True)
    story.tier()

    story.expire_snapshots(keep=1)

    assert counted(story.table.view(token=token).scan().to_arrow()) == story.expected(position)


def test_a_token_of_another_table_is_refused(storage, story):
    other = Story(storage, Traits())

    with pytest.raises(InvalidTokenError):
        story.table.view(token=other.table.view().token())


def test_an_offset_behind_the_end_is_refused(story):
    story.write(rows(1, 2))

    with pytest.raises(OffsetOutOfRangeError):
        story.table.scan(offsets={0: 99}).to_arrow()


def test_an_offset_between_the_two_halves_of_an_update_gives_the_row_before(story):
    for n in range(3):
        story.write(rows(1, n=n))

    for end in range(story.oracle.ends()[next(iter(story.oracle.logs))] + 1):
        now = story.now()
        position = type(now)(
            ends=dict.fromkeys(now.ends, end), held={}, schema_id=now.schema_id, live=now.live
        )
        found = story.table.scan(offsets={0: end}).to_arrow()
        assert counted(found) == story.expected(position)


def test_a_moment_before_the_log_begins_is_refused(story):
    story.write(rows(1))
    moment = story.storage.pass_time()
    story.write(rows(2))
    story.tier()
    story.cut()
    story.write(rows(3))

    with pytest.raises(PositionMissingError):
        story.table.scan(as_of=moment).to_arrow()


def test_a_moment_gives_the_same_before_and_after_tiering(story):
    story.write(rows(1, 2))
    moment, position = story.storage.pass_time(), story.now()
    story.write(rows(2, 3, n=5))

    before = counted(story.table.scan(as_of=moment).to_arrow())
    story.tier()
    after = counted(story.table.scan(as_of=moment).to_arrow())

    assert before == after == story.expected(position)


def test_a_table_made_anew_does_not_read_the_lake_of_the_one_before(story):
    story.write(rows(1, 2))
    story.tier()
    storage, path = story.storage, story.table.path
    storage.client.drop_table(path)

    made = storage.client.create_table(
        path,
        {"id": "BIGINT", "n": "INT", "text": "STRING"},
        primary_key="id" if story.traits.is_keyed else (),
        bucket_by="id",
        buckets=1,
        options={"table.datalake.enabled": False},
    )

    assert made.scan().to_arrow().num_rows == 0


def test_rows_are_read_although_the_lake_is_turned_off(story):
    story.write(rows(1, 2))
    story.tier()

    story.table.set_options({"table.datalake.enabled": False})

    assert counted(story.table.scan().to_arrow()) == story.expected()


def test_a_stranger_who_compacts_the_lake_changes_nothing(story):
    for number in range(4):
        story.write(rows(number, number + 1, n=number))
        story.tier()
    story.write(rows(2, 9, n=7))

    story.compact(reports=False)
    story.expire_snapshots(keep=1)

    assert counted(story.table.scan().to_arrow()) == story.expected()
    assert (
        counted(story.table.scan(mode="lake").to_arrow()).total()
        == story.expected(story.snapshots[story.head().snapshot_id]).total()
    )
