"""`headwater repair`: mend a bucket whose files are damaged."""

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from headwater.cli.command import Debug
from headwater.cli.exits import ending
from headwater.cli.target import Directory as DirectoryTarget
from headwater.cli.target import check_directory
from headwater.errors import RequestError

_RUNNING = "headwater.cli.repair_running"

Directory = Annotated[Path, typer.Argument(help="Data directory that nobody has open.")]
TableName = Annotated[str, typer.Argument(metavar="TABLE", help="Table, as NAME or DATABASE.NAME.")]
Bucket = Annotated[int, typer.Option(min=0, help="Number of the bucket.")]
Partition = Annotated[
    str | None, typer.Option(help="Name of the partition, for a partitioned table.")
]
CutAt = Annotated[
    int | None,
    typer.Option(
        metavar="OFFSET",
        min=0,
        help="Let the log end at this offset: it and all after it are given up.",
    ),
]
BeginAt = Annotated[
    int | None,
    typer.Option(
        metavar="OFFSET",
        min=1,
        help="Let the log begin at this offset, where the lake holds all before it.",
    ),
]
RebuildState = Annotated[
    bool,
    typer.Option("--rebuild-state", help="Let the rows of keys be built anew from the log."),
]
RebuildIndex = Annotated[
    bool,
    typer.Option("--rebuild-index", help="Let indexes and checkpoint be made anew from the log."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairOptions:
    """Hold the options of `headwater repair`."""

    directory: Path
    table: str
    bucket: int
    partition: str | None
    cut_at: int | None
    begin_at: int | None
    rebuilds_state: bool
    dry_run: bool
    yes: bool


def repair(
    directory: Directory,
    table: TableName,
    *,
    bucket: Bucket,
    partition: Partition = None,
    cut_at: CutAt = None,
    begin_at: BeginAt = None,
    rebuild_state: RebuildState = False,
    rebuild_index: RebuildIndex = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    debug: Debug = False,
) -> None:
    """Mend a bucket whose files are damaged, where no copy of them can be restored.

    Stop the server first. No byte is deleted: what is cut off or replaced stays beside the log,
    under names that end in .cut-N or .aside-N. `headwater audit` says which bucket needs it.

    Example: headwater repair ./data orders --bucket 0 --cut-at 1200 --dry-run
    """
    with ending(debug=debug):
        check_directory(DirectoryTarget(directory), creates=False)
        wishes = [cut_at is not None, begin_at is not None, rebuild_state, rebuild_index]
        if wishes.count(True) != 1:
            raise RequestError(
                "Nothing says what to do, or several things do.",
                hint="Give one of --cut-at, --begin-at, --rebuild-state and --rebuild-index.",
            )
        options = RepairOptions(
            directory=directory,
            table=table,
            bucket=bucket,
            partition=partition,
            cut_at=cut_at,
            begin_at=begin_at,
            rebuilds_state=rebuild_state,
            dry_run=dry_run,
            yes=yes,
        )
        # Loaded here and not above: only this command needs all of it.
        import_module(_RUNNING).run_repair(options)
