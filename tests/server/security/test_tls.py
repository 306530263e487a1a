"""Encrypted ports: who gets in, who is told why not, and certificates that change."""

import asyncio
import logging
import ssl
from contextlib import suppress
from dataclasses import replace

import pytest

import headwater.aio
from headwater.cluster.links import TcpConnection
from headwater.config.server import ServerSettings
from headwater.errors import (
    AuthenticationError,
    DisconnectedError,
    InvalidOptionError,
    RequestError,
    TlsError,
)
from headwater.server.logins import Users
from headwater.server.permissions.trail import REFUSED_LINES_MAX
from headwater.server.server import check_exposure
from headwater.wire import fluss_pb2 as pb
from tests.cases import cases
from tests.server.permissions.test_trail import recorded, told
from tests.server.security.certificates import databases, secured
from tests.server.support import (
    HOST,
    RawClient,
    append,
    connected,
    create_table,
    running,
    until,
)

ANN = Users({}).with_user("ann", "secret")


async def test_plain_and_tls_ports_serve_the_same_rows_side_by_side(tmp_path, authority):
    async with running(tmp_path, tls_port=0, **authority.settings) as server:
        async with connected(server) as plain:
            table_id = await create_table(plain)
            await append(plain, table_id)
        async with secured(server, authority.trusted()) as encrypted:
            assert await databases(encrypted) == ["fluss"]

    assert server.port != server.tls_port


async def test_the_only_port_speaks_tls_with_a_certificate_and_no_port_for_it(tmp_path, authority):
    async with (
        running(tmp_path, **authority.settings) as server,
        secured(server, authority.trusted()) as encrypted,
    ):
        assert await databases(encrypted) == ["fluss"]

    assert server.port == server.tls_port


async def test_megabytes_pass_in_both_directions(tmp_path, authority):
    rows = [{"id": number, "text": f"{number:05d}" * 200} for number in range(5_000)]
    async with running(tmp_path, **authority.settings) as server:
        address = f"localhost:{server.tls_port}"
        async with await headwater.aio.connect(
            address, tls=True, tls_ca_file=authority.ca
        ) as client:
            table = await client.create_table("big", {"id": "int", "text": "string"})
            await table.append(rows)
            found = await table.scan().to_arrow()

    assert found.num_rows == 5_000
    assert found["text"][4_999].as_py() == "04999" * 200


async def test_a_client_is_sent_to_the_name_that_it_asked_for(tmp_path, other_authority):
    settings = other_authority.server("localhost")  # not valid for 127.0.0.1
    async with running(tmp_path, **settings) as server:
        address = f"localhost:{server.tls_port}"
        async with await headwater.aio.connect(
            address, tls=True, tls_ca_file=other_authority.ca
        ) as client:
            table = await client.create_table("t", {"id": "int"}, primary_key="id")
            await table.upsert({"id": 1})

            assert await table.get(1) == {"id": 1}


async def test_an_address_can_be_advertised_to_clients_with_tls_alone(tmp_path, authority):
    named = {"tls_advertised_host": "db.example.org", "tls_advertised_port": 9443}
    async with (
        running(tmp_path, tls_port=0, **authority.settings, **named) as server,
        secured(server, authority.trusted()) as encrypted,
        connected(server) as plain,
    ):
        there = await encrypted.call(pb.MetadataRequest(), pb.MetadataResponse)
        here = await plain.call(pb.MetadataRequest(), pb.MetadataResponse)

    assert (there.coordinator_server.host, there.coordinator_server.port) == tuple(named.values())
    assert (here.coordinator_server.host, here.coordinator_server.port) == (HOST, server.port)


# ---- certificates that are not accepted


async def test_a_server_of_another_ca_is_not_talked_to(tmp_path, authority, other_authority):
    async with running(tmp_path, **other_authority.settings) as server:
        with pytest.raises(TlsError, match=r"certificate of 'localhost'.*tls_ca_file"):
            async with secured(server, authority.trusted()):
                raise AssertionError("connected")


async def test_a_server_of_another_name_is_not_talked_to(tmp_path, authority):
    async with running(tmp_path, **authority.settings) as server:
        with pytest.raises(TlsError, match=r"not valid for 'elsewhere'.*tls_server_name"):
            async with secured(server, authority.trusted(tls_server_name="elsewhere")):
                raise AssertionError("connected")


