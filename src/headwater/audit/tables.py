"""The buckets of one table under audit, one after the other, and what they prove together."""

from dataclasses import dataclass, field

from headwater.audit.bucket import AuditedBucket
from headwater.audit.changes import ChangeFold, ChangeRules
from headwater.audit.contents import ChangeContents, ChangeCounts, RowContents
from headwater.audit.finding import Check, Proof
from headwater.audit.logs import Contents, LogWalk, NoContents
from headwater.audit.report import Notes
from headwater.audit.states import (
    StateProof,
    offset_of_state,
    prove_count,
    prove_rows,
    unreadable_state,
)
from headwater.audit.unions import prove_with_lake
from headwater.client.reading.places import buckets_of
from headwater.client.table import AsyncTable
from headwater.client.union.looking import has_lake
from headwater.config.choices import ChangelogImage
from headwater.config.options import CHANGELOG_IMAGE
from headwater.errors import (
    HeadwaterError,
    PartitionMissingError,
    RemoteLogError,
    TableMissingError,
)

REMOTE = "rows in a remote store that cannot be reached from here were not read"
EXPIRED = "rows expired while they were read"
CUT = "some changelogs do not reach back to their first change"


@dataclass(slots=True)
class TableTally:
    """Add up what the buckets of a table prove."""

    row_count: int = 0
    batch_count: int = 0
    decoded_count: int = 0
    state_count: int = 0
    lookup_count: int = 0
    is_cut: bool = False
    """Whether the changelog of a bucket does not reach back to its first change."""
    log_notes: list[str] = field(default_factory=list)
    state_notes: list[str] = field(default_factory=list)

    def take_log(self, walk: LogWalk) -> None:
        """Add what was checked of a log."""
        self.row_count += walk.check.row_count
        self.batch_count += walk.check.batch_count
        for part in walk.unread:
            self.log_notes.append(REMOTE if isinstance(part.fault, RemoteLogError) else EXPIRED)

    def take_state(self, proof: StateProof) -> None:
        """Add what was compared of a state."""
        self.state_count += proof.row_count
        self.lookup_count += proof.lookup_count
        self.state_notes += proof.notes


async def audit_buckets(table: AsyncTable, notes: Notes, *, deep: bool) -> None:
    """Prove what can be proven of the logs and states of a table.

    1. Audit each bucket; one that cannot be read does not hold up the others. 2. Say what was
    proven. 3. Where logs are cut and a lake holds the rest, compare the state with both.
    """
    tally = TableTally()
    for place, bucket in (await buckets_of(table.cluster, table.info)).items():
        audited = AuditedBucket(
            cluster=table.cluster, table=table.info, place=place, bucket=bucket, notes=notes
        )
        notes.progress(f"{table.path} {audited.shown}")
        await _audit_bucket(audited, tally, deep=deep)
    _prove_logs(table, tally, notes, deep=deep)
    if table.info.is_keyed:
        await _prove_states(table, tally, notes, deep=deep)


async def _audit_bucket(audited: AuditedBucket, tally: TableTally, *, deep: bool) -> None:
    try:
        end, start = await audited.offset("latest"), await audited.offset("earliest")
        if audited.table.is_keyed:
            audit_keyed = _audit_changes if deep else _audit_counts
            await audit_keyed(audited, tally, start=start, end=end)
        else:
            await _audit_rows(audited, tally, start=start, end=end, deep=deep)
    except (TableMissingError, PartitionMissingError):
        tally.log_notes.append("a bucket was dropped while it was read")
    except HeadwaterError as fault:
        audited.bad(
            Check.READABLE, f"The bucket cannot be read: {fault.message}", remedy=fault.hint
        )


# ---- log tables


async def _audit_rows(
    audited: AuditedBucket, tally: TableTally, *, start: int, end: int, deep: bool
) -> None:
    contents = RowContents(audited) if deep else None
    reading: Contents = contents or NoContents()
    walk = LogWalk(audited, start=start, contents=reading)
    await walk.go_to(end)
    tally.take_log(walk)
    tally.decoded_count += contents.row_count if contents else 0


