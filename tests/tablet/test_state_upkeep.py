"""What a snapshot waits for, and what upkeep leaves alone."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from headwater.kv.index import LOAD_MAX, SLOTS_MIN
from headwater.model.schema import Column, Schema
from headwater.model.types import IntType
from tests.cases import cases
from tests.tablet.keyed_bucket import Bucket, Versions

SCHEMA = Schema(
    columns=(
        Column(name="id", type=IntType(nullable=False)),
        Column(name="count", type=IntType()),
    ),
    primary_key=("id",),
)


@pytest.fixture
def bucket():
    bucket = Bucket(Versions(SCHEMA))
    yield bucket
    bucket.close()


def put(bucket, *rows, acks=-1):
    bucket.put(bucket.batch([((row[0],), row) for row in rows]), acks=acks)


def test_a_snapshot_counts_only_once_its_log_is_durable(bucket):
    put(bucket, (1, 1), acks=0)
    assert bucket.log.synced_offset < bucket.log.end_offset

    bucket.tend(bucket.upkeep.snapshot())

    assert bucket.log.synced_offset == bucket.log.end_offset


def test_a_state_that_did_not_change_is_not_saved_again(bucket):
    put(bucket, (1, 1))

    assert bucket.tend(bucket.upkeep.snapshot())
    assert not bucket.tend(bucket.upkeep.snapshot())


def test_a_state_that_only_moved_is_saved_again(bucket):
    for number in range(40):
        put(bucket, *((key, number) for key in range(10)))
    bucket.tend(bucket.upkeep.snapshot())
    offset = bucket.log.end_offset

    assert bucket.tend(bucket.upkeep.compact())

    assert bucket.log.end_offset == offset
    assert bucket.tend(bucket.upkeep.snapshot())
    assert bucket.lookup([(3,)]) == [(3, 39)]


@contextmanager
def dirty(**properties: str) -> Iterator[Bucket]:
    """Open a bucket whose state holds forty times as many rows as are current."""
    with closing(Bucket(Versions(SCHEMA, **properties))) as bucket:
        soil(bucket)
        yield bucket


def soil(bucket):
    for number in range(40):
        put(bucket, *((key, number) for key in range(10)))
    bucket.tend(bucket.upkeep.snapshot())


def test_compaction_waits_for_its_interval():
    with dirty(**{"kv.compaction.interval": "1 min"}) as bucket:
        first = bucket.tend(bucket.upkeep.compact_when_due(100.0))
        soil(bucket)

        assert first
        assert not bucket.tend(bucket.upkeep.compact_when_due(159.9))
        assert bucket.tend(bucket.upkeep.compact_when_due(160.0))


@cases(("ratio", "is_rewritten"), [("0.3", 1), ("0.5", 0), ("1", 0)])
def test_compaction_rewrites_what_is_dirtier_than_the_ratio(ratio, is_rewritten):
    with closing(Bucket(Versions(SCHEMA, **{"kv.compaction.dirty-ratio": ratio}))) as bucket:
        put(bucket, *((key, 0) for key in range(10)))
        bucket.tend(bucket.upkeep.snapshot())
        put(bucket, *((key, 1) for key in range(4)))

        compacted = bucket.tend(bucket.upkeep.compact_when_due(0.0))

        assert compacted == is_rewritten
        assert bucket.lookup([(3,), (7,)]) == [(3, 1), (7, 0)]


def test_what_is_dead_as_a_whole_goes_under_any_ratio():
    with dirty(**{"kv.compaction.dirty-ratio": "1"}) as bucket:
        assert bucket.tend(bucket.upkeep.compact_when_due(0.0))
        assert all(bucket.live_bytes().values())


def test_compaction_can_be_off():
    with dirty(**{"kv.compaction.enabled": "false"}) as bucket:
        assert bucket.tend(bucket.upkeep.compact_when_due(0.0)) == 0
        assert bucket.tend(bucket.upkeep.compact())


def test_a_small_state_is_not_compacted(bucket):
    put(bucket, (1, 1))

    assert bucket.tend(bucket.upkeep.compact()) == 0


def test_a_row_that_was_written_meanwhile_does_not_expire(bucket):
    put(bucket, (1, 1), (2, 1))
    keys = bucket.keys([(1,), (2,)])
    seen = bucket.tablet.state.find(keys).locations

    put(bucket, (1, 2))

    assert bucket.tend(bucket.tablet.remove(keys, seen)) == 1
    assert bucket.lookup([(1,), (2,)]) == [(1, 2), None]


def test_a_batch_may_update_rows_while_it_makes_the_index_grow(bucket):
    count = int(SLOTS_MIN * LOAD_MAX) - 1
    put(bucket, *((key, 1) for key in range(count)))
    before = bucket.tablet.state.index_bytes

    put(bucket, *((key, 2) for key in range(count // 2, 2 * count)))

    assert bucket.tablet.state.index_bytes > before
    expected = [(key, 1 if key < count // 2 else 2) for key in range(2 * count)]
    assert bucket.lookup([(key,) for key in range(2 * count)]) == expected
    assert bucket.tablet.row_count == 2 * count
