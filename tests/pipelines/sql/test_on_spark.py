"""Real Spark accepts what the planner writes, and a stream ends with the rows of a batch."""

from decimal import Decimal

import pytest

from headwater.pipelines.sql.parse import parse
from headwater.pipelines.sql.plan import plan
from headwater.pipelines.sql.statements import InsertStatement
from headwater.pipelines.sql.steps import InsertRows, ShowRows
from tests.cases import cases
from tests.pipelines.sql.corpus import NEXMARK, entries, names_for, nexmark_names
from tests.pipelines.sql.names import ScriptNames
from tests.pipelines.sql.nexmark import LAST, write_rows
from tests.pipelines.sql.runner import FileRunner

# q4 is refused in streams; the windows of q12 are those of the clock.
QUICK = [f"q{n}" for n in (5, 9, 11, 13, 16, 19)]
OTHERS = [f"q{n}" for n in (0, 1, 2, 3, 7, 8, 14, 15, 17, 18, 20, 21, 22)]


def test_spark_analyses_every_view_of_the_corpus(spark):
    names = {mode: names_for(mode) for mode in ("streaming", "batch")}
    failed = []

    for number, entry in enumerate(entries(refused=False)):
        (statement,) = parse(entry.text)
        found = plan(statement, names[entry.mode], label=f"c{number}")
        try:
            if found.views:
                FileRunner(spark).make_views(found)
        except Exception as error:  # noqa: BLE001
            failed.append((entry.text, str(error)[:400]))

    assert failed == []


def test_spark_can_stream_every_streaming_plan_of_the_corpus(classic_spark, tmp_path):
    names = names_for("streaming")
    for table in names.found:
        (tmp_path / table.table).mkdir()
    runner = FileRunner(classic_spark, tmp_path)
    failed = []

    for number, entry in enumerate(entries(refused=False)):
        (statement,) = parse(entry.text)
        found = plan(statement, names, label=f"s{number}") if entry.mode == "streaming" else None
        action = None if found is None else found.action
        if isinstance(action, ShowRows | InsertRows) and action.is_streaming:
            reason = unstreamable(classic_spark, runner.make_views(found), action.mode)
            failed += [(entry.text, reason)] if reason else []

    assert failed == []


def unstreamable(spark, frame, mode):
    """Why Spark would refuse to start a query, or nothing."""
    jvm = spark._jvm
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    output = getattr(jvm.org.apache.spark.sql.streaming.OutputMode, mode.capitalize())()
    try:
        checker.checkForStreaming(frame._jdf.queryExecution().analyzed(), output)
    except Exception as error:  # noqa: BLE001
        return str(error)[:300]
    return ""


def inserts() -> dict[str, InsertStatement]:
    text = (NEXMARK / "queries.sql").read_text()
    return {each.table[0]: each for each in parse(text) if isinstance(each, InsertStatement)}


def told(rows):
    """Rows without those that only end the windows, in some order, with times as text."""
    kept = [row for row in rows if LAST not in row]
    return sorted(tuple(_told(each) for each in row) for row in kept)


def _told(value):
    return str(value) if not isinstance(value, float | Decimal) else f"{value:.3f}"


@cases("query", QUICK)
def test_a_nexmark_query_gives_the_same_rows_as_a_stream_and_as_a_batch(spark, tmp_path, query):
    check(spark, tmp_path, query)


@pytest.mark.torture
@cases("query", OTHERS)
def test_so_do_the_simpler_ones(spark, tmp_path, query):
    check(spark, tmp_path, query)


@cases(
    "order",
    [
        "v",
        "v DESC",
        "v NULLS LAST",
        "v DESC NULLS FIRST",
        "v DESC, w NULLS LAST",
        "v, w DESC",
        "v NULLS LAST, w DESC NULLS FIRST",
    ],
)
def test_null_is_numbered_in_a_stream_as_it_is_in_a_batch(spark, tmp_path, order):
    columns = "k BIGINT, v BIGINT, w BIGINT, id BIGINT"
    values = [None, 1, 2]
    rows = [(k, v, w, 0) for k in (1, 2) for v in values for w in values]
    frame = spark.createDataFrame([(*r[:3], at) for at, r in enumerate(rows)], columns)
    frame.repartition(3).write.mode("overwrite").parquet(str(tmp_path / "rows" / "t"))
    names = ScriptNames().run(f"CREATE TABLE t ({columns})")
    query = (
        f"SELECT k, id, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY {order}, "
        "id) AS n FROM t) WHERE n <= 4"
    )
    found = {}

    for mode in ("streaming", "batch"):
        names.settings["execution.runtime-mode"] = mode
        (statement,) = parse(query)
        made = plan(statement, names, label=f"nulls_{mode}_{len(order)}")
        place = tmp_path / order / mode
        found[mode] = sorted(FileRunner(spark, tmp_path / "rows").run(made, place))

    assert found["streaming"] == found["batch"]
    assert len(found["batch"]) == 8


def check(spark, tmp_path, query):
    folder = tmp_path / "rows"
    if not folder.exists():
        write_rows(folder)
    statement = inserts()[query]
    found = {
        mode: FileRunner(spark, folder).run(
            plan(statement, nexmark_names(mode), label=f"{query}_{mode}"), tmp_path / query
        )
        for mode in ("streaming", "batch")
    }

    assert told(found["streaming"]) == told(found["batch"])
    assert found["batch"]


def test_windows_of_processing_time_hold_every_row_once(spark, tmp_path):
    write_rows(tmp_path / "rows")
    (statement,) = parse(
        "SELECT COUNT(*) AS n FROM (SELECT *, PROCTIME() AS p FROM bid)"
        " GROUP BY TUMBLE(p, INTERVAL '1' SECOND)"
    )
    found = plan(statement, nexmark_names("streaming"))

    counts = FileRunner(spark, tmp_path / "rows").run(found, tmp_path / "checkpoint")

    assert found.action.mode == "append"
    assert all(count <= 482 for (count,) in counts)
