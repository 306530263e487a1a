"""Clients that engines share: one for each place, opened once."""

import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import headwater
from headwater.engines.storages import close_opened, opened
from headwater.errors import DirectoryInUseError, HeadwaterError, MissingError, RequestError
from tests.cases import cases


@pytest.fixture
def directory(tmp_path):
    headwater.open(tmp_path / "data").close()
    yield tmp_path / "data"
    close_opened()


def test_a_client_is_taken_as_it_is(tmp_path):
    with headwater.open(tmp_path) as hw:
        assert opened(hw) is hw


def test_a_directory_is_opened_once_however_it_is_written(directory):
    first = opened(str(directory))

    second = opened(directory / ".." / "data")

    assert first is second
    assert first.list_databases() == ["fluss"]


def test_threads_that_open_one_directory_at_once_share_a_client(directory):
    with ThreadPoolExecutor(8) as pool:
        clients = set(pool.map(opened, [directory] * 16))

    assert len(clients) == 1


def test_an_address_is_connected_to_once(tmp_path):
    with headwater.open(tmp_path, listen=True) as hw:
        first, second = opened(hw.address), opened(f" {hw.address} ,")
        close_opened()

    assert first is second


def test_a_client_that_was_closed_is_made_anew(directory):
    first = opened(directory)
    first.close()

    second = opened(directory)

    assert second is not first
    assert second.is_open


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_process_that_was_forked_has_clients_of_its_own(tmp_path):
    with headwater.open(tmp_path, listen=True) as hw:
        mine = opened(hw.address)

        child = os.fork()
        if child == 0:
            is_other = opened(hw.address) is not mine
            os._exit(0 if is_other and opened(hw.address).list_databases() == ["fluss"] else 1)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        close_opened()

    assert ended == 0


def test_a_directory_that_is_not_there_is_not_made(tmp_path):
    with pytest.raises(MissingError, match=r"no directory .*dta"):
        opened(tmp_path / "dta")

    assert not (tmp_path / "dta").exists()


def test_a_file_is_no_storage(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(RequestError, match="not a directory"):
        opened(str(tmp_path / "file"))


@cases("at", [None, "", "  "])
def test_who_names_no_storage_is_told_how(at):
    with pytest.raises(RequestError, match=r"No storage is given.*host:port"):
        opened(at)


def test_a_directory_that_is_held_says_so(tmp_path):
    with headwater.open(tmp_path), pytest.raises(DirectoryInUseError):
        opened(tmp_path)


def test_a_server_that_is_away_is_told_in_bounded_time():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    with pytest.raises(HeadwaterError, match=str(port)):
        opened(f"127.0.0.1:{port}")


def test_a_directory_whose_name_looks_like_an_address_is_a_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    headwater.open(Path("here:9123")).close()

    found = opened("here:9123")
    close_opened()

    assert "here:9123" in repr(found)


def test_a_directory_without_a_storage_is_not_made_one(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")

    with pytest.raises(MissingError, match="contains no storage"):
        opened(tmp_path)

    assert [each.name for each in tmp_path.iterdir()] == ["notes.txt"]


def test_what_was_opened_is_closed_when_the_program_ends(tmp_path):
    with headwater.open(tmp_path) as storage:
        storage.create_table("log", {"id": "BIGINT"}).append({"id": 1})
        storage.create_table("keyed", {"id": "BIGINT"}, primary_key="id").upsert({"id": 1})
    program = (
        "from headwater.engines.storages import opened\n"
        f"table = opened({str(tmp_path)!r}).table('keyed')\n"
        "table.upsert([{'id': number} for number in range(20_000)])\n"
    )

    ended = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True
    )

    assert (ended.returncode, ended.stderr) == (0, "")
    assert list((tmp_path / "log").glob("*/0/kv/snapshot-*")), "a clean end saves the state"
