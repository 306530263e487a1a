"""Upserts and reads by key over the wire: retries, inserts by lookup, refusals."""

import asyncio

import pytest
import pytest_asyncio

from headwater.errors import BucketMissingError
from headwater.wire import fluss_pb2 as pb
from tests.flows.appending import batch_of, produce, with_table
from tests.flows.upserting import Rows, keyed_json, many
from tests.server.support import HeldSyncs, connected, disk_with, running

OUT_OF_ORDER, NOT_KEYED, INVALID_TABLE, UNKNOWN_BUCKET = 31, 20, 15, 21
TIMED_OUT, TOO_LARGE = 25, 13
ANN, BOB = (1, "ann", 10), (2, "bob", 20)
NUMBERED = {"name": "STRING", "number": "BIGINT", "score": "BIGINT"}
BY_KIND = {"kind": "STRING", "id": "INTEGER", "score": "BIGINT"}
BY_DAY = {"day": "STRING", "id": "INTEGER", "score": "BIGINT"}


@pytest_asyncio.fixture
async def rows(connection):
    return await Rows.create(connection)


# ---- retries


async def test_a_batch_that_is_sent_again_changes_nothing_and_gets_the_same_answer(rows):
    writer = await rows.writer_id()
    first = await rows.put(ANN, BOB, writer=(writer, 0))
    second = await rows.put((1, "anna", 11), writer=(writer, 1))

    again = [
        await rows.put(ANN, BOB, writer=(writer, 0)),
        await rows.put((1, "anna", 11), writer=(writer, 1)),
    ]

    assert again == [first, second] == [2, 4]
    assert await rows.get(1) == [(1, "anna", 11)]
    assert len(await rows.changes()) == 4


async def test_a_batch_is_known_again_after_a_restart(tmp_path):
    async with running(tmp_path) as server, connected(server) as connection:
        rows = await Rows.create(connection)
        writer = await rows.writer_id()
        await rows.put(ANN, writer=(writer, 0))
        end = await rows.put((9,), writer=(writer, 1))

    async with running(tmp_path) as server, connected(server) as connection:
        rows = rows.through(connection)
        assert await rows.put((9,), writer=(writer, 1)) == end == 2
        assert await rows.put(BOB, writer=(writer, 2)) == 3
        assert await rows.all() == [ANN, BOB]


async def test_a_sequence_out_of_order_is_refused(rows):
    writer = await rows.writer_id()
    await rows.put(ANN, writer=(writer, 0))

    answer = await rows.send(rows.batch([BOB], writer=(writer, 2)))

    assert answer.error_code == OUT_OF_ORDER
    assert await rows.get(2) == [None]
    assert await rows.put(BOB, writer=(writer, 1)) == 2


async def test_a_batch_without_changes_carries_its_sequence(rows):
    writer = await rows.writer_id()

    ends = [
        await rows.put((7,), writer=(writer, 0)),
        await rows.put(writer=(writer, 1)),
        await rows.put(ANN, writer=(writer, 2)),
    ]

    assert ends == [1, 2, 3]
    assert await rows.changes() == [(2, "+I", ANN)]


async def test_a_batch_that_was_refused_does_not_use_up_its_sequence(rows):
    writer = await rows.writer_id()
    good = rows.batch([ANN], writer=(writer, 0))

    refused = await rows.send(good, target_columns=[1])
    taken = await rows.send(good)

    assert (refused.error_code, taken.error_code) == (35, 0)
    assert await rows.get(1) == [ANN]


@pytest.mark.parametrize("acks", [0, 1, -1])
async def test_rows_are_there_with_every_kind_of_ack(rows, acks):
    await rows.put(ANN, acks=acks)

    assert await rows.get(1) == [ANN]


# ---- lookups


async def test_missing_and_repeated_keys_are_answered_in_their_places(rows):
    await rows.put(*many(100))
    keys = [5, 500, 5, 99, -1, 0, 0]

    few, more = await rows.get(*keys), await rows.get(*keys * 20)

    expected = [many(100)[key] if 0 <= key < 100 else None for key in keys]
    assert few == expected
    assert more == expected * 20


async def test_lookups_of_nothing_and_of_nothing_but_missing_keys_are_answered(rows):
    assert await rows.get() == []
    assert await rows.get(*range(200)) == [None] * 200


async def test_many_lookups_in_flight_get_each_their_own_rows(rows):
    await rows.put(*many(1_000))

    found = await asyncio.gather(*(rows.get(number, number + 1_000) for number in range(500)))

    assert found == [[row, None] for row in many(1_000)[:500]]


async def test_lookups_amid_writes_see_whole_batches(rows):
    await rows.put(*many(50))

    async def read():
        found = await rows.get(*range(50))
        return {row[2] for row in found}

    writes = [rows.put(*many(50, score)) for score in range(1, 20)]
    seen, *_ = await asyncio.gather(
        asyncio.gather(*(read() for _ in range(50))), asyncio.gather(*writes)
    )

    assert all(len(scores) == 1 for scores in seen)