async def test_an_expired_certificate_is_named_with_its_last_day(
    tmp_path, other_authority, monkeypatch
):
    # A server would not start with it, so somebody else shows it.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*other_authority.expired(monkeypatch).values())
    shown = await asyncio.start_server(lambda _, writer: writer.close(), HOST, 0, ssl=context)
    port = shown.sockets[0].getsockname()[1]

    with pytest.raises(TlsError, match=r"expired.*'localhost', valid from .* to 20.* UTC"):
        await TcpConnection.open(HOST, port, tls=other_authority.trusted())
    shown.close()
    await shown.wait_closed()


async def test_a_server_does_not_start_with_an_expired_certificate(
    tmp_path, other_authority, monkeypatch
):
    settings = other_authority.expired(monkeypatch)

    with pytest.raises(InvalidOptionError, match="'localhost' expired: it was valid until 20"):
        async with running(tmp_path, **settings):
            raise AssertionError("started")


@cases(
    ("changed", "told"),
    [
        ({"tls_certificate_file": "nowhere.pem"}, "cannot be read: No such file.*nowhere.pem"),
        ({"tls_key_file": "ca.key"}, "does not belong to the certificate"),
        ({"tls_key_file": "ca.pem"}, "contains no private key"),
        ({"tls_certificate_file": "server.key"}, "contains no certificate"),
        ({"tls_client_ca_file": "server.key"}, "contains no certificate"),
    ],
)
async def test_files_that_do_not_fit_are_named(tmp_path, authority, changed, told):
    files = {name: str(authority.directory / file) for name, file in changed.items()}

    with pytest.raises(InvalidOptionError, match=told):
        async with running(tmp_path, **{**authority.settings, **files}):
            raise AssertionError("started")


# ---- the wrong language


async def test_a_client_without_tls_is_told_so(tmp_path, authority, caplog):
    async with running(tmp_path, **authority.settings) as server:
        with pytest.raises(AuthenticationError, match=r"This port speaks TLS.*tls=True"):
            await TcpConnection.open(HOST, server.tls_port)

    assert "this port speaks TLS, and the client does not" in _reasons(caplog)


async def test_a_client_with_tls_on_a_plain_port_is_told_so(tmp_path, authority, caplog):
    async with running(tmp_path) as server:
        with pytest.raises(TlsError, match="Perhaps the port does not speak TLS"):
            await TcpConnection.open(HOST, server.port, tls=authority.trusted())

    assert "the client speaks TLS, and this port does not" in _reasons(caplog)


@cases("data", [b"GET / HTTP/1.1\r\n\r\n", b"\0", b"\xff" * 100, b"\x15\x03\x01\0\x02\x02\x28"])
async def test_other_bytes_on_a_tls_port_end_the_connection(tmp_path_factory, authority, data):
    async with running(tmp_path_factory.mktemp("data"), **authority.settings) as server:
        client = await RawClient.open(server)
        client.send(data)

        assert await client.ended()
        async with secured(server, authority.trusted()) as other:
            assert await databases(other) == ["fluss"]


async def test_a_version_before_1_2_is_refused(tmp_path, authority):
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.load_verify_locations(authority.ca)
    with pytest.warns(DeprecationWarning, match="TLS"):
        old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    old.set_ciphers("ALL:@SECLEVEL=0")
    async with running(tmp_path, **authority.settings) as server:
        with pytest.raises((ssl.SSLError, ConnectionResetError)):
            await asyncio.open_connection(HOST, server.tls_port, ssl=old)


# ---- certificates that change


async def test_a_new_certificate_is_taken_over_while_the_server_runs(tmp_path, other_authority):
    async with (
        running(tmp_path, **other_authority.settings) as server,
        secured(server, other_authority.trusted()) as before,
    ):
        other_authority.server("renewed", "localhost", HOST)
        await server.upkeep._services.certificates.reload()
        renewed = other_authority.trusted(tls_server_name="renewed")
        async with secured(server, renewed) as after:
            assert await databases(after) == await databases(before) == ["fluss"]


async def test_a_bad_new_file_keeps_the_certificate_and_is_told(tmp_path, other_authority, caplog):
    async with running(tmp_path, **other_authority.settings) as server:
        (other_authority.directory / "server.pem").write_text("rubbish")
        await server.upkeep._services.certificates.reload()
        async with secured(server, other_authority.trusted()) as client:
            assert await databases(client) == ["fluss"]

    told = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert [each.getMessage() for each in told] == [
        "certificate not reloaded: the one before stays"
    ]


