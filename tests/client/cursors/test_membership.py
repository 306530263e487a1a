"""Members that join, leave, die and come back: in the end every bucket has one live owner."""

import asyncio
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.client.cursors.ledger import Ledger
from headwater.client.cursors.membership import Listing, Membership
from headwater.client.cursors.rows import bucket_slot
from headwater.model.bucket import TableBucket
from tests.choices import examples
from tests.client.cursors.model import ModelTable, PlainStore
from tests.clocks import InstantClock

LEASE_S = 10.0
BEAT_S = LEASE_S / 3


def listed(count: int, table_id: int = 7) -> Listing:
    return Listing(frozenset(TableBucket(table_id, number) for number in range(count)))


@dataclass
class Group:
    """Members over one table that take turns, each with a clock that shows another time."""

    listing: Listing
    table: ModelTable = field(default_factory=ModelTable)
    members: dict[str, Membership] = field(default_factory=dict)
    clocks: dict[str, InstantClock] = field(default_factory=dict)
    read: dict[TableBucket, int] = field(default_factory=dict)
    joined: int = 0

    async def join(self) -> str:
        self.joined += 1
        name = f"member-{self.joined}"
        clock = self.clocks[name] = InstantClock(self.joined * 1e6)
        ledger = Ledger(PlainStore(self.table), name, clock)
        self.members[name] = Membership(ledger, clock, lease_s=LEASE_S)
        await self.members[name].beat()
        return name

    def kill(self, name: str) -> None:
        del self.members[name]

    async def leave(self, name: str) -> None:
        await self.members.pop(name).leave({})

    async def turn(self, seconds: float = BEAT_S) -> None:
        """Let time pass, and every member beat and take stock once."""
        for clock in self.clocks.values():
            clock.now_s += seconds
        for member in list(self.members.values()):
            await member.beat()
            await member.round(self.listing, self.read)

    async def settle(self) -> None:
        for _ in range(8):
            await self.turn()

    def sizes(self) -> list[int]:
        return sorted(len(member.held) for member in self.members.values())

    def owned(self) -> list[TableBucket]:
        held = [bucket for member in self.members.values() for bucket in member.held]
        return sorted(held, key=lambda bucket: bucket.bucket)


actions = st.lists(st.sampled_from(["join", "kill", "leave", "turn"]), max_size=20)


@settings(max_examples=examples(150))
@given(st.integers(0, 12), actions, st.randoms(use_true_random=False))
def test_in_the_end_all_buckets_are_divided_among_those_who_live(count, actions, random):
    async def story() -> Group:
        group = Group(listed(count))
        for action in actions:
            if action == "join":
                await group.join()
            elif action == "turn":
                await group.turn()
            elif group.members:
                name = random.choice(sorted(group.members))
                group.kill(name) if action == "kill" else await group.leave(name)
        await group.join()
        await group.settle()
        return group

    group = asyncio.run(story())

    assert group.owned() == sorted(group.listing.buckets, key=lambda bucket: bucket.bucket)
    assert group.sizes()[-1] - group.sizes()[0] <= 1


async def test_a_member_takes_over_with_the_position_that_was_committed():
    group = Group(listed(1))
    bucket = TableBucket(7, 0)
    first, second = await group.join(), await group.join()
    await group.turn()
    assert await group.members[first].commit({bucket: 42}) == frozenset()

    group.kill(first)
    await group.settle()

    assert group.members[second].held[bucket].position == 42


async def test_a_bucket_is_not_taken_before_the_lease_of_its_owner_ends():
    group = Group(listed(1))
    first, second = await group.join(), await group.join()
    await group.turn()
    group.kill(first)

    await group.turn(LEASE_S * 0.9)

    assert group.members[second].held == {}


async def test_a_member_that_leaves_is_followed_at_once():
    group = Group(listed(3))
    first = await group.join()
    await group.turn()
    second = await group.join()

    await group.leave(first)
    await group.turn(0)

    assert len(group.members[second].held) == 3


async def test_a_member_that_was_away_loses_its_buckets_and_says_so():
    group = Group(listed(1))
    bucket = TableBucket(7, 0)
    first = await group.join()
    await group.turn()
    away = group.members.pop(first)
    await group.join()
    await group.settle()

    lost = await away.commit({bucket: 9})

    assert lost == {bucket}
    assert away.held == {}


async def test_a_release_carries_the_position_that_was_read():
    group = Group(listed(2))
    await group.join()
    await group.turn()
    group.read = dict.fromkeys(group.listing.buckets, 5)
    second = await group.join()

    await group.settle()

    (hold,) = group.members[second].held.values()
    assert hold.position == 5


async def test_a_member_goes_on_where_its_own_claim_was_answered_late():
    group = Group(listed(1))
    name = await group.join()
    ledger = Ledger(PlainStore(group.table), name, InstantClock())
    await ledger.claim({TableBucket(7, 0): 1})

    await group.turn()

    assert group.members[name].held[TableBucket(7, 0)].generation == 1


async def test_outdated_generations_and_dead_members_leave_no_rows():
    group = Group(listed(1))
    bucket = TableBucket(7, 0)
    for _ in range(5):
        name = await group.join()
        await group.settle()
        await group.members[name].commit({bucket: group.joined})
        group.kill(name)
    await group.join()

    await group.settle()

    assert len(group.table.held) == 3, "its member, its claim, and the generation it started from"


async def test_a_late_commit_to_a_deleted_generation_counts_for_nothing():
    group = Group(listed(1))
    bucket = TableBucket(7, 0)
    away = group.members[await group.join()]
    await group.turn()
    group.table.held.clear()

    assert await away.commit({bucket: 99}) == {bucket}
    group.members.clear()
    name = await group.join()
    await group.settle()

    assert group.members[name].held[bucket].position is None


async def test_rows_of_a_table_that_was_made_anew_are_not_taken_for_its_own():
    group = Group(listed(2, table_id=7))
    name = await group.join()
    await group.turn()
    await group.members[name].commit(dict.fromkeys(group.listing.buckets, 50))

    group.listing = listed(2, table_id=8)
    await group.turn()

    assert {hold.position for hold in group.members[name].held.values()} == {None}


async def test_rows_of_a_dropped_bucket_go_only_when_two_listings_lack_it():
    group = Group(listed(2))
    await group.join()
    await group.turn()

    group.listing = listed(1)
    await group.turn()
    await group.turn()
    assert (bucket_slot(TableBucket(7, 1)), 1) in group.table.held
    group.listing = listed(1)
    await group.turn()

    assert (bucket_slot(TableBucket(7, 1)), 1) not in group.table.held


async def test_the_first_member_decides_where_the_group_begins():
    group = Group(listed(1))
    bucket = TableBucket(7, 0)
    ledgers = [Ledger(PlainStore(group.table), name, InstantClock()) for name in "ab"]
    for ledger, offset in zip(ledgers, (10, 20), strict=True):
        await ledger.begin({bucket: offset})

    name = await group.join()
    await group.turn()

    assert group.members[name].held[bucket].position == 10


async def test_a_member_is_fresh_for_a_lease_after_its_beat_was_sent():
    group = Group(listed(1))
    name = await group.join()

    group.clocks[name].now_s += LEASE_S
    assert group.members[name].is_fresh()
    group.clocks[name].now_s += 0.1

    assert not group.members[name].is_fresh()
