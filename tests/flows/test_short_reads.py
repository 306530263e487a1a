"""Rows got over a connection of one's own, from servers that stop, hang or want a password."""

import signal
import threading

import pytest

import headwater
from headwater.config.client import ClientSettings
from headwater.errors import AuthenticationError
from headwater.server.logins import Users
from tests.serving import ServerProcess, serving

SCHEMA = {"id": "BIGINT", "text": "STRING"}
ROW = {"id": 1, "text": "one"}
PATIENT = ClientSettings(deadline_s=60.0, request_timeout_s=5.0, waits_for_server=True)


def filled(client):
    table = client.create_table("t", SCHEMA, primary_key="id", exists_ok=True)
    table.upsert(ROW)
    return table


def went_short(table, key):
    return table._table.get_now(key, may_wait=True) is not None


def test_a_row_is_got_again_from_a_server_that_was_started_again(tmp_path):
    first = ServerProcess(tmp_path / "data")
    with headwater.connect(first.address, settings=PATIENT) as client:
        table = filled(client)
        before = table.get(1)
        first.kill()
        second = ServerProcess(tmp_path / "data", port=first.port)
        after = [table.get(1) for _ in range(3)]

        assert before == ROW
        assert after == [ROW] * 3
        assert went_short(table, 1)
        second.stop()


def test_who_waits_for_a_server_that_dies_is_answered_by_its_successor(tmp_path):
    first = ServerProcess(tmp_path / "data")
    with headwater.connect(first.address, settings=PATIENT) as client:
        table, rows = filled(client), []
        table.get(1)
        first.signal(signal.SIGSTOP)
        waiting = threading.Thread(target=lambda: rows.append(table.get(1)))
        waiting.start()
        waiting.join(0.3)
        was_waiting = waiting.is_alive()
        first.kill()
        second = ServerProcess(tmp_path / "data", port=first.port)
        waiting.join(60)

        assert was_waiting
        assert rows == [ROW]
        second.stop()


def test_a_server_that_hangs_for_a_while_is_waited_for(tmp_path):
    with (
        serving(tmp_path / "data") as server,
        headwater.connect(server.address, settings=ClientSettings(request_timeout_s=0.3)) as client,
    ):
        table, rows = filled(client), []
        table.get(1)
        server.signal(signal.SIGSTOP)
        waiting = threading.Thread(target=lambda: rows.append(table.get(1)))
        waiting.start()
        waiting.join(1.0)
        server.signal(signal.SIGCONT)
        waiting.join(60)

        assert rows == [ROW]


def test_a_row_is_got_where_a_password_is_asked_for_and_not_with_another(tmp_path):
    users = tmp_path / "users"
    Users({}).with_user("ada", "secret").save(users)
    with (
        serving(tmp_path / "data", "--users", str(users)) as server,
        headwater.connect(server.address, user="ada", password="secret") as client,
    ):
        table = filled(client)
        assert went_short(table, 1)
        assert table.get(1) == ROW
        # Whoever had a connection before loses it, and is not let in again.
        Users({}).with_user("ada", "another").save(users)
        with pytest.raises(AuthenticationError):
            _ = [table.get(1) for _ in range(10_000)]

    # Only when it has stopped is all that it logged in its file.
    assert 0 < server.events().count("login failed") <= 4
