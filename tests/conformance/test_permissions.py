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
    Users({}).with_user("root", "r").with_user("ada", "a").with_user("eve", "e").with_user(
        "max", "m"
    ).save(users)
    flags = ("--users", str(users), "--authorizer", "--super-users", "User:root")
    with serving(root / "data", *flags) as running:
        with headwater.connect(running.address, user="root", password="r") as hw:
            hw.create_table("fluss.orders", {"id": "INT"}).append([{"id": 1}, {"id": 2}])
            stock = hw.create_table("fluss.stock", {"id": "INT", "n": "INT"}, primary_key="id")
            stock.upsert([{"id": 1, "n": 10}])
            for table in ("fluss.orders", "fluss.stock"):
                hw.acls.grant("User:ada", ["READ", "WRITE"], table)
            hw.acls.grant("User:eve", "DESCRIBE", "fluss.stock")
            hw.acls.grant("User:max", "DESCRIBE", "fluss")
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
    assert await connection.get_admin().list_tables("fluss") == ["orders", "stock"]


async def test_a_user_without_permissions_sees_and_changes_nothing(guarded):
    admin = (await connect(guarded, "eve")).get_admin()
    path = fluss.TablePath("fluss", "orders")

    assert await admin.list_tables("fluss") == ["stock"]
    assert not await admin.table_exists(path)
    for refused in (
        lambda: admin.get_table_info(path),
        lambda: admin.drop_table(path, False),
        lambda: admin.create_database("mine"),
    ):
        with pytest.raises(fluss.FlussError) as error:
            await refused()
        assert error.value.error_code == DENIED


async def open_table(server, user, table):
    connection = await connect(server, user)
    return await connection.get_table(fluss.TablePath("fluss", table))


async def test_a_user_writes_and_looks_up_what_was_granted(guarded):
    orders = await open_table(guarded, "ada", "orders")
    stock = await open_table(guarded, "ada", "stock")

    await orders.new_append().create_writer().append({"id": 3}).wait()
    await stock.new_upsert().create_writer().upsert({"id": 2, "n": 20}).wait()

    found = await stock.new_lookup().create_lookuper().lookup({"id": 2})
    assert found == {"id": 2, "n": 20}


async def test_a_user_who_may_only_see_tables_neither_writes_nor_reads_them(guarded):
    orders = await open_table(guarded, "max", "orders")
    stock = await open_table(guarded, "max", "stock")
    scanner = await orders.new_scan().create_record_batch_log_scanner()
    scanner.subscribe(bucket_id=0, start_offset=0)

    for refused, operation in (
        (lambda: orders.new_append().create_writer().append({"id": 9}).wait(), "WRITE"),
        (lambda: stock.new_upsert().create_writer().upsert({"id": 9, "n": 90}).wait(), "WRITE"),
        (lambda: stock.new_lookup().create_lookuper().lookup({"id": 1}), "READ"),
    ):
        with pytest.raises(fluss.FlussError, match=f"User:max may not {operation}"):
            await refused()

    # Its scanner keeps the refusal to itself.
    assert (await scanner.poll_arrow(timeout_ms=1_000)).num_rows == 0
    with headwater.connect(guarded.address, user="root", password="r") as hw:
        assert 9 not in [row["id"] for row in hw.table("fluss.orders").scan().to_pylist()]
        assert hw.table("fluss.stock").get(9) is None


async def rows_seen(connection, name, columns=None, *, polls=20):
    table = await connection.get_table(fluss.TablePath("fluss", name))
    scan = table.new_scan() if columns is None else table.new_scan().project_by_name(columns)
    scanner = await scan.create_record_batch_log_scanner()
    scanner.subscribe(bucket_id=0, start_offset=0)
    found = []
    for _ in range(polls):
        found += (await scanner.poll_arrow(timeout_ms=500)).to_pylist()
        if found and found[-1]["id"] == LAST:
            break
    return found


LAST = 99


async def test_a_user_with_a_rule_sees_its_rows_and_is_refused_other_columns(guarded):
    with headwater.connect(guarded.address, user="root", password="r") as hw:
        table = hw.create_table("fluss.cards", {"id": "INT", "region": "STRING", "card": "STRING"})
        table.append([{"id": n, "region": ("EU", "US")[n % 2], "card": f"c{n}"} for n in range(9)])
        table.append([{"id": 1, "region": "US", "card": "c"} for _ in range(5)])
        table.append([{"id": LAST, "region": "EU", "card": "c"}])
        eu = ("region", "=", "EU")
        hw.acls.grant("User:ada", "READ", "fluss.cards", columns=["id", "region"], where=eu)
    connection = await connect(guarded, "ada")

    found = await rows_seen(connection, "cards", ["id"])
    # This client asks again where a bucket is refused, and tells nobody.
    refused = await rows_seen(connection, "cards", polls=4)

    assert [row["id"] for row in found] == [0, 2, 4, 6, 8, LAST]
    assert refused == []
