"""What strangers may do before they log in, how guesses are slowed, and who is told."""

import asyncio
import logging
import threading

import pytest

from headwater.cluster.links import TcpConnection
from headwater.cluster.login import Credentials
from headwater.errors import AuthenticationError, DisconnectedError, HeadwaterError
from headwater.server import connection as served
from headwater.server.logins import (
    FORGOTTEN_AFTER_S,
    FREE_FAILURES,
    LINES_MAX,
    PAUSE_MAX_S,
    USER_PAUSE_MAX_S,
    Guesses,
    Logins,
    Users,
    network_of,
)
from headwater.server.permissions.needs import AUDIT_LOG
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import ApiKey
from tests.clocks import InstantClock, loop_turns
from tests.server.support import (
    HOST,
    KIB,
    RawClient,
    connected,
    encoded,
    is_served,
    padded_request,
    running,
    until,
)

ANN = Users({}).with_user("ann", "secret").with_user("bob", "hunter")
HERE, THERE = "192.0.2.1", "192.0.2.2"


def plain(user: str, password: str) -> pb.AuthenticateRequest:
    return pb.AuthenticateRequest(protocol="PLAIN", token=f"\0{user}\0{password}".encode())


async def logged_in(server, user="ann", password="secret") -> TcpConnection:
    # The tests are about passwords that are sent.
    credentials = Credentials(user, password, mechanism="PLAIN")
    return await TcpConnection.open(HOST, server.port, credentials=credentials)


async def databases(connection: TcpConnection) -> list[str]:
    """List databases; that of the audit trail comes at some moment after the first login."""
    answer = await connection.call(pb.ListDatabasesRequest(), pb.ListDatabasesResponse)
    return [name for name in answer.database_name if name != AUDIT_LOG.database]


# ---- room


async def test_a_stranger_gets_room_for_a_login_and_for_no_more(tmp_path):
    async with running(tmp_path, users=ANN) as server:
        tokens = [await RawClient.open(server) for _ in range(5)]
        for client in tokens:
            client.send(padded_request(60 * KIB * KIB)[:12])
        many = await RawClient.open(server)
        many.send(padded_request(8) * 100)

        assert all([await client.ended() for client in (*tokens, many)])
        assert server.listener.requests.used_bytes == 0
        ann = await logged_in(server)
        large = pb.DatabaseExistsRequest(database_name="x" * 20 * KIB)
        assert not (await ann.call(large, pb.DatabaseExistsResponse)).exists
        await ann.close()


async def test_idle_strangers_do_not_keep_a_user_out(tmp_path):
    limits = {"login_connections_max": 20, "login_connections_per_address_max": 10}
    async with running(tmp_path, users=ANN, connections_max=2, **limits) as server:
        idle = [await RawClient.open(server) for _ in range(40)]

        ann = await logged_in(server)

        assert await databases(ann) == ["fluss"]
        assert server.listener.connection_count <= 11
        assert await idle[0].ended()
        await ann.close()


async def test_a_stranger_who_does_not_log_in_is_closed_and_a_user_stays(tmp_path):
    async with running(tmp_path, users=ANN, login_timeout_s=3.0) as server:
        ann = await logged_in(server)
        idle = await RawClient.open(server)

        assert await idle.ended()
        assert await databases(ann) == ["fluss"]
        await ann.close()


async def test_a_few_bytes_do_not_hold_room_that_others_wait_for(tmp_path, monkeypatch):
    monkeypatch.setattr(served, "PACE_LOOK_S", 0.01)
    monkeypatch.setattr(served, "PACE_GRACE_S", 0.0)
    size = 150 * KIB
    async with running(tmp_path, total_request_bytes_max=200 * KIB) as server:
        holder, waiting = await RawClient.open(server), await RawClient.open(server)
        holder.send(padded_request(size)[:12])
        await until(lambda: server.listener.requests.used_bytes == size)

        waiting.send(padded_request(size, request_id=7))

        assert await waiting.answer_id() == 7
        assert await holder.ended()


