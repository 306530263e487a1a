"""Every order in which members claim, commit and crash: no reported commit is ever overlooked."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.client.cursors.ledger import CursorMark, Ledger
from headwater.model.aggregate import AggregateKind
from headwater.model.bucket import TableBucket
from tests.cases import cases
from tests.choices import examples
from tests.client.cursors.model import (
    Actor,
    LostAnswerError,
    ModelTable,
    PlainStore,
    TurnStore,
)
from tests.clocks import InstantClock

BUCKET = TableBucket(7, 0)


class HastyLedger(Ledger):
    """Believe in a commit without looking back."""

    async def commit(self, marks, *, releases=False):
        await super().commit(marks, releases=releases)
        return frozenset()


class BlindLedger(Ledger):
    """Start from what was read before the claim."""

    async def claim(self, generations):
        before = await self.read()
        after = await super().claim(generations)
        slots = {
            bucket: replace(slot, position=before.slot(bucket).position)
            for bucket, slot in after.slots.items()
        }
        return replace(after, slots=slots)


@dataclass(frozen=True)
class Faults:
    """How many members may crash, and how many writes may happen after their writers gave up."""

    crashes: int = 0
    lates: int = 0


@dataclass
class World:
    """Members over one table, and what they believe of each other's work."""

    kind: type[Ledger] = Ledger
    table: ModelTable = field(default_factory=ModelTable)
    actors: list[Actor] = field(default_factory=list)
    starts: list[tuple[int, int, str]] = field(default_factory=list)
    commits: list[tuple[int, int]] = field(default_factory=list)
    crashes: int = 0
    lates: int = 0

    def join(self, name: str, commits: int) -> None:
        store = TurnStore(self.table)
        ledger = self.kind(store, name, InstantClock())
        self.actors.append(Actor(self.work(ledger, name, commits), store))

    def join_all(self, scripts: list[int]) -> None:
        for number, commits in enumerate(scripts):
            self.join(f"member-{number}", commits)

    async def work(self, ledger: Ledger, name: str, commits: int) -> None:
        """Claim at once, as if all others were dead, then commit until the bucket is lost."""
        view = await ledger.read()
        mine = view.slot(BUCKET).generation + 1
        try:
            view = await ledger.claim({BUCKET: mine})
        except LostAnswerError:
            view = await ledger.read()
        slot = view.slot(BUCKET)
        if not slot.is_held_by(name, mine):
            return
        position = slot.position or 0
        self.starts.append((mine, position, name))
        with suppress(LostAnswerError):
            await ledger.forget({BUCKET: slot.outdated})
        for _ in range(commits):
            position += 1
            with suppress(LostAnswerError):
                if await ledger.commit({BUCKET: CursorMark(mine, position)}):
                    return
                self.commits.append((mine, position))

    def choices(self, faults: Faults) -> list[tuple[str, int]]:
        running = [index for index, actor in enumerate(self.actors) if not actor.is_done]
        kinds = ["step"]
        kinds += ["crash"] if self.crashes < faults.crashes else []
        kinds += ["late"] if self.lates < faults.lates else []
        landing = [("land", index) for index in range(len(self.table.late))]
        return [(kind, index) for kind in kinds for index in running] + landing

    def choose(self, choice: tuple[str, int]) -> None:
        kind, index = choice
        match kind:
            case "step":
                self.actors[index].step()
            case "late":
                self.lates += 1
                self.actors[index].step(is_late=True)
            case "land":
                self.table.land(index)
            case _:
                self.crashes += 1
                self.actors[index].crash()

    def close(self) -> None:
        for actor in self.actors:
            actor.crash()

    def check(self) -> None:
        owners = {generation: name for generation, _, name in self.starts}
        assert len(owners) == len(self.starts), "two members own one generation"
        for started, position, _ in self.starts:
            for committed, reported in self.commits:
                overlooked = committed < started and position < reported
                assert not overlooked, "a later owner overlooked a reported commit"

    def fingerprint(self) -> tuple[object, ...]:
        """Two worlds that look alike and whose members saw the same go on alike."""
        actors = tuple((a.steps, a.is_done, a.store.seen) for a in self.actors)
        late = tuple(write.args for write in self.table.late)
        beliefs = tuple(self.starts), tuple(self.commits), self.crashes, self.lates
        return frozenset(self.table.held.values()), actors, late, beliefs


def explored(make: Callable[[], World], scripts: list[int], faults: Faults) -> Iterator[World]:
    """Yield the end of every run, in every order of steps and with every fault."""
    seen: set[object] = set()
    waiting: list[tuple[tuple[str, int], ...]] = [()]
    while waiting:
        path = waiting.pop()
        world = make()
        world.join_all(scripts)
        for choice in path:
            world.choose(choice)
        mark, ahead = world.fingerprint(), world.choices(faults)
        world.close()
        if mark in seen:
            continue
        seen.add(mark)
        waiting.extend((*path, choice) for choice in ahead)
        if not ahead:
            yield world


