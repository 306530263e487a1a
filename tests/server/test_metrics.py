"""What a server shows of itself over HTTP, and what it keeps to itself."""

import asyncio
from contextlib import suppress

import pytest
from prometheus_client.parser import text_string_to_metric_families

from headwater.config.server import ServerSettings
from headwater.errors import ConflictError, InvalidOptionError, TableMissingError
from headwater.metrics.exposition import METRICS, Spread
from headwater.server import metrics_listener
from headwater.server.metrics import TABLES_SHOWN_MAX, ServerMetrics, _largest
from headwater.server.remote import copy as remote_copy
from tests.flows.appending import fetch, table_json
from tests.server.support import (
    HOST,
    FakeClock,
    HeldSyncs,
    append,
    connected,
    create_table,
    disk_with,
    drop_table,
    running,
    until,
)

LAKE = {"table.datalake.enabled": "true"}


def watched(directory, **given):
    return running(directory, metrics_port=0, **given)


async def raw(server, request):
    """Send bytes and return everything that comes back."""
    reader, writer = await asyncio.open_connection(HOST, server.metrics_listener.port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    return answer


async def get(server, path, method="GET"):
    """Return the status and the content of a page."""
    answer = await raw(server, f"{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    head, _, content = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), content.decode()


async def metrics(server):
    status, text = await get(server, "/metrics")
    assert status == 200
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def test_every_declared_metric_is_read_with_its_labels(tmp_path):
    async with running(tmp_path) as server:
        readings = list(ServerMetrics(server._services, server.listener).read())

    assert [each.metric.name for each in readings] == sorted(
        (each.name for each in METRICS), key=[each.metric.name for each in readings].index
    )
    assert len(readings) == len(METRICS)
    for reading in readings:
        assert isinstance(reading, Spread) == (reading.metric.kind == "histogram")
        assert all(len(labels) == len(reading.metric.labels) for labels in reading.by_labels)


async def test_rows_bytes_syncs_and_requests_are_counted(tmp_path):
    async with watched(tmp_path) as server, connected(server) as connection:
        table_id = await create_table(connection, table_json(buckets=2))
        for bucket in (0, 1, 1):
            await append(connection, table_id, bucket=bucket, rows=10)
        shown = await metrics(server)

    assert shown["headwater_tables",] == 1
    assert shown["headwater_buckets_open",] == 2
    assert shown["headwater_appended_rows_total",] == shown["headwater_log_end_offsets",] == 30
    assert shown["headwater_appended_bytes_total",] == shown["headwater_log_bytes",] > 0
    assert shown["headwater_sync_seconds_count",] == 3
    assert shown["headwater_requests_total", "PRODUCE_LOG", "0"] == 3
    assert shown["headwater_request_seconds_count", "PRODUCE_LOG"] == 3
    assert shown["headwater_connections",] == 1
    assert shown["headwater_threads",] >= 1
    assert shown["process_open_fds",] > 0


async def test_a_batch_that_is_sent_again_is_counted_once(tmp_path):
    async with watched(tmp_path) as server, connected(server) as connection:
        table_id = await create_table(connection)
        for _ in range(3):
            await append(connection, table_id, rows=10, writer_id=7, sequence=0)
        shown = await metrics(server)

    assert shown["headwater_appended_rows_total",] == 10


async def test_refusals_of_requests_and_of_buckets_are_counted_by_code(tmp_path):
    async with watched(tmp_path) as server, connected(server) as connection:
        table_id = await create_table(connection)
        await append(connection, table_id, bucket=9)
        await fetch(connection, table_id, 0, 1_000)
        await drop_table(connection)
        with pytest.raises(TableMissingError):
            await drop_table(connection)
        shown = await metrics(server)

    refused = {key[1:]: number for key, number in shown.items() if "_errors_total" in key[0]}
    assert {api for api, _ in refused} == {"PRODUCE_LOG", "FETCH_LOG"}
    codes = {key[2] for key in shown if key[:2] == ("headwater_requests_total", "DROP_TABLE")}
    assert codes == {"0", "7"}


async def test_appends_that_wait_for_the_disk_are_shown(tmp_path):
    syncs = HeldSyncs("1/0")
    async with (
        watched(tmp_path, disk=disk_with(syncs, tmp_path)) as server,
        connected(server) as connection,
    ):
        table_id = await create_table(connection)
        await append(connection, table_id)
        syncs.hold()
        waiting = asyncio.gather(*(append(connection, table_id) for _ in range(3)))
        await until(lambda: sum(each.waiting_count for _, each in server.tablets.all_open()) == 3)

        assert (await metrics(server))["headwater_appends_waiting",] == 3
        syncs.release()
        await waiting
        assert (await metrics(server))["headwater_appends_waiting",] == 0


async def test_a_fenced_bucket_makes_the_server_unwell_and_is_named(tmp_path):
    syncs = HeldSyncs("1/0")
    async with (
        watched(tmp_path, disk=disk_with(syncs, tmp_path)) as server,
        connected(server) as connection,
    ):
        table_id = await create_table(connection)
        await append(connection, table_id)
        assert await get(server, "/health") == (200, "ok\n")

        syncs.is_failing = True
        assert (await append(connection, table_id)).error_code
        shown = await metrics(server)

        assert await get(server, "/health") == (503, "Bucket 0 of fluss.rows is fenced.\n")
        assert shown["headwater_buckets_fenced",] == shown["headwater_sync_failures_total",] == 1


async def test_a_bucket_that_cannot_be_opened_is_counted_until_its_table_is_dropped(tmp_path):
    async with running(tmp_path) as server, connected(server) as connection:
        table_id = await create_table(connection)
        await append(connection, table_id)
    segment = next((tmp_path / "log" / str(table_id) / "0").glob("*.log"))
    segment.unlink()
    segment.mkdir()

    async with watched(tmp_path) as server, connected(server) as connection:
        unwell = await get(server, "/health")
        shown = await metrics(server)
        await drop_table(connection)

        assert unwell == (503, "Bucket 0 of fluss.rows cannot be opened.\n")
        assert shown["headwater_buckets_unopenable",] == 1
        assert await get(server, "/health") == (200, "ok\n")


async def test_a_full_disk_makes_the_server_unwell(tmp_path):
    async with watched(tmp_path, disk_free_bytes_min=1 << 60) as server:
        free = (await metrics(server))["headwater_disk_free_bytes",]

        assert 0 < free < 1 << 60
        assert await get(server, "/health") == (503, "The disk is full: writes are rejected.\n")


async def test_what_retention_deletes_is_counted(tmp_path):
    clock = FakeClock()
    async with watched(tmp_path, clock=clock) as server, connected(server) as connection:
        content = table_json(buckets=1, **{"table.log.ttl": "1 d"})
        table_id = await create_table(connection, content)
        await append(connection, table_id, rows=10)
        clock.milliseconds += 2 * 86_400_000

        await server.upkeep.expire_rows()

        shown = await metrics(server)
        assert shown["headwater_expired_rows_total",] == 10
        assert shown["headwater_log_end_offsets",] == 10


async def test_rows_that_the_lake_lacks_are_shown_for_each_tiered_table(tmp_path):
    async with watched(tmp_path) as server, connected(server) as connection:
        table_id = await create_table(connection, table_json(buckets=1, **LAKE))
        await append(connection, table_id, rows=10)
        shown = await metrics(server)

    assert shown["headwater_tiering_lag_rows", "fluss", "rows"] == 10
    assert shown["headwater_tiering_lag_rows_all",] == 10


def test_of_many_tables_those_furthest_behind_are_shown():
    lags = {("db", f"t{number}"): float(number) for number in range(3 * TABLES_SHOWN_MAX)}

    shown = _largest(lags)

    assert len(shown) == TABLES_SHOWN_MAX
    assert min(shown.values()) == 2 * TABLES_SHOWN_MAX


# ---- HTTP


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/metrics/", 404),
        ("GET", "/../etc/passwd", 404),
        ("GET", "/health?verbose=1", 200),
        ("POST", "/metrics", 405),
        ("get", "/metrics", 405),
    ],
)
async def test_only_two_pages_are_served_and_only_to_readers(tmp_path, method, path, status):
    async with watched(tmp_path) as server:
        assert (await get(server, path, method))[0] == status


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET /metrics HTTP/2\r\n\r\n", b"400"),
        (b"GET /metrics HTTP/1.1\r\nx: " + b"y" * 20_000 + b"\r\n\r\n", b"431"),
        (b"\x00\xff\r\n\r\n", b"400"),
    ],
)
async def test_what_is_no_request_is_refused(tmp_path, request_bytes, status):
    async with watched(tmp_path) as server:
        assert (await raw(server, request_bytes)).split()[1] == status


