"""Logins by SCRAM, PLAIN and tokens, which of them is used, and when a session ends."""

import asyncio

import pytest

import headwater
import headwater.aio
from headwater.cluster.links import TcpConnection
from headwater.cluster.login import Credentials
from headwater.config.client import ClientSettings
from headwater.errors import AuthenticationError, DisconnectedError, InvalidOptionError
from headwater.server import logins as served
from headwater.server.logins import Users
from headwater.wire import fluss_pb2 as pb
from headwater.wire.sasl import mechanism_refused
from tests.cases import cases
from tests.server.security.certificates import databases
from tests.server.support import HOST, connected, running

ANN = Users({}).with_user("ann", "secret").with_user("bob", "hunter")
# As older versions wrote it: `scrypt` of the password `secret`.
OLD = Users({"ann": "scrypt$" + "00" * 16 + "$" + served._scrypt("secret", bytes(16)).hex()})
NOT_HERE = "203.0.113.9"


async def logged_in(server, user="ann", password="secret", mechanism=""):
    credentials = Credentials(user, password, mechanism=mechanism)
    return await TcpConnection.open(HOST, server.port, credentials=credentials)


async def told(server, user, password, mechanism):
    """Log in with a mechanism and return the principal that the server knows."""
    client = await logged_in(server, user, password, mechanism)
    try:
        await databases(client)
        (connection,) = server.listener._connections
        return connection.session.principal
    finally:
        await client.close()


@cases("mechanism", ["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN", ""])
async def test_every_mechanism_lets_the_user_in_and_nobody_else(tmp_path_factory, mechanism):
    async with running(tmp_path_factory.mktemp("data"), users=ANN) as server:
        assert await told(server, "ann", "secret", mechanism) == "ann"
        for user, password in (("ann", "hunter"), ("eve", "secret"), ("ann", "")):
            with pytest.raises(AuthenticationError, match="The user name or the password is wrong"):
                await logged_in(server, user, password, mechanism)


async def test_the_strongest_mechanism_is_used_and_no_password_is_sent(tmp_path, monkeypatch):
    sent = []
    monkeypatch.setattr(Users, "check", lambda *arguments: sent.append(arguments))
    async with running(tmp_path, users=ANN) as server:
        client = await logged_in(server)
        assert await databases(client) == ["fluss"]
        await client.close()

    assert sent == []


async def test_users_of_an_older_version_log_in_with_plain_until_all_have_verifiers(
    tmp_path, caplog
):
    path = tmp_path / "users"
    OLD.save(path)
    async with running(tmp_path / "data", users=Users.load(path)) as server:
        client = await logged_in(server)  # falls back to PLAIN, here on one machine
        await client.close()
        with pytest.raises(AuthenticationError, match=r"enables \[PLAIN\]"):
            await logged_in(server, mechanism="SCRAM-SHA-256")
        Users.load(path).with_user("ann", "new").save(path)
        await server.upkeep.reload_users()

        assert await told(server, "ann", "new", "SCRAM-SHA-256") == "ann"
    assert "users without SCRAM" in caplog.text