def check_all(worlds: Iterable[World]) -> int:
    """Check every world and return how many there were."""
    ends = 0
    for world in worlds:
        world.check()
        ends += 1
    return ends


@pytest.mark.parametrize(
    ("scripts", "faults"),
    [
        ([2, 2], Faults(crashes=2)),
        ([2, 0], Faults(lates=2)),
        ([1, 1, 0], Faults()),
        pytest.param([2, 1], Faults(crashes=1, lates=2), marks=pytest.mark.torture),
        pytest.param([2, 1, 0], Faults(crashes=1), marks=pytest.mark.torture),
        pytest.param([1, 1, 1], Faults(), marks=pytest.mark.torture),
    ],
)
def test_no_order_of_steps_and_faults_hides_a_reported_commit(scripts, faults):
    ends = check_all(explored(World, scripts, faults))

    assert ends > 50


@pytest.mark.parametrize(
    "make",
    [
        lambda: World(HastyLedger),
        lambda: World(BlindLedger),
        lambda: World(table=ModelTable({"position": AggregateKind.LAST_VALUE_IGNORE_NULLS})),
    ],
    ids=["no look back", "a look before the claim", "positions that turn back"],
)
def test_the_search_notices_a_protocol_that_is_too_weak(make):
    worlds = list(explored(make, [2, 0], Faults(lates=1)))

    with pytest.raises(AssertionError, match="overlooked"):
        check_all(worlds)


def test_the_search_notices_owners_that_can_be_replaced():
    worn = {"owner": AggregateKind.LAST_VALUE_IGNORE_NULLS}
    worlds = list(explored(lambda: World(table=ModelTable(worn)), [0, 0], Faults()))

    with pytest.raises(AssertionError, match="two members"):
        check_all(worlds)


@settings(max_examples=examples(500))
@given(
    scripts=st.lists(st.integers(0, 4), min_size=2, max_size=5),
    picks=st.lists(st.integers(0, 1000), max_size=120),
)
def test_long_runs_of_many_members_hide_no_reported_commit(scripts, picks):
    world = World()
    world.join_all(scripts)

    for pick in picks:
        if ahead := world.choices(Faults(crashes=2, lates=4)):
            world.choose(ahead[pick % len(ahead)])
    world.close()

    world.check()


# ---- a commit looks at two rows of its bucket


class LateStore(PlainStore):
    """Lose the answer to a write that happens when the test lets it."""

    def __init__(self, table: ModelTable) -> None:
        super().__init__(table)
        self.is_late = False
        self.reads = 0

    async def upsert(self, rows, *, only_if=()):
        if self.is_late:
            self.table.late.append(partial(self.table.upsert, tuple(rows)))
            raise LostAnswerError
        await super().upsert(rows)

    async def rows(self):
        self.reads += 1
        return await super().rows()


async def take_over(table: ModelTable, generation: int) -> None:
    """Claim a generation, clean up, and commit in it."""
    ledger = Ledger(PlainStore(table), f"member-{generation}", InstantClock())
    view = await ledger.claim({BUCKET: generation})
    assert view.slot(BUCKET).is_held_by(ledger.member, generation)
    await ledger.forget({BUCKET: view.slot(BUCKET).outdated})
    assert not await ledger.commit({BUCKET: CursorMark(generation, generation * 10)})


async def test_a_commit_reads_no_more_than_its_own_buckets():
    store = LateStore(ModelTable())
    ledger = Ledger(store, "me", InstantClock())
    await ledger.claim({BUCKET: 1})
    store.reads = 0

    for position in range(1, 5):
        assert not await ledger.commit({BUCKET: CursorMark(1, position)})

    assert store.reads == 0


@cases("others", [1, 2, 3, 4])
async def test_a_commit_is_lost_however_much_was_cleaned_up_since_the_bucket_was_taken(others):
    table = ModelTable()
    ledger = Ledger(PlainStore(table), "me", InstantClock())
    await ledger.claim({BUCKET: 1})
    for generation in range(2, 2 + others):
        await take_over(table, generation)

    assert await ledger.commit({BUCKET: CursorMark(1, 5)}) == {BUCKET}
    assert await ledger.commit({BUCKET: CursorMark(1, 6)}) == {BUCKET}


async def test_a_claim_that_happens_late_brings_no_commit_of_its_writer_back():
    store = LateStore(ModelTable())
    ledger = Ledger(store, "me", InstantClock())
    store.is_late = True
    with pytest.raises(LostAnswerError):
        await ledger.claim({BUCKET: 1})
    store.is_late = False
    await ledger.claim({BUCKET: 1})
    for generation in (2, 3, 4):
        await take_over(store.table, generation)

    store.table.land(0)

    assert await ledger.commit({BUCKET: CursorMark(1, 5)}) == {BUCKET}