async def test_a_client_that_was_replaced_by_its_ca_gets_in_no_more(tmp_path, other_authority):
    ca = {"tls_client_ca_file": other_authority.ca}
    ann = other_authority.client("ann")
    trusted = other_authority.trusted(**ann)
    async with running(tmp_path, **other_authority.settings, **ca) as server:
        async with secured(server, trusted) as client:
            assert await databases(client) == ["fluss"]
        for name in ("ca.pem", "ca.key"):
            (other_authority.directory / name).unlink()
        other_authority.client("bob")  # makes a new CA
        await server.upkeep._services.certificates.reload()

        with pytest.raises((TlsError, DisconnectedError)):
            async with secured(server, trusted) as client:
                await databases(client)


# ---- certificates of clients


@cases(("kind", "principal"), [("cn", "ann"), ("subject", "CN=ann,OU=sales,OU=eu")])
async def test_a_certificate_names_the_principal_and_its_groups(
    tmp_path_factory, authority, kind, principal
):
    ann = authority.client("ann", groups=("eu", "sales"))
    settings = {**authority.settings, "tls_client_ca_file": authority.ca, "tls_principal": kind}
    async with (
        running(tmp_path_factory.mktemp("data"), **settings) as server,
        secured(server, authority.trusted(**ann)) as client,
    ):
        assert await databases(client) == ["fluss"]
        (connection,) = server.listener._connections
        session = connection.session

    assert (session.principal, session.groups) == (principal, ("eu", "sales"))
    assert session.expires_ms is not None


async def test_nobody_gets_in_without_a_certificate_where_one_is_required(tmp_path, authority):
    settings = {**authority.settings, "tls_client_ca_file": authority.ca}
    async with running(tmp_path, users=ANN, **settings) as server:
        with pytest.raises((TlsError, DisconnectedError)):
            async with secured(server, authority.trusted(), "ann", "secret") as client:
                await databases(client)


async def test_a_password_will_do_where_certificates_are_optional(tmp_path, authority):
    settings = {"tls_client_ca_file": authority.ca, "tls_client_auth": "optional"}
    async with running(tmp_path, users=ANN, **authority.settings, **settings) as server:
        async with secured(server, authority.trusted(), "ann", "secret") as client:
            assert await databases(client) == ["fluss"]
        async with secured(server, authority.trusted()) as nobody:
            with pytest.raises(AuthenticationError):
                await databases(nobody)


async def test_the_session_of_a_certificate_ends_with_it(tmp_path, authority):
    settings = {**authority.settings, "tls_client_ca_file": authority.ca}
    ann = authority.client("ann")
    async with (
        running(tmp_path, **settings) as server,
        secured(server, authority.trusted(**ann)) as client,
    ):
        await databases(client)
        (connection,) = server.listener._connections
        connection.session.expires_ms = 1
        connection._look_at_expiry()

        with pytest.raises(DisconnectedError):
            await databases(client)


async def test_logins_by_certificate_are_in_the_audit_trail(tmp_path, authority, other_authority):
    settings = {**authority.settings, "tls_client_ca_file": authority.ca}
    async with running(tmp_path, **settings) as server:
        for client in ({}, other_authority.client("eve"), authority.client("ann")):
            with suppress(TlsError, DisconnectedError):
                async with secured(server, authority.trusted(**client)) as connection:
                    await databases(connection)

        rows = await recorded(server)

    assert [told(row) for row in rows] == [
        ("", "AUTHENTICATE", "", False),
        ("", "AUTHENTICATE", "", False),
        ("ann", "AUTHENTICATE", "", True),
    ]
    assert {row["address"] for row in rows} == {HOST}
    details = [row["detail"] for row in rows]
    assert "did not return a certificate" in details[0]
    assert "certificate is not accepted" in details[1]


async def test_refused_certificates_do_not_flood_the_trail(tmp_path, authority):
    settings = {**authority.settings, "tls_client_ca_file": authority.ca}
    async with running(tmp_path, **settings) as server:
        for _ in range(REFUSED_LINES_MAX + 50):
            server.listener._refused_certificate(HOST, "no certificate")

        assert len(await recorded(server)) == REFUSED_LINES_MAX


