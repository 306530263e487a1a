"""Table names on the command line: parsed, completed and described."""

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import pyarrow as pa
import typer

from headwater.cli.output import Document, Output, TableStyle, document_text, form_of, table_of
from headwater.cli.target import ADDRESS_DEFAULT, Servers, check_credentials, opened, parse_target
from headwater.cluster.paths import DEFAULT_DATABASE
from headwater.config.client import SECURITY
from headwater.config.lake import shown_options
from headwater.config.options import ALTERABLE_NAMES, TABLE_OPTIONS
from headwater.config.spellings import BUCKET_COUNT_NAMES, SPELLINGS, without_effect
from headwater.errors import HeadwaterError
from headwater.model.table import TableInfo
from headwater.model.type_text import type_text

if TYPE_CHECKING:
    from headwater.client.sync.client import Client

# Names as arguments: tables, columns, cursors and options, completed with the help of a server.

COMPLETION_WITHIN_S = 1.0
OWN_DATABASE = "headwater"
"""Internal tables of clients: positions of cursors and sinks."""

All = Annotated[
    bool, typer.Option("--all", "-a", help=f"Also the internal database '{OWN_DATABASE}'.")
]


def shown_databases(client: "Client", *, shows_all: bool = False) -> list[str]:
    """List the databases to show, without the internal one unless asked for."""
    return [each for each in client.list_databases() if shows_all or each != OWN_DATABASE]


def table_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete table names; those of the default database are shown without it."""
    return _asked(ctx, lambda client: _tables(client, incomplete))


def _tables(client: "Client", incomplete: str) -> list[str]:
    is_long = incomplete.startswith(f"{DEFAULT_DATABASE}.")
    names = [
        name if database == DEFAULT_DATABASE and not is_long else f"{database}.{name}"
        for database in shown_databases(client)
        for name in client.list_tables(database)
    ]
    return _beginning(names, incomplete)


def column_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete column names of the table given, after a list with commas."""
    before, comma, last = incomplete.rpartition(",")
    # An option that still lacks its value keeps arguments from getting their names.
    table = str(ctx.params.get("table") or next(iter(ctx.args), ""))
    names = _asked(ctx, lambda client: _beginning(client.table(table).schema.names, last))
    return [f"{before}{comma}{name}" for name in names]


