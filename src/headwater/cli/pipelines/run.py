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
_FORMS = "headwater.cli.pipelines.ingest_run"
_FORM_SUFFIXES = (".yaml", ".yml")
# What the extras 'spark' and 'sql' bring.
_EXTRAS = frozenset({"pyspark", "py4j", "sqlglot"})
_FORM_EXTRAS = frozenset({"pyspark", "py4j", "psycopg2", "yaml", "sqlglot"})

File = Annotated[
    Path | None,
    typer.Argument(
        metavar="[FILE]",
        help="Script to run, or a pipeline (.yaml); without one, a shell is started.",
    ),
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
Here = Annotated[
    bool,
    typer.Option("--here", help="Of a .yaml file: run all of it in this process, without Spark."),
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
    here: Here = False,
    setting: Settings = None,
    master: Master = "local[*]",
    remote: Remote = None,
    spark: SparkSettings = None,
    output: Shown = Output.TABLE,
    debug: Debug = False,
) -> None:
    """Run pipelines, on Spark: scripts in the SQL of Flink users, or a .yaml file.

    Each streaming INSERT is a job. The command goes on until all jobs have ended, or until it is
    stopped; when the script is run again, each job goes on where it was, and writes every row once.
    Without a file it is a shell on a terminal, otherwise it runs standard input. A file that ends
    in .yaml copies tables of a database and follows their changes until it is stopped. Needs the
    extras 'spark' and 'sql', and 'cdc' for .yaml.

    Example: headwater run orders.sql
    """
    with ending(debug=debug):
        if file is not None and file.suffix in _FORM_SUFFIXES:
            _check_form(execute, setting)
            given = SparkOptions(
                master=master,
                remote=remote,
                config=secret_values(spark or (), what="Spark setting"),
            )
            module = _running(_FORMS, _FORM_EXTRAS, "cdc,spark,sql")
            module.run_form(_text_of(file), spark=given, restart=restart, once=once, here=here)
            return
        if here:
            raise RequestError("--here is for .yaml files: statements in SQL run on Spark.")
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
        _running(_RUNNING, _EXTRAS, "spark,sql").run_pipelines(options)


def _check_form(execute: list[str] | None, setting: list[str] | None) -> None:
    """Refuse options that say nothing to a pipeline in YAML."""
    if execute or setting:
        given = "--execute" if execute else "--set"
        raise RequestError(f"{given} is for SQL: a .yaml file has settings of its own.")


def _texts(file: Path | None, execute: list[str] | None) -> list[str] | None:
    """Collect what to run; None for a shell."""
    if file is not None and execute:
        raise RequestError("There are statements both in a file and on the command line.")
    if file is not None:
        return [_text_of(file)]
    if execute:
        return execute
    if sys.stdin.isatty() and sys.stdout.isatty():
        return None
    return [sys.stdin.read()]


def _text_of(file: Path) -> str:
    if not file.is_file():
        raise MissingError(f"There is no file {file}.")
    return file.read_text(encoding="utf-8")


def _running(name: str, needed: frozenset[str], extras: str) -> ModuleType:
    try:
        # Imported here because only this command needs Spark.
        return import_module(name)
    except ModuleNotFoundError as fault:
        package = (fault.name or "").partition(".")[0]
        if package not in needed:
            raise
        raise MissingError(
            f"Pipelines need the package '{package}', which is not installed.",
            hint=f"Run: pip install 'headwater[{extras}]'",
        ) from None
