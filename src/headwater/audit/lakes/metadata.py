"""Checks of a lake table that read no rows: boundaries, offsets, counts and files."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from headwater.audit.lakes import view
from headwater.audit.report import Check, Finding, Proof, Severity
from headwater.cluster.lake import ReportedSnapshot
from headwater.lake.spi import LakeInventory
from headwater.lake.split import LakeSplit
from headwater.model import Boundary, LakeBucket, OffsetRange

# Whether boundaries tell the truth: of the right table, never going back, and as was reported.

_BOUNDARY = Check.BOUNDARY


def boundary_findings(looked: view.LakeView, say: view.LakeFindings) -> Iterator[Finding]:
    """Yield what is wrong with the boundaries of the kept snapshots, and with what was reported."""
    bounded = [each for each in looked.line if each.is_own]
    for held in bounded[-1:]:
        yield from _of_another(held, looked, say)
    for before, after in pairwise(bounded):
        yield from _back(before, after, looked, say)
    if looked.reported is not None:
        yield from _reported(looked.reported, looked, say)


# ---- whose boundary it is


def _of_another(
    held: view.SnapshotExtent, looked: view.LakeView, say: view.LakeFindings
) -> Iterator[Finding]:
    boundary = _boundary(held)
    if boundary.table.table_id != looked.table.table_id:
        yield say.table(
            _BOUNDARY,
            f"The lake table belongs to table {boundary.table.table_id}, and this table is"
            f" {looked.table.table_id}.",
            remedy="It holds rows of an earlier table of this name: rename it to keep them, or run:"
            f" headwater lake drop {say.path}",
        )
    elif looked.storage_id is not None and boundary.table.storage != looked.storage_id:
        yield say.table(
            _BOUNDARY,
            f"The lake table belongs to the storage '{boundary.table.storage}', and this one is"
            f" '{looked.storage_id}'.",
            remedy="Two storages tier into one warehouse: give one of them another, or run:"
            f" headwater lake drop {say.path}",
        )


# ---- how it moved


def _back(
    before: view.SnapshotExtent,
    after: view.SnapshotExtent,
    looked: view.LakeView,
    say: view.LakeFindings,
) -> Iterator[Finding]:
    earlier, later = _boundary(before), _boundary(after)
    between = f"from snapshot {before.snapshot_id} to {after.snapshot_id}"
    remedy = (
        "Two tierers or a restore wrote over each other: compare the rows by headwater audit"
        f" {say.path} --deep, and tier the table again if they differ."
    )
    if later.table != earlier.table:
        yield say.table(
            _BOUNDARY, f"The lake table goes over to another table {between}.", remedy=remedy
        )
        return
    if later.epoch < earlier.epoch:
        yield say.table(
            _BOUNDARY,
            f"The epoch of the tierer goes back {between}: {_epoch(earlier)} to {_epoch(later)}.",
            remedy=remedy,
        )
    for bucket, held in earlier.ranges.items():
        now = later.ranges.get(bucket)
        # Ranges of a partition go when it is dropped; whether it was is known of live ones only.
        if now is None and not looked.is_live(bucket):
            continue
        if now is None or now.end < held.end or now.start != held.start:
            text = "none" if now is None else f"[{now.start}, {now.end})"
            yield say.bucket(
                _BOUNDARY,
                bucket,
                f"The boundary goes back {between}: [{held.start}, {held.end}) becomes {text}.",
                offset=held.start if now is None else min(now.end, held.end),
                remedy=remedy,
            )


def _epoch(boundary: Boundary) -> str:
    return f"{boundary.epoch.coordinator}.{boundary.epoch.turn}"


# ---- what the server was told


def _reported(
    reported: ReportedSnapshot, looked: view.LakeView, say: view.LakeFindings
) -> Iterator[Finding]:
    newest = looked.newest
    if newest is None:
        yield say.table(
            _BOUNDARY,
            f"The server was told of lake snapshot {reported.snapshot_id}, and the lake has"
            f" {'no snapshot' if looked.has_lake_table else 'no table'}.",
            remedy="Use the lake that holds it; or tier what the log still holds: headwater tier"
            f" {say.path} --begin-anew",
        )
        return
    same = next((each for each in looked.line if each.snapshot_id == reported.snapshot_id), None)
    if same is not None and same.has_starts:
        yield from _differing(reported, same, looked, say)
    elif same is None:
        yield from _ahead_of_report(reported, newest, looked, say)


def _differing(
    reported: ReportedSnapshot,
    same: view.SnapshotExtent,
    looked: view.LakeView,
    say: view.LakeFindings,
) -> Iterator[Finding]:
    """Compare what was told of a snapshot with what that says; of buckets that there are."""
    for bucket in sorted(looked.logs, key=str):
        held = same.ranges.get(bucket)
        told, end = reported.ends.get(bucket, 0), 0 if held is None else held.end
        if told == end:
            continue
        much = "less" if told < end else "more"
        yield say.bucket(
            _BOUNDARY,
            bucket,
            f"The server was told that lake snapshot {same.snapshot_id} ends at {told}, and the"
            f" snapshot says {end}.",
            offset=min(told, end),
            remedy=f"The server was told {much} than the lake holds; the next round tells it anew:"
            f" headwater tier {say.path}",
        )


def _ahead_of_report(
    reported: ReportedSnapshot,
    newest: view.SnapshotExtent,
    looked: view.LakeView,
    say: view.LakeFindings,
) -> Iterator[Finding]:
    """See that the lake holds at least what the server was told of a snapshot that is gone."""
    for bucket in sorted(looked.logs, key=str):
        held = newest.ranges.get(bucket)
        told, end = reported.ends.get(bucket, 0), 0 if held is None else held.end
        if told > end:
            yield say.bucket(
                _BOUNDARY,
                bucket,
                f"The server was told of lake snapshot {reported.snapshot_id}, which holds offsets"
                f" up to {told}; it is gone, and the newest one ends at {end}.",
                offset=end,
                remedy="An older snapshot or copy of the lake was put in place: bring the newer one"
                f" back; or, while the log holds the offsets, run: headwater tier {say.path}",
            )


def _boundary(held: view.SnapshotExtent) -> Boundary:
    assert held.snapshot.boundary is not None
    return held.snapshot.boundary


# Whether every offset is in the lake or in the log, none in neither, and the lake not ahead.

_TIERS = Check.TIERS


def tier_findings(looked: view.LakeView, say: view.LakeFindings) -> Iterator[Finding]:
    """Yield the buckets whose log does not go on where the newest snapshot ends."""
    newest = looked.newest
    for bucket, log in sorted(looked.logs.items(), key=str):
        held = None if newest is None else newest.ranges.get(bucket)
        if held is None:
            yield from _untiered(looked, bucket, log, say=say)
            continue
        absent_end = min(held.start, log.start)
        if newest is not None and newest.has_starts and absent_end:
            yield _begun_late(bucket, absent_end, say)
        if log.start > held.end:
            yield _gap(bucket, held, log, say=say)
        elif log.end < held.end:
            yield _ahead_of_log(bucket, held, log, say=say)


def _untiered(
    looked: view.LakeView, bucket: LakeBucket, log: OffsetRange, *, say: view.LakeFindings
) -> Iterator[Finding]:
    """Look at a bucket of which the lake holds nothing: its log has to begin at 0.

    Retention deletes nothing that a lake lacks, but what it deleted before the table had a lake is
    gone for good reason. A table that was never altered has had it from the first row on.
    """
    if not log.start:
        return
    table = looked.table
    found = f"Offsets [0, {log.start}) are in no tier: the lake holds nothing of the bucket, and"
    found += f" the log begins at {log.start}"
    if table.is_keyed:
        yield say.bucket(
            _TIERS,
            bucket,
            f"{found}. The rows of now do not need them: the next round takes the state.",
            offset=0,
            severity=Severity.WARNING,
            remedy=f"Bring the rows to the lake: headwater tier {say.path}",
        )
        return
    is_lost = table.modified_ms == table.created_ms
    yield say.bucket(
        _TIERS,
        bucket,
        f"{found}, though the table has had its lake since it was made."
        if is_lost
        else f"{found}. They expired before the table had a lake, or are lost: nothing tells"
        " which.",
        offset=0,
        severity=Severity.ERROR if is_lost else Severity.WARNING,
        remedy="Bring back a copy of the log that holds them, or the lake that did; else go on with"
        f" what the log holds: headwater tier {say.path} --begin-anew",
    )


def _begun_late(bucket: LakeBucket, end: int, say: view.LakeFindings) -> Finding:
    return say.bucket(
        _TIERS,
        bucket,
        f"Offsets [0, {end}) are in no tier: the lake began with what the log held then. Earlier"
        " rows had expired, or were given up by --begin-anew.",
        offset=0,
        severity=Severity.WARNING,
        remedy="If that was not on purpose, bring back a copy of the lake that holds them.",
    )


def _gap(
    bucket: LakeBucket, held: OffsetRange, log: OffsetRange, *, say: view.LakeFindings
) -> Finding:
    return say.bucket(
        _TIERS,
        bucket,
        f"Offsets [{held.end}, {log.start}) are in no tier: the lake ends at {held.end},"
        f" and the log begins at {log.start}.",
        offset=held.end,
        remedy="Bring back a newer copy of the lake, if there is one; else begin anew with"
        f" what the log holds: headwater lake drop {say.path}, then headwater tier"
        f" {say.path} --begin-anew",
    )


def _ahead_of_log(
    bucket: LakeBucket, held: OffsetRange, log: OffsetRange, *, say: view.LakeFindings
) -> Finding:
    return say.bucket(
        _TIERS,
        bucket,
        f"The lake holds offsets up to {held.end}, and the log ends at {log.end}: new rows"
        " would get offsets that the lake holds already.",
        offset=log.end,
        remedy="The storage was put back to an older copy: bring the newer one back before"
        " anything is written; the lake still holds the rows.",
    )


# Whether the lake holds as many rows of a log table as offsets, and each step adds as many.


def count_findings(
    looked: view.LakeView, splits: Sequence[LakeSplit], say: view.LakeFindings
) -> Iterator[Finding]:
    """Compare the rows of the newest snapshot, as its files tell them, with its boundary."""
    newest = looked.newest
    assert newest is not None
    if not newest.has_starts or has_deletes(splits):
        return
    grouping = view.Grouping(looked, splits)
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
            _TIERS,
            view.first_bucket(ranges),
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


def _is_foreign(looked: view.LakeView, more: int) -> bool:
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


def _offsets(held: view.SnapshotExtent) -> int:
    return sum(each.end - each.start for each in held.ranges.values())


def step_findings(looked: view.LakeView, say: view.LakeFindings) -> Iterator[Finding]:
    """Compare the rows that each kept snapshot adds with the offsets that its boundary adds."""
    for before, after in pairwise(looked.line):
        if not (_is_counted(before) and _is_counted(after)):
            continue
        rows = after.snapshot.row_count - before.snapshot.row_count
        offsets = added_offsets(before, after)
        if rows == offsets:
            continue
        yield say.table(
            _TIERS,
            f"Snapshot {after.snapshot_id} of the lake adds {rows} rows, and its boundary"
            f" {offsets} offsets.",
            severity=Severity.ERROR if after.is_own else Severity.WARNING,
            remedy=f"Find out which rows by: headwater audit {say.path} --deep"
            if after.is_own
            else "Others changed rows of the lake table, so that it is not a copy of the log any"
            " more. If that was not on purpose, go back to the snapshot before.",
        )


def added_offsets(before: view.SnapshotExtent, after: view.SnapshotExtent) -> int:
    """Return how many offsets one boundary has beyond another."""
    added = 0
    for bucket, held in after.ranges.items():
        earlier = before.ranges.get(bucket)
        added += held.end - (held.start if earlier is None else earlier.end)
    return added


def has_deletes(splits: Sequence[LakeSplit]) -> bool:
    """Tell whether rows were deleted, which tierers never do to log tables."""
    return any(file.deletes for split in splits for file in split.files)


def _is_counted(held: view.SnapshotExtent) -> bool:
    # Those of others need not tell how many rows there are.
    return held.has_starts and (held.is_own or held.snapshot.row_count > 0)


# What an inventory of a lake table says: files that are gone, left over, or listed twice.

ORPHAN_AGE_MS = 24 * 60 * 60 * 1000
"""Younger files may belong to a round that is under way."""
FILES_TOLD_MAX = 20
_LAKE_FILES = Check.LAKE_FILES


def file_findings(found: LakeInventory, say: view.LakeFindings) -> Iterator[Finding]:
    """Yield what is wrong with the files of a lake table."""
    for lost in found.missing[:FILES_TOLD_MAX]:
        yield say.table(
            _LAKE_FILES,
            f"The file {lost.path} {lost.fault}; lake snapshot {lost.snapshot_id} needs it.",
            remedy="Restore the file from a copy. Else, if only old snapshots need it, expire them:"
            f" headwater lake expire {say.path}; or tier what the log still holds anew: headwater"
            f" lake drop {say.path}, then headwater tier {say.path} --begin-anew",
        )
    if len(found.missing) > FILES_TOLD_MAX:
        yield say.table(
            _LAKE_FILES,
            f"{len(found.missing) - FILES_TOLD_MAX} more files are gone or damaged.",
            remedy="Restore them from a copy.",
        )
    for twice in found.duplicates[:FILES_TOLD_MAX]:
        yield say.table(
            _LAKE_FILES,
            f"The file {twice.path} {twice.fault} in lake snapshot {twice.snapshot_id}: its rows"
            " are there more than once.",
            remedy="Go back to the snapshot before; or tier what the log still holds anew:"
            f" headwater lake drop {say.path}, then headwater tier {say.path} --begin-anew",
        )
    yield from _orphans(found, say)


def _orphans(found: LakeInventory, say: view.LakeFindings) -> Iterator[Finding]:
    old = [each for each in found.orphans if each.age_ms >= ORPHAN_AGE_MS]
    if old:
        yield say.table(
            _LAKE_FILES,
            f"No snapshot names {len(old)} files of {sum(each.byte_count for each in old)} bytes,"
            f" the first of them {old[0].path}.",
            severity=Severity.WARNING,
            remedy=f"Rounds that failed left them: headwater lake clean {say.path}",
        )


def file_proof(found: LakeInventory, say: view.LakeFindings, *, opened: bool) -> Proof:
    """Say how many files were looked at."""
    young = sum(each.age_ms < ORPHAN_AGE_MS for each in found.orphans)
    notes = [
        "" if opened else "data files were not opened",
        f"{young} young files are in no snapshot, as a round may be under way" if young else "",
    ]
    return Proof(
        check=_LAKE_FILES,
        table=str(say.path),
        amount=found.named,
        unit="files",
        note="; ".join(filter(None, notes)),
    )
