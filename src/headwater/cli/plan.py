"""`headwater plan`: the splits that give the rows of a table."""

from typing import TYPE_CHECKING, Annotated

import pyarrow as pa
import typer

from headwater.cli.command import command
from headwater.cli.naming import TableName
from headwater.cli.output import Document, Output, document_text
from headwater.cli.pairs import listed
from headwater.cli.positions import Position, positioned
from headwater.cli.read import Columns, Limit, WhereOption
from headwater.cli.session import Session, write
from headwater.cli.where import conditions
from headwater.client.reading.filters import Filter
from headwater.client.union.split_json import plan_document

if TYPE_CHECKING:
    from headwater.client.union.split import UnionSplit

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
    session: Session,
    table: TableName,
    *,
    columns: Columns = None,
    where: WhereOption = None,
    limit: Limit = None,
    json: AsJson = False,
    position: Position,
) -> None:
    """List the splits that give the rows of a table: files of the lake, offsets of logs, or both.

    As JSON it is one document with all that a worker needs to read a split, and a token for the
    position.

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
