"""A table as a document, and as a page for people."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import pyarrow as pa

from headwater.cli.layout import Look
from headwater.cli.output import Document, Output, document_text, form_of, table_of
from headwater.config.lake import shown_options
from headwater.model.table import TableInfo
from headwater.model.type_text import type_text

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
    """Return all that is known of a table."""
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
        "rows": rows,
        "partitions": [dict(partition) for partition in partitions],
        "offsets": list(offsets),
        "table_id": info.table_id,
        "schema_id": info.schema_id,
        "created": iso_time(info.created_ms),
        "modified": iso_time(info.modified_ms),
    }


def iso_time(millis: int) -> str:
    """Return a moment as people and programs read it."""
    return datetime.fromtimestamp(millis / 1000, UTC).isoformat(timespec="milliseconds")


def page(info: TableInfo, document: Document, look: Look) -> str:
    """Return a description for people: facts, then columns, options, partitions, offsets."""
    facts = {
        name.replace("_", " "): ", ".join(map(str, value)) if isinstance(value, list) else value
        for name, value in document.items()
        if name not in ("columns", "options", "partitions", "offsets") and value not in (None, [])
    }
    parts = [document_text(facts, output=Output.TABLE), _columns(info, look)]
    options = document["options"]
    if isinstance(options, dict) and options:
        parts.append(document_text(options, output=Output.TABLE))
    parts += [_partitions(document), _offsets(document, look)]
    return "\n".join(part for part in parts if part)


def _columns(info: TableInfo, look: Look) -> str:
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


def _offsets(document: Document, look: Look) -> str:
    offsets = document["offsets"]
    assert isinstance(offsets, list)
    kinds = dict(OFFSET_TYPES)
    if not document["partition_by"]:
        del kinds["partition"]
    return _rows(offsets, kinds, look)


def _rows(documents: Sequence[Document], kinds: Mapping[str, pa.DataType], look: Look) -> str:
    form = form_of(Output.TABLE, look)
    return "".join(map(form.rows, table_of(documents, columns=kinds).to_batches()))
