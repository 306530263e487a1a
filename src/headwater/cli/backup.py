"""`headwater backup` and `headwater restore`: copies of a storage that can be trusted."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.command import At, Debug
from headwater.cli.exits import ending
from headwater.cli.target import ADDRESS_DEFAULT, Directory, check_directory, parse_target
from headwater.errors import RequestError

if TYPE_CHECKING:
    from headwater.backup import BackupReport
    from headwater.backup.archive import Progress

Target = Annotated[Path, typer.Argument(metavar="DEST", help="New directory for the backup.")]
WithoutLake = Annotated[
    bool,
    typer.Option("--without-lake", help="Leave out the lake, where it is below the directory."),
]
Backup = Annotated[Path, typer.Argument(metavar="BACKUP", help="What headwater backup made.")]
Restored = Annotated[
    Path | None, typer.Argument(metavar="DIRECTORY", help="New data directory to make of it.")
]
VerifyOnly = Annotated[
    bool, typer.Option("--verify-only", help="Check every byte of the backup, and make nothing.")
]


def backup(
    target: Target,
    *,
    at: At = ADDRESS_DEFAULT,
    without_lake: WithoutLake = False,
    debug: Debug = False,
) -> None:
    """Copy a storage as it is at one moment, while its server goes on.

    Run it on the machine of the server, with --at and the data directory. A lake that is
    elsewhere is not copied: the backup refers to it.

    Example: headwater backup ./backups/monday --at ./data
    """
    with ending(debug=debug):
        directory = _directory(at)
        module = import_module("headwater.backup")
        with _bar("backup") as progress:
            report = module.backup(directory, target, with_lake=not without_lake, progress=progress)
        _tell(f"Backed up {directory} to {target}: {_amount(report)}.")
        if (directory / "lake").is_dir() and not report.has_lake:
            _tell("The lake is not in it.")


def restore(
    backup: Backup,
    directory: Restored = None,
    *,
    verify_only: VerifyOnly = False,
    debug: Debug = False,
) -> None:
    """Make a data directory of a backup, checked byte by byte.

    An interrupted restore goes on where it was. What was written after the backup is not in it:
    clients, cursors and tierers are told where they know more than the storage does.

    Example: headwater restore ./backups/monday ./data
    """
    with ending(debug=debug):
        if (directory is None) != verify_only:
            raise RequestError(
                "Give either a directory to restore to, or --verify-only.",
                hint=f"For instance: headwater restore {backup} ./data",
            )
        module = import_module("headwater.backup")
        with _bar("verify" if directory is None else "restore") as progress:
            if directory is None:
                report = module.verify(backup, progress=progress)
            else:
                report = module.restore(backup, directory, progress=progress)
        made = datetime.fromtimestamp(report.made_ms / 1000, UTC).isoformat(" ", "seconds")
        if directory is None:
            _tell(f"{backup} is whole: {_amount(report)}, made {made}.")
        else:
            _tell(f"Restored {directory} as of {made}: {_amount(report)}.")
            _tell(f"Start it with: headwater serve {directory}")


def _directory(at: str) -> Path:
    target = parse_target(at)
    if not isinstance(target, Directory):
        raise RequestError(
            f"A backup copies files, and {at} is the address of a server.",
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
    """Show a bar on standard error while a block runs, if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    progress_module, console = import_module("rich.progress"), import_module("rich.console")
    with progress_module.Progress(console=console.Console(stderr=True), transient=True) as progress:
        task = progress.add_task(name, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
