"""What is granted or revoked while sessions live, wait and remember."""

import asyncio

import pytest

from headwater.errors import AccessError, RequestError
from headwater.server.permissions import authorizer
from headwater.wire import fluss_pb2 as pb
from tests.flows.appending import batch_of, produce
from tests.flows.upserting import Rows
from tests.server.permissions.asking import (
    INSIDER,
    Asking,
    acl,
    ask,
    grant,
    guarded,
    make_table,
    revoke,
    session_of,
)
from tests.server.permissions.calls import REFUSED, is_refused
from tests.server.support import fetch_request, until

READS = acl("User:ada", "READ", "shop.orders")
LONG_MS = 60_000
ROWS = batch_of([(1, 1), (1, 2)])


async def test_a_long_poll_ends_when_its_permission_is_revoked(tmp_path):
    async with guarded(tmp_path / "data") as server:
        table_id = await make_table(server, "shop.orders")
        await grant(server, READS)
        request = fetch_request(table_id, wait_ms=LONG_MS)
        polling = asyncio.create_task(ask(server, request, session_of("ada")))
        await until(lambda: len(server._services.polls) == 1)

        await revoke(server, READS)

        (bucket,) = (await polling).tables_resp[0].buckets_resp
        assert bucket.error_code == REFUSED
        assert not bucket.records


async def test_a_long_poll_goes_on_when_the_permission_of_somebody_else_is_revoked(tmp_path):
    async with guarded(tmp_path / "data") as server:
        table_id = await make_table(server, "shop.orders")
        other = acl("User:bob", "READ", "shop.orders")
        await grant(server, READS, other)
        request = fetch_request(table_id, wait_ms=LONG_MS)
        polling = asyncio.create_task(ask(server, request, session_of("ada")))
        await until(lambda: len(server._services.polls) == 1)

        await revoke(server, other)
        await ask(server, produce(table_id, 0, ROWS), INSIDER)

        (bucket,) = (await polling).tables_resp[0].buckets_resp
        assert not bucket.error_code
        assert bucket.high_watermark == 2


async def test_rows_that_come_after_a_revocation_do_not_reach_a_waiting_reader(tmp_path):
    async with guarded(tmp_path / "data") as server:
        table_id = await make_table(server, "shop.orders")
        await grant(server, READS)
        request = fetch_request(table_id, wait_ms=LONG_MS)
        polling = asyncio.create_task(ask(server, request, session_of("ada")))
        await until(lambda: len(server._services.polls) == 1)

        writing = asyncio.create_task(ask(server, produce(table_id, 0, ROWS), INSIDER))
        await revoke(server, READS)
        await writing

        assert is_refused(await polling)


async def test_a_fetch_of_two_tables_fails_for_the_one_that_may_not_be_read(tmp_path):
    async with guarded(tmp_path / "data") as server:
        ids = [await make_table(server, f"shop.{name}") for name in ("orders", "items")]
        for table_id in ids:
            await ask(server, produce(table_id, 0, ROWS), INSIDER)
        await grant(server, READS)
        request = fetch_request(ids[0])
        request.tables_req.extend(fetch_request(ids[1]).tables_req)

        allowed, denied = (await ask(server, request, session_of("ada"))).tables_resp

        assert (allowed.buckets_resp[0].error_code, bool(allowed.buckets_resp[0].records)) == (0, 1)
        assert denied.buckets_resp[0].error_code == REFUSED
        assert not denied.buckets_resp[0].records


async def test_a_session_remembers_a_decision_and_forgets_it_when_permissions_change(tmp_path):
    async with guarded(tmp_path / "data") as server:
        table_id = await make_table(server, "shop.orders")
        session, request = session_of("ada"), fetch_request(table_id)
        answers = []

        for step in (grant, revoke, grant):
            await step(server, READS)
            answers += [is_refused(await ask(server, request, session)) for _ in range(2)]
            assert len(session.decisions) == 1

    assert answers == [False, False, True, True, False, False]


