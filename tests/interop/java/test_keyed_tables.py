"""The Java client writes rows by key, looks them up and follows their changes."""

import pytest
from scripts.foreign import ForeignError

COLUMNS = {"id": "INT NOT NULL", "name": "STRING", "amount": "BIGINT"}


@pytest.fixture
def table(java, name) -> str:
    java.ask("create_table", table=name, columns=COLUMNS, key=["id"])
    java.ask("upsert", table=name, rows=[[1, "tea", 10], [2, "cup", 20], [3, "pot", 30]])
    return name


def found(java, table, *keys):
    return java.ask("lookup", table=table, keys=[[key] for key in keys])["rows"]


def test_rows_are_looked_up_by_key(java, table):
    assert found(java, table, 1, 9, 3) == [[[1, "tea", 10]], [], [[3, "pot", 30]]]


def test_a_later_row_takes_the_place_of_an_earlier(java, table):
    java.ask("upsert", table=table, rows=[[2, "mug", None]])

    assert found(java, table, 2) == [[[2, "mug", None]]]


def test_a_partial_update_leaves_the_other_columns(java, table):
    java.ask("upsert", table=table, rows=[[2, None, 21], [4, None, 40]], columns=["id", "amount"])

    assert found(java, table, 2, 4) == [[[2, "cup", 21]], [[4, None, 40]]]


def test_a_deleted_row_is_gone(java, hw, table):
    java.ask("delete", table=table, rows=[[1, None, None]])

    assert found(java, table, 1, 2) == [[], [[2, "cup", 20]]]
    assert hw.table(table).get(1) is None


def test_changes_are_read_with_what_was_before(java, table):
    java.ask("upsert", table=table, rows=[[1, "tea", 11]])
    java.ask("delete", table=table, rows=[[2, None, None]])

    records = java.ask("scan", table=table, count=6)["records"]

    assert [(offset, change, row) for _, _, offset, change, row in records] == [
        (0, "+I", [1, "tea", 10]),
        (1, "+I", [2, "cup", 20]),
        (2, "+I", [3, "pot", 30]),
        (3, "-U", [1, "tea", 10]),
        (4, "+U", [1, "tea", 11]),
        (5, "-D", [2, "cup", 20]),
    ]


def test_some_rows_are_read_without_a_scan(java, table):
    rows = java.ask("limit", table=table, limit=2)["rows"]

    assert len(rows) == 2
    assert {row[0] for row in rows} < {1, 2, 3}
    assert sorted(java.ask("limit", table=table, limit=9, columns=["name"])["rows"]) == [
        ["cup"],
        ["pot"],
        ["tea"],
    ]


def test_rows_are_counted(java, table):
    assert java.ask("row_count", table=table)["rows"] == 3


def test_rows_are_found_by_the_beginning_of_their_key(java, hw, name):
    columns = {"shop": "STRING NOT NULL", "id": "INT NOT NULL", "item": "STRING"}
    traits = {"key": ["shop", "id"], "bucket_key": ["shop"], "buckets": 3}
    java.ask("create_table", table=name, columns=columns, **traits)
    java.ask("upsert", table=name, rows=[["a", 1, "tea"], ["a", 2, "cup"], ["b", 1, "pot"]])

    rows = java.ask("lookup", table=name, keys=[["a"], ["c"]], columns=["shop"])["rows"]

    assert [sorted(each) for each in rows] == [[["a", 1, "tea"], ["a", 2, "cup"]], []]
    assert hw.table(name).prefix_lookup({"shop": ["b"]}).to_pylist() == [
        {"shop": "b", "id": 1, "item": "pot"}
    ]


def test_rows_are_looked_up_in_their_partitions(java, name):
    columns = {"id": "INT NOT NULL", "day": "STRING NOT NULL", "item": "STRING"}
    traits = {"key": ["id", "day"], "partitioned_by": ["day"], "buckets": 2}
    java.ask("create_table", table=name, columns=columns, **traits)
    java.ask("upsert", table=name, rows=[[1, "mo", "tea"], [1, "tu", "cup"]])

    rows = java.ask("lookup", table=name, keys=[[1, "tu"], [1, "mo"], [1, "we"]])["rows"]

    assert rows == [[[1, "tu", "cup"]], [[1, "mo", "tea"]], []]


def test_rows_are_found_wherever_the_other_put_them(java, hw, name):
    keys = [*range(-300, 300, 7), 2**31 - 1, -(2**31)]
    java.ask("create_table", table=name, columns=COLUMNS, key=["id"], buckets=4)
    java.ask("upsert", table=name, rows=[[key, "theirs", key] for key in keys[::2]])
    hw.table(name).upsert([{"id": key, "name": "ours", "amount": key} for key in keys[1::2]])

    theirs = found(java, name, *keys)
    ours = [hw.table(name).get(key) for key in keys]

    assert [row[0][0] for row in theirs] == keys
    assert [row["id"] for row in ours] == keys


@pytest.mark.parametrize(
    ("engine", "kept"),
    [
        ({"table.merge-engine": "first_row"}, [1, "tea", 10]),
        (
            {
                "table.merge-engine": "versioned",
                "table.merge-engine.versioned.ver-column": "amount",
            },
            [1, "pot", 30],
        ),
    ],
    ids=["first_row", "versioned"],
)
def test_merge_engines_decide_what_stays(java, name, engine, kept):
    java.ask("create_table", table=name, columns=COLUMNS, key=["id"], options=engine)

    for row in ([1, "tea", 10], [1, "pot", 30], [1, "cup", 20]):
        java.ask("upsert", table=name, rows=[row])

    assert found(java, name, 1) == [[kept]]


def test_a_delete_that_is_not_allowed_is_refused(java, name):
    options = {"table.delete.behavior": "disable"}
    java.ask("create_table", table=name, columns=COLUMNS, key=["id"], options=options)
    java.ask("upsert", table=name, rows=[[1, "tea", 10]])

    with pytest.raises(ForeignError, match="DeletionDisabledException"):
        java.ask("delete", table=name, rows=[[1, None, None]])
