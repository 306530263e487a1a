"""The audit of the lake table of one table."""

from headwater import errors
from headwater.audit.lakes import metadata, view
from headwater.audit.lakes.keyed_rows import KeyedRowCheck
from headwater.audit.lakes.log_rows import LogRowCheck
from headwater.audit.report import Check, Finding, Notes, Proof, Severity
from headwater.client.table import AsyncTable
from headwater.cluster.cluster import Cluster
from headwater.lake.spi import LakeInventory, rows_deleted
from headwater.model import TableInfo
from headwater.runtime.events import Events
from headwater.runtime.tasks import aside

ATTEMPTS_MAX = 3
"""Times that a table is looked at, if it moves under what seems to be wrong with it."""

_events = Events("audit.lakes")
Suspect = tuple[Check, str | None, int | None]


async def audit_lake(table: AsyncTable, notes: Notes, *, deep: bool) -> None:
    """Prove that the lake table of a table holds what it should; what is wrong is noted.

    Tiering, compaction, expiry and retention may go on meanwhile. What seems to be wrong counts
    if nothing moved since it was looked at, or if it is still so at the next look.
    """
    suspects: frozenset[Suspect] = frozenset()
    for attempt in range(1, ATTEMPTS_MAX + 1):
        notes.progress(f"{table.path}: looking at its lake table")
        audit = _Audit(table.cluster, table.info, Notes(notes.progress), deep=deep)
        await audit.run_to_the_end()
        found = audit.notes.findings
        if not _doubtful(found) or await audit.is_still():
            notes.take(found, audit.notes.proofs)
            return
        if attempt == ATTEMPTS_MAX:
            known = [each for each in found if _suspect(each) in suspects or not _doubtful([each])]
            notes.take(known, audit.notes.proofs)
            if len(known) < len(found):
                notes.proven(_unsettled(table))
        suspects = frozenset(map(_suspect, _doubtful(found)))


