"""`headwater run`: scripts in the SQL of Flink users, on Spark; without a script, a shell."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from headwater.cli.command import Debug, Shown, secret_values
from headwater.cli.commands import ending
from headwater.cli.output import Output
from headwater.cli.tier import Master, Remote, SparkOptions, SparkSettings
from headwater.errors import MissingError, RequestError

_RUNNING = "headwater.cli.pipelines.script"
# What the extras 'spark' and 'sql' bring.
_EXTRAS = frozenset({"pyspark", "py4j", "sqlglot"})

File = Annotated[
    Path | None,
    typer.Argument(metavar="[FILE]", help="Script to run; without one, a shell is started."),
]
Statements = Annotated[
    list[str] | None,
    typer.Option("--execute", "-e", metavar="SQL", help="Statements to run; may be repeated."),
]
Restart = Annotated[
    bool,
    typer.Option(
        "--restart", help="Begin the jobs anew: they read everything again, and write it again."
    ),
]
Once = Annotated[
    bool, typer.Option("--once", help="End when the jobs have read everything there is now.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A setting, as SET has it; may be repeated."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options of `headwater run`."""

    texts: Sequence[str] | None
    """What to run; None for a shell."""
    restart: bool
    once: bool
    settings: Mapping[str, str] = field(repr=False)
    spark: SparkOptions
    output: Output
    debug: bool


def run(
    file: File = None,
    *,
    execute: Statements = None,
    restart: Restart = False,
    once: Once = False,
    setting: Settings = None,
    master: Master = "local[*]",
    remote: Remote = None,
    spark: SparkSettings = None,
    output: Shown = Output.TABLE,
    debug: Debug = False,
) -> None:
    """Run pipelines written in the SQL of Flink users, on Spark.

    Each streaming INSERT is a job. The command goes on until all jobs have ended, or until it is
    stopped; when the script is run again, each job goes on where it was, and writes every row once.
    Without a file it is a shell on a terminal, otherwise it runs standard input. Needs the extras
    'spark' and 'sql'.

    Example: headwater run orders.sql
    """
    with ending(debug=debug):
        options = RunOptions(
            texts=_texts(file, execute),
            restart=restart,
            once=once,
            settings=secret_values(setting or (), what="setting"),
            spark=SparkOptions(
                master=master,
                remote=remote,
                config=secret_values(spark or (), what="Spark setting"),
            ),
            output=output,
            debug=debug,
        )
        _running().run_pipelines(options)


def _texts(file: Path | None, execute: list[str] | None) -> list[str] | None:
    """Collect what to run; None for a shell."""
    if file is not None and execute:
        raise RequestError("There are statements both in a file and on the command line.")
    if file is not None:
        if not file.is_file():
            raise MissingError(f"There is no file {file}.")
        return [file.read_text(encoding="utf-8")]
    if execute:
        return execute
    if sys.stdin.isatty() and sys.stdout.isatty():
        return None
    return [sys.stdin.read()]


def _running() -> ModuleType:
    try:
        # Imported here because only this command needs Spark.
        return import_module(_RUNNING)
    except ModuleNotFoundError as fault:
        package = (fault.name or "").partition(".")[0]
        if package not in _EXTRAS:
            raise
        raise MissingError(
            f"Pipelines need the package '{package}', which is not installed.",
            hint="Run: pip install 'headwater[spark,sql]'",
        ) from None
