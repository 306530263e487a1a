"""Tables read by name: the rows that are asked for, and no more than has to be read."""

import threading
from weakref import ref

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException

from headwater.engines.spark.catalog.install import catalog
from headwater.engines.spark.catalog.jvm import Jvm

CONDITIONS = (
    "i = 1",
    "i <=> NULL",
    "NOT (i <=> 1)",
    "i IN (1, 3, NULL)",
    "i BETWEEN 1 AND 2 OR s IS NULL",
    "NOT (i = 1 OR s = 'ab')",
    "s LIKE 'a%'",
    "s NOT LIKE 'a%'",
    "s > 'a' AND s <= 'b'",
    "length(s) = 2",
    "f > 1",
    "f = 0",
    "f = double('NaN')",
    "f IN (0, 2)",
    "d = 1.10",
    "b",
    "day >= DATE'1582-10-15'",
    "day = DATE'0044-03-15'",
    "ltz = TIMESTAMP'1890-01-01 00:00:00.000001Z'",
    "ltz < TIMESTAMP'2026-06-01 12:00:00+02:00'",
    "ntz > TIMESTAMP_NTZ'1700-01-01 00:00:00'",
    "t < TIME'12:00:00'",
    "bin = X'00FF'",
    "r.x = 1",
)
COLUMNS = (
    "id INT, i INT, s STRING, f DOUBLE, d DECIMAL(10, 2), b BOOLEAN, day DATE,"
    " ltz TIMESTAMP, ntz TIMESTAMP_NTZ, t TIME, bin BINARY, r STRUCT<x: INT>"
)
ROWS = (
    "(1, 1, 'a', 0.0, 1.10, true, DATE'0044-03-15', TIMESTAMP'1890-01-01 00:00:00.000001Z',"
    " TIMESTAMP_NTZ'1600-01-01 00:00:00', TIME'00:00:00', X'00FF', named_struct('x', 1)),"
    " (2, 2, 'ab', -0.0, 1.11, false, DATE'1582-10-15', TIMESTAMP'2026-06-01 10:00:00Z',"
    " TIMESTAMP_NTZ'2026-01-01 00:00:00', TIME'23:59:59.999999', X'01', named_struct('x', NULL)),"
    " (3, 3, 'b', double('NaN'), -5, NULL, DATE'2026-11-16', TIMESTAMP'2026-06-01 09:59:59Z',"
    " TIMESTAMP_NTZ'1700-01-01 00:00:00', TIME'11:59:59', X'', NULL),"
    " (4, NULL, NULL, NULL, NULL, true, NULL, NULL, NULL, NULL, NULL, NULL),"
    " (5, -1, '', 2.0, 0, false, DATE'9999-12-31', TIMESTAMP'2026-06-01 10:00:00.000001Z',"
    " TIMESTAMP_NTZ'1582-10-10 00:00:00', TIME'12:00:00', X'FF', named_struct('x', 2))"
)


@pytest.fixture(scope="module")
def wide(hw, served) -> str:
    """Return a table with a column of every kind that conditions compare."""
    name = f"hw.{served.new_name()}"
    hw.sql(f"CREATE TABLE {name} ({COLUMNS})")
    hw.sql(f"INSERT INTO {name} VALUES {ROWS}")
    return name


def plan_of(hw, statement: str) -> str:
    return str(hw.sql(f"EXPLAIN {statement}").collect()[0][0])


def test_conditions_want_the_same_rows_wherever_they_are_tested(sql, wide):
    # All in one query: each reference to the table has conditions of its own.
    counts = ", ".join(f"(SELECT count(*) FROM {wide} WHERE {each})" for each in CONDITIONS)
    local = ", ".join(f"count_if({each})" for each in CONDITIONS)

    (found,) = sql(f"SELECT {counts}")
    (expected,) = sql(f"SELECT {local} FROM (SELECT * FROM {wide} ORDER BY id LIMIT 100)")

    wrong = [
        (condition, rows, right)
        for condition, rows, right in zip(CONDITIONS, found, expected, strict=True)
        if rows != right
    ]
    assert wrong == []


def test_columns_conditions_and_limits_reach_the_table(hw, wide):
    plan = plan_of(hw, f"SELECT s FROM {wide} WHERE i = 1 AND length(s) > 0 LIMIT 3")

    assert "[s#" in plan.partition("BatchScan")[2].partition("headwater")[0]
    assert "i == 1" in plan
    assert "length(s" in plan
    assert "limit 3" in plan_of(hw, f"SELECT s FROM {wide} WHERE i = 1 LIMIT 3")


def test_what_goes_to_the_jvm_is_kept_for_a_while(hw):
    jvm, made = Jvm(hw), {1}

    gone, kept = ref(frozenset({object()})), ref(jvm.held(frozenset(made)))

    assert gone() is None
    assert kept() == made


def test_a_count_needs_no_task(hw, sql, wide):
    statement = f"SELECT count(*) FROM {wide}"

    assert sql(statement) == [(5,)]
    assert "LocalTableScan" in plan_of(hw, statement)
    assert "BatchScan" in plan_of(hw, f"SELECT count(s) FROM {wide}")


def test_rows_without_columns_are_counted_by_the_narrowest(sql, wide):
    assert sql(f"SELECT 1 FROM {wide} WHERE i > 0") == [(1,)] * 3


