"""Flink SQL writes, reads, joins and follows tables of our server."""

import pytest
from scripts.foreign import ForeignError

from tests.interop.java.test_types import TABLES, keyed
from tests.torture.processes import wait_until

pytestmark = pytest.mark.timeout(300)  # a cluster starts for each job
COLUMNS = {"id": "INT NOT NULL", "name": "STRING", "amount": "BIGINT"}
ROWS = [[1, "tea", 10], [2, "cup", 20], [3, "pot", 30]]
VALUES = "VALUES (1, 'tea', 10), (2, 'cup', 20), (3, 'pot', 30)"
COPIED_WITHIN_S = 200
# Flink's planner knows times of whole seconds only, and the connector refuses tables with others.
NOT_IN_FLINK = {"time_ms"}


def as_dicts(rows) -> list[dict[str, object]]:
    return [dict(zip(COLUMNS, row, strict=True)) for row in rows]


@pytest.fixture
def log(hw, name) -> str:
    hw.create_table(name, COLUMNS).append(as_dicts(ROWS))
    return name


@pytest.fixture
def table(hw, name) -> str:
    hw.create_table(name, COLUMNS, primary_key="id").upsert(as_dicts(ROWS))
    return name


def rows_of(flink, text: str, **options) -> list[list[object]]:
    return flink.ask("rows", text=text, **options)["rows"]


def inserts(rows) -> list[list[object]]:
    return [["+I", *row] for row in rows]


def known_to_flink(columns, rows):
    kept = [at for at, name in enumerate(columns) if name not in NOT_IN_FLINK]
    names = list(columns)
    return {names[at]: columns[names[at]] for at in kept}, [
        [row[at] for at in kept] for row in rows
    ]


@pytest.mark.parametrize("key", ["", ", PRIMARY KEY (id) NOT ENFORCED"], ids=["log", "keyed"])
def test_what_flink_inserts_is_read_by_us(flink, hw, name, key):
    columns = ", ".join(f"{column} {kind}" for column, kind in COLUMNS.items())
    flink.ask("run", text=f"CREATE TABLE {name} ({columns}{key}) WITH ('bucket.num' = '2')")

    flink.ask("run", text=f"INSERT INTO {name} {VALUES}")

    found = sorted(hw.table(name).scan().to_pylist(), key=lambda row: row["id"])
    assert found == as_dicts(ROWS)


def test_a_log_is_followed_from_its_beginning(flink, log):
    assert rows_of(flink, f"SELECT * FROM {log}", count=3) == inserts(ROWS)


def test_columns_and_rows_are_chosen(flink, log):
    found = rows_of(flink, f"SELECT amount, id FROM {log} WHERE amount > 10", count=2)

    assert found == inserts([[20, 2], [30, 3]])


def test_a_log_is_followed_from_a_time_on(flink, hw, log):
    at = hw.table(log).scan(columns=["id"]).to_arrow()
    assert at.num_rows == 3
    hint = "OPTIONS('scan.startup.mode' = 'timestamp', 'scan.startup.timestamp' = '1000')"

    assert rows_of(flink, f"SELECT id FROM {log} /*+ {hint} */", count=3) == inserts(
        [[1], [2], [3]]
    )


@pytest.mark.parametrize("kind", ["log", "table"])
def test_some_rows_are_read_in_a_batch_and_all_are_counted(flink, request, kind):
    name = request.getfixturevalue(kind)

    some = rows_of(flink, f"SELECT id FROM {name} LIMIT 2", mode="batch")

    assert len(some) == 2
    assert rows_of(flink, f"SELECT COUNT(*) FROM {name}", mode="batch") == [["+I", 3]]


def test_a_row_is_found_by_its_key_in_a_batch(flink, table):
    assert rows_of(flink, f"SELECT * FROM {table} WHERE id = 2", mode="batch") == inserts(ROWS[1:2])


def test_rows_by_key_are_read_and_then_followed(flink, hw, table):
    hw.table(table).upsert([{"id": 1, "name": "tea", "amount": 11}])
    hw.table(table).delete([{"id": 3}])

    found = rows_of(flink, f"SELECT * FROM {table}", count=6)

    assert found == [
        *inserts(ROWS),
        ["-U", 1, "tea", 10],
        ["+U", 1, "tea", 11],
        ["-D", 3, "pot", 30],
    ]


def test_some_columns_are_inserted_and_the_others_stay(flink, hw, table):
    flink.ask("run", text=f"INSERT INTO {table} (id, amount) VALUES (2, 99)")

    assert hw.table(table).get(2) == {"id": 2, "name": "cup", "amount": 99}