async def test_head_answers_without_content(tmp_path):
    async with watched(tmp_path) as server:
        assert await get(server, "/metrics", "HEAD") == (200, "")


async def test_one_who_asks_too_slowly_is_dropped(tmp_path, monkeypatch):
    monkeypatch.setattr(metrics_listener, "ASK_WITHIN_S", 0.05)
    async with watched(tmp_path) as server:
        assert await raw(server, b"GET /metrics HTTP/1.1\r\n") == b""
        assert (await get(server, "/health"))[0] == 200


async def test_idle_connections_are_bounded_and_do_not_hide_the_health(tmp_path):
    async with watched(tmp_path) as server:
        port, limit = server.metrics_listener.port, metrics_listener.CONNECTIONS_MAX
        idle = [await asyncio.open_connection(HOST, port) for _ in range(limit)]
        await until(lambda: len(server.metrics_listener._tasks) == limit)

        assert (await get(server, "/health"))[0] == 200
        with suppress(ConnectionError):  # A reset or an end, as the network has it.
            assert await idle[0][0].read() == b""
        assert len(server.metrics_listener._tasks) <= limit

    for _, each in idle:
        each.transport.abort()


async def test_nothing_is_listened_on_without_being_asked(tmp_path):
    async with running(tmp_path) as server:
        assert server.metrics_listener is None


