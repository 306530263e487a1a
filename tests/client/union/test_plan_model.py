"""A plan against what it must cover: every offset once, whatever was tiered or dropped."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.model.boundary import LakeBucket
from headwater.model.path import name_of_spec
from headwater.read.plan import ReadSelection, plan_read
from headwater.read.split import Tier
from tests.choices import examples
from tests.client.union.values import file, split, view

BUCKETS = 3


@st.composite
def bucket_states(draw):
    """Draw how much of a log was tiered, where it begins by now, and where the position is."""
    end = draw(st.integers(0, 30))
    is_tiered = draw(st.booleans())
    tiered = draw(st.integers(0, end)) if is_tiered else 0
    log_start = (
        draw(st.integers(0, 40)) if is_tiered and tiered == end else draw(st.integers(0, tiered))
    )
    return log_start, end, (0, tiered) if is_tiered else None


@st.composite
def worlds(draw):
    """Draw a view and the files of its snapshot."""
    is_keyed, is_partitioned = draw(st.booleans()), draw(st.booleans())
    live = {8: "b", 9: "c"} if is_partitioned else {}
    logs, tiered = {}, {}
    for partition in live or [None]:
        for number in range(BUCKETS):
            log_start, end, held = draw(bucket_states())
            logs[LakeBucket(partition, number)] = (log_start, end)
            if held is not None:
                tiered[LakeBucket(partition, number)] = held
    seen = view(
        logs, tiered, partitions=live if is_partitioned else None, is_keyed=is_keyed,
        bucket_count=BUCKETS,
    )  # fmt: skip
    return seen, draw(lakes(is_keyed=is_keyed, is_partitioned=is_partitioned))


@st.composite
def lakes(draw, *, is_keyed, is_partitioned):
    """Draw files of live partitions and of one that was dropped."""
    days = ["a", "b", "c"] if is_partitioned else [None]
    numbers = range(BUCKETS) if is_keyed or draw(st.booleans()) else [-1]
    found = []
    for day in days:
        for number in numbers:
            pieces = draw(st.integers(0, 1 if is_keyed else 3))
            found += [
                split(number, [file(f"/{day}/{number}/{at}")], day=day) for at in range(pieces)
            ]
    return found


def offsets_read(plan, seen):
    """Count how often each offset is read, as a row of a file or of a log."""
    found = Counter()
    for bucket, held in seen.snapshot.ranges.items():
        found.update((bucket, at) for at in range(held.start, held.end))
    for each in plan.splits:
        if each.log is not None:
            found.update((each.log_bucket, at) for at in range(each.log.start, each.log.end))
    return found


def first_offset(seen, bucket):
    """Return where the rows of a bucket begin: what expired before it was tiered is gone."""
    is_known = bucket in seen.snapshot.ranges
    return 0 if is_known or seen.table.is_keyed else seen.logs[bucket].start


@given(worlds(), st.integers(1, 40))
@settings(max_examples=examples(300))
def test_every_offset_before_the_position_is_read_once(world, split_rows):
    seen, lake = world

    plan = plan_read(seen, lake, ReadSelection(split_rows=split_rows))

    wanted = {
        (bucket, at)
        for bucket, log in seen.logs.items()
        for at in range(first_offset(seen, bucket), log.end)
    }
    found = offsets_read(plan, seen)
    assert set(found) == wanted
    assert set(found.values()) <= {1}
    assert plan.pruned == ()


@given(worlds())
@settings(max_examples=examples(300))
def test_every_file_is_read_once_in_its_partition(world):
    seen, lake = world

    plan = plan_read(seen, lake, ReadSelection())

    read = [each for each in plan.splits if each.lake is not None]
    assert Counter(each.lake.files[0].path for each in read) == Counter(
        each.files[0].path for each in lake
    )
    for each in read:
        assert each.partition == (name_of_spec(each.lake.partition) or None)


@given(worlds())
@settings(max_examples=examples(300))
def test_tiers_are_what_they_say(world):
    seen, lake = world

    for each in plan_read(seen, lake, ReadSelection()).splits:
        assert (each.lake is None) == (each.tier is Tier.LOG_ONLY)
        assert (each.log is None) == (each.tier is Tier.LAKE_ONLY) == (each.log_bucket is None)
        assert each.log is None or each.log.start < each.log.end
        assert seen.table.is_keyed or each.tier is not Tier.HYBRID
        assert not each.reads_state or each.log_bucket not in seen.snapshot.ranges


@given(worlds(), st.integers(0, 60))
@settings(max_examples=examples(300))
def test_a_limit_leaves_rows_enough(world, limit):
    seen, lake = world

    whole = plan_read(seen, lake, ReadSelection())
    plan = plan_read(seen, lake, ReadSelection(limit=limit))

    assert set(plan.splits) <= set(whole.splits)
    certain = sum(
        each.lake.row_count if each.lake else each.log.end - each.log.start
        for each in plan.splits
        if each.tier is Tier.LAKE_ONLY or not seen.table.is_keyed
    )
    assert certain >= limit or set(plan.splits) == set(whole.splits)


@given(worlds(), st.frozensets(st.sampled_from(["b", "c"])))
@settings(max_examples=examples(200))
def test_partitions_that_are_asked_for_are_read_as_without_asking(world, names):
    seen, lake = world
    if not seen.table.is_partitioned:
        return

    plan = plan_read(seen, lake, ReadSelection(partitions=names))

    whole = plan_read(seen, lake, ReadSelection())
    assert plan.splits == tuple(each for each in whole.splits if each.partition in names)