async def test_prefixes_that_no_key_begins_with_find_nothing(connection):
    content = keyed_json(BY_KIND, key=["kind", "id"], bucket_key=["kind"])
    rows = await Rows.create(connection, content)
    await rows.put(("a", 1, 0), ("ab", 2, 0))

    answer = await rows.prefixed([b"\x03", b"\x01b", b"\x01ab", b"\xff" * 100])

    assert not answer.error_code
    assert [list(each.values) for each in answer.value_lists] == [[]] * 4


async def test_a_table_whose_bucket_key_is_no_prefix_is_searched_all_the_same(rows):
    await rows.put(ANN, BOB)

    assert await rows.by_prefix(1) == [ANN]
    assert await rows.by_prefix(3) == []


# ---- lookups that insert


async def test_a_lookup_inserts_what_is_missing_when_it_is_asked_to(rows):
    await rows.put(ANN)

    found = await rows.get(1, 5, 5, 6, insert_if_not_exists=True)

    fresh = [(5, None, None), (6, None, None)]
    assert found == [ANN, fresh[0], fresh[0], fresh[1]]
    assert await rows.changes() == [
        (0, "+I", ANN),
        (1, "+I", fresh[0]),
        (2, "+I", fresh[1]),
    ]
    assert await rows.get(1, 5, insert_if_not_exists=True) == [ANN, fresh[0]]
    assert len(await rows.changes()) == 3


async def test_rows_that_a_lookup_inserts_are_numbered(connection):
    rows = await Rows.create(connection, keyed_json(NUMBERED, key=["name"], numbered=["number"]))

    found = await rows.get("a", "b", "a", insert_if_not_exists=True)
    await rows.put(("b", None, 7), target_columns=[0, 2])

    assert found == [("a", 1, None), ("b", 2, None), ("a", 1, None)]
    assert await rows.get("a", "b", "c") == [("a", 1, None), ("b", 2, 7), None]


async def test_many_lookups_that_insert_the_same_keys_agree_on_them(connection):
    rows = await Rows.create(connection, keyed_json(NUMBERED, key=["name"], numbered=["number"]))
    names = [f"n{number}" for number in range(30)]

    answers = await asyncio.gather(
        *(rows.get(*names, insert_if_not_exists=True) for _ in range(20))
    )

    assert all(answer == answers[0] for answer in answers)
    assert sorted(row[1] for row in answers[0]) == list(range(1, 31))
    assert await rows.row_count() == 30


async def test_a_lookup_inserts_into_a_partition_with_the_values_of_the_partition(connection):
    content = keyed_json(BY_DAY, key=["day", "id"], partition=["day"])
    rows = await Rows.create(connection, content)
    await rows.use_partition(day="20260101")

    found = await rows.get(7, insert_if_not_exists=True)

    assert found == [("20260101", 7, None)]
    assert await rows.row_count() == 1


# ---- what is not durable


async def three_rows(connection):
    rows = await Rows.create(connection)
    await rows.put(ANN, BOB, (3, "cat", 30))
    return rows


@pytest.mark.parametrize("keys", [[1], [2], [4], list(range(50))])
async def test_lookups_wait_for_what_they_would_show_to_be_durable(tmp_path, keys):
    syncs = HeldSyncs("1/0/")
    async with (
        running(tmp_path, disk=disk_with(syncs, tmp_path)) as server,
        connected(server) as connection,
    ):
        rows = await three_rows(connection)
        syncs.hold()
        await rows.put((1, "anna", 11), (2,), (4, "dan", 40), acks=0)

        reading = asyncio.ensure_future(rows.get(*keys))
        same = await rows.get(3)
        is_waiting = not reading.done()
        syncs.release()

        held = {1: (1, "anna", 11), 3: (3, "cat", 30), 4: (4, "dan", 40)}
        assert same == [(3, "cat", 30)]
        assert is_waiting
        assert await reading == [held.get(key) for key in keys]


async def test_scans_wait_for_what_they_would_show_to_be_durable(tmp_path):
    syncs = HeldSyncs("1/0/")
    async with (
        running(tmp_path, disk=disk_with(syncs, tmp_path)) as server,
        connected(server) as connection,
    ):
        rows = await three_rows(connection)
        syncs.hold()
        await rows.put((1,), acks=0)

        scanning = asyncio.ensure_future(rows.all())
        await rows.get(3)
        is_waiting = not scanning.done()
        syncs.release()

        assert is_waiting
        assert await scanning == [BOB, (3, "cat", 30)]


