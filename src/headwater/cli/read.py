"""`headwater scan`, `lookup`, `count`, `offsets`, `explain` and `plan`: a table at a position."""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Annotated

import pyarrow as pa
import typer

from headwater.cli.command import CommandSession, command, listed, write
from headwater.cli.names import TableName, column_names
from headwater.cli.output import Document, Output, clean, document_text
from headwater.cli.target import STDIN, Format, InputFile
from headwater.cli.values import conditions, typed
from headwater.errors import MissingError, NotPrimaryKeyTableError, RequestError
from headwater.read.filters import Filter
from headwater.read.offsets import Place
from headwater.read.split import plan_document

if TYPE_CHECKING:
    from headwater.client.sync.scan import View
    from headwater.client.sync.table import Table
    from headwater.read.offsets import Offsets
    from headwater.read.split import UnionSplit

# `headwater offsets`: where the logs of a table begin and end.


@command()
def offsets(
    session: CommandSession,
    table: TableName,
    *,
    earliest: Annotated[bool, typer.Option("--earliest", help="Only the first offset.")] = False,
    latest: Annotated[
        bool, typer.Option("--latest", help="Only the next offset to be written.")
    ] = False,
    time: Annotated[
        str | None,
        typer.Option(
            metavar="TIMESTAMP", help="Only the first offset written at that time or later."
        ),
    ] = None,
) -> None:
    """Show the first offset of each bucket, and the next one to be written.

    Example: headwater offsets clicks --time 2026-03-01T12:00:00Z --at ./data
    """
    found = session.client.table(table)
    columns: dict[str, Offsets] = {}
    if time is not None:
        columns["at_time"] = found.offsets(parse_time(time))
    if earliest or not (latest or time):
        columns["earliest"] = found.offsets("earliest")
    if latest or not (earliest or time):
        columns["latest"] = found.offsets("latest")
    kinds = {"partition": pa.string(), "bucket": pa.int32()} | dict.fromkeys(columns, pa.int64())
    if not found.info.is_partitioned and session.output == "table":
        del kinds["partition"]
    session.documents(offset_rows(columns), columns=kinds)


def offset_rows(columns: Mapping[str, "Offsets"]) -> list[Document]:
    """Build one row for each bucket with an offset of every kind."""
    places = sorted(
        {place for offsets in columns.values() for place in offsets},
        key=lambda place: (place.partition or "", place.bucket),
    )
    return [
        {"partition": place.partition, "bucket": place.bucket}
        | {name: offsets.get(place) for name, offsets in columns.items()}
        for place in places
    ]


def parse_time(text: str) -> datetime:
    """Parse a time in ISO format; without a zone it is in UTC."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise RequestError(
            f"{text!r} is not a time.", hint="Write it like 2026-03-01T12:30:00Z."
        ) from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


# Options for the position of a read, for every command that reads a table.

_PANEL = "Position"
_OFFSET = re.compile(r"(?:(?P<partition>[^/=]+)/)?(?P<bucket>[0-9]+)=(?P<offset>[0-9]+)\Z")


class Mode(StrEnum):
    """What a table is read from."""

    UNION = "union"
    LAKE = "lake"
    LOG = "log"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPosition:
    """The position to read at; by default the newest."""

    token: str | None = None
    snapshot_id: int | None = None
    as_of: datetime | int | None = None
    offsets: dict[Place, int] | None = None
    mode: Mode = Mode.UNION

    def view(self, table: "Table") -> "View":
        """Open the table at the position."""
        return table.view(
            token=self.token,
            snapshot_id=self.snapshot_id,
            as_of=self.as_of,
            offsets=self.offsets,
            mode=str(self.mode),
        )


def _flags(
    *,
    token: Annotated[
        str | None,
        typer.Option(
            help="At the position of a token from a view or a plan.", rich_help_panel=_PANEL
        ),
    ] = None,
    as_of: Annotated[
        str | None,
        typer.Option(
            metavar="TIMESTAMP",
            help="As of this time, or these milliseconds since 1970.",
            rich_help_panel=_PANEL,
        ),
    ] = None,
    snapshot_id: Annotated[
        int | None,
        typer.Option(help="Only the rows of one lake snapshot.", rich_help_panel=_PANEL),
    ] = None,
    offset: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[PARTITION/]BUCKET=OFFSET",
            help="Of this bucket only what is before an offset; may be repeated.",
            rich_help_panel=_PANEL,
        ),
    ] = None,
    mode: Annotated[
        Mode,
        typer.Option(help="Lake and log together, or only one of them.", rich_help_panel=_PANEL),
    ] = Mode.UNION,
) -> None:
    """Declare the options of a position, once."""


_FLAGS = inspect.signature(_flags).parameters


def positioned(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options of a position to a command, and pass it a `position` instead of them."""

    @wraps(function)
    def run(
        *given: object,
        token: str | None,
        as_of: str | None,
        snapshot_id: int | None,
        offset: list[str] | None,
        mode: Mode,
        **arguments: object,
    ) -> None:
        position = ReadPosition(
            token=token,
            snapshot_id=snapshot_id,
            as_of=None if as_of is None else _moment(as_of),
            offsets=offsets_of(offset) if offset else None,
            mode=mode,
        )
        function(*given, **arguments, position=position)

    own = [
        each for each in inspect.signature(function).parameters.values() if each.name != "position"
    ]
    run.__dict__["__signature__"] = inspect.Signature([*own, *_FLAGS.values()])
    return run


