"""What the steps of a plan say."""

import pytest

from headwater.errors import StatementError
from headwater.pipelines.sql.parse import parse
from headwater.pipelines.sql.plan import plan
from headwater.pipelines.sql.statements import CreateTable
from headwater.pipelines.sql.steps import (
    DeleteRows,
    EventTime,
    ExplainPlan,
    FirstRows,
    InsertRowsSet,
    LookupJoin,
    ReadTable,
    SqlView,
    VersionJoin,
)
from tests.cases import cases
from tests.pipelines.sql.corpus import names_for

STREAMS = names_for("streaming")
BATCHES = names_for("batch")


def planned(text, names=STREAMS):
    (statement,) = parse(text)
    return plan(statement, names)


def steps(found, kind):
    return [each for each in found.views if isinstance(each, kind)]


def test_only_the_columns_that_a_query_names_are_read():
    (read,) = steps(planned("SELECT total FROM orders WHERE customer = 1"), ReadTable)

    assert read.columns == ("customer", "price", "quantity", "ts")
    assert read.computed == (("total", "price * quantity"),)
    assert read.metadata == {}


def test_a_star_reads_all_columns():
    (read,) = steps(planned("SELECT * FROM orders", BATCHES), ReadTable)

    assert len(read.columns) == 9
    assert read.metadata == {"offset": "offset"}
    assert [name for name, _ in read.computed] == ["total", "proctime"]


def test_a_count_reads_one_column():
    (read,) = steps(planned("SELECT COUNT(*) FROM untimed", BATCHES), ReadTable)

    assert read.columns == ("id",)


def test_hints_are_laid_over_the_options_of_the_table():
    text = "SELECT k FROM made /*+ OPTIONS('rows-per-second' = '3') */"

    (read,) = steps(planned(text), ReadTable)

    assert read.options == {"connector": "datagen", "rows-per-second": "3"}
    assert read.hints == {"rows-per-second": "3"}


def test_the_watermark_of_a_table_holds_in_a_stream_and_not_in_a_batch():
    in_stream, in_batch = (
        steps(planned("SELECT ts FROM orders", names), ReadTable)[0] for names in (STREAMS, BATCHES)
    )

    assert in_stream.watermark == EventTime(column="ts", delay_ms=5000)
    assert in_batch.watermark is None


def test_after_a_lookup_the_watermark_is_applied_once_and_last():
    found = planned(
        "SELECT c.city, COUNT(*) FROM orders AS o"
        " JOIN customers FOR SYSTEM_TIME AS OF o.proctime AS c ON o.customer = c.id"
        " JOIN prices FOR SYSTEM_TIME AS OF o.proctime AS p"
        " ON p.region = c.city AND p.product = o.order_id"
        " GROUP BY c.city, TUMBLE(o.ts, INTERVAL '1' MINUTE)"
    )

    marks = [each.watermark for each in found.views if isinstance(each, ReadTable | SqlView)]
    assert [each for each in marks if each] == [EventTime(column="o__ts", delay_ms=5000)]
    assert len(steps(found, LookupJoin)) == 2
    assert found.action.mode == "append"


def test_a_time_that_nobody_needs_is_not_carried_through_a_lookup():
    found = planned(
        "SELECT o.order_id, c.name FROM orders AS o JOIN customers"
        " FOR SYSTEM_TIME AS OF o.proctime AS c ON o.customer = c.id"
    )

    assert all("ts" not in each.sql for each in steps(found, SqlView))
    assert all(each.watermark is None for each in steps(found, SqlView))


def test_a_lookup_names_its_keys_and_the_columns_that_are_needed():
    (step,) = steps(
        planned(
            "SELECT o.order_id, c.name FROM orders AS o LEFT JOIN customers"
            " FOR SYSTEM_TIME AS OF o.proctime AS c ON o.customer + 1 = c.id"
        ),
        LookupJoin,
    )

    assert step.keys == {"key__id": "id"}
    assert step.columns["name"] == "c__name"
    assert step.kind == "left"


def test_conditions_on_the_stream_are_checked_before_the_lookup():
    found = planned(
        "SELECT o.order_id, c.name FROM orders AS o JOIN customers"
        " FOR SYSTEM_TIME AS OF o.proctime AS c ON o.customer = c.id"
        " WHERE o.price > 10 AND c.city = 'Bern'"
    )

    probe = steps(found, SqlView)[0].sql
    assert "WHERE o.price > 10" in probe
    assert "`c__city` = 'Bern'" in steps(found, SqlView)[-1].sql


def test_as_of_an_event_time_the_version_at_that_time_is_joined():
    (step,) = steps(
        planned(
            "SELECT o.order_id, c.name FROM orders AS o JOIN customers"
            " FOR SYSTEM_TIME AS OF o.ts AS c ON o.customer = c.id",
            names_for("batch"),
        ),
        VersionJoin,
    )

    assert step.time == "o__ts"


def test_having_of_a_result_that_changes_deletes_what_no_longer_holds():
    found = planned(
        "INSERT INTO keyed_sink"
        " SELECT customer, COUNT(*) AS n FROM clicks GROUP BY customer HAVING COUNT(*) < 5"
    )

    assert found.action.has_changes
    sql = steps(found, SqlView)[-1].sql
    assert "CASE WHEN COUNT(*) < 5 THEN 'insert' ELSE 'delete' END AS _change_type" in sql