async def test_passwords_are_checked_in_threads_of_their_own(tmp_path):
    go_on, threads = threading.Event(), set()

    class Slow(Users):
        def check(self, name, password):
            threads.add(threading.current_thread().name.rpartition("_")[0])
            assert go_on.wait(30)
            return super().check(name, password)

    async with running(tmp_path, users=Slow(ANN.credentials)) as server:
        logins = [asyncio.ensure_future(logged_in(server)) for _ in range(8)]
        await until(lambda: bool(threads))

        # What scans use is free: the loop's own pool.
        assert await asyncio.to_thread(lambda: 1) == 1
        go_on.set()
        for client in await asyncio.gather(*logins):
            await client.close()

    assert threads == {"headwater-login"}


# ---- identity


async def test_a_failed_second_login_ends_the_session(tmp_path):
    async with running(tmp_path, users=ANN) as server:
        ann = await logged_in(server)

        with pytest.raises(AuthenticationError):
            await ann.call(plain("ann", "guess"), pb.AuthenticateResponse)

        with pytest.raises(DisconnectedError):
            await databases(ann)
        await ann.close()


async def test_a_client_is_nobody_while_it_logs_in_again(tmp_path):
    async with running(tmp_path, users=ANN) as server:
        client = await RawClient.open(server)
        client.send(encoded(plain("ann", "secret"), ApiKey.AUTHENTICATE))
        await client.answer_id()
        (session,) = [each.session for each in server.listener._connections]

        client.send(encoded(plain("bob", "secret"), ApiKey.AUTHENTICATE, request_id=2))
        await until(lambda: session.is_logging_in or session.is_over)

        assert session.principal is None
        assert await client.ended()
        assert session.principal is None


async def test_an_empty_password_never_opens_the_door():
    empty = Users({"ann": _hash_of_nothing()})

    with pytest.raises(AuthenticationError):
        empty.check("ann", "")


def _hash_of_nothing() -> str:
    from headwater.server import logins as security  # noqa: PLC0415 - only for this

    return security.verifiers_of("")


# ---- guesses


def test_guesses_from_an_address_wait_longer_and_longer_up_to_a_limit():
    clock = InstantClock()
    guesses, pauses = Guesses(clock), []

    for number in range(20):
        pauses.append(guesses.pause_s(HERE, f"user{number}"))
        guesses.failed(HERE, f"user{number}")

    assert pauses[:FREE_FAILURES] == [0.0] * FREE_FAILURES
    assert pauses[FREE_FAILURES : FREE_FAILURES + 3] == [0.25, 0.5, 1.0]
    assert pauses[-1] == PAUSE_MAX_S
    assert guesses.pause_s(THERE, "ann") == 0.0
    clock.now_s += FORGOTTEN_AFTER_S + 1
    assert guesses.pause_s(HERE, "ann") == 0.0


def test_a_user_whom_others_attack_waits_briefly_and_not_at_all_where_they_are_known():
    guesses = Guesses(InstantClock())
    guesses.failed(THERE, "ann")
    guesses.succeeded(THERE, "ann")

    for number in range(1000):
        guesses.failed(f"198.51.100.{number}", "ann")

    assert guesses.pause_s("203.0.113.9", "ann") == USER_PAUSE_MAX_S
    assert guesses.pause_s(THERE, "ann") == 0.0
    assert guesses.pause_s(THERE, "bob") == 0.0


def test_a_success_does_not_forgive_guesses_at_other_users():
    guesses = Guesses(InstantClock())

    for number in range(30):
        guesses.failed(HERE, f"user{number}")
        guesses.failed(HERE, "eve")
        guesses.succeeded(HERE, "eve")

    assert guesses.pause_s(HERE, "ann") == PAUSE_MAX_S
    assert guesses.pause_s(HERE, "eve") == 0.0


def test_one_party_may_have_a_network_of_addresses():
    assert network_of("2001:db8::1") == network_of("2001:db8::ffff:1") != network_of("2001:db9::1")
    assert network_of("::ffff:192.0.2.1") == network_of("192.0.2.1") == "192.0.2.1"
    assert network_of("fe80::1%eth0") == network_of("fe80::2%eth0")
    assert network_of("?") == "?"


