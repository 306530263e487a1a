"""The Java client makes, changes, lists and drops databases, tables and partitions."""

import pytest
from scripts.foreign import ForeignError

COLUMNS = {"id": "INT NOT NULL", "name": "STRING", "day": "STRING NOT NULL"}


def test_databases_come_and_go(java, hw):
    made = java.ask("create_database", name="shop", comment="from Java")

    assert made == {"name": "shop", "comment": "from Java"}
    assert java.ask("databases")["names"] == hw.list_databases()
    java.ask("drop_database", name="shop", cascade=False)
    assert "shop" not in hw.list_databases()


def test_a_database_with_tables_is_dropped_only_with_them(java):
    java.ask("create_database", name="full", comment="")
    java.ask("create_table", table="full.held", columns=COLUMNS)

    with pytest.raises(ForeignError, match="DatabaseNotEmptyException"):
        java.ask("drop_database", name="full", cascade=False)

    java.ask("drop_database", name="full", cascade=True)
    assert "full" not in java.ask("databases")["names"]


@pytest.mark.parametrize(
    "traits",
    [
        {},
        {"buckets": 3},
        {"buckets": 2, "bucket_key": ["id"]},
        {"partitioned_by": ["day"]},
        {"key": ["id"]},
        {"key": ["id", "day"], "partitioned_by": ["day"], "buckets": 2},
        {"options": {"table.log.ttl": "1 d", "table.log.arrow.compression.type": "NONE"}},
    ],
    ids=str,
)
def test_a_table_is_as_it_was_asked_for(java, hw, name, traits):
    java.ask("create_table", table=name, columns=COLUMNS, **traits)

    found = java.ask("table", table=name)
    assert found["columns"] == COLUMNS
    assert found["key"] == traits.get("key", [])
    assert found["partition_keys"] == traits.get("partitioned_by", [])
    assert found["buckets"] == traits.get("buckets", 1)
    assert found["options"].items() >= traits.get("options", {}).items()
    assert hw.table(name).info.descriptor.bucket_count == traits.get("buckets", 1)


def test_tables_are_listed_and_dropped(java, hw, name):
    java.ask("create_table", table=name, columns=COLUMNS)

    assert java.ask("tables", database="fluss")["names"] == hw.list_tables()
    assert java.ask("table_exists", table=name)["exists"]
    java.ask("drop_table", table=name)
    assert not java.ask("table_exists", table=name)["exists"]
    assert not hw.table_exists(name)


def test_what_is_not_there_or_there_already_is_said(java, name):
    with pytest.raises(ForeignError, match="TableNotExistException"):
        java.ask("table", table=name)
    with pytest.raises(ForeignError, match="DatabaseNotExistException"):
        java.ask("create_table", table="nowhere.at_all", columns=COLUMNS)
    java.ask("create_table", table=name, columns=COLUMNS)
    with pytest.raises(ForeignError, match="TableAlreadyExistException"):
        java.ask("create_table", table=name, columns=COLUMNS)


def test_partitions_come_and_go(java, hw, name):
    java.ask("create_table", table=name, columns=COLUMNS, partitioned_by=["day"])

    for day in ("2026-01-01", "2026-01-02"):
        java.ask("create_partition", table=name, values={"day": day})

    assert sorted(java.ask("partitions", table=name)["ids"]) == ["2026-01-01", "2026-01-02"]
    java.ask("drop_partition", table=name, values={"day": "2026-01-01"})
    assert hw.table(name).partitions() == [{"day": "2026-01-02"}]


def test_options_change(java, hw, name):
    java.ask("create_table", table=name, columns=COLUMNS)

    java.ask("set_option", table=name, name="table.log.ttl", value="3 d")

    assert java.ask("table", table=name)["options"]["table.log.ttl"] == "3 d"
    assert hw.table(name).info.descriptor.properties["table.log.ttl"] == "3 d"


@pytest.mark.parametrize("key", [[], ["id"]], ids=["log", "keyed"])
def test_a_column_is_added_and_older_rows_have_none(java, hw, name, key):
    write = "upsert" if key else "append"
    java.ask("create_table", table=name, columns=COLUMNS, key=key)
    java.ask(write, table=name, rows=[[1, "tea", "mo"]])

    java.ask("add_column", table=name, name="price", kind="BIGINT")
    java.ask(write, table=name, rows=[[2, "cup", "tu", 5]])

    records = java.ask("scan", table=name, count=2)["records"]
    assert [record[-1] for record in records] == [[1, "tea", "mo", None], [2, "cup", "tu", 5]]
    assert sorted(row["price"] or 0 for row in hw.table(name).scan().to_pylist()) == [0, 5]
