"""One question about many buckets: sent to each leader once, and again to those that failed."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from headwater.cluster.cluster import Cluster
from headwater.errors import HeadwaterError, TimedOutError, moves_leader
from headwater.model import TableBucket
from headwater.wire.limits import BUCKETS_MAX

T = TypeVar("T")
Ask = Callable[[int, list[TableBucket]], Awaitable[Mapping[TableBucket, T | HeadwaterError]]]
"""Ask one server about buckets it leads; each gets an answer or an error."""


async def ask_leaders(
    cluster: Cluster, buckets: Sequence[TableBucket], ask: Ask[T], *, what: str
) -> dict[TableBucket, T]:
    """Return the answer for every bucket.

    1. Ask the leaders of all buckets. 2. Keep the answers, raise errors that are not retriable.
    3. After a pause, ask again for the rest, until the deadline.
    """
    deadline = cluster.clock.monotonic() + cluster.settings.deadline_s
    found: dict[TableBucket, T] = {}
    left, failures = list(buckets), 0
    while True:
        fault: HeadwaterError | None = None
        for bucket, answer in (await _ask_all(cluster, left, ask)).items():
            if not isinstance(answer, HeadwaterError):
                found[bucket] = answer
                continue
            if not answer.retriable:
                raise answer
            fault = answer
            if moves_leader(answer):
                cluster.stale(bucket)
        if fault is None:
            return found
        left = [bucket for bucket in left if bucket not in found]
        failures += 1
        pause_s = cluster.retries.backoff_s(failures)
        if cluster.clock.monotonic() + pause_s >= deadline:
            timeout_s = cluster.settings.deadline_s
            raise TimedOutError(
                f"{what} did not succeed within {timeout_s:g} s. The last attempt failed: {fault}"
            ) from fault
        await cluster.clock.sleep(pause_s)


async def _ask_all(
    cluster: Cluster, buckets: list[TableBucket], ask: Ask[T]
) -> dict[TableBucket, T | HeadwaterError]:
    if len(buckets) == 1:
        # A single key, the common case, needs no tasks.
        return await _ask_leader_of(cluster, buckets, ask)
    answers: dict[TableBucket, T | HeadwaterError] = {}
    groups: dict[int, list[TableBucket]] = {}
    for bucket in buckets:
        try:
            groups.setdefault(await cluster.leader(bucket), []).append(bucket)
        except HeadwaterError as fault:
            answers[bucket] = fault
    questions = (
        _ask_node(node, ask, of[at : at + BUCKETS_MAX])
        for node, of in groups.items()
        for at in range(0, len(of), BUCKETS_MAX)
    )
    for each in await asyncio.gather(*questions):
        answers |= each
    return answers


async def _ask_leader_of(
    cluster: Cluster, buckets: list[TableBucket], ask: Ask[T]
) -> dict[TableBucket, T | HeadwaterError]:
    try:
        node = await cluster.leader(buckets[0])
    except HeadwaterError as fault:
        return {buckets[0]: fault}
    return await _ask_node(node, ask, buckets)


async def _ask_node(
    node: int, ask: Ask[T], buckets: list[TableBucket]
) -> dict[TableBucket, T | HeadwaterError]:
    try:
        return {**dict.fromkeys(buckets, _unanswered()), **await ask(node, buckets)}
    except HeadwaterError as fault:
        return dict.fromkeys(buckets, fault)


def _unanswered() -> HeadwaterError:
    return TimedOutError("The response does not cover every bucket.")
