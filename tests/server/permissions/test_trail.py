"""The audit trail: what is recorded, who can read it, and what happens if it cannot be written."""

import json
import stat

import pyarrow as pa
import pytest

from headwater.cluster.links import TcpConnection
from headwater.errors import (
    AccessError,
    InvalidOptionError,
    InvalidTableError,
    RetryLaterError,
    TableMissingError,
)
from headwater.model.arrow import arrow_schema
from headwater.model.table import descriptor_from_json
from headwater.rows.log_batch import iterate, read_sections
from headwater.server.logins import Users
from headwater.server.permissions import trail as trail_module
from headwater.server.permissions.needs import AUDIT_LOG
from headwater.server.permissions.trail import trail_descriptor
from headwater.wire import fluss_pb2 as pb
from tests.cases import cases
from tests.flows.appending import batch_of, produce, table_json
from tests.server.permissions.asking import (
    INSIDER,
    acl,
    ask,
    grant,
    guarded,
    make_table,
    message_of,
    session_of,
)
from tests.server.support import HOST, fetch_request, running

ORDERS = pb.TablePath(database_name="shop", table_name="orders")
TRAIL = pb.TablePath(database_name="headwater", table_name="audit_log")
INFO = pb.GetTableInfoRequest(table_path=TRAIL)
DROP = pb.DropTableRequest(table_path=ORDERS, ignore_if_not_exists=True)
DROP_TRAIL = pb.DropTableRequest(table_path=TRAIL, ignore_if_not_exists=False)
ROWS = batch_of([(1, 1)])


async def recorded(server) -> list[dict]:
    """Return the rows of the table, as the storage itself reads them."""
    await server._services.trail.write()
    try:
        table_id = (await ask(server, INFO, INSIDER)).table_id
    except TableMissingError:
        return []
    answer = await ask(server, fetch_request(table_id), INSIDER)
    data, rows = answer.tables_resp[0].buckets_resp[0].records, []
    schema = arrow_schema(trail_descriptor("30 d").schema)
    for header, position in iterate(data):
        batch = memoryview(data)[position : position + header.size]
        message = pa.py_buffer(batch[read_sections(batch, header).changes_end :])
        rows += pa.ipc.read_record_batch(message, schema).to_pylist()
    return rows


def told(row: dict) -> tuple:
    return row["principal"], row["call"], row["resource"], row["allowed"]


async def test_changes_and_refusals_are_recorded_with_who_what_and_where(tmp_path):
    async with guarded(tmp_path / "data") as server:
        await make_table(server, "shop.orders")
        with pytest.raises(AccessError):
            await ask(server, DROP, session_of("eve", host="10.0.0.9"))
        grants = pb.CreateAclsRequest(acl=[message_of(acl("User:ada", "READ", "shop.orders"))])
        await ask(server, grants, session_of("root"))
        await ask(server, DROP, session_of("root"))

        rows = await recorded(server)

    assert [told(row) for row in rows] == [
        ("eve", "DROP_TABLE", "table:shop.orders", False),
        ("root", "CREATE_ACLS", "User:ada 3 shop.orders *", True),
        ("root", "DROP_TABLE", "table:shop.orders", True),
    ]
    assert (rows[0]["address"], "may not DROP" in rows[0]["detail"]) == ("10.0.0.9", True)


async def test_reads_and_writes_are_recorded_by_option(tmp_path):
    async with guarded(tmp_path / "data", trail_kinds="read,write") as server:
        table_id = await make_table(server, "shop.orders")
        root = session_of("root")
        await ask(server, produce(table_id, 0, ROWS, acks=1), root)
        await ask(server, fetch_request(table_id), root)
        await ask(server, DROP, root)

        rows = await recorded(server)

    assert [row["call"] for row in rows] == ["PRODUCE_LOG", "FETCH_LOG"]


async def test_logins_are_recorded_whether_they_succeed_or_not(tmp_path):
    users = Users({}).with_user("ann", "secret")
    async with running(tmp_path / "data", users=users) as server:
        for password in ("wrong", "secret"):
            try:
                login = ("ann", password)
                await (await TcpConnection.open(HOST, server.port, credentials=login)).close()
            except AccessError:
                pass

        rows = await recorded(server)

    assert [(row["principal"], row["call"], row["allowed"]) for row in rows] == [
        ("", "AUTHENTICATE", False),
        ("ann", "AUTHENTICATE", True),
    ]


async def test_records_are_written_as_json_lines_that_only_their_owner_reads(tmp_path):
    file = tmp_path / "trail.jsonl"
    async with guarded(tmp_path / "data", trail_file=str(file)) as server:
        await ask(server, DROP, session_of("root"))

    (line,) = file.read_text().splitlines()
    assert json.loads(line)["call"] == "DROP_TABLE"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


async def test_a_trail_that_cannot_be_written_delays_nobody_and_is_written_later(tmp_path):
    folder = tmp_path / "gone"
    async with guarded(tmp_path / "data", trail_file=str(folder / "trail.jsonl")) as server:
        await ask(server, DROP, session_of("root"))
        with pytest.raises(FileNotFoundError):
            await server._services.trail.write()
        folder.mkdir()
        await server._services.trail.write()

    assert len((folder / "trail.jsonl").read_text().splitlines()) == 1


async def test_a_required_trail_refuses_what_it_cannot_record(tmp_path):
    settings = {"trail_required": True, "trail_file": str(tmp_path / "gone" / "trail.jsonl")}
    async with guarded(tmp_path / "data", **settings) as server:
        await make_table(server, "shop.orders")

        with pytest.raises(RetryLaterError, match="audit trail is required"):
            await ask(server, DROP, session_of("root"))

        exists = pb.TableExistsRequest(table_path=ORDERS)
        assert (await ask(server, exists, INSIDER)).exists
        (tmp_path / "gone").mkdir()


