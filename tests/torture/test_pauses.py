"""Processes that stand still past their time, as in a paused machine, and then go on."""

import asyncio
import json
import signal
import time

import pytest

from headwater.aio import connect
from headwater.config.client import ClientSettings
from headwater.errors import MissingError, RetryLaterError
from tests import figures
from tests.torture.chance import chance, work_goes_on
from tests.torture.cursor_member import NAME
from tests.torture.processes import Process, wait_until
from tests.torture.proof import prove
from tests.torture.worker import LOG
from tests.torture.world import BOTH, LEASE_S, PATIENT, World

ROUNDS_TORTURE = figures.times(6)
PAUSE_S = 1.2
SHORT_LEASE_S = 2.0
NOT_HEARD_OF = "tiering lease expired"
CURSOR_LEASE_S = 2.0
BUCKETS = 4


def pause_server(world: World, seconds: float) -> None:
    world.server.signal(signal.SIGSTOP)
    time.sleep(seconds)
    world.server.signal(signal.SIGCONT)


# ---- the server


async def append_to_paused(world: World, row: tuple[str, str]) -> float:
    """Append with little patience to a server that stands still; return how long that took."""
    limits = ClientSettings(deadline_s=4.0)
    async with await connect(world.address, settings=limits) as client:
        table = await client.table(LOG)
        world.server.signal(signal.SIGSTOP)
        began = time.monotonic()
        try:
            await table.append([row])
        except RetryLaterError:
            return time.monotonic() - began
        finally:
            world.server.signal(signal.SIGCONT)
    raise AssertionError("a server that stands still has answered")


def test_a_paused_server_is_an_error_at_the_deadline_and_nothing_is_lost(make_world):
    world = make_world()
    world.start_clients([("append+upsert", "a", PATIENT)])

    took_s = asyncio.run(append_to_paused(world, ("other", "row")))
    pause_server(world, PAUSE_S)
    world.stop_clients()

    assert took_s < 20
    assert asyncio.run(count_of(world, "other")) <= 1


async def count_of(world: World, lane: str) -> int:
    async with await connect(world.address) as client:
        rows = (await client.table(LOG)).scan(where=("lane", "==", lane))
        return (await rows.to_arrow()).num_rows


@pytest.mark.torture
@pytest.mark.timeout(900)
def test_pauses_of_the_server_lose_nothing_and_double_nothing(make_world):
    world, luck = make_world(), chance()
    world.start_clients(BOTH)
    world.start_tierer()

    for _ in range(ROUNDS_TORTURE):
        work_goes_on(luck, 0.1, 1.0)
        pause_server(world, luck.uniform(0.2, 6.0))
    world.stop_clients()
    world.stop_tierers()

    figures.note("pauses", rounds=ROUNDS_TORTURE)
    prove(world)


# ---- tierers


def pause_tierer(world: World, tierer: Process, luck) -> bool:
    """Pause a tierer until others have its table; tell whether it was at work."""
    heard = world.server.events().count(NOT_HEARD_OF)
    work_goes_on(luck, 0.05, 1.0)
    log = world.place / "tierers.log"
    tierer.send(signal.SIGSTOP)
    time.sleep(SHORT_LEASE_S * 2)
    is_taken = world.server.events().count(NOT_HEARD_OF) > heard
    if is_taken:
        size = log.stat().st_size
        wait_until(lambda: log.stat().st_size > size)
    tierer.send(signal.SIGCONT)
    return is_taken


@pytest.mark.torture
@pytest.mark.timeout(900)
@pytest.mark.parametrize("formats", [("iceberg", "paimon"), ("paimon", "iceberg")])
def test_a_tierer_that_was_taken_for_dead_commits_nothing(make_world, formats):
    world, luck = make_world(formats=formats, lake_tiering_lease_s=SHORT_LEASE_S), chance()
    world.start_clients(BOTH)
    tierers = [world.start_tierer("--rows-max", "100") for _ in range(2)]
    wait_until(lambda: (world.place / "tierers.log").stat().st_size)

    zombies = 0
    for number in range(ROUNDS_TORTURE):
        zombies += pause_tierer(world, tierers[number % 2], luck)
    world.stop_clients()
    world.stop_tierers()

    figures.note("pauses", rounds=ROUNDS_TORTURE, zombies=zombies)
    assert zombies
    assert world.server.stop() == 0
    world.restart(lake_tiering_lease_s=LEASE_S)
    prove(world)


# ---- members of cursors


class Group:
    """Two members of a cursor, rows that come in, and how far was committed, again and again."""

    def __init__(self, world: World, table, client) -> None:
        self.table, self.client = table, client
        self.sent: list[int] = []
        self.committed: dict[int, int] = {}
        arguments = (world.address, str(table.path), str(CURSOR_LEASE_S))
        self.members = [
            Process(
                "tests.torture.cursor_member",
                *arguments,
                log=world.place / f"member{number}.log",
            )
            for number in range(2)
        ]

    def told(self, member: int) -> list[dict]:
        lines = self.members[member].log.read_text().split("\n")[:-1]
        return [json.loads(line) for line in lines if line.startswith("{")]  # others are events

    def assigned(self, member: int) -> list[int]:
        told = [each["assigned"] for each in self.told(member) if "assigned" in each]
        return told[-1] if told else []

    def given(self) -> set[int]:
        told = [each for member in range(2) for each in self.told(member)]
        return {number for each in told for number in each.get("given", ())}

    async def until(self, is_true) -> None:
        """Append rows and look at what is committed until something is true."""
        async with asyncio.timeout(60):
            while not is_true():
                ids = range(len(self.sent), len(self.sent) + 20)
                await self.table.append([{"id": number} for number in ids])
                self.sent += ids
                await self.look()
                await asyncio.sleep(0.1)

    async def look(self) -> None:
        try:
            state = await self.client.cursors.describe(NAME, self.table.path)
        except MissingError:
            return  # nobody has joined yet
        for place, at in state.positions.items():
            assert at >= self.committed.get(place.bucket, 0), "a committed position went back"
            self.committed[place.bucket] = at


async def pause_members(world: World, *, rounds: int) -> None:
    async with await connect(world.address) as client:
        table = await client.create_table("orders", {"id": "BIGINT"}, buckets=BUCKETS)
        await table.append([{"id": -1}])
        group = Group(world, table, client)
        world.clients += group.members
        await group.until(lambda: len(group.assigned(0)) == len(group.assigned(1)) == BUCKETS // 2)
        for number in range(rounds):
            paused, other = group.members[number % 2], 1 - number % 2
            paused.send(signal.SIGSTOP)
            await group.until(lambda other=other: len(group.assigned(other)) == BUCKETS)
            paused.send(signal.SIGCONT)
            await group.until(lambda other=other: len(group.assigned(other)) == BUCKETS // 2)
        await group.until(lambda: group.given() >= set(group.sent))


@pytest.mark.torture
@pytest.mark.timeout(900)
def test_a_member_that_was_taken_for_dead_takes_no_commit_back(make_world):
    world = make_world()

    asyncio.run(pause_members(world, rounds=ROUNDS_TORTURE // 2))

    figures.note("pauses", rounds=ROUNDS_TORTURE // 2)
