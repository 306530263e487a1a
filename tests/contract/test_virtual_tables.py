"""The changes of a table as rows: `t$changelog` and `t$binlog`."""

import pytest

from headwater import errors


@pytest.fixture
def changed(client, name):
    table = client.create_table(name, {"id": "INT", "text": "STRING"}, primary_key="id")
    table.upsert({"id": 1, "text": "a"})
    table.upsert({"id": 1, "text": "b"})
    table.delete({"id": 1})
    return table


def test_the_changelog_has_a_row_per_change(client, changed, name):
    rows = client.table(f"{name}$changelog").scan().to_pylist()

    assert [(row["_change_type"], row["text"]) for row in rows] == [
        ("insert", "a"),
        ("update_before", "a"),
        ("update_after", "b"),
        ("delete", "b"),
    ]
    assert [row["_log_offset"] for row in rows] == [0, 1, 2, 3]
    assert all(row["_commit_timestamp"].tzinfo for row in rows)


def test_the_binlog_has_a_row_per_write(client, changed, name):
    rows = client.table(f"{name}$binlog").scan().to_pylist()

    assert [(row["_change_type"], row["before"], row["after"]) for row in rows] == [
        ("insert", None, {"id": 1, "text": "a"}),
        ("update", {"id": 1, "text": "a"}, {"id": 1, "text": "b"}),
        ("delete", {"id": 1, "text": "b"}, None),
    ]


def test_virtual_tables_are_tailed(client, changed, name):
    with client.table(f"{name}$changelog").tail("earliest") as tail:
        kinds = []
        while len(kinds) < 4:
            batches = tail.poll(30.0)
            assert batches
            kinds += [kind for batch in batches for kind in batch.rows["_change_type"].to_pylist()]

    assert kinds == ["insert", "update_before", "update_after", "delete"]


def test_a_virtual_table_takes_columns_and_filters(client, changed, name):
    scan = client.table(f"{name}$changelog").scan(
        columns=["_change_type", "text"], where=[("_change_type", "==", "delete")]
    )

    assert scan.to_pylist() == [{"_change_type": "delete", "text": "b"}]


def test_a_virtual_table_cannot_be_written(client, changed, name):
    table = client.table(f"{name}$changelog")

    for operation in (table.append, table.upsert, table.delete, table.lookup):
        with pytest.raises(errors.UnsupportedError, match="changelog"):
            operation({"id": 1})


def test_an_unknown_suffix_is_told(client, changed, name):
    with pytest.raises(errors.RequestError, match="nonsense"):
        client.table(f"{name}$nonsense")


def test_a_log_table_has_no_binlog(client, orders, name):
    with pytest.raises(errors.NotPrimaryKeyTableError):
        client.table(f"{name}$binlog")
