"""What becomes of a table whose columns changed in the source, as the pipeline says."""

from dataclasses import dataclass

from headwater import errors
from headwater.pipelines.ingest.form import (
    PipelineForm,
    SchemaBehavior,
    SchemaChange,
    SourceTable,
)
from headwater.pipelines.ingest.postgres.changes import TableShape
from headwater.pipelines.ingest.postgres.server import FoundTable
from headwater.pipelines.ingest.sink import IngestSink
from headwater.runtime.events import Events

_events = Events("ingest")
_FOLLOWING = (SchemaBehavior.EVOLVE, SchemaBehavior.TRY_EVOLVE, SchemaBehavior.LENIENT)


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """A source table with its columns before and after a change."""

    table: SourceTable
    old: TableShape
    new: TableShape


def follows(form: PipelineForm, change: SchemaChange) -> bool:
    """Tell whether a change is carried over to the sink."""
    if form.handling.behavior not in _FOLLOWING or change not in form.sink.taken:
        return False
    loses = change in (SchemaChange.DROP_COLUMN, SchemaChange.TRUNCATE_TABLE)
    return not (loses and form.handling.behavior is SchemaBehavior.LENIENT)


def dropped_in(found: FoundTable | None, old: TableShape, new: TableShape) -> list[str]:
    """The columns that are gone from the stream, and from the database as well.

    The stream tells of earlier times: what is missing in it may only have been added since.
    """
    live = () if found is None else found.shape.names
    return [name for name in old.names if name not in new.names and name not in live]


def settle_columns(
    form: PipelineForm, sink: IngestSink, found: FoundTable | None, tables: ColumnChange
) -> bool:
    """Alter the sink table as far as the form says; tells whether its rows must be read again.

    They must be where a new column has values that no change told of: by a default, or because it
    had another name before.
    """
    table, new = tables.table, tables.new
    added = sink.missing(table, new)
    dropped = dropped_in(found, tables.old, new)
    if form.handling.behavior is SchemaBehavior.EXCEPTION and (added or dropped):
        said = [f"added {name}" for name in added] + [f"dropped {name}" for name in dropped]
        raise errors.ConflictError(
            f"The columns of {table} changed: {', '.join(said)}.",
            hint="Set 'schema.change.behavior' to 'lenient' or 'evolve' to follow such changes.",
        )
    adds = follows(form, SchemaChange.ADD_COLUMN)
    for name in added if adds else ():
        sink.add_column(table, name, new.type_of(name))
        _events.info("column added", table=str(table), column=name)
    live = () if found is None else found.shape.names
    vanished = [name for name in sink.names(table) if name not in live]
    if follows(form, SchemaChange.DROP_COLUMN):
        for name in dropped:
            _drop(form, sink, table, name)
    has_values = found is None or any(name in found.defaults or name not in live for name in added)
    return bool(added) and adds and (has_values or bool(vanished))


def _drop(form: PipelineForm, sink: IngestSink, table: SourceTable, name: str) -> None:
    try:
        sink.drop_column(table, name)
        _events.info("column dropped", table=str(table), column=name)
    except errors.InvalidAlterError as fault:
        if form.handling.behavior is SchemaBehavior.EVOLVE:
            raise
        _events.warning("column stays", table=str(table), column=name, reason=str(fault))
