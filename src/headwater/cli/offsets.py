"""`headwater offsets`: where the logs of a table begin and end."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import pyarrow as pa
import typer

from headwater.cli.command import command
from headwater.cli.naming import TableName
from headwater.cli.output import Document
from headwater.cli.session import Session
from headwater.errors import RequestError

if TYPE_CHECKING:
    from headwater.client.reading.log_batch import Offsets


@command()
def offsets(
    session: Session,
    table: TableName,
    *,
    earliest: Annotated[bool, typer.Option("--earliest", help="Only the first.")] = False,
    latest: Annotated[
        bool, typer.Option("--latest", help="Only the one that is written next.")
    ] = False,
    time: Annotated[
        str | None,
        typer.Option(metavar="TIMESTAMP", help="Only the first written at that time or later."),
    ] = None,
) -> None:
    """Show the first offset of each bucket, and the one that is written next.

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
    """Return one row for each bucket with an offset of every kind."""
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
    """Return a moment that was written in ISO form; without a zone it is in UTC."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise RequestError(
            f"{text!r} is no moment.", hint="Write it like 2026-03-01T12:30:00Z."
        ) from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
