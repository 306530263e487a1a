"""What SHOW and DESCRIBE list."""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from headwater.config.lake import is_secret
from headwater.errors import MissingError
from headwater.model.type_text import type_text
from headwater.pipelines.connectors.spi import connector_names
from headwater.pipelines.jobs import JobStore, PipelineJob
from headwater.pipelines.results import Listed, listed
from headwater.pipelines.sql.names import DeclaredTable, DeclaredView, TableName
from headwater.pipelines.sql.statements import (
    ComputedColumn,
    DescribeStatement,
    MetadataColumn,
    PhysicalColumn,
    ShowKind,
    ShowStatement,
    TableColumn,
)
from headwater.pipelines.state import SessionState
from headwater.pipelines.tables import create_text, literal, name_text, options_text, quoted

_HIDDEN = "******"
# Not secret, though their names sound so.
_OPEN = frozenset({"bucket.key", "primary.key", "table.name"})


def pattern_filter(statement: ShowStatement, names: Iterable[str]) -> list[str]:
    """Keep the names that fit LIKE or ILIKE."""
    if statement.pattern is None:
        return list(names)
    pieces = {"%": ".*", "_": "."}
    pattern = "".join(pieces.get(each) or re.escape(each) for each in statement.pattern)
    flags = re.IGNORECASE if statement.ignores_case else 0
    found = re.compile(pattern, flags | re.DOTALL)
    return [name for name in names if bool(found.fullmatch(name)) is not statement.is_not]


class SessionLists:
    """Answers SHOW and DESCRIBE about a session."""

    def __init__(self, spark: SparkSession, state: SessionState) -> None:
        self._spark = spark
        self._state = state

    def show(
        self, statement: ShowStatement, jobs: Iterable[PipelineJob], store: JobStore
    ) -> Listed:
        """List what a statement asks for."""
        match statement.kind:
            case ShowKind.JOBS:
                return _jobs(jobs, store)
            case ShowKind.SETTINGS:
                shown = self._state.settings.shown()
                return listed(key=shown, value=_without_secrets(shown).values())
            case ShowKind.CURRENT_CATALOG:
                return listed(current_catalog_name=[self._state.catalog])
            case ShowKind.CURRENT_DATABASE:
                return listed(current_database_name=[self._state.database])
            case ShowKind.CREATE_TABLE | ShowKind.CREATE_VIEW | ShowKind.CREATE_CATALOG:
                return listed(result=[self._text(statement)])
            case ShowKind.COLUMNS:
                return self._columns(statement)
            case _:
                column = f"{statement.kind.value.removesuffix('s').replace(' ', '_')}_name"
                return listed(**{column: pattern_filter(statement, self._names(statement))})

    def _names(self, statement: ShowStatement) -> list[str]:
        match statement.kind:
            case ShowKind.CATALOGS:
                return sorted(self._state.catalogs)
            case ShowKind.DATABASES:
                name = statement.name[0] if statement.name else self._state.catalog
                return list(self._state.the_catalog(name).databases())
            case ShowKind.CONNECTORS:
                return list(connector_names())
            case ShowKind.FUNCTIONS:
                rows = self._spark.sql("SHOW FUNCTIONS").collect()
                return sorted(str(row[0]).removeprefix("spark_catalog.default.") for row in rows)
            case ShowKind.PARTITIONS:
                return self._partitions(statement)
            case _:
                return self._tables(statement)

    def _tables(self, statement: ShowStatement) -> list[str]:
        catalog, database = self._state.place(statement.name)
        held = self._state.the_catalog(catalog)
        here = {
            name.table: each
            for name, each in self._state.temporary.items()
            if (name.catalog, name.database) == (catalog, database)
        }
        views = {name for name, each in here.items() if isinstance(each, DeclaredView)}
        views |= set(held.views(database))
        match statement.kind:
            case ShowKind.VIEWS:
                return sorted(views)
            case ShowKind.MATERIALIZED_TABLES:
                made = self._state.materialized
                place = (catalog, database)
                return sorted(n.table for n in made if (n.catalog, n.database) == place)
            case _:
                return sorted({*here, *views, *held.tables(database)})

    def _partitions(self, statement: ShowStatement) -> list[str]:
        table = self._state.table(self._state.full(statement.name))
        found = self._state.the_catalog(table.name.catalog).partitions(table)
        wanted = dict(statement.partition)
        kept = [each for each in found if wanted.items() <= each.items()]
        return ["/".join(f"{key}={text}" for key, text in each.items()) for each in kept]

    def _text(self, statement: ShowStatement) -> str:
        if statement.kind is ShowKind.CREATE_CATALOG:
            name = statement.name[0] if statement.name else self._state.catalog
            options = _without_secrets(self._state.the_catalog(name).options)
            return f"CREATE CATALOG {quoted(name)} WITH (\n{options_text(options)}\n)"
        found = self._found(self._state.full(statement.name))
        if isinstance(found, DeclaredView):
            names = f" ({', '.join(map(quoted, found.columns))})" if found.columns else ""
            return f"CREATE VIEW {name_text(found.name)}{names} AS {found.query}"
        text = self._state.text(found)
        return create_text(found, _without_secrets(text.options), comment=text.comment)

    def _found(self, name: TableName) -> DeclaredTable | DeclaredView:
        found = self._state.find(name)
        if found is not None:
            return found
        near = ", ".join(self._state.near(name)) or "none"
        raise MissingError(f"{name} does not exist.", hint=f"There are: {near}.")

    def _columns(self, statement: ShowStatement) -> Listed:
        table = self._state.table(self._state.full(statement.name))
        kept = set(pattern_filter(statement, [each.name for each in table.columns]))
        return _described(table, [each for each in table.columns if each.name in kept])

    # ---- DESCRIBE

    def describe(self, statement: DescribeStatement, jobs: Iterable[PipelineJob]) -> Listed:
        """Describe a table, view, catalog, database or job."""
        match statement.what:
            case "catalog":
                options = _without_secrets(self._state.the_catalog(statement.name[0]).options)
                return listed(info_name=options, info_value=options.values())
            case "database":
                catalog, database = self._state.place(statement.name)
                tables = self._state.the_catalog(catalog).tables(database)
                facts = {"catalog": catalog, "database": database, "tables": str(len(tables))}
                return listed(info_name=facts, info_value=facts.values())
            case "job":
                return _job(".".join(statement.name), jobs)
            case _:
                return self._described(statement)

    def _described(self, statement: DescribeStatement) -> Listed:
        found = self._found(self._state.full(statement.name))
        if isinstance(found, DeclaredView):
            return listed(result=[f"{literal(str(found.name))} is a view: {found.query}"])
        if not statement.is_extended:
            return _described(found, found.columns)
        options = _without_secrets({**found.options, **self._state.text(found).options})
        facts = {"connector": found.connector, **dict(sorted(options.items()))}
        return listed(info_name=facts, info_value=facts.values())