async def test_a_port_that_is_taken_keeps_the_server_from_starting(tmp_path):
    async with watched(tmp_path / "a") as server:
        taken = server.metrics_listener.port
        with pytest.raises(ConflictError, match="in use"):
            async with running(tmp_path / "b", metrics_port=taken):
                pass

        async with running(tmp_path / "b") as second:
            assert second.port


def test_a_port_beyond_all_ports_is_refused():
    with pytest.raises(InvalidOptionError, match="metrics_port"):
        ServerSettings(metrics_port=70_000)


async def test_a_page_that_fails_is_answered():
    def fails():
        raise ZeroDivisionError

    listener = metrics_listener.MetricsListener(
        {"/bad": fails}, host=HOST, port=0, clock=FakeClock()
    )
    await listener.start()
    try:
        reader, writer = await asyncio.open_connection(HOST, listener.port)
        writer.write(b"GET /bad HTTP/1.1\r\n\r\n")
        answer = await reader.read()
        writer.close()
    finally:
        await listener.stop()

    assert answer.startswith(b"HTTP/1.1 500 ")


async def test_the_remote_copy_is_watched(tmp_path):
    remote = str(tmp_path / "remote")
    async with watched(tmp_path / "data", remote_data_dir=remote) as server:
        async with connected(server) as connection:
            await create_table(connection)
            await until(lambda: server._services.remote.tally.commits > 1)
        found = await metrics(server)
        assert await get(server, "/health") == (200, "ok\n")

    assert found["headwater_remote_owner",] == 1
    assert found["headwater_remote_bytes_total",] > 1000
    assert found["headwater_remote_last_commit_timestamp_seconds",] > 0


async def test_a_remote_copy_that_cannot_be_made_is_unwell(tmp_path, monkeypatch):
    monkeypatch.setattr(remote_copy, "UNWELL_BEHIND_S", 0.1)
    monkeypatch.setattr(remote_copy, "CLAIM_S_MAX", 0.1)
    (tmp_path / "file").write_text("in the way")
    remote = str(tmp_path / "file" / "remote")
    async with watched(tmp_path / "data", remote_data_dir=remote) as server:
        await until(server._services.remote.reason_unwell)

        assert "The remote copy is" in (await get(server, "/health"))[1]
        assert (await metrics(server))["headwater_remote_owner",] == 0
