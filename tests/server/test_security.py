"""Who may connect, and from where."""

import os
import stat
from dataclasses import replace

import pytest

from headwater.cluster.links import TcpConnection
from headwater.config.server import ServerSettings
from headwater.errors import (
    AuthenticationError,
    DisconnectedError,
    InvalidNameError,
    InvalidOptionError,
    RequestError,
)
from headwater.server.logins import Users
from headwater.server.server import Server, check_exposure
from headwater.wire import fluss_pb2 as pb
from tests.cases import cases
from tests.server.support import HOST, append, connected, create_table, running

ANN = Users({}).with_user("ann", "secret")


def test_users_survive_their_file(tmp_path):
    path = tmp_path / "users"

    ANN.with_user("bob@home", "päss:wörd").save(path)

    loaded = Users.load(path)
    loaded.check("ann", "secret")
    loaded.check("bob@home", "päss:wörd")
    assert len(loaded) == 2


def test_the_file_is_for_its_owner_only_and_holds_no_password(tmp_path):
    path = tmp_path / "users"

    ANN.save(path)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "secret" not in path.read_text()
    assert list(tmp_path.iterdir()) == [path]


def test_a_leftover_that_others_can_read_does_not_make_the_file_readable(tmp_path):
    path, leftover = tmp_path / "users", tmp_path / ".users.new"
    leftover.write_text("")
    leftover.chmod(0o644)

    ANN.save(path)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_same_password_is_stored_differently_each_time():
    again = Users({}).with_user("ann", "secret")

    assert again._hashes["ann"] != ANN._hashes["ann"]


@cases(("name", "password"), [("ann", "Secret"), ("ann", ""), ("eve", "secret"), ("", "")])
def test_a_wrong_name_and_a_wrong_password_get_the_same_answer(name, password):
    with pytest.raises(AuthenticationError, match="The user name or the password is wrong"):
        ANN.check(name, password)


def test_another_password_replaces_the_one_before():
    changed = ANN.with_user("ann", "other")

    changed.check("ann", "other")
    with pytest.raises(AuthenticationError):
        changed.check("ann", "secret")


@cases("name", ["", "a:b", "a b", "a\n", "x" * 129])
def test_a_name_that_would_break_the_file_is_refused(name):
    with pytest.raises(InvalidNameError):
        ANN.with_user(name, "secret")


@pytest.mark.parametrize("line", ["ann", "ann:plain", "ann:scrypt$00$00", "", "\udcff:x"])
def test_a_line_that_is_not_a_user_is_named(tmp_path, line):
    path = tmp_path / "users"
    ANN.save(path)
    with path.open("a", encoding="utf-8", errors="surrogateescape") as file:
        file.write(line + "\n")

    with pytest.raises(InvalidOptionError, match="Line 2"):
        Users.load(path)


def test_a_file_that_others_may_read_or_change_is_refused_with_the_remedy(tmp_path):
    path = tmp_path / "users"
    ANN.save(path)

    for mode in (0o644, 0o604, 0o602, 0o660, 0o666):
        path.chmod(mode)
        with pytest.raises(InvalidOptionError, match=f"chmod 600 {path}"):
            Users.load(path)

    path.chmod(0o640)  # as secrets are mounted for a group
    assert len(Users.load(path)) == 1


def test_an_empty_password_is_refused():
    with pytest.raises(InvalidOptionError, match="empty"):
        ANN.with_user("bob", "")


def test_metrics_beyond_the_machine_ask_for_a_word():
    exposed = ServerSettings(metrics_host="0.0.0.0", metrics_port=0)

    with pytest.raises(RequestError, match="--metrics-exposed"):
        check_exposure(exposed, ANN)
    check_exposure(replace(exposed, metrics_exposed=True), ANN)
    check_exposure(replace(exposed, metrics_port=None), ANN)


def test_a_file_that_is_not_there_holds_nobody(tmp_path):
    assert len(Users.load(tmp_path / "users")) == 0


@cases("host", ["0.0.0.0", "", "::", "192.0.2.1", "example.org"])
def test_listening_beyond_the_machine_asks_for_users(host):
    with pytest.raises(RequestError, match="--users"):
        check_exposure(ServerSettings(host=host), None)
    with pytest.raises(RequestError):
        check_exposure(ServerSettings(host=host), Users({}))


@cases(
    ("host", "users", "insecure"),
    [
        ("127.0.0.1", None, False),
        ("localhost", None, False),
        ("::1", None, False),
        ("0.0.0.0", ANN, True),
        ("0.0.0.0", None, True),
    ],
)
def test_listening_is_allowed_where_it_is_safe_or_asked_for(host, users, insecure):
    check_exposure(ServerSettings(host=host, insecure=insecure), users)


async def test_a_refused_address_leaves_no_directory_behind(tmp_path):
    with pytest.raises(RequestError):
        await Server.start(tmp_path / "data", ServerSettings(host="0.0.0.0", port=0))

    assert not (tmp_path / "data").exists()


async def test_only_a_user_gets_past_the_door(tmp_path):
    async with running(tmp_path, users=ANN) as server:
        async with connected(server) as nobody:
            with pytest.raises(AuthenticationError):
                await nobody.call(pb.ListDatabasesRequest(), pb.ListDatabasesResponse)
        ann = await TcpConnection.open(HOST, server.port, credentials=("ann", "secret"))
        answer = await ann.call(pb.ListDatabasesRequest(), pb.ListDatabasesResponse)
        await ann.close()

    assert "fluss" in answer.database_name


@pytest.mark.parametrize("token", [b"", b"\0ann", b"\0ann\0secret\0", b"\xff\0\xff\0\xff"])
async def test_a_malformed_token_is_refused_and_opens_nothing(tmp_path, token):
    async with running(tmp_path, users=ANN) as server, connected(server) as client:
        request = pb.AuthenticateRequest(protocol="PLAIN", token=token)

        with pytest.raises(AuthenticationError):
            await client.call(request, pb.AuthenticateResponse)

        with pytest.raises(DisconnectedError):
            await client.call(pb.ListDatabasesRequest(), pb.ListDatabasesResponse)


async def test_what_a_server_makes_is_for_its_owner(tmp_path):
    before = os.umask(0o022)
    try:
        async with running(tmp_path / "new" / "data") as server, connected(server) as client:
            await append(client, await create_table(client))
    finally:
        os.umask(before)

    directory = tmp_path / "new" / "data"
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    files = [each for each in directory.rglob("*") if each.is_file()]
    assert {stat.S_IMODE(each.stat().st_mode) for each in files} == {0o600}