async def test_prefixes_wait_for_what_they_would_show_to_be_durable(tmp_path):
    syncs = HeldSyncs("1/0/")
    content = keyed_json(BY_KIND, key=["kind", "id"], bucket_key=["kind"])
    async with (
        running(tmp_path, disk=disk_with(syncs, tmp_path)) as server,
        connected(server) as connection,
    ):
        rows = await Rows.create(connection, content)
        await rows.put(("a", 1, 0), ("b", 2, 0))
        syncs.hold()
        await rows.put(("a", 3, 0), acks=0)

        reading = asyncio.ensure_future(rows.by_prefix("a"))
        other = await rows.by_prefix("b")
        is_waiting = not reading.done()
        syncs.release()

        assert (is_waiting, other) == (True, [("b", 2, 0)])
        assert sorted(await reading) == [("a", 1, 0), ("a", 3, 0)]


async def test_a_write_that_is_late_is_told_so_and_known_when_it_is_sent_again(tmp_path):
    syncs = HeldSyncs("1/0/")
    async with (
        running(tmp_path, disk=disk_with(syncs, tmp_path)) as server,
        connected(server) as connection,
    ):
        rows = await three_rows(connection)
        records = rows.batch([(1, "anna", 11)], writer=(await rows.writer_id(), 0))
        syncs.hold()

        late = await rows.send(records, timeout_ms=1)
        inserting = await rows.looked_up(
            rows.keys([9]), insert_if_not_exists=True, timeout_ms=1, acks=-1
        )
        syncs.release()
        again = await rows.send(records)

        assert (late.error_code, inserting.error_code) == (TIMED_OUT, TIMED_OUT)
        assert (again.error_code, again.log_end_offset) == (0, 5)
        assert await rows.get(1, 9) == [(1, "anna", 11), (9, None, None)]


async def test_a_lookup_whose_rows_are_too_large_for_an_answer_is_refused(tmp_path):
    async with (
        running(tmp_path, request_bytes_max=100_000) as server,
        connected(server) as connection,
    ):
        rows = await Rows.create(connection)
        for number in range(4):
            await rows.put((number, "x" * 40_000, 0))

        few, repeated = (
            await rows.looked_up(rows.keys([0, 1, 2, 3])),
            await rows.looked_up(rows.keys([0] * 50)),
        )

        assert (few.error_code, repeated.error_code) == (TOO_LARGE, TOO_LARGE)
        assert await rows.get(0, 1) == [(0, "x" * 40_000, 0), (1, "x" * 40_000, 0)]


# ---- tables of the other kind, and tables that go away


async def test_rows_cannot_be_appended_to_a_primary_key_table(rows):
    request = produce(rows.table_id, 0, batch_of([(1, 1)]))

    answer = await rows.connection.call(request, pb.ProduceLogResponse)

    assert answer.buckets_resp[0].error_code == INVALID_TABLE
    assert await rows.changes() == []


async def test_a_log_table_takes_no_upserts_and_no_lookups(server, rows):
    records, keys = rows.batch([ANN]), rows.keys([1])
    rows.table_id = await with_table(server.port)

    put, found, scanned = (
        await rows.send(records),
        await rows.looked_up(keys),
        await rows.scan(),
    )

    assert {put.error_code, found.error_code, scanned.error_code} == {NOT_KEYED}


async def test_rows_are_counted(rows):
    counts = []
    for batch in ([], [ANN, BOB], [(1, "anna", 1), (2,)], [(1,), (1,)]):
        await rows.put(*batch)
        counts.append(await rows.row_count())

    assert counts == [0, 2, 1, 0]


async def drop_table(rows):
    request = pb.DropTableRequest(table_path=rows.path, ignore_if_not_exists=False)
    await rows.connection.call(request, pb.DropTableResponse)


async def test_a_table_is_dropped_while_it_is_written_and_read(rows):
    await rows.put(*many(100))
    begun = await rows.scan(batch_size_bytes=100)
    writes = [asyncio.ensure_future(rows.send(rows.batch(many(100, n)))) for n in range(20)]
    reads = [asyncio.ensure_future(rows.looked_up(rows.keys([1]))) for _ in range(20)]

    await drop_table(rows)

    codes = {(await each).error_code for each in [*writes, *reads]}
    await rows.scan(scanner_id=begun.scanner_id, call_seq_id=1)
    assert codes <= {0, UNKNOWN_BUCKET, 44}, codes
    assert (await rows.send(rows.batch([ANN]))).error_code == BucketMissingError.code


async def test_a_partition_is_dropped_while_its_rows_are_held(connection):
    rows = await Rows.create(connection, keyed_json(BY_DAY, key=["day", "id"], partition=["day"]))
    await rows.use_partition(day="20260101")
    await rows.put(("20260101", 1, 5))
    spec = pb.PartitionSpec(partition_key_values=[pb.KeyValue(key="day", value="20260101")])

    request = pb.DropPartitionRequest(
        table_path=rows.path, partition_spec=spec, ignore_if_not_exists=False
    )
    await connection.call(request, pb.DropPartitionResponse)

    gone = await rows.looked_up(rows.keys([1]))
    assert gone.error_code in {UNKNOWN_BUCKET, 36}
    await rows.use_partition(day="20260101")
    assert await rows.get(1) == [None]
