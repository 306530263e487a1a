"""One round: what the log of a table has and its lake table has not, copied and committed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from headwater import errors
from headwater.client.client import AsyncClient
from headwater.lake.lakes import Lakes
from headwater.lake.spi import LakeCommitter, LakeSnapshot, WriteResult, check_kept
from headwater.model import Boundary, TablePath
from headwater.model.boundary import BOUNDARY_PROPERTY, TieringEpoch
from headwater.model.path import spec_of_name
from headwater.read.split import LogPart
from headwater.runtime.clock import random_bytes
from headwater.runtime.events import Events
from headwater.runtime.tasks import aside
from headwater.tiering import progress, task
from headwater.tiering.commit import Commitment, Proposal
from headwater.tiering.plan import (
    Limits,
    LogsSeen,
    RoundPlan,
    check_same_log,
    check_same_table,
    check_turn,
    is_report_ahead,
    is_report_behind,
    plan_round,
)
from headwater.tiering.status import check_columns, look_at
from headwater.tiering.target import ends_of, ensured_target, prepare_offsets, report_snapshot

# Lake tables that another kind of tierer fills, which says elsewhere what they hold.

OFFSETS_PROPERTY = "fluss-offsets"
"""Under this name tierers of Apache Fluss, and ours, note which offsets a snapshot holds."""


def check_ours(reported: LakeSnapshot | None, *, path: TablePath) -> None:
    """Refuse to tier above the snapshot of another tierer: its rows would come a second time."""
    if reported is None or BOUNDARY_PROPERTY in reported.properties:
        return
    if OFFSETS_PROPERTY in reported.properties:
        raise errors.LakeTableDiffersError(
            f"The lake table {path} is filled by the tiering service of Apache Fluss.",
            hint="Leave the table to that one; or stop it, and recreate the lake table:"
            f" headwater lake drop {path}",
        )


# Turns of servers that begin to count anew when they restart.


async def confirmed(
    turn: progress.TieringTurn, held: Boundary | None, *, client: AsyncClient
) -> progress.TieringTurn:
    """Return a turn that the lake can tell from those before it.

    Apache Fluss 0.9 forgets its turns when its coordinator restarts, and then hands out ones that
    the lake has seen. Whoever still holds the table by the word of the server goes on after the
    last turn that the lake knows.
    """
    if turn.storage_id is not None or held is None or held.epoch <= turn.epoch:
        return turn
    assignment = turn.assignment
    answer = await client.lake.heartbeat(tiering=[assignment])
    if assignment.table_id in answer.fenced:
        raise errors.TieringFencedError(
            f"{assignment.path} was given to another tierer, or dropped."
        )
    last = held.epoch
    return replace(turn, fence=TieringEpoch(last.coordinator, last.turn + 1))


# One round: what the log of a table has and its lake table has not, copied and committed.

_events = Events("tiering")
PLANS_MAX = 3
"""Times that a round is planned, if others change the lake table under it."""
COMMIT_USER = "__fluss_lake_tiering"
"""The name under which Apache Fluss looks for the snapshots of tierers."""
_ID_BYTES = 16


@dataclass(frozen=True, slots=True)
class WrittenSplit:
    """Hold what was copied, and the files that it was written to."""

    split: LogPart
    result: WriteResult


async def tier_round(
    turn: progress.TieringTurn,
    *,
    client: AsyncClient,
    runner: task.Runner,
    lakes: Lakes,
    limits: Limits,
    watch: progress.Watch = progress.no_watch,
) -> progress.RoundReport:
    """Bring a lake table up to the log; where others changed it meanwhile, begin again."""
    tierer = Tierer(turn, client=client, runner=runner, lakes=lakes, watch=watch)
    for _ in range(PLANS_MAX - 1):
        try:
            return await tierer.tier(limits)
        except (errors.BoundaryMovedError, errors.LakeRewrittenError):
            continue
    return await tierer.tier(limits)


class Tierer:
    """Conduct the rounds of one turn."""

    def __init__(
        self,
        turn: progress.TieringTurn,
        *,
        client: AsyncClient,
        runner: task.Runner,
        lakes: Lakes,
        watch: progress.Watch,
    ) -> None:
        self._turn = turn
        self._client = client
        self._runner = runner
        self._lakes = lakes
        self._watch = watch

    async def tier(self, limits: Limits) -> progress.RoundReport:
        """Tier what is new.

        1. Read the table, and make its lake table or bring its columns up to date. 2. Look at the
        newest snapshot, then at the logs, then whether the columns are still those, and whether
        others tier the table. 3. Report that snapshot, if the server does not know it. 4. Plan.
        5. Claim the lake table, if others may be alive. 6. Write. 7. Have the offsets prepared.
        8. Commit. 9. Report.
        """
        target = await self._target()
        committer = await aside(target.lake.committer, target.spec)
        await self._watch(progress.RoundStep.HEAD)
        head = await aside(committer.head)
        check_kept(head, target.spec.path)
        held = None if head is None else head.boundary
        self._turn = await confirmed(self._turn, held, client=self._client)
        await self._watch(progress.RoundStep.LOGS)
        view = await look_at(self._client, target.table, turn=self._turn)
        await check_columns(self._client, target.table)
        await self._check_ours(target, held, view)
        adopted = await self._adopt(head, view)
        await self._watch(progress.RoundStep.PLAN)
        plan = plan_round(held, view, epoch=self._turn.epoch, limits=limits)
        report = progress.RoundReport(target=target, snapshot=head, adopted=adopted)
        if not plan.splits:
            return report
        if plan.needs_claim:
            head = await self._claim(committer, plan)
        written = await self._write(target, plan, committer=committer, on=head)
        if not written:
            return replace(report, snapshot=head)
        snapshot = await self._commit(plan, committer=committer, written=written)
        return _told(report, plan, snapshot=snapshot, written=written)

    # ---- 1. the table and its lake table

    async def _target(self) -> progress.LakeTarget:
        await self._watch(progress.RoundStep.TABLE)
        assignment = self._turn.assignment
        table = (await self._client.table(assignment.path)).info
        if table.table_id != assignment.table_id:
            raise errors.TableMissingError(
                f"{table.path} was dropped, and there is another table of that name now."
            )
        await self._watch(progress.RoundStep.LAKE_TABLE)
        return await aside(ensured_target, self._lakes, table, identity=self._turn.identity(table))

    # ---- 2. who else tiers it

    async def _check_ours(
        self, target: progress.LakeTarget, held: Boundary | None, view: LogsSeen
    ) -> None:
        if view.reported_id is None:
            return
        if held is None:
            _events.warning(
                "lake table was tiered before and is empty: begins anew",
                table=str(view.path),
                snapshot_id=view.reported_id,
                hint="Nothing to do after `headwater lake drop`. Otherwise the lake's catalog was "
                "lost or replaced: stop the tierer and restore it.",
            )
        if is_report_ahead(view.reported, held, partitions=view.partitions):
            source = await aside(target.lake.source, target.spec)
            reported = await aside(source.snapshot, view.reported_id)
            check_ours(reported, path=view.path)

    # ---- 3. what an earlier tierer did not live to report

    async def _adopt(self, head: LakeSnapshot | None, view: LogsSeen) -> bool:
        held = None if head is None else head.boundary
        check_same_table(held, view.identity, path=view.path)
        check_turn(held, self._turn.epoch, path=view.path)
        check_same_log(held, view)
        if head is None or held is None or not is_report_behind(view, held):
            return False
        await self._watch(progress.RoundStep.ADOPT)
        await report_snapshot(self._client, self._turn.assignment, head)
        return True

    # ---- 5. fencing

    async def _claim(self, committer: LakeCommitter, plan: RoundPlan) -> LakeSnapshot:
        """Commit an empty snapshot of this epoch: from here on no earlier one can commit."""
        await self._watch(progress.RoundStep.CLAIM)
        held = plan.held or plan.kept
        claimed = replace(held, epoch=self._turn.epoch, round_id=_new_id())
        return await self._commitment(committer, Proposal(held=plan.held, boundary=claimed))

    # ---- 6. writing

    async def _write(
        self,
        target: progress.LakeTarget,
        plan: RoundPlan,
        *,
        committer: LakeCommitter,
        on: LakeSnapshot | None,
    ) -> list[WrittenSplit]:
        await self._watch(progress.RoundStep.WRITE)
        tasks = await aside(_tasks, target, plan, committer=committer, on=on)
        done: list[task.Outcome] = []

        def note(each: task.TaskDone) -> None:
            done.append(each.outcome)

        try:
            outcomes = await self._runner.run(tasks, report=note)
        except BaseException:
            await aside(committer.abort, _results(done))
            raise
        return [
            WrittenSplit(split, outcome)
            for split, outcome in zip(plan.splits, outcomes, strict=True)
            if not isinstance(outcome, task.Skipped)
        ]

    # ---- 7. to 9. making it visible

    async def _commit(
        self, plan: RoundPlan, *, committer: LakeCommitter, written: Sequence[WrittenSplit]
    ) -> LakeSnapshot:
        results = [each.result for each in written]
        splits = [each.split for each in written]
        assignment = self._turn.assignment
        boundary = plan.boundary(splits, epoch=self._turn.epoch, round_id=_new_id())
        try:
            await self._watch(progress.RoundStep.PREPARE)
            path = await prepare_offsets(
                self._client, assignment, boundary, replaces=plan.replaces_report
            )
            await self._watch(progress.RoundStep.COMMIT)
        except BaseException:
            await aside(committer.abort, results)
            raise
        proposal = Proposal(
            held=plan.held,
            boundary=boundary,
            results=results,
            properties={"commit-user": COMMIT_USER, OFFSETS_PROPERTY: path},
        )
        snapshot = await self._commitment(committer, proposal)
        await self._watch(progress.RoundStep.REPORT)
        await self._client.lake.commit(
            assignment.table_id, snapshot.snapshot_id, path, ends=ends_of(boundary)
        )
        return snapshot

    async def _commitment(self, committer: LakeCommitter, proposal: Proposal) -> LakeSnapshot:
        clock = self._client.cluster.clock
        return await Commitment(committer, proposal, clock=clock).commit()


def _tasks(
    target: progress.LakeTarget,
    plan: RoundPlan,
    *,
    committer: LakeCommitter,
    on: LakeSnapshot | None,
) -> list[task.TieringTask]:
    keys = target.spec.partition_keys
    buckets = [
        (() if each.partition is None else spec_of_name(each.partition, keys), each.bucket)
        for each in plan.splits
    ]
    writes = committer.write_tasks(buckets, on=on)
    return [
        task.TieringTask(
            lake=target.lake, spec=target.spec, write=write, table=target.table, split=split
        )
        for split, write in zip(plan.splits, writes, strict=True)
    ]


def _results(outcomes: Sequence[task.Outcome]) -> list[WriteResult]:
    return [each for each in outcomes if not isinstance(each, task.Skipped)]


def _told(
    report: progress.RoundReport,
    plan: RoundPlan,
    *,
    snapshot: LakeSnapshot,
    written: Sequence[WrittenSplit],
) -> progress.RoundReport:
    return replace(
        report,
        snapshot=snapshot,
        tiered={each.split.log_bucket: each.split.offsets for each in written},
        row_count=sum(each.result.row_count for each in written),
        file_count=sum(each.result.file_count for each in written),
        byte_count=sum(each.result.byte_count for each in written),
        rows_left=plan.rows_left,
    )


def _new_id() -> str:
    return random_bytes(_ID_BYTES).hex()
