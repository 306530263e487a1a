"""A question to many buckets, some of which cannot answer at once."""

import numpy as np
import pytest

from headwater.cluster.leaders import ask_leaders
from headwater.errors import InvalidScanError, NotLeaderError, RetryLaterError, TimedOutError
from headwater.model.bucket import TableBucket
from headwater.read.lookup import Question, rounds_of
from headwater.wire.limits import BUCKETS_MAX, LOOKUPS_MAX
from tests.client.reading.scripted import ScriptedCluster

BUCKETS = [TableBucket(1, number) for number in range(4)]


@pytest.fixture
def cluster():
    cluster = ScriptedCluster({}, deadline_s=0.05)
    cluster.leaders = {bucket: bucket.bucket % 2 for bucket in BUCKETS}
    return cluster


async def test_each_leader_is_asked_once_for_all_its_buckets(cluster):
    asked = []

    async def ask(node, buckets):
        asked.append((node, [bucket.bucket for bucket in buckets]))
        return {bucket: bucket.bucket * 10 for bucket in buckets}

    found = await ask_leaders(cluster, BUCKETS, ask, what="Asking")

    assert found == {bucket: bucket.bucket * 10 for bucket in BUCKETS}
    assert sorted(asked) == [(0, [0, 2]), (1, [1, 3])]


async def test_only_buckets_that_failed_are_asked_again(cluster):
    asked = []

    async def ask(node, buckets):
        asked.append([bucket.bucket for bucket in buckets])
        fails = len(asked) <= 2
        return {b: NotLeaderError("no") if fails and b.bucket == 2 else b.bucket for b in buckets}

    found = await ask_leaders(cluster, BUCKETS, ask, what="Asking")

    assert found == {bucket: bucket.bucket for bucket in BUCKETS}
    assert asked[2:] == [[2]]
    assert cluster.staled == [BUCKETS[2]]


async def test_what_cannot_be_mended_is_raised_at_once(cluster):
    async def ask(node, buckets):
        raise InvalidScanError("no")

    with pytest.raises(InvalidScanError):
        await ask_leaders(cluster, BUCKETS, ask, what="Asking")


@pytest.mark.parametrize("buckets", [BUCKETS, BUCKETS[:1]])
async def test_asking_ends_at_the_deadline(cluster, buckets):
    async def ask(node, asked):
        raise RetryLaterError("busy")

    with pytest.raises(TimedOutError, match=r"Asking did not succeed within 0\.05 s\..* busy"):
        await ask_leaders(cluster, buckets, ask, what="Asking")


async def test_a_bucket_without_a_leader_or_an_answer_is_asked_again(cluster):
    del cluster.leaders[BUCKETS[0]]

    async def ask(node, buckets):
        cluster.leaders[BUCKETS[0]] = 0
        return {bucket: "found" for bucket in buckets if bucket is not buckets[0] or node == 0}

    with pytest.raises(TimedOutError, match="every bucket"):
        await ask_leaders(cluster, BUCKETS, ask, what="Asking")


async def test_no_question_names_more_buckets_than_a_server_takes(cluster):
    many = [TableBucket(1, number) for number in range(BUCKETS_MAX + 3)]
    cluster.leaders = dict.fromkeys(many, 0)
    asked = []

    async def ask(node, buckets):
        asked.append(len(buckets))
        return dict.fromkeys(buckets, 1)

    assert len(await ask_leaders(cluster, many, ask, what="Asking")) == len(many)
    assert asked == [BUCKETS_MAX, 3]


def test_lookups_are_split_by_the_keys_of_all_buckets_and_by_buckets():
    def question(bucket: int, keys: int) -> Question:
        return Question(TableBucket(1, bucket), [b"k"] * keys, np.arange(keys))

    def shape(questions, **limits) -> list[list[tuple[int, int]]]:
        rounds = rounds_of(questions, **limits)
        return [[(each.bucket.bucket, len(each.keys)) for each in round_] for round_ in rounds]

    several = [question(0, 5), question(1, 3), question(2, 9)]
    many = [question(number, 1) for number in range(LOOKUPS_MAX + 1)]

    assert shape([question(0, 4)], keys_max=4, total_max=10) == [[(0, 4)]]
    assert shape([], keys_max=4, total_max=10) == []
    assert shape(several, keys_max=4, total_max=10) == [
        [(0, 4), (1, 3)],
        [(2, 4)],
        [(0, 1), (2, 4)],
        [(2, 1)],
    ]
    assert [len(each) for each in shape(many, keys_max=4, total_max=10**6)] == [LOOKUPS_MAX, 1]