def offsets_of(texts: Sequence[str]) -> dict[Place, int]:
    """Parse offsets by bucket."""
    offsets: dict[Place, int] = {}
    for text in texts:
        found = _OFFSET.match(text.strip())
        if found is None:
            raise RequestError(
                f"{text!r} is not a valid value of --offset.",
                hint="Write it as BUCKET=OFFSET, such as 0=1500, or PARTITION/BUCKET=OFFSET.",
            )
        place = Place(found["partition"], int(found["bucket"]))
        if place in offsets:
            raise RequestError(f"--offset names bucket {found['bucket']} twice.")
        offsets[place] = int(found["offset"])
    return offsets


def _moment(text: str) -> datetime | int:
    return int(text) if text.strip().isdigit() else parse_time(text)


# `headwater scan`, `lookup` and `count`: the current rows of a table.

KEYS_AT_ONCE = 10_000

Columns = Annotated[
    str | None,
    typer.Option(
        help="Only these columns, in this order, separated by commas.",
        autocompletion=column_names,
    ),
]
WhereOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CONDITION",
        help="Only rows that match, such as 'amount > 10'; may be repeated.",
        autocompletion=column_names,
    ),
]
Limit = Annotated[int | None, typer.Option(min=0, help="Print at most this many rows.")]


@command(reads_lakes=True)
@positioned
def scan(
    session: CommandSession,
    table: TableName,
    *,
    columns: Columns = None,
    where: WhereOption = None,
    limit: Limit = None,
    position: ReadPosition,
) -> None:
    """Print the current rows of a table: all rows of a log, the last row of each primary key.

    Example: headwater scan orders --columns id,price --where "price > 10" --output csv
    """
    found = session.client.table(table)
    source = found if position == ReadPosition() else position.view(found)
    rows = source.scan(
        columns=listed([columns]) if columns else None,
        where=conditions(where, source.schema) if where else None,
        limit=limit,
    )
    session.rows(rows.schema, rows)


@command(reads_lakes=True)
def count(session: CommandSession, table: TableName) -> None:
    """Print the number of rows of a table.

    Example: headwater count orders --at ./data
    """
    found = session.client.table(table)
    rows = found.count()
    session.done(str(rows), {"table": str(found.path), "rows": rows})


@command()
def lookup(
    session: CommandSession,
    table: TableName,
    key: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE",
            help="Values of the key as NAME=VALUE; repeating a name starts another key. If the "
            "key has one column, the values are enough.",
        ),
    ] = None,
    *,
    columns: Columns = None,
    prefix: Annotated[
        bool, typer.Option("--prefix", help="The values are a prefix of the key.")
    ] = False,
) -> None:
    """Print the rows with these keys; without any, keys are read as JSON lines.

    If no row is found, the exit code is 4.

    Example: headwater lookup customers id=1 id=2 --at ./data
    """
    found = session.client.table(table)
    if not found.is_keyed:
        raise NotPrimaryKeyTableError(
            f"{found.path} has no primary key.", hint="Use: headwater scan --where"
        )
    named = found.info.schema.primary_key
    keys = [key_batch(key, found.schema, key=named)] if key else _keys_of_stdin(found)
    chosen = listed([columns]) if columns else None
    schema = found.schema if chosen is None else _projected(found.schema, chosen)
    read = found.prefix_lookup if prefix else found.lookup
    rows = (batch for part in keys for batch in read(part, columns=chosen).to_batches())
    if not session.rows(schema, rows):
        raise MissingError(f"{found.path} has no row with {'this key' if key else 'these keys'}.")


