"""Scans of rows by key over the wire: one moment over several calls, limits, what is let go."""

import asyncio
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio

from headwater.wire import fluss_pb2 as pb
from tests.flows.upserting import Rows, many
from tests.server.support import connected, running, until

SCAN_EXPIRED, SCAN_UNKNOWN, INVALID_SCAN, TOO_MANY_SCANS = 66, 67, 68, 69


@pytest_asyncio.fixture
async def rows(connection):
    return await Rows.create(connection)


async def test_a_scan_over_several_calls_shows_one_moment_while_writes_go_on(rows):
    await rows.put(*many(500))
    answer = await rows.scan(batch_size_bytes=1_000)
    found, calls, offset = rows.scanned(answer), 1, answer.log_offset

    while answer.has_more_results:
        await rows.put(*many(500, calls), (10_000 + calls, "new", 0), (calls,))
        answer = await rows.scan(
            scanner_id=answer.scanner_id, call_seq_id=calls, batch_size_bytes=1_000
        )
        assert len(answer.records) <= 1_000
        found += rows.scanned(answer)
        calls += 1

    assert offset == 500
    assert calls > 5
    assert sorted(found) == many(500)


@pytest.mark.parametrize(("limit", "count"), [(30, 30), (100, 100), (1_000, 100), (-1, 100)])
async def test_a_scan_ends_at_its_limit(rows, limit, count):
    await rows.put(*many(100))
    bucket = pb.ScanKvBucketRequest(table_id=rows.table_id, bucket_id=0, limit=limit)

    answer = await rows.scan(bucket_scan_req=bucket)

    assert len(rows.scanned(answer)) == count
    assert not answer.has_more_results


async def test_a_row_larger_than_asked_for_comes_alone(rows):
    await rows.put((1, "x" * 5_000, 1), (2, "y" * 5_000, 2))

    answer = await rows.scan(batch_size_bytes=1)

    assert len(rows.scanned(answer)) == 1
    assert answer.has_more_results


async def test_a_scan_of_an_empty_bucket_has_nothing(rows):
    answer = await rows.scan()

    assert (answer.has_more_results, answer.log_offset) == (False, 0)
    assert rows.scanned(answer) == []


async def test_a_scan_that_was_closed_or_never_begun_is_unknown(rows):
    await rows.put(*many(100))
    begun = await rows.scan(batch_size_bytes=100)

    closed = await rows.scan(scanner_id=begun.scanner_id, close_scanner=True)
    after = await rows.scan(scanner_id=begun.scanner_id, call_seq_id=1)
    never = await rows.scan(scanner_id=b"x" * 16)

    assert (closed.error_code, closed.has_more_results) == (0, False)
    assert (after.error_code, never.error_code) == (SCAN_UNKNOWN, SCAN_UNKNOWN)


@pytest.mark.parametrize("number", [-1, 0, 2])
async def test_a_call_out_of_turn_is_refused_and_the_scan_goes_on(rows, number):
    await rows.put(*many(100))
    begun = await rows.scan(batch_size_bytes=500)

    refused = await rows.scan(scanner_id=begun.scanner_id, call_seq_id=number)
    rest = await rows.scan(scanner_id=begun.scanner_id, call_seq_id=1)

    assert refused.error_code == INVALID_SCAN
    assert sorted(rows.scanned(begun) + rows.scanned(rest)) == many(100)


@pytest.mark.parametrize(
    "given", [{"batch_size_bytes": 0}, {"batch_size_bytes": -5}, {"close_scanner": True}]
)
async def test_a_scan_that_makes_no_sense_is_refused(rows, given):
    assert (await rows.scan(**given)).error_code == INVALID_SCAN


async def test_scans_that_nobody_goes_on_with_expire(tmp_path):
    given = {"kv_scanner_ttl_s": 1e-9}
    async with running(tmp_path, **given) as server, connected(server) as connection:
        rows = await Rows.create(connection)
        await rows.put(*many(100))
        begun = await rows.scan(batch_size_bytes=100)

        late = await rows.scan(scanner_id=begun.scanner_id, call_seq_id=1)

        assert late.error_code == SCAN_EXPIRED
        assert len(server._services.scanners) == 0


