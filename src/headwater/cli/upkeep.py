"""`headwater backup`, `restore` and `repair`: an operator's work on server files."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.command import At, Debug, secret_values
from headwater.cli.commands import ending
from headwater.cli.output import Output
from headwater.cli.remote.options import Moment, RemoteOptions, is_remote
from headwater.cli.target import ADDRESS_DEFAULT, DataDirectory, check_directory, parse_target
from headwater.cli.target import DataDirectory as DirectoryTarget
from headwater.errors import RequestError

if TYPE_CHECKING:
    from headwater.backup import BackupReport
    from headwater.backup.archive import Progress

_REMOTE = "headwater.cli.remote.run"

# `headwater backup` and `headwater restore`: verified copies of a storage.

Target = Annotated[Path, typer.Argument(metavar="DEST", help="New directory for the backup.")]
WithoutLake = Annotated[
    bool,
    typer.Option("--without-lake", help="Leave out the lake, if it is below the directory."),
]
Backup = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="Directory that headwater backup created, or a remote storage: a directory or an "
        "address such as s3://BUCKET/PREFIX.",
    ),
]
Restored = Annotated[
    Path | None, typer.Argument(metavar="DIRECTORY", help="New data directory to create.")
]
VerifyOnly = Annotated[
    bool, typer.Option("--verify-only", help="Verify every byte of the backup, and create nothing.")
]


def backup(
    target: Target,
    *,
    at: At = ADDRESS_DEFAULT,
    without_lake: WithoutLake = False,
    debug: Debug = False,
) -> None:
    """Copy a storage as of one moment, while its server keeps running.

    Run it on the machine of the server, with --at and the data directory. A lake that is elsewhere
    is not copied: the backup refers to it.

    Example: headwater backup ./backups/monday --at ./data
    """
    with ending(debug=debug):
        directory = _directory(at)
        module = import_module("headwater.backup")
        with _bar("backup") as progress:
            report = module.backup(directory, target, with_lake=not without_lake, progress=progress)
        _tell(f"Backed up {directory} to {target}: {_amount(report)}.")
        if (directory / "lake").is_dir() and not report.has_lake:
            _tell("The lake is not included.")


def restore(
    backup: Backup,
    directory: Restored = None,
    *,
    verify_only: VerifyOnly = False,
    to: Moment = None,
    remote_option: RemoteOptions = None,
    debug: Debug = False,
) -> None:
    """Create a data directory from a backup or a remote storage, verified byte by byte.

    An interrupted restore continues where it stopped. Rows written after the backup are not in it:
    clients, cursors and tiering services that have seen them get an error.

    Example: headwater restore ./backups/monday ./data
    """
    with ending(debug=debug):
        if (directory is None) != verify_only:
            raise RequestError(
                "Pass either a directory to restore to, or --verify-only.",
                hint=f"For example: headwater restore {backup} ./data",
            )
        if is_remote(backup):
            _restore_remote(backup, directory, to=to, options=remote_option or [])
            return
        if to is not None or remote_option:
            raise RequestError(
                f"{backup} is a backup of one moment.",
                hint="--to and --remote-option are for remote storages.",
            )
        module, place = import_module("headwater.backup"), Path(backup)
        with _bar("verify" if directory is None else "restore") as progress:
            if directory is None:
                report = module.verify(place, progress=progress)
            else:
                report = module.restore(place, directory, progress=progress)
        made = datetime.fromtimestamp(report.made_ms / 1000, UTC).isoformat(" ", "seconds")
        if directory is None:
            _tell(f"{backup} is complete: {_amount(report)}, made {made}.")
        else:
            _tell(f"Restored {directory} as of {made}: {_amount(report)}.")
            _tell(f"Start it with: headwater serve {directory}")


def _restore_remote(
    address: str, directory: Path | None, *, to: str | None, options: list[str]
) -> None:
    # Imported here because only this command needs it.
    run, given = import_module(_REMOTE), secret_values(options, what="remote option")
    if directory is None:
        with _bar("verify") as progress:
            run.run_proof(address, options=given, output=Output.TABLE, progress=progress, until=to)
        return
    with _bar("restore") as progress:
        told = run.run_restore(address, directory, options=given, until=to, progress=progress)
    _tell("\n".join(told))


def _directory(at: str) -> Path:
    target = parse_target(at)
    if not isinstance(target, DataDirectory):
        raise RequestError(
            f"A backup copies files, but {at} is the address of a server.",
            hint="Run it on that machine, with --at and the server's data directory.",
        )
    check_directory(target, creates=False)
    return target.path


def _amount(report: "BackupReport") -> str:
    return f"{len(report.files):,} files, {report.byte_count / 1e6:,.1f} MB"


def _tell(words: str) -> None:
    typer.echo(words)


@contextmanager
def _bar(name: str) -> Iterator["Progress"]:
    """Show a progress bar on standard error inside the context, if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    progress_module, console = import_module("rich.progress"), import_module("rich.console")
    with progress_module.Progress(console=console.Console(stderr=True), transient=True) as progress:
        task = progress.add_task(name, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


# `headwater repair`: repair a bucket whose files are damaged.

_RUNNING = "headwater.cli.audit_run"

Directory = Annotated[Path, typer.Argument(help="Data directory that is not in use.")]
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
        help="End the log at this offset: it and everything after it is given up.",
    ),
]
BeginAt = Annotated[
    int | None,
    typer.Option(
        metavar="OFFSET",
        min=1,
        help="Start the log at this offset, if the lake has everything before it.",
    ),
]
RebuildState = Annotated[
    bool,
    typer.Option("--rebuild-state", help="Rebuild the current rows from the log."),
]
RebuildIndex = Annotated[
    bool,
    typer.Option("--rebuild-index", help="Rebuild indexes and checkpoint from the log."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and do nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairOptions:
    """The options of `headwater repair`."""

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
    """Repair a bucket whose files are damaged, if no copy of them can be restored.

    Stop the server first. No byte is deleted: what is cut off or replaced stays next to the log,
    under names that end in .cut-N or .aside-N. `headwater audit` says which bucket needs it.

    Example: headwater repair ./data orders --bucket 0 --cut-at 1200 --dry-run
    """
    with ending(debug=debug):
        check_directory(DirectoryTarget(directory), creates=False)
        wishes = [cut_at is not None, begin_at is not None, rebuild_state, rebuild_index]
        if wishes.count(True) != 1:
            raise RequestError(
                "Pass exactly one of the repairs.",
                hint="Use one of --cut-at, --begin-at, --rebuild-state and --rebuild-index.",
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
        # Imported here because only this command needs it.
        import_module(_RUNNING).run_repair(options)
