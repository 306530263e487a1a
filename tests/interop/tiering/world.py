"""A cluster and its lake in a test: it hands out turns, so that tests have to wait for theirs."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from uuid import uuid4

from headwater.aio import AsyncTable
from headwater.cluster.lake import FinishedRound
from headwater.tiering.plan import TieringSettings
from headwater.tiering.progress import RoundReport, TieringTurn, TurnEnded, TurnFailed, no_watch
from headwater.tiering.round import tier_round
from headwater.tiering.service import TieringService
from headwater.tiering.task import LocalRunner
from tests.tiering.world import SCHEMA, World, counted

HANDED_OUT_WITHIN_S = 60
POLL_S = 0.1
KEYS_MAX = 100


@dataclass
class ClusterWorld(World):
    made: list[AsyncTable] = field(default_factory=list)

    async def table(self, name=None, schema=SCHEMA, **traits) -> AsyncTable:
        # The cluster may outlive the test, and its lake keeps dropped tables.
        name = name or f"table_{uuid4().hex}"
        options = {
            "table.datalake.enabled": True,
            "table.datalake.freshness": "1s",
            **traits.pop("options", {}),
        }
        traits = {"buckets": 2, **traits}
        table = await self.hw.create_table(name, schema, options=options, **traits)
        self.made.append(table)
        return table

    async def keyed(self, name=None, schema=SCHEMA, **traits) -> AsyncTable:
        return await self.table(name, schema, primary_key="id", **traits)

    async def drop_all(self) -> None:
        for table in self.made:
            await self.hw.drop_table(table.path)

    # ---- tiering

    async def handed_out(self, table: AsyncTable) -> TieringTurn:
        """Wait for the turn with a table; other tables are given back."""
        async with asyncio.timeout(HANDED_OUT_WITHIN_S):
            while True:
                answer = await self.hw.lake.heartbeat(request=True)
                assigned = answer.assigned
                if assigned is not None and assigned.path == table.path:
                    return TieringTurn(assigned, answer.storage_id)
                if assigned is None:
                    await asyncio.sleep(POLL_S)
                else:
                    await self.give_back(TieringTurn(assigned))

    async def give_back(self, turn: TieringTurn) -> None:
        done = FinishedRound(assignment=turn.assignment, is_forced=True)
        await self.hw.lake.heartbeat(finished=[done])

    async def round(self, turn: TieringTurn, *, watch=no_watch) -> RoundReport:
        return await tier_round(
            turn,
            client=self.hw,
            runner=LocalRunner(self.hw),
            lakes=self.lakes,
            limits=self.limits,
            watch=watch,
        )

    async def tier(self, table: AsyncTable, *, watch=no_watch) -> RoundReport:
        turn = await self.handed_out(table)
        try:
            return await self.round(turn, watch=watch)
        finally:
            await self.give_back(turn)

    async def serve(self, table: AsyncTable) -> RoundReport:
        """Have a service tier whatever is handed out, until it was the table's turn."""
        found: list[RoundReport] = []

        def listen(news: object) -> None:
            if isinstance(news, TurnEnded | TurnFailed) and news.path == table.path:
                service.stop()
            if isinstance(news, TurnEnded) and news.path == table.path:
                found.append(news.report)

        settings = TieringSettings(poll_interval_s=POLL_S)
        service = TieringService(
            self.hw, LocalRunner(self.hw), settings=settings, lakes=self.lakes, listener=listen
        )
        async with asyncio.timeout(HANDED_OUT_WITHIN_S):
            await service.run()
        return found[0]

    async def now(self, table: AsyncTable) -> Counter:
        if not table.info.is_keyed:
            return await super().now(table)
        # Not by a scan, which older versions do not serve.
        found = await table.lookup([{"id": number} for number in range(KEYS_MAX)])
        return counted(found.to_batches())

    async def told(self, table: AsyncTable) -> tuple[int, dict]:
        """Return what the cluster was told: the snapshot and the ends that it holds."""
        known = await self.hw.lake.snapshot(table.path)
        assert known is not None
        return known.snapshot_id, dict(known.ends)