def key_batch(
    texts: Sequence[str], schema: pa.Schema, *, key: Sequence[str] = ()
) -> pa.RecordBatch:
    """Parse keys given as name=value; repeating a name starts another key.

    If the key has one column, the values are enough.
    """
    keys: list[dict[str, str]] = [{}]
    for text in texts:
        name, value = _named_value(text, schema, key)
        if name in keys[-1]:
            keys.append({})
        keys[-1][name] = value
    names = list(keys[0])
    if any(list(key) != names for key in keys):
        raise RequestError("The keys have different columns.", hint=f"The first has {names}.")
    columns = [pa.array([key[name] for key in keys], pa.string()) for name in names]
    arrays = [typed(c, schema.field(n).type) for n, c in zip(names, columns, strict=True)]
    return pa.record_batch(arrays, names=names)


def _named_value(text: str, schema: pa.Schema, key: Sequence[str]) -> tuple[str, str]:
    name, mark, value = text.partition("=")
    if name in schema.names and mark:
        return name, value
    if len(key) == 1 and not mark:
        return key[0], text
    wanted = " ".join(f"{each}=VALUE" for each in key or schema.names)
    raise RequestError(
        f"{text!r} is not a value of the key.",
        hint=f"Write the key as {wanted}; the columns are {', '.join(schema.names)}.",
    )


def _keys_of_stdin(table: "Table") -> Iterator[pa.RecordBatch]:
    source = InputFile(path=STDIN, format=Format.JSON)
    asked = pa.schema([field.with_nullable(nullable=True) for field in table.schema])
    # Imported here because most commands of this module read no files.
    for piece in import_module("headwater.cli.inputs").read_pieces(
        source, asked, batch_rows=KEYS_AT_ONCE
    ):
        given = [n for n in asked.names if piece.rows.column(n).null_count < piece.rows.num_rows]
        yield piece.rows.select(given)


def _projected(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    return pa.schema([schema.field(name) for name in names if name in schema.names])


# `headwater plan`: the splits that read a table.

SPLIT_TYPES = {
    "tier": pa.string(),
    "partition": pa.string(),
    "bucket": pa.int32(),
    "files": pa.int64(),
    "rows": pa.int64(),
    "bytes": pa.int64(),
    "start": pa.int64(),
    "end": pa.int64(),
}

AsJson = Annotated[bool, typer.Option("--json", help="The same as --output json.")]


@command(reads_lakes=True)
@positioned
def plan(
    session: CommandSession,
    table: TableName,
    *,
    columns: Columns = None,
    where: WhereOption = None,
    limit: Limit = None,
    json: AsJson = False,
    position: ReadPosition,
) -> None:
    """List the splits that read a table: lake files, offsets of logs, or both.

    As JSON it is one document with everything that a worker needs to read a split, and a token for
    the position.

    Example: headwater plan orders --where "price > 10" --json
    """
    view = position.view(session.client.table(table))
    chosen = listed([columns]) if columns else None
    wanted = conditions(where, view.schema) if where else None
    found = view.plan(columns=chosen, where=wanted, limit=limit)
    if json or session.output is Output.JSON:
        schema = view.value.table.schema
        told = None if wanted is None else Filter.of(wanted, schema)
        document = plan_document(view.value, found, columns=chosen, wanted=told)
        write(document_text(document, output=Output.JSON))
        return
    kinds = dict(SPLIT_TYPES)
    if not view.value.table.is_partitioned and session.output is Output.TABLE:
        del kinds["partition"]
    session.documents([_row(split) for split in found.splits], columns=kinds)


def _row(split: "UnionSplit") -> Document:
    files = () if split.lake is None else split.lake.files
    return {
        "tier": str(split.tier),
        "partition": split.partition,
        "bucket": split.bucket,
        "files": len(files),
        "rows": sum(file.row_count for file in files),
        "bytes": sum(file.byte_count for file in files),
        "start": None if split.log is None else split.log.start,
        "end": None if split.log is None else split.log.end,
    }


# `headwater explain`: how a table would be read, and what would be skipped.


@command(reads_lakes=True)
@positioned
def explain(
    session: CommandSession,
    table: TableName,
    *,
    columns: Columns = None,
    where: WhereOption = None,
    json: AsJson = False,
    position: ReadPosition,
) -> None:
    """Explain how a table would be read: tiers, files, offsets, what is skipped, how fresh it is.

    Example: headwater explain orders --where "day = '2026-03-01'"
    """
    view = position.view(session.client.table(table))
    told = view.explain(
        columns=listed([columns]) if columns else None,
        where=conditions(where, view.schema) if where else None,
    )
    if session.output is Output.TABLE and not json:
        write("".join(f"{clean(line)}\n" for line in str(told).splitlines()))
    else:
        output = Output.JSON if json else session.output
        write(document_text(told.to_json(), output=output))
