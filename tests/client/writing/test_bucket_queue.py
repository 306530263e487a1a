"""Queues of buckets before servers that move, fail, fall silent or leave things out."""

import asyncio

import pyarrow as pa
import pytest

from headwater.errors import (
    DisconnectedError,
    HeadwaterError,
    NotLeaderError,
    RecordTooLargeError,
    TimedOutError,
)
from headwater.write.pipeline import Appender
from headwater.write.target import WriteContext
from tests.client.writing.fake_cluster import TABLE, FakeCluster


def batch(*ids):
    return pa.record_batch([pa.array(ids, pa.int32())], names=["id"])


class Writing:
    """Append through a fake cluster."""

    def __init__(self, **limits) -> None:
        self.cluster = FakeCluster(**limits)
        self.writers = WriteContext(self.cluster)
        self.appender = Appender(self.cluster, TABLE, self.writers)

    async def append(self, *ids):
        return await self.appender.append([batch(*ids)])

    def rows(self) -> int:
        return sum(each[3] for each in self.cluster.taken)


@pytest.fixture
def writing():
    return Writing()


def raising_once(*faults):
    left = list(faults)

    def meet(node_id, bucket):
        if left:
            raise left.pop(0)

    return meet


async def test_batches_for_several_buckets_share_a_request(writing):
    await writing.append(*range(100))

    ((_, buckets),) = writing.cluster.requests
    assert buckets == [0, 1, 2]


async def test_a_leader_that_moved_is_asked_for_again(writing):
    def meet(node_id, bucket):
        if node_id == 1:
            writing.cluster.node_id = 2
            raise NotLeaderError("It moved.")

    writing.cluster.meet = meet
    await writing.append(7)

    assert [node_id for node_id, _ in writing.cluster.requests] == [1, 2]
    assert len(writing.cluster.stale_buckets) == 1
    assert writing.rows() == 1


async def test_a_bucket_that_an_answer_leaves_out_is_sent_again(writing):
    writing.cluster.leaves_out = {0, 1}

    receipt = await writing.append(*range(100))

    first, *others = [buckets for _, buckets in writing.cluster.requests]
    assert first == [0, 1, 2]
    assert sorted(bucket for buckets in others for bucket in buckets) == [0, 1]
    assert receipt.rows == writing.rows() == 100


async def test_rows_wait_together_while_others_are_in_flight(writing):
    gate = asyncio.Event()
    writing.cluster.meet = lambda node_id, bucket: gate.wait()

    appends = [asyncio.ensure_future(writing.append(7)) for _ in range(5)]
    await asyncio.wait(appends, timeout=0.05)
    appends += [asyncio.ensure_future(writing.append(7)) for _ in range(200)]
    await asyncio.wait(appends, timeout=0.05)
    gate.set()
    await asyncio.gather(*appends)

    assert writing.rows() == 205
    assert len(writing.cluster.taken) <= 6
    assert sorted(each[2] for each in writing.cluster.taken) == list(
        range(len(writing.cluster.taken))
    )


async def test_no_more_than_the_limit_are_in_flight():
    writing = Writing(inflight_per_bucket_max=2, batch_rows_max=1)
    gate = asyncio.Event()
    writing.cluster.meet = lambda node_id, bucket: gate.wait()

    appends = [asyncio.ensure_future(writing.append(7)) for _ in range(6)]
    await asyncio.wait(appends, timeout=0.05)
    sent = len(writing.cluster.requests)
    gate.set()
    await asyncio.gather(*appends)

    assert sent == 2
    assert [each[2] for each in writing.cluster.taken] == list(range(6))


async def test_a_silent_server_fails_rows_at_their_deadline_and_others_go_on():
    writing = Writing(deadline_s=0.2, request_timeout_s=0.05)
    writing.cluster.meet = raising_once(*[DisconnectedError("Gone.")] * 1000)

    with pytest.raises(TimedOutError, match="unknown"):
        await writing.append(7)
    writing.cluster.meet = lambda node_id, bucket: None
    await writing.append(7)

    ((_, writer_id, sequence, _),) = writing.cluster.taken
    assert (writer_id, sequence) == (101, 0)


async def test_what_fails_in_an_unexpected_way_is_told():
    writing = Writing()
    writing.cluster.meet = raising_once(ZeroDivisionError("Oh."))

    with pytest.raises(HeadwaterError, match="unexpected"):
        await writing.append(7)
    await writing.append(8)

    assert writing.rows() == 1


async def test_rows_that_are_too_large_together_go_apart(writing):
    writing.cluster.meet = raising_once(*[RecordTooLargeError("Too large.")] * 3)

    receipt = await writing.append(*[7] * 8)

    assert receipt.rows == writing.rows() == 8
    assert [each[2] for each in writing.cluster.taken] == list(range(len(writing.cluster.taken)))


async def test_one_row_that_is_too_large_fails_alone(writing):
    writing.cluster.meet = raising_once(*[RecordTooLargeError("Too large.")] * 2)

    failed, good = await asyncio.gather(
        writing.append(7), writing.append(7), return_exceptions=True
    )

    assert isinstance(failed, RecordTooLargeError)
    assert good.rows == writing.rows() == 1


async def test_a_failure_tells_what_was_written(writing):
    def meet(node_id, bucket):
        if bucket == 1:
            raise RecordTooLargeError("Too large.")

    writing.cluster.meet = meet
    with pytest.raises(RecordTooLargeError, match=r"\d+ of 100 rows") as caught:
        await writing.append(*range(100))

    assert f" {writing.rows()} of 100 rows" in str(caught.value)