class _Audit:
    """Look once, and note what is wrong with what was seen."""

    def __init__(self, cluster: Cluster, table: TableInfo, notes: Notes, *, deep: bool) -> None:
        self._cluster = cluster
        self._table = table
        self._deep = deep
        self._looked: view.LakeView | None = None
        self.notes = notes

    async def run_to_the_end(self) -> None:
        """Audit, whatever libraries say over metadata that is damaged in ways nobody thought of."""
        try:
            await self.run()
        except Exception as fault:  # noqa: BLE001 - one table that is damaged must not hide others
            _events.warning("could not audit", table=str(self._table.path), fault=repr(fault))
            self.notes.bad(
                view.LakeFindings(self._table.path, {}).table(
                    Check.READABLE,
                    f"The lake table cannot be read: {type(fault).__name__}: {fault}.",
                    remedy="Restore the metadata of the lake table from a copy.",
                )
            )

    async def run(self) -> None:
        """Audit.

        1. Look. 2. Compare boundaries with each other and with what the server was told. 3. See
        that lake and log meet. 4. Count rows. 5. Compare files with those that snapshots name.
        6. If it is a deep audit, compare rows.
        """
        say = view.LakeFindings(self._table.path, {})
        try:
            looked = await view.look_at_lake(self._cluster, self._table)
        except (errors.CorruptFileError, errors.LakeTableDiffersError) as fault:
            self.notes.bad(say.fault(Check.BOUNDARY, fault))
            return
        except errors.HeadwaterError as fault:
            self.notes.bad(_unseen(fault, say))
            return
        self._looked = looked
        say = view.LakeFindings(self._table.path, _names(looked))
        self._prove_boundaries(looked, say)
        self._prove_tiers(looked, say)
        if looked.newest is None:
            return
        self._prove_kept(looked.newest, say)
        await self._count(looked, say)
        await self._prove_files(looked, say)
        if self._deep:
            await self._prove_rows(looked, say)

    async def is_still(self) -> bool:
        """Tell whether nothing moved since the look."""
        try:
            now = await view.look_at_lake(self._cluster, self._table)
        except Exception:  # noqa: BLE001 - as it was before, then
            return self._looked is None
        return self._looked is not None and self._looked.fingerprint() == now.fingerprint()

    def _prove_boundaries(self, looked: view.LakeView, say: view.LakeFindings) -> None:
        for finding in metadata.boundary_findings(looked, say):
            self.notes.bad(finding)
        bounded = sum(each.is_own for each in looked.line)
        others = len(looked.line) - bounded
        self._proven(
            say,
            Check.BOUNDARY,
            amount=bounded,
            unit="snapshots",
            note=f"{others} snapshots of others carry no boundary" if others else "",
        )

    def _prove_tiers(self, looked: view.LakeView, say: view.LakeFindings) -> None:
        found = list(metadata.tier_findings(looked, say))
        for finding in found:
            self.notes.bad(finding)
        accused = {(each.partition, each.bucket) for each in found}
        self._proven(say, Check.TIERS, amount=len(looked.logs) - len(accused), unit="buckets")

    def _prove_kept(self, newest: view.SnapshotExtent, say: view.LakeFindings) -> None:
        if newest.snapshot.taken:
            fault = rows_deleted(say.path, newest.snapshot.taken)
            self.notes.bad(say.fault(Check.TIERS, fault))

    async def _count(self, looked: view.LakeView, say: view.LakeFindings) -> None:
        newest = looked.newest
        if looked.table.is_keyed or newest is None:
            return
        try:
            source = await aside(looked.lake.source, looked.spec)
            splits = await aside(source.plan, newest.snapshot_id)
        except errors.HeadwaterError as fault:
            self.notes.bad(_unseen(fault, say))
            return
        for finding in (
            *metadata.count_findings(looked, splits, say),
            *metadata.step_findings(looked, say),
        ):
            self.notes.bad(finding)
        note = "others deleted rows in the lake" if metadata.has_deletes(splits) else ""
        if not newest.has_starts:
            note = "a tierer of others did not note where it began"
        amount = 0 if note else sum(split.row_count for split in splits)
        self._proven(say, Check.TIERS, amount=amount, unit="rows", note=note)

    async def _prove_files(self, looked: view.LakeView, say: view.LakeFindings) -> None:
        self.notes.progress(f"{say.path}: comparing the files of its lake table")
        try:
            found = await aside(_inventory, looked, opens_files=self._deep)
        except errors.HeadwaterError as fault:
            self.notes.bad(_unseen(fault, say))
            return
        for finding in metadata.file_findings(found, say):
            self.notes.bad(finding)
        self.notes.proven(metadata.file_proof(found, say, opened=self._deep))

    async def _prove_rows(self, looked: view.LakeView, say: view.LakeFindings) -> None:
        comparing = KeyedRowCheck if looked.table.is_keyed else LogRowCheck
        try:
            source = await aside(looked.lake.source, looked.spec)
            await comparing(looked, source, say, self.notes).prove()
        except errors.HeadwaterError as fault:
            self.notes.bad(_unseen(fault, say))

    def _proven(
        self, say: view.LakeFindings, check: Check, *, amount: int, unit: str, note: str = ""
    ) -> None:
        self.notes.proven(
            Proof(check=check, table=str(say.path), amount=amount, unit=unit, note=note)
        )


def _unsettled(table: AsyncTable) -> Proof:
    return Proof(
        check=Check.READABLE,
        table=str(table.path),
        note="its lake kept changing, and what seemed to be wrong was not so at the next look",
    )


def _inventory(looked: view.LakeView, *, opens_files: bool) -> LakeInventory:
    return looked.lake.keeper(looked.spec).inventory(opens_files=opens_files)


def _names(looked: view.LakeView) -> dict[int, str]:
    names: dict[int, str] = {}
    for held in looked.line:
        names |= held.names
    return names | dict(looked.partitions)


def _unseen(fault: errors.HeadwaterError, say: view.LakeFindings) -> Finding:
    if isinstance(fault, errors.UnsupportedError):
        return say.table(
            Check.READABLE, fault.message, remedy=fault.hint, severity=Severity.WARNING
        )
    return say.fault(Check.READABLE, fault)


def _doubtful(findings: "tuple[Finding, ...] | list[Finding]") -> list[Finding]:
    """Return what may only seem so while rows go from the log to the lake."""
    return [
        each for each in findings if each.severity is Severity.ERROR or each.check is Check.TIERS
    ]


def _suspect(finding: Finding) -> Suspect:
    return finding.check, finding.partition, finding.bucket
