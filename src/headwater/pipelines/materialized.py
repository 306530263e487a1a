"""Materialized tables: a table and the job that keeps it fresh.

A continuous one is a streaming job like any INSERT. A full one is computed anew each time that its
freshness is over, by a job whose micro-batches are the refreshes: rows of the result are written
by key, and rows that are no longer in it are deleted. Both live as long as the process, and go on
when the same statement is run again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame, SparkSession

from headwater.errors import MissingError, TableExistsError, UnsupportedError
from headwater.pipelines.connectors.console import each_micro_batch
from headwater.pipelines.connectors.spi import StreamStart, read_batch
from headwater.pipelines.definitions import is_there
from headwater.pipelines.jobs import JobFolder, JobStatus, PipelineJob, fingerprint
from headwater.pipelines.launch import JobNames, Launcher, Queries
from headwater.pipelines.results import Outcome, Started, Told
from headwater.pipelines.sql.names import DeclaredTable, TableName
from headwater.pipelines.sql.settings import TIME_ZONE
from headwater.pipelines.sql.statements import (
    AlterMaterializedTable,
    CreateMaterializedTable,
    DropMaterializedTable,
    MaterializedChange,
    SourceText,
    TableColumn,
    TableDefinition,
)
from headwater.pipelines.sql.steps import CHANGE_COLUMN, DeleteRows, InsertRows, Materialize, Plan
from headwater.pipelines.state import SessionState
from headwater.pipelines.tables import connector_table, quoted
from headwater.pipelines.views import Frames, connector_of, drop_views, make_views
from headwater.pipelines.writes import delete_now, start_queries, write_now

_FRESHNESS_DEFAULT_MS = 60_000
_TICKS = {"rowsPerSecond": "1", "numPartitions": "1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class MaterializedTable:
    """What a materialized table was made from, to resume and refresh it."""

    plan: Plan
    action: Materialize
    source: SourceText
    write: InsertRows
    job: str


@dataclass(slots=True)
class MaterializedTables:
    """The materialized tables of a session."""

    spark: SparkSession
    state: SessionState
    launcher: Launcher
    columns_of: Callable[[DataFrame], tuple[TableColumn, ...]]
    _held: dict[TableName, MaterializedTable] = field(default_factory=dict)

    def create(
        self, plan: Plan, action: Materialize, frames: Frames, source: SourceText, names: JobNames
    ) -> Outcome:
        """Create the table, or find it again, and start what keeps it fresh."""
        statement = action.statement
        name = self.state.full(statement.name)
        if isinstance(statement, CreateMaterializedTable):
            if name in self._held:
                if statement.if_not_exists:
                    return Told(f"The materialized table {name} exists already.")
                raise TableExistsError(f"{name} already exists.")
            self._create_table(name, statement, frames[action.view])
            return self._kept(name, plan, action, source, restart=names.restart)
        self._known(name)
        self._stop(name)
        return self._kept(name, plan, action, source, restart=True)

    def _create_table(
        self, name: TableName, statement: CreateMaterializedTable, rows: DataFrame
    ) -> None:
        """Create the table unless it is there from an earlier run of the same job."""
        if is_there(self.state, name, is_temporary=False):
            jobs = {record.name for record in self.launcher.store.records()}
            if _job_name(name) in jobs or statement.if_not_exists:
                return
            raise TableExistsError(
                f"{name} already exists, and is not a materialized table.",
                hint="Use another name, or DROP TABLE first.",
            )
        definition = TableDefinition(
            columns=self.columns_of(rows),
            key=statement.key,
            comment=statement.comment,
            partitioned_by=statement.partitioned_by,
            distribution=statement.distribution,
            options=statement.options,
        )
        self.state.the_catalog(name.catalog).create_table(name, definition)

    def _kept(
        self, name: TableName, plan: Plan, action: Materialize, source: SourceText, *, restart: bool
    ) -> Started:
        table = self.state.table(name)
        write = InsertRows(
            view=action.view,
            table=table,
            columns=tuple(connector_table(table, {}).schema.names),
            is_streaming=action.is_streaming,
            mode=action.mode,
            key=table.key,
            has_changes=action.has_changes,
        )
        made = MaterializedTable(
            plan=plan, action=action, source=source, write=write, job=_job_name(name)
        )
        started = self._started(made, restart=restart)
        self._held[name] = made
        self.state.materialized.add(name)
        return started

    def _started(self, made: MaterializedTable, *, restart: bool) -> Started:
        zone = self.state.setting(TIME_ZONE.name)
        mark = fingerprint(made.source, made.plan, zone)
        begin = self._stream if made.action.is_streaming else self._refreshes
        return self.launcher.begin(made.job, mark, made.source, begin=begin(made), restart=restart)

    def _stream(self, made: MaterializedTable) -> Callable[[JobFolder], Queries]:
        pace = self.launcher.pace(made.plan)
        if pace.interval_ms is None:
            pace = replace(pace, interval_ms=made.action.freshness_ms)

        def begin(folder: JobFolder) -> Queries:
            frames = make_views(self.spark, made.plan.views)
            try:
                return start_queries(frames, [made.write], folder=folder, pace=pace)
            finally:
                drop_views(self.spark, made.plan.views)

        return begin

    def _refreshes(self, made: MaterializedTable) -> Callable[[JobFolder], Queries]:
        _check_replaceable(made.write.table)

        def refresh(_ticks: DataFrame, _number: int) -> None:
            refreshed(self.spark, made)

        def begin(folder: JobFolder) -> Queries:
            start = StreamStart(
                job=f"{made.job}/run-{folder.record.run}",
                checkpoint=folder.checkpoint(0),
                interval_ms=made.action.freshness_ms or _FRESHNESS_DEFAULT_MS,
                ends=self.launcher.once,
            )
            ticks = self.spark.readStream.format("rate").options(**_TICKS).load()
            refreshed(self.spark, made)  # at once, not only when the freshness is over
            return (each_micro_batch(ticks, refresh, start),)

        return begin

    # ---- ALTER and DROP

    def alter(self, statement: AlterMaterializedTable) -> Outcome:
        """Suspend, resume or refresh."""
        name = self.state.full(statement.name)
        made = self._known(name)
        match statement.change:
            case MaterializedChange.SUSPEND:
                self._stop(name)
                return Told(f"Suspended {name}.")
            case MaterializedChange.RESUME:
                if statement.options:
                    raise UnsupportedError(
                        "RESUME takes no options.", hint="Create the table with the other options."
                    )
                return self._started(made, restart=False)
            case MaterializedChange.REFRESH:
                self._refresh(made, statement)
                return Told(f"Refreshed {name}.")
            case MaterializedChange.QUERY:
                raise AssertionError("a new query comes with a plan")

    def _refresh(self, made: MaterializedTable, statement: AlterMaterializedTable) -> None:
        if statement.partition:
            raise UnsupportedError(
                "A refresh is always of the whole table.", hint="Write REFRESH without PARTITION."
            )
        if not made.action.is_streaming:
            refreshed(self.spark, made)
            return
        job = self._job(made)
        if job is None or job.status is not JobStatus.RUNNING:
            raise UnsupportedError(
                f"{made.write.table.name} is suspended.", hint="RESUME it: it goes on by itself."
            )
        for query in job.queries:
            query.processAllAvailable()

    def drop(self, statement: DropMaterializedTable) -> Outcome:
        """Stop what keeps a table fresh, and drop it."""
        name = self.state.full(statement.name)
        if name not in self._held and statement.if_exists:
            return Told(f"There is no materialized table {name}.")
        self._known(name)
        self._stop(name)
        self.state.the_catalog(name.catalog).drop_table(name)
        del self._held[name]
        self.state.materialized.discard(name)
        return Told(f"Dropped materialized table {name}.")

    def _known(self, name: TableName) -> MaterializedTable:
        if name not in self._held:
            known = ", ".join(map(str, self._held)) or "none"
            raise MissingError(
                f"There is no materialized table {name} in this session.",
                hint=f"There are: {known}. One of an earlier session goes on when its CREATE "
                "MATERIALIZED TABLE is run again.",
            )
        return self._held[name]

    def _job(self, made: MaterializedTable) -> PipelineJob | None:
        return next((job for job in self.launcher.jobs if job.name == made.job), None)

    def _stop(self, name: TableName) -> None:
        job = self._job(self._held[name])
        if job is not None:
            job.stop()


def _job_name(name: TableName) -> str:
    return f"materialized_{name}"


def _check_replaceable(table: DeclaredTable) -> None:
    if not table.key and connector_of(table).overwrite is None:
        raise UnsupportedError(
            f"{table.name} is computed anew each time, but rows of a log cannot be replaced.",
            hint="Give it a PRIMARY KEY, or write REFRESH_MODE = CONTINUOUS.",
        )


def refreshed(spark: SparkSession, made: MaterializedTable) -> None:
    """Compute a table anew: write its rows, and delete those that are no longer in the result."""
    frames = make_views(spark, made.plan.views)
    try:
        rows = frames[made.write.view]
        if not made.write.table.key:
            write_now(rows, replace(made.write, is_overwrite=True))
            return
        rows = rows.localCheckpoint() if hasattr(rows, "localCheckpoint") else rows
        gone = _missing_keys(spark, made.write.table, rows)
        write_now(rows, made.write)
        delete_now(gone, DeleteRows(view=made.write.view, table=made.write.table))
    finally:
        drop_views(spark, made.plan.views)


def _missing_keys(spark: SparkSession, table: DeclaredTable, rows: DataFrame) -> DataFrame:
    """The keys of a table that a result does not have."""
    key: Sequence[str] = table.key
    target = connector_table(table, table.options, needed=key)
    held = read_batch(spark, connector_of(table), target).select(*map(quoted, key))
    now = rows.select(*map(quoted, key))
    return held.join(now, list(key), "left_anti").drop(CHANGE_COLUMN)
