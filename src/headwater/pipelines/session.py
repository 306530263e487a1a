"""SQL on a Spark session from Python: `headwater.spark.sql` and `headwater.spark.run`."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, SparkSession

from headwater.pipelines.conductor import Conductor
from headwater.pipelines.connectors.spi import FIELD, connector, connector_names
from headwater.pipelines.jobs import PipelineJob
from headwater.pipelines.launch import JobNames
from headwater.pipelines.results import (
    Cleared,
    FollowedRows,
    Left,
    Listed,
    Outcome,
    SelectedRows,
    Started,
    Told,
    listed,
)
from headwater.pipelines.sql.names import DeclaredTable, Names, TableName
from headwater.pipelines.sql.parse import parse
from headwater.pipelines.sql.plan import plan
from headwater.pipelines.sql.settings import DECLARED
from headwater.pipelines.sql.statements import Statement
from headwater.pipelines.sql.steps import Plan

_COMPLETED_TABLES_MAX = 50  # more would make a key press slow
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
        case Cleared() | Left():
            return spark.createDataFrame(listed(result=["Nothing to show."]).rows)


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
    """What may be typed: names of the current place, then settings, options and jobs."""
    state = conductor.state
    here = TableName(state.catalog, state.database, "")
    tables = state.near(here)
    yield from tables
    yield from state.catalogs
    yield from state.the_catalog(state.catalog).databases()
    for name in tables[:_COMPLETED_TABLES_MAX]:
        found = state.find(replace(here, table=name))
        if isinstance(found, DeclaredTable):
            yield from (column.name for column in found.columns)
    yield from DECLARED
    for name in connector_names():
        yield name
        yield from (option.name for option in connector(name).options if FIELD not in option.name)
    yield from (record.name for record in conductor.launcher.store.records())
