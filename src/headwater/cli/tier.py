"""`headwater tier`: rows from tables into their lake tables, on Spark."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Annotated

import typer

from headwater.cli import command
from headwater.cli.commands import ending
from headwater.cli.names import table_names
from headwater.cli.output import Output
from headwater.cli.target import (
    ADDRESS_DEFAULT,
    DataDirectory,
    Login,
    Target,
    check_credentials,
    check_directory,
    parse_target,
)
from headwater.config.client import Security
from headwater.errors import MissingError
from headwater.tiering.plan import TieringSettings

_DEFAULTS = TieringSettings()
_RUNNING = "headwater.cli.lake_run"
_SPARK = "headwater.cli.tier_spark"

Tables = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TABLE",
        help="Only these tables; default: all with table.datalake.enabled.",
        autocompletion=table_names,
    ),
]
LakeOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--lake",
        metavar="KEY=VALUE",
        help="An option of the lake catalog that overrides the server's, such as credentials; "
        "may be repeated.",
    ),
]

Once = Annotated[
    bool, typer.Option("--once", help="Exit when everything there is now has reached the lake.")
]
Poll = Annotated[
    float,
    typer.Option(
        parser=command.seconds,
        metavar="DURATION",
        help="Time before the server is asked for a table again: seconds, or '5 s'.",
    ),
]
RowsMax = Annotated[
    int, typer.Option(min=1, help="Rows of one bucket in one round; the rest waits for the next.")
]
BeginAnew = Annotated[
    bool,
    typer.Option(
        "--begin-anew",
        help="If both lake and log have lost rows, start with what the log still has.",
    ),
]
Master = Annotated[
    str,
    typer.Option(
        help="Spark master. If it is not local, workers need Headwater, and access to the "
        "server (not a data directory) and the warehouse.",
    ),
]
Here = Annotated[
    bool,
    typer.Option(
        "--here", help="Tier in this process, without Spark: for first steps and small tables."
    ),
]
Remote = Annotated[
    str | None,
    typer.Option(
        help="sc://HOST:PORT of Spark Connect, instead of a master; the same requirements apply."
    ),
]
SparkSettings = Annotated[
    list[str] | None,
    typer.Option("--spark", metavar="KEY=VALUE", help="A Spark setting; may be repeated."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkOptions:
    """Where Spark runs."""

    master: str
    remote: str | None
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TierOptions:
    """The options of `headwater tier`."""

    target: Target
    credentials: Login | None
    timeout_s: float
    waits: bool
    tables: Sequence[str]
    is_once: bool
    lake: Mapping[str, str] = field(repr=False)
    settings: TieringSettings
    spark: SparkOptions | None
    """None: without Spark, in this process."""
    output: Output


@command.secured
def tier(
    tables: Tables = None,
    *,
    once: Once = False,
    lake: LakeOptions = None,
    poll: Poll = _DEFAULTS.poll_interval_s,
    rows_max: RowsMax = _DEFAULTS.rows_max,
    begin_anew: BeginAnew = False,
    here: Here = False,
    master: Master = "local[*]",
    remote: Remote = None,
    spark: SparkSettings = None,
    at: command.At = ADDRESS_DEFAULT,
    user: command.User = None,
    password: command.Password = None,
    security: Security = (),
    timeout: command.Timeout = command.TIMEOUT_DEFAULT_S,
    wait: command.Wait = False,
    output: command.Shown = Output.TABLE,
    debug: command.Debug = False,
) -> None:
    """Copy new rows of tables into their lake tables, until stopped.

    Any number of these may run at the same time, and each may be killed at any time: every row
    reaches the lake exactly once. Each round is reported on standard error, and with --output json
    on standard output for programs. Needs the extra 'spark', except with --here, and the extra of
    the lake format.

    Example: headwater tier clicks --once --at ./data
    """
    with ending(debug=debug):
        command.warn_of_password(password)
        target = parse_target(at)
        if isinstance(target, DataDirectory):
            check_directory(target, creates=False)
        options = TierOptions(
            target=target,
            credentials=check_credentials(target, user=user, password=password, security=security),
            timeout_s=timeout,
            waits=wait,
            tables=command.listed(tables),
            is_once=once,
            lake=command.secret_values(lake or (), what="lake option"),
            settings=TieringSettings(
                poll_interval_s=poll, rows_max=rows_max, begins_anew=begin_anew
            ),
            spark=None
            if here
            else SparkOptions(
                master=master,
                remote=remote,
                config=command.secret_values(spark or (), what="Spark setting"),
            ),
            output=output,
        )
        if options.spark is None:
            import_module(_RUNNING).run_tierer(options)
        else:
            run_on_spark(options, options.spark)


def run_on_spark(options: TierOptions, spark: SparkOptions) -> None:
    """Run a tiering service on Spark."""
    try:
        # Imported here because only this command needs Spark.
        engine = import_module(_SPARK)
    except ModuleNotFoundError as fault:
        if (fault.name or "").partition(".")[0] not in ("pyspark", "py4j"):
            raise
        raise MissingError(
            f"Tiering needs Spark, and the package '{fault.name}' is not installed.",
            hint="Run: pip install 'headwater[spark]'; or tier in this process with --here.",
        ) from None
    with engine.spark_work(spark) as work:
        import_module(_RUNNING).run_tierer(options, work)
