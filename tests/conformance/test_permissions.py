"""Permissions as the official client meets them: what is granted works, the rest is refused."""

import fluss
import pytest

import headwater
from headwater.server.logins import Users
from tests.conformance.test_security import config_for
from tests.serving import serving

DENIED = fluss.ErrorCode.AUTHORIZATION_EXCEPTION


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    root = tmp_path_factory.mktemp("permissions")
    users = root / "users"
    Users({}).with_user("root", "r").with_user("ada", "a").with_user("eve", "e").save(users)
    flags = ("--users", str(users), "--authorizer", "--super-users", "User:root")
    with serving(root / "data", *flags) as running:
        with headwater.connect(running.address, user="root", password="r") as hw:
            hw.create_table("fluss.orders", {"id": "INT"}).append([{"id": 1}, {"id": 2}])
            hw.acls.grant("User:ada", ["READ", "WRITE"], "fluss.orders")
        yield running


async def connect(server, user):
    return await fluss.FlussConnection.create(config_for(server, user, user[0]))


async def test_a_user_reads_and_lists_what_was_granted(guarded):
    connection = await connect(guarded, "ada")
    path = fluss.TablePath("fluss", "orders")

    scanner = await (await connection.get_table(path)).new_scan().create_record_batch_log_scanner()
    scanner.subscribe(bucket_id=0, start_offset=0)
    rows = await scanner.poll_arrow(timeout_ms=10_000)

    assert sorted(rows.column("id").to_pylist()) == [1, 2]
    assert await connection.get_admin().list_tables("fluss") == ["orders"]


async def test_a_user_without_permissions_sees_and_changes_nothing(guarded):
    admin = (await connect(guarded, "eve")).get_admin()
    path = fluss.TablePath("fluss", "orders")

    assert await admin.list_tables("fluss") == []
    assert not await admin.table_exists(path)
    for refused in (
        lambda: admin.get_table_info(path),
        lambda: admin.drop_table(path, False),
        lambda: admin.create_database("mine"),
    ):
        with pytest.raises(fluss.FlussError) as error:
            await refused()
        assert error.value.error_code == DENIED
