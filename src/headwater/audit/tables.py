"""Audit a storage through its protocol, table by table."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from headwater import errors
from headwater.audit import changes, logs, report, states
from headwater.audit.cursors import audit_cursors
from headwater.audit.lakes.lake_audit import audit_lake
from headwater.client.client import AsyncClient
from headwater.client.sync.client import Client
from headwater.client.table import AsyncTable
from headwater.cluster.paths import table_path
from headwater.config.options import CHANGELOG_IMAGE, ChangelogImage
from headwater.model import TablePath
from headwater.read.offsets import buckets_of
from headwater.read.position import has_lake

# The buckets of one table under audit, and what they prove together.

REMOTE = "rows in a remote store that cannot be reached from here were not read"
EXPIRED = "rows expired while they were read"
CUT = "some changelogs do not reach back to their first change"


@dataclass(slots=True)
class TableTally:
    """Adds up what the buckets of a table prove."""

    row_count: int = 0
    batch_count: int = 0
    decoded_count: int = 0
    state_count: int = 0
    lookup_count: int = 0
    is_cut: bool = False
    """Whether a bucket's changelog does not reach back to its first change."""
    log_notes: list[str] = field(default_factory=list)
    state_notes: list[str] = field(default_factory=list)

    def take_log(self, walk: logs.LogWalk) -> None:
        """Add what was checked of a log."""
        self.row_count += walk.check.row_count
        self.batch_count += walk.check.batch_count
        for part in walk.unread:
            self.log_notes.append(
                REMOTE if isinstance(part.fault, errors.RemoteLogError) else EXPIRED
            )

    def take_state(self, proof: states.StateProof) -> None:
        """Add what was compared of a state."""
        self.state_count += proof.row_count
        self.lookup_count += proof.lookup_count
        self.state_notes += proof.notes


async def audit_buckets(table: AsyncTable, notes: report.Notes, *, deep: bool) -> None:
    """Check the logs and states of a table.

    1. Audit each bucket; one that cannot be read does not stop the others. 2. Report what was
       proven. 3. If logs are incomplete and a lake holds the rest, compare the state with both.
    """
    tally = TableTally()
    for place, bucket in (await buckets_of(table.cluster, table.info)).items():
        audited = logs.AuditedBucket(
            cluster=table.cluster, table=table.info, place=place, bucket=bucket, notes=notes
        )
        notes.progress(f"{table.path} {audited.shown}")
        await _audit_bucket(audited, tally, deep=deep)
    _prove_logs(table, tally, notes, deep=deep)
    if table.info.is_keyed:
        await _prove_states(table, tally, notes, deep=deep)


async def _audit_bucket(audited: logs.AuditedBucket, tally: TableTally, *, deep: bool) -> None:
    try:
        end, start = await audited.offset("latest"), await audited.offset("earliest")
        if audited.table.is_keyed:
            audit_keyed = _audit_changes if deep else _audit_counts
            await audit_keyed(audited, tally, start=start, end=end)
        else:
            await _audit_rows(audited, tally, start=start, end=end, deep=deep)
    except (errors.TableMissingError, errors.PartitionMissingError):
        tally.log_notes.append("a bucket was dropped while it was read")
    except errors.HeadwaterError as fault:
        audited.bad(
            report.Check.READABLE, f"The bucket cannot be read: {fault.message}", remedy=fault.hint
        )


# ---- log tables


async def _audit_rows(
    audited: logs.AuditedBucket, tally: TableTally, *, start: int, end: int, deep: bool
) -> None:
    contents = changes.RowContents(audited) if deep else None
    reading: logs.Contents = contents or logs.NoContents()
    walk = logs.LogWalk(audited, start=start, contents=reading)
    await walk.go_to(end)
    tally.take_log(walk)
    tally.decoded_count += contents.row_count if contents else 0


# ---- primary-key tables


async def _audit_counts(
    audited: logs.AuditedBucket, tally: TableTally, *, start: int, end: int
) -> None:
    """Compare the number of rows, if the changelog records inserts."""
    counts = changes.ChangeCounts(is_whole=start == 0)
    walk = logs.LogWalk(audited, start=start, contents=counts)
    await walk.go_to(end)
    try:
        await states.offset_of_state(audited)
        if not _shows_before(audited):
            tally.state_notes.append("its changelog does not record inserts: only --deep proves it")
        elif counts.is_whole:
            tally.take_state(await states.prove_count(audited, walk, counts))
    except errors.HeadwaterError as fault:
        states.unreadable_state(audited, fault)
    tally.is_cut |= not counts.is_whole
    tally.take_log(walk)


async def _audit_changes(
    audited: logs.AuditedBucket, tally: TableTally, *, start: int, end: int
) -> None:
    """Compare every row with the last change of its key."""
    rules = changes.ChangeRules(shows_before=_shows_before(audited))
    contents = changes.ChangeContents(audited, rules=rules, is_whole=start == 0)
    walk = logs.LogWalk(audited, start=start, contents=contents)
    await walk.go_to(end)
    try:
        tally.take_state(await states.prove_rows(audited, walk, contents))
    except errors.HeadwaterError as fault:
        states.unreadable_state(audited, fault)
    contents.fold.held()
    _tell_misfits(audited, contents.fold)
    tally.is_cut |= not contents.fold.is_whole
    tally.decoded_count += contents.fold.change_count
    tally.take_log(walk)


