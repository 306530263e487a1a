"""Where a pipeline begins or goes on: slot, publication, tables, ranges, position.

A new pipeline publishes its tables, then creates its slot: the slot waits for transactions that run
already, so that every later change is in the stream. One that goes on must find its slot where it
left it; if the slot is gone or was made anew, changes are lost, and that is told, not guessed at.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import cast

from psycopg2.extensions import cursor as Cursor  # noqa: N812 - it is a class

from headwater import errors
from headwater.pipelines.ingest.form import IngestStart, PipelineForm, SourceTable
from headwater.pipelines.ingest.journal import EpochPlan, Json, PipelineJournal, SourcePosition
from headwater.pipelines.ingest.postgres import server
from headwater.pipelines.ingest.postgres.changes import TableShape
from headwater.pipelines.ingest.postgres.collect import ReadRanges
from headwater.pipelines.ingest.postgres.ranges import find_bounds
from headwater.pipelines.ingest.sink import IngestSink

_CREATING = "creating"
_MARK_BYTES = 8


@dataclass(slots=True)
class Outset:
    """Where a run begins."""

    found: dict[SourceTable, server.FoundTable]
    """The tables as the database has them now; the stream may still tell of earlier ones."""
    shapes: dict[SourceTable, TableShape]
    ranges: dict[SourceTable, ReadRanges]
    plan: EpochPlan
    """The last plan."""
    is_done: bool
    """Whether that plan was carried out; otherwise it is, before anything else."""
    now: server.Visibility


def mark_of(form: PipelineForm) -> str:
    """Tell forms apart that would make other rows of the same changes."""
    source = form.source
    parts = (source.tables, source.tables_exclude, form.transforms, form.routes)
    return blake2b(repr(parts).encode(), digest_size=_MARK_BYTES).hexdigest()


def stand(
    form: PipelineForm, journal: PipelineJournal, sink: IngestSink, *, restart: bool
) -> Outset:
    """Check the source, and set up what is missing."""
    source = form.source
    with server.reading(source) as cursor:
        version = server.check_server(source, cursor)
        found = server.find_tables(source, cursor)
        server.check_tables(source, found)
        new = {each.table for each in found if not sink.exists(each.table)}
        shapes = {each.table: sink.ensure(each.table, each.shape) for each in found}
        _prepare(form, journal, cursor, list(shapes), version=version, restart=restart)
        now = server.Visibility.parse(server.visibility_now(cursor))
        ranges = {
            table: _ranges(form, journal, cursor, table, shape, now)
            for table, shape in shapes.items()
        }
    standing = journal.standing()
    assert standing is not None
    if not standing.is_done and standing.plan.mark != mark_of(form):
        raise errors.ConflictError(
            f"The pipeline '{form.handling.name}' was stopped while it wrote, and its tables, "
            "routes or projections were changed since.",
            hint="Run it once as it was, then change it.",
        )
    for table, read in ranges.items():
        # A table that was dropped here is taken again, as if it had never been.
        if restart or (table in new and read.done and form.source.startup is IngestStart.INITIAL):
            begin_again(journal, table, read)
    return Outset(
        found={each.table: each for each in found},
        shapes=shapes,
        ranges=ranges,
        plan=standing.plan,
        is_done=standing.is_done,
        now=now,
    )


# ---- slot and publication


def _prepare(
    form: PipelineForm,
    journal: PipelineJournal,
    cursor: Cursor,
    tables: Sequence[SourceTable],
    *,
    version: int,
    restart: bool,
) -> None:
    source = form.source
    standing, slot = journal.standing(), server.find_slot(source, cursor, version)
    if slot is not None and slot.active_pid is not None:
        raise SlotInUseError(
            f"The replication slot '{source.slot}' is in use by process {slot.active_pid} of "
            "PostgreSQL.",
            hint="Stop the other process that runs this pipeline.",
        )
    is_new = standing is None or restart
    if standing is not None and not restart:
        _check_slot(form, standing.plan, slot)
    half_made = bool(journal.wanted().get(_CREATING))
    if is_new and slot is not None and not (restart or half_made):
        raise errors.ConflictError(
            f"The replication slot '{source.slot}' exists, but the pipeline "
            f"'{form.handling.name}' never began in this storage.",
            hint=f"Drop it with SELECT pg_drop_replication_slot('{source.slot}'), or give "
            "'slot.name' another value.",
        )
    server.publish(source, cursor, tables, version)
    if not is_new:
        return
    journal.want({_CREATING: True})
    if slot is not None:
        server.drop_slot(source, cursor)
    lsn = server.create_slot(source, cursor)
    journal.begin(SourcePosition(lsn), after=standing)
    journal.want({_CREATING: False})


class SlotInUseError(errors.RetryLaterError):
    """Another connection reads the slot, or the server has not noticed yet that it is gone."""

    hint = "Stop the other process that runs this pipeline."


_LOST_HINT = (
    "Changes are lost. Run the pipeline with --restart: it takes all tables again, and deletes "
    "rows that are gone."
)


def _check_slot(form: PipelineForm, plan: EpochPlan, slot: server.SlotState | None) -> None:
    name = form.source.slot
    if slot is None:
        raise errors.MissingError(
            f"The replication slot '{name}' is gone, so the changes since "
            f"{server.format_lsn(plan.stop.lsn)} are, too.",
            hint=_LOST_HINT,
        )
    if slot.is_lost:
        raise errors.MissingError(
            f"PostgreSQL removed log that the slot '{name}' still needed (max_slot_wal_keep_size).",
            hint=_LOST_HINT,
        )
    if slot.confirmed_lsn > plan.allowed_lsn:
        raise errors.ConflictError(
            f"The replication slot '{name}' is at {server.format_lsn(slot.confirmed_lsn)}, but the "
            f"storage has changes up to {server.format_lsn(plan.allowed_lsn)} only: the slot was "
            "made anew or read by others, or the storage is an older copy.",
            hint=_LOST_HINT,
        )


# ---- ranges


def _ranges(
    form: PipelineForm,
    journal: PipelineJournal,
    cursor: Cursor,
    table: SourceTable,
    shape: TableShape,
    now: server.Visibility,
) -> ReadRanges:
    note = journal.table_note(str(table))
    if note is not None:
        return _parsed(note)
    made = ReadRanges([], wait_xid=now.xmax)
    if form.source.startup is IngestStart.LATEST_OFFSET:
        made.done[0] = server.Visibility(0, 0, frozenset())
    else:
        made.bounds = find_bounds(cursor, table, shape, rows_max=form.source.range_rows)
    note_ranges(journal, table, made)
    return made


def begin_again(journal: PipelineJournal, table: SourceTable, ranges: ReadRanges) -> None:
    """Take a table again: all its ranges are unread, and rows that are gone will be deleted."""
    ranges.generation += 1
    ranges.done.clear()
    ranges.until_lsn = 0
    note_ranges(journal, table, ranges)


def note_ranges(journal: PipelineJournal, table: SourceTable, ranges: ReadRanges) -> None:
    """Note which ranges were read, with what they saw."""
    done = {
        str(number): f"{seen.xmin}:{seen.xmax}:{','.join(map(str, sorted(seen.running)))}"
        for number, seen in ranges.done.items()
    }
    note = {
        "bounds": ranges.bounds,
        "done": done,
        "until": ranges.until_lsn,
        "stale": sorted(ranges.stale),
        "generation": ranges.generation,
        "wait": ranges.wait_xid,
    }
    journal.note_table(str(table), note)


def _parsed(note: Json) -> ReadRanges:
    done = cast("dict[str, str]", note["done"])
    return ReadRanges(
        bounds=cast("list[int]", note["bounds"]),
        done={int(number): server.Visibility.parse(text) for number, text in done.items()},
        until_lsn=cast("int", note["until"]),
        stale=set(cast("list[int]", note.get("stale", []))),
        generation=cast("int", note["generation"]),
        wait_xid=cast("int", note["wait"]),
    )
