"""What a user may take of a server: who has to wait, who is refused, and what is counted."""

import asyncio

import pytest

from headwater.cluster.links import TcpConnection
from headwater.config.quotas import Created, Quota
from headwater.errors import (
    BucketLimitError,
    InvalidOptionError,
    PartitionLimitError,
    RetryLaterError,
    ScannerLimitError,
    TableLimitError,
)
from headwater.server.logins import Users
from headwater.server.quotas import ANONYMOUS, Account, Meter, QuotaFile, Quotas, quotas_in
from headwater.wire import fluss_pb2 as pb
from headwater.wire.apis import ApiKey
from tests.cases import cases
from tests.clocks import SteppedClock
from tests.flows.appending import TABLE, fetch, table_json
from tests.flows.upserting import Rows
from tests.server.support import (
    HOST,
    KIB,
    RawClient,
    append,
    connected,
    create_table,
    drop_table,
    encoded,
    fetch_request,
    fill,
    padded_request,
    partitioned_json,
    running,
    until,
)

ANN = Users({}).with_user("ann", "secret")


def account_of(server, user=ANONYMOUS) -> Account:
    return next(each for each in server._services.quotas.accounts() if each.user == user)


def is_held(server) -> bool:
    return any(not (each._may_read and each._may_begin) for each in server.listener._connections)


def owed(clock, rate: int, count: int) -> Meter:
    meter = Quotas(Quota(user_bytes_out_per_s_max=rate), clock, throttle_s_max=30).open("ann")
    meter.sent(count)
    return meter


# ---- bytes in


async def test_a_client_over_its_bytes_in_is_not_read_until_time_has_paid(tmp_path):
    clock = SteppedClock()
    async with running(tmp_path, clock=clock, connection_bytes_in_per_s_max=10 * KIB) as server:
        client = await RawClient.open(server)
        client.send(padded_request(20 * KIB, 1))
        await client.answer_ids(1)
        client.send(padded_request(20 * KIB, 2))
        await until(lambda: is_held(server))
        before = account_of(server).connections, dict(account_of(server).throttled_s)

        clock.step(2)

        assert await client.answer_ids(1) == [2]
        assert before == (1, {})
        assert account_of(server).throttled_s == {"connection_bytes_in_per_s_max": 2}


async def test_bytes_in_of_one_user_do_not_make_another_wait(tmp_path):
    clock, users = SteppedClock(), ANN.with_user("bob", "secret")
    async with running(
        tmp_path, clock=clock, users=users, user_bytes_in_per_s_max=2 * KIB
    ) as server:
        ann = await TcpConnection.open(HOST, server.port, credentials=("ann", "secret"))
        bob = await TcpConnection.open(HOST, server.port, credentials=("bob", "secret"))
        table_id = await create_table(bob)
        await append(ann, table_id, rows=2000)
        assert account_of(server, "ann").inward.balance < 0

        held = asyncio.ensure_future(append(ann, table_id))
        answer = await bob.call(pb.ListDatabasesRequest(), pb.ListDatabasesResponse)

        assert answer.database_name
        assert not held.done()
        clock.step(600)
        assert not (await held).error_code
        await ann.close()
        await bob.close()


# ---- bytes out


async def test_requests_wait_while_the_answers_before_them_are_owed(tmp_path):
    clock = SteppedClock()
    async with (
        running(tmp_path, clock=clock, user_bytes_out_per_s_max=2 * KIB) as server,
        connected(server) as connection,
    ):
        table_id = await create_table(connection)
        clock.step(60)
        await append(connection, table_id, rows=4000)
        await fetch(connection, table_id, 0, 0)
        assert account_of(server).outward.balance < 0

        held = asyncio.ensure_future(fetch(connection, table_id, 0, 0))
        await until(lambda: is_held(server))
        assert not held.done()
        clock.step(29)

        assert (await held).records
        assert account_of(server).throttled_s == {"user_bytes_out_per_s_max": 29}


