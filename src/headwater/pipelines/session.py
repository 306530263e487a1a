"""SQL on a Spark session from Python: `headwater.spark.sql` and `headwater.spark.run`."""

from collections.abc import Iterable
from pathlib import Path
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, SparkSession

from headwater.pipelines.conductor import Conductor
from headwater.pipelines.jobs import PipelineJob
from headwater.pipelines.launch import JobNames
from headwater.pipelines.results import (
    FollowedRows,
    Left,
    Listed,
    Outcome,
    SelectedRows,
    Started,
    Told,
    listed,
)
from headwater.pipelines.sql.names import Names
from headwater.pipelines.sql.parse import parse
from headwater.pipelines.sql.plan import plan
from headwater.pipelines.sql.statements import Statement
from headwater.pipelines.sql.steps import Plan

_conductors: WeakKeyDictionary[SparkSession, Conductor] = WeakKeyDictionary()


def conductor_of(spark: SparkSession) -> Conductor:
    """The conductor of a Spark session, with what was defined in it so far."""
    if spark not in _conductors:
        _conductors[spark] = Conductor(spark, _planned)
    return _conductors[spark]


def _planned(statement: Statement, names: Names, label: str) -> Plan:
    return plan(statement, names, label=label)


def sql(spark: SparkSession, text: str) -> DataFrame | PipelineJob:
    """Run statements, and return what the last one gives, as `headwater.spark.sql` says."""
    conductor = conductor_of(spark)
    last: Outcome = Told("Nothing to do.")
    for last in conductor.run(parse(text)):
        if isinstance(last, Left):
            break
    return _given(spark, last)


def _given(spark: SparkSession, outcome: Outcome) -> DataFrame | PipelineJob:
    match outcome:
        case Started(job=job):
            return job
        case SelectedRows(rows=rows) | FollowedRows(rows=rows):
            return rows
        case Listed(rows=table):
            return spark.createDataFrame(table)
        case Told(text=text):
            return spark.createDataFrame(listed(result=[text]).rows)
        case Left():
            return spark.createDataFrame(listed(result=["Left."]).rows)


def run(
    spark: SparkSession, path: str | Path, *, restart: bool = False, once: bool = False
) -> None:
    """Run a file and wait for its jobs, as `headwater.spark.run` says."""
    conductor = conductor_of(spark)
    before, conductor.launcher.once = conductor.launcher.once, once
    try:
        text = Path(path).read_text(encoding="utf-8")
        for outcome in conductor.run(parse(text), names=JobNames(restart=restart)):
            if isinstance(outcome, SelectedRows):
                outcome.rows.show(truncate=False)
            elif isinstance(outcome, Left):
                break
        conductor.wait()
    except BaseException:
        conductor.stop()
        raise
    finally:
        conductor.launcher.once = before


def names_of(conductor: Conductor) -> Iterable[str]:
    """What may be typed: catalogs, databases, tables and views of the current place."""
    state = conductor.state
    catalog = state.the_catalog(state.catalog)
    yield from state.catalogs
    yield from catalog.databases()
    yield from catalog.tables(state.database)
    yield from catalog.views(state.database)
    yield from (name.table for name in state.temporary)
