"""Whether the lake holds as many rows of a log table as offsets, and each step adds as many."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from headwater.audit.finding import Check, Finding, Severity
from headwater.audit.lakes.accusing import Accusing
from headwater.audit.lakes.groups import Grouping, first_bucket
from headwater.audit.lakes.looked import Held, Looked
from headwater.lake.split import LakeSplit

_CHECK = Check.TIERS


def count_findings(looked: Looked, splits: Sequence[LakeSplit], say: Accusing) -> Iterator[Finding]:
    """Compare the rows of the newest snapshot, as its files tell them, with its boundary."""
    newest = looked.newest
    assert newest is not None
    if not newest.has_starts or has_deletes(splits):
        return
    grouping = Grouping(looked, splits)
    rows: Counter[tuple[str | None, int]] = Counter()
    for split in splits:
        rows[grouping.of_split(split)] += split.row_count
    is_foreign = _is_foreign(looked, sum(rows.values()) - _offsets(newest))
    for group, ranges in grouping.ranges(newest).items():
        wanted = sum(held.end - held.start for held in ranges.values())
        found = rows[group]
        is_left_over = found > wanted and group.partition is not None
        if found == wanted:
            continue
        yield say.bucket(
            _CHECK,
            first_bucket(ranges),
            f"Snapshot {newest.snapshot_id} of the lake has {found} rows of {group}, and its"
            f" boundary tells of {wanted} offsets."
            + (
                " Some came twice, or an earlier partition of that name left them: only --deep"
                " tells."
                if is_left_over
                else ""
            ),
            severity=Severity.WARNING if is_left_over or is_foreign else Severity.ERROR,
            remedy=f"Find out which rows by: headwater audit {say.path} --deep",
        )


def _is_foreign(looked: Looked, more: int) -> bool:
    """Tell whether the snapshots of others explain how many rows are too many, or too few."""
    theirs = 0
    line = looked.line
    for place, held in enumerate(line):
        if held.is_own:
            continue
        before = line[place - 1] if place else None
        if not _is_counted(held) or (before is not None and not _is_counted(before)):
            return True  # Nobody knows how many rows they added.
        known = _offsets(held) if before is None else before.snapshot.row_count
        theirs += held.snapshot.row_count - known
    return theirs != 0 and theirs == more


def _offsets(held: Held) -> int:
    return sum(each.end - each.start for each in held.ranges.values())


def step_findings(looked: Looked, say: Accusing) -> Iterator[Finding]:
    """Compare the rows that each kept snapshot adds with the offsets that its boundary adds."""
    for before, after in pairwise(looked.line):
        if not (_is_counted(before) and _is_counted(after)):
            continue
        rows = after.snapshot.row_count - before.snapshot.row_count
        offsets = added_offsets(before, after)
        if rows == offsets:
            continue
        yield say.table(
            _CHECK,
            f"Snapshot {after.snapshot_id} of the lake adds {rows} rows, and its boundary"
            f" {offsets} offsets.",
            severity=Severity.ERROR if after.is_own else Severity.WARNING,
            remedy=f"Find out which rows by: headwater audit {say.path} --deep"
            if after.is_own
            else "Others changed rows of the lake table, so that it is not a copy of the log any"
            " more. If that was not on purpose, go back to the snapshot before.",
        )


def added_offsets(before: Held, after: Held) -> int:
    """Return how many offsets one boundary has beyond another."""
    added = 0
    for bucket, held in after.ranges.items():
        earlier = before.ranges.get(bucket)
        added += held.end - (held.start if earlier is None else earlier.end)
    return added


def has_deletes(splits: Sequence[LakeSplit]) -> bool:
    """Tell whether rows were deleted, which tierers never do to log tables."""
    return any(file.deletes for split in splits for file in split.files)


def _is_counted(held: Held) -> bool:
    # Those of others need not tell how many rows there are.
    return held.has_starts and (held.is_own or held.snapshot.row_count > 0)
