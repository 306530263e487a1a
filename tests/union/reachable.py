"""Which positions a reader must still be able to give, told from what is left of lake and logs."""

from collections.abc import Mapping

from headwater.lake.spi import LakeSnapshot
from headwater.model.boundary import LakeBucket
from tests.union.story import Position, Story


def must_work(story: Story, position: Position) -> bool:
    """Tell whether nothing is gone that the rows of a position are made of."""
    if not story.oracle.schemas[position.schema_id].names.keys() <= set(story.ids.values()):
        return False  # What was written after a column was dropped lacks its values.
    if not position.live <= story.oracle.live or position.held:
        return own_snapshot_serves(story, position)
    starts = story.log_starts()
    if story.has_dropped:
        return own_snapshot_serves(story, position)
    choices: list[LakeSnapshot | None] = [*story.kept_snapshots()]
    if position.snapshot_id is None or not story.traits.is_partitioned:
        choices.append(None)  # Of partitions, only the lake tells what there was before.
    return any(_serves(story, position, each, starts) for each in choices)


def own_snapshot_serves(story: Story, position: Position) -> bool:
    """Tell whether the snapshot that was read first is still there, and all logs after it."""
    if not position.live <= story.oracle.live:
        return False
    kept = {each.snapshot_id: each for each in story.kept_snapshots()}
    if position.snapshot_id is None and story.has_dropped and story.has_lake():
        return False  # The lake may show partitions that were dropped, and nobody can tell.
    if position.snapshot_id is None:
        return not position.held and _serves(story, position, None, story.log_starts())
    own = kept.get(position.snapshot_id)
    return own is not None and _serves(story, position, own, story.log_starts())


def _serves(
    story: Story,
    position: Position,
    snapshot: LakeSnapshot | None,
    starts: Mapping[LakeBucket, int],
) -> bool:
    ranges = {} if snapshot is None or snapshot.boundary is None else snapshot.boundary.ranges
    reaches = {bucket: held.end for bucket, held in ranges.items()}
    if any(end > position.ends.get(bucket, 0) for bucket, end in reaches.items()):
        return False
    return all(
        _log_serves(story, reaches.get(bucket), start=starts.get(bucket, 0), end=end)
        for bucket, end in position.ends.items()
    )


def _log_serves(story: Story, reach: int | None, *, start: int, end: int) -> bool:
    if reach is not None:
        return start <= reach or reach == end
    # By key the rows of an offset are made of those of now, by taking back what came since.
    return start <= end if story.traits.is_keyed else start == 0 or end == 0