async def test_a_required_trail_is_durable_before_the_answer(tmp_path):
    file = tmp_path / "trail.jsonl"
    settings = {"trail_required": True, "trail_file": str(file)}
    async with guarded(tmp_path / "data", **settings) as server:
        await ask(server, DROP, session_of("root"))

        assert len(file.read_text().splitlines()) == 1


async def test_the_buffer_keeps_the_newest_records(tmp_path, monkeypatch):
    monkeypatch.setattr(trail_module, "RECORDS_MAX", 3)
    async with guarded(tmp_path / "data") as server:
        for name in "abcde":
            path = pb.TablePath(database_name="shop", table_name=name)
            request = pb.DropTableRequest(table_path=path, ignore_if_not_exists=True)
            await ask(server, request, session_of("root"))

        rows = await recorded(server)

    assert [row["resource"][-1] for row in rows] == ["c", "d", "e"]


async def test_nobody_writes_the_trail_and_only_super_users_drop_it(tmp_path):
    async with guarded(tmp_path / "data") as server:
        await grant(server, acl("User:kim", "ALL", "cluster"))
        await ask(server, DROP, session_of("root"))
        await recorded(server)
        table_id = (await ask(server, INFO, INSIDER)).table_id

        for user, request in (
            ("kim", produce(table_id, 0, ROWS)),
            ("root", produce(table_id, 0, ROWS)),
            ("kim", DROP_TRAIL),
        ):
            with pytest.raises(AccessError):
                await ask(server, request, session_of(user))
        await ask(server, DROP_TRAIL, session_of("root"))

        assert "DROP_TABLE" in [row["call"] for row in await recorded(server)]


ALTER = pb.AlterTableRequest(
    table_path=TRAIL,
    ignore_if_not_exists=False,
    config_changes=[pb.AlterConfig(config_key="table.log.ttl", config_value="1 ms", op_type=0)],
)


async def test_without_an_authorizer_nobody_changes_the_trail_either(tmp_path):
    everything = pb.DropDatabaseRequest(
        database_name="headwater", cascade=True, ignore_if_not_exists=False
    )
    async with guarded(tmp_path / "data", authorizer_enabled=False, super_users="") as server:
        await make_table(server, "shop.orders")
        await ask(server, DROP, session_of("ann"))
        before = await recorded(server)
        table_id = (await ask(server, INFO, INSIDER)).table_id
        written = await ask(server, produce(table_id, 0, ROWS), session_of("ann"))

        for request in (DROP_TRAIL, ALTER, everything):
            with pytest.raises(AccessError, match="cannot be changed or dropped"):
                await ask(server, request, session_of("ann"))
        after = await recorded(server)

    assert written.buckets_resp[0].error_code == AccessError.code
    assert "Only the server writes" in written.buckets_resp[0].error_message
    assert [told(row) for row in after[: len(before)]] == [told(row) for row in before]
    assert {row["allowed"] for row in after[len(before) :]} == {False}


@cases("acks", [-1, 0, 1])
async def test_who_opens_the_directory_itself_reads_and_drops_the_trail_but_never_writes(
    acks, tmp_path_factory
):
    async with guarded(tmp_path_factory.mktemp("server") / "data") as server:
        await ask(server, DROP, session_of("root"))
        assert len(await recorded(server)) == 1
        table_id = (await ask(server, INFO, INSIDER)).table_id

        written = await ask(server, produce(table_id, 0, ROWS, acks=acks), INSIDER)
        rows = await recorded(server)
        await ask(server, DROP_TRAIL, INSIDER)

    assert (written.buckets_resp[0].error_code, len(rows)) == (AccessError.code, 1)


@cases("user", [INSIDER, session_of("root"), session_of("kim")])
async def test_nobody_makes_a_table_in_place_of_the_trail(user, tmp_path_factory):
    async with guarded(tmp_path_factory.mktemp("server") / "data", trail_kinds="acl") as server:
        await grant(server, acl("User:kim", "ALL", "cluster"))
        await make_table(server, "headwater.cursors")
        request = pb.CreateTableRequest(
            table_path=TRAIL, table_json=table_json(), ignore_if_exists=False
        )

        with pytest.raises(AccessError, match="Only the server makes"):
            await ask(server, request, user)


async def test_a_table_that_an_older_server_let_others_make_is_not_written_to(tmp_path):
    async with guarded(tmp_path / "data") as server:
        catalog = server._services.catalog
        catalog.databases.create("headwater")
        catalog.tables.create(AUDIT_LOG, descriptor_from_json(json.loads(table_json())))
        await ask(server, DROP, session_of("root"))

        with pytest.raises(InvalidTableError, match="not a table of the audit trail"):
            await server._services.trail.write()

        await ask(server, DROP_TRAIL, session_of("root"))
        assert len(await recorded(server)) == 2


async def test_a_server_without_users_records_nothing(tmp_path):
    async with running(tmp_path / "data") as server:
        assert server._services.trail is None


@cases(
    "settings",
    [{"trail_kinds": "ddl,x"}, {"trail_retention": "soon"}, {"trail_kinds": "", "trail_file": "f"}],
)
async def test_settings_that_make_no_sense_are_refused(tmp_path_factory, settings):
    with pytest.raises(InvalidOptionError):
        async with running(tmp_path_factory.mktemp("server"), **settings):
            pass