# ---- limits


async def test_those_who_wait_at_the_door_make_room_for_a_user(tmp_path, authority):
    limits = {"login_connections_max": 20, "login_connections_per_address_max": 10}
    async with running(tmp_path, users=ANN, **authority.settings, **limits) as server:
        silent = [await RawClient.open(server) for _ in range(30)]
        begun = [await RawClient.open(server) for _ in range(30)]
        for client in begun:
            client.send(b"\x16\x03\x01\x02\0\x01")

        async with secured(server, authority.trusted(), "ann", "secret") as ann:
            assert await databases(ann) == ["fluss"]
            assert len(server.listener.strangers) <= 10
            assert await silent[0].ended()


async def test_who_does_not_finish_a_handshake_is_closed(tmp_path, authority):
    async with running(tmp_path, **authority.settings, login_timeout_s=0.3) as server:
        silent, begun = await RawClient.open(server), await RawClient.open(server)
        begun.send(b"\x16\x03\x01\x02\0\x01")

        assert await silent.ended()
        assert await begun.ended()
        await until(lambda: len(server.listener.strangers) == 0)


async def test_a_server_stops_while_strangers_wait_at_its_door(tmp_path, authority):
    async with running(tmp_path, **authority.settings) as server:
        silent, begun = await RawClient.open(server), await RawClient.open(server)
        begun.send(b"\x16\x03\x01\x02\0\x01")
        await until(lambda: len(server.listener.strangers) == 2)

    assert await silent.ended()
    assert await begun.ended()


# ---- metrics


async def test_metrics_are_served_with_tls_and_say_so_without(tmp_path, authority):
    trusting = authority.trusted().context()
    settings = {**authority.settings, "metrics_port": 0, "metrics_tls": True}
    async with running(tmp_path, **settings) as server:
        port = server.metrics_listener.port
        answers = []
        for context in (trusting, None):
            reader, writer = await asyncio.open_connection(HOST, port, ssl=context)
            writer.write(b"GET /health HTTP/1.1\r\n\r\n")
            answers.append(await reader.read())
            writer.close()

    assert answers[0].startswith(b"HTTP/1.1 200")
    assert answers[1].startswith(b"HTTP/1.1 400")
    assert b"use https" in answers[1]


# ---- settings


@cases(
    ("given", "told"),
    [
        ({"tls_port": 1}, "'tls_port' needs a certificate"),
        ({"tls_key_file": "x"}, "'tls_key_file' needs a certificate"),
        ({"metrics_tls": True, "metrics_port": 0}, "'metrics_tls' needs a certificate"),
        ({"tls_certificate_file": "x", "tls_host": "::"}, "'tls_host' needs 'tls_port'"),
        ({"tls_certificate_file": "x", "metrics_tls": True}, "needs 'metrics_port'"),
        ({"tls_client_auth": "maybe"}, "Expected required or optional"),
        ({"tls_principal": "mail"}, "Expected cn or subject"),
        ({"mechanisms": "PLAIN,MD5"}, "'mechanisms' cannot contain 'MD5'"),
        ({"token_keys": "x"}, "'token_keys' needs 'token_issuer'"),
        ({"token_issuer": "x"}, "'token_issuer' needs 'token_keys'"),
    ],
)
def test_settings_that_would_do_nothing_are_refused(given, told):
    with pytest.raises(InvalidOptionError, match=told):
        ServerSettings(**given)


TLS = ServerSettings(host="0.0.0.0", tls_certificate_file="server.pem")


@cases(
    "settings",
    [
        TLS,
        replace(TLS, host="127.0.0.1", tls_port=0, tls_host="0.0.0.0"),
        replace(TLS, host="127.0.0.1", tls_port=0),
        ServerSettings(host="0.0.0.0", insecure=True),
    ],
)
def test_listening_beyond_the_machine_is_allowed_with_users_and_tls(settings):
    check_exposure(settings, ANN)


@cases("settings", [ServerSettings(host="0.0.0.0"), replace(TLS, tls_port=0)])
def test_listening_beyond_the_machine_asks_for_tls(settings):
    with pytest.raises(RequestError, match="--tls-certificate"):
        check_exposure(settings, ANN)


def _reasons(caplog) -> str:
    return " ".join(str(vars(each)) for each in caplog.records)
