"""`headwater pipeline`: the pipelines of a storage, and what they are told to do."""

from typing import Annotated

import pyarrow as pa
import typer

from headwater.cli.command import CommandSession, command
from headwater.cli.output import Document
from headwater.errors import MissingError
from headwater.pipelines.ingest.journal import PipelineJournal, pipelines_in

pipeline_app = typer.Typer(
    help="List the pipelines that `headwater run FILE.yaml` runs, and steer them.",
    no_args_is_help=True,
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the pipeline.")]
_TYPES = {
    "pipeline": pa.string(),
    "state": pa.string(),
    "ranges_done": pa.int64(),
    "ranges": pa.int64(),
    "rows": pa.int64(),
    "epochs": pa.int64(),
    "position": pa.string(),
    "lag_bytes": pa.int64(),
}


@pipeline_app.command("list")
@command()
def list_pipelines(session: CommandSession) -> None:
    """List all pipelines.

    Example: headwater pipeline list --at localhost:9123
    """
    names = pipelines_in(session.client)
    session.documents([_document(session, name) for name in names], columns=_TYPES)


@pipeline_app.command()
@command()
def status(session: CommandSession, name: Name) -> None:
    """Show how far a pipeline is, as its process said last.

    Example: headwater pipeline status shop --at localhost:9123
    """
    _journal(session, name)
    session.document(_document(session, name))


@pipeline_app.command()
@command()
def pause(session: CommandSession, name: Name) -> None:
    """Hold a pipeline until it is resumed; the database keeps its log meanwhile.

    Example: headwater pipeline pause shop --at localhost:9123
    """
    _journal(session, name).want({"paused": True})
    session.done(f"{name} pauses", {"pipeline": name, "wanted": "paused"})


@pipeline_app.command()
@command()
def resume(session: CommandSession, name: Name) -> None:
    """Let a paused pipeline go on.

    Example: headwater pipeline resume shop --at localhost:9123
    """
    _journal(session, name).want({"paused": False})
    session.done(f"{name} goes on", {"pipeline": name, "wanted": "running"})


@pipeline_app.command()
@command()
def stop(session: CommandSession, name: Name) -> None:
    """Stop the process that runs a pipeline; it goes on where it was when it is run again.

    Example: headwater pipeline stop shop --at localhost:9123
    """
    _journal(session, name).want({"stop": True})
    session.done(f"{name} stops", {"pipeline": name, "wanted": "stopped"})


@pipeline_app.command()
@command()
def resnapshot(
    session: CommandSession,
    name: Name,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="Source table: schema.table.")],
) -> None:
    """Take a table again while changes are followed; rows that are gone are deleted.

    Example: headwater pipeline resnapshot shop public.orders --at localhost:9123
    """
    journal = _journal(session, name)
    found = journal.table_note(table)
    if found is None:
        raise MissingError(
            f"The pipeline '{name}' has no table {table}.", hint="Write schema.table."
        )
    held = journal.wanted().get("resnapshot") or {}
    assert isinstance(held, dict)
    number = int(str(found["generation"])) + 1
    journal.want({"resnapshot": {**held, table: number}})
    session.done(f"{name} takes {table} again", {"pipeline": name, "table": table})


def _journal(session: CommandSession, name: str) -> PipelineJournal:
    known = pipelines_in(session.client)
    if name not in known:
        listed = f"Known pipelines: {', '.join(known)}." if known else "None was ever run here."
        raise MissingError(f"There is no pipeline '{name}'.", hint=listed)
    return PipelineJournal(session.client, name)


def _document(session: CommandSession, name: str) -> Document:
    found = PipelineJournal(session.client, name).status()
    document: dict[str, str | int] = {"pipeline": name}
    for key in _TYPES:
        if isinstance(value := found.get(key), str | int):
            document[key] = value
    return document
