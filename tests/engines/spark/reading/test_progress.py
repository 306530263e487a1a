"""What a stream reads next."""

from hypothesis import given
from hypothesis import strategies as st

from headwater.engines.spark.read.progress import next_offset, splits_between, unread
from headwater.engines.spark.read.stream_offset import StreamOffset
from headwater.model.bucket import OffsetRange, TableBucket
from headwater.read.offsets import Place
from headwater.read.split import LogRange, StateAt

A, B, C = (Place("p", number) for number in range(3))
IDS = {"p": 7}


def bucket(place: Place, partition_id: int = 7) -> TableBucket:
    return TableBucket(1, place.bucket, partition_id)


def log(place: Place, start: int, end: int, partition_id: int = 7) -> LogRange:
    return LogRange.of(place, bucket(place, partition_id), OffsetRange(start, end))


def at(positions) -> StreamOffset:
    return StreamOffset(positions=positions, partition_ids=IDS if positions else {})


def advanced(start, ends, *, rows_max=None, late=frozenset(), partition_id=7) -> StreamOffset:
    buckets = {place: bucket(place, partition_id) for place in ends}
    left = unread(start, ends, buckets=buckets, begun_late=late)
    return next_offset(
        start, left, buckets=buckets, rows_max=rows_max, state_rows=left.states, now_ms=5
    )


def test_everything_is_read_where_nothing_limits_it():
    assert advanced(at({A: 3, B: 9}), {A: 10, B: 9}) == at({A: 10, B: 9})


def test_a_start_stays_as_it_is_where_there_is_nothing_to_read():
    assert advanced(at({A: 10}), {A: 10}) == at({A: 10})


def test_a_bucket_that_is_new_is_read_from_its_first_row_once_it_has_one():
    assert advanced(at({A: 1}), {A: 1, B: 0}) == at({A: 1})
    assert advanced(at({A: 1}), {A: 1, B: 4}) == at({A: 1, B: 4})
    assert splits_between(at({A: 1}), at({A: 1, B: 4}), 1)[1] == log(B, 0, 4)


def test_a_partition_that_was_made_anew_is_read_from_its_first_row():
    end = advanced(at({A: 50}), {A: 4}, partition_id=8)

    assert end == StreamOffset(positions={A: 4}, partition_ids={"p": 8})
    assert splits_between(at({A: 50}), end, 1) == [log(A, 0, 4, partition_id=8)]


def test_a_state_is_read_at_the_end_of_its_log_and_then_its_changes():
    end = advanced(at({A: None, B: 2}), {A: 10, B: 5})

    assert (end.positions, end.state_ms) == ({A: 10, B: 5}, 5)
    assert splits_between(at({A: None, B: 2}), end, 1) == [
        StateAt.of(A, bucket(A), 10),
        log(B, 2, 5),
    ]


def test_as_many_states_are_read_as_the_limit_allows_and_logs_get_the_rest():
    end = advanced(at({A: None, B: None, C: 0}), {A: 10, B: 10, C: 50}, rows_max=15)

    assert end.positions == {A: 10, B: None, C: 5}


def test_a_new_bucket_whose_first_changes_are_gone_is_named_as_a_state_first():
    named = advanced(at({}), {A: 10}, late=frozenset({A}))

    assert named.positions == {A: None}
    assert advanced(named, {A: 12}, late=frozenset({A})).positions == {A: 12}


def test_buckets_that_are_gone_are_named_no_longer():
    assert advanced(at({A: 1, B: 5}), {A: 1}) == at({A: 1})


positions = st.dictionaries(st.sampled_from([A, B, C]), st.none() | st.integers(0, 50))
logs = st.dictionaries(st.sampled_from([A, B, C]), st.integers(50, 100))


@given(positions, logs, st.none() | st.integers(1, 40))
def test_a_stream_reaches_the_ends_and_reads_every_offset_once(start, ends, rows_max):
    offset = at({place: position for place, position in start.items() if place in ends})
    read = {place: start.get(place, 0) for place in ends}

    while (end := advanced(offset, ends, rows_max=rows_max)).positions != offset.positions:
        for split in splits_between(offset, end, 1):
            is_state = isinstance(split, StateAt)
            assert read[split.place] == (None if is_state else split.offsets.start)
            read[split.place] = split.offsets.end
        offset = end

    assert offset.positions == read == ends
