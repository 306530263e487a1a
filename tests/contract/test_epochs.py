"""Epochs: written once, however often an attempt is cut off, repeated or late."""

import asyncio
from itertools import count

import pytest

from headwater import errors
from headwater.epochs import batches as cut
from tests.client.epochs.attempts import Course, Cut, Pause, attempt

ROWS_PER_BATCH = 4
BATCHES = 8
TABLES = {
    "log": {"buckets": 1},
    "partitioned": {"partition_by": "day", "bucket_by": "id", "buckets": 2},
    "by_key": {"primary_key": "id", "buckets": 1},
    "sum": {
        "primary_key": "id",
        "buckets": 2,
        "options": {"table.merge-engine": "aggregation", "fields.amount.agg": "sum"},
    },
}
KINDS = tuple(TABLES)


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(cut, "BATCH_ROWS_MAX", ROWS_PER_BATCH)


class Oracle:
    """Make rows of epochs, and know what a table holds after some of them."""

    def __init__(self, client, name, kind):
        self._kind = kind
        self._expected = []
        schema = {"id": "BIGINT", "day": "STRING", "amount": "BIGINT"}
        self.table = client.create_table(name, schema, **TABLES[kind])

    def rows(self, epoch):
        return [
            {"id": number, "day": f"d{number % 2}", "amount": epoch * 1000 + number}
            for number in range(ROWS_PER_BATCH * BATCHES)
        ]

    def wrote(self, epoch):
        self._expected += self.rows(epoch)

    def check(self):
        found = sorted(self.table.scan().to_arrow().to_pylist(), key=_order)
        assert found == sorted(self._folded(), key=_order)

    def _folded(self):
        if self._kind in ("log", "partitioned"):
            return self._expected
        last = {}
        for row in self._expected:
            before = last.get(row["id"], {"amount": 0}) if self._kind == "sum" else {"amount": 0}
            last[row["id"]] = {**row, "amount": before["amount"] + row["amount"]}
        return list(last.values())


def _order(row):
    return row["id"], row["amount"]


def run(client, work):
    return client._loop.run(work)


def tried(client, oracle, epoch, **more):
    work = attempt(
        client._client, oracle.table.path, oracle.rows(epoch), sink="jobs", epoch=epoch, **more
    )
    return run(client, work)