def test_rows_are_updated_and_deleted_by_key(flink, hw, table):
    flink.ask("run", text=f"UPDATE {table} SET amount = 21 WHERE id = 2", mode="batch")
    flink.ask("run", text=f"DELETE FROM {table} WHERE id = 1", mode="batch")

    assert hw.table(table).get(2)["amount"] == 21
    assert hw.table(table).get(1) is None


def test_changes_are_read_as_rows(flink, hw, table):
    hw.table(table).upsert([{"id": 1, "name": "tea", "amount": 11}])
    path = table.replace("fluss.", "fluss.`") + "$"

    changes = rows_of(flink, f"SELECT _change_type, id, amount FROM {path}changelog`", count=5)
    images = rows_of(
        flink, f"SELECT _change_type, `before`.amount, `after`.amount FROM {path}binlog`", count=4
    )

    assert [row[1:] for row in changes[3:]] == [["update_before", 1, 10], ["update_after", 1, 11]]
    assert images[3][1:] == ["update", 10, 11]


def test_a_stream_is_joined_with_rows_by_key(flink, hw, table):
    orders = f"{table}_orders"
    hw.create_table(orders, {"item": "INT", "at": "STRING"}).append(
        [{"item": 3, "at": "noon"}, {"item": 9, "at": "night"}]
    )
    stream = f"(SELECT *, PROCTIME() AS seen FROM {orders}) AS o"

    found = rows_of(
        flink,
        f"SELECT o.`at`, t.name FROM {stream} LEFT JOIN {table} FOR SYSTEM_TIME AS OF o.seen AS t"
        " ON o.item = t.id",
        count=2,
    )

    assert sorted(found, key=str) == inserts([["night", None], ["noon", "pot"]])


def test_a_stream_is_joined_with_all_rows_whose_keys_begin_so(flink, hw, name):
    columns = {"shop": "STRING NOT NULL", "id": "INT NOT NULL", "item": "STRING"}
    stock = hw.create_table(name, columns, primary_key=["shop", "id"], bucket_by="shop", buckets=2)
    stock.upsert([{"shop": "a", "id": at, "item": f"item {at}"} for at in (1, 2)])
    hw.create_table(f"{name}_visits", {"shop": "STRING"}).append([{"shop": "a"}])
    stream = f"(SELECT *, PROCTIME() AS seen FROM {name}_visits) AS v"

    found = rows_of(
        flink,
        f"SELECT v.shop, s.id, s.item FROM {stream} JOIN {name} FOR SYSTEM_TIME AS OF v.seen AS s"
        " ON v.shop = s.shop",
        count=2,
    )

    assert sorted(found) == inserts([["a", 1, "item 1"], ["a", 2, "item 2"]])


def test_partitions_are_made_and_read(flink, hw, name):
    key = "PRIMARY KEY (id, name) NOT ENFORCED"
    columns = "id INT NOT NULL, name STRING NOT NULL, amount BIGINT"
    flink.ask("run", text=f"CREATE TABLE {name} ({columns}, {key}) PARTITIONED BY (name)")
    flink.ask("run", text=f"INSERT INTO {name} {VALUES}")

    assert len(hw.table(name).partitions()) == 3
    assert sorted(rows_of(flink, f"SELECT * FROM {name}", count=3)) == inserts(ROWS)
    chosen = rows_of(flink, f"SELECT id FROM {name} WHERE name = 'cup'", count=1)
    assert chosen == inserts([[2]])


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("has_key", [False, True], ids=["log", "keyed"])
def test_values_of_every_type_survive_the_way_through_flink(flink, java, hw, name, kind, has_key):
    columns, rows = keyed(*known_to_flink(*TABLES[kind]))
    key = ["id"] if has_key else []
    java.ask("create_table", table=name, columns=columns, key=key)
    java.ask("upsert" if has_key else "append", table=name, rows=rows)
    copy = hw.create_table(f"{name}_copy", columns, primary_key=key)
    copying = f"INSERT INTO {name}_copy SELECT * FROM {name}"

    flink.ask("start", text=copying)
    wait_until(lambda: copy.count() == len(rows), within_s=COPIED_WITHIN_S)
    flink.ask("cancel", text=copying)

    source = hw.table(name).scan().to_arrow().sort_by("id")
    assert copy.scan().to_arrow().sort_by("id").equals(source)


def test_a_table_without_a_lake_is_not_read_whole_in_a_batch(flink, log):
    # The connector itself refuses that, whatever the server can do.
    with pytest.raises(ForeignError, match="only support queries on table with datalake enabled"):
        rows_of(flink, f"SELECT * FROM {log}", mode="batch")