def cursor_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete cursor names."""
    return _asked(
        ctx, lambda client: _beginning({each.name for each in client.cursors.list()}, incomplete)
    )


def option_names(_: typer.Context, incomplete: str) -> list[str]:
    """Complete table options, ready for a value; names of other systems once one is begun."""
    foreign = (*SPELLINGS, BUCKET_COUNT_NAMES[0]) if incomplete else ()
    return [f"{name}=" for name in _beginning({*TABLE_OPTIONS, *foreign}, incomplete)]


def alterable_names(_: typer.Context, incomplete: str) -> list[str]:
    """Complete table options that can be altered."""
    return _beginning(ALTERABLE_NAMES, incomplete)


def _beginning(names: Iterable[str], incomplete: str) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete))


def _asked(ctx: typer.Context, ask: Callable[["Client"], list[str]]) -> list[str]:
    """Ask a server with a short timeout; a failure completes nothing."""
    with contextlib.suppress(HeadwaterError, OSError):
        target = parse_target(str(ctx.params.get("at") or ADDRESS_DEFAULT))
        # A directory is not opened for this: it may need recovery, or be in use.
        if isinstance(target, Servers):
            given = ((name, ctx.params.get(name)) for name in SECURITY)
            credentials = check_credentials(
                target,
                user=ctx.params.get("user"),
                password=ctx.params.get("password"),
                security=tuple((name, value) for name, value in given if value),
            )
            with opened(target, credentials, timeout_s=COMPLETION_WITHIN_S) as client:
                return ask(client)
    return []


TableName = Annotated[
    str,
    typer.Argument(
        metavar="TABLE", help="Table, as NAME or DATABASE.NAME.", autocompletion=table_names
    ),
]


# A table as a document, and as a page for people.

COLUMN_TYPES = {"column": pa.string(), "type": pa.string(), "key": pa.string()}
OFFSET_TYPES = {
    "partition": pa.string(),
    "bucket": pa.int32(),
    "earliest": pa.int64(),
    "latest": pa.int64(),
}
PARTITIONS_SHOWN_MAX = 20


def describe(
    info: TableInfo,
    *,
    partitions: Sequence[Mapping[str, str]],
    rows: int,
    offsets: Sequence[Document],
) -> Document:
    """Collect everything known of a table."""
    table, schema = info.descriptor, info.schema
    return {
        "table": str(info.path),
        "kind": "primary-key table" if info.is_keyed else "log table",
        "comment": table.comment,
        "columns": [
            {
                "name": column.name,
                "type": type_text(column.type),
                "comment": column.comment,
            }
            for column in schema.columns
        ],
        "primary_key": list(schema.primary_key),
        "auto_increment": list(schema.auto_increment),
        "partition_by": list(table.partition_keys),
        "bucket_by": list(table.bucket_keys),
        "buckets": info.bucket_count,
        "options": shown_options(
            dict(sorted({**table.properties, **table.custom_properties}.items()))
        ),
        "without_effect": without_effect(table),
        "rows": rows,
        "partitions": [dict(partition) for partition in partitions],
        "offsets": list(offsets),
        "table_id": info.table_id,
        "schema_id": info.schema_id,
        "created": iso_time(info.created_ms),
        "modified": iso_time(info.modified_ms),
    }


def iso_time(millis: int) -> str:
    """Format a time in ISO form."""
    return datetime.fromtimestamp(millis / 1000, UTC).isoformat(timespec="milliseconds")


def page(info: TableInfo, document: Document, look: TableStyle) -> str:
    """Format a description for people: facts, then columns, options, partitions, offsets."""
    facts = {
        name.replace("_", " "): ", ".join(map(str, value)) if isinstance(value, list) else value
        for name, value in document.items()
        if name not in ("columns", "options", "without_effect", "partitions", "offsets")
        and value not in (None, [])
    }
    parts = [document_text(facts, output=Output.TABLE), _columns(info, look)]
    options = document["options"]
    if isinstance(options, dict) and options:
        parts.append(document_text(options, output=Output.TABLE))
    idle = document["without_effect"]
    if isinstance(idle, dict) and idle:
        told = {f"{name} (no effect)": why for name, why in idle.items()}
        parts.append(document_text(told, output=Output.TABLE))
    parts += [_partitions(document), _offsets(document, look)]
    return "\n".join(part for part in parts if part)


def _columns(info: TableInfo, look: TableStyle) -> str:
    table = info.descriptor
    keys = {"primary": info.schema.primary_key, "partition": table.partition_keys}
    keys |= {"bucket": table.bucket_keys, "auto-increment": info.schema.auto_increment}
    rows = [
        {
            "column": column.name,
            "type": type_text(column.type),
            "key": " ".join(kind for kind, names in keys.items() if column.name in names),
            "comment": column.comment or "",
        }
        for column in info.schema.columns
    ]
    has_comments = any(row["comment"] for row in rows)
    kinds = COLUMN_TYPES | ({"comment": pa.string()} if has_comments else {})
    return _rows(rows, kinds, look)


def _partitions(document: Document) -> str:
    partitions = document["partitions"]
    assert isinstance(partitions, list)
    shown = ["/".join(each.values()) for each in partitions[:PARTITIONS_SHOWN_MAX]]
    more = len(partitions) - len(shown)
    tail = [f"and {more} more"] if more else []
    return f"partitions  {', '.join([*shown, *tail])}\n" if partitions else ""


def _offsets(document: Document, look: TableStyle) -> str:
    offsets = document["offsets"]
    assert isinstance(offsets, list)
    kinds = dict(OFFSET_TYPES)
    if not document["partition_by"]:
        del kinds["partition"]
    return _rows(offsets, kinds, look)


def _rows(documents: Sequence[Document], kinds: Mapping[str, pa.DataType], look: TableStyle) -> str:
    form = form_of(Output.TABLE, look)
    return "".join(map(form.rows, table_of(documents, columns=kinds).to_batches()))