def _described(table: DeclaredTable, columns: Iterable[TableColumn]) -> Listed:
    key = f"PRI({', '.join(table.key)})"
    kept = list(columns)
    mark = table.watermark
    return listed(
        name=[each.name for each in kept],
        type=[_type(each) for each in kept],
        null=[_null(each) for each in kept],
        key=[key if each.name in table.key else None for each in kept],
        extras=[_extras(each) for each in kept],
        watermark=[
            mark.expression if mark is not None and mark.column == each.name else None
            for each in kept
        ],
        comment=[each.comment for each in kept],
    )


def _type(column: TableColumn) -> str | None:
    if isinstance(column, ComputedColumn):
        return None
    return type_text(column.type).removesuffix(" NOT NULL")


def _null(column: TableColumn) -> str:
    if isinstance(column, ComputedColumn):
        return "TRUE"
    return str(column.type.nullable).upper()


def _extras(column: TableColumn) -> str | None:
    match column:
        case ComputedColumn(expression=expression):
            return f"AS {expression}"
        case MetadataColumn(key=key, is_virtual=is_virtual):
            return f"METADATA FROM {literal(key)}{' VIRTUAL' if is_virtual else ''}"
        case PhysicalColumn():
            return None


def _without_secrets(options: Mapping[str, str]) -> dict[str, str]:
    return {
        key: _HIDDEN if key not in _OPEN and is_secret(key, text) else text
        for key, text in options.items()
    }


def _jobs(jobs: Iterable[PipelineJob], store: JobStore) -> Listed:
    """The jobs of this process, then those that ran before."""
    here = {job.name: job for job in jobs}
    earlier = [record for record in store.records() if record.name not in here]
    started = [datetime.fromtimestamp(job.started_ms / 1000, UTC) for job in here.values()]
    return listed(
        job_name=[*here, *(record.name for record in earlier)],
        status=[*(job.status for job in here.values()), *("NOT RUNNING" for _ in earlier)],
        start_time=[
            *(f"{moment:%Y-%m-%d %H:%M:%S} UTC" for moment in started),
            *(None for _ in earlier),
        ],
        statement=[
            *(job.statement for job in here.values()),
            *(record.statement for record in earlier),
        ],
    )


def _job(name: str, jobs: Iterable[PipelineJob]) -> Listed:
    found = next((job for job in jobs if job.name == name), None)
    if found is None:
        raise MissingError(f"There is no job '{name}' in this process.", hint="Use SHOW JOBS.")
    progress = found.progress()
    facts = {
        "name": found.name,
        "status": str(found.status),
        "statement": found.statement,
        "checkpoint": "" if found.folder is None else found.folder.path,
        "last micro-batch": str(progress.batch),
        "rows per second": f"{progress.rows_per_second:.0f}",
        "rows behind": "" if progress.behind is None else str(progress.behind),
        "late rows": str(progress.late),
    }
    return listed(info_name=facts, info_value=facts.values())