@pytest.mark.parametrize("loses_answer", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_whatever_an_attempt_was_cut_off_at_the_next_one_completes(
    client, name, kind, loses_answer
):
    oracle = Oracle(client, name, kind)

    for epoch in count():
        first = tried(client, oracle, epoch, course=Cut(epoch, loses_answer=loses_answer))
        second = tried(client, oracle, epoch)
        oracle.wrote(epoch)

        oracle.check()
        assert second is not None
        if first is not None:
            break


@pytest.mark.parametrize("kind", KINDS)
def test_an_attempt_that_comes_late_writes_nothing_again(client, name, kind):
    oracle = Oracle(client, name, kind)
    counted = Course()
    tried(client, oracle, 0, course=counted)
    oracle.wrote(0)

    for epoch in range(1, counted.writes + 1):
        run(client, _overtaken(client, oracle, epoch))
        oracle.wrote(epoch)

        oracle.check()


async def _overtaken(client, oracle, epoch):
    """Hold one attempt up at a step, until another has written all."""
    late = Pause(epoch - 1)
    arguments = {"sink": "jobs", "epoch": epoch}
    path, rows = oracle.table.path, oracle.rows(epoch)
    paused = asyncio.create_task(attempt(client._client, path, rows, course=late, **arguments))
    waiting = asyncio.create_task(late.is_paused.wait())
    await asyncio.wait([waiting, paused], return_when=asyncio.FIRST_COMPLETED)
    await attempt(client._client, path, rows[::-1], **arguments)
    late.goes_on.set()
    await asyncio.gather(paused, waiting) if late.is_paused.is_set() else waiting.cancel()


@pytest.mark.parametrize("kind", KINDS)
def test_attempts_at_the_same_time_write_once_together(client, name, kind):
    oracle = Oracle(client, name, kind)

    async def together(epoch):
        await asyncio.gather(
            *(
                attempt(
                    client._client,
                    oracle.table.path,
                    oracle.rows(epoch)[first:] + oracle.rows(epoch)[:first],
                    sink="jobs",
                    epoch=epoch,
                )
                for first in range(4)
            )
        )

    for epoch in range(4):
        run(client, together(epoch))
        oracle.wrote(epoch)

        oracle.check()


def test_an_epoch_that_is_finished_is_not_written_again(client, name):
    oracle = Oracle(client, name, "log")
    for epoch in range(3):
        oracle.table.write_epoch(oracle.rows(epoch), sink="jobs", epoch=epoch)
        oracle.wrote(epoch)

    again = oracle.table.write_epoch(oracle.rows(1), sink="jobs", epoch=1)

    assert (again.rows, again.batches_written) == (ROWS_PER_BATCH * BATCHES, 0)
    oracle.check()


def test_other_rows_in_a_log_than_those_that_landed_are_refused(client, name):
    oracle = Oracle(client, name, "log")
    tried(client, oracle, 0, course=Cut(3, loses_answer=False))
    others = [{**row, "amount": row["amount"] + 1} for row in oracle.rows(0)]
    before = oracle.table.count()

    with pytest.raises(errors.EpochDiffersError, match="earlier attempt"):
        oracle.table.write_epoch(others, sink="jobs", epoch=0)

    assert oracle.table.count() == before > 0


def test_fewer_rows_than_have_landed_are_refused(client, name):
    oracle = Oracle(client, name, "by_key")
    tried(client, oracle, 0, course=Cut(BATCHES, loses_answer=False))
    few = oracle.rows(0)[:ROWS_PER_BATCH]

    with pytest.raises(errors.EpochDiffersError, match="7 batches"):
        oracle.table.write_epoch(few, sink="jobs", epoch=0)


def test_a_job_without_a_ledger_lands_once(client, name):
    oracle = Oracle(client, name, "partitioned")
    begins = oracle.table.offsets()
    job = {"sink": "job-1", "epoch": 0, "begins": begins}
    rows, path = oracle.rows(0), oracle.table.path

    for passing in count():
        course = Cut(passing, loses_answer=True)
        if run(client, attempt(client._client, path, rows, course=course, **job)):
            break

    oracle.wrote(0)
    oracle.check()


def test_sinks_lanes_and_tables_do_not_disturb_each_other(client, name):
    oracle = Oracle(client, name, "sum")

    for sink in ("one", "two"):
        for lane in range(2):
            oracle.table.write_epoch(oracle.rows(5), sink=sink, epoch=5, lane=lane)
            oracle.wrote(5)

    oracle.check()


def test_rows_of_one_key_keep_their_order_and_deletes_are_among_them(client, name):
    table = client.create_table(
        name, {"id": "BIGINT", "note": "STRING NOT NULL"}, primary_key="id", buckets=2
    )
    rows = [{"id": number % 5, "note": str(number), "gone": False} for number in range(20)]
    rows += [{"id": 3, "gone": True}, {"id": 4, "gone": True}, {"id": 77, "gone": True}]
    rows += [{"id": 4, "note": "back", "gone": False}]

    table.write_epoch(rows, sink="jobs", epoch=0, deletes="gone")

    found = {row["id"]: row["note"] for row in table.scan().to_arrow().to_pylist()}
    assert found == {0: "15", 1: "16", 2: "17", 4: "back"}


def test_some_columns_are_written_and_the_others_stay(client, name):
    schema = {"id": "BIGINT", "name": "STRING", "visits": "INT"}
    table = client.create_table(name, schema, primary_key="id")
    table.upsert({"id": 1, "name": "Ada", "visits": 1})

    table.write_epoch({"id": 1, "visits": 2}, sink="a", epoch=0, columns=["id", "visits"])

    assert table.get(1) == {"id": 1, "name": "Ada", "visits": 2}


def test_a_table_that_was_made_anew_begins_anew(client, name):
    schema = {"id": "BIGINT"}
    rows = [{"id": number} for number in range(3)]
    client.create_table(name, schema).write_epoch(rows, sink="jobs", epoch=0)
    client.drop_table(name)

    table = client.create_table(name, schema)
    receipt = table.write_epoch(rows, sink="jobs", epoch=0)

    assert (receipt.batches_written, table.count()) == (1, 3)