def test_a_request_that_would_wait_for_too_long_is_refused_and_may_be_sent_again():
    clock = SteppedClock()
    meter = owed(clock, 1024, 1024 * 62)

    with pytest.raises(RetryLaterError, match=r"'user_bytes_out_per_s_max' is 1024.*Try again"):
        meter.check()

    assert meter.wait_to_begin() == (0.0, "")
    assert meter.account.refusals == {"user_bytes_out_per_s_max": 1}
    clock.step(31)
    meter.check()
    assert meter.wait_to_begin() == (30.0, "user_bytes_out_per_s_max")


def test_answers_are_cut_to_what_a_second_allows():
    assert owed(SteppedClock(), 4096, 0).answer_bytes_max == 4096


# ---- requests in flight


async def test_requests_over_those_in_flight_wait_for_the_others_of_the_same_user(tmp_path):
    async with running(tmp_path, user_requests_max=2) as server, connected(server) as connection:
        table_id = await create_table(connection)
        poll = encoded(fetch_request(table_id, wait_ms=60_000), ApiKey.FETCH_LOG)
        polling, other = await RawClient.open(server), await RawClient.open(server)
        polling.send(poll + poll)
        await until(lambda: account_of(server).requests == 2)

        other.send(encoded(pb.ListDatabasesRequest(), ApiKey.LIST_DATABASES, 7))
        await until(lambda: bool(account_of(server).waiting))
        polling.abort()

        assert await other.answer_ids(1) == [7]
        assert account_of(server).requests == 0


# ---- connections, scans, and what stays


async def test_a_connection_too_many_is_told_which_limit_and_closed(tmp_path):
    async with (
        running(tmp_path, user_connections_max=1) as server,
        connected(server) as first,
    ):
        with pytest.raises(RetryLaterError, match=r"anonymous has 2 .*'user_connections_max' is 1"):
            await TcpConnection.open(HOST, server.port)

        await until(lambda: account_of(server).connections == 1)
        await first.call(pb.ListDatabasesRequest(), pb.ListDatabasesResponse)
        assert account_of(server).refusals == {"user_connections_max": 1}


async def test_a_client_that_logs_in_as_another_user_is_counted_for_that_one(tmp_path):
    both = ANN.with_user("ben", "other")
    again = pb.AuthenticateRequest(protocol="PLAIN", token=b"\0ben\0other")
    async with running(tmp_path, users=both, user_connections_max=5) as server:
        opened = await TcpConnection.open(HOST, server.port, credentials=("ann", "secret"))
        await opened.call(again, pb.AuthenticateResponse)

        assert account_of(server, "ben").connections == 1
        assert account_of(server, "ann").connections == 0
        await opened.close()


@cases(
    "quota, wanted, kind",
    [
        (Quota(user_tables_max=2), Created(tables=3), TableLimitError),
        (Quota(user_partitions_max=2), Created(partitions=3), PartitionLimitError),
        (Quota(user_buckets_max=2), Created(buckets=3), BucketLimitError),
    ],
)
def test_what_stays_is_refused_for_good_with_the_limit_and_what_to_do(quota, wanted, kind):
    quotas = Quotas(quota, SteppedClock(), throttle_s_max=30)

    with pytest.raises(kind, match=r"ann would have 3 .*'user_\w+_max' is 2\. Drop some") as told:
        quotas.check_created("ann", wanted)

    assert not told.value.retriable
    quotas.check_created("ann", Created(tables=2, partitions=2, buckets=2))


async def test_tables_count_for_their_creator_also_after_a_restart(tmp_path):
    async with running(tmp_path, users=ANN, user_tables_max=1) as server:
        ann = await TcpConnection.open(HOST, server.port, credentials=("ann", "secret"))
        await create_table(ann)
        await ann.close()

    async with running(tmp_path, users=ANN, user_tables_max=1) as server:
        ann = await TcpConnection.open(HOST, server.port, credentials=("ann", "secret"))
        second = pb.CreateTableRequest(
            table_path=pb.TablePath(database_name="fluss", table_name="second"),
            table_json=table_json(),
            ignore_if_exists=False,
        )
        with pytest.raises(TableLimitError):
            await ann.call(second, pb.CreateTableResponse)
        await drop_table(ann)
        await ann.call(second, pb.CreateTableResponse)
        await ann.close()


