"""A storage inside the process of its user."""

import os
import socket
import subprocess
import sys
import textwrap
import threading

import pytest

import headwater
from headwater import aio, errors
from headwater.wire.apis import APIS, ApiKey
from tests.serving import serving

SCHEMA = {"id": "BIGINT", "text": "STRING"}


def test_what_was_written_is_there_when_the_directory_is_opened_again(tmp_path):
    with headwater.open(tmp_path / "data") as hw:
        hw.create_table("log", SCHEMA).append({"id": 1, "text": "a"})
        hw.create_table("keyed", SCHEMA, primary_key="id").upsert({"id": 1, "text": "b"})

    with headwater.open(tmp_path / "data") as hw:
        assert hw.table("log").scan().to_pylist() == [{"id": 1, "text": "a"}]
        assert hw.table("keyed").get({"id": 1}) == {"id": 1, "text": "b"}


def test_the_same_directory_can_be_served_later_and_opened_again(tmp_path):
    with headwater.open(tmp_path / "data") as hw:
        hw.create_table("t", SCHEMA).append({"id": 1})

    with serving(tmp_path / "data") as server, headwater.connect(server.address) as client:
        client.table("t").append({"id": 2})

    with headwater.open(tmp_path / "data") as hw:
        assert [row["id"] for row in hw.table("t").scan().to_pylist()] == [1, 2]


def test_a_directory_is_held_by_one_at_a_time(tmp_path):
    with (
        headwater.open(tmp_path / "data"),
        pytest.raises(errors.DirectoryInUseError, match="already open in this process"),
    ):
        headwater.open(tmp_path / "data")

    headwater.open(tmp_path / "data").close()


def test_the_address_of_a_server_is_no_directory_to_make(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    with pytest.raises(errors.RequestError, match=r"headwater\.connect\('localhost:9123'\)"):
        headwater.open("localhost:9123")

    assert list(tmp_path.iterdir()) == []


def test_a_path_that_can_be_no_directory_is_told_as_ours(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(errors.StorageError, match=r"Cannot use.*can create and write to"):
        headwater.open(tmp_path / "file" / "data")


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is denied to root")
def test_a_directory_that_may_not_be_made_is_told_as_ours(tmp_path):
    tmp_path.chmod(0o500)

    with pytest.raises(errors.StorageError, match=r"Permission denied.*can create and write to"):
        headwater.open(tmp_path / "data")


def test_no_port_is_taken_unless_asked_for(tmp_path):
    with headwater.open(tmp_path / "data") as hw:
        assert hw.address is None


def test_other_processes_reach_it_on_a_loopback_port(tmp_path):
    with headwater.open(tmp_path / "data", listen=True) as hw:
        hw.create_table("t", SCHEMA)
        code = f"""
            import headwater
            with headwater.connect("{hw.address}") as client:
                client.table("t").append([{{"id": 1, "text": "from outside"}}])
        """
        subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, timeout=60)

        assert hw.table("t").scan().to_pylist() == [{"id": 1, "text": "from outside"}]
        host, port = hw.address.split(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), timeout=5)


def test_what_was_acknowledged_survives_a_process_that_dies(tmp_path):
    code = f"""
        import os, headwater
        hw = headwater.open({str(tmp_path / "data")!r})
        hw.create_table("t", {{"id": "BIGINT"}}).append([{{"id": n}} for n in range(1000)])
        hw.create_table("k", {{"id": "BIGINT"}}, primary_key="id").upsert({{"id": 7}})
        os._exit(9)
    """
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=False, timeout=60)

    assert run.returncode == 9
    with headwater.open(tmp_path / "data") as hw:
        assert hw.table("t").count() == 1000
        assert hw.table("k").get({"id": 7}) == {"id": 7}


def test_a_program_that_forgets_to_close_still_ends(tmp_path):
    code = f"""
        import headwater
        hw = headwater.open({str(tmp_path / "data")!r})
        hw.create_table("t", {{"id": "BIGINT"}}).append({{"id": 1}})
    """

    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], check=True, timeout=60, capture_output=True
    )

    assert run.stderr == b""


def test_threads_share_a_storage(tmp_path):
    with headwater.open(tmp_path / "data") as hw:
        table = hw.create_table("t", SCHEMA, buckets=3)
        threads = [
            threading.Thread(
                target=lambda start=start: [table.append({"id": start + n}) for n in range(20)]
            )
            for start in range(0, 100, 20)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert sorted(row["id"] for row in table.scan().to_pylist()) == list(range(100))


async def test_it_runs_on_the_loop_of_who_awaits(tmp_path):
    async with await aio.open(tmp_path / "data") as hw:
        table = await hw.create_table("t", SCHEMA)
        await table.append([{"id": 1}, {"id": 2}])

        rows = [row async for batch in table.scan() for row in batch.to_pylist()]

    assert [row["id"] for row in rows] == [1, 2]


async def test_the_blocking_one_works_where_a_loop_runs_already(tmp_path):
    with headwater.open(tmp_path / "data") as hw:
        hw.create_table("t", SCHEMA).append({"id": 1})

        assert hw.table("t").count() == 1


def test_a_closed_storage_says_so(tmp_path):
    hw = headwater.open(tmp_path / "data")
    table = hw.create_table("t", SCHEMA)
    hw.close()
    hw.close()

    with pytest.raises(errors.ClosedError):
        table.append({"id": 1})
    with pytest.raises(errors.ClosedError):
        hw.list_databases()


def test_a_directory_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").write_text("in the way")

    with pytest.raises((errors.HeadwaterError, OSError)):
        headwater.open(tmp_path / "file" / "data")


def test_a_scan_that_is_left_early_lets_go_of_its_server(tmp_path):
    with headwater.open(tmp_path / "data") as hw:
        table = hw.create_table("t", SCHEMA, primary_key="id", buckets=4)
        table.upsert([{"id": number} for number in range(100)])

        for _ in range(50):
            assert next(iter(table.scan())).num_rows

        assert table.scan().to_arrow().num_rows == 100


async def test_a_link_that_was_closed_carries_nothing_more(tmp_path):
    async with await aio.open(tmp_path / "data") as hw:
        cluster = hw.cluster
        link = await cluster._pool.link(next(iter(cluster._nodes.values())))
        await link.close()

        with pytest.raises(errors.DisconnectedError):
            await link.exchange(APIS[ApiKey.LIST_DATABASES], [b""], timeout_s=5.0)
        assert await hw.list_databases() == ["fluss"]