def test_halves_of_filtered_updates_become_deletes_and_inserts():
    text = "INSERT INTO named_sink SELECT id, name, city FROM customers"
    plain, filtered = (
        steps(planned(each), SqlView)[-1].sql for each in (text, f"{text} WHERE city <> 'Bern'")
    )

    assert "'update_before' THEN 'delete'" in filtered
    assert "update_before" not in plain
    assert plain.count("_change_type") >= 1


def test_the_limit_of_a_stream_that_is_shown_stops_it():
    found = planned("SELECT order_id FROM orders LIMIT 7")

    assert found.action.limit == 7
    assert "LIMIT" not in found.views[-1].sql


def test_the_first_row_by_processing_time_is_kept_as_it_comes():
    found = planned(
        "SELECT order_id FROM (SELECT *, ROW_NUMBER() OVER"
        " (PARTITION BY customer ORDER BY proctime ASC) AS n FROM orders) WHERE n = 1"
    )

    (step,) = steps(found, FirstRows)
    assert step.keys == ("partition__0",)
    assert found.action.mode == "append"


def test_columns_of_an_insert_are_written_by_name():
    found = planned("INSERT INTO log_sink (n, k) SELECT order_id AS a, customer AS b FROM orders")

    assert found.action.columns == ("n", "k")
    assert found.views[-1].sql.endswith("AS rows__(`n`, `k`)")


def test_some_columns_of_a_table_by_key_are_a_partial_update():
    assert planned("INSERT INTO named_sink (id, city) VALUES (1, 'Bern')").action.is_partial
    assert not planned("INSERT INTO named_sink VALUES (1, 'a', 'Bern')").action.is_partial


def test_the_inserts_of_a_statement_set_have_reads_of_their_own():
    found = planned(
        "EXECUTE STATEMENT SET BEGIN"
        " INSERT INTO log_sink SELECT o.order_id, c.id FROM orders AS o JOIN customers"
        " FOR SYSTEM_TIME AS OF o.proctime AS c ON o.customer = c.id;"
        " INSERT INTO log_sink SELECT customer, COUNT(*) FROM orders"
        " GROUP BY customer, TUMBLE(ts, INTERVAL '1' MINUTE); END"
    )

    assert isinstance(found.action, InsertRowsSet)
    assert [each.watermark is None for each in steps(found, ReadTable)] == [True, False]
    assert [each.mode for each in found.action.writes] == ["append", "append"]


def test_a_delete_finds_keys_in_a_batch():
    found = planned("DELETE FROM customers WHERE city = 'Bern'")

    assert isinstance(found.action, DeleteRows)
    assert not found.views[0].is_streaming
    assert found.views[-1].sql.startswith("SELECT `id` FROM")


def test_a_view_is_planned_in_the_place_of_its_name():
    found = planned("SELECT who FROM counted WHERE n < 3")

    assert [each.table.name.table for each in steps(found, ReadTable)] == ["clicks"]
    assert found.action.key == ("who",)
    assert found.action.has_changes


def test_an_explained_statement_is_planned_and_not_done():
    found = planned("EXPLAIN CHANGELOG_MODE SELECT 1")

    assert isinstance(found.action, ExplainPlan)
    assert found.action.details == ("CHANGELOG_MODE",)


def test_a_setting_that_does_nothing_is_told_with_the_nearest():
    assert "Did you mean 'pipeline.name'?" in planned("SET 'pipeline.nam' = 'x'").notes[0]
    assert "watermark" in planned("SET 'table.exec.state.ttl' = '1 d'").notes[0]
    assert planned("SET 'pipeline.name' = 'x'").notes == ()


def test_a_statement_without_rows_is_its_own_action():
    found = planned("CREATE TABLE t (a INT) WITH ('connector' = 'print')")

    assert isinstance(found.action, CreateTable)
    assert found.views == ()


@cases(
    "flink, spark",
    [
        ("SPLIT_INDEX(url, '/', 2)", "TRY_ELEMENT_AT(SPLIT(url, CONCAT('\\\\Q', '/', '\\\\E'))"),
        ("attributes['k']", "TRY_ELEMENT_AT(attributes, 'k')"),
        ("ARRAY[1, 2]", "ARRAY(1, 2)"),
        ("CAST(x AS TIMESTAMP(3))", "CAST(x AS TIMESTAMP_NTZ)"),
        ("CAST(x AS TIMESTAMP_LTZ(3))", "CAST(x AS TIMESTAMP)"),
        ("CAST(x AS VARCHAR(3))", "LEFT(CAST(x AS STRING), 3)"),
        ("TRY_CAST(x AS INT)", "TRY_CAST(x AS INT)"),
        ("TIMESTAMP '2026-11-18 08:00:00'", "CAST('2026-11-18 08:00:00' AS TIMESTAMP_NTZ)"),
        ("FLOOR(ts TO HOUR)", "DATE_TRUNC('HOUR', ts)"),
        ("'a\\b'", "'a\\\\b'"),
        ("PROCTIME()", "CURRENT_TIMESTAMP()"),
        ("my_function(a, b)", "MY_FUNCTION(a, b)"),
    ],
)
def test_an_expression_is_written_in_the_words_of_spark(flink, spark):
    (statement,) = parse(f"SELECT {flink} AS x")

    assert f"SELECT {spark}" in plan(statement, BATCHES).views[-1].sql


def test_a_view_that_uses_itself_is_refused():
    names = names_for("batch").run("CREATE VIEW v AS SELECT * FROM v")

    with pytest.raises(StatementError, match="uses itself"):
        planned("SELECT * FROM v", names)