async def test_mechanisms_can_be_left_out(tmp_path):
    async with running(tmp_path, users=ANN, mechanisms="scram-sha-256") as server:
        for mechanism in ("PLAIN", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"):
            request = pb.AuthenticateRequest(protocol=mechanism, token=b"\0ann\0secret")
            async with connected(server) as client:
                with pytest.raises(AuthenticationError, match=r"enables \[SCRAM-SHA-256\]"):
                    await client.call(request, pb.AuthenticateResponse)

        assert await told(server, "ann", "secret", "") == "ann"


async def test_a_name_of_a_mechanism_is_asked_for_only_so_often(tmp_path):
    async with running(tmp_path, users=ANN) as server, connected(server) as client:
        request = pb.AuthenticateRequest(protocol="GSSAPI", token=b"x")
        for _ in range(8):
            with pytest.raises(AuthenticationError, match="enables"):
                await client.call(request, pb.AuthenticateResponse)

        with pytest.raises(DisconnectedError):
            await client.call(request, pb.AuthenticateResponse)


@cases("users", [Users({}), None])
async def test_mechanisms_with_which_nobody_could_log_in_are_refused(tmp_path_factory, users):
    for mechanism in ("PLAIN", "OAUTHBEARER"):
        with pytest.raises(InvalidOptionError):
            async with running(tmp_path_factory.mktemp("data"), users=users, mechanisms=mechanism):
                raise AssertionError("started")


# ---- what must not be sent in the clear


async def test_a_server_takes_no_password_in_the_clear_from_elsewhere(tmp_path, monkeypatch):
    async with running(tmp_path, users=ANN) as server, connected(server) as client:
        (connection,) = server.listener._connections
        connection.session.address = NOT_HERE
        request = pb.AuthenticateRequest(protocol="PLAIN", token=b"\0ann\0secret")

        with pytest.raises(AuthenticationError, match=r"enables \[SCRAM-SHA-512, SCRAM-SHA-256\]"):
            await client.call(request, pb.AuthenticateResponse)


async def test_a_server_that_is_insecure_on_purpose_takes_it(tmp_path):
    async with running(tmp_path, users=ANN, insecure=True) as server, connected(server) as client:
        (connection,) = server.listener._connections
        connection.session.address = NOT_HERE
        request = pb.AuthenticateRequest(protocol="PLAIN", token=b"\0ann\0secret")

        await client.call(request, pb.AuthenticateResponse)

        assert await databases(client) == ["fluss"]


@cases(
    ("offered", "is_private", "chosen"),
    [
        (("SCRAM-SHA-256", "PLAIN"), False, "SCRAM-SHA-256"),
        (("PLAIN",), True, "PLAIN"),
        (("GSSAPI",), True, None),
        ((), False, None),
    ],
)
def test_a_client_takes_the_strongest_that_is_safe(offered, is_private, chosen):
    refusal = mechanism_refused("SCRAM-SHA-512", offered)

    assert Credentials("ann", "secret").instead(refusal, is_private=is_private) == chosen


def test_a_client_is_not_talked_into_sending_its_password():
    refusal = mechanism_refused("SCRAM-SHA-512", ("PLAIN",))

    with pytest.raises(AuthenticationError, match="would send the password unencrypted"):
        Credentials("ann", "secret").instead(refusal, is_private=False)
    with pytest.raises(AuthenticationError, match="token would be sent unencrypted"):
        Credentials(token="abc").preferred(is_private=False)


@cases("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_mechanism_that_the_user_named_is_used_and_no_other(mechanism):
    named = Credentials("ann", "secret", mechanism=mechanism)

    assert named.preferred(is_private=False) == mechanism
    assert named.instead(mechanism_refused(mechanism, ("PLAIN",)), is_private=True) is None


@cases(
    ("given", "told"),
    [
        ({"user": "ann", "token": "x"}, "A user and a token"),
        ({"password": "x"}, "A password without a user"),
        ({"user": "ann", "password": "x", "mechanism": "OAUTHBEARER"}, "needs a token"),
        ({"token": "x", "mechanism": "PLAIN"}, "needs a user and a password"),
        ({"mechanism": "MD5"}, "'mechanism' cannot be 'MD5'"),
        ({"tls_ca_file": "x"}, "'tls_ca_file' needs TLS"),
        ({"tls": True, "tls_key_file": "x"}, "needs 'tls_certificate_file'"),
    ],
)
def test_credentials_that_contradict_each_other_are_refused(given, told):
    with pytest.raises(InvalidOptionError, match=told):
        headwater.connect("localhost:1", **given)


# ---- unknown users


async def first_answer(server, user, mechanism="SCRAM-SHA-256"):
    token = f"n,,n={user},r=abc".encode()
    async with connected(server) as client:
        request = pb.AuthenticateRequest(protocol=mechanism, token=token)
        answer = await client.call(request, pb.AuthenticateResponse)
    return answer.challenge.decode().partition(",")[2]


async def test_an_unknown_user_looks_like_a_known_one_also_after_a_restart(tmp_path):
    async with running(tmp_path, users=ANN) as server:
        known, unknown = await first_answer(server, "ann"), await first_answer(server, "eve")
        other = await first_answer(server, "eve2")
        assert unknown == await first_answer(server, "eve")
    async with running(tmp_path, users=ANN) as server:
        again = await first_answer(server, "eve")

    assert [len(known), known[-9:]] == [len(unknown), unknown[-9:]]
    assert unknown == again
    assert len({known, unknown, other}) == 3


# ---- sessions


async def test_a_session_ends_when_its_user_is_removed_and_others_stay(tmp_path):
    path = tmp_path / "users"
    ANN.save(path)
    async with running(tmp_path / "data", users=Users.load(path)) as server:
        ann, bob = await logged_in(server), await logged_in(server, "bob", "hunter")
        Users.load(path).without_user("ann").save(path)
        await server.upkeep.reload_users()

        assert await databases(bob) == ["fluss"]
        with pytest.raises(DisconnectedError):
            await databases(ann)
        await bob.close()


async def test_a_login_in_two_steps_is_not_taken_apart(tmp_path):
    async with running(tmp_path, users=ANN) as server, connected(server) as client:
        first = pb.AuthenticateRequest(protocol="SCRAM-SHA-256", token=b"n,,n=ann,r=abc")
        await client.call(first, pb.AuthenticateResponse)

        with pytest.raises(AuthenticationError):
            await databases(client)
        plain = pb.AuthenticateRequest(protocol="PLAIN", token=b"\0ann\0secret")
        with pytest.raises(AuthenticationError, match="mechanism changed"):
            await client.call(plain, pb.AuthenticateResponse)


async def test_wrong_proofs_are_slowed_like_wrong_passwords(tmp_path):
    async with running(tmp_path, users=ANN) as server:
        for _ in range(4):
            with pytest.raises(AuthenticationError):
                await logged_in(server, "ann", "guess", "SCRAM-SHA-256")
        guesses = server.upkeep._services.logins._guesses

        assert guesses.count(HOST) == 4
        assert guesses.pause_s(HOST, "eve") > 0


# ---- blocking callers take the same way


async def test_blocking_callers_log_in_the_same_way(tmp_path, authority):
    settings = ClientSettings(tls=True, tls_ca_file=authority.ca)
    async with running(tmp_path, users=ANN, **authority.settings) as server:

        def use():
            address = f"localhost:{server.tls_port}"
            with headwater.connect(
                address, user="ann", password="secret", settings=settings
            ) as client:
                table = client.create_table("t", {"id": "int"}, primary_key="id")
                table.upsert({"id": 1})
                found = table.get(1)
                (held,) = client.run(_blocking_servers)
                return found, held.count

        assert await asyncio.to_thread(use) == ({"id": 1}, 1)


async def _blocking_servers(client):
    return list(client.cluster.blocking._servers.values())


def test_no_secret_is_shown():
    shown = repr(Credentials("ann", "s3cret", token="t0ken"))

    assert "s3cret" not in shown
    assert "t0ken" not in shown