async def test_a_scan_too_many_is_refused_until_one_is_closed(tmp_path):
    async with running(tmp_path, user_scans_max=1) as server, connected(server) as connection:
        rows = await Rows.create(connection)
        await rows.put(*((at, "name", at) for at in range(100)))

        async def begin() -> pb.ScanKvResponse:
            bucket = pb.ScanKvBucketRequest(table_id=rows.table_id, bucket_id=0)
            request = pb.ScanKvRequest(bucket_scan_req=bucket, call_seq_id=0, batch_size_bytes=100)
            return await connection.call(request, pb.ScanKvResponse)

        first, second = await begin(), await begin()
        close = pb.ScanKvRequest(scanner_id=first.scanner_id, close_scanner=True)
        await connection.call(close, pb.ScanKvResponse)

        assert second.error_code == ScannerLimitError.code
        assert "anonymous has 1 open scans, and the limit 'user_scans_max'" in second.error_message
        assert not (await begin()).error_code


async def test_partitions_count_for_the_creator_of_their_table(tmp_path):
    async with running(tmp_path, user_partitions_max=2) as server, connected(server) as connection:
        await create_table(connection, partitioned_json())

        async def create(day: str) -> None:
            pair = pb.KeyValue(key="day", value=day)
            request = pb.CreatePartitionRequest(
                table_path=TABLE,
                partition_spec=pb.PartitionSpec(partition_key_values=[pair]),
                ignore_if_exists=True,
            )
            await connection.call(request, pb.CreatePartitionResponse)

        await create("1")
        await create("2")
        with pytest.raises(PartitionLimitError, match="'user_partitions_max' is 2"):
            await create("3")
        await create("2")


# ---- the file


async def test_a_running_server_follows_the_file(tmp_path):
    file = QuotaFile(tmp_path / "quotas.json")
    async with running(tmp_path / "data", quotas=file) as server, connected(server) as connection:
        await connection.call(pb.ListDatabasesRequest(), pb.ListDatabasesResponse)
        with quotas_in(tmp_path / "quotas.json") as quotas:
            quotas[ANONYMOUS] = {"user_requests_max": 3}

        await server.upkeep.reload_quotas()

        assert account_of(server).quota == Quota(user_requests_max=3)


async def test_a_file_that_cannot_be_read_changes_nothing(tmp_path):
    path = tmp_path / "quotas.json"
    path.write_text('{"anonymous": {"user_requests_max": 3}}')
    async with (
        running(tmp_path / "data", quotas=QuotaFile(path)) as server,
        connected(server) as connection,
    ):
        path.write_text("{")
        await server.upkeep.reload_quotas()

        await fill(connection, await create_table(connection), batches=1)
        assert account_of(server).quota.user_requests_max == 3


@cases(
    "text",
    [
        "{",
        "[]",
        '{"ann": []}',
        '{"ann": {"x": 1}}',
        '{"ann": {"user_scans_max": -1}}',
        '{"ann": {"user_bytes_in_per_s_max": 1}}',
        '{"ann": {"user_scans_max": "many"}}',
    ],
)
async def test_a_server_does_not_start_with_a_file_that_it_does_not_understand(text, tmp_path):
    path = tmp_path / "quotas.json"
    path.write_text(text)

    with pytest.raises(InvalidOptionError, match=r"quotas\.json"):
        QuotaFile(path).load()


async def test_without_limits_nothing_is_measured(tmp_path):
    async with running(tmp_path) as server, connected(server) as connection:
        await create_table(connection)

        assert server._services.quotas is None
