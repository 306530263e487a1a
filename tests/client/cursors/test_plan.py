"""Dividing buckets: fair within one, the same for all, and nothing moves without need."""

from hypothesis import given
from hypothesis import strategies as st

from headwater.client.cursors.membership import Seat, divide, plan
from headwater.model.bucket import TableBucket

MEMBERS = [f"member-{letter}" for letter in "abcde"]


def buckets(count: int) -> list[TableBucket]:
    return [TableBucket(1, number) for number in range(count)]


def seated(owners: list[str | None]) -> dict[TableBucket, Seat]:
    return {
        bucket: Seat(owner=owner, is_free=owner is None)
        for bucket, owner in zip(buckets(len(owners)), owners, strict=True)
    }


live = st.lists(st.sampled_from(MEMBERS), min_size=1, unique=True)
owners = st.lists(st.sampled_from([None, *MEMBERS]), max_size=40)


@given(live, owners)
def test_every_bucket_goes_to_one_live_member_and_shares_differ_by_one(live, owners):
    divided = divide(live, seated(owners))

    given_out = [bucket for each in divided.values() for bucket in each]
    sizes = [len(each) for each in divided.values()]
    assert sorted(given_out, key=lambda bucket: bucket.bucket) == buckets(len(owners))
    assert max(sizes) - min(sizes) <= 1
    assert divided.keys() == set(live)


@given(live, owners)
def test_a_member_keeps_its_buckets_up_to_its_share(live, owners):
    divided = divide(live, seated(owners))

    for name in live:
        held = {b for b, seat in seated(owners).items() if seat.owner == name}
        assert len(held & divided[name]) == min(len(held), len(divided[name]))


@given(live, owners)
def test_a_balanced_group_is_left_alone(live, owners):
    settled = {
        bucket: Seat(owner=name, is_free=False)
        for name, given_out in divide(live, seated(owners)).items()
        for bucket in given_out
    }

    plans = [plan(name, live, settled) for name in live]

    assert all(each.release == each.claim == () for each in plans)


@given(live, owners)
def test_members_that_see_the_same_never_claim_the_same(live, owners):
    seats = seated([owner if owner in live else None for owner in owners])

    claims = [bucket for name in live for bucket in plan(name, live, seats).claim]

    assert len(claims) == len(set(claims))
    assert all(seats[bucket].is_free for bucket in claims)


def test_a_bucket_of_an_owner_that_may_live_is_not_claimed():
    seats = {TableBucket(1, 0): Seat(owner=None, is_free=False)}

    assert plan("member-a", [], seats).claim == ()


def test_what_is_given_up_is_spread_over_partitions():
    held = [TableBucket(1, number, partition) for partition in (7, 8) for number in range(4)]
    seats = {bucket: Seat(owner="member-a", is_free=False) for bucket in held}

    leaving = plan("member-a", ["member-b"], seats).release

    assert sorted(bucket.partition_id for bucket in leaving) == [7, 7, 8, 8]
