"""Flink SQL makes, shows, changes and drops what our server keeps."""

import pytest
from scripts.foreign import ForeignError

pytestmark = pytest.mark.timeout(300)  # a cluster starts for each job
COLUMNS = "id INT NOT NULL, name STRING, amount BIGINT"


def shown(flink, text: str) -> list[list[object]]:
    return [row[1:] for row in flink.ask("rows", text=text)["rows"]]


def test_databases_come_and_go(flink, hw):
    flink.ask("run", text="CREATE DATABASE flink_shop")

    assert ["flink_shop"] in shown(flink, "SHOW DATABASES")
    assert "flink_shop" in hw.list_databases()
    flink.ask("run", text="DROP DATABASE flink_shop")
    assert "flink_shop" not in hw.list_databases()


def test_a_table_is_as_it_was_asked_for(flink, hw, name):
    key = "PRIMARY KEY (id) NOT ENFORCED"
    flink.ask("run", text=f"CREATE TABLE {name} ({COLUMNS}, {key}) WITH ('bucket.num' = '3')")

    described = shown(flink, f"DESCRIBE {name}")
    assert [row[:3] for row in described] == [
        ["id", "INT", False],
        ["name", "STRING", True],
        ["amount", "BIGINT", True],
    ]
    info = hw.table(name).info
    assert info.descriptor.bucket_count == 3
    assert info.schema.primary_key == ("id",)
    assert [name.removeprefix("fluss.")] in shown(flink, "SHOW TABLES FROM fluss")
    flink.ask("run", text=f"DROP TABLE {name}")
    assert not hw.table_exists(name)


def test_a_table_without_a_key_is_shown(flink, name):
    flink.ask("run", text=f"CREATE TABLE {name} ({COLUMNS}) WITH ('table.log.ttl' = '2 d')")

    ((text,),) = shown(flink, f"SHOW CREATE TABLE {name}")

    assert "'table.log.ttl' = '2 d'" in text


def test_columns_and_options_change(flink, hw, name):
    flink.ask("run", text=f"CREATE TABLE {name} ({COLUMNS})")

    flink.ask("run", text=f"ALTER TABLE {name} ADD more STRING")
    flink.ask("run", text=f"ALTER TABLE {name} SET ('table.log.ttl' = '3 d')")

    table = hw.table(name)
    assert table.schema.names == ["id", "name", "amount", "more"]
    assert table.info.descriptor.properties["table.log.ttl"] == "3 d"


def test_partitions_come_and_go(flink, hw, name):
    flink.ask("run", text=f"CREATE TABLE {name} ({COLUMNS}) PARTITIONED BY (name)")

    flink.ask("run", text=f"ALTER TABLE {name} ADD PARTITION (name = 'mo')")

    assert shown(flink, f"SHOW PARTITIONS {name}") == [["name=mo"]]
    assert hw.table(name).partitions() == [{"name": "mo"}]
    flink.ask("run", text=f"ALTER TABLE {name} DROP PARTITION (name = 'mo')")
    assert hw.table(name).partitions() == []


def test_options_of_other_systems_are_taken_and_those_of_flink_are_kept(flink, hw, name):
    columns = "id INT, ts TIMESTAMP(3), b AS id + 1, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND"
    given = "'log.retention.hours' = '24', 'bucket.num' = '2', 'scan.startup.mode' = 'earliest'"
    flink.ask("run", text=f"CREATE TABLE {name} ({columns}) WITH ({given})")

    told = hw.table(name).info.descriptor
    assert (told.properties["table.log.ttl"], told.bucket_count) == ("24 h", 2)
    assert told.custom_properties["scan.startup.mode"] == "earliest"
    assert told.custom_properties["schema.watermark.0.rowtime"] == "ts"
    ((text,),) = shown(flink, f"SHOW CREATE TABLE {name}")
    assert "'table.log.ttl' = '24 h'" in text
    assert "WATERMARK FOR `ts`" in text
    with pytest.raises(ForeignError, match=r"Did you mean 'log.retention.hours'"):
        flink.ask("run", text=f"CREATE TABLE {name}_2 (a INT) WITH ('log.retention.hour' = '1')")
    flink.ask("run", text=f"ALTER TABLE {name} SET ('log.segment.bytes' = '1048576')")
    assert hw.table(name).info.descriptor.properties["table.log.segment.bytes"] == "1048576 b"


def test_settings_of_a_server_are_told_but_not_changed(flink):
    assert "max.bucket.num" in str(flink.ask("rows", text="CALL hw.sys.get_cluster_configs()"))
    with pytest.raises(ForeignError, match="cannot be changed"):
        flink.ask("rows", text="CALL hw.sys.set_cluster_configs('max.bucket.num', '1')")
