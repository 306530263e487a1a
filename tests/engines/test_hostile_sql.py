"""Names and values that try to be SQL stay names and values, in every engine."""

import duckdb
import pytest
from datafusion import SessionContext
from hypothesis import given, settings
from hypothesis import strategies as st

import headwater
import headwater.datafusion
import headwater.duckdb
import headwater.polars
from headwater.cli.sql import quoted_name
from headwater.engines.duckdb.sql import name_sql, text_sql
from headwater.tiering.service import TieringService
from headwater.tiering.task import LocalRunner
from tests.cases import cases
from tests.choices import examples

HOSTILE = (
    """a"; DROP TABLE kept; --""",
    """a' OR 'x'='x""",
    """a'); ATTACH '/etc/passwd' AS p; --""",
    "a/* */b",
    "a;b",
    "a.b.c",
    "a`b",
    "a\\",
    "$1",
    "?",
    "%s",
    "{x}",
    "\u202ea",
)
TEXTS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=30
)


async def tiered(client) -> None:
    service = TieringService(
        client, LocalRunner(client), lakes=client.cluster.lakes, listener=lambda _: None
    )
    await service.run_once()


@pytest.fixture(scope="module")
def hw(tmp_path_factory):
    """Return a storage with a table of hostile columns, one row in the lake and one in the log."""
    with headwater.open(tmp_path_factory.mktemp("hostile") / "data") as storage:
        storage.create_table("kept", {"id": "BIGINT"}, buckets=1).append([{"id": 1}])
        columns = {"id": "BIGINT", **dict.fromkeys(HOSTILE, "STRING")}
        options = {"table.datalake.enabled": True}
        wide = storage.create_table("wide", columns, buckets=1, options=options)
        wide.append([{"id": 1, **{name: name for name in HOSTILE}}])
        storage.run(tiered)
        wide.append([{"id": 2, **dict.fromkeys(HOSTILE, "other")}])
        yield storage


@given(text=TEXTS)
@settings(max_examples=examples(300))
def test_a_quoted_name_or_value_is_that_name_or_value_whatever_it_contains(text):
    with duckdb.connect() as con:
        query = f"SELECT {text_sql(text)} AS {name_sql(text)}, 1 AS {quoted_name(text + 'x')}"
        result = con.execute(query)

        assert [each[0] for each in result.description] == [text, f"{text}x"]
        assert result.fetchall() == [(text, 1)]


@cases("name", HOSTILE)
def test_duckdb_reads_columns_with_hostile_names_and_filters_by_hostile_values(name, hw):
    with duckdb.connect() as con:
        headwater.duckdb.install(con, hw)

        where = f"SELECT id FROM hw.fluss.wide WHERE {name_sql(name)} = "
        bound = con.execute(f"{where} ?", [name]).fetchall()
        quoted = con.execute(where + text_sql(name)).fetchall()

        assert bound == quoted == [(1,)]
        assert con.execute("SELECT count(*) FROM hw.fluss.kept").fetchall() == [(1,)]


@cases("name", HOSTILE)
def test_datafusion_and_polars_do_the_same(name, hw):
    ctx = SessionContext()
    headwater.datafusion.install(ctx, hw)

    rows = ctx.sql(f"SELECT {name_sql(name)} FROM hw.fluss.wide WHERE id = 1").to_pylist()
    frame = headwater.polars.scan(hw.table("wide")).select(name).collect()

    assert rows == [{name: name}]
    assert sorted(frame[name].to_list()) == sorted([name, "other"])


@cases("name", HOSTILE)
def test_a_hostile_name_of_a_table_finds_nothing_and_runs_nothing(name, hw):
    with duckdb.connect() as con:
        headwater.duckdb.install(con, hw)

        with pytest.raises(duckdb.Error):
            con.execute(f"SELECT * FROM fluss_read('fluss', {text_sql(name)})").fetchall()

        assert con.execute("SELECT count(*) FROM hw.fluss.kept").fetchall() == [(1,)]
        assert not con.execute("FROM duckdb_databases() WHERE path = '/etc/passwd'").fetchall()


@given(text=TEXTS | st.sampled_from([*HOSTILE, "other"]), name=st.sampled_from(HOSTILE))
@settings(max_examples=examples(60))
def test_a_filter_of_a_scan_finds_the_rows_that_have_the_text(text, name, hw):
    found = hw.table("wide").scan(columns=["id"], where=[(name, "==", text)]).to_pylist()

    assert [row["id"] for row in found] == [1] * (text == name) + [2] * (text == "other")