async def test_guesses_take_turns_are_slowed_and_leave_a_few_lines(caplog):
    clock = InstantClock()
    logins = Logins(ANN, clock)
    guesses = [logins.check("ann", f"guess{number}", address=HERE) for number in range(12)]

    with caplog.at_level(logging.WARNING, "headwater.logins"):
        answers = await asyncio.gather(*guesses, return_exceptions=True)
        clock.now_s += 60
        with pytest.raises(AuthenticationError):
            await logins.check("nobody", "guess", address=HERE)
    await logins.check("ann", "secret", address=THERE)
    logins.stop()

    assert {type(answer) for answer in answers} == {AuthenticationError}
    assert clock.slept[:5] == [0.25, 0.5, 1.0, 2.0, 4.0]
    assert max(clock.slept) == PAUSE_MAX_S
    lines = [record for record in caplog.records if record.message == "login failed"]
    assert 0 < len(lines) <= 2 * LINES_MAX
    assert lines[0].fields["address"] == HERE
    assert lines[0].fields["user"] == "ann"
    assert not any("guess" in str(record.fields) for record in lines)


async def test_a_guesser_who_does_not_wait_for_the_answer_is_slowed_as_well():
    clock = InstantClock()
    logins = Logins(ANN, clock)

    for number in range(6):
        guess = asyncio.ensure_future(logins.check("ann", f"guess{number}", address=HERE))
        await loop_turns(5)
        guess.cancel()
        await asyncio.gather(guess, return_exceptions=True)
    logins.stop()

    assert len(clock.slept) == 6 - FREE_FAILURES


async def test_refused_calls_leave_a_line_once_in_a_while(tmp_path, caplog):
    missing = pb.GetTableInfoRequest(
        table_path=pb.TablePath(database_name="fluss", table_name="none")
    )
    with caplog.at_level(logging.INFO, "headwater.dispatch"):
        async with running(tmp_path) as server, connected(server) as client:
            for _ in range(5):
                with pytest.raises(HeadwaterError):
                    await client.call(missing, pb.GetTableInfoResponse)

    lines = [record for record in caplog.records if record.message == "refused"]
    assert [record.fields["api"] for record in lines] == ["GET_TABLE_INFO"]


# ---- users come and go


async def test_users_change_while_the_server_runs(tmp_path):
    path = tmp_path / "users"
    ANN.save(path)
    async with running(tmp_path / "data", users=Users.load(path)) as server:
        ann, bob = await logged_in(server), await logged_in(server, "bob", "hunter")
        Users.load(path).without_user("ann").with_user("eve", "apple").save(path)

        await server.upkeep.reload_users()

        await until(lambda: not ann.is_open)
        assert await databases(bob) == ["fluss"]
        eve = await logged_in(server, "eve", "apple")
        with pytest.raises(AuthenticationError):
            await logged_in(server)
        for each in (ann, bob, eve):
            await each.close()


async def test_a_file_that_cannot_be_used_changes_nobody(tmp_path, caplog):
    path = tmp_path / "users"
    ANN.save(path)
    async with running(tmp_path / "data", users=Users.load(path)) as server:
        ann = await logged_in(server)
        path.write_text("nonsense\n")
        await server.upkeep.reload_users()
        path.unlink()
        await server.upkeep.reload_users()
        await server.upkeep.reload_users()

        assert await databases(ann) == ["fluss"]
        await ann.close()

    told = [record for record in caplog.records if record.message == "users not reloaded"]
    assert len(told) == 2


async def test_strangers_are_still_served_where_nobody_has_to_log_in(tmp_path):
    async with running(tmp_path, login_timeout_s=0.1, login_connections_max=1) as server:
        several = [await RawClient.open(server) for _ in range(3)]

        assert await is_served(server)
        assert len(server.listener._connections) >= len(several)
