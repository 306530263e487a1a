"""Thousands of connections that never finish what they begin, beside a client that works."""

import resource
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

import headwater
from tests import figures
from tests.figures import note
from tests.server.support import HOST
from tests.serving import ServerProcess

HALF_OPEN = 5_000
GETS = 2_000 * figures.times(1)
# A frame of 100 bytes that never comes; or nothing at all.
BEGUN = (b"", b"\x00\x00\x00\x64\x03")

pytestmark = [pytest.mark.torture, pytest.mark.timeout(600)]


@contextmanager
def many_files() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(before[1], 2 * HALF_OPEN), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@contextmanager
def half_open(server: ServerProcess) -> Iterator[list[socket.socket]]:
    opened: list[socket.socket] = []
    try:
        for at in range(HALF_OPEN):
            client = socket.create_connection((HOST, server.port), timeout=30)
            with suppress(OSError):  # The server may close it at once.
                client.sendall(BEGUN[at % len(BEGUN)])
            opened.append(client)
        yield opened
    finally:
        for each in opened:
            each.close()


def slowest_percent_ms(table) -> float:
    """Return the time of which 99 of 100 gets take less."""
    took = []
    for at in range(int(GETS)):
        began = time.perf_counter()
        assert table.get({"id": at % 100}) is not None
        took.append(time.perf_counter() - began)
    return sorted(took)[int(len(took) * 0.99)] * 1000


def test_half_open_connections_leave_a_working_client_working(tmp_path):
    with many_files():
        server = ServerProcess(tmp_path / "data", "--limit", f"connections_max={2 * HALF_OPEN}")
        try:
            with headwater.connect(server.address) as hw:
                table = hw.create_table("t", {"id": "BIGINT", "n": "BIGINT"}, primary_key=["id"])
                table.upsert([{"id": at, "n": at} for at in range(100)])
                before = slowest_percent_ms(table)

                with half_open(server) as opened:
                    beside = slowest_percent_ms(table)

                ratio = round(beside / before, 2)
                note("half-open connections", connections=len(opened), p99_ratio=ratio)
                assert table.get({"id": 5}) == {"id": 5, "n": 5}
        finally:
            assert server.stop() == 0


def test_half_open_connections_over_the_limit_do_not_keep_a_client_out(tmp_path):
    with many_files():
        server = ServerProcess(tmp_path / "data", "--limit", "connections_max=100")
        try:
            with headwater.connect(server.address) as hw:
                table = hw.create_table("t", {"id": "BIGINT"}, primary_key=["id"])
                table.upsert([{"id": 5}])

                with half_open(server):
                    assert table.get({"id": 5}) == {"id": 5}
        finally:
            assert server.stop() == 0