def test_small_tables_are_broadcast(hw, wide):
    plan = plan_of(hw, f"SELECT * FROM {wide} a JOIN {wide} b ON a.i = b.i")

    assert "BroadcastHashJoin" in plan


def test_each_reference_to_a_table_has_conditions_of_its_own(hw, sql, wide):
    whole = hw.table(wide)

    joined = sql(f"SELECT a.id, b.id FROM {wide} a, {wide} b WHERE a.i = 1 AND b.i = 2")
    counts = [whole.filter("i = 1").count(), whole.count(), whole.filter("i > 1").count()]
    both = whole.filter("i = 1").unionAll(whole.filter("i = 2")).select("id").collect()

    assert joined == [(1, 2)]
    assert counts == [1, 5, 2]
    assert sorted(row.id for row in both) == [1, 2]


def test_rows_that_come_later_are_seen_by_the_next_query(hw, sql, served):
    table = served.create({"a": "INT"}, rows=[(1,)])
    frame = hw.table(f"hw.{table.path}")
    assert frame.count() == 1

    table.append([(2,)])

    assert frame.count() == 2
    assert sorted(sql(f"SELECT * FROM hw.{table.path}")) == [(1,), (2,)]


def test_a_table_in_the_cache_is_read_from_there(hw, sql, served):
    table = served.create({"a": "INT"}, rows=[(1,)])
    cached = hw.table(f"hw.{table.path}").cache()
    assert cached.count() == 1

    plan = plan_of(hw, f"SELECT * FROM hw.{table.path} WHERE a = 1")

    assert "InMemoryRelation" in plan
    cached.unpersist()


def test_partitions_are_left_out_by_their_names(hw, sql, served):
    days = {"id": "INT", "day": "STRING"}
    rows = [(number, f"d{number % 3}") for number in range(9)]
    table = served.create(days, partition_by="day", rows=rows)

    frame = hw.sql(f"SELECT id FROM hw.{table.path} WHERE day = 'd1'")

    assert sorted(row.id for row in frame.collect()) == [1, 4, 7]
    assert frame.rdd.getNumPartitions() == 1


def test_a_row_is_not_found_by_what_it_was(sql, served):
    table = served.create({"a": "INT", "v": "STRING"}, primary_key="a", rows=[(1, "x"), (2, "x")])
    table.upsert([(1, "y")])
    table.delete([2])

    assert sql(f"SELECT a FROM hw.{table.path} WHERE v = 'x'") == []
    assert sql(f"SELECT a, v FROM hw.{table.path} WHERE v >= 'x'") == [(1, "y")]
    assert sql(f"SELECT count(*) FROM hw.{table.path}") == [(1,)]


def test_the_changes_of_a_table_are_read_by_its_suffix(sql, served):
    table = served.create({"a": "INT", "v": "STRING"}, primary_key="a", rows=[(1, "x")])
    table.upsert([(1, "y")])
    table.delete([1])

    rows = sql(
        "SELECT _change_type, _log_offset, v"
        f" FROM hw.{table.path.database}.`{table.path.table}$changelog`"
        " WHERE _log_offset > 0 ORDER BY _log_offset"
    )

    assert rows == [("update_before", 1, "x"), ("update_after", 2, "y"), ("delete", 3, "y")]


def test_options_are_said_with_the_table(hw, sql, wide):
    assert len(sql(f"SELECT * FROM {wide} WITH ('scan.limit' = '2')")) == 2
    filtered = hw.read.option("scan.filter", '[["i", "==", 2]]').table(wide)

    # What the option leaves out is gone before Spark tests anything.
    assert [row.id for row in filtered.filter("i < 3").collect()] == [2]


@pytest.mark.parametrize(
    ("how", "complaint"),
    [
        ("WITH ('scan.limt' = '2')", r"scan\.limit"),
        ("WITH ('scan.changelog' = 'true')", r"\$changelog"),
        ("WITH ('scan.columns' = 'id')", "Select the columns"),
    ],
)
def test_options_that_are_not_there_are_refused(sql, wide, how, complaint):
    with pytest.raises(IllegalArgumentException, match=complaint):
        sql(f"SELECT * FROM {wide} {how}")


def test_a_table_is_read_as_it_was(sql, served):
    table = served.create({"a": "INT"}, rows=[(1,)])

    assert sql(f"SELECT * FROM hw.{table.path} TIMESTAMP AS OF '2020-01-01'") == []
    with pytest.raises(Exception, match="has no lake"):
        sql(f"SELECT * FROM hw.{table.path} VERSION AS OF 1")


def test_many_threads_ask_at_once(hw, wide):
    found: list[int] = []

    def ask(number: int) -> None:
        found.append(hw.sql(f"SELECT id FROM {wide} WHERE id = {number}").collect()[0].id)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert sorted(found) == [1, 2, 3, 4]


def test_another_session_needs_a_catalog_of_its_own(hw, served, wide):
    other = hw.newSession()
    with pytest.raises(AnalysisException):
        other.sql(f"SELECT * FROM {wide}")

    catalog(other, "hw", bootstrap_servers=served.address)

    assert other.table(wide).count() == 5


def test_a_second_catalog_of_a_name_takes_the_place_of_the_first(hw, served, wide):
    for options in ({"scan.split.rows": "1"}, {}):
        catalog(hw, "again", bootstrap_servers=served.address, options=options)

        assert hw.table(f"again.{wide.removeprefix('hw.')}").filter("id > 2").count() == 3