def _shows_before(audited: logs.AuditedBucket) -> bool:
    image = CHANGELOG_IMAGE.required(audited.table.descriptor.properties)
    return image is ChangelogImage.FULL


def _tell_misfits(audited: logs.AuditedBucket, fold: changes.ChangeFold) -> None:
    if not fold.misfits:
        return
    first = min(fold.misfits, key=lambda each: each.offset)
    others = (
        f"{fold.misfit_count:,} changes are inconsistent in total." if fold.misfit_count > 1 else ""
    )
    audited.bad(
        report.Check.STATE,
        f"The change at offset {first.offset} {first.why}.{others}",
        offset=first.offset,
        remedy=(
            "Readers of the changelog got a wrong change there: have them read the table "
            "again from the start."
        ),
    )


# ---- what it proves


def _prove_logs(table: AsyncTable, tally: TableTally, notes: report.Notes, *, deep: bool) -> None:
    path, note = str(table.path), _joined(tally.log_notes)
    notes.proven(
        report.Proof(check=report.Check.OFFSETS, table=path, amount=tally.row_count, note=note)
    )
    notes.proven(
        report.Proof(
            check=report.Check.CHECKSUMS, table=path, amount=tally.batch_count, unit="batches"
        )
    )
    if deep:
        unit = "changes" if table.info.is_keyed else "rows"
        notes.proven(
            report.Proof(
                check=report.Check.READABLE, table=path, amount=tally.decoded_count, unit=unit
            )
        )


async def _prove_states(
    table: AsyncTable, tally: TableTally, notes: report.Notes, *, deep: bool
) -> None:
    if tally.is_cut and deep and has_lake(table.info):
        count, why_not = await states.prove_with_lake(table, notes)
        tally.state_notes.append(f"{CUT}: {why_not or f'{count:,} rows compared with the lake'}")
    elif tally.is_cut:
        seen = "only keys that changed since were compared" if deep else "it was not compared"
        tally.state_notes.append(f"{CUT}: {seen}")
    path = str(table.path)
    note = _joined(tally.state_notes)
    notes.proven(
        report.Proof(check=report.Check.STATE, table=path, amount=tally.state_count, note=note)
    )
    if deep:
        notes.proven(
            report.Proof(
                check=report.Check.LOOKUPS, table=path, amount=tally.lookup_count, unit="keys"
            )
        )


def _joined(texts: list[str]) -> str:
    return "; ".join(dict.fromkeys(texts))


# Auditing a storage through its protocol: embedded, served, or an Apache Fluss cluster.


async def audit_storage(
    client: AsyncClient,
    tables: Sequence[TablePath | str] = (),
    *,
    deep: bool = False,
    watch: report.Watch = report.no_watch,
) -> report.AuditReport:
    """Check some tables, or all; nothing is changed.

    1. Find the tables. 2. Audit each: logs, states, lake. 3. Audit the cursors.
    """
    clock = client.cluster.clock
    started_ms, started_s = clock.now_ms(), clock.monotonic()
    notes = report.Notes(watch)
    named = [table_path(each) for each in tables]
    for path in named:
        # A wrong name is the caller's mistake, not a finding.
        await client.table(path)
    for path in named or await all_tables(client, notes):
        await audit_table(client, path, notes, deep=deep)
    await audit_cursors(client, notes, tables=named or None)
    return report.AuditReport(
        findings=notes.findings,
        proofs=notes.proofs,
        started_ms=started_ms,
        duration_s=clock.monotonic() - started_s,
        is_deep=deep,
    )


def audit(
    client: Client, tables: Sequence[TablePath | str] = (), *, deep: bool = False
) -> report.AuditReport:
    """Check some tables, or all, and wait for the report."""
    return client.run(lambda awaiting: audit_storage(awaiting, tables, deep=deep))


async def all_tables(client: AsyncClient, notes: report.Notes) -> list[TablePath]:
    """List every table of every database."""
    found: list[TablePath] = []
    for database in await client.list_databases():
        try:
            found += [TablePath(database, name) for name in await client.list_tables(database)]
        except errors.DatabaseMissingError:
            continue
        except errors.HeadwaterError as fault:
            message = f"The tables of {database} cannot be listed: {fault.message}"
            notes.bad(
                report.Finding(check=report.Check.READABLE, message=message, remedy=fault.hint)
            )
    return found


async def audit_table(
    client: AsyncClient, path: TablePath, notes: report.Notes, *, deep: bool
) -> None:
    """Audit one table; what cannot be read becomes a finding."""
    try:
        table = await client.table(path)
        await _audit_parts(table, notes, deep=deep)
    except errors.TableMissingError:
        return  # It was dropped meanwhile.
    except errors.HeadwaterError as fault:
        notes.bad(
            report.Finding(
                check=report.Check.READABLE,
                table=str(path),
                message=f"The table cannot be read: {fault.message}",
                remedy=fault.hint,
            )
        )


async def _audit_parts(table: AsyncTable, notes: report.Notes, *, deep: bool) -> None:
    await audit_buckets(table, notes, deep=deep)
    if has_lake(table.info):
        await audit_lake(table, notes, deep=deep)