async def test_another_user_on_the_same_connection_does_not_inherit_decisions(tmp_path):
    async with guarded(tmp_path / "data") as server:
        table_id = await make_table(server, "shop.orders")
        await grant(server, READS)
        session, request = session_of("ada"), fetch_request(table_id)
        await ask(server, request, session)

        session.principal = "eve"

        assert is_refused(await ask(server, request, session))


async def test_a_session_remembers_no_more_than_its_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(authorizer, "DECISIONS_MAX", 2)
    async with guarded(tmp_path / "data") as server:
        session = session_of("ada")
        for name in "abcde":
            table_id = await make_table(server, f"shop.{name}")
            await ask(server, fetch_request(table_id), session)

            assert len(session.decisions) <= 2


async def test_an_open_scan_ends_with_the_permission_to_read(tmp_path):
    async with guarded(tmp_path / "data") as server:
        rows = await Rows.create(Asking(server, INSIDER))
        await rows.put(*((number, "x" * 100, 0) for number in range(50)))
        reads = acl("User:ada", "READ", f"fluss.{rows.path.table_name}")
        await grant(server, reads)
        seen = rows.through(Asking(server, session_of("ada")))
        first = await seen.scan(batch_size_bytes=500)

        await revoke(server, reads)

        part = await seen.scan(scanner_id=first.scanner_id, call_seq_id=1)
        assert first.has_more_results
        assert (part.error_code, part.records) == (REFUSED, b"")


async def test_the_short_way_of_a_lookup_checks_too(tmp_path):
    async with guarded(tmp_path / "data") as server:
        rows = await Rows.create(Asking(server, INSIDER))
        await rows.put((1, "one", 10))
        reads = acl("User:ada", "READ", f"fluss.{rows.path.table_name}")
        await grant(server, reads)
        seen = rows.through(Asking(server, session_of("ada")))
        assert await seen.get(1) == [(1, "one", 10)]

        await revoke(server, reads)

        with pytest.raises(AccessError, match="User:ada may not READ"):
            await seen.get(1)


async def test_the_short_way_of_a_write_checks_too(tmp_path):
    async with guarded(tmp_path / "data") as server:
        table_id = await make_table(server, "shop.orders")
        await ask(server, produce(table_id, 0, ROWS), INSIDER)
        await grant(server, READS)

        with pytest.raises(AccessError, match="may not WRITE"):
            await ask(server, produce(table_id, 0, ROWS, acks=1), session_of("ada"))

        fetched = await ask(server, fetch_request(table_id), INSIDER)
        assert fetched.tables_resp[0].buckets_resp[0].high_watermark == 2


async def test_a_lookup_that_inserts_needs_write(tmp_path):
    async with guarded(tmp_path / "data") as server:
        rows = await Rows.create(Asking(server, INSIDER))
        table = f"fluss.{rows.path.table_name}"
        await grant(server, acl("User:ada", "READ", table), acl("User:bob", "WRITE", table))
        key = rows.keys([7])

        seen = rows.through(Asking(server, session_of("ada")))
        with pytest.raises(AccessError, match="may not WRITE"):
            await seen.looked_up(key, insert_if_not_exists=True)
        written = rows.through(Asking(server, session_of("bob")))
        answer = await written.looked_up(key, insert_if_not_exists=True)

        assert not answer.error_code
        assert await rows.row_count() == 1


async def test_a_writer_needs_write_on_one_of_its_tables_and_must_name_them(tmp_path):
    paths = [pb.TablePath(database_name="shop", table_name=name) for name in ("orders", "items")]
    async with guarded(tmp_path / "data") as server:
        await grant(server, acl("User:ada", "WRITE", "shop.items"))
        ada = session_of("ada")

        answer = await ask(server, pb.InitWriterRequest(table_path=paths), ada)

        assert answer.writer_id
        with pytest.raises(AccessError):
            await ask(server, pb.InitWriterRequest(table_path=paths[:1]), ada)
        with pytest.raises(RequestError, match="must name the tables"):
            await ask(server, pb.InitWriterRequest(), ada)
