"""Rows of a bucket as they were at an offset of its log."""

from dataclasses import dataclass, field
from itertools import count

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater import aio
from headwater.client.table import AsyncTable
from headwater.errors import HeadwaterError, OffsetOutOfRangeError, UnsupportedError
from headwater.model.boundary import LakeBucket
from headwater.read.filters import RowView
from headwater.read.offsets import Place
from headwater.read.split import StateAt
from headwater.read.state import StateReader
from headwater.runtime.loops import LoopThread
from headwater.wire.apis import Api, ApiKey
from tests.choices import examples

HERE = Place(None, 0)
COLUMNS = {"id": "BIGINT", "name": "STRING", "amount": "INT"}
WAL = {"table.changelog.image": "wal"}
NAMES = (f"t{number}" for number in count())

# Each write upserts keys, and deletes those that are given no value.
writes = st.lists(
    st.dictionaries(st.integers(0, 7), st.none() | st.integers(0, 3), min_size=1, max_size=4),
    min_size=1,
    max_size=8,
)


@pytest.fixture(scope="module")
def storage(tmp_path_factory):
    loop = LoopThread("state at")
    client = loop.run(aio.open(tmp_path_factory.mktemp("state-at")))
    yield Storage(loop, client)
    loop.run(client.close())
    loop.close()


@dataclass(frozen=True)
class Storage:
    loop: LoopThread
    client: aio.AsyncClient

    def history(self, **options) -> "History":
        table = self.client.create_table(
            next(NAMES), COLUMNS, primary_key="id", buckets=1, options=options
        )
        return History(self.loop, self.loop.run(table))


@dataclass
class History:
    """Write to a table, and remember its rows at every offset between two writes."""

    loop: LoopThread
    table: AsyncTable
    states: dict[int, dict[int, int]] = field(default_factory=lambda: {0: {}})

    @property
    def end(self) -> int:
        return max(self.states)

    def write(self, *values: dict[int, int | None]) -> None:
        for each in values:
            held = self.states[self.end]
            new = {key: value for key, value in each.items() if value is not None}
            gone = [key for key in each if key not in new]
            rows = [{"id": key, "name": f"n{key}", "amount": new[key]} for key in new]
            if rows:
                self.loop.run(self.table.upsert(rows))
            if gone:
                self.loop.run(self.table.delete(gone))
            held = {key: value for key, value in (held | new).items() if key not in gone}
            self.states[self.loop.run(self.table.offsets())[HERE]] = held

    def amounts(self, at: int, *, cluster=None, keeps_unknown=True, where=None) -> dict[int, int]:
        view = RowView.of(self.table.info, columns=["amount", "id"], where=where)
        reader = StateReader(
            cluster or self.table.cluster,
            view,
            StateAt.of(HERE, LakeBucket(None, 0), at),
            keeps_unknown=keeps_unknown,
        )
        rows = self.loop.run(_collected(reader, view)).to_pylist()
        found = {row["id"]: row["amount"] for row in rows}
        assert len(found) == len(rows)
        return found


async def _collected(reader: StateReader, view: RowView) -> pa.Table:
    return pa.Table.from_batches([rows async for rows in reader], view.schema)


class Altered:
    """Be a cluster that answers calls of one kind in another way."""

    def __init__(self, cluster, key: ApiKey, answer) -> None:
        self._cluster, self._key, self._answer = cluster, key, answer

    def __getattr__(self, name: str):
        return getattr(self._cluster, name)

    async def call_node(self, node: int, api: Api, parts, *, timeout_s=None) -> memoryview:
        if api.key is not self._key:
            return await self._cluster.call_node(node, api, parts, timeout_s=timeout_s)
        if isinstance(self._answer, HeadwaterError):
            raise self._answer
        if not self._answer:
            self._answer += [await self._cluster.call_node(node, api, parts)]
        return self._answer[0]


@settings(max_examples=examples(40))
@given(writes)
def test_the_rows_at_every_earlier_offset_are_what_the_changes_up_to_it_make(storage, values):
    history = storage.history()

    history.write(*values)

    assert {at: history.amounts(at) for at in history.states} == history.states


@settings(max_examples=20)
@given(writes)
def test_a_filter_looks_at_rows_as_they_were(storage, values):
    history = storage.history()

    history.write(*values)

    for at, held in history.states.items():
        wanted = {key: value for key, value in held.items() if value >= 2}
        assert history.amounts(at, where=[("amount", ">=", 2)]) == wanted


@settings(max_examples=20)
@given(writes)
def test_servers_that_have_no_scan_are_asked_for_all_changes_instead(storage, values):
    history = storage.history()
    history.write(*values)

    refusing = Altered(history.table.cluster, ApiKey.SCAN_KV, UnsupportedError("not here"))

    for at, held in history.states.items():
        assert history.amounts(at, cluster=refusing) == held


@settings(max_examples=20)
@given(writes, writes)
def test_changes_that_a_scan_does_not_have_yet_are_added_to_it(storage, before, after):
    history = storage.history()
    history.write(*before)
    first = Altered(history.table.cluster, ApiKey.SCAN_KV, [])
    history.amounts(history.end, cluster=first)

    history.write(*after)

    assert history.amounts(history.end, cluster=first) == history.states[history.end]


def test_a_row_whose_past_is_not_told_is_given_as_it_is_or_left_to_the_log(storage):
    history = storage.history(**WAL)
    history.write({1: 1, 2: 1, 3: 1})
    at = history.end

    history.write({1: 2, 2: None, 4: 1})

    assert history.amounts(at, keeps_unknown=True)[1] == 2
    assert 1 not in history.amounts(at, keeps_unknown=False)
    assert history.amounts(at, keeps_unknown=False)[3] == 1


def test_many_changes_are_taken_back_in_large_steps(storage, monkeypatch):
    monkeypatch.setattr("headwater.read.state.ROWS_TOGETHER", 4)
    history = storage.history()
    history.write(dict.fromkeys(range(100), 0))
    at = history.end

    history.write(*(dict.fromkeys(range(turn, 100, 3), turn) for turn in range(12)))

    assert history.amounts(at) == dict.fromkeys(range(100), 0)


def test_rows_before_the_first_change_that_is_kept_are_an_error_that_says_so(storage):
    history = storage.history()
    history.write({1: 1}, {1: 2})
    expired = Altered(history.table.cluster, ApiKey.FETCH_LOG, OffsetOutOfRangeError("gone"))

    with pytest.raises(OffsetOutOfRangeError, match=r"no longer known.*table\.log\.ttl"):
        history.amounts(1, cluster=expired)
