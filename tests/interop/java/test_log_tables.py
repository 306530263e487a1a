"""The Java client appends to logs and reads them, as our client does."""

import time

import pytest

from tests.torture.processes import wait_until

COLUMNS = {"id": "INT", "name": "STRING", "amount": "BIGINT"}
ROWS = [[at, f"row {at}", at * 2**32] for at in range(20)]


@pytest.fixture
def table(java, name) -> str:
    java.ask("create_table", table=name, columns=COLUMNS)
    return name


def rows_of(answer) -> list[list[object]]:
    return [record[-1] for record in answer["records"]]


def as_rows(found) -> list[list[object]]:
    return [list(row.values()) for row in found]


def test_rows_are_read_as_they_were_appended(java, table):
    java.ask("append", table=table, rows=ROWS)

    records = java.ask("scan", table=table, count=len(ROWS))["records"]

    assert records == [[None, 0, at, "+A", row] for at, row in enumerate(ROWS)]


def test_only_the_columns_that_are_asked_for_are_read(java, table):
    java.ask("append", table=table, rows=ROWS)

    found = java.ask("scan", table=table, count=len(ROWS), columns=["amount", "id"])

    assert rows_of(found) == [[amount, at] for at, _, amount in ROWS]


def test_a_scan_starts_where_it_is_told(java, table):
    java.ask("append", table=table, rows=ROWS[:10])
    (end,) = java.ask("offsets", table=table, at="latest")["offsets"]
    java.ask("append", table=table, rows=ROWS[10:])

    assert end == 10
    assert java.ask("offsets", table=table, at="earliest")["offsets"] == [0]
    assert rows_of(java.ask("scan", table=table, count=10, start=[end])) == ROWS[10:]
    assert rows_of(java.ask("scan", table=table, count=13, start=[7])) == ROWS[7:]


def test_an_offset_is_found_by_time(java, hw, table):
    java.ask("append", table=table, rows=ROWS[:10])
    first = java.ask("scan", table=table, count=10)["times"]
    wait_until(lambda: time.time() * 1000 > max(first) + 1, within_s=10)
    java.ask("append", table=table, rows=ROWS[10:])
    later = java.ask("scan", table=table, count=20)["times"][10:]

    assert java.ask("offsets", table=table, at=min(first))["offsets"] == [0]
    assert java.ask("offsets", table=table, at=min(later))["offsets"] == [10]


def test_the_last_rows_are_read_without_a_scan(java, table):
    java.ask("append", table=table, rows=ROWS)

    found = java.ask("limit", table=table, limit=3)["rows"]

    assert found == ROWS[-3:]
    assert java.ask("limit", table=table, limit=2, columns=["id"])["rows"] == [[18], [19]]


def test_rows_are_spread_over_buckets_by_their_key(java, hw, name):
    java.ask("create_table", table=name, columns=COLUMNS, buckets=3, bucket_key=["name"])
    java.ask("append", table=name, rows=ROWS)

    records = java.ask("scan", table=name, count=len(ROWS), buckets=3)["records"]

    ours = hw.create_table(f"{name}_ours", COLUMNS, buckets=3, bucket_by="name")
    ours.append(hw.table(name).scan().to_arrow())
    again = java.ask("scan", table=f"{name}_ours", count=len(ROWS), buckets=3)["records"]
    assert {(bucket, row[0]) for _, bucket, _, _, row in records} == {
        (bucket, row[0]) for _, bucket, _, _, row in again
    }
    assert {bucket for _, bucket, *_ in records} == {0, 1, 2}


@pytest.mark.parametrize("chosen", [0, 1, 2])
def test_rows_of_one_bucket_are_read_while_others_have_nothing_new(java, hw, name, chosen):
    ours = hw.create_table(name, COLUMNS, buckets=3, bucket_by="id")
    ours.append([dict(zip(COLUMNS, row, strict=True)) for row in ROWS])
    records = java.ask("scan", table=name, count=len(ROWS), buckets=3)["records"]
    again = next(row for _, bucket, _, _, row in records if bucket == chosen)
    ends = java.ask("offsets", table=name, at="latest", buckets=3)["offsets"]

    java.ask("append", table=name, rows=[again, again])

    found = java.ask("scan", table=name, count=2, start=ends)["records"]
    assert [(bucket, offset) for _, bucket, offset, *_ in found] == [
        (chosen, ends[chosen]),
        (chosen, ends[chosen] + 1),
    ]


def test_rows_find_their_partitions(java, hw, name):
    java.ask("create_table", table=name, columns=COLUMNS, partitioned_by=["name"])
    for day in ("mo", "tu"):
        java.ask("create_partition", table=name, values={"name": day})
    java.ask("append", table=name, rows=[[1, "mo", 1], [2, "tu", 2], [3, "mo", 3]])

    records = java.ask("scan", table=name, count=3)["records"]

    assert sorted((where, row[0]) for where, *_, row in records) == [
        ("mo", 1),
        ("mo", 3),
        ("tu", 2),
    ]
    assert java.ask("offsets", table=name, at="latest", partition="mo")["offsets"] == [2]
    assert sorted(row["id"] for row in hw.table(name).scan().to_pylist()) == [1, 2, 3]


def test_partitions_are_made_for_rows_that_need_them(java, hw, name):
    java.ask("create_table", table=name, columns=COLUMNS, partitioned_by=["name"])

    java.ask("append", table=name, rows=[[1, "we", 1]])

    assert hw.table(name).partitions() == [{"name": "we"}]


def test_ours_and_theirs_read_each_other(java, hw, table):
    java.ask("append", table=table, rows=ROWS[:10])
    hw.table(table).append([dict(zip(COLUMNS, row, strict=True)) for row in ROWS[10:]])

    assert rows_of(java.ask("scan", table=table, count=20)) == ROWS
    assert as_rows(hw.table(table).scan().to_pylist()) == ROWS


@pytest.mark.parametrize("compression", ["NONE", "LZ4_FRAME", "ZSTD"])
def test_batches_are_read_in_every_compression(java, hw, name, compression):
    options = {"table.log.arrow.compression.type": compression}
    java.ask("create_table", table=name, columns=COLUMNS, options=options)

    java.ask("append", table=name, rows=ROWS[:10])
    hw.table(name).append([dict(zip(COLUMNS, row, strict=True)) for row in ROWS[10:]])

    assert rows_of(java.ask("scan", table=name, count=20)) == ROWS
    assert as_rows(hw.table(name).scan().to_pylist()) == ROWS