# ---- primary-key tables


async def _audit_counts(audited: AuditedBucket, tally: TableTally, *, start: int, end: int) -> None:
    """Compare the number of rows, where the changelog tells it."""
    counts = ChangeCounts(is_whole=start == 0)
    walk = LogWalk(audited, start=start, contents=counts)
    await walk.go_to(end)
    try:
        await offset_of_state(audited)
        if not _shows_before(audited):
            tally.state_notes.append("its changelog does not tell inserts: only --deep proves it")
        elif counts.is_whole:
            tally.take_state(await prove_count(audited, walk, counts))
    except HeadwaterError as fault:
        unreadable_state(audited, fault)
    tally.is_cut |= not counts.is_whole
    tally.take_log(walk)


async def _audit_changes(
    audited: AuditedBucket, tally: TableTally, *, start: int, end: int
) -> None:
    """Compare every row with the last change of its key."""
    rules = ChangeRules(shows_before=_shows_before(audited))
    contents = ChangeContents(audited, rules=rules, is_whole=start == 0)
    walk = LogWalk(audited, start=start, contents=contents)
    await walk.go_to(end)
    try:
        tally.take_state(await prove_rows(audited, walk, contents))
    except HeadwaterError as fault:
        unreadable_state(audited, fault)
    contents.fold.held()
    _tell_misfits(audited, contents.fold)
    tally.is_cut |= not contents.fold.is_whole
    tally.decoded_count += contents.fold.change_count
    tally.take_log(walk)


def _shows_before(audited: AuditedBucket) -> bool:
    image = CHANGELOG_IMAGE.required(audited.table.descriptor.properties)
    return image is ChangelogImage.FULL


def _tell_misfits(audited: AuditedBucket, fold: ChangeFold) -> None:
    if not fold.misfits:
        return
    first = min(fold.misfits, key=lambda each: each.offset)
    others = f" {fold.misfit_count:,} changes do not fit in all." if fold.misfit_count > 1 else ""
    audited.bad(
        Check.STATE,
        f"The change at offset {first.offset} {first.why}.{others}",
        offset=first.offset,
        remedy="Whoever follows the changelog was told something wrong there: let them read the"
        " table anew.",
    )


# ---- what it proves


def _prove_logs(table: AsyncTable, tally: TableTally, notes: Notes, *, deep: bool) -> None:
    path, note = str(table.path), _joined(tally.log_notes)
    notes.proven(Proof(check=Check.OFFSETS, table=path, amount=tally.row_count, note=note))
    notes.proven(Proof(check=Check.CHECKSUMS, table=path, amount=tally.batch_count, unit="batches"))
    if deep:
        unit = "changes" if table.info.is_keyed else "rows"
        notes.proven(Proof(check=Check.READABLE, table=path, amount=tally.decoded_count, unit=unit))


async def _prove_states(table: AsyncTable, tally: TableTally, notes: Notes, *, deep: bool) -> None:
    if tally.is_cut and deep and has_lake(table.info):
        count, why_not = await prove_with_lake(table, notes)
        tally.state_notes.append(f"{CUT}: {why_not or f'{count:,} rows compared with the lake'}")
    elif tally.is_cut:
        seen = "only keys that changed since are compared" if deep else "it was not compared"
        tally.state_notes.append(f"{CUT}: {seen}")
    path = str(table.path)
    note = _joined(tally.state_notes)
    notes.proven(Proof(check=Check.STATE, table=path, amount=tally.state_count, note=note))
    if deep:
        notes.proven(Proof(check=Check.LOOKUPS, table=path, amount=tally.lookup_count, unit="keys"))


def _joined(texts: list[str]) -> str:
    return "; ".join(dict.fromkeys(texts))
