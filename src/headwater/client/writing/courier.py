"""Requests that carry batches to servers: those of one turn for one server and table together."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from headwater.client.writing.batches import Answer, Lane
from headwater.config.client import ClientSettings
from headwater.errors import HeadwaterError, RetryLaterError
from headwater.model.bucket import TableBucket
from headwater.runtime.clock import Clock
from headwater.runtime.events import Events
from headwater.runtime.tasks import Tasks
from headwater.wire.apis import Api
from headwater.wire.bucket_records import BucketRecords
from headwater.wire.fields import Part
from headwater.wire.limits import WRITES_MAX

_events = Events("courier")
REQUEST_BYTES_MAX = 8 * 1024 * 1024
TIMEOUT_S_MIN = 0.01
# The server gives up a little earlier, so that its answer is still heard.
_SERVER_SHARE = 0.9


class Nodes(Protocol):
    """Be the servers, as far as sending goes."""

    @property
    def settings(self) -> ClientSettings:
        """Return the limits of the client."""
        ...

    @property
    def clock(self) -> Clock:
        """Return the clock."""
        ...

    async def call_node(
        self, node_id: int, api: Api, parts: Sequence[Part], *, timeout_s: float | None = None
    ) -> memoryview:
        """Send a request to a server, once."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Parcel:
    """Hold one batch for one bucket, and who wants to hear of it."""

    bucket: TableBucket
    lane: Lane
    records: Part
    deadline: float
    answered: Callable[[Answer], None]


class Courier:
    """Carry the batches of one turn of the loop in as few requests as keep their order."""

    def __init__(self, nodes: Nodes, tasks: Tasks) -> None:
        self._nodes = nodes
        self._tasks = tasks
        self._waiting: dict[int, list[Parcel]] = {}

    def send(self, node_id: int, parcel: Parcel) -> None:
        """Send a batch; batches of a bucket leave in the order of calls."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._depart)
        self._waiting.setdefault(node_id, []).append(parcel)

    def _depart(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for node_id, parcels in waiting.items():
            for load in loads_of(parcels, bytes_max=REQUEST_BYTES_MAX):
                self._tasks.start(self._carry(node_id, load), name="write")

    async def _carry(self, node_id: int, load: Sequence[Parcel]) -> None:
        try:
            answers = await self._exchange(node_id, load)
        except HeadwaterError as fault:
            answers = _same_for_all(load, fault)
        except Exception as cause:  # noqa: BLE001 - the outer edge of a task others wait for
            _events.error("request failed", cause=cause, node=node_id)
            unexpected = f"A request failed in an unexpected way: {cause!r}."
            answers = _same_for_all(load, HeadwaterError(unexpected))
        for parcel in load:
            parcel.answered(answers.get(parcel.bucket) or _left_out(parcel))

    async def _exchange(self, node_id: int, load: Sequence[Parcel]) -> dict[TableBucket, Answer]:
        lane, settings = load[0].lane, self._nodes.settings
        left_s = min(parcel.deadline for parcel in load) - self._nodes.clock.monotonic()
        timeout_s = max(min(settings.request_timeout_s, left_s), TIMEOUT_S_MIN)
        request = lane.request(
            [_records(parcel) for parcel in load],
            acks=settings.acks,
            timeout_ms=max(int(timeout_s * _SERVER_SHARE * 1000), 1),
        )
        body = await self._nodes.call_node(node_id, lane.api, request, timeout_s=timeout_s)
        return {
            TableBucket(lane.table_id, bucket, partition_id): answer
            for (partition_id, bucket), answer in lane.answers(body).items()
        }


def loads_of(parcels: Sequence[Parcel], *, bytes_max: int) -> list[list[Parcel]]:
    """Share batches out to requests: a bucket once in each, and in the order of its batches."""
    loads: list[list[Parcel]] = []
    sizes: list[int] = []
    earliest: dict[TableBucket, int] = {}
    for parcel in parcels:
        size = len(parcel.records)
        at = earliest.get(parcel.bucket, 0)
        while at < len(loads) and (
            loads[at][0].lane is not parcel.lane
            or sizes[at] + size > bytes_max
            or len(loads[at]) >= WRITES_MAX
        ):
            at += 1
        if at == len(loads):
            loads.append([])
            sizes.append(0)
        loads[at].append(parcel)
        sizes[at] += size
        earliest[parcel.bucket] = at + 1
    return loads


def _records(parcel: Parcel) -> BucketRecords:
    return BucketRecords(parcel.bucket.bucket, parcel.records, parcel.bucket.partition_id)


def _same_for_all(load: Sequence[Parcel], fault: HeadwaterError) -> dict[TableBucket, Answer]:
    return dict.fromkeys((parcel.bucket for parcel in load), Answer(-1, fault))


def _left_out(parcel: Parcel) -> Answer:
    return Answer(-1, RetryLaterError(f"The answer of the server leaves out {parcel.bucket}."))
