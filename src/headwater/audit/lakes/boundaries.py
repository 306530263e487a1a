"""Whether boundaries tell the truth: of the right table, never going back, and as was reported."""

from collections.abc import Iterator
from itertools import pairwise

from headwater.audit.finding import Check, Finding
from headwater.audit.lakes.accusing import Accusing
from headwater.audit.lakes.looked import Held, Looked
from headwater.client.lake.values import ReportedSnapshot
from headwater.model.boundary import Boundary

_CHECK = Check.BOUNDARY


def boundary_findings(looked: Looked, say: Accusing) -> Iterator[Finding]:
    """Yield what is wrong with the boundaries of the kept snapshots, and with what was reported."""
    bounded = [each for each in looked.line if each.is_own]
    for held in bounded[-1:]:
        yield from _of_another(held, looked, say)
    for before, after in pairwise(bounded):
        yield from _back(before, after, looked, say)
    if looked.reported is not None:
        yield from _reported(looked.reported, looked, say)


# ---- whose boundary it is


def _of_another(held: Held, looked: Looked, say: Accusing) -> Iterator[Finding]:
    boundary = _boundary(held)
    if boundary.table.table_id != looked.table.table_id:
        yield say.table(
            _CHECK,
            f"The lake table belongs to table {boundary.table.table_id}, and this table is"
            f" {looked.table.table_id}.",
            remedy="It holds rows of an earlier table of this name: rename it to keep them, or run:"
            f" headwater lake drop {say.path}",
        )
    elif looked.storage_id is not None and boundary.table.storage != looked.storage_id:
        yield say.table(
            _CHECK,
            f"The lake table belongs to the storage '{boundary.table.storage}', and this one is"
            f" '{looked.storage_id}'.",
            remedy="Two storages tier into one warehouse: give one of them another, or run:"
            f" headwater lake drop {say.path}",
        )


# ---- how it moved


def _back(before: Held, after: Held, looked: Looked, say: Accusing) -> Iterator[Finding]:
    earlier, later = _boundary(before), _boundary(after)
    between = f"from snapshot {before.snapshot_id} to {after.snapshot_id}"
    remedy = (
        "Two tierers or a restore wrote over each other: compare the rows by headwater audit"
        f" {say.path} --deep, and tier the table anew if they differ."
    )
    if later.table != earlier.table:
        yield say.table(
            _CHECK, f"The lake table goes over to another table {between}.", remedy=remedy
        )
        return
    if later.epoch < earlier.epoch:
        yield say.table(
            _CHECK,
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
                _CHECK,
                bucket,
                f"The boundary goes back {between}: [{held.start}, {held.end}) becomes {text}.",
                offset=held.start if now is None else min(now.end, held.end),
                remedy=remedy,
            )


def _epoch(boundary: Boundary) -> str:
    return f"{boundary.epoch.coordinator}.{boundary.epoch.turn}"


# ---- what the server was told


def _reported(reported: ReportedSnapshot, looked: Looked, say: Accusing) -> Iterator[Finding]:
    newest = looked.newest
    if newest is None:
        yield say.table(
            _CHECK,
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
        yield from _ahead(reported, newest, looked, say)


def _differing(
    reported: ReportedSnapshot, same: Held, looked: Looked, say: Accusing
) -> Iterator[Finding]:
    """Compare what was told of a snapshot with what that says; of buckets that there are."""
    for bucket in sorted(looked.logs, key=str):
        held = same.ranges.get(bucket)
        told, end = reported.ends.get(bucket, 0), 0 if held is None else held.end
        if told == end:
            continue
        much = "less" if told < end else "more"
        yield say.bucket(
            _CHECK,
            bucket,
            f"The server was told that lake snapshot {same.snapshot_id} ends at {told}, and the"
            f" snapshot says {end}.",
            offset=min(told, end),
            remedy=f"The server was told {much} than the lake holds; the next round tells it anew:"
            f" headwater tier {say.path}",
        )


def _ahead(
    reported: ReportedSnapshot, newest: Held, looked: Looked, say: Accusing
) -> Iterator[Finding]:
    """See that the lake holds at least what the server was told of a snapshot that is gone."""
    for bucket in sorted(looked.logs, key=str):
        held = newest.ranges.get(bucket)
        told, end = reported.ends.get(bucket, 0), 0 if held is None else held.end
        if told > end:
            yield say.bucket(
                _CHECK,
                bucket,
                f"The server was told of lake snapshot {reported.snapshot_id}, which holds offsets"
                f" up to {told}; it is gone, and the newest one ends at {end}.",
                offset=end,
                remedy="An older snapshot or copy of the lake was put in place: bring the newer one"
                f" back; or, while the log holds the offsets, run: headwater tier {say.path}",
            )


def _boundary(held: Held) -> Boundary:
    assert held.snapshot.boundary is not None
    return held.snapshot.boundary