async def test_more_scans_than_allowed_are_refused_until_one_is_closed(tmp_path):
    given = {"kv_scanners_per_bucket_max": 2, "kv_scanners_max": 3}
    async with running(tmp_path, **given) as server, connected(server) as connection:
        rows, other, third = [await Rows.create(connection) for _ in range(3)]
        for each in (rows, other, third):
            await each.put(*many(100))

        begun = [await rows.scan(batch_size_bytes=100) for _ in range(3)]
        elsewhere = [await each.scan(batch_size_bytes=100) for each in (other, third)]
        await rows.scan(scanner_id=begun[0].scanner_id, close_scanner=True)
        again = await third.scan(batch_size_bytes=100)

        assert [answer.error_code for answer in begun] == [0, 0, TOO_MANY_SCANS]
        assert [answer.error_code for answer in elsewhere] == [0, TOO_MANY_SCANS]
        assert again.error_code == 0


async def test_scans_begun_at_the_same_time_do_not_pass_the_limit(tmp_path):
    given = {"kv_scanners_per_bucket_max": 2}
    async with running(tmp_path, **given) as server, AsyncExitStack() as stack:
        connections = [await stack.enter_async_context(connected(server)) for _ in range(10)]
        rows = await Rows.create(connections[0])
        await rows.put(*many(100))

        begun = await asyncio.gather(
            *(rows.through(each).scan(batch_size_bytes=100) for each in connections)
        )

        assert sorted(answer.error_code for answer in begun) == [0] * 2 + [TOO_MANY_SCANS] * 8


async def test_a_scan_that_begins_with_a_later_call_takes_no_room(tmp_path):
    async with running(tmp_path) as server, connected(server) as connection:
        rows = await Rows.create(connection)
        await rows.put(*many(100))

        refused = await rows.scan(call_seq_id=1, batch_size_bytes=100)

        assert refused.error_code == INVALID_SCAN
        assert len(server._services.scanners) == 0


async def left_open(server, count):
    """Return rows, and scans of them that a client began before its connection ended."""
    async with connected(server) as connection:
        rows = await Rows.create(connection)
        await rows.put(*many(100))
        begun = [await rows.scan(batch_size_bytes=100) for _ in range(count)]
    assert [answer.error_code for answer in begun] == [0] * count
    await until(lambda: server.listener.connection_count == 0)
    return rows, begun


@pytest.mark.parametrize("limit", ["kv_scanners_per_bucket_max", "kv_scanners_max"])
async def test_scans_of_clients_that_are_gone_make_room(tmp_path, limit):
    async with running(tmp_path, **{limit: 2}) as server:
        rows, left = await left_open(server, 2)
        async with connected(server) as connection:
            begun = [await rows.through(connection).scan(batch_size_bytes=100) for _ in range(3)]
            late = await rows.through(connection).scan(scanner_id=left[0].scanner_id, call_seq_id=1)

    assert [answer.error_code for answer in begun] == [0, 0, TOO_MANY_SCANS]
    assert late.error_code == SCAN_EXPIRED


async def test_a_client_may_go_on_with_its_scan_through_another_connection(tmp_path):
    async with running(tmp_path, kv_scanners_per_bucket_max=2) as server:
        rows, (begun,) = await left_open(server, 1)
        async with connected(server) as connection:
            again = rows.through(connection)
            more = await again.scan(
                scanner_id=begun.scanner_id, call_seq_id=1, batch_size_bytes=100
            )
            others = [await again.scan(batch_size_bytes=100) for _ in range(2)]
            rest = await again.scan(scanner_id=begun.scanner_id, call_seq_id=2)

    found = [row for answer in (begun, more, rest) for row in rows.scanned(answer)]
    assert [answer.error_code for answer in others] == [0, TOO_MANY_SCANS]
    assert sorted(found) == many(100)
