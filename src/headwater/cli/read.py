"""`headwater scan`, `lookup` and `count`: the rows of a table as they are now."""

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Annotated

import pyarrow as pa
import typer

from headwater.cli.command import command
from headwater.cli.naming import TableName, column_names
from headwater.cli.pairs import listed
from headwater.cli.positions import Position, positioned
from headwater.cli.session import Session
from headwater.cli.sources import STDIN, Format, Source
from headwater.cli.typed import typed
from headwater.cli.where import conditions
from headwater.errors import MissingError, NotPrimaryKeyTableError, RequestError

if TYPE_CHECKING:
    from headwater.client.sync.table import Table

KEYS_AT_ONCE = 10_000

Columns = Annotated[
    str | None,
    typer.Option(
        help="Only these columns, in this order, with commas between them.",
        autocompletion=column_names,
    ),
]
WhereOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CONDITION",
        help="Only rows for which this holds, such as 'amount > 10'; may be repeated.",
        autocompletion=column_names,
    ),
]
Limit = Annotated[int | None, typer.Option(min=0, help="No more rows than this.")]


@command(reads_lakes=True)
@positioned
def scan(
    session: Session,
    table: TableName,
    *,
    columns: Columns = None,
    where: WhereOption = None,
    limit: Limit = None,
    position: Position,
) -> None:
    """Print the rows of a table as they are now: of a log all, by key the last of each.

    Example: headwater scan orders --columns id,price --where "price > 10" --output csv
    """
    found = session.client.table(table)
    source = found if position == Position() else position.view(found)
    rows = source.scan(
        columns=listed([columns]) if columns else None,
        where=conditions(where, source.schema) if where else None,
        limit=limit,
    )
    session.rows(rows.schema, rows)


@command(reads_lakes=True)
def count(session: Session, table: TableName) -> None:
    """Print the number of rows of a table.

    Example: headwater count orders --at ./data
    """
    found = session.client.table(table)
    rows = found.count()
    session.done(str(rows), {"table": str(found.path), "rows": rows})


@command()
def lookup(
    session: Session,
    table: TableName,
    key: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE",
            help="Values of the key; a name that comes again begins another key. Of a key of one"
            " column the values will do.",
        ),
    ] = None,
    *,
    columns: Columns = None,
    prefix: Annotated[
        bool, typer.Option("--prefix", help="The values are the beginning of a key.")
    ] = False,
) -> None:
    """Print the rows with these keys; without any, keys are read as JSON lines.

    Where no row is found, the exit code is 4.

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
    """Return keys that were written as name=value; a name that comes again begins another.

    Of a key of one column the values alone will do.
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
        f"{text!r} is no value of a key.",
        hint=f"Write the key as {wanted}; the columns are {', '.join(schema.names)}.",
    )


def _keys_of_stdin(table: "Table") -> Iterator[pa.RecordBatch]:
    source = Source(path=STDIN, format=Format.JSON)
    asked = pa.schema([field.with_nullable(nullable=True) for field in table.schema])
    # Loaded here and not above: most commands of this module read no files.
    for piece in import_module("headwater.cli.inputs").read_pieces(
        source, asked, batch_rows=KEYS_AT_ONCE
    ):
        given = [n for n in asked.names if piece.rows.column(n).null_count < piece.rows.num_rows]
        yield piece.rows.select(given)


def _projected(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    return pa.schema([schema.field(name) for name in names if name in schema.names])
